"""Connections between hosts: who may connect, and to whom the key is given."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

SOCKETS, TEST_SOCKETS = "engine/resident/sockets.py", "tests/engine/resident/test_sockets.py"
LAUNCHER, TEST_LAUNCHER = "engine/resident/spark_launcher.py", "tests/engine/resident/test_spark_launcher.py"

TLS = (
    Breakage(
        "any-certificate-will-do",
        "Whoever has any certificate may connect to a process of the run.",
        "5 fences",
        (Edit("engine/resident/tls.py", "ssl.CERT_REQUIRED\n", "ssl.CERT_NONE\n"),),
        (f"{TEST_SOCKETS}::test_whoever_lacks_the_certificate_of_the_run_is_not_heard",),
    ),
    Breakage(
        "key-on-an-open-channel",
        "Spark hands the key of the run out although others can read along.",
        "5 fences",
        (Edit(LAUNCHER, '        return "spark.authenticate=true"\n', '        return ""\n'),),
        (f"{TEST_LAUNCHER}::test_a_channel_that_is_not_secured_gets_no_key",),
    ),
    Breakage(
        "no-certificate-off-loopback",
        "Connections between hosts are not encrypted.",
        "5 fences",
        (Edit(LAUNCHER, "partial(SocketTransport, host, certificate)", "partial(SocketTransport, host)"),),
        (f"{TEST_LAUNCHER}::test_each_run_beyond_loopback_has_a_certificate_of_its_own",),
    ),
    Breakage(
        "decrypted-bytes-forgotten",
        "A frame that was decrypted together with the one before it waits until more bytes come.",
        "9 bounded",
        (Edit(SOCKETS, "self._tls.pending() > 0", "self._tls.pending() > 1 << 30"),),
        (f"{TEST_SOCKETS}::test_a_frame_that_was_decrypted_with_another_one_is_read_without_more_bytes",),
    ),
)
