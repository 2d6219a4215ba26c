"""Ports of processes on this machine."""

from __future__ import annotations

import random
import socket
from collections.abc import Collection

PORTS = range(20_000, 32_000)
"""Below the range from which systems choose the ports of outgoing connections, which could occupy the port while its owner is down."""

PORT_TRIES_MAX = 3
"""Another process can occupy a port between the check and the owner's bind. Three times in a row has another cause."""

_SAMPLE = 100
"""If so many random ports are taken, something else is wrong than bad luck."""


def free_port(host: str, other_than: Collection[int] = ()) -> int | None:
    """A port of PORTS on which nothing listens; None if none was found."""
    for port in random.sample(PORTS, _SAMPLE):
        with socket.socket() as attempt:
            try:
                attempt.bind((host, port))
            except OSError:
                continue
        if port not in other_than:
            return port
    return None


def is_listening(address: str) -> bool:
    """Whether something accepts connections at `host:port`."""
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True
