"""What the step log knows of revisions, as a value: the one in force, the transition under way, and what the steps ran that may be replayed.

    none ----intent----> filling ----switch(t)----> switching ----step(t)----> clearing ----settled----> none
                          ^ |  ^                     |   |                     ^  ^
                          | |  +-----taken back------+   +--------abort--------+  |
                   resume | +----------------------------abort--------------------+
                          | v detached                                            |
                        detached -------------------------abort-------------------+

`RevisionState` is a part of each snapshot as it is. Which record can follow which is in revision_rules.py.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, assert_never

from pydantic import Field

from io_kafka.step_log.form import Natural, Part
from io_kafka.step_log.programs import FillingProgram, PresentProgram, Program, SwitchingProgram
from io_kafka.step_log.revision_records import (
    RevisionIntent,
    RevisionRecord,
    RevisionSwitch,
    RevisionTurn,
)


class _Transition(Part):
    """`before`: the revision that was in force when it began."""

    before: RevisionRecord
    intent: RevisionIntent


class Filling(_Transition):
    """New nodes are being filled, or are filled and wait for the switch. `turn`: the last one, which is `taken_back` or `resume`; None if the
    transition has had none."""

    kind: Literal["filling"] = "filling"
    turn: RevisionTurn | None = None

    @property
    def is_held(self) -> bool:
        """Whether a switch has failed. Only the user asks for another one."""
        return self.turn is not None and self.turn.reason == "taken_back"


class Detached(_Transition):
    """A new node failed, as `turn` says. The revision in force runs alone, until the transition is resumed or aborted."""

    kind: Literal["detached"] = "detached"
    turn: RevisionTurn


class Switching(_Transition):
    """The switch is recorded, and the output of its step is not written. `counted`: the nodes whose error rows the division before it
    counts. `known`: the topics that were known before it. Both are as before if the switch is taken back."""

    kind: Literal["switching"] = "switching"
    switch: RevisionSwitch
    counted: tuple[Natural, ...]
    known: tuple[str, ...]


class Clearing(_Transition):
    """The transition has ended. `is_switched`: whether with its revision in force; otherwise it was aborted. Tables are to be removed: after a
    switch those of nodes of `before` alone, otherwise those of nodes of `intent` alone. A checkpoint that has all steps below `since` may be
    without them."""

    kind: Literal["clearing"] = "clearing"
    is_switched: bool
    since: Natural


Phase = Annotated[Filling | Detached | Switching | Clearing, Field(discriminator="kind")]


class Passage(Part):
    """The steps of a transition that do not run one revision alone: `first` and those after it fill, and `switch`, if it is recorded, is the
    first one of the next revision. A transition that was aborted or detached has no passage, because a replay of its steps runs `before`
    alone."""

    before: RevisionRecord
    intent: RevisionIntent
    first: Natural
    switch: Natural | None = None


class RevisionState(Part):
    """A new log has the defaults, and so has a log of format 2.

    `root`: the last record `revision`. Steps below its step belong to another revision and are never replayed. `in_force`: the revision that
    the next division belongs to, which is `root` or the last one that was switched to. `passages`: of the steps that may be replayed, in
    order. `filled_before`: the position before the first step in memory. `nodes_gone`: the first step that lacks nodes of the step before it,
    because a transition has ended or was detached there; their error rows end with them. It is None before any."""

    root: RevisionRecord | None = None
    in_force: RevisionRecord | None = None
    phase: Phase | None = None
    passages: tuple[Passage, ...] = ()
    filled_before: Natural = 0
    nodes_gone: Natural | None = None

    def program_of(self, step: int, before: int, after: int) -> Program:
        """What this step runs. `before`, `after`: the positions before and after it."""
        for passage in self.passages:
            if step < passage.first:
                return PresentProgram(passage.before)
            if passage.switch is None or step < passage.switch:
                return FillingProgram(passage.before, passage.intent, before, after)
            if step == passage.switch:
                return SwitchingProgram(passage.before, passage.intent)
        return PresentProgram(self.in_force)

    def passage_that_fills(self, step: int) -> Passage | None:
        """The one in which this step fills; None if it does not."""
        if not self.passages:
            return None  # nearly always
        found = (p for p in self.passages if p.first <= step and (p.switch is None or step < p.switch))
        return next(found, None)

    @property
    def switch_step(self) -> int | None:
        """The step of a switch whose output is not written."""
        return self.phase.switch.step if isinstance(self.phase, Switching) else None

    def has_new_nodes_at(self, step: int) -> bool:
        """Whether this step has nodes that the one before it lacks."""
        return any(step in (passage.first, passage.switch) for passage in self.passages)

    def lacks_nodes_at(self, step: int) -> bool:
        """Whether this step lacks nodes that the one before it has."""
        switched = self.switch_step
        return step == self.nodes_gone or (switched is not None and step in (switched, switched + 1))

    def with_revision(self, record: RevisionRecord) -> RevisionState:
        """No step before it is replayed, so no passage is left."""
        return self._with(root=record, in_force=record, passages=())

    def with_intent(self, record: RevisionIntent) -> RevisionState:
        assert self.in_force is not None
        return self._with(
            phase=Filling(before=self.in_force, intent=record),
            passages=(*self.passages, Passage(before=self.in_force, intent=record, first=record.step)),
        )

    def with_switch(self, record: RevisionSwitch, counted: tuple[int, ...], known: tuple[str, ...]) -> RevisionState:
        assert isinstance(self.phase, Filling)
        before, intent = self.phase.before, self.phase.intent
        switched = self.passages[-1].model_copy(update={"switch": record.step})
        revision = RevisionRecord(epoch=record.epoch, number=record.number, plan=intent.plan, step=record.step)
        return self._with(
            phase=Switching(before=before, intent=intent, switch=record, counted=counted, known=known),
            passages=(*self.passages[:-1], switched),
            in_force=revision,
        )

    def with_turn(self, record: RevisionTurn, steps: int, division_next: int) -> RevisionState:
        """`steps`: the number of committed steps. `division_next`: the step of the next division, without those that the turn makes void."""
        phase = self.phase
        assert phase is not None
        before, intent = phase.before, phase.intent
        others = self.passages[:-1] if isinstance(phase, Filling | Switching) else self.passages
        match record.reason:
            case "abort":
                clearing = Clearing(before=before, intent=intent, is_switched=False, since=steps)
                return self._with(phase=clearing, passages=others, in_force=before, nodes_gone=division_next)
            case "detached":
                detached = Detached(before=before, intent=intent, turn=record)
                return self._with(phase=detached, passages=others, nodes_gone=division_next)
            case "taken_back":
                filling = Filling(before=before, intent=intent, turn=record)
                ready = self.passages[-1].model_copy(update={"switch": None})
                return self._with(phase=filling, passages=(*others, ready), in_force=before)
            case "resume":
                assert record.step is not None
                filling = Filling(before=before, intent=intent, turn=record)
                again = Passage(before=before, intent=intent, first=record.step)
                return self._with(phase=filling, passages=(*others, again))
            case _:
                assert_never(record.reason)

    def with_switch_written(self) -> RevisionState:
        """The output of the switch's step is written."""
        assert isinstance(self.phase, Switching)
        after = self.phase.switch.step + 1
        clearing = Clearing(before=self.phase.before, intent=self.phase.intent, is_switched=True, since=after)
        return self._with(phase=clearing, nodes_gone=after)

    def with_settled(self) -> RevisionState:
        assert isinstance(self.phase, Clearing)
        return self._with(phase=None)

    def forgotten_below(self, step: int, filled: int) -> RevisionState:
        """Without what only replays of steps below `step` need. `filled`: the position before it."""
        needed = tuple(p for p in self.passages if p.switch is None or p.switch >= step)
        return self._with(passages=needed, filled_before=filled)

    def _with(self, **changes: Any) -> RevisionState:
        return self.model_copy(update=changes)

    def check(self) -> None:
        """Asserts the invariants; a failure is a mistake of Stepwell's own."""
        assert (self.root is None) == (self.in_force is None)
        phase = self.phase
        if self.root is None:
            assert phase is None and not self.passages, "a transition from no revision"
        if phase is not None:
            assert self.in_force is not None and phase.intent.number == phase.before.number + 1
            is_next = isinstance(phase, Switching) or (isinstance(phase, Clearing) and phase.is_switched)
            assert self.in_force.number == (phase.intent.number if is_next else phase.before.number)
        is_open = [passage.switch is None for passage in self.passages]
        assert not any(is_open[:-1]), "a passage without end before another one"
        assert any(is_open) == isinstance(phase, Filling)
        if isinstance(phase, Switching):
            assert self.passages[-1].switch == phase.switch.step
        at = -1
        for passage in self.passages:
            assert at < passage.first
            at = passage.first if passage.switch is None else passage.switch
            assert passage.first <= at
