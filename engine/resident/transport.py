"""What the coordinator and a worker need of a network: connections that carry frames, and one call that waits for what arrives on any of them.

`SocketTransport` (sockets.py) is the real one. The simulator has its own, with delays and losses.

Guarantees of every transport: frames of a connection arrive in the order in which they were sent, each completely or not at all. `send` never
waits for the other end, so two workers that send to each other cannot block each other. A connection that ended is reported once.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from engine.resident.frames import Frame
from engine.resident.messages import SocketAddress


class Connection(Protocol):
    """One end of a connection. A connection that was accepted takes only small frames until `trust` is called."""

    def send(self, frame: Frame) -> None:
        """Queues the frame. What the network does not take at once is sent by later calls of `poll`. A connection that ended drops it."""

    def send_now(self, frame: Frame) -> None:
        """Sends the frame and everything before it, from any thread, and waits until the network has taken it. A connection that ended drops
        it."""

    def send_sign(self, frame: Frame) -> None:
        """Queues a sign of life, from any thread, unless something is queued: that is a sign of life too. Never waits."""

    def trust(self) -> None:
        """The other end has shown the run's token, so its frames may be large."""

    def bytes_arrived(self) -> int:
        """How many bytes have come from the other end, also those that `poll` has not taken yet. Any thread may ask."""

    def is_gone(self) -> bool:
        """Whether the other end has closed the connection or the network has lost it, even before `poll` reports it. Any thread may ask."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Accepted:
    """Somebody has connected to the listener."""

    connection: Connection


@dataclass(frozen=True)
class Arrived:
    connection: Connection
    frame: Frame


@dataclass(frozen=True)
class Disconnected:
    """The other end closed the connection, the network lost it, or what arrived was no frame."""

    connection: Connection
    reason: str


Event = Accepted | Arrived | Disconnected


class Transport(Protocol):
    """One process's connections, used by one thread, except where a method says more."""

    @property
    def address(self) -> SocketAddress:
        """Where others can connect."""

    def connect(self, address: SocketAddress, seconds: float) -> Connection:
        """A connection to a listener. Raises ConnectionError if there is none within `seconds`."""

    @property
    def bytes_moved(self) -> int:
        """About how many bytes all connections have sent and received, without frames that have no buffers, such as signs of life."""

    def poll(self, seconds: float) -> list[Event]:
        """What has arrived. Waits for the first event for at most `seconds`. Also sends what is queued."""

    def close(self) -> None:
        """Closes the listener and all connections."""


class Events:
    """What arrives, one by one. An event that raises an exception where it is handled does not take others with it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._waiting: deque[Event] = deque()

    def next(self, seconds: float) -> Event | None:
        """The next event; None if there is none within `seconds`."""
        if not self._waiting:
            self._waiting.extend(self._transport.poll(seconds))
        return self._waiting.popleft() if self._waiting else None
