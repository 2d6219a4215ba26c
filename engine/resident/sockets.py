"""The real transport: TCP sockets of one process, without threads, with TLS if the run has a certificate.

Every socket is non-blocking, and `poll` moves bytes in both directions. So a worker that waits for its peers goes on sending to them. A
handshake of TLS is part of the first reads and writes, so it blocks nobody either.
"""

from __future__ import annotations

import array
import fcntl
import select
import selectors
import socket
import ssl
import termios
import threading
from collections import deque
from collections.abc import Iterator, Sequence

import pyarrow as pa

from base.logger import Logger
from engine.resident.addresses import listening
from engine.resident.frames import PREFIX, STRANGER_BYTES_MAX, Frame, FrameError, Prefix, decode, encode
from engine.resident.messages import SocketAddress
from engine.resident.tls import RunCertificate
from engine.resident.transport import Accepted, Arrived, Connection, Disconnected, Event

_log = Logger("engine.resident.sockets")

PARTS_MAX = 512
"""The number of buffers in one call of the system; Linux takes 1024."""

BACKLOG_MAX = 1024
"""Connections that wait to be accepted: that many workers may start at once."""

TLS_RECORD_BYTES = 16 << 10
"""The most that one record of TLS holds. Each one costs a call and a few bytes."""

WRITABLE_SECONDS_MAX = 0.2
"""The longest wait of a thread that has something to send, before it looks again whether the connection has ended."""

KEEPALIVE_SECONDS = 1
KEEPALIVE_PROBES = 4
"""The kernel asks a silent host once in KEEPALIVE_SECONDS. It ends the connection after KEEPALIVE_PROBES without an answer, so within 5 s."""


class SocketConnection:
    """A connection over a socket, as SocketTransport makes it."""

    def __init__(self, transport: SocketTransport, connected: socket.socket, *, trusted: bool) -> None:
        self._transport, self.socket = transport, connected
        self._bytes_max = None if trusted else STRANGER_BYTES_MAX
        self._lock = threading.RLock()
        self._outgoing: deque[memoryview] = deque()
        self._prefix = bytearray(PREFIX.size)
        self._taken_bytes = 0
        self._target: memoryview
        self._begin_frame()
        self.ended = False
        self.reason = ""

    def send(self, frame: Frame) -> None:
        with self._lock:
            self._queue(frame)
            self._write()

    def send_now(self, frame: Frame) -> None:
        with self._lock:
            self._queue(frame)
        while self.is_queued:
            with self._lock:
                self._write()
            if self.is_queued:
                _wait_until_writable(self.socket)

    def send_sign(self, frame: Frame) -> None:
        with self._lock:
            if not self._outgoing:
                self._queue(frame)
                self._write()

    @property
    def is_queued(self) -> bool:
        """Whether the network has not taken everything yet."""
        return bool(self._outgoing) and not self.ended

    def trust(self) -> None:
        self._bytes_max = None

    def bytes_arrived(self) -> int:
        unread = array.array("i", [0])
        try:
            fcntl.ioctl(self.socket, termios.FIONREAD, unread)
        except (OSError, ValueError):
            return self._taken_bytes  # it was closed in the meantime
        return self._taken_bytes + unread[0]

    def is_gone(self) -> bool:
        if self.ended:
            return True
        look = select.poll()
        try:
            look.register(self.socket, getattr(select, "POLLRDHUP", 0))  # errors and hang-ups are reported in any case
            return bool(look.poll(0))
        except (OSError, ValueError):
            return True

    def close(self) -> None:
        self._transport.forget(self)
        with self._lock:
            self._end("closed here")
            self.socket.close()

    def flush(self) -> None:
        """Sends what is queued, as far as the network takes it."""
        with self._lock:
            self._write()

    @property
    def has_read_ahead(self) -> bool:
        """Whether bytes have left the kernel that `receive` has not taken yet. `poll` would not be told of them."""
        return False

    def receive(self) -> Iterator[Frame]:
        """The frames that have arrived completely. Sets `ended` at the end of the connection."""
        while not self.ended:
            try:
                received = self._read_into(self._target)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as fault:
                self._end(f"{fault}")
                return
            if received == 0:
                self._end("the other end closed the connection")
                return
            self._taken_bytes += received
            if self._body is not None:
                self._transport.bytes_moved += received
            self._target = self._target[received:]
            try:
                while not len(self._target) and not self.ended:
                    frame = self._advance()
                    if frame is not None:
                        yield frame
                        if self._bytes_max is not None:
                            return  # a stranger's second frame is read when its first one was judged
            except FrameError as fault:
                self._end(f"{fault}")

    def _begin_frame(self) -> None:
        self._head: bytearray | None = None
        self._body: pa.Buffer | None = None
        self._target = memoryview(self._prefix)

    def _advance(self) -> Frame | None:
        """What follows the part of a frame that is complete: its next part, or the frame itself."""
        if self._head is None:
            prefix = Prefix.decode(self._prefix, bytes_max=self._bytes_max)
            self._head, self._body = bytearray(prefix.head_bytes), None
            self._body_bytes = prefix.body_bytes
            self._target = memoryview(self._head)
            return None
        if self._body is None:
            self._body = pa.allocate_buffer(self._body_bytes)
            self._target = memoryview(self._body)
            return None
        frame = decode(self._head, self._body)
        self._begin_frame()
        return frame

    def _queue(self, frame: Frame) -> None:
        if self.ended:
            return
        parts = [view for part in encode(frame) if (view := memoryview(part)).nbytes]
        if not frame.buffers:
            self._transport.bytes_moved -= sum(part.nbytes for part in parts)  # `_write` counts whatever it sends
        self._outgoing.extend(parts)

    def _write(self) -> None:
        while self._outgoing and not self.ended:
            batch = [self._outgoing[i] for i in range(min(PARTS_MAX, len(self._outgoing)))]
            try:
                sent = self._send_some(batch)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as fault:
                self._end(f"{fault}")
                return
            self._transport.bytes_moved += sent
            while sent:
                first = self._outgoing[0]
                if sent < first.nbytes:
                    self._outgoing[0] = first[sent:]
                    break
                sent -= first.nbytes
                self._outgoing.popleft()

    def _read_into(self, target: memoryview) -> int:
        """Raises BlockingIOError if nothing is there."""
        return self.socket.recv_into(target)

    def _send_some(self, parts: Sequence[memoryview]) -> int:
        """Sends a beginning of the parts, and returns its length in bytes. Raises BlockingIOError if the network takes nothing."""
        return self.socket.sendmsg(parts)

    def _end(self, reason: str) -> None:
        with self._lock:
            self.ended, self.reason = True, self.reason or reason
            self._outgoing.clear()


class TlsConnection(SocketConnection):
    """A connection over TLS. The state of a TLS connection belongs to both directions, so reading takes the lock as well."""

    def __init__(self, transport: SocketTransport, connected: ssl.SSLSocket, *, trusted: bool) -> None:
        super().__init__(transport, connected, trusted=trusted)
        self._tls = connected
        self._arrived_bytes = 0

    def bytes_arrived(self) -> int:
        """Bytes count with what TLS adds until they are read, and without it afterwards. So the largest count so far is told, which grows only
        if something arrives."""
        self._arrived_bytes = max(self._arrived_bytes, super().bytes_arrived())
        return self._arrived_bytes

    @property
    def has_read_ahead(self) -> bool:
        with self._lock:
            return not self.ended and self._tls.pending() > 0

    def _read_into(self, target: memoryview) -> int:
        with self._lock:
            try:
                return self._tls.recv_into(target)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as wait:
                raise BlockingIOError from wait

    def _send_some(self, parts: Sequence[memoryview]) -> int:
        first = parts[0]
        if first.nbytes < TLS_RECORD_BYTES:  # the head of a frame and what follows go into one record
            joined = bytearray()
            for part in parts:
                joined += part[: TLS_RECORD_BYTES - len(joined)].cast("B")
                if len(joined) == TLS_RECORD_BYTES:
                    break
            first = memoryview(joined)
        try:
            return self._tls.send(first)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as wait:
            raise BlockingIOError from wait


class SocketTransport:
    """Listens on a free port of `host`. With a certificate, each connection is encrypted, and both ends have to have it."""

    def __init__(self, host: str, certificate: RunCertificate | None = None) -> None:
        self._host = host
        self._contexts: dict[bool, ssl.SSLContext] | None = None
        if certificate is not None:
            self._contexts = {is_server: certificate.context(is_server=is_server) for is_server in (False, True)}
        self._selector = selectors.DefaultSelector()
        self._listener = listening(host, BACKLOG_MAX)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._watched: dict[SocketConnection, int] = {}
        self.bytes_moved = 0

    @property
    def address(self) -> SocketAddress:
        return SocketAddress(self._host, int(self._listener.getsockname()[1]))

    def connect(self, address: SocketAddress, seconds: float) -> Connection:
        return self._make_connection(socket.create_connection(address, timeout=seconds), is_server=False)

    def poll(self, seconds: float) -> list[Event]:
        events = self._close_ended()
        for watched in self._watched:
            self._watch(watched)
        for ahead in [connection for connection in self._watched if connection.has_read_ahead]:
            events += [Arrived(ahead, frame) for frame in ahead.receive()]
        for key, ready in self._selector.select(0 if events else seconds):
            if key.fileobj is self._listener:
                events += self._accept()
                continue
            connection: SocketConnection = key.data
            if ready & selectors.EVENT_WRITE:
                connection.flush()
            if ready & selectors.EVENT_READ:
                events += [Arrived(connection, frame) for frame in connection.receive()]
        return events + self._close_ended()

    def close(self) -> None:
        for connection in list(self._watched):
            connection.close()
        self._selector.unregister(self._listener)
        self._listener.close()
        self._selector.close()

    def _watch(self, connection: SocketConnection) -> None:
        """Has `poll` look at the connection, and also for room to write if something is queued."""
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.is_queued else 0)
        if self._watched[connection] != wanted:
            self._selector.modify(connection.socket, wanted, connection)
            self._watched[connection] = wanted

    def forget(self, connection: SocketConnection) -> None:
        if self._watched.pop(connection, None) is not None:
            self._selector.unregister(connection.socket)

    def _accept(self) -> list[Event]:
        events: list[Event] = []
        while True:
            try:
                connected, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return events
            except ConnectionAbortedError:
                continue  # whoever connected has gone again
            except OSError as fault:  # too many open files, or no memory: the listener is asked again at the next poll
                _log.warning("a connection cannot be accepted", reason=str(fault))
                return events
            events.append(Accepted(self._make_connection(connected, is_server=True)))

    def _close_ended(self) -> list[Event]:
        ended = [connection for connection in self._watched if connection.ended]
        for connection in ended:
            connection.close()
        return [Disconnected(connection, connection.reason) for connection in ended]

    def _make_connection(self, connected: socket.socket, *, is_server: bool) -> SocketConnection:
        """Whoever has connected to the listener is a stranger at first."""
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_KEEPIDLE"):  # not on macOS
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_SECONDS)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_SECONDS)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)
        connection: SocketConnection
        if self._contexts is None:
            connection = SocketConnection(self, connected, trusted=not is_server)
        else:
            wrapped = self._contexts[is_server].wrap_socket(
                connected, server_side=is_server, do_handshake_on_connect=False
            )
            connection = TlsConnection(self, wrapped, trusted=not is_server)
        self._selector.register(connection.socket, selectors.EVENT_READ, connection)
        self._watched[connection] = selectors.EVENT_READ
        return connection


def _wait_until_writable(connected: socket.socket) -> None:
    """Waits for at most WRITABLE_SECONDS_MAX. A socket that was closed in the meantime needs no wait."""
    try:
        select.select((), (connected,), (), WRITABLE_SECONDS_MAX)
    except (OSError, ValueError):
        return
