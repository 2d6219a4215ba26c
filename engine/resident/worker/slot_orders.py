"""The orders by which slots move: they are weighed and copied beside the steps, and a cut between two steps hands them over."""

from __future__ import annotations

from dataclasses import dataclass

from engine.resident.copies import SlotCopier
from engine.resident.folds import Folds
from engine.resident.frames import Buffer
from engine.resident.messages import (
    CopiesDiscarded,
    CopySlots,
    DiscardCopies,
    EstimateSlotBytes,
    Given,
    GiveSlots,
    Released,
    ReleaseSlots,
    SlotBytesEstimated,
    Taken,
    TakeSlots,
    UsePlacement,
)
from engine.resident.slot_weights import SlotWeights
from engine.resident.slots import SlotMover
from engine.resident.worker.handlers import Job, Later, carries_out
from engine.resident.worker.state import WorkerState


@dataclass(frozen=True, kw_only=True)
class SlotOrders:
    state: WorkerState
    weights: SlotWeights
    copier: SlotCopier
    mover: SlotMover
    folds: Folds

    @carries_out
    def place(self, order: UsePlacement) -> None:
        self.state.placement = order.placement

    @carries_out
    def weigh(self, order: EstimateSlotBytes) -> Job[SlotBytesEstimated]:
        def weigh() -> tuple[SlotBytesEstimated, tuple[Buffer, ...]]:
            return SlotBytesEstimated(total_bytes=self.weights.count(self.state.open_database, order.slots)), ()

        return weigh

    @carries_out
    def copy(self, order: CopySlots) -> Later:
        self.copier.copy(order, self.state.open_database)
        return Later.LATER

    @carries_out
    def discard_copies(self, order: DiscardCopies) -> CopiesDiscarded:
        self.copier.discard(self.state.open_database)
        return CopiesDiscarded()

    @carries_out
    def give(self, order: GiveSlots) -> Given:
        return self.mover.give(order, self.state.open_database)

    @carries_out
    def take(self, order: TakeSlots) -> Taken:
        return self.mover.take(order, self.state.open_database)

    @carries_out
    def release(self, order: ReleaseSlots) -> Released:
        self.mover.release(order, self.state.open_database)
        self.folds.restart()
        return Released()
