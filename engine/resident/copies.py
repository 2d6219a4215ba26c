"""What a worker does in a copy of slots, before the cut that moves them: it sends copies of runs to a peer, or stores those that it gets.

    coordinator -> source: CopySlots(slots, to, bytes_wanted, bytes_max)
    source -> destination: Copies ...        destination -> source: CopyReceived        source -> coordinator: SlotsCopied

Slots are copied **portion** by portion, so that each can move as soon as it is copied, while the next one is copied. The source chooses the
first slots of the order that have about `bytes_wanted` together, makes their ends edges of buckets and pins their runs. Then both work in
threads of their own, beside the steps (engine/run/hidden_copies.py has the transactions). One order moves as many bytes as the destination can
hold in memory. If the portion has more, because a slot cannot be divided, the next order goes on with it.

The source remembers which parts it has sent. In a cut it names the copies of those that still exist, and sends the rest (slots.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from base.slots import NO_SLOTS, SlotSet
from engine.errors import TaskLost
from engine.resident.frames import Buffer
from engine.resident.mesh import Mesh
from engine.resident.messages import Copies, CopyReceived, CopySlots, Failed, Message, SlotsCopied, WireFault
from engine.resident.slot_weights import SlotWeights
from engine.run import hidden_copies
from engine.run.cut import PartOfTable, copy_of, make_edges, parts_of, pin_of
from faults.points import reached
from io_kafka.outside import Outside
from storage.database import Database
from storage.pins import Pin

FRAME_BYTES_MIN = 1 << 20
"""Pieces are collected up to this size before a frame is sent, here and in a cut (slots.py). A frame costs some 50 us, so more would gain
nothing, and the destination reads while the source sends."""

STORE_BYTES = 2 << 20
"""About how many bytes of copies one transaction stores. It takes some milliseconds, for which a step may have to wait."""


@dataclass(frozen=True)
class _Portion:
    """A portion of slots, of which the source sends copies. `left`: what is still to be copied. `sent`: what was. While an order is carried
    out, a thread changes both."""

    pin: Pin
    left: deque[PartOfTable]
    sent: set[PartOfTable]

    @property
    def slots(self) -> SlotSet:
        return self.pin.slots


class SlotCopier:
    """The copies of one worker. `answer` sends an answer to the coordinator, from the worker's thread; `answer_now` does, from any thread.
    `wire_fault` makes the message of an exception."""

    def __init__(
        self,
        mesh: Mesh,
        worker: int,
        weights: SlotWeights,
        outside: Outside,
        *,
        answer: Callable[[Message], None],
        answer_now: Callable[[Message], None],
        wire_fault: Callable[[Exception], WireFault],
    ) -> None:
        self._mesh, self._worker, self._weights, self._outside = mesh, worker, weights, outside
        self._answer, self._answer_now, self._wire_fault = answer, answer_now, wire_fault
        # By destination: those that have not moved, the last one the youngest.
        self._portions: dict[int, list[_Portion]] = {}
        self._sent_bytes: dict[int, int] = {}  # by destination: of the order under way
        self._arrived: dict[int, list[hidden_copies.Copy]] = {}  # by source: of the order under way

    # The source

    def copy(self, order: CopySlots, database: Database) -> None:
        """Begins to carry out the order."""
        portions = self._portions.setdefault(order.to, [])
        if not portions or not portions[-1].left:
            portions.append(self._new_portion(self._weights.portion(order.slots, order.bytes_wanted), database))
            self._pin(database)
        portion = portions[-1]
        self._outside.start_thread("copy", lambda: self._send(order, portion, database))

    @staticmethod
    def _new_portion(slots: SlotSet, database: Database) -> _Portion:
        with database.transaction() as transaction:
            make_edges(transaction, slots)
        with database.read() as state:
            return _Portion(pin_of(state, slots), deque(parts_of(state, slots)), set())

    def _pin(self, database: Database) -> None:
        database.pins = tuple(portion.pin for portions in self._portions.values() for portion in portions)

    def _send(self, order: CopySlots, portion: _Portion, database: Database) -> None:
        """Runs in a thread of its own. Every fault is an answer."""
        try:
            self._outside.lower_priority()
            self._send_parts(order, portion, database)
        except Exception as error:
            self._answer_now(Failed(doing=CopySlots.kind, fault=self._wire_fault(error)))

    def _send_parts(self, order: CopySlots, portion: _Portion, database: Database) -> None:
        left, sent, slots = portion.left, portion.sent, portion.slots
        keys: list[str] = []
        buffers: list[memoryview] = []
        sent_bytes = frame_bytes = 0
        with database.read() as state:
            while left and sent_bytes < order.bytes_max:
                part = left.popleft()
                piece = copy_of(state, part)
                if piece is None:
                    continue
                keys.append(part.copy_key.hex())
                buffers.append(piece.piece.rows)
                sent.add(part)
                frame_bytes += len(piece.piece.rows)
                sent_bytes += len(piece.piece.rows)
                if frame_bytes >= FRAME_BYTES_MIN:
                    self._mesh.send_now(order.to, Copies(slots=slots, keys=tuple(keys), is_last=False), buffers)
                    keys, buffers, frame_bytes = [], [], 0
            self._sent_bytes[order.to] = sent_bytes  # before the answer to the last frame can come
            self._mesh.send_now(order.to, Copies(slots=slots, keys=tuple(keys), is_last=True), buffers)
        reached("copy.sent", self._worker)

    def divide_parts(
        self, to: int, slots: SlotSet, parts: Iterable[PartOfTable]
    ) -> tuple[list[PartOfTable], list[PartOfTable]]:
        """Divides the parts: those of these slots of which worker `to` has copies, and the others."""
        moving = [portion for portion in self._portions.get(to, ()) if portion.slots.intersection(slots) != NO_SLOTS]
        sent: set[PartOfTable] = set().union(*(portion.sent for portion in moving))
        by_side: tuple[list[PartOfTable], list[PartOfTable]] = ([], [])
        for part in parts:
            by_side[part not in sent].append(part)
        return by_side

    # The destination

    def take(
        self, peer: int, message: Copies | CopyReceived, buffers: Sequence[Buffer], database: Callable[[], Database]
    ) -> None:
        """Takes what a peer has sent. Called by the worker's thread. Raises TaskLost for a message that cannot be right."""
        match message:
            case Copies():
                arrived = self._arrived.setdefault(peer, [])
                arrived += _copies_of(peer, message, buffers)
                if message.is_last:
                    del self._arrived[peer]
                    opened = database()
                    self._outside.start_thread("store copies", lambda: self._store(peer, message, arrived, opened))
            case CopyReceived(fault=None) if peer not in self._sent_bytes:
                raise TaskLost(f"worker {peer} has stored copies that worker {self._worker} has not sent")
            case CopyReceived(fault=None):
                portion = self._portions[peer][-1]
                moved_bytes = self._sent_bytes.pop(peer)
                self._answer(SlotsCopied(slots=portion.slots, moved_bytes=moved_bytes, is_done=not portion.left))
            case CopyReceived(fault=WireFault() as fault):
                self._answer(Failed(doing=CopySlots.kind, fault=fault))

    def _store(self, peer: int, message: Copies, copies: list[hidden_copies.Copy], database: Database) -> None:
        """Runs in a thread of its own. Every fault is an answer."""
        try:
            self._outside.lower_priority()
            _check(peer, copies, message.slots)
            for some in _batches(copies):
                with database.transaction() as transaction:
                    hidden_copies.store_copies(transaction, message.slots, some)
                    reached("copies.inside", self._worker)
            fault = None
        except Exception as error:
            fault = self._wire_fault(error)
        self._mesh.send_now(peer, CopyReceived(fault=fault), ())

    # Both

    def forget(self, slots: SlotSet, database: Database) -> None:
        """These slots have moved."""
        for to, portions in self._portions.items():
            self._portions[to] = [portion for portion in portions if not portion.slots.is_within(slots)]
        self._pin(database)

    def discard(self, database: Database) -> None:
        """Discards all that was copied, because nothing of it is needed any more, or nothing can be used."""
        self._portions, database.pins = {}, ()
        with database.read() as state:
            has_copies = state.get_hidden() != NO_SLOTS
        if has_copies:
            with database.transaction() as transaction:
                hidden_copies.discard_copies(transaction)


def _copies_of(peer: int, message: Copies, buffers: Sequence[Buffer]) -> list[hidden_copies.Copy]:
    try:
        keys = [bytes.fromhex(key) for key in message.keys]
        return [(key, memoryview(rows)) for key, rows in zip(keys, buffers, strict=True)]
    except ValueError as fault:
        raise TaskLost(
            f"worker {peer} has sent copies whose keys are not hexadecimal, or not one for each buffer: {fault}"
        ) from None


def _check(peer: int, copies: list[hidden_copies.Copy], slots: SlotSet) -> None:
    try:
        hidden_copies.check_copies(copies, slots)
    except ValueError as fault:
        raise TaskLost(f"worker {peer} has sent copies that are not runs of rows in their slots: {fault}") from None


def _batches(copies: list[hidden_copies.Copy]) -> Iterable[list[hidden_copies.Copy]]:
    """Yields the copies in groups of about STORE_BYTES."""
    some: list[hidden_copies.Copy] = []
    size = 0
    for copy in copies:
        some.append(copy)
        size += len(copy[1])
        if size >= STORE_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some
