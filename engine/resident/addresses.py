"""Where a process of a run listens, and where others find it, over IPv4 and IPv6.

If a name has addresses of both, that of IPv4 is taken, so that the ends of a run choose the same. An address of IPv6 may stand in brackets, as
Spark writes it.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

SOME_PORT = 1
"""A port for the question which way leads to a host. Nothing is sent to it."""


def without_brackets(host: str) -> str:
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def listening(host: str, backlog: int) -> socket.socket:
    """On a free port of `host`. Raises OSError."""
    family, where = _resolve(host, 0)[0]
    return socket.create_server(where[:2], family=family, backlog=backlog)


def host_towards(host: str, port: int) -> str:
    """The address of this host on the route to the other one. On one machine it is loopback. Raises OSError."""
    family, where = _resolve(host, port or SOME_PORT)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(where)
        return str(probe.getsockname()[0])


def is_loopback(host: str) -> bool:
    """Whether all addresses of the host are. False for a name that has none."""
    try:
        return all(ipaddress.ip_address(where[0]).is_loopback for _, where in _resolve(host, 0))
    except (OSError, ValueError):
        return False


def _resolve(host: str, port: int) -> list[tuple[int, Any]]:
    """(family, address) of each address, those of IPv4 first; at least one. Raises OSError."""
    found = socket.getaddrinfo(without_brackets(host), port, type=socket.SOCK_STREAM)
    return sorted(((family, where) for family, _, _, _, where in found), key=lambda each: each[0] != socket.AF_INET)
