"""Finds out by a connection of our own whether a broker's address speaks TLS, and why its certificate cannot be verified.

librdkafka says neither. It reports a port that speaks another protocol as one that closes its connections, and every certificate that
cannot be verified by the same words. This module is asked only after a client has failed.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from typing import Literal

ANSWER_SECONDS_MAX = 1.0
"""The time for one connection. A fault has to be named within five seconds, and the client has had two of them."""

ADDRESSES_MAX = 3
"""How many of the bootstrap servers are asked: enough to find one that is up, and few enough to stay within the time."""

Found = Literal["nothing", "plain", "tls"]


def addresses(servers: str) -> list[tuple[str, int]]:
    """Host and port of each of `bootstrap.servers`. Kafka's default port is 9092."""
    found = []
    for server in servers.split(","):
        name = server.strip().rsplit("://", 1)[-1]
        host, colon, port = name.rpartition(":")
        if not colon or not port.isdigit():
            host, port = name, "9092"
        found.append((host.strip("[]"), int(port)))
    return found


def what_listens(servers: str) -> Found:
    """Returns what the first of these servers that accepts a connection speaks; "nothing" if none accepts one, or none answers in time."""
    for host, port in addresses(servers)[:ADDRESSES_MAX]:
        try:
            with socket.create_connection((host, port), ANSWER_SECONDS_MAX) as connection:
                return "tls" if _speaks_tls(connection, host) else "plain"
        except OSError:
            continue
    return "nothing"


def _speaks_tls(connection: socket.socket, host: str) -> bool:
    """A broker's listener without TLS closes the connection at once. Raises TimeoutError if nothing happens."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.wrap_socket(connection, server_hostname=host).close()
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "").upper()  # only TLS has alerts
    except TimeoutError:
        raise
    except OSError:
        return False
    return True


def why_not_verified(servers: str, options: Mapping[str, str]) -> str | None:
    """Returns why the certificate of a server cannot be verified, in OpenSSL's words; None if that is not found out. `options`: librdkafka's."""
    location = options.get("ssl.ca.location")
    try:
        context = ssl.create_default_context(cafile=location, cadata=options.get("ssl.ca.pem"))
    except OSError:
        return None
    context.check_hostname = options.get("ssl.endpoint.identification.algorithm", "https") != "none"
    for host, port in addresses(servers)[:ADDRESSES_MAX]:
        try:
            with socket.create_connection((host, port), ANSWER_SECONDS_MAX) as connection:
                context.wrap_socket(connection, server_hostname=host).close()
        except ssl.SSLCertVerificationError as error:
            return error.verify_message
        except OSError:
            continue
    return None
