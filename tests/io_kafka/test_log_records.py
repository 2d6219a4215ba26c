"""The written form of the log's records: exact, readable, strict."""

from __future__ import annotations

import json
import string
from dataclasses import asdict
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.version import VersionId
from io_kafka.offsets import OffsetRange
from io_kafka.step_log.division import Division
from io_kafka.step_log.division_records import ranges_of
from io_kafka.step_log.form import FORMAT_VERSION
from io_kafka.step_log.former_formats import CircuitRecord, Former, LeavesRecord
from io_kafka.step_log.layout_records import AutoBounds, LayoutAuto
from io_kafka.step_log.leaves import OutputLeaf, SourceLeaf
from io_kafka.step_log.records import (
    BadLogRecord,
    CheckpointComplete,
    CheckpointIntent,
    Claim,
    DivisionRecord,
    Ended,
    InputChecksum,
    InputRange,
    OutputPart,
    PartitionOffset,
    Record,
    Refresh,
    Reset,
    RevisionRecord,
    Snapshot,
    StepRecord,
    TableRecord,
    TakenBack,
    TopicIdentity,
    UnknownIds,
    VersionOwnership,
    decode,
    encode,
)
from tests.io_kafka.layouts import auto, change, copied, layout, placed, stored, turn
from tests.io_kafka.transitions import begins, pauses, settles, switches, turns

CLAIM = Claim(epoch=3, pipeline="p", run_id="r", host="h", pid=12, endpoint="http://127.0.0.1:1")
DIVISION = DivisionRecord(
    epoch=3,
    step=7,
    ranges=ranges_of(Division(7, (OffsetRange("in", 0, 5, 9), OffsetRange("in", 1, 0, 0)))),
    topics=(TopicIdentity(topic="in", id="x_y", partitions=2),),
    on_error={"in": "dead-letter"},
)
VERSION = VersionId(version=2, step=7, checkpoint_id="c")
RECORDS: list[Record] = [
    CLAIM,
    DIVISION,
    StepRecord(
        epoch=3, step=7, encoder="json-1", skipped={"in": 1},
        outputs=(OutputPart(handle="v", topic="out", partition=0, messages=2, digest="d", end=11),),
        inputs=(InputChecksum(topic="in", partition=0, messages=4, checksum="c"),),
    ),
    StepRecord(
        epoch=3, step=7, encoder="json-1", skipped={"in": 2}, outputs=(),
        unknown=(UnknownIds(source="in", topic="in", partitions=(0, 3), ids=(7, 2**32 - 1)),),
    ),
    StepRecord(epoch=3, step=7, encoder="json-1", skipped={"in": 2}, outputs=(), unknown=()),
    CheckpointIntent(epoch=3, version=VERSION, placed=placed(0, 1)),
    CheckpointComplete(epoch=3, version=VERSION),
    Ended(epoch=3),
    stored(VERSION, epoch=3),
    copied(CLAIM, VERSION),
    layout(epoch=3),
    change(),
    turn(),
    auto(epoch=3),
    LayoutAuto(epoch=3, bounds=None, asked=AutoBounds(min=2, max=2)),
    Former(epoch=3),
    RevisionRecord(epoch=3, number=4, plan="0f" * 32, step=7),
    begins(5, 7, whole=3 * 2**64, epoch=3),
    DIVISION.model_copy(update={"filled": 2**65}),
    switches(5, 9, TopicIdentity(topic="in", id="x_y", partitions=2), epoch=3),
    turns("abort", number=5, epoch=3),
    turns("detached", 8, number=5, epoch=3),
    pauses(number=5, epoch=3),
    pauses(False, number=5, epoch=3),
    settles(5, 10, epoch=3),
    CircuitRecord(epoch=3, fingerprint="f", circuit='[{"kind":"Source"}]'),
    LeavesRecord(
        epoch=3, outputs=(OutputLeaf(handle="v", topic="out"),),
        sources=(SourceLeaf(handle="in", topics=("in",), pattern=None, partitions=None, mode="upsert", key=("k",), format="csv",
                            encoding={"csv.sep": ";"}, columns={"k": "STRING NOT NULL", "a": "INT"}),),
    ),
    TableRecord(
        epoch=3, handle="csv file:/x #1", topic=TopicIdentity(topic="t", id="i", partitions=1), rows=4, is_whole=True,
        ranges=(InputRange(topic="t", partition=0, start=5, end=6),),
    ),
    Refresh(
        epoch=3, generation=2, topics=(TopicIdentity(topic="out", id="o", partitions=1),), tombstones=("out",),
        ends=(PartitionOffset(topic="out", partition=0, offset=11),),
    ),
    TakenBack(epoch=3, generation=2, ends=(PartitionOffset(topic="out", partition=0, offset=12),)),
    Reset(epoch=3, generation=2, topics=(TopicIdentity(topic="out", id="o", partitions=1),)),
    Snapshot(
        epoch=3, claim=CLAIM, steps=7, pending=(DIVISION,), intent=None,
        checkpoints=(VersionOwnership(version=VERSION, placed=placed(0, 1)),), topics=(), layout=None, change=None, turns=(),
        positions=(PartitionOffset(topic="in", partition=0, offset=9),), ends=(), firsts=(PartitionOffset(topic="in", partition=0, offset=3),),
    ),
]  # fmt: skip


FROZEN = Path(__file__).parent / "samples" / f"records_of_format_{FORMAT_VERSION}.jsonl"


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: r.kind)
def test_what_is_written_is_read(record: Record) -> None:
    line = encode(record)
    assert decode(line, "log", 0) == record
    assert b"\n" not in line and json.loads(line)["kind"] == record.kind


def test_a_division_becomes_itself_again() -> None:
    assert DIVISION.division == Division(7, (OffsetRange("in", 0, 5, 9), OffsetRange("in", 1, 0, 0)))


def test_there_is_an_example_of_every_record() -> None:
    assert {type(record) for record in RECORDS} == set(get_args(Record))


def test_a_copy_of_a_record_has_no_field_that_its_class_lacks() -> None:
    with pytest.raises(AssertionError, match=r"TopicIdentity has no partition$"):
        TopicIdentity(topic="t", id="i", partitions=1).model_copy(update={"partition": 2})


def test_the_written_form_is_frozen() -> None:
    """Old logs must stay readable, and those of records that are not new by the release before: what differs here needs another FORMAT_VERSION,
    and a reader for this one. A field that came later belongs into LATER. docs/extending.md says how to add the line of a new record."""
    assert [encode(record) for record in RECORDS] == FROZEN.read_bytes().splitlines()


def test_the_order_of_columns_is_written_and_read() -> None:
    """State holds columns by their places."""
    leaves = next(record for record in RECORDS if isinstance(record, LeavesRecord))
    read = decode(encode(leaves), "log", 0)
    assert isinstance(read, LeavesRecord) and list(read.sources[0].columns) == ["k", "a"]


def test_a_version_is_written_alike_in_the_log_and_in_a_database() -> None:
    written = b'{"version":2,"step":7,"checkpoint_id":"c"}'
    assert encode(CheckpointComplete(epoch=3, version=VERSION)) == (
        b'{"format":4,"epoch":3,"kind":"checkpoint_complete","version":' + written + b"}"
    )
    assert json.dumps(asdict(VERSION), separators=(",", ":")).encode() == written


GOOD = json.loads(encode(CLAIM))
INTENT = json.loads(encode(CheckpointComplete(epoch=3, version=VERSION)))


def intent_with(**changes: object) -> bytes:
    return json.dumps(INTENT | {"version": INTENT["version"] | changes}).encode()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "no value"),
        (b"", "JSON"),
        (b"null", "object"),
        (json.dumps(GOOD | {"format": 5}).encode(), r"format: Input should be 4"),
        (json.dumps(GOOD | {"kind": "clam"}).encode(), "clam"),
        (json.dumps(GOOD | {"more": 1}).encode(), r"more: Extra inputs are not permitted"),
        (json.dumps(GOOD | {"pid": "12"}).encode(), r"pid: Input should be a valid integer"),
        (json.dumps(GOOD | {"epoch": -1}).encode(), r"epoch: .* greater than or equal to 0"),
        (json.dumps({k: v for k, v in GOOD.items() if k != "host"}).encode(), r"host: Field required"),
        (encode(CLAIM) + b"{}", "trailing"),
        (intent_with(version="2"), r"version\.version: Input should be a valid integer"),
        (intent_with(more=1), r"version\.more: Unexpected keyword argument"),
        (intent_with(step=-1), r"version: .*neither number can be negative"),
    ],
)
def test_anything_else_is_refused_with_its_place(value: bytes | None, reason: str) -> None:
    with pytest.raises(BadLogRecord, match=f"step log 'log' partition 0 offset 41: .*{reason}"):
        decode(value, "log", 41)


@settings(deadline=None)
@given(st.binary(max_size=40) | st.text(string.printable, max_size=40).map(str.encode))
def test_malformed_records_never_crash(value: bytes) -> None:
    with pytest.raises(BadLogRecord):
        decode(value, "log", 0)


@pytest.mark.parametrize("kind", ["layout", "checkpoint_intent", "checkpoint_complete"])
def test_of_the_former_format_only_is_known_that_there_was_a_layout_or_a_checkpoint(kind: str) -> None:
    former = json.dumps({"format": 1, "epoch": 4, "kind": kind, "workers": 3}).encode()
    assert decode(former, "log", 0) == Former(epoch=4)


def test_names_of_sources_are_no_formats_of_records() -> None:
    named = DIVISION.model_copy(update={"on_error": {"format": "skip", "epoch": "fail"}})
    former = json.loads(encode(named)) | {"format": 2}
    assert decode(json.dumps(former).encode(), "log", 0) == named


def test_what_the_former_format_says_of_topics_and_claims_is_read() -> None:
    plain = json.loads(encode(CLAIM)) | {"format": 1}
    assert decode(json.dumps(plain).encode(), "log", 0) == CLAIM
    snapshot = json.loads(encode(RECORDS[-1])) | {"format": 1, "intent": None, "checkpoints": [{"version": 3}]}
    snapshot["layout"] = {"workers": 2}
    for new in ("change", "turns", "is_former", "firsts", "revisions"):
        del snapshot[new]
    found = decode(json.dumps(snapshot).encode(), "log", 0)
    assert (
        isinstance(found, Snapshot)
        and found.is_former
        and (found.positions, found.claim) == (RECORDS[-1].positions, CLAIM)
    )  # type: ignore[union-attr]
