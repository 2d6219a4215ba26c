"""The records of the step log that say which project the state belongs to, and how it gets another one while it runs.

    revision           the project that the state belongs to, by the name of its plan document
    revision_intent    a transition to another project has begun: its new nodes are filled in the steps from here on
    revision_switch    the next step is the first one of that project, and perhaps the first of a drain
    revision_turn      the transition goes another way: it is aborted, detached, taken back or resumed
    revision_settled   the tables of nodes that no project has any more are gone, and the transition is over

How far new nodes are filled is said by `DivisionRecord.filled`, and what is read again for them by `DivisionRecord.again`. In a drain,
`DivisionRecord.filled` says how far the differences have left. Which record can follow which is in revision_rules.py.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from io_kafka.offsets import TopicPartition
from io_kafka.step_log.form import Natural, Part, PartWithLater, RecordBase, TopicIdentity
from io_kafka.step_log.table_records import TableRecord

Number = Annotated[int, Field(ge=1)]
PlanName = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
TurnTo = Literal["abort", "detached", "taken_back", "resume"]


class RevisionRecord(RecordBase):
    """The project that the state belongs to from `step` on. `plan`: the name of its plan document (plans.py), which is written in the same
    transaction. `number`: one more than that of the revision before it, and 1 for the first one."""

    kind: Literal["revision"] = "revision"
    number: Number
    plan: PlanName
    step: Natural


class Choices(PartWithLater):
    """What the user has chosen for a transition. `hold`: the switch waits until the user asks for it. `from_now`: the sources that new nodes
    count from the present positions on; the plan document has the offsets. `append_from_now`: the append outputs that get only what comes out
    from the switch on. `retract`: the outputs of the former project whose content is taken back. `reload`: the batch tables that are loaded
    again, by handle, in order. `gradual`: what differs leaves in several steps (see Drain)."""

    LATER: ClassVar[frozenset[str]] = frozenset({"gradual"})

    hold: bool
    from_now: tuple[str, ...] = ()
    append_from_now: tuple[str, ...] = ()
    retract: tuple[str, ...] = ()
    reload: tuple[str, ...] = ()
    gradual: bool = False


class TransitionPlans(Part):
    """The names of the documents of a transition, which are in the topic of plan documents too. `facts`: what the coordinator has to know of it.
    The others are what workers run: `present` the revision that was in force, and `following` the one to come."""

    facts: PlanName
    present: PlanName
    filling: PlanName
    switching: PlanName
    following: PlanName

    @property
    def names(self) -> tuple[str, ...]:
        return self.facts, self.present, self.filling, self.switching, self.following


class ReadAgain(Part):
    """One partition that is read from `start` on for new nodes. `is_live`: the revision in force reads it too, so at the switch new nodes must
    have been given all that it has read. `is_from_now`: nothing is read from before the start, because the user has chosen that, so the pipeline
    may have begun earlier."""

    topic: str
    partition: Natural
    start: Natural
    is_live: bool
    is_from_now: bool = False

    @property
    def where(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class RevisionIntent(PartWithLater, RecordBase):
    """A transition from the revision in force, which is `number - 1`, to the next one. `plan`: the name of the next one's plan document, which
    is written in the same transaction, and so are `plans`. `whole`: the position at which all new nodes are filled. `again`: the partitions
    that are read for them, in order; one that is added to a topic meanwhile is not among them. `step`: the first step that fills. `tables`: the
    batch tables that were loaded for it, whole, each into a topic of its own. `topics`: those that the revision in force does not read, as they
    were when the transition was planned; a former release did not record them."""

    LATER: ClassVar[frozenset[str]] = frozenset({"topics"})

    kind: Literal["revision_intent"] = "revision_intent"
    number: Number
    plan: PlanName
    plans: TransitionPlans
    whole: Annotated[int, Field(ge=1)]
    choices: Choices
    again: tuple[ReadAgain, ...]
    step: Natural
    tables: tuple[TableRecord, ...] = ()
    topics: tuple[TopicIdentity, ...] = ()


class Drain(Part):
    """What differs at a switch leaves in several steps, by ascending ranges of hashes. `whole`: the position at which everything has left; that
    of the first step begins at 0. `rows`: how many rows the differences had at the switch."""

    whole: Annotated[int, Field(ge=1)]
    rows: Natural


class RevisionSwitch(PartWithLater, RecordBase):
    """The next revision is in force from `step` on, which runs the switch. `topics` are those that it announces. `drain`: None if all that
    differs leaves in that step."""

    LATER: ClassVar[frozenset[str]] = frozenset({"drain"})

    kind: Literal["revision_switch"] = "revision_switch"
    number: Number
    step: Natural
    topics: tuple[TopicIdentity, ...] = ()
    drain: Drain | None = None


class RevisionTurn(RecordBase):
    """The transition goes another way.

    abort        It is over, and what it has made is to be cleared. `step` is None.
    detached     A new node failed in `step`. From now on the revision in force runs alone, also in replays of earlier steps.
    taken_back   `step`, which is that of the switch, failed. It is void, and the transition is filled as it was before. Once it has output
                 it cannot be taken back, also not during a drain.
    resume       After `detached`: new nodes are filled again from nothing, from `step` on, which is the next to be divided.

    `error`: why, for users."""

    kind: Literal["revision_turn"] = "revision_turn"
    number: Number
    reason: TurnTo
    step: Natural | None
    error: str | None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.step is None) != (self.reason == "abort"):
            raise ValueError(f"a turn by {self.reason} {'lacks its step' if self.step is None else 'has a step'}")
        if self.reason in ("detached", "taken_back") and self.error is None:
            raise ValueError(f"a turn by {self.reason} lacks its error")
        return self


class RevisionPause(RecordBase):
    """A user has paused the transition, or lets it go on. While it is paused nothing more is filled, and no switch follows. A division that was
    made before the request may still fill."""

    kind: Literal["revision_pause"] = "revision_pause"
    number: Number
    is_paused: bool


class RevisionSettled(RecordBase):
    """The transition is over: the complete checkpoint at `step` holds no table of a node that the revision in force lacks. From now on the
    numbers of such nodes are free. `tables_gone`: the topics of the loads of batch tables that it does not read, in order. They may be deleted
    from now on."""

    kind: Literal["revision_settled"] = "revision_settled"
    number: Number
    step: Natural
    tables_gone: tuple[str, ...] = ()
