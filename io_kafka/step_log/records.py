"""The records of the step log, and their written form.

Guarantees: `decode(encode(r)) == r`. A message that is not exactly a record of this form is refused, with its topic and
offset. A record is one line of JSON that a person can read with any console consumer.

Parsing is strict because the log decides what is written again after a crash. A field that is guessed, or ignored because
a newer version wrote it, would show as lost or doubled output much later.

    kind                 meaning
    claim                the run of this epoch holds the pipeline from here on
    ended                that run has ended by itself, so another one need not wait for a sign of it
    division             step s reads exactly these offsets
    step                 the output of step s: digests, and the end of every output partition
    checkpoint_intent    databases may begin to hold this version
    checkpoint_complete  every database holds this version
    checkpoint_stored    the checkpoint store holds this version too, or an older one that is to be restored
    layout, layout_*     which worker owns which slots (layout_records.py)
    revision, revision_* the project that the state belongs to, and transitions between projects (revision_records.py)
    circuit, leaves      the same in format 2 (former_formats.py)
    table                rows of a batch table were written to a topic of Stepwell's own, up to these ends
    refresh              a full refresh has begun: the outputs are being emptied, to be rebuilt as this generation
    taken_back           tombstones were written to upsert topics, up to these ends
    reset                all outputs are empty: steps begin again at 0, with databases of this generation
    snapshot             the whole state of the log, so that all records before it may be deleted
    copied               the state of this new log is that of another pipeline at a version of the checkpoint store
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, TypeAdapter, ValidationError

from base.version import VersionId
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.division_records import DivisionRecord as DivisionRecord
from io_kafka.step_log.form import FORMAT_VERSION, Natural, Part, PartWithLater, RecordBase
from io_kafka.step_log.form import TopicIdentity as TopicIdentity
from io_kafka.step_log.former_formats import CircuitRecord, Former, LeavesRecord, as_present
from io_kafka.step_log.layout_records import LayoutAuto, LayoutIntent, LayoutRecord, LayoutTurn, Ownership
from io_kafka.step_log.lost import StepLogUnreadable
from io_kafka.step_log.revision_records import (
    RevisionIntent,
    RevisionPause,
    RevisionSettled,
    RevisionSwitch,
    RevisionTurn,
)
from io_kafka.step_log.revision_records import RevisionRecord as RevisionRecord
from io_kafka.step_log.revision_state import RevisionState
from io_kafka.step_log.table_records import InputRange as InputRange
from io_kafka.step_log.table_records import TableRecord as TableRecord


class BadLogRecord(StepLogUnreadable):
    """A message of the step log is not a record that this version of Stepwell knows."""

    def __init__(self, topic: str, offset: int, reason: str) -> None:
        self.offset = offset
        super().__init__(
            topic,
            f"step log {topic!r} partition 0 offset {offset}: {reason}; nothing was changed.",
            "Only Stepwell may write to this topic, and the log of a newer Stepwell needs that version or a newer one.",
        )


class InputChecksum(Part):
    """The number of messages in one input range, and a checksum of them. A replay must find the same ones."""

    topic: str
    partition: Natural
    messages: Natural
    checksum: str


class OutputPart(Part):
    """One output partition after step s: the number and the digest of the step's messages, even if there are none, and the partition's end.
    A consumer that reads the partition up to `end` has exactly the output of the steps <= s."""

    handle: str
    topic: str
    partition: Natural
    messages: Natural
    digest: str
    end: Natural

    @property
    def where(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class PartitionOffset(Part):
    """An offset in one partition. For an input it is the start of the next division, and for an output it is the end."""

    topic: str
    partition: Natural
    offset: Natural


class NodeErrors(Part):
    """The error rows of one node of the circuit after a step, which has some since the step `since`. There are no error rows if both `rows`,
    the sum of their weights, and `checksum`, in hexadecimal digits, are 0. `example`: the error of one of the rows that came, for users."""

    node: Natural
    since: Natural
    rows: int
    checksum: str
    example: str


class Claim(RecordBase):
    """The first record of a run. `epoch` is one more than any before. `run_id` is unique, so that a run recognises its own claim.
    `endpoint` is the address of its control endpoint."""

    kind: Literal["claim"] = "claim"
    pipeline: str
    run_id: str
    host: str
    pid: Natural
    endpoint: str | None = None


class Ended(RecordBase):
    """The last record of a run that has ended by itself: its workers were told to close their databases, and it writes nothing more. A run that
    dies leaves none, and so does one of which a thread is still at work."""

    kind: Literal["ended"] = "ended"


class UnknownIds(Part):
    """The ids of schemas that counted as unknown in the messages of these partitions of a topic, so that the messages with them are malformed.
    `source`: the handle of the table that reads them. Partitions and ids ascend."""

    source: str
    topic: str
    partitions: tuple[Natural, ...]
    ids: tuple[Natural, ...]


class StepRecord(RecordBase, PartWithLater):
    """A committed step."""

    LATER: ClassVar[frozenset[str]] = frozenset({"unknown"})
    kind: Literal["step"] = "step"
    step: Natural
    outputs: tuple[OutputPart, ...]
    """One part for every (handle, partition), in that order."""
    encoder: str
    """The id of the encoder that wrote the messages, which the digests cover."""
    inputs: tuple[InputChecksum, ...] = ()
    """What was read."""
    again: tuple[InputChecksum, ...] = ()
    """What was read for the new nodes of a transition alone."""
    skipped: dict[str, Natural] = Field(default_factory=dict)
    """The number of messages that the step left out, by source: malformed ones, and those that say nothing of the table."""
    errors: tuple[NodeErrors, ...] = ()
    """The error rows after the step, of the nodes that have some."""
    unknown: tuple[UnknownIds, ...] | None = None
    """A replay takes exactly these schemas for unknown. None if the step left out no message of a source with a registry, or if a release from
    before wrote the record."""

    @property
    def digests(self) -> dict[tuple[str, int], str]:
        """(handle, output partition) -> digest."""
        return {(part.handle, part.partition): part.digest for part in self.outputs}

    @property
    def ends(self) -> dict[TopicPartition, int]:
        return {part.where: part.end for part in self.outputs}


class CheckpointIntent(RecordBase):
    """The record before the freeze of a checkpoint. `placed`: which worker owns which slots in this version."""

    kind: Literal["checkpoint_intent"] = "checkpoint_intent"
    version: VersionId
    placed: Ownership


class CheckpointComplete(RecordBase):
    kind: Literal["checkpoint_complete"] = "checkpoint_complete"
    version: VersionId


class CheckpointStored(RecordBase):
    """The checkpoint store has the state of this version of all owners. The last such record counts."""

    kind: Literal["checkpoint_stored"] = "checkpoint_stored"
    version: VersionId
    placed: Ownership
    """Which worker owns which slots in the version."""
    manifest: str
    """The name of the object that says where the state is."""
    digest: str
    """The xxh3_128 of that object's content in hexadecimal digits."""
    restores: bool = False
    """Whether the pipeline goes back to this version, so that no later checkpoint counts any more."""


class Refresh(RecordBase):
    """A full refresh has begun. `topics` are the output topics to empty. Those in `tombstones` get a tombstone for every live key. From the
    others, messages below `ends` are deleted; the ends are fixed here so that a late request of a fenced run deletes nothing newer."""

    kind: Literal["refresh"] = "refresh"
    generation: Annotated[int, Field(ge=1)]
    topics: tuple[TopicIdentity, ...]
    tombstones: tuple[str, ...]
    ends: tuple[PartitionOffset, ...]


class TakenBack(RecordBase):
    """Tombstones were written; this record is in their transaction. `ends` are the new ends of the partitions."""

    kind: Literal["taken_back"] = "taken_back"
    generation: Annotated[int, Field(ge=1)]
    ends: tuple[PartitionOffset, ...]


class Reset(RecordBase):
    """The refresh of this generation is done, and no earlier step counts any more. `topics` are those output topics of the refresh that
    still exist. They keep their recorded ends."""

    kind: Literal["reset"] = "reset"
    generation: Annotated[int, Field(ge=1)]
    topics: tuple[TopicIdentity, ...] = ()


class VersionOwnership(Part):
    """Which worker owns which slots in a version."""

    version: VersionId
    placed: Ownership


class Origin(Part):
    """From where the state of a pipeline was copied."""

    pipeline: str
    log_id: str
    """The topic id of that pipeline's step log."""
    generation: Natural
    epoch: Natural
    """The last one of that pipeline."""
    version: VersionId
    manifest: str
    """The object of the checkpoint store that named the state."""
    digest: str
    """The xxh3_128 of that object's content in hexadecimal digits."""


class Snapshot(RecordBase, PartWithLater):
    """The state of the log just before this record, without the records of committed steps. Its size grows with the number of partitions,
    and not with the number of steps. `firsts` is None in a snapshot of format 2. `again`, `replayed_from`, `stored`, `auto`, `origin`,
    `clock_us`, `idle`: see LogValue."""

    LATER: ClassVar[frozenset[str]] = frozenset({"stored", "auto", "origin", "clock_us", "idle"})
    kind: Literal["snapshot"] = "snapshot"
    claim: Claim
    steps: Natural
    pending: tuple[DivisionRecord, ...]
    positions: tuple[PartitionOffset, ...]
    ends: tuple[PartitionOffset, ...]
    topics: tuple[TopicIdentity, ...]
    intent: VersionOwnership | None
    checkpoints: tuple[VersionOwnership, ...]
    layout: LayoutRecord | None
    change: LayoutIntent | None
    turns: tuple[LayoutTurn, ...]
    revisions: RevisionState = RevisionState()
    firsts: tuple[PartitionOffset, ...] | None = None
    circuit: CircuitRecord | None = None
    generation: Natural = 0
    refresh: Refresh | None = None
    grown: tuple[str, ...] = ()
    is_former: bool = False
    counted: tuple[Natural, ...] = ()
    errors: tuple[NodeErrors, ...] = ()
    tables: tuple[TableRecord, ...] = ()
    leaves: LeavesRecord | None = None
    again: tuple[PartitionOffset, ...] = ()
    replayed_from: Natural = 0
    stored: CheckpointStored | None = None
    auto: LayoutAuto | None = None
    origin: Origin | None = None
    clock_us: Natural | None = None
    idle: tuple[str, ...] = ()


class Copied(RecordBase):
    """The log begins with the state of another pipeline, `state.origin`, at one of its stored versions. Before it there are claims alone. The
    plan document of `state` is written in the same transaction. Its outputs are none: the pipeline's own topics are filled by a transition."""

    kind: Literal["copied"] = "copied"
    state: Snapshot


Record = (
    Former
    | Claim
    | Ended
    | DivisionRecord
    | StepRecord
    | CheckpointIntent
    | CheckpointComplete
    | CheckpointStored
    | LayoutRecord
    | LayoutIntent
    | LayoutTurn
    | LayoutAuto
    | RevisionRecord
    | RevisionIntent
    | RevisionSwitch
    | RevisionTurn
    | RevisionPause
    | RevisionSettled
    | CircuitRecord
    | LeavesRecord
    | TableRecord
    | Refresh
    | TakenBack
    | Reset
    | Snapshot
    | Copied
)

_FORM: TypeAdapter[Record] = TypeAdapter(Annotated[Record, Field(discriminator="kind")])


def encode(record: Record) -> bytes:
    """The record as one line of JSON. Equal records give equal bytes."""
    return record.model_dump_json().encode()


def decode(value: bytes | None, topic: str, offset: int) -> Record:
    """The record in a message of the step log. Raises BadLogRecord, which names topic and offset."""
    if value is None:
        raise BadLogRecord(topic, offset, "it has no value")
    try:
        return _FORM.validate_json(as_present(value))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the message"
        raise BadLogRecord(
            topic, offset, f"not a record of format {FORMAT_VERSION}: {place}: {first['msg']}"
        ) from error
