"""The machine of a rescale, as the core and the shell ask it: without I/O, clock or randomness. See phases.py.

`Core` asks for the next action while the workers have no step, when no checkpoint is between its intent and its freeze. All actions but the
cuts of a live rescale are for drained boundaries. The shell carries an action out, and then tells the machine what has happened. So the phase
agrees with the log whenever an action is asked for, which `check` asserts: a rescale is under way in the machine exactly if it is in the log,
with the same target; and every slot has one owner, which is its owner in the layout or in one of the targets of the rescale."""

from __future__ import annotations

from typing import assert_never

from base.machine import Machine
from base.slots import NO_SLOTS, SlotSet, why_no_partition
from coordinator.boundary import Boundary
from coordinator.rescale.actions import Aim, RescaleAction, Wish
from coordinator.rescale.phases import (
    AddingWorkers,
    AllMoved,
    Idle,
    Moving,
    MovingCold,
    MovingLive,
    MovingPortions,
    MovingRounds,
    MovingSlots,
    NeedsTasks,
    Phase,
    RemovingWorkers,
    UnderWay,
    WantedRescale,
    Weighing,
    phase_after_recovery,
)
from coordinator.rescale.planner import Planner
from coordinator.rescale.slot_moves import Owned, Portion, missing_members, slot_moves
from io_kafka.step_log.layout_records import RescaleMode, Target
from io_kafka.step_log.layout_rules import why_not_owned
from io_kafka.step_log.state import StepLogState


class Rescale(Machine[Phase]):
    """The rescales of one run, which `Rescaling` owns (rescaling.py). The core asks it, and passes on what is reported of actions and steps. The
    shell reports everything else. No one else names an event of a phase."""

    @property
    def owned(self) -> Owned:
        """The slots of each worker now, also of those without any."""
        return self.phase.owned

    @property
    def is_idle(self) -> bool:
        """Whether nothing is wanted or under way. Each action of the core asks, so it takes constant time."""
        return isinstance(self.phase, Idle)

    @property
    def is_under_way(self) -> bool:
        """Whether the step log records a rescale in progress."""
        return isinstance(self.phase, UnderWay)

    @property
    def is_moved(self) -> bool:
        """Whether all slots have the owners to which the rescale under way leads."""
        return isinstance(self.phase, AllMoved)

    @property
    def is_paused(self) -> bool:
        """Whether a user has paused it."""
        return isinstance(self.phase, UnderWay) and self.phase.bookkeeping.is_paused

    @property
    def aim(self) -> Aim | None:
        """What the rescale that is wanted or under way is to do; None without one."""
        match self.phase:
            case Idle() | RemovingWorkers():
                return None
            case WantedRescale(wish=wish):
                return wish.aim
            case UnderWay(aim=aim):
                return aim
            case _:
                assert_never(self.phase)

    @property
    def mode(self) -> RescaleMode | None:
        """The mode of the rescale that is wanted or under way; None without one."""
        return None if self.aim is None else self.aim.strategy.mode

    @property
    def blocks_steps(self) -> bool:
        """Whether no step may begin."""
        return self.phase.blocks_steps

    def next(self, log: StepLogState, at: Boundary) -> RescaleAction | None:
        """What is to be done while the workers have no step; None if nothing is due."""
        self.check(log)
        return self.phase.next(at)

    def is_due(self, log: StepLogState, at: Boundary) -> bool:
        """Whether something waits for a drained boundary."""
        return self.blocks_steps or self.is_moved or self.next(log, at) is not None

    # Reports of the shell

    def recovered(self, owned: Owned, log: StepLogState) -> None:
        """Other workers go on. `owned`: the owners in the version that was opened."""
        self.reset_to(phase_after_recovery(owned, log.rescale, log.target), "recovered")

    def requested(self, wish: Wish) -> None:
        """A rescale is wanted, and the log does not have it yet."""
        self.tell(Idle.requested, wish)

    def recruited(self) -> None:
        """There are tasks for all workers that are new."""
        self.tell(NeedsTasks.recruited)

    def refused(self) -> None:
        """The rescale that was wanted does not begin."""
        self.tell(WantedRescale.refused)

    def turned(self, target: Target) -> None:
        """The log has another target of the rescale under way."""
        self.tell(UnderWay.turned, target)

    def paused(self, is_paused: bool) -> None:
        """A user has paused the rescale under way, or lets it go on."""
        self.tell(UnderWay.paused, is_paused)

    def copies_changed(self, has_copies: bool) -> None:
        """Workers have copies of slots, or make some; or have none any more. Phases that do not keep this ignore it."""
        match self.phase:
            case UnderWay(bookkeeping=bookkeeping) if bookkeeping.has_copies != has_copies:
                self.tell(UnderWay.copies_changed, has_copies)
            case RemovingWorkers() as removing if removing.has_copies != has_copies:
                self.tell(RemovingWorkers.copies_changed, has_copies)
            case _:
                pass

    def weighed(self) -> None:
        """The sources know the bytes of their slots, which move in batches."""
        self.tell(Weighing.weighed)

    def planned(self, planner: Planner) -> None:
        """The sources know the bytes of their slots, and `planner` decides which of them move together."""
        self.tell(Weighing.planned, planner)

    def copied(self, portion: Portion) -> None:
        """The destination has copies of all that the slots of the portion had when their copy began."""
        self.tell(MovingPortions.copied, portion)

    def checkpoint_needed(self, needs_checkpoint: bool) -> None:
        """`needs_checkpoint`: whether a checkpoint has to come before the next cut of a live rescale. Other phases ignore it."""
        if isinstance(self.phase, MovingLive) and self.phase.needs_checkpoint != needs_checkpoint:
            self.tell(MovingLive.checkpoint_needed, needs_checkpoint)

    def sized(self, slots_per_round: int) -> None:
        """How many slots one round of the planner may move."""
        if not (isinstance(self.phase, MovingRounds) and self.phase.slots_per_round == slots_per_round):
            self.tell(MovingRounds.sized, slots_per_round)

    # Reports that the core passes on

    def intended(self) -> None:
        """The intent of the rescale is in the log."""
        self.tell(WantedRescale.intended)

    def workers_added(self, owned: Owned) -> None:
        """All workers of the target are there, and are connected."""
        self.tell(AddingWorkers.workers_added, owned)

    def cut(self, owned: Owned, steps_between: int) -> None:
        """Some slots have another owner. `steps_between`: see MovingSlots.cut."""
        self.tell(MovingSlots.cut, owned, steps_between)

    def completed(self, log: StepLogState) -> None:
        """A checkpoint is complete. If all slots have moved, the log has the new layout with it, and no rescale any more."""
        if log.rescale is None and self.is_under_way:
            self.tell(AllMoved.completed, log.current_layout.placed.births)

    def workers_removed(self, owned: Owned) -> None:
        """The workers that were to leave are gone."""
        self.tell(RemovingWorkers.workers_removed, owned)

    def stepped(self) -> None:
        """A step has been settled; see UnderWay. Other phases ignore it."""
        if isinstance(self.phase, UnderWay):
            self.phase = self.phase.stepped()

    def no_step_comes(self) -> None:
        """No step comes now; see UnderWay. Other phases ignore it."""
        if isinstance(self.phase, UnderWay):
            self.phase = self.phase.no_step_comes()

    def check(self, log: StepLogState) -> None:
        """Asserts the invariants. `next` calls it before each decision."""
        phase = self.phase
        assert (log.rescale is not None) == self.is_under_way, self.with_story(
            f"the phase is {type(phase).__name__}, and the log has {log.rescale}"
        )
        match phase:
            case Idle():
                return  # each action of the core asks, and nobody owns anything else than in the layout
            case WantedRescale():
                assert phase.is_recruited or phase.new, self.with_story("no worker is new, and tasks are waited for")
            case RemovingWorkers():
                for worker in phase.leaving:
                    assert phase.owned[worker] == NO_SLOTS, self.with_story(f"worker {worker} leaves and owns slots")
            case UnderWay():
                self._check_under_way(phase, log)
            case _:
                assert_never(phase)
        for why_not in (why_no_partition(self.owned), why_not_owned(self.owned, log.layout_ground)):
            assert why_not is None, self.with_story(why_not)

    def _check_under_way(self, phase: AddingWorkers | Weighing | Moving | AllMoved, log: StepLogState) -> None:
        intent, target = log.rescale, log.target
        assert intent is not None and target is not None
        said, strategy = Aim(target, intent.strategy), intent.strategy
        assert phase.aim == said, self.with_story(f"the rescale leads to {phase.aim}, and that of the log to {said}")
        new = missing_members(target.members, phase.owned)
        if isinstance(phase, AddingWorkers):
            assert phase.new == new != (), self.with_story(f"workers {phase.new} are to be made, {new} are missing")
            return
        assert not new, self.with_story(f"workers {new} are missing in the phase {type(phase).__name__}")
        moves = slot_moves(phase.owned, target.owned)
        match phase:
            case AllMoved():
                assert not moves, self.with_story(f"{moves} have to move still")
                return
            case Weighing():
                pass
            case MovingCold():
                assert said.is_cold, self.with_story("a live rescale moves its slots as a cold one")
            case MovingPortions():
                is_copying = (strategy.mode, strategy.protocol) == ("live", "batches")
                assert is_copying, self.with_story("slots are copied in a rescale that moves them without that")
                self._check_copies(phase)
            case MovingRounds():
                assert strategy.protocol != "batches", self.with_story("a planner in a rescale without a protocol")
            case _:
                assert_never(phase)
        assert phase.moves == moves != {}, self.with_story(f"{phase.moves} are to move, and {moves} have to")

    def _check_copies(self, phase: MovingPortions) -> None:
        portions = phase.copied_portions
        for slots, source, destination in portions:
            moving = phase.moves.get((source, destination), NO_SLOTS)
            assert slots != NO_SLOTS and slots.is_within(moving), self.with_story(
                f"{slots} were copied and do not move"
            )
        count = len(SlotSet.of(span for portion in portions for span in portion.slots.ranges))
        assert count == sum(len(portion.slots) for portion in portions), self.with_story("slots were copied twice")
