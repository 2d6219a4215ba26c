"""A worker's connections to its peers, and the exchange of a stage over them.

Guarantees: a worker sends each peer exactly one message per step and stage, and takes exactly one from each. A message of a stage that is over,
a second one from the same peer, and one whose rows cannot be read are losses of the peer (TaskLost). Messages of an older order are dropped. A
message cannot belong to another placement, because each order to run a step has a number of its own. While a worker waits it goes on sending.

A frame of another term on a connection between peers is a loss too. It cannot be old: both ends have shown the token and the term when the
connection began, and a process belongs to one term. So its sender is not what it says, and a worker that only dropped the frame would wait for
one that does not come.

The state of slots travels over the same connections (slots.py, copies.py): `send`, `pieces_of` and `send_now`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from base.term import Term
from engine.analysis.stages import Channel, StagePlan, channels_of
from engine.errors import TaskLost
from engine.resident.frames import Buffer, Frame
from engine.resident.messages import Copies, CopyReceived, Hello, Pieces, SocketAddress, StageRows
from engine.resident.received import received_table
from engine.resident.strangers import Strangers
from engine.resident.tokens import same_token
from engine.resident.transport import Accepted, Arrived, Connection, Disconnected, Event, Events, Transport
from engine.run.exchange import ExchangeMessage, channel_schema, to_buffer
from engine.run.tasks import PeerFailed

CONNECT_SECONDS_MAX = 10.0
"""The time for a connection to a peer, which has registered and so listens already."""

JOIN_SECONDS_MAX = 60.0
"""The time for the connections of all peers to each other. They were all registered when it begins."""

WAIT_SECONDS = 1.0
"""The longest wait of one call. What arrives ends it earlier."""


class Mesh:
    """The peers of one worker in one term. `others` takes every event that does not belong to a peer, such as orders of the coordinator.
    `copies` takes the messages about copies of slots, with the number of the peer."""

    def __init__(
        self,
        transport: Transport,
        events: Events,
        term: Term,
        token: str,
        plan: StagePlan,
        *,
        others: Callable[[Event], None],
        now: Callable[[], float],
        copies: Callable[[int, Copies | CopyReceived, tuple[Buffer, ...]], None],
    ) -> None:
        self._transport, self._events, self._term, self._token, self._now = transport, events, term, token, now
        self._others, self._copies = others, copies
        self.adopt(plan)
        self._peers: dict[int, Connection] = {}
        self._strangers = Strangers(now)
        self._inbox: dict[tuple[int, int], dict[int, ExchangeMessage]] = {}
        self._pieces: dict[int, deque[tuple[Pieces, tuple[Buffer, ...]]]] = {}
        self._lost: str | None = None
        self._serial = -1  # of the order to run the present step
        self._stage = 0  # the first stage of that order whose messages may still arrive
        self._worker = -1

    def adopt(self, plan: StagePlan) -> None:
        """The next step has this plan. All peers adopt it before one of them is given a step."""
        self._channels = channels_of(plan)
        self._schemas = [channel_schema(channel, plan.circuit) for channel in self._channels]
        self._numbers = {channel: number for number, channel in enumerate(self._channels)}

    def join(self, worker: int, members: Sequence[tuple[int, SocketAddress]]) -> None:
        """Connects to the peers before `worker`, and waits for those behind it, as far as they are not connected yet. Connections to workers
        that are no members end. Raises TaskLost if that fails."""
        self._worker = worker
        order = [number for number, _ in members]
        for gone in self._peers.keys() - set(order):
            self._peers.pop(gone).close()
        for peer, address in members[: order.index(worker)]:
            if peer not in self._peers:
                self._peers[peer] = self._connect(peer, address)
        deadline = self._now() + JOIN_SECONDS_MAX
        self._wait(lambda: self._peers.keys() == set(order) - {worker}, deadline, "all peers to connect")

    def _connect(self, peer: int, address: SocketAddress) -> Connection:
        try:
            connection = self._transport.connect(address, CONNECT_SECONDS_MAX)
        except (OSError, OverflowError, ValueError) as fault:  # the last two: it is no address
            raise TaskLost(f"worker {self._worker} cannot connect to worker {peer} at {address}: {fault}") from None
        connection.send(Frame(self._term, Hello(token=self._token, worker=self._worker)))
        return connection

    def exchange(
        self, step: int, stage: int, rows: Mapping[int, Mapping[Channel, pa.Table]]
    ) -> Sequence[ExchangeMessage]:
        """Sends what a stage has for each worker, and waits for the messages of all; see engine/run/tasks.py, Peers."""
        for peer, connection in self._peers.items():
            sent = rows.get(peer, {})
            message = StageRows(
                serial=self._serial, stage=stage, channels=tuple(self._numbers[channel] for channel in sent)
            )
            connection.send(Frame(self._term, message, tuple(to_buffer(table) for table in sent.values())))
        inbox = self._inbox.setdefault((self._serial, stage), {})
        inbox[self._worker] = ExchangeMessage(self._worker, rows.get(self._worker, {}))
        self._wait(lambda: len(inbox) == len(self._peers) + 1, None, f"step {step}, stage {stage}")
        del self._inbox[self._serial, stage]
        self._stage = stage + 1
        if any(message.broken for message in inbox.values()):
            raise PeerFailed(f"step {step}, stage {stage}")
        return tuple(inbox.values())

    def send(self, peer: int, message: Pieces, buffers: Sequence[Buffer]) -> None:
        """Sends a part of a cut to one peer."""
        self._peers[peer].send(Frame(self._term, message, tuple(buffers)))

    def send_now(self, peer: int, message: Copies | CopyReceived, buffers: Sequence[Buffer]) -> None:
        """Sends something about copies to one peer, from any thread, and waits until the network has taken it."""
        self._peers[peer].send_now(Frame(self._term, message, tuple(buffers)))

    def pieces_of(self, giver: int) -> tuple[Pieces, tuple[Buffer, ...]]:
        """The next part of a cut that a peer sends. Waits for it."""
        waiting = self._pieces.setdefault(giver, deque())
        self._wait(lambda: bool(waiting), None, f"slots of worker {giver}")
        return waiting.popleft()

    def abandon(self, step: int, stage: int) -> None:
        """Tells all peers that there are no messages of the stage; see engine/run/tasks.py, Peers."""
        for connection in self._peers.values():
            connection.send(Frame(self._term, StageRows(serial=self._serial, stage=stage, channels=(), broken=True)))

    def begin_step(self, serial: int) -> None:
        """A step begins. `serial` is the number of the order, because a step that failed may be run again. What is left of orders before it
        is discarded: messages that nobody waited for, because the step had failed here too."""
        self._serial, self._stage = serial, 0
        self._inbox = {place: box for place, box in self._inbox.items() if place[0] >= serial}

    def take(self, event: Event) -> bool:
        """Takes an event that belongs to a peer. Returns False for any other. Raises TaskLost for a message that cannot be right."""
        match event:
            case Accepted(connection):
                self._strangers.add(connection)
                return True
            case Arrived(connection, Frame(term, message, buffers)):
                if self._strangers.remove(connection):
                    self._introduce(connection, term, message)
                    return True
                peer = self._number_of(connection)
                if peer is None:
                    return False
                if term == self._term and isinstance(message, StageRows):
                    self._deliver(peer, message, buffers)
                elif term == self._term and isinstance(message, Pieces):
                    self._pieces.setdefault(peer, deque()).append((message, buffers))
                elif term == self._term and isinstance(message, Copies | CopyReceived):
                    self._copies(peer, message, buffers)
                else:
                    raise TaskLost(f"worker {self._worker} got {message.kind} of term {term} from worker {peer}")
                return True
            case Disconnected(connection, reason):
                if self._strangers.remove(connection):
                    return True
                peer = self._number_of(connection)
                if peer is not None:
                    self._lost = f"the connection from worker {self._worker} to worker {peer} is lost: {reason}"
                return peer is not None

    def _introduce(self, connection: Connection, term: Term, message: object) -> None:
        if not isinstance(message, Hello) or not same_token(message.token, self._token) or term != self._term:
            connection.close()
            return
        connection.trust()
        self._peers[message.worker] = connection

    def _deliver(self, peer: int, message: StageRows, buffers: Sequence[Buffer]) -> None:
        if message.serial < self._serial:
            return  # of a step that has failed here and is run again
        inbox = self._inbox.setdefault((message.serial, message.stage), {})
        is_over = message.serial == self._serial and message.stage < self._stage
        if is_over or peer in inbox or len(buffers) != len(message.channels):
            raise TaskLost(
                f"worker {peer} has sent stage {message.stage} of order {message.serial} twice, or not wholly"
            )
        inbox[peer] = ExchangeMessage(peer, self._tables(peer, message, buffers), message.broken)

    def _tables(self, peer: int, message: StageRows, buffers: Sequence[Buffer]) -> dict[Channel, pa.Table]:
        tables: dict[Channel, pa.Table] = {}
        for number, data in zip(message.channels, buffers, strict=True):
            if not 0 <= number < len(self._channels) or self._channels[number] in tables:
                raise TaskLost(
                    f"worker {peer} has sent channels {message.channels} of stage {message.stage}, "
                    f"of which there are {len(self._channels)}"
                )
            channel = self._channels[number]
            what = f"worker {peer} has sent rows of node {channel.producer} in stage {message.stage}"
            tables[channel] = received_table(data, self._schemas[number], what)
        return tables

    def _number_of(self, connection: Connection) -> int | None:
        return next((number for number, known in self._peers.items() if known is connection), None)

    def _wait(self, done: Callable[[], bool], deadline: float | None, what: str) -> None:
        while not done():
            if self._lost is not None:
                raise TaskLost(self._lost)
            left = WAIT_SECONDS if deadline is None else min(WAIT_SECONDS, deadline - self._now())
            if left <= 0:
                raise TaskLost(f"worker {self._worker} has waited {JOIN_SECONDS_MAX:g} s for {what}")
            event = self._events.next(left)
            if event is not None and not self.take(event):
                self._others(event)
