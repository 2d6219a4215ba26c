"""Slots go from one worker of a crew to another: weighed and copied in the background, and cut between two steps."""

from __future__ import annotations

from collections.abc import Mapping

from base.slots import SlotSet
from engine.errors import TaskLost
from engine.resident.crew.workers import Workers
from engine.resident.messages import (
    CopySlots,
    DiscardCopies,
    EstimateSlotBytes,
    GiveSlots,
    ReleaseSlots,
    SlotsCopied,
    TakeSlots,
    UsePlacement,
)
from storage.transaction import CutNumber


class CrewSlots:
    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    def begin_weighing(self, slots: Mapping[int, SlotSet]) -> None:
        """Has workers estimate the bytes of some of their slots in the background. `poll_weights` reports when that is over."""
        self._workers.roster.begin(
            EstimateSlotBytes, {number: EstimateSlotBytes(slots=its) for number, its in slots.items()}
        )

    def poll_weights(self) -> int | None:
        """The bytes of all slots that `begin_weighing` named; None until all workers have answered. Raises the fault of a worker."""
        answers = self._workers.poll_answers(EstimateSlotBytes)
        return None if answers is None else sum(answer.total_bytes for answer in answers.values())

    def begin_copying(self, source: int, order: CopySlots) -> None:
        """Has a worker send copies of slots to another in the background. `poll_copies` reports when that is over."""
        self._workers.roster.begin(CopySlots, {source: order})

    def poll_copies(self) -> dict[int, SlotsCopied]:
        """What the sources have copied that have answered since the last call. Raises the fault of a worker."""
        return self._workers.poll_each(CopySlots)

    def discard_copies(self) -> None:
        """All workers discard what was copied and has not moved. No copying is under way."""
        self._workers.ask(DiscardCopies())

    def cut(
        self, number: CutNumber, slots: SlotSet, source: int, destination: int, *, bytes_max: int
    ) -> tuple[SlotSet, int]:
        """A cut: some of the slots, with their state, go from one worker to the other. Returns which ones, and the bytes that were sent. The
        workers have no step."""
        workers, roster = self._workers, self._workers.roster
        assert workers.placement is not None
        roster.send(destination, TakeSlots(number=number, giver=source))
        give = GiveSlots(number=number, slots=slots, to=destination, bytes_max=bytes_max)
        given = roster.ask_each({source: give})[source]
        roster.wait_for(TakeSlots, "a cut", [destination])
        taken = roster.take_answer(destination, TakeSlots)
        if taken.slots != given.slots:
            raise TaskLost(f"worker {source} gave {given.slots}, and worker {destination} took {taken.slots}")
        if not given.slots.is_within(slots):
            raise TaskLost(f"worker {source} gave {given.slots}, and was to give some of {slots}")
        roster.ask_each({source: ReleaseSlots(number=number, slots=given.slots)})
        workers.placement = workers.placement.with_moved(given.slots, source, destination)
        workers.send(UsePlacement(placement=workers.placement))
        return given.slots, given.moved_bytes
