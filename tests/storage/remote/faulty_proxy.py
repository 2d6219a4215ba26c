"""A proxy between a client and an S3 server that breaks on command. It knows as much of HTTP as it needs for that.

`break_when` chooses requests by their first line, and says what happens to them: an answer in place of the server's, a pause before it, silence,
or the connection is cut after some bytes of the request or of the answer. The rules stay until `heal`. Each connection carries one request,
because the server is asked to close it, so rules see every request.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

HEAD_BYTES_MAX = 1 << 16
ANSWER_SECONDS_MAX = 30
CHUNK_BYTES = 1 << 14
CODES = {400: "InvalidRequest", 403: "AccessDenied", 500: "InternalError", 503: "SlowDown", 507: "XMinioStorageFull"}
"""What S3 servers say with a status."""


@dataclass
class Rule:
    """What happens to requests whose first line matches `pattern`, in the first `times` of them."""

    pattern: str
    kind: Literal["status", "cut request", "cut answer", "silence", "delay"]
    value: int = 0
    """The status; the bytes after which the connection is cut; the milliseconds of a delay."""
    times: int = 1 << 30
    hits: int = 0


class FaultyProxy:
    """Listens on `port` of loopback, before the server at `server_port`."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._rules: list[Rule] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        self.requests: list[str] = []
        """The first lines of all requests."""
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def break_when(self, rule: Rule) -> Rule:
        with self._lock:
            self._rules.append(rule)
        return rule

    def heal(self) -> None:
        with self._lock:
            self._rules.clear()

    def close(self) -> None:
        self._over.set()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            client.settimeout(ANSWER_SECONDS_MAX)
            with suppress(OSError):  # either side has gone, which is what some rules are for
                self._pass(client)

    def _pass(self, client: socket.socket) -> None:
        head = _head(client)
        if not head:
            return
        line = head.split(b"\r\n", 1)[0].decode()
        rule = self._rule_for(line)
        if rule is not None and rule.kind == "silence":
            self._over.wait(ANSWER_SECONDS_MAX)
            return
        if rule is not None and rule.kind == "delay":
            self._over.wait(rule.value / 1000)
        cut = rule.value if rule is not None and rule.kind == "cut request" else None
        if b"100-continue" in head.lower():
            client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        head = re.sub(rb"(?i)\r\nexpect:[^\r]*", b"", head)
        if rule is not None and rule.kind == "status":
            _copy_body(client, head, lambda data: None, None)
            client.sendall(_answer(line, rule.value))
            return
        with socket.create_connection(("127.0.0.1", self._server_port), timeout=ANSWER_SECONDS_MAX) as server:
            server.sendall(re.sub(rb"(?i)\r\nconnection:[^\r]*", b"", head)[:-2] + b"Connection: close\r\n\r\n")
            if not _copy_body(client, head, server.sendall, cut):
                return
            left = rule.value if rule is not None and rule.kind == "cut answer" else 1 << 62
            while left > 0 and (data := server.recv(CHUNK_BYTES)):
                client.sendall(data[:left])
                left -= len(data)

    def _rule_for(self, line: str) -> Rule | None:
        with self._lock:
            self.requests.append(line)
            for rule in self._rules:
                if re.search(rule.pattern, line) and rule.hits < rule.times:
                    rule.hits += 1
                    return rule
        return None


def _answer(line: str, status: int) -> bytes:
    body = f"<Error><Code>{CODES[status]}</Code><Message>on command</Message></Error>" if line[:4] != "HEAD" else ""
    head = (
        f"HTTP/1.1 {status} Broken\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\nConnection: close"
    )
    return f"{head}\r\n\r\n{body}".encode()


def _head(client: socket.socket) -> bytes:
    """The head of a request, byte by byte, so that the body stays in the socket; empty if the client has gone."""
    head = b""
    while not head.endswith(b"\r\n\r\n") and len(head) < HEAD_BYTES_MAX:
        byte = client.recv(1)
        if not byte:
            return b""
        head += byte
    return head


def _copy_body(client: socket.socket, head: bytes, give: Callable[[bytes], None], cut: int | None) -> bool:
    """Copies the body of a request. False if it was cut after `cut` bytes."""
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    left = int(length[1]) if length else 0
    assert b"transfer-encoding" not in head.lower(), "the proxy does not know chunks"
    while left > 0:
        data = client.recv(min(CHUNK_BYTES, left))
        if not data:
            return False
        if cut is not None and (cut := cut - len(data)) <= 0:
            return False
        give(data)
        left -= len(data)
    return True
