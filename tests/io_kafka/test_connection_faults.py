"""What a client reports beside its calls becomes a fault with the reason and the way out. The texts are those of librdkafka 2.16."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from io_kafka.clients import connection_faults, positioned_consumer
from io_kafka.clients.connection_faults import ENDS_CONNECTIONS, ConnectionReports
from io_kafka.clients.consumed import Consumed, ConsumerEvent, Stretch
from io_kafka.clients.partition_position import PartitionPosition
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.step_log_reader import StepLogReader
from io_kafka.clients.tls_probe import addresses, what_listens, why_not_verified
from io_kafka.clients.topics import Topics
from io_kafka.errors import (
    BrokerNotTrusted,
    BrokerUnreachable,
    CannotConnect,
    CertificateRefused,
    LoginRefused,
    UnknownHost,
    WrongProtocol,
)
from io_kafka.messages import Messages
from io_kafka.offsets import TopicPartition
from io_kafka.outside import REAL
from tests.secured_broker import Authority

SERVERS = "kafka-1:9094"
ALL_DOWN = KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")
LOGIN = KafkaError(
    KafkaError._AUTHENTICATION,
    "sasl_ssl://kafka-1:9094/bootstrap: SASL authentication error: Authentication failed during authentication due to invalid credentials with "
    "SASL mechanism SCRAM-SHA-512 (after 314ms in state AUTH_REQ)",
)
CLOSED = KafkaError(
    KafkaError._TRANSPORT,
    "kafka-1:9094/bootstrap: Connect to ipv4#10.0.0.1:9094 failed: Connection refused (after 0ms in state CONNECT)",
)
UNKNOWN = KafkaError(
    KafkaError._RESOLVE,
    "kafka-1:9094/bootstrap: Failed to resolve 'kafka-1:9094': Name or service not known (after 1ms in state CONNECT)",
)
UNKNOWN_2 = KafkaError(
    KafkaError._RESOLVE,
    "kafka-2:9094/2: Failed to resolve 'kafka-2:9094': Name or service not known (after 1ms in state CONNECT)",
)


@pytest.fixture(autouse=True)
def answered_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test was answered is nothing to another one."""
    monkeypatch.setattr(connection_faults, "_ANSWERED", set())


def reports(*errors: KafkaError, servers: str = SERVERS, **options: str) -> ConnectionReports:
    found = ConnectionReports(servers, {name.replace("_", "."): value for name, value in options.items()})
    for error in errors:
        found.note(error)
    return found


class Case(NamedTuple):
    kind: type[CannotConnect]
    code: int
    text: str
    words: tuple[str, ...]
    options: dict[str, str] = {}  # noqa: RUF012


ALERT = "ssl://kafka-1:9094/bootstrap: Receive failed: error:0A000412:SSL routines::ssl/tls alert bad certificate: SSL alert number 42"
KERBEROS = "sasl_ssl://kafka-1:9094/bootstrap: Failed to initialize SASL authentication: SASL handshake failed (start ("
CASES = [
    Case(
        LoginRefused,
        KafkaError._AUTHENTICATION,
        LOGIN.str(),
        ("kafka-1:9094 refuses the login of user 'app'", "invalid credentials", "Correct kafka.sasl.username"),
        {"sasl_username": "app"},
    ),
    Case(
        LoginRefused,
        KafkaError._AUTHENTICATION,
        "sasl_ssl://kafka-1:9094/bootstrap: SASL PLAIN mechanism handshake failed: Broker: Unsupported SASL mechanism: broker's supported "
        "mechanisms: SCRAM-SHA-256,SCRAM-SHA-512 (after 303ms in state AUTH_HANDSHAKE)",
        ("Set kafka.sasl.mechanism to SCRAM-SHA-256 or SCRAM-SHA-512.",),
    ),
    Case(
        LoginRefused,
        KafkaError._AUTHENTICATION,
        "sasl_plaintext://kafka-1:9094/bootstrap: SASL SCRAM-SHA-512 mechanism handshake failed: Broker: Request not valid in current SASL "
        "state: broker's supported mechanisms:  (after 0ms in state AUTH_HANDSHAKE)",
        ("knows no login: set kafka.security.protocol to PLAINTEXT",),
        {"security_protocol": "SASL_PLAINTEXT"},
    ),
    Case(
        LoginRefused,
        KafkaError._AUTHENTICATION,
        "sasl_ssl://kafka-1:9094/bootstrap: SASL authentication error: OAUTHBEARER token is invalid (after 1ms in state AUTH_REQ)",
        ("kafka.sasl.oauthbearer", "token endpoint"),
    ),
    Case(
        LoginRefused,
        KafkaError._AUTHENTICATION,
        KERBEROS + "-4): SASL(-4): no mechanism available: No worthy mechs found (after 1ms in state AUTH_REQ)",
        (
            "no login at the Kafka broker at kafka-1:9094 is possible: SASL handshake failed",
            "Install",
            "libsasl2-modules-gssapi-mit",
        ),
        {"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"},
    ),
    Case(
        LoginRefused,
        KafkaError._AUTHENTICATION,
        KERBEROS
        + "-1): SASL(-1): generic failure: GSSAPI Error: No credentials were supplied, or the credentials were unavailable or "
        "inaccessible (No Kerberos credentials available (default cache: FILE:/tmp/krb5cc_0)) (after 1ms in state AUTH_REQ)",
        ("kinit has got no ticket", "kafka.sasl.kerberos.keytab"),
        {"security_protocol": "SASL_SSL", "sasl_mechanisms": "GSSAPI"},
    ),
    Case(
        LoginRefused,
        KafkaError._AUTHENTICATION,
        KERBEROS
        + "-1): SASL(-1): generic failure: GSSAPI Error: Unspecified GSS failure.  Minor code may provide more information (Server "
        "kafka/kafka-1@EXAMPLE.COM not found in Kerberos database) (after 1ms in state AUTH_REQ)",
        ("kafka.sasl.kerberos.service.name", "advertised.listeners"),
        {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "gssapi"},
    ),
    Case(
        BrokerNotTrusted,
        KafkaError._SSL,
        "sasl_ssl://kafka-1:9094/bootstrap: SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: broker certificate "
        "could not be verified (after 7ms in state SSL_HANDSHAKE)",
        ("kafka-1:9094 cannot be verified", "Set kafka.ssl.ca.location"),
    ),
    Case(
        WrongProtocol,
        KafkaError._TRANSPORT,
        "ssl://kafka-1:9094/bootstrap: SSL handshake failed: Disconnected: SSL connection closed by peer: connecting to a PLAINTEXT broker "
        "listener? (after 1ms in state SSL_HANDSHAKE)",
        ("is SSL, and", "does not speak TLS", "set kafka.security.protocol to PLAINTEXT"),
        {"security_protocol": "SSL"},
    ),
    Case(
        CertificateRefused,
        KafkaError._TRANSPORT,
        ALERT,
        ("asks for a client certificate, and none is set", "kafka.ssl.certificate.location"),
    ),
    Case(
        CertificateRefused,
        KafkaError._TRANSPORT,
        ALERT,
        ("refuses the client certificate /etc/own.pem", "broker trusts"),
        {"ssl_certificate_location": "/etc/own.pem"},
    ),
    Case(
        UnknownHost,
        KafkaError._RESOLVE,
        "kafka-1:9094/bootstrap: Failed to resolve 'kafka-1:9094': Name or service not known (after 1ms in state CONNECT)",
        ("kafka-1:9094 is not known: Name or service not known", "kafka.bootstrap.servers"),
    ),
    Case(
        UnknownHost,
        KafkaError._RESOLVE,
        "inner:9094/2: Failed to resolve 'inner:9094': Name or service not known (after 1ms in state CONNECT)",
        ("Broker 2 advertises that name", "advertised.listeners"),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.words[0])
def test_a_lasting_reason_is_named_with_what_to_do(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_faults, "what_listens", lambda servers: "plain")
    monkeypatch.setattr(connection_faults, "why_not_verified", lambda servers, options: None)
    fault = reports(KafkaError(case.code, case.text), ALL_DOWN, **case.options).refusal()
    assert type(fault) is case.kind
    assert all(word in str(fault) for word in case.words), str(fault)
    assert "in state" not in str(fault)


def test_an_expired_client_certificate_is_told_with_its_date(tmp_path: Path) -> None:
    certificate, _ = Authority(tmp_path, "authority").issue("client", days=-1)
    alert = "ssl://kafka-1:9094/bootstrap: Receive failed: ssl/tls alert certificate unknown: SSL alert number 46"
    fault = reports(KafkaError(KafkaError._TRANSPORT, alert), ssl_certificate_location=str(certificate)).refusal()
    assert isinstance(fault, CertificateRefused) and f"{certificate}: it has expired on 20" in str(fault)


def test_a_connection_that_is_refused_is_waited_for_and_explained_at_the_end() -> None:
    found = reports(CLOSED, ALL_DOWN)
    assert found.refusal() is None
    fault = found.explain(BrokerUnreachable(SERVERS, "asking", "timed out"))
    assert isinstance(fault, BrokerUnreachable)
    assert f"{SERVERS} while asking: Connect to ipv4#10.0.0.1:9094 failed: Connection refused." in str(fault)
    assert "dev up" not in str(fault)  # it is not a broker of this machine


def test_one_broker_that_may_come_back_is_a_reason_to_wait() -> None:
    other = KafkaError(KafkaError._RESOLVE, "gone:9094/bootstrap: Failed to resolve 'gone:9094': no such name")
    assert reports(CLOSED, other, ALL_DOWN, servers="kafka-1:9094,gone:9094").refusal() is None
    assert reports(other, servers="kafka-1:9094,gone:9094").refusal() is None  # nothing is known of the other one
    assert reports(LOGIN, other, servers="kafka-1:9094,gone:9094").refusal() is not None


def test_a_broker_that_another_one_has_named_does_not_speak_for_it() -> None:
    """The other two are up, so nothing is reported of them."""
    for servers in ("kafka-1:9094,kafka-2:9094,kafka-3:9094", "kafka-1:9094", "kafka-2:9094"):
        found = reports(UNKNOWN_2, servers=servers)
        assert found.refusal() is None
        fault = found.explain(BrokerUnreachable(servers, "asking", "timed out"))
        assert type(fault) is BrokerUnreachable
        assert "Failed to resolve 'kafka-2:9094'" in str(fault) and "broker 2 advertises that name" in str(fault)
        found.note(ALL_DOWN)
        assert isinstance(found.refusal(), UnknownHost)
    assert reports(UNKNOWN, UNKNOWN_2).refusal() is None  # broker 1 has named broker 2, and there may be a third one


def test_the_reason_is_the_last_one_of_all_brokers() -> None:
    found = reports(CLOSED, UNKNOWN_2)
    assert "Failed to resolve" in str(found.reason)
    found.note(CLOSED)
    assert "Connection refused" in str(found.reason)


# Of one process


class Away:
    """A client of a broker whose name is not known."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._note = config["error_cb"]

    def list_topics(self, timeout: float) -> None:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def get_watermark_offsets(self, partition: object, *, timeout: float, cached: bool) -> None:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def poll(self, seconds: float) -> None:
        self._note(UNKNOWN)
        self._note(ALL_DOWN)

    def close(self) -> None:
        """Nothing is held open."""


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def settings_away(clock: Clock, **changes: Any) -> KafkaSettings:
    outside = replace(REAL, admin=Away, consumer=Away, monotonic=lambda: clock.now, sleep=clock.sleep, **changes)
    return KafkaSettings((("bootstrap.servers", SERVERS),), outside)


def seconds_until_it_fails(clock: Clock, ask: Callable[[], object]) -> float:
    began = clock.now
    with pytest.raises(UnknownHost):
        ask()
    return clock.now - began


def test_an_answer_to_one_client_is_an_answer_to_all_of_the_process() -> None:
    """So that the look of a transition, by a client of its own, outlives a broker that restarts."""
    clock = Clock()
    settings = settings_away(clock)
    asks = [
        lambda: Topics(settings, timeout_s=30.0).names(),
        lambda: StepLogReader(settings, "steps", timeout_s=30.0).read(),
    ]
    assert [seconds_until_it_fails(clock, ask) for ask in asks] == [0.0, 0.0]
    settings.reports().answered()
    assert all(seconds_until_it_fails(clock, ask) > 25.0 for ask in asks)
    assert replace(settings, is_second=True).reports().has_answered
    assert not settings_away(clock, pid=lambda: -1).reports().has_answered
    assert not replace(settings, options=(*settings.options, ("sasl.password", "p"))).reports().has_answered


def test_what_was_reported_before_an_answer_is_no_reason_of_a_reader() -> None:
    settings, where = KafkaSettings.parse({"bootstrap.servers": "127.0.0.1:9"}), TopicPartition("t", 0)
    held = positioned_consumer.PositionedConsumer(settings)
    held.positions[where] = PartitionPosition(0, 0)
    nothing = pa.nulls(1, pa.binary())
    stretch = Stretch(where, Messages.plain(nothing, nothing, pa.array([0], pa.int64())), -1, -1)
    end = ConsumerEvent(KafkaError(KafkaError._PARTITION_EOF), where, 1)
    for answer in (Consumed([stretch], []), Consumed([], [end])):
        held._note(CLOSED)
        held._note(ALL_DOWN)
        assert held.trouble == CLOSED.str()
        held._take_in(answer)
        assert held.trouble == positioned_consumer.NO_ANSWER and held.reports.reason is None
        held._note(ALL_DOWN)
        assert held.trouble == ALL_DOWN.str()
    held.close()


# Of one client


def test_a_client_that_was_answered_waits_for_a_login_too() -> None:
    found = reports(CLOSED)
    found.answered()
    assert found.reason is None
    found.note(LOGIN)
    found.note(ALL_DOWN)
    assert found.refusal() is None
    assert isinstance(found.explain(BrokerUnreachable(SERVERS, "asking", "timed out")), LoginRefused)


def test_a_token_that_is_not_given_is_a_reason_of_no_broker() -> None:
    text = 'Failed to acquire SASL OAUTHBEARER token: {"error":"invalid_client"}'
    found = reports(CLOSED, KafkaError(KafkaError._AUTHENTICATION, text))
    fault = found.refusal()
    assert isinstance(fault, LoginRefused) and text in str(fault) and "token endpoint" in str(fault)
    assert found.reason == text
    found.answered()
    assert found.reason is None


def test_connections_that_end_without_a_reason_are_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    def listens(what: str) -> None:
        monkeypatch.setattr(connection_faults, "what_listens", lambda servers: what)

    listens("tls")
    fault = reports(ALL_DOWN).refusal()
    assert isinstance(fault, WrongProtocol) and "speaks TLS" in str(fault)
    found = reports(ALL_DOWN, security_protocol="SSL")
    assert found.refusal() is None
    assert ENDS_CONNECTIONS in str(found.explain(BrokerUnreachable(SERVERS, "asking", "timed out")))
    listens("nothing")
    assert reports(ALL_DOWN).refusal() is None
    assert "timed out" in str(reports(ALL_DOWN).explain(BrokerUnreachable(SERVERS, "asking", "timed out")))
    assert reports().refusal() is None


# What listens


@contextmanager
def listener(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that serves one connection after the other; its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    serve(connection)

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def test_what_listens_and_why_its_certificate_is_not_trusted(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path, "authority"), Authority(tmp_path, "stranger")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("broker"))

    def speak_tls(connection: socket.socket) -> None:
        try:
            context.wrap_socket(connection, server_side=True).close()
        except OSError:
            return

    ended = threading.Event()

    def say_nothing(connection: socket.socket) -> None:
        ended.wait(10.0)

    with listener(speak_tls) as secure, listener(lambda connection: None) as plain, listener(say_nothing) as silent:
        assert what_listens(secure) == "tls" and what_listens(plain) == "plain"
        assert what_listens(silent) == "nothing"
        assert what_listens("127.0.0.1:9") == "nothing" and what_listens(f"127.0.0.1:9,{secure}") == "tls"
        assert why_not_verified(secure, {"ssl.ca.location": str(authority.file)}) is None
        why = why_not_verified(secure, {"ssl.ca.location": str(stranger.file)})
        assert why is not None and "issuer" in why
        assert why_not_verified(secure, {"ssl.ca.location": str(tmp_path / "none")}) is None
        ended.set()


def test_addresses_are_read_as_clients_read_them() -> None:
    assert addresses("a:1, SSL://b:2,[::1]:3,c") == [("a", 1), ("b", 2), ("::1", 3), ("c", 9092)]
