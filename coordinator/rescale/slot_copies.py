"""Lets the sources of a live rescale copy portions to the destinations, in the background.

    idle --take, begin--> each source copies one portion after the other --end--> discarded, as soon as no source copies --> idle

The sources go on independently of each other. Each copies the next portion while those before it wait for their cut, of which there are few
(COPIED_PORTIONS_MAX). A source with several destinations copies for each of them in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from base.slots import NO_SLOTS, SlotSet
from coordinator.rescale.slot_moves import Portion, SlotMoves
from engine.errors import TaskLost
from engine.resident.crew import Crew
from engine.resident.messages import CopySlots

COPY_BYTES = 32 << 20
"""The number of bytes that one order copies at most: mostly a whole portion. The destination holds them in memory."""

COPIED_PORTIONS_MAX = 2
"""How many portions of one source may wait for their cut while it copies the next one. What comes to them meanwhile has to be moved a second
time. With one, the source would wait whenever a step takes longer than the copy of a portion."""


@dataclass
class _Flow:
    """The copies of one source, from the first order on. `to`: the destination of the present portion, or of the last one. `offered`: the slots
    from which the source has chosen it. `has_order`: whether it carries out an order. `is_open`: whether a part of the portion is left to
    copy. `portion_bytes`: how much of it was copied."""

    to: int
    offered: SlotSet
    has_order: bool = True
    is_open: bool = True
    portion_bytes: int = 0


class SlotCopies:
    """The copies that workers make in the background during one run."""

    def __init__(self) -> None:
        self._flows: dict[int, _Flow] = {}  # by source
        self._bytes: dict[Portion, int] = {}  # of those that are copied
        self._is_over = False

    def reset(self) -> None:
        """Other workers go on, which have no copies."""
        self._flows, self._bytes, self._is_over = {}, {}, False

    @property
    def has_begun(self) -> bool:
        """Whether workers have copies, or make some."""
        return bool(self._flows)

    @property
    def _is_under_way(self) -> bool:
        return any(flow.has_order for flow in self._flows.values())

    def take(self, crew: Crew) -> tuple[int, list[Portion]]:
        """(how many bytes were copied since the last call, the portions that are copied now). Raises TaskLost, and the fault of a worker."""
        copied_bytes, done = 0, list[Portion]()
        for source, answer in crew.slots.poll_copies().items() if self._is_under_way else ():
            flow = self._flows[source]
            if answer.slots == NO_SLOTS or not answer.slots.is_within(flow.offered):
                raise TaskLost(f"worker {source} was to copy some of {flow.offered}, and has copied {answer.slots}")
            flow.has_order, flow.is_open = False, not answer.is_done
            flow.portion_bytes += answer.moved_bytes
            copied_bytes += answer.moved_bytes
            if answer.is_done:
                done.append(portion := Portion(answer.slots, source, flow.to))
                self._bytes[portion] = flow.portion_bytes
        return copied_bytes, done

    def begin(self, crew: Crew, moves: SlotMoves, copied: Sequence[Portion], bytes_wanted: int) -> None:
        """Lets each source go on that does not copy now. `moves`: all that has to move. `copied`: what waits for its cut. `bytes_wanted`: of a
        portion."""
        assert not self._is_over, "copies are to be discarded"
        left = dict(moves)
        for portion in copied:
            ends = portion.source, portion.destination
            left[ends] = left[ends].minus(portion.slots)
        for source in sorted({source for source, _ in moves}):
            flow = self._flows.get(source)
            if flow is not None and (flow.has_order or flow.is_open):
                if not flow.has_order:
                    flow.has_order = True
                    self._order(crew, source, flow, bytes_wanted)
                continue
            to = _next(
                None if flow is None else flow.to, [d for s, d in left if s == source and left[s, d] != NO_SLOTS]
            )
            if to is not None and sum(portion.source == source for portion in copied) < COPIED_PORTIONS_MAX:
                self._flows[source] = flow = _Flow(to, left[source, to])
                self._order(crew, source, flow, bytes_wanted)

    @staticmethod
    def _order(crew: Crew, source: int, flow: _Flow, bytes_wanted: int) -> None:
        order = CopySlots(slots=flow.offered, to=flow.to, bytes_wanted=bytes_wanted, bytes_max=COPY_BYTES)
        crew.slots.begin_copying(source, order)

    def moved(self, portion: Portion) -> int:
        """The portion has moved. Returns how many bytes of it were copied."""
        return self._bytes.pop(portion)

    def end(self) -> None:
        """The rescale is over, or leads somewhere else: what was copied and has not moved is of no use any more."""
        self._is_over = self.has_begun

    def discard_if_over(self, crew: Crew) -> bool:
        """Discards the copies if they are of no use. Returns whether copies may be begun. That has to wait while copies are to be discarded and
        a source still copies."""
        if not self._is_over:
            return True
        self.take(crew)
        if self._is_under_way:
            return False
        if self._bytes or any(flow.is_open for flow in self._flows.values()):  # otherwise all copies have moved
            crew.slots.discard_copies()
        self.reset()
        return True


def _next(last: int | None, destinations: Sequence[int]) -> int | None:
    """The destination after the last one, in turn; None if there is none."""
    return min(destinations, key=lambda each: (last is not None and each <= last, each), default=None)
