"""The phases of a rescale, and the events that lead from one to the next.

    Idle -> WantedRescale -> AddingWorkers -> Weighing -> MovingCold | MovingPortions | MovingRounds -> AllMoved -> RemovingWorkers -> Idle

    phase            what it waits for                                  next action
    Idle             a request                                          -
    WantedRescale    tasks for the workers that are new                 LogRescale
    AddingWorkers    the same, after a crash or a turn                  AddWorkers: they are made, and all workers join each other
    Weighing         the sources count the bytes of the slots that go   -
    MovingCold       nothing                                            Cut: the first slots of one move
    MovingPortions   the copy of a portion, and some steps              Cut: the portion
    MovingRounds     some steps, before each round                      Cut: the move that the planner names
    AllMoved         a checkpoint that has the owners of the target     - (the core makes the checkpoint)
    RemovingWorkers  the end of folds and copies                        RemoveWorkers: workers without slots leave

    phase            event              next phase
    Idle             requested          WantedRescale
    WantedRescale    refused            Idle
    WantedRescale    intended           AddingWorkers; without new workers Weighing; without slots to move AllMoved
    AddingWorkers    workers_added      Weighing; without slots to move AllMoved
    Weighing         weighed            MovingCold; in a live rescale MovingPortions
    Weighing         planned            MovingRounds
    MovingPortions   copied             MovingPortions
    MovingPortions   paused             MovingPortions, without what was copied
    MovingPortions   cut                the same, without what does not move any more; after the last one AllMoved
    MovingRounds     sized              MovingRounds
    MovingRounds     cut                the same; after the last one AllMoved
    AllMoved         completed          RemovingWorkers; if nobody leaves Idle
    RemovingWorkers  copies_changed     RemovingWorkers
    RemovingWorkers  workers_removed    Idle
    UnderWay         turned             AddingWorkers; without new workers Weighing; without slots to move AllMoved
    UnderWay         paused             the same
    UnderWay         copies_changed     the same
    UnderWay         stepped            the same
    UnderWay         no_step_comes      the same
    NeedsTasks       recruited          the same
    MovingSlots      cut                the same; after the last one AllMoved
    MovingLive       checkpoint_needed  the same

UnderWay stands for the phases from AddingWorkers to AllMoved, in which the log has the rescale. NeedsTasks stands for WantedRescale and
AddingWorkers, MovingSlots for the three phases in which slots move, and MovingLive for the two of them of a live rescale. After a crash
`phase_after_recovery` gives the phase, as `turned` does.

There are three ways to move slots, and each is a phase:

- **cold**: no step begins from the request until the rescale is settled, and one cut follows the other.
- **live, in portions**: the sources copy portions of neighbouring slots in the background. Each portion that is copied is moved by one cut,
  between two steps, which moves what is new since the copy was made. The next portion is copied meanwhile.
- **live, in rounds**: a planner decides which slots move together (planner.py). They were not copied.

After a cut of a live rescale as many steps go as the shell says (cut_budget.py). While nothing is to be read or the steps are paused, cuts do
not wait for steps.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Self, assert_never

from base.slots import drop_empty
from coordinator.boundary import Boundary
from coordinator.rescale.actions import AddWorkers, Aim, Cut, LogRescale, RemoveWorkers, Wish
from coordinator.rescale.planner import Planner
from coordinator.rescale.slot_moves import Owned, Portion, SlotMoves, missing_members, slot_moves, slots_of
from io_kafka.step_log.layout_records import LayoutIntent, Target


@dataclass(frozen=True)
class RescaleBookkeeping:
    """The bookkeeping of a rescale under way, which it keeps from phase to phase. `is_paused`: whether a user has paused it. `has_copies`:
    whether workers have copies of slots, or make some. `steps_due`: how many steps have to come before the next cut of a live rescale. `cuts`:
    how many were made."""

    is_paused: bool
    has_copies: bool
    steps_due: int
    cuts: int

    def with_cut(self, steps_between: int) -> RescaleBookkeeping:
        """The bookkeeping after one more cut. `steps_between`: how many steps come before the next one."""
        return replace(self, steps_due=steps_between, cuts=self.cuts + 1)


NOTHING_DONE = RescaleBookkeeping(is_paused=False, has_copies=False, steps_due=0, cuts=0)


@dataclass(frozen=True)
class Idle:
    """No rescale is wanted or under way. `owned`, here and in all phases: the owners now."""

    owned: Owned

    @property
    def blocks_steps(self) -> bool:
        """Here and in all phases: whether no step may begin."""
        return False

    def next(self, at: Boundary) -> None:
        return None

    def requested(self, wish: Wish) -> WantedRescale:
        return WantedRescale(self.owned, wish, is_recruited=not missing_members(wish.aim.target.members, self.owned))


@dataclass(frozen=True)
class NeedsTasks:
    """What the phases have that wait for tasks. `is_recruited`: whether there are tasks for all workers that are new."""

    is_recruited: bool = field(kw_only=True)

    def recruited(self) -> Self:
        return replace(self, is_recruited=True)


@dataclass(frozen=True)
class WantedRescale(NeedsTasks):
    """The log does not have the rescale yet."""

    owned: Owned
    wish: Wish

    @property
    def new(self) -> tuple[int, ...]:
        """The workers that the rescale needs and that are not there yet."""
        return missing_members(self.wish.aim.target.members, self.owned)

    @property
    def blocks_steps(self) -> bool:
        return self.wish.aim.is_cold

    def next(self, at: Boundary) -> LogRescale | None:
        may_begin = self.is_recruited and not at.is_checkpointing
        return LogRescale(self.wish) if may_begin and _may_act(self.wish.aim, at) else None

    def refused(self) -> Idle:
        """There are no tasks for the workers that are new, or no room, or the wish was taken back."""
        return Idle(self.owned)

    def intended(self) -> AddingWorkers | Weighing | AllMoved:
        """The intent is in the log."""
        return _first_phase(self.owned, self.wish.aim, NOTHING_DONE, is_recruited=self.is_recruited)


@dataclass(frozen=True)
class UnderWay:
    """What all phases have in which the log has a rescale. `aim`: as the log has it, with the target of the last turn."""

    owned: Owned
    aim: Aim
    bookkeeping: RescaleBookkeeping

    @property
    def blocks_steps(self) -> bool:
        return self.aim.is_cold

    def turned(self, target: Target) -> AddingWorkers | Weighing | AllMoved:
        """The log has another target. What the sources have counted and copied was for other slots."""
        return _first_phase(self.owned, replace(self.aim, target=target), self.bookkeeping, is_recruited=False)

    def paused(self, is_paused: bool) -> Self:
        """A user has paused the rescale, or lets it go on."""
        return replace(self, bookkeeping=replace(self.bookkeeping, is_paused=is_paused))

    def copies_changed(self, has_copies: bool) -> Self:
        """Workers have copies of slots, or make some; or have none any more."""
        return replace(self, bookkeeping=replace(self.bookkeeping, has_copies=has_copies))

    def stepped(self) -> Self:
        """A step has been settled."""
        return replace(self, bookkeeping=replace(self.bookkeeping, steps_due=max(0, self.bookkeeping.steps_due - 1)))

    def no_step_comes(self) -> Self:
        """No step comes, because there is nothing to read or the steps are paused. So a cut delays none."""
        return replace(self, bookkeeping=replace(self.bookkeeping, steps_due=0))


@dataclass(frozen=True)
class AddingWorkers(UnderWay, NeedsTasks):
    """`new`: the members of the target that are not there yet."""

    new: tuple[int, ...]

    def next(self, at: Boundary) -> AddWorkers | None:
        # A worker is made at the last complete version, so no other may be under way.
        may_be_made = self.is_recruited and not at.is_checkpointing
        return AddWorkers(self.new, at.step) if may_be_made and _may_act(self.aim, at) else None

    def workers_added(self, owned: Owned) -> Weighing | AllMoved:
        """All workers of the target are there."""
        assert drop_empty(owned) == drop_empty(self.owned), "slots moved with the new workers"
        begun = _first_phase(owned, self.aim, self.bookkeeping, is_recruited=False)
        assert not isinstance(begun, AddingWorkers), f"workers {begun.new} were not made"
        return begun


@dataclass(frozen=True)
class Weighing(UnderWay):
    """`moves`: what has to move."""

    moves: SlotMoves

    def next(self, at: Boundary) -> None:
        return None

    def weighed(self) -> MovingCold | MovingPortions:
        """The sources know the bytes of their slots, which move in batches."""
        strategy = self.aim.strategy
        assert strategy.protocol == "batches", f"a rescale by {strategy.protocol} without a planner"
        match strategy.mode:
            case "cold":
                return MovingCold(self.owned, self.aim, self.bookkeeping, self.moves)
            case "live":
                return MovingPortions(
                    self.owned, self.aim, self.bookkeeping, self.moves, needs_checkpoint=False, copied_portions=()
                )
            case _:
                assert_never(strategy.mode)

    def planned(self, planner: Planner) -> MovingRounds:
        """The sources know the bytes of their slots, and `planner` decides which of them move together."""
        assert self.aim.strategy.protocol != "batches", f"a planner of batches: {planner}"
        return MovingRounds(
            self.owned,
            self.aim,
            self.bookkeeping,
            self.moves,
            needs_checkpoint=False,
            planner=planner,
            slots_per_round=1,
            is_within_round=False,
        )


@dataclass(frozen=True)
class MovingSlots(UnderWay):
    """What all phases have in which slots move. `moves`: what has to move."""

    moves: SlotMoves

    def cut(self, owned: Owned, steps_between: int) -> Self | AllMoved:
        """Some slots have another owner. `steps_between`: how many steps come before the next cut of a live rescale, unless none comes."""
        bookkeeping, moves = self.bookkeeping.with_cut(steps_between), slot_moves(owned, self.aim.target.owned)
        if not moves:
            return AllMoved(owned, self.aim, bookkeeping, messages=None)
        return replace(self, owned=owned, bookkeeping=bookkeeping, moves=moves)


@dataclass(frozen=True)
class MovingLive(MovingSlots):
    """What both phases of a live rescale have in which slots move between steps. `needs_checkpoint`: whether a checkpoint has to come before
    the next cut."""

    needs_checkpoint: bool

    def checkpoint_needed(self, needs_checkpoint: bool) -> Self:
        """The shell has looked at what was moved since the last version."""
        return replace(self, needs_checkpoint=needs_checkpoint)

    def _may_cut(self, at: Boundary) -> bool:
        """Whether a cut may be made that does not belong to a round which has begun."""
        return not (
            at.is_replaying or self.bookkeeping.is_paused or self.needs_checkpoint or self.bookkeeping.steps_due
        )


@dataclass(frozen=True)
class MovingCold(MovingSlots):
    """Slots move while no step runs."""

    def next(self, at: Boundary) -> Cut | None:
        if self.bookkeeping.is_paused:
            return None
        source, destination = sorted(self.moves)[self.bookkeeping.cuts % len(self.moves)]  # the pairs alternate
        return Cut(self.moves[source, destination], source, destination, is_whole=False)


@dataclass(frozen=True)
class MovingPortions(MovingLive):
    """Slots move between steps, and are copied before. `copied_portions`: those that were copied and have not moved, the oldest one first."""

    copied_portions: tuple[Portion, ...]

    def next(self, at: Boundary) -> Cut | None:
        if not self.copied_portions or not self._may_cut(at):
            return None
        portion = self.copied_portions[0]
        return Cut(portion.slots, portion.source, portion.destination, is_whole=True)

    def paused(self, is_paused: bool) -> MovingPortions:
        """What was copied gets old in a pause, and a cut of it would be large. So it is copied again."""
        return replace(super().paused(is_paused), copied_portions=() if is_paused else self.copied_portions)

    def copied(self, portion: Portion) -> MovingPortions:
        """The destination has copies of all that the slots of the portion had when their copy began."""
        return replace(self, copied_portions=(*self.copied_portions, portion))

    def cut(self, owned: Owned, steps_between: int) -> Self | AllMoved:
        """See MovingSlots. A portion of which something has moved is not kept."""
        after = super().cut(owned, steps_between)
        if isinstance(after, AllMoved):
            return after
        left = slots_of(after.moves)
        return replace(
            after, copied_portions=tuple(each for each in self.copied_portions if each.slots.is_within(left))
        )


@dataclass(frozen=True)
class MovingRounds(MovingLive):
    """Slots move between steps, as the planner of the rescale's protocol says. `slots_per_round`: how many of them one round may move.
    `is_within_round`: whether a round has begun, which has to end before a step."""

    planner: Planner
    slots_per_round: int
    is_within_round: bool

    @property
    def blocks_steps(self) -> bool:
        return self.is_within_round

    def next(self, at: Boundary) -> Cut | None:
        if at.is_replaying or not (self.is_within_round or self._may_cut(at)):
            return None
        move = self.planner.next(self.slots_per_round)
        assert move is not None, f"{self.aim.strategy} has ended, and slots have other owners than in the target"
        return Cut(move.slots, move.source, move.destination, is_whole=True)

    def sized(self, slots_per_round: int) -> MovingRounds:
        """The shell has looked at how many slots one round may move."""
        return replace(self, slots_per_round=slots_per_round)

    def cut(self, owned: Owned, steps_between: int) -> Self | AllMoved:
        """See MovingSlots."""
        is_within_round = self.planner.note_move(owned)
        after = super().cut(owned, steps_between)
        if isinstance(after, AllMoved):
            assert self.planner.next(self.slots_per_round) is None, "slots move on"
            return replace(after, messages=self.planner.messages)
        return replace(after, is_within_round=is_within_round)


Moving = MovingCold | MovingPortions | MovingRounds


@dataclass(frozen=True)
class AllMoved(UnderWay):
    """All slots have the owners of the target. `messages`: how many the machines of its protocol have sent each other, which users see; None if
    it was without a planner."""

    messages: int | None

    def next(self, at: Boundary) -> None:
        return None

    def completed(self, members: Collection[int]) -> RemovingWorkers | Idle:
        """The log has a new layout, which is that of the owners now. `members`: its workers."""
        leaving = tuple(sorted(set(self.owned) - set(members)))
        return RemovingWorkers(self.owned, leaving, self.bookkeeping.has_copies) if leaving else Idle(self.owned)


@dataclass(frozen=True)
class RemovingWorkers:
    """`leaving`: workers that the settled layout does not have. `has_copies`: see RescaleBookkeeping; a worker that receives a
    copy answers for it before it leaves."""

    owned: Owned
    leaving: tuple[int, ...]
    has_copies: bool

    @property
    def blocks_steps(self) -> bool:
        return False

    def next(self, at: Boundary) -> RemoveWorkers | None:
        # They take part in a fold that is under way, and in a copy.
        return None if at.is_checkpointing or self.has_copies else RemoveWorkers(self.leaving)

    def copies_changed(self, has_copies: bool) -> RemovingWorkers:
        """Workers have copies of slots, or have none any more; see UnderWay."""
        return replace(self, has_copies=has_copies)

    def workers_removed(self, owned: Owned) -> Idle:
        """The workers that were to leave are gone."""
        return Idle(owned)


Phase = (
    Idle
    | WantedRescale
    | AddingWorkers
    | Weighing
    | MovingCold
    | MovingPortions
    | MovingRounds
    | AllMoved
    | RemovingWorkers
)


def phase_after_recovery(
    owned: Owned, intent: LayoutIntent | None, target: Target | None
) -> Idle | AddingWorkers | Weighing | AllMoved:
    """The phase of a run that has opened a version in which workers own these slots. `intent`: of the rescale that the log has; `target`:
    where it leads to now."""
    if intent is None or target is None:
        return Idle(owned)
    return _first_phase(owned, Aim(target, intent.strategy), NOTHING_DONE, is_recruited=False)


def _first_phase(
    owned: Owned, aim: Aim, bookkeeping: RescaleBookkeeping, *, is_recruited: bool
) -> AddingWorkers | Weighing | AllMoved:
    """The phase of a rescale by what is left to do, before anything was counted or copied."""
    if new := missing_members(aim.target.members, owned):
        return AddingWorkers(owned, aim, bookkeeping, new, is_recruited=is_recruited)
    if moves := slot_moves(owned, aim.target.owned):
        return Weighing(owned, aim, bookkeeping, moves)
    return AllMoved(owned, aim, bookkeeping, messages=None)


def _may_act(aim: Aim, at: Boundary) -> bool:
    """A live rescale waits for the end of a replay."""
    return aim.is_cold or not at.is_replaying
