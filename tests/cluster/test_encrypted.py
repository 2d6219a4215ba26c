"""Beyond loopback: the connections of a run are encrypted."""

from __future__ import annotations

import secrets
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from io_kafka.broker.jars import cache_folder
from stepwell.dev_cluster import spark_daemons
from stepwell.dev_cluster.spark_daemons import LocalSpark
from tests.conftest import Broker
from tests.stepwell.command_line import CommandLine


def own_address() -> str | None:
    """An IPv4 address of this machine that is not on loopback."""
    addresses = (a for interface in psutil.net_if_addrs().values() for a in interface if a.family == socket.AF_INET)
    return next((a.address for a in addresses if not a.address.startswith("127.")), None)


SECURED = {
    "spark.authenticate": "true",
    "spark.authenticate.secret": secrets.token_hex(16),
    "spark.network.crypto.enabled": "true",
}


@pytest.fixture
def secured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalSpark]:
    """A cluster whose processes know a secret."""
    options = tuple(f"-D{name}={value}" for name, value in SECURED.items())
    monkeypatch.setattr(spark_daemons, "_OPTIONS", (*spark_daemons._OPTIONS, *options))
    made = LocalSpark(tmp_path / "spark", workers=2)
    try:
        yield made.start(die_with_parent=True)
    finally:
        made.stop()


@pytest.mark.soak
def test_a_run_beyond_loopback_is_encrypted(
    secured: LocalSpark, broker: Broker, tmp_path: Path, topic_prefix: str
) -> None:
    host, servers = own_address(), broker.bootstrap_servers
    if host is None:
        pytest.skip("this machine has no address beyond loopback")
    cache = cache_folder().parents[1]
    made = CommandLine(tmp_path, servers, cache).done("init", topic_prefix.strip("-"))
    shop = CommandLine(Path(made["folder"]), servers, cache)
    settings = {"spark.master": secured.master_url, "spark.driver.host": host, "stepwell.workers": "2"}
    send = [sys.executable, "send.py", "300", servers]
    subprocess.run(send, cwd=shop.folder, check=True, capture_output=True)
    service = shop.start("run", *flags({**settings, **SECURED}))
    try:
        status = service.wait_until(lambda status: bool(status["rows"] == 320 and status["workers"]))
        assert all(
            is_encrypted(host, port) for port in listening(host, [worker["pid"] for worker in status["workers"]])
        )
        shop.done("stop")
        assert service.wait() == 0, service.said
    finally:
        service.end()


def flags(settings: dict[str, str]) -> list[str]:
    return [word for item in settings.items() for word in ("--conf", "=".join(item))]


def listening(host: str, pids: list[int]) -> list[int]:
    """The ports of these processes at the address, of which each has one."""
    found = [
        connection.laddr.port
        for pid in pids
        for connection in psutil.Process(pid).net_connections("tcp4")
        if connection.status == psutil.CONN_LISTEN and connection.laddr.ip == host
    ]
    assert len(found) == len(pids), found
    return found


def is_encrypted(host: str, port: int) -> bool:
    """Whether the listener shakes hands as TLS 1.3 says. (It then waits for a certificate that a stranger lacks.)"""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((host, port), 10.0) as stranger,
        context.wrap_socket(stranger) as wrapped,
    ):
        return wrapped.version() == "TLSv1.3"
