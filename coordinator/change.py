"""How a change of the layout goes on: a state machine without I/O, clock or randomness.

    none --request--> WANTED --> intent in the log --> STAFFING --> MOVING --> MOVED --> a checkpoint settles it --> BURYING --> none

    stage      what it waits for                                                  action
    WANTED     tasks for the workers that are new                                 LogChange
    STAFFING   the same, after a crash                                            Staff: they are made, and all workers join each other
    MOVING     the sources have weighed their slots, and copied those that are    Cut
               to be; then one boundary per cut
    MOVED      a checkpoint that has the owners of the target                     (the checkpoint is asked for)
    BURYING    -                                                                  Bury: workers without slots leave

`Core` asks for the next action at drained boundaries only, when no checkpoint is between its intent and its freeze. The stages MOVING and MOVED
are not remembered: a change is in MOVED exactly if the owners are those of its target, so a turn to another target leads back to MOVING by
itself.

Which slots a cut moves is decided here, in **batches** of neighbouring slots; or, in a live change, by the machines of a **protocol**
(migration/driver.py), which may need several cuts before the next step begins.

A **cold** change lets no step begin from the request until it is settled. A **live** one makes one cut, then lets as many steps go as the shell
says (cut_budget.py), and so on; while nothing is to be read or the steps are paused, cuts follow each other. In a **hot** one the sources copy
their slots beside the steps, and then all cuts follow each other while no step begins. They move only what is new since the copies were made. A
live change does the same with slots that exceed its budget, but goes on cut by cut.

Guarantees, which `check` asserts: every slot has one owner, and that is its owner in the layout or in one of the targets of the change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from base.slots import NO_SLOTS, SlotSet, owning, why_no_partition
from coordinator.migration.damion_driver import DamionMigration
from coordinator.migration.driver import Migration
from coordinator.migration.icadd_driver import IcaddMigration
from io_kafka.step_log.layout_records import ChangeMode, CutProtocol, Target
from io_kafka.step_log.layout_rules import why_not_owned
from io_kafka.step_log.state import StepLogState

COPIED_SLOTS_MAX = 16
"""Of the slots of a live change that exceed its budget, how many are copied and then cut together."""


@dataclass(frozen=True)
class Wanted:
    """A change that is asked for and that the log does not have yet. See LayoutIntent."""

    mode: ChangeMode
    target: Target
    asked: int | None
    budget_bytes: int | None = None
    budget_ms: float | None = None
    protocol: CutProtocol = "batches"


@dataclass(frozen=True)
class LogChange:
    """Write the intent of the change into the log."""

    wanted: Wanted


@dataclass(frozen=True)
class Staff:
    """Make the workers that are new, so that they stand before `step`, and connect all workers to each other."""

    new: tuple[int, ...]
    step: int


@dataclass(frozen=True)
class Cut:
    """Let some of these slots, the first ones, go from one worker to the other; all of them if `is_whole`."""

    slots: SlotSet
    source: int
    destination: int
    is_whole: bool


@dataclass(frozen=True)
class Bury:
    """Let these workers, which own nothing and belong to no version that is needed, leave."""

    leaving: tuple[int, ...]


ChangeAction = LogChange | Staff | Cut | Bury


@dataclass
class Change:
    """`owned`: the slots of each worker now, also of those without any. `is_recruited`: whether there are tasks for all workers that are new.
    `is_weighed`: whether the sources know the bytes of their slots. `heavy`: slots that each have more than one cut of a live change may move,
    and that have not moved. They are copied first, a portion after the other. `is_copied`: whether a portion was, or all that a hot change
    moves. `is_copying`: whether workers have copies, or make some. `is_held`: whether a user has paused the change. `is_crowded`: whether a
    checkpoint has to come before the next cut. `steps_due`: how many steps have to come before the next cut of a live change. `cuts`: their
    number in this change.
    `leaving`: workers that the settled layout does not have. `migration`: the machines of a protocol, if the change goes by one, and
    `slots_per_round` how many slots one of its rounds may move."""

    owned: Mapping[int, SlotSet]
    wanted: Wanted | None = None
    is_recruited: bool = False
    is_weighed: bool = False
    heavy: SlotSet = NO_SLOTS
    is_copying: bool = False
    is_copied: bool = False
    is_held: bool = False
    is_crowded: bool = False
    steps_due: int = 0
    cuts: int = 0
    leaving: tuple[int, ...] = ()
    migration: Migration | None = None
    slots_per_round: int = 1

    def is_idle(self, log: StepLogState) -> bool:
        """Whether nothing is wanted or under way. Each action of the core asks, so it takes constant time."""
        return log.change is None and self.wanted is None and not self.leaving

    def mode(self, log: StepLogState) -> ChangeMode | None:
        """That of the change that is wanted or under way; None without one."""
        if log.change is not None:
            return log.change.mode
        return None if self.wanted is None else self.wanted.mode

    def target(self, log: StepLogState) -> Target | None:
        """Where the change that is wanted or under way leads to; None without one."""
        return log.target or (None if self.wanted is None else self.wanted.target)

    def new(self, log: StepLogState) -> tuple[int, ...]:
        """The workers that the change needs and that are not there yet."""
        target = self.target(log)
        return () if target is None else tuple(n for n in target.members if n not in self.owned)

    def is_moved(self, log: StepLogState) -> bool:
        """Whether all slots have the owners to which the change under way leads."""
        if log.change is None:
            return False
        return log.target is not None and not self.new(log) and not moves(self.owned, log.target.owned)

    def next(self, log: StepLogState, step: int, *, is_folding: bool, is_replaying: bool) -> ChangeAction | None:
        """What is to be done at a drained boundary before `step`; None if nothing is due. `is_folding`: whether a checkpoint is being folded."""
        if self.is_idle(log):
            return None
        self.check(log)
        if log.change is None:
            return self._begin(log, is_folding=is_folding, is_replaying=is_replaying)
        if is_replaying and log.change.mode != "cold":
            return None
        if new := self.new(log):
            # A worker is made at the last complete version, so no other may be under way.
            return Staff(new, step) if self.is_recruited and not is_folding else None
        if not self.is_within_round and (self.is_held or not self.is_weighed or not self._may_cut(log)):
            return None
        assert log.target is not None
        ways = moves(self.owned, log.target.owned)
        if not ways:
            assert self.migration is None or self.migration.next(self.slots_per_round) is None, "slots move on"
            return None
        if log.change.protocol != "batches":
            return self._cut_of(log.change.protocol, log.target.owned)
        # The copied slots come first, because the source merges nothing with what was copied. The pairs take turns.
        first = within(ways, self.portion) or ways
        source, destination = sorted(first)[self.cuts % len(first)]
        return Cut(first[source, destination], source, destination, is_whole=False)

    @property
    def portion(self) -> SlotSet:
        """The slots over the budget that are copied and cut together. What has come to them since they were copied moves in one cut."""
        return self.heavy.first(COPIED_SLOTS_MAX)

    def to_copy(self, log: StepLogState) -> dict[tuple[int, int], SlotSet]:
        """The slots of the change under way that are copied beside the steps, by (source, destination)."""
        assert log.change is not None and log.target is not None
        match log.change.mode:
            case "hot":
                return moves(self.owned, log.target.owned)
            case "live":
                # The machines of a protocol know of no copies.
                is_heavy = self.heavy != NO_SLOTS and log.change.protocol == "batches"
                return within(moves(self.owned, log.target.owned), self.portion) if is_heavy else {}
            case "cold":
                return {}
            case _:
                assert_never(log.change.mode)

    @property
    def is_within_round(self) -> bool:
        """Whether the machines of a protocol have begun what has to end before a step."""
        return self.migration is not None and self.migration.is_within_round

    def _cut_of(self, protocol: CutProtocol, target: Mapping[int, SlotSet]) -> Cut:
        """What the machines of a protocol move next. Not all slots have moved."""
        if self.migration is None:
            self.migration = migration_of(protocol, self.owned, target, self.slots_per_round)
        move = self.migration.next(self.slots_per_round)
        assert move is not None, f"{protocol} has ended, and slots have other owners than in the target"
        return Cut(move.slots, move.source, move.destination, is_whole=True)

    def _begin(self, log: StepLogState, *, is_folding: bool, is_replaying: bool) -> ChangeAction | None:
        """Without a change under way: what is left of the one before, or the one that is wanted."""
        if self.leaving:
            # They take part in a fold that is under way, and in a copy.
            return None if is_folding or self.is_copying else Bury(self.leaving)
        if self.wanted is None or not self.is_recruited or is_folding or (is_replaying and self.wanted.mode != "cold"):
            return None
        return LogChange(self.wanted)

    def _may_cut(self, log: StepLogState) -> bool:
        """Of the change under way."""
        assert log.change is not None
        match log.change.mode:
            case "cold":
                return True
            case "live":
                return not self.is_crowded and self.steps_due == 0 and (self.is_copied or not self.to_copy(log))
            case "hot":
                return self.is_copied
            case _:
                assert_never(log.change.mode)

    def holds_steps(self, log: StepLogState) -> bool:
        """Whether no step may begin."""
        match self.mode(log):
            case "cold":
                return True
            case "hot":
                return self.is_copied and not self.is_held and not self.is_moved(log)
            case "live":
                return self.is_within_round
            case None:
                return False
            case mode:
                assert_never(mode)

    def is_due(self, log: StepLogState, *, is_folding: bool, is_replaying: bool) -> bool:
        """Whether something waits for a drained boundary."""
        if self.is_idle(log):
            return False
        if self.holds_steps(log) or self.is_moved(log):
            return True
        return self.next(log, 0, is_folding=is_folding, is_replaying=is_replaying) is not None

    # Requests and reports

    def request(self, wanted: Wanted, log: StepLogState) -> None:
        assert self.wanted is None and log.change is None, "a change of the layout is under way"
        self.wanted, self.is_recruited = wanted, False
        self.is_recruited = not self.new(log)

    def refuse(self) -> None:
        """The change does not begin: there are no tasks for the workers that are new, or it was taken back."""
        self.wanted = None

    def recruited(self) -> None:
        self.is_recruited = True

    def intended(self, log: StepLogState) -> None:
        """The intent is in the log."""
        assert log.change is not None
        self.wanted = None

    def staffed(self, owned: Mapping[int, SlotSet]) -> None:
        """All workers of the target are there."""
        assert owning(owned) == owning(self.owned), "slots moved with the new workers"
        self.owned, self.is_recruited = owned, False
        self._unprepared()

    def turned(self) -> None:
        """The change has another target, which the log has."""
        self.is_recruited = False
        self._unprepared()

    def weighed(self, heavy: SlotSet) -> None:
        self.is_weighed, self.heavy = True, heavy

    def copied(self) -> None:
        self.is_copied = True

    def cut(self, owned: Mapping[int, SlotSet], steps_between: int) -> None:
        """Some slots have another owner. `steps_between`: how many steps come before the next cut of a live change, unless there are none."""
        assert steps_between > 0, "no step between two cuts"
        if self.heavy != NO_SLOTS:
            self._moved_heavy(SlotSet.of(span for its in moves(self.owned, owned).values() for span in its.ranges))
        self.owned, self.steps_due = owned, steps_between
        if self.migration is not None:
            self.migration.moved()
            if not self.migration.is_within_round:
                self.migration.check(owned)
        self.cuts += 1

    def _moved_heavy(self, moved: SlotSet) -> None:
        portion = self.portion
        self.heavy = self.heavy.minus(moved)
        if portion.intersection(self.heavy) == NO_SLOTS:
            self.is_copied = False  # the next portion was not

    def stepped(self) -> None:
        """A step has been settled."""
        self.steps_due = max(0, self.steps_due - 1)

    def rested(self) -> None:
        """No step comes, because there is nothing to read or the steps are paused. So a cut delays none."""
        self.steps_due = 0

    def settled(self, log: StepLogState) -> None:
        """The log has a new layout, which is that of the owners now."""
        assert log.change is None
        births = log.settled_layout.placed.births
        self.leaving = tuple(worker for worker in sorted(self.owned) if worker not in births)
        self.cuts, self.is_held = 0, False
        self._unprepared()

    def _unprepared(self) -> None:
        """What the sources have counted and copied was for other slots."""
        self.is_weighed = self.is_copied = False
        self.heavy, self.migration = NO_SLOTS, None

    def buried(self, owned: Mapping[int, SlotSet]) -> None:
        """The workers that were to leave are gone."""
        self.owned, self.leaving = owned, ()

    def check(self, log: StepLogState) -> None:
        for why_not in (why_no_partition(self.owned), why_not_owned(self.owned, log.ground)):
            assert why_not is None, why_not
        assert self.wanted is None or log.change is None, "a second change is wanted"


def migration_of(
    protocol: CutProtocol, owned: Mapping[int, SlotSet], target: Mapping[int, SlotSet], slots_per_round: int
) -> Migration:
    """The machines of a protocol, at the beginning. `owned` has all workers."""
    everybody = {worker: target.get(worker, NO_SLOTS) for worker in owned}
    match protocol:
        case "damion":
            return DamionMigration(owned, everybody, slots_per_round)
        case "icadd":
            return IcaddMigration(owned, everybody)
        case "batches":
            raise AssertionError("batches need no machines")
        case _:
            assert_never(protocol)


Ways = Mapping[tuple[int, int], SlotSet]
"""The slots that go from a source to a destination."""


def within(ways: Ways, slots: SlotSet) -> dict[tuple[int, int], SlotSet]:
    """Of these ways, what concerns these slots."""
    found = {ends: its.intersection(slots) for ends, its in ways.items()} if slots != NO_SLOTS else {}
    return {ends: its for ends, its in found.items() if its != NO_SLOTS}


def moves(owned: Mapping[int, SlotSet], target: Mapping[int, SlotSet]) -> dict[tuple[int, int], SlotSet]:
    """The slots that have to go from one worker to another, by (source, destination)."""
    found: dict[tuple[int, int], SlotSet] = {}
    for source, slots in owned.items():
        for destination, wanted in target.items():
            if source != destination and (moving := slots.intersection(wanted)) != NO_SLOTS:
                found[source, destination] = moving
    return found
