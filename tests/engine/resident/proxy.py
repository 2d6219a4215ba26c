"""A TCP proxy between two processes of a run: it can delay what passes, swallow it, or cut the connections."""

from __future__ import annotations

import queue
import socket
import threading
import time

CHUNK_BYTES = 1 << 16


class Proxy:
    """Listens on a port of its own and forwards to `target`. All fields may be changed at any time.

    `delay_s`: how long each chunk waits. `swallows`: what arrives is read and thrown away, so both ends believe in a connection that carries
    nothing (half-open). `limit`: after this many bytes from those who connected, all connections are reset in the middle of what they carry."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server((target[0], 0))
        self._sockets: list[socket.socket] = [self._listener]
        self._passed = 0
        self.delay_s = 0.0
        self.swallows = False
        self.limit: int | None = None
        self._spawn(self._accept)

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def cut(self) -> None:
        """Resets every connection, and accepts no more."""
        for each in self._sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # it has ended already
        for each in self._sockets:
            each.close()

    def _spawn(self, body: object, *arguments: object) -> None:
        threading.Thread(target=body, args=arguments, daemon=True).start()  # type: ignore[arg-type]

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._target)
            except OSError:
                return
            self._sockets += [near, far]
            for source, target, counts in ((near, far, True), (far, near, False)):
                chunks: queue.Queue[tuple[float, bytes]] = queue.Queue()
                self._spawn(self._receive, source, chunks, counts)
                self._spawn(self._send, target, chunks)

    def _receive(self, source: socket.socket, chunks: queue.Queue[tuple[float, bytes]], counts: bool) -> None:
        data = b"-"
        while data:
            try:
                data = source.recv(CHUNK_BYTES)
            except OSError:
                data = b""
            is_cut = False
            if counts and self.limit is not None:
                is_cut = len(data) > self.limit - self._passed
                data = data[: max(0, self.limit - self._passed)]
                self._passed += len(data)
            if not self.swallows or not data:
                chunks.put((time.monotonic() + self.delay_s, data))
            if is_cut:
                chunks.put((time.monotonic(), b""))
                return

    def _send(self, target: socket.socket, chunks: queue.Queue[tuple[float, bytes]]) -> None:
        while True:
            due, data = chunks.get()
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                if not data:
                    target.shutdown(socket.SHUT_RDWR)
                    return
                target.sendall(data)
            except OSError:
                return
