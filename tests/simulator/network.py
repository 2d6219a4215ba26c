"""The network between a coordinator and its workers: `engine/resident/transport.py` in the world's time.

Frames of one connection arrive in the order in which they were sent. Each is delayed by chance, so frames of different connections arrive in any
order. What can go wrong with a connection is drawn when a frame is sent:

    broken       both ends are told some time later; what was under way is lost
    half-open    frames vanish in one direction or in both. The kernel notices after some seconds, because it asks a silent host for a sign of
                 life; of the connection between a coordinator and a worker it may notice nothing
    stalled      the next frames of one direction take seconds

If a process dies, the kernel closes its connections: the other ends get what was sent before, or lose it, and then the end. If a process is
stopped, nothing happens but silence. A port is given out again as soon as it is free, so a late worker may connect to a stranger.

Every call that another process could notice goes through a point of the world first.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Protocol

from engine.resident.frames import Frame
from engine.resident.messages import SocketAddress
from engine.resident.transport import Accepted, Arrived, Disconnected, Event
from tests.simulator.scheduler import Process, Scheduler

HOST = "machine"
DELAYS = (0.0001, 0.0004, 0.0004, 0.001, 0.003)
"""Of a frame, in seconds: about as long as a process takes from one point to the next, and sometimes longer."""

STALLS = (0.3, 1.0, 3.0, 8.0)
NOTICED = (0.0005, 0.0005, 0.1, 2.0)
"""After how long an end is told that its connection is broken."""

KEEPALIVE = (2.0, 5.0, 8.0)
"""After how long the kernel gives up a host that does not answer."""

CONNECT_FATES = ("refused", "no answer")
FRAME_FATES = ("broken", "half-open", "stalled")


class Surroundings(Protocol):
    """What the network asks of its world."""

    rng: random.Random
    scheduler: Scheduler

    @property
    def now(self) -> float: ...
    def point(self, place: str) -> None: ...
    def pass_time(self, seconds: float) -> None: ...
    def fate(self, place: str, fates: Sequence[str]) -> str | None: ...
    def tell(self, what: str) -> None: ...
    def acting(self) -> Process: ...


class SimConnection:
    """One end. `coming`: frames with the time at which they arrive, in order; None stands for the connection itself, at an end that accepts it.
    `ends_at`: when this process is told that it is over. `is_cut`: what is sent from here arrives nowhere."""

    def __init__(self, transport: SimTransport) -> None:
        self.transport = transport
        self.peer: SimConnection
        self.coming: deque[tuple[float, Frame | None]] = deque()
        self.ends_at: float | None = None
        self.reason = ""
        self.is_cut = self.is_closed = False
        self._last_due = 0.0
        self._taken = 0

    # As engine.resident.transport.Connection

    def send(self, frame: Frame) -> None:
        network = self.transport.network
        network.world.point("frame")
        if self.is_closed or self.peer.is_closed:
            return
        network.befall(self)
        if not self.is_cut:
            self.peer.deliver(frame)

    send_now = send_sign = send

    def trust(self) -> None:
        """Frames have no bytes here, so none is too large."""

    def bytes_arrived(self) -> int:
        now = self.transport.network.world.now
        return self._taken + sum(due <= now for due, _ in self.coming)

    def is_gone(self) -> bool:
        return self.is_closed or (self.ends_at is not None and self.ends_at <= self.transport.network.world.now)

    def close(self) -> None:
        self.transport.network.world.point("close")
        self.shut()

    # Inside

    def shut(self) -> None:
        """This end is gone: the other one gets what is under way, and is told then. It may lose it if something was not taken here."""
        if self.is_closed:
            return
        self.is_closed = True
        self.transport.forget(self)
        network = self.transport.network
        if self.coming and network.world.rng.random() < 0.5:
            self.peer.lose(0)
        if not self.is_cut:
            self.peer.end(network.delay(), "the other end closed the connection")

    def deliver(self, frame: Frame | None) -> None:
        """It arrives after everything that was sent before."""
        network = self.transport.network
        self._last_due = max(self._last_due, network.world.now + network.delay())
        self.coming.append((self._last_due, frame))
        self.transport.wake(self._last_due)

    def stall(self, seconds: float) -> None:
        self._last_due = max(self._last_due, self.transport.network.world.now + seconds)

    def end(self, seconds: float, reason: str) -> None:
        """This process is told so much later, and after what is under way."""
        now = self.transport.network.world.now
        self._end_at(max(self._last_due, now + seconds), reason)

    def time_out(self, seconds: float) -> None:
        """The kernel gives up the other end so much later, whatever arrives until then."""
        self._end_at(self.transport.network.world.now + seconds, "the other end does not answer")

    def _end_at(self, at: float, reason: str) -> None:
        if not self.is_closed and (self.ends_at is None or at < self.ends_at):
            self.ends_at, self.reason = at, reason
            self.transport.wake(at)

    def lose(self, kept: int) -> None:
        """What is under way to this end is lost, but for the first of it."""
        while self.coming and self.coming[-1][0] > self.transport.network.world.now and len(self.coming) > kept:
            self.coming.pop()
        self._last_due = self.coming[-1][0] if self.coming else 0.0

    @property
    def next_due(self) -> float | None:
        if self.coming and (self.ends_at is None or self.coming[0][0] <= self.ends_at):
            return self.coming[0][0]
        return self.ends_at

    def take(self, now: float) -> Iterator[Event]:
        """What has arrived until now. After the end nothing comes any more."""
        while self.coming and self.coming[0][0] <= min(now, self.ends_at or now):
            _, frame = self.coming.popleft()
            self._taken += 1
            yield Accepted(self) if frame is None else Arrived(self, frame)
        if self.ends_at is not None and self.ends_at <= now:
            self.is_closed = True
            self.transport.forget(self)
            yield Disconnected(self, self.reason)


class SimTransport:
    """One process's connections, of the process that makes it."""

    def __init__(self, network: Network) -> None:
        self.network, self.process = network, network.world.acting()
        self.connections: list[SimConnection] = []
        self._address = network.listen(self)
        self._wake_at: float | None = None  # for the strand that polls

    @property
    def address(self) -> SocketAddress:
        return self._address

    @property
    def bytes_moved(self) -> int:
        """Frames have no bytes here: each counts as one."""
        return sum(connection._taken for connection in self.connections)

    def connect(self, address: SocketAddress, seconds: float) -> SimConnection:
        network, world = self.network, self.network.world
        world.point("connect")
        fate = world.fate("connect", CONNECT_FATES)
        if fate == "no answer":
            world.pass_time(seconds)
            raise TimeoutError(f"{address} does not answer")
        listener = network.listeners.get(address)
        if listener is None or fate == "refused":
            raise ConnectionRefusedError(f"nobody listens at {address}")
        near, far = SimConnection(self), SimConnection(listener)
        near.peer, far.peer = far, near
        self.connections.append(near)
        listener.connections.append(far)
        far.deliver(None)
        world.point("connected")
        return near

    def poll(self, seconds: float) -> list[Event]:
        world = self.network.world
        deadline = world.now + seconds
        while True:
            now = world.now
            due = [c for c in self.connections if (at := c.next_due) is not None and at <= now]
            if due:
                world.point("arrived")
                world.rng.shuffle(due)
                return [event for connection in due for event in connection.take(world.now)]
            if now >= deadline:
                return []
            self._wait(min([deadline, *(at for c in self.connections if (at := c.next_due) is not None)]))

    def close(self) -> None:
        self.network.world.point("close")
        self.shut()

    def shut(self) -> None:
        self.network.listeners.pop(self._address, None)
        for connection in list(self.connections):
            connection.shut()

    def forget(self, connection: SimConnection) -> None:
        if connection in self.connections:
            self.connections.remove(connection)

    def wake(self, at: float) -> None:
        """Something arrives then, and a strand that polls must not sleep longer."""
        if self._wake_at is not None and self._strand.deadline is not None:
            self._strand.deadline = min(self._strand.deadline, at)

    def _wait(self, until: float) -> None:
        scheduler = self.network.world.scheduler
        self._strand, self._wake_at = scheduler.current, until
        try:
            self.network.world.pass_time(until - scheduler.now)
        finally:
            self._wake_at = None


class Network:
    """All listeners of a world, and all connections between them."""

    def __init__(self, world: Surroundings) -> None:
        self.world = world
        self.listeners: dict[SocketAddress, SimTransport] = {}

    def transport(self) -> SimTransport:
        return SimTransport(self)

    def listen(self, transport: SimTransport) -> SocketAddress:
        port = next(port for port in range(1, 1 << 16) if SocketAddress(HOST, port) not in self.listeners)
        self.listeners[SocketAddress(HOST, port)] = transport
        return SocketAddress(HOST, port)

    def delay(self) -> float:
        return self.world.rng.choice(DELAYS)

    def befall(self, connection: SimConnection) -> None:
        """Decides what becomes of a connection over which a frame is about to be sent."""
        fate = self.world.fate("frame", FRAME_FATES)
        if fate is None:
            return
        rng, ends = self.world.rng, (connection, connection.peer)
        names = " and ".join(end.transport.process.name for end in ends)
        if fate == "stalled":
            connection.peer.stall(rng.choice(STALLS))
        elif fate == "broken":
            for end in ends:
                end.lose(rng.randrange(3))
                end.is_cut = True
                end.end(rng.choice(NOTICED), "the network lost the connection")
        else:
            for end in rng.choice((ends, ends[:1], ends[1:])):
                end.is_cut = True
            is_control = any(end.transport.process.owner is None for end in ends)
            if not is_control or rng.random() < 0.5:
                for end in ends:
                    end.time_out(rng.choice(KEEPALIVE))
        self.world.tell(f"the connection between {names} is {fate}")

    def ended(self, process: Process) -> None:
        """The kernel closes what a process had open."""
        for transport in [t for t in self.listeners.values() if t.process is process]:
            transport.shut()
