"""Over IPv4 and IPv6."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from engine.resident import addresses
from engine.resident.addresses import host_towards, is_loopback, listening
from engine.resident.sockets import SocketTransport
from engine.resident.transport import Accepted
from tests.engine.resident.test_sockets import poll_until

HOSTS = ("127.0.0.1", "::1", "[::1]", "localhost")


@pytest.mark.parametrize("host", HOSTS)
def test_a_process_listens_and_is_found(host: str) -> None:
    with closing(SocketTransport(addresses.without_brackets(host))) as near:
        here = host_towards(host, near.address.port)
        with closing(SocketTransport(here)) as far:
            far.connect(near.address, 5.0)
            (event,) = poll_until(near, lambda events: bool(events))
            assert isinstance(event, Accepted)
    assert here == ("::1" if ":" in host else "127.0.0.1")


def test_of_a_name_with_addresses_of_both_that_of_ipv4_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [("::1", 0, 0, 0), ("127.0.0.1", 0)]
    families = {4: socket.AF_INET6, 2: socket.AF_INET}
    found = [(families[len(where)], socket.SOCK_STREAM, 6, "", where) for where in both]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with listening("both", 1) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize(
    ("host", "expected"),
    [*((host, True) for host in HOSTS), ("192.0.2.7", False), ("2001:db8::7", False), ("no.such.host.invalid", False)],
)
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_a_name_that_leads_elsewhere_too_is_not_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0)) for host in ("127.0.0.1", "192.0.2.7")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert not is_loopback("both")
