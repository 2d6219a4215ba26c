"""How a change of the layout goes on: a state machine without I/O, clock or randomness.

    none --request--> WANTED --> intent in the log --> STAFFING --> MOVING --> MOVED --> a checkpoint settles it --> BURYING --> none

    stage      what it waits for                                                  action
    WANTED     tasks for the workers that are new                                 LogChange
    STAFFING   the same, after a crash                                            Staff: they are made, and all workers join each other
    MOVING     the sources have weighed their slots, and if it is hot copied      Cut
               them; then one boundary per cut
    MOVED      a checkpoint that has the owners of the target                     (the checkpoint is asked for)
    BURYING    -                                                                  Bury: workers without slots leave

`Core` asks for the next action at drained boundaries only, when no checkpoint is between its intent and its freeze. The stages MOVING and MOVED
are not remembered: a change is in MOVED exactly if the owners are those of its target, so a turn to another target leads back to MOVING by
itself.

A **cold** change lets no step begin from the request until it is settled. A **live** one makes one cut, then lets a step go, and so on; while
nothing is to be read or the steps are paused, cuts follow each other. In a **hot** one the sources copy their slots beside the steps, and then
all cuts follow each other while no step begins. They move only what is new since the copies were made.

Guarantees, which `check` asserts: every slot has one owner, and that is its owner in the layout or in one of the targets of the change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from base.slots import NO_SLOTS, SlotSet, owning, why_no_partition
from io_kafka.step_log.layout_records import ChangeMode, Target
from io_kafka.step_log.layout_rules import why_not_owned
from io_kafka.step_log.state import StepLogState


@dataclass(frozen=True)
class Wanted:
    """A change that is asked for and that the log does not have yet. See LayoutIntent."""

    mode: ChangeMode
    target: Target
    asked: int | None
    budget_bytes: int | None = None
    budget_ms: float | None = None


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
    """Let some of these slots, the first ones, go from one worker to the other."""

    slots: SlotSet
    source: int
    destination: int


@dataclass(frozen=True)
class Bury:
    """Let these workers, which own nothing and belong to no version that is needed, leave."""

    leaving: tuple[int, ...]


ChangeAction = LogChange | Staff | Cut | Bury


@dataclass
class Change:
    """`owned`: the slots of each worker now, also of those without any. `is_recruited`: whether there are tasks for all workers that are new.
    `is_weighed`: whether the sources know the bytes of their slots. `is_copied`: whether all that a hot change moves was copied. `is_held`:
    whether a user has paused the change. `is_crowded`: whether a checkpoint has to come before the next cut. `has_cut`: whether a cut was made
    since the last step. `cuts`: their number in this change. `leaving`: workers that the settled layout does not have."""

    owned: Mapping[int, SlotSet]
    wanted: Wanted | None = None
    is_recruited: bool = False
    is_weighed: bool = False
    is_copied: bool = False
    is_held: bool = False
    is_crowded: bool = False
    has_cut: bool = False
    cuts: int = 0
    leaving: tuple[int, ...] = ()

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
        if self.is_held or not self.is_weighed or not self._may_cut(log.change.mode):
            return None
        assert log.target is not None
        ways = moves(self.owned, log.target.owned)
        if not ways:
            return None
        source, destination = sorted(ways)[self.cuts % len(ways)]  # the pairs take turns
        return Cut(ways[source, destination], source, destination)

    def _begin(self, log: StepLogState, *, is_folding: bool, is_replaying: bool) -> ChangeAction | None:
        """Without a change under way: what is left of the one before, or the one that is wanted."""
        if self.leaving:
            # They take part in a fold that is under way.
            return None if is_folding else Bury(self.leaving)
        if self.wanted is None or not self.is_recruited or is_folding or (is_replaying and self.wanted.mode != "cold"):
            return None
        return LogChange(self.wanted)

    def _may_cut(self, mode: ChangeMode) -> bool:
        match mode:
            case "cold":
                return True
            case "live":
                return not self.is_crowded and not self.has_cut
            case "hot":
                return self.is_copied
            case _:
                assert_never(mode)

    def holds_steps(self, log: StepLogState) -> bool:
        """Whether no step may begin."""
        match self.mode(log):
            case "cold":
                return True
            case "hot":
                return self.is_copied and not self.is_held and not self.is_moved(log)
            case "live" | None:
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
        """The change cannot begin: there are no tasks for the workers that are new."""
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
        self.owned, self.is_recruited, self.is_weighed, self.is_copied = owned, False, False, False

    def turned(self) -> None:
        """The change has another target, which the log has."""
        self.is_weighed = self.is_copied = self.is_recruited = False

    def weighed(self) -> None:
        self.is_weighed = True

    def copied(self) -> None:
        self.is_copied = True

    def cut(self, owned: Mapping[int, SlotSet]) -> None:
        """Some slots have another owner."""
        self.owned, self.has_cut = owned, True
        self.cuts += 1

    def stepped(self) -> None:
        """A step has been settled, or there was nothing to read."""
        self.has_cut = False

    def settled(self, log: StepLogState) -> None:
        """The log has a new layout, which is that of the owners now."""
        assert log.layout is not None and log.change is None
        self.leaving = tuple(worker for worker in sorted(self.owned) if worker not in log.layout.placed.births)
        self.cuts, self.is_held, self.is_weighed, self.is_copied = 0, False, False, False

    def buried(self, owned: Mapping[int, SlotSet]) -> None:
        """The workers that were to leave are gone."""
        self.owned, self.leaving = owned, ()

    def check(self, log: StepLogState) -> None:
        for why_not in (why_no_partition(self.owned), why_not_owned(self.owned, log.ground)):
            assert why_not is None, why_not
        assert self.wanted is None or log.change is None, "a second change is wanted"


def moves(owned: Mapping[int, SlotSet], target: Mapping[int, SlotSet]) -> dict[tuple[int, int], SlotSet]:
    """The slots that have to go from one worker to another, by (source, destination)."""
    found: dict[tuple[int, int], SlotSet] = {}
    for source, slots in owned.items():
        for destination, wanted in target.items():
            if source != destination and (moving := slots.intersection(wanted)) != NO_SLOTS:
                found[source, destination] = moving
    return found
