"""What the step log of a copy begins with: a function of what the log of its source said at the version, and of the manifest."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pyarrow as pa
import pytest

from base.slots import NO_SLOTS
from base.version import VersionId
from coordinator.cloning.log_at_version import MomentOf, positions_before, withholds_before
from coordinator.cloning.source import CopySource, StoredVersion
from coordinator.cloning.state import CopyPlace, copied_document, copied_state, loads_of, record_of_copy
from coordinator.revisions.document import PlanDocument, document_of
from coordinator.specification import InputTopic, OutputTopic
from coordinator.starting.workers.database_names import DatabaseName
from coordinator.storing.manifest import Manifest
from engine.analysis.numbering import numbers_of
from engine.model.circuit import Circuit, Output, View
from engine.model.rows import Source as SourceNode
from engine.run.source_table import SourceTable
from io_kafka.formats.batches import TableFormat
from io_kafka.formats.records import RecordFormat
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.layout_records import Ownership
from io_kafka.step_log.numbered import Numbered
from io_kafka.step_log.records import (
    CheckpointComplete,
    CheckpointIntent,
    Claim,
    DivisionRecord,
    InputRange,
    OutputPart,
    Record,
    RevisionRecord,
    StepRecord,
    TableRecord,
    TopicIdentity,
)
from io_kafka.step_log.state import StepLogState
from tests.engine.every_kind import every_kind
from tests.io_kafka.layouts import layout, owned_by, placed
from tests.io_kafka.transitions import begins, fills, revision, settles, switches
from tests.memory_store import MemoryStore

COLUMNS = pa.schema({"n": pa.int64()})
TABLE = "stepwell.o.table.0123456789abcdef"
VERSION = VersionId(3, 2, "c")
MESSAGES = InputTopic(SourceTable("m", ("m",), RecordFormat("m", COLUMNS)), "latest", "dead-letter", "o.dead")
LOADED = InputTopic(SourceTable("t", (TABLE,), TableFormat("t", COLUMNS)), "earliest", "fail", None)
CIRCUIT = Circuit(
    (
        SourceNode((), (pa.int64(),), "m"),
        View((0,), (pa.int64(),), "v", ("n",), kept=True),
        Output((1,), (), "v", "append", ("n",)),
        SourceNode((), (pa.int64(),), "t"),
        View((3,), (pa.int64(),), "w", ("n",), kept=True),
        Output((4,), (), "w", "append", ("n",)),
    )
)
DOCUMENT = PlanDocument(
    circuit=CIRCUIT,
    numbers=numbers_of(CIRCUIT),
    inputs=(MESSAGES, LOADED),
    outputs=(OutputTopic("v", "o.v", 1, False), OutputTopic("w", "o.w", 1, False)),
)


def ranges(*spans: tuple[str, int, int]) -> tuple[InputRange, ...]:
    return tuple(InputRange(topic=topic, partition=0, start=start, end=end) for topic, start, end in spans)


def division(number: int, *spans: tuple[str, int, int]) -> DivisionRecord:
    topics = tuple(TopicIdentity(topic=topic, id=f"id of {topic}", partitions=1) for topic, _, _ in spans)
    return DivisionRecord(epoch=4, step=number, ranges=ranges(*spans), topics=topics)


def step(number: int) -> StepRecord:
    part = OutputPart(handle="v", topic="o.v", partition=0, messages=1, digest="d", end=number + 1)
    return StepRecord(epoch=4, step=number, outputs=(part,), encoder="e")


def load(topic: str = TABLE, start: int = 5, end: int = 8) -> TableRecord:
    identity = TopicIdentity(topic=topic, id=f"id of {topic}", partitions=1)
    return TableRecord(epoch=4, handle="t", topic=identity, ranges=ranges((topic, start, end)), rows=3, is_whole=True)


RECORDS: tuple[Record, ...] = (
    Claim(epoch=4, pipeline="o", run_id="r", host="h", pid=1),
    load(),
    RevisionRecord(epoch=4, number=1, plan="0f" * 32, step=0),
    layout(epoch=4),
    division(0, ("m", 10, 12), (TABLE, 5, 8)),
    step(0),
    division(1, ("m", 12, 15), (TABLE, 8, 8)),
    division(2, ("m", 15, 21), (TABLE, 8, 8)),
    step(1),
)


def log() -> StepLogState:
    """Before step 2, which is divided already."""
    state = StepLogState("stepwell.o.steps")
    for offset, record in enumerate(RECORDS):
        state = state.apply(record, offset)
    return state


def source() -> CopySource:
    """Worker 1 is a member without slots, and worker 2 was made by a rescale."""
    owned = {0: owned_by(0, 2)[0], 1: NO_SLOTS, 2: owned_by(0, 2)[2]}
    owners = Ownership.of({0: "0", 1: "0", 2: "1.3.0"}, owned)
    manifest = Manifest(
        format=1, pipeline="o", log_id="l", generation=0, version=VERSION, placed=owners,
        databases={0: "l/0/0/0", 2: "l/0/2/1.3.0"}, chains={},
    )  # fmt: skip
    stored = StoredVersion(MemoryStore(), "o/backups/b.json", "0f" * 16, manifest)
    at = log()
    positions = positions_before(2, at, {"m", TABLE})
    return CopySource(stored, at, DOCUMENT, positions=positions, written=frozenset({"o.v", "o.w", "o.dead"}), epoch=9)


def copy() -> StepLogState:
    of, loads = source(), {TABLE: load("stepwell.c.table.0123456789abcdef", 0, 3)}
    document = copied_document(of, loads)
    return copied_state(of, "stepwell.c.steps", document.text, loads, manifest=("c/m.json", "ab" * 16), epoch=10)


NOT_COPIED = {
    *("offset_next", "claim", "snapshots", "has_ended"),  # of the copy's own log
    *("generation", "refresh", "rescale", "turns", "intent", "auto", "idle"),  # of a pipeline that begins
    *("ends", "counted", "errors", "again", "replayed_from"),  # of outputs, and of steps before the version
    *("is_former", "circuit", "leaves"),  # of a former format
}


def test_each_field_of_the_log_is_copied_or_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    given: set[str] = set()

    def state_with(topic: str, **values: Any) -> StepLogState:
        given.update(["topic", *values])
        return StepLogState(topic, **values)

    monkeypatch.setattr("coordinator.cloning.state.StepLogState", state_with)
    copy()
    assert not given & NOT_COPIED
    assert given | NOT_COPIED == {field.name for field in fields(StepLogState)}


def test_a_copy_reads_from_where_its_version_ends() -> None:
    """Not from where the steps end that were divided and not written."""
    state = copy()
    assert state.next_offsets[TopicPartition("m", 0)] == 15 and state.firsts[TopicPartition("m", 0)] == 10
    assert state.steps == state.division_next == state.first == 2 and not state.pending
    assert TopicPartition("x", 0) not in positions_before(2, log(), {"m"})


EARLY, LATE = VersionId(0, 2, "early"), VersionId(1, 2, "late")


def checkpoint(version: VersionId) -> tuple[Record, ...]:
    return (
        CheckpointIntent(epoch=0, version=version, placed=placed(0, 1)),
        CheckpointComplete(epoch=0, version=version),
    )


def wrote(number: int) -> Record:
    return step(number).model_copy(update={"epoch": 0})


SWITCHED: tuple[Record, ...] = (
    Claim(epoch=0, pipeline="o", run_id="r", host="h", pid=1), revision(), layout(), begins(),
    fills(0, 10, end=4), wrote(0), switches(), fills(1, None, start=4, end=6), wrote(1), *checkpoint(EARLY),
)  # fmt: skip
"""The version `EARLY` has tables that the transition has still to remove."""
GOES_ON: tuple[Record, ...] = (fills(2, None, start=6, end=9), wrote(2), fills(3, None, start=9, end=12))


@pytest.mark.parametrize(
    "after",
    [
        (*checkpoint(LATE), settles(step=2), *GOES_ON),
        (*GOES_ON, *checkpoint(LATE), settles(step=2)),
        (CheckpointIntent(epoch=0, version=LATE, placed=placed(0, 1)), *GOES_ON, checkpoint(LATE)[1], settles(step=2)),
    ],
    ids=["before further steps", "after them", "folded beside them"],
)
def test_the_moment_of_a_version_is_one_without_a_transition(after: tuple[Record, ...]) -> None:
    found: dict[VersionId, StepLogState] = {}
    looked = {version: MomentOf(0, version) for version in (EARLY, LATE, VersionId(0, 1, "other"))}
    other = {version: MomentOf(1, version) for version in (EARLY, LATE)}
    state = StepLogState("log")
    for offset, record in enumerate((*SWITCHED, *after)):
        state = state.apply(record, offset)
        for version, moment in looked.items():
            if moment.is_reached(state):
                found.setdefault(version, state)
        assert not any(moment.is_reached(state) for moment in other.values()), "it is of another generation"
    assert found.keys() == {LATE}
    assert found[LATE].revisions.phase is None and found[LATE].checkpoints[-1] == LATE
    assert positions_before(2, found[LATE], {"in"}) == {TopicPartition("in", 0): 6}
    early = looked[EARLY].first
    assert early is not None and early.revisions.phase is not None


@pytest.mark.parametrize(
    ("counted", "released", "withholds"), [((3,), (), True), ((), ("v",), True), ((), (), False)], ids=str
)
def test_outputs_withhold_rows_until_the_step_that_releases_them(
    counted: tuple[int, ...], released: tuple[str, ...], withholds: bool
) -> None:
    """In a log that has the step before it, and in one that begins with a snapshot."""
    last = division(1, ("m", 12, 15)).model_copy(update={"counted": counted})
    next_one = division(2, ("m", 15, 21)).model_copy(update={"counted": counted, "released": released})
    whole = replace(log(), divisions=Numbered(1, (last, next_one)), counted=counted)
    assert withholds_before(2, whole) == bool(counted)
    assert withholds_before(2, replace(whole, divisions=Numbered(2, (next_one,)))) == withholds
    assert withholds_before(2, replace(whole, divisions=Numbered(2))) == bool(counted)


def test_the_rows_of_tables_are_those_of_the_copy() -> None:
    state, topic = copy(), "stepwell.c.table.0123456789abcdef"
    place = TopicPartition(topic, 0)
    assert loads_of(source()).keys() == {TABLE}
    assert state.tables.keys() == {topic} and (state.firsts[place], state.next_offsets[place]) == (0, 3)
    assert TABLE not in state.topics and state.topics[topic].id == f"id of {topic}"
    document = copied_document(source(), {TABLE: load(topic, 0, 3)})
    table = document.inputs[1]
    assert table.table.topics == (topic,) and table.table.partitions == frozenset({place})


def test_the_project_of_a_copy_has_no_outputs_and_keeps_its_numbers() -> None:
    """And no topic for malformed messages, which would be that of the source."""
    document = document_of(copied_document(source(), {TABLE: load()}).text)
    kept = [index for index, node in enumerate(CIRCUIT.nodes) if not isinstance(node, Output)]
    assert not document.outputs and not any(isinstance(node, Output) for node in document.circuit.nodes)
    assert document.numbers == tuple(DOCUMENT.numbers[index] for index in kept)
    assert [node.inputs for node in document.circuit.nodes] == [(), (0,), (), (2,)]
    assert [(each.on_error, each.dead_letter_topic) for each in document.inputs] == [("fail", None), ("fail", None)]
    whole = replace(DOCUMENT, circuit=every_kind(), numbers=numbers_of(every_kind()), inputs=(), outputs=())
    copied_document(replace(source(), document=whole), {}).check()


def test_the_owners_are_the_first_workers_of_a_new_pipeline() -> None:
    state = copy()
    owners = state.current_layout.placed
    assert owners.births == {0: "0", 2: "0"} and owners.ranges == ((0, 0), (32768, 2))
    assert (state.current_layout.number, state.generation, state.placed) == (0, 0, {VERSION: owners})
    name = DatabaseName.of(CopyPlace("c", "k").identity(2).database)
    assert name == DatabaseName("k", 0, 2, "0")


def test_the_log_takes_the_record_once_and_knows_where_it_is_from() -> None:
    claim = Claim(epoch=10, pipeline="c", run_id="r", host="h", pid=1)
    record = record_of_copy(copy(), claim)
    state = StepLogState("stepwell.c.steps").apply(claim, 0).apply(record, 1)
    state.check()
    assert state.snapshot() == record.state and not state.ends
    assert state.origin is not None and (state.origin.pipeline, state.origin.digest) == ("o", "0f" * 16)
    assert state.stored is not None and (state.stored.manifest, state.stored.digest) == ("c/m.json", "ab" * 16)
    assert state.revision is not None and (state.revision.number, state.revision.step) == (1, 2)
