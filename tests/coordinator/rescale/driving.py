"""A rescale driven without a pipeline: a step log in memory, and a shell that tells the machine what has happened. The invariants are
checked after each event."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec

from base.slots import NO_SLOTS, SLOTS, SlotSet
from base.version import VersionId
from coordinator.boundary import Boundary
from coordinator.checkpoints.completion import completion_records
from coordinator.rescale.actions import AddWorkers, Aim, Cut, LogRescale, RemoveWorkers, RescaleAction, Wish
from coordinator.rescale.machine import Rescale
from coordinator.rescale.phases import (
    AddingWorkers,
    AllMoved,
    Idle,
    MovingPortions,
    MovingRounds,
    MovingSlots,
    NeedsTasks,
    RemovingWorkers,
    UnderWay,
    WantedRescale,
    Weighing,
)
from coordinator.rescale.planner import Planner
from coordinator.rescale.slot_moves import Portion
from io_kafka.step_log.layout_records import (
    CutProtocol,
    LayoutIntent,
    LayoutTurn,
    MoveStrategy,
    Ownership,
    RescaleMode,
    Target,
)
from io_kafka.step_log.records import CheckpointIntent, Claim
from protocols.planners import PLANNERS
from tests.io_kafka.growing import GrowingLog
from tests.io_kafka.layouts import layout, owned_by, target

A = ParamSpec("A")


class Log(GrowingLog):
    def __init__(self, workers: tuple[int, ...]) -> None:
        super().__init__("log")
        self.append(Claim(epoch=0, pipeline="p", run_id="r", host="h", pid=1))
        self.append(layout(workers=workers))


class Driven(Rescale):
    """From a layout with these workers. `slots_per_round`: of a planner."""

    def __init__(self, *workers: int, slots_per_round: int = 3000) -> None:
        super().__init__(Idle(owned_by(*workers)))
        self.log = Log(workers)
        self.slots_per_round = slots_per_round

    def tell(self, event: Callable[Concatenate[Any, A], object], *args: A.args, **kwargs: A.kwargs) -> None:
        super().tell(event, *args, **kwargs)
        self.check(self.log)

    def request(self, wish: Wish) -> None:
        self.tell(Idle.requested, wish)
        if isinstance(self.phase, WantedRescale) and self.phase.new:
            assert self.following() is None, "no worker is made before there is a task for it"
            self.tell(NeedsTasks.recruited)

    def following(self, *, checkpointing: bool = False, replaying: bool = False) -> RescaleAction | None:
        return self.next(self.log, Boundary(7, is_replaying=replaying, is_checkpointing=checkpointing))

    def due(self) -> bool:
        return self.is_due(self.log, Boundary(7, is_replaying=False, is_checkpointing=False))

    def act(self, action: RescaleAction | None, dice: random.Random | None = None, *, steps_between: int = 1) -> None:
        """As the shell. A cut moves some of its slots, if it may."""
        match action:
            case LogRescale(wish):
                self.log.append(intent_of(wish, self.number + 1))
                self.tell(WantedRescale.intended)
            case AddWorkers(new):
                self.tell(AddingWorkers.workers_added, {**self.owned, **dict.fromkeys(new, NO_SLOTS)})
            case Cut(slots, source, destination, is_whole):
                some = slots if dice is None or is_whole else slots.first(dice.randint(1, len(slots)))
                owned = dict(self.owned)
                owned[source], owned[destination] = owned[source].minus(some), owned[destination].union(some)
                self.tell(MovingSlots.cut, owned, steps_between)
            case RemoveWorkers(leaving):
                self.tell(
                    RemovingWorkers.workers_removed, {w: slots for w, slots in self.owned.items() if w not in leaving}
                )
            case None:
                raise AssertionError("nothing is due")

    def weigh(self) -> None:
        assert isinstance(self.phase, Weighing)
        if self.phase.aim.strategy.protocol == "batches":
            self.tell(Weighing.weighed)
        else:
            self.tell(Weighing.planned, self._planner(self.phase))
            self.tell(MovingRounds.sized, self.slots_per_round)

    def copy(self, slots_max: int = SLOTS) -> Portion:
        """One source has copied a portion of what it has not copied yet."""
        assert isinstance(self.phase, MovingPortions)
        ((source, destination), left), *_ = self.left_to_copy().items()
        portion = Portion(left.first(slots_max), source, destination)
        self.tell(MovingPortions.copied, portion)
        return portion

    def left_to_copy(self) -> dict[tuple[int, int], SlotSet]:
        assert isinstance(self.phase, MovingPortions)
        left = dict(self.phase.moves)
        for slots, source, destination in self.phase.copied_portions:
            left[source, destination] = left[source, destination].minus(slots)
        return {ends: slots for ends, slots in left.items() if slots != NO_SLOTS}

    def _planner(self, phase: Weighing) -> Planner:
        goal = phase.aim.target.owned
        everybody = {worker: goal.get(worker, NO_SLOTS) for worker in phase.owned}
        return PLANNERS[phase.aim.strategy.protocol](phase.owned, everybody, self.slots_per_round)

    def turn(self, record: LayoutTurn) -> None:
        self.log.append(record)
        self.tell(UnderWay.turned, record.target)

    @property
    def number(self) -> int:
        return self.log.current_layout.number

    def checkpoint(self, owned: dict[int, SlotSet] | None = None) -> None:
        """`owned`: the owners when it was frozen, if they are not those now."""
        frozen = self.owned if owned is None else owned
        owning = {worker: slots for worker, slots in frozen.items() if slots != NO_SLOTS}
        version = VersionId(len(self.log.checkpoints) + 1, 0, f"c{self.log.offset_next}")
        placed = Ownership.of(dict.fromkeys(owning, "0"), owning)
        self.log.append(CheckpointIntent(epoch=0, version=version, placed=placed))
        for record in completion_records(version, self.log, 0, is_moved=self.is_moved):
            self.log.append(record)
        if self.log.rescale is None:
            self.tell(AllMoved.completed, self.log.current_layout.placed.births)


def intent_of(wish: Wish, number: int) -> LayoutIntent:
    target, strategy = wish.aim.target, wish.aim.strategy
    return LayoutIntent(
        epoch=0, change=number, mode=strategy.mode, target=target, asked=wish.asked, protocol=strategy.protocol
    )


def wish(mode: RescaleMode, to: Target, protocol: CutProtocol = "batches") -> Wish:
    return Wish(Aim(to, MoveStrategy(mode, protocol)), None)


def moving(mode: RescaleMode = "live") -> Driven:
    """From two workers to three, with all workers there, and nothing copied yet."""
    rescale = Driven(0, 1)
    rescale.request(wish(mode, target(0, 1, 2)))
    for _ in range(2):
        rescale.act(rescale.following())
    rescale.weigh()
    return rescale
