"""What the step log knows of revisions, as a value: the one in force, the transition under way, and what the steps ran that may be replayed.

    none ----intent----> filling ----switch(t)----> switching ----step(t)----> clearing ----settled----> none
                                                            |                     ^
                                                            +-step(t)-> draining -+ the step with which everything has left
                          ^ |  ^                     |   |                     ^  ^
                          | |  +-----taken back------+   +--------abort--------+  |
                   resume | +----------------------------abort--------------------+
                          | v detached                                            |
                        detached -------------------------abort-------------------+

`RevisionState` is a part of each snapshot as it is. Which record can follow which is in revision_rules.py.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, assert_never

from pydantic import Field

from io_kafka.step_log.form import Natural, Part, PartWithLater
from io_kafka.step_log.programs import FillingProgram, PresentProgram, ProgramOfStep, SwitchingProgram
from io_kafka.step_log.revision_records import (
    Drain,
    RevisionIntent,
    RevisionPause,
    RevisionRecord,
    RevisionSwitch,
    RevisionTurn,
)


class _TransitionRecords(Part):
    """The records of the transition under way that every phase has. `before`: the revision that was in force when it began."""

    before: RevisionRecord
    intent: RevisionIntent


class Filling(PartWithLater, _TransitionRecords):
    """New nodes are being filled, or are filled and wait for the switch. `turn`: the last one, which is `taken_back` or `resume`; None if the
    transition has had none. `is_paused`: whether a user has paused it since."""

    LATER: ClassVar[frozenset[str]] = frozenset({"is_paused"})

    kind: Literal["filling"] = "filling"
    turn: RevisionTurn | None = None
    is_paused: bool = False

    @property
    def is_held(self) -> bool:
        """Whether a switch has failed. Only the user asks for another one."""
        return self.turn is not None and self.turn.reason == "taken_back"


class Detached(_TransitionRecords):
    """A new node failed, as `turn` says. The revision in force runs alone, until the transition is resumed or aborted."""

    kind: Literal["detached"] = "detached"
    turn: RevisionTurn


class Switching(_TransitionRecords):
    """The switch is recorded, and the output of its step is not written. `counted`: the nodes whose error rows the division before it
    counts. `known`: the topics that were known before it. Both are as before if the switch is taken back."""

    kind: Literal["switching"] = "switching"
    switch: RevisionSwitch
    counted: tuple[Natural, ...]
    known: tuple[str, ...]


class Draining(_TransitionRecords):
    """The first step of the next revision is written, and a part of what differs has still to leave. Nothing can be taken back any more."""

    kind: Literal["draining"] = "draining"
    switch: RevisionSwitch


class Clearing(_TransitionRecords):
    """The transition has ended. `is_switched`: whether with its revision in force; otherwise it was aborted. Tables are to be removed: after a
    switch those of nodes of `before` alone, otherwise those of nodes of `intent` alone. A checkpoint that has all steps below `since` may be
    without them."""

    kind: Literal["clearing"] = "clearing"
    is_switched: bool
    since: Natural


Phase = Annotated[Filling | Detached | Switching | Draining | Clearing, Field(discriminator="kind")]


class Passage(PartWithLater):
    """The steps of a transition that do not run one revision alone: `first` and those after it fill, and `switch`, if it is recorded, is the
    first one of the next revision. With a `drain` the steps up to `last` belong to it too, and all further ones as long as `last` is not
    written. A transition that was aborted or detached has no passage, because a replay of its steps runs `before` alone."""

    LATER: ClassVar[frozenset[str]] = frozenset({"drain", "last"})

    before: RevisionRecord
    intent: RevisionIntent
    first: Natural
    switch: Natural | None = None
    drain: Drain | None = None
    last: Natural | None = None

    @property
    def end(self) -> int | None:
        """The step after those of the passage; None if it is not known yet."""
        last = self.switch if self.drain is None else self.last
        return None if last is None else last + 1

    def fills(self, step: int) -> bool:
        return self.first <= step and (self.switch is None or step < self.switch)

    def passes_on(self, step: int) -> bool:
        """Whether what differs leaves in this step, all of it or a part."""
        return self.switch is not None and self.switch <= step and (self.end is None or step < self.end)


def _documents_of(transition: Passage | Phase) -> frozenset[str]:
    intent = transition.intent
    return frozenset({transition.before.plan, intent.plan, *intent.plans.names})


class RevisionState(Part):
    """A new log has the defaults, and so has a log of format 2."""

    root: RevisionRecord | None = None
    """The last record `revision`. Steps below its step belong to another revision and are never replayed."""
    in_force: RevisionRecord | None = None
    """The revision that the next division belongs to: `root`, or the last one that was switched to."""
    phase: Phase | None = None
    """The phase of the transition under way; None without one."""
    passages: tuple[Passage, ...] = ()
    """The passages of the steps that may be replayed, in order."""
    filled_before: Natural = 0
    """The position before the first step in memory."""
    nodes_gone: Natural | None = None
    """The first step that lacks nodes of the step before it, because a transition has ended or was detached there. Their error rows end with
    them. None before any."""

    @property
    def documents(self) -> frozenset[str]:
        """The names of the plan documents that every start needs: of the revision in force, and of the transition under way."""
        own = frozenset() if self.in_force is None else frozenset({self.in_force.plan})
        return own if self.phase is None else own | _documents_of(self.phase)

    @property
    def replayed_documents(self) -> frozenset[str]:
        """The names of those that only a replay needs."""
        return frozenset[str]().union(*map(_documents_of, self.passages)) - self.documents

    def program_of(self, step: int, before: int, after: int) -> ProgramOfStep:
        """What this step runs. `before`, `after`: the positions before and after it."""
        for passage in self.passages:
            if step < passage.first:
                return PresentProgram(passage.before)
            if passage.fills(step):
                return FillingProgram(passage.before, passage.intent, before, after)
            if passage.passes_on(step):
                drained = None if passage.drain is None else (before, after)
                return SwitchingProgram(passage.before, passage.intent, drained)
        return PresentProgram(self.in_force)

    def revision_since(self, step: int) -> int:
        """The first step of the revision that is in force in this step."""
        for passage in self.passages:
            if passage.switch is None or step < passage.switch:
                return passage.before.step
        return 0 if self.in_force is None else self.in_force.step

    def first_with_views_of(self, number: int) -> int:
        """The earliest step before which a version can have been taken that has the views of this revision; 0 if nothing is known of its
        beginning. After a switch they are there when its step is done."""
        records = (self.in_force, *(passage.before for passage in self.passages))
        record = next((each for each in records if each is not None and each.number == number), None)
        if record is None or record == self.root:
            return 0
        return record.step + 1

    def last_with_views_of(self, number: int) -> int | None:
        """The last step before which a version can have been taken that has the views of this revision; None if there is no end of it."""
        ends = (passage.switch for passage in self.passages if passage.before.number == number)
        ended = next((end for end in ends if end is not None), None)
        if ended is None and self.in_force is not None and self.in_force.number != number:
            return self.in_force.step
        return ended

    def passage_that_fills(self, step: int) -> Passage | None:
        """The one in which this step fills; None if it does not."""
        if not self.passages:
            return None  # nearly always
        return next((passage for passage in self.passages if passage.fills(step)), None)

    def passage_that_switches(self, step: int) -> Passage | None:
        """The one of which a difference leaves in this step; None if none does."""
        if not self.passages:
            return None  # nearly always
        return next((passage for passage in self.passages if passage.passes_on(step)), None)

    def drain_at(self, step: int) -> Drain | None:
        """The drain to which this step belongs; None if it belongs to none."""
        passage = self.passage_that_switches(step)
        return None if passage is None else passage.drain

    @property
    def switch_step(self) -> int | None:
        """The step of a switch whose output is not written."""
        return self.phase.switch.step if isinstance(self.phase, Switching) else None

    @property
    def drain(self) -> Drain | None:
        """The one that is under way, from the record of the switch until its last step is written."""
        return self.phase.switch.drain if isinstance(self.phase, Switching | Draining) else None

    @property
    def is_paused(self) -> bool:
        """Whether a user has paused the transition under way."""
        return isinstance(self.phase, Filling) and self.phase.is_paused

    def is_to_pass_on(self, step: int) -> bool:
        """Whether differences have to leave in this step, so that it is run without input too. It is the next one, or the one after it."""
        return step == self.switch_step or self.drain is not None

    def has_new_nodes_at(self, step: int) -> bool:
        """Whether this step has nodes that the one before it lacks."""
        return any(step in (passage.first, passage.switch) for passage in self.passages)

    def lacks_nodes_at(self, step: int) -> bool:
        """Whether this step lacks nodes that the one before it has."""
        switched = self.switch_step
        if switched is None:
            return step == self.nodes_gone
        return step == self.nodes_gone or step == switched or (step == switched + 1 and self.drain is None)

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
        switched = self.passages[-1].model_copy(update={"switch": record.step, "drain": record.drain})
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
                ready = self.passages[-1].model_copy(update={"switch": None, "drain": None})
                return self._with(phase=filling, passages=(*others, ready), in_force=before)
            case "resume":
                assert record.step is not None
                filling = Filling(before=before, intent=intent, turn=record)
                again = Passage(before=before, intent=intent, first=record.step)
                return self._with(phase=filling, passages=(*others, again))
            case _:
                assert_never(record.reason)

    def with_pause(self, record: RevisionPause) -> RevisionState:
        assert isinstance(self.phase, Filling)
        return self._with(phase=self.phase.model_copy(update={"is_paused": record.is_paused}))

    def with_passed_on(self, step: int, drained: int | None) -> RevisionState:
        """The output of a step in which differences leave is written. `drained`: the position after it, in a drain."""
        phase = self.phase
        assert isinstance(phase, Switching | Draining)
        before, intent, drain = phase.before, phase.intent, phase.switch.drain
        passages = self.passages
        if drain is not None:
            if drained != drain.whole:
                return self._with(phase=Draining(before=before, intent=intent, switch=phase.switch))
            passages = (*passages[:-1], passages[-1].model_copy(update={"last": step}))
        clearing = Clearing(before=before, intent=intent, is_switched=True, since=step + 1)
        return self._with(phase=clearing, passages=passages, nodes_gone=step + 1)

    def with_settled(self) -> RevisionState:
        assert isinstance(self.phase, Clearing)
        return self._with(phase=None)

    def forgotten_below(self, step: int, filled: int) -> RevisionState:
        """Returns the state without what only replays of steps below `step` need. `filled`: the position before it."""
        needed = tuple(p for p in self.passages if p.end is None or p.end > step)
        return self._with(passages=needed, filled_before=filled)

    def _with(self, **changes: Any) -> RevisionState:
        return self.model_copy(update=changes)

    def check(self) -> None:
        """Asserts the invariants; a failure is a bug in Stepwell."""
        assert (self.root is None) == (self.in_force is None), (
            "a revision in force without a root, or the other way round"
        )
        phase = self.phase
        if self.root is None:
            assert phase is None and not self.passages, "a transition from no revision"
        if phase is not None:
            assert self.in_force is not None, "a transition without a revision in force"
            assert phase.intent.number == phase.before.number + 1, (
                "a transition that does not lead to the next revision"
            )
            is_next = isinstance(phase, Switching | Draining) or (isinstance(phase, Clearing) and phase.is_switched)
            number = phase.intent.number if is_next else phase.before.number
            assert self.in_force.number == number, f"revision {self.in_force.number} in force in place of {number}"
        is_open = [passage.switch is None for passage in self.passages]
        has_no_end = [passage.end is None for passage in self.passages]
        assert not any(has_no_end[:-1]), "a passage without end before another one"
        assert any(is_open) == isinstance(phase, Filling), "a passage that fills when nothing is filling, or none"
        if isinstance(phase, Switching | Draining):
            last = self.passages[-1]
            assert (last.switch, last.drain) == (phase.switch.step, phase.switch.drain), "a passage with another switch"
            assert last.last is None, "a drain that goes on has ended"
            assert isinstance(phase, Switching) or phase.switch.drain is not None, "a drain of nothing"
        else:
            assert any(has_no_end) == isinstance(phase, Filling), "a passage that goes on without a transition, or none"
        at = -1
        for passage in self.passages:
            assert at < passage.first, f"the passage from step {passage.first} on begins before another one has ended"
            at = passage.first if passage.end is None else passage.end - 1
            assert passage.first <= at, f"the passage from step {passage.first} on ends at step {at}"
            if passage.last is not None:
                assert passage.switch is not None and passage.switch <= passage.last, (
                    "a drain that ends before its switch"
                )
