"""Messages that only the state shows to be malformed: the policy, the reason, and the dead letter that is read again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace

import pyarrow as pa
import pytest

from base.options import UNAVAILABLE_VALUE, OnError
from engine.analysis.stages import plan_stages
from engine.errors import DataError
from engine.model.circuit import Circuit
from engine.operators.facts import DivisionFacts
from engine.operators.findings import Lacks, MalformedByState, RowElsewhere
from engine.operators.scattered_keys import ScatteredKey
from engine.run.dead_letters import DeadLetter
from engine.run.malformed_by_state import name_key, report_malformed
from engine.run.source_table import SourceTable
from engine.run.sources import SourceReport
from engine.run.step_input import StepInput
from io_kafka.clients.raw import RawBatch, raw_batch
from io_kafka.formats.spec import SourceFormat
from io_kafka.messages import Messages
from io_kafka.offsets import OffsetRange

SCHEMA = pa.schema([("id", pa.int64()), ("body", pa.string()), ("more", pa.binary())])
TABLES = {
    name: SourceTable(name, (f"{name}-topic",), SourceFormat(name, SCHEMA, "upsert", ("id",))) for name in ("a", "b")
}
REFUSED = [
    MalformedByState(handle, partition, offset, Lacks(column))
    for handle, partition, offset, column in (("b", 1, 7, 1), ("a", 2, 9, 2), ("a", 0, 12, 1), ("a", 2, 4, 1))
]


def value(partition: int, offset: int) -> bytes:
    return f"p{partition} o{offset}".encode()


class Log:
    """The topics, from which some offsets are missing. `gone`: those that were there when the step read them first."""

    def __init__(self, *gone: int) -> None:
        self.asked: list[OffsetRange] = []
        self._gone = gone

    def read(self, ranges: Sequence[OffsetRange]) -> list[RawBatch]:
        self.asked += ranges
        (span,) = ranges
        offsets = [offset for offset in range(span.start, span.end) if offset % 5 != 1 and offset not in self._gone]
        values = pa.array([value(span.partition, offset) for offset in offsets], pa.binary())
        keys = pa.array([b"k%d" % offset for offset in offsets], pa.binary())
        return [raw_batch(span, Messages.plain(keys, values, pa.array(offsets, pa.int64())))]


def left_out(a: OnError, b: OnError, log: Log) -> SourceReport:
    report = SourceReport(skipped={"a": 1}, dead={"a": [DeadLetter(None, b"of stage 0")]})
    given = StepInput(facts=DivisionFacts(number=3), ranges=(), on_error={"a": a, "b": b})
    setup = SimpleNamespace(tables=TABLES, plan=plan_stages(Circuit(())))
    report_malformed(REFUSED, setup, given=given, report=report, read=log.read)
    return report


def test_the_first_message_of_a_source_that_fails_is_named() -> None:
    with pytest.raises(DataError) as refused:
        left_out("fail", "skip", Log())
    text = str(refused.value)
    assert refused.value.place == "topic a-topic, partition 0, offset 12" and refused.value.owner == "source a"
    for part in (
        "step 3",
        "column body",
        UNAVAILABLE_VALUE,
        "no former row",
        "REPLICA IDENTITY FULL",
        "(2 more beside it)",
        "'on.error'",
    ):
        assert part in text


def test_messages_are_counted_by_source_and_dead_letters_have_their_bytes() -> None:
    log = Log()
    report = left_out("dead-letter", "skip", log)
    assert report.skipped == {"a": 4, "b": 1} and set(report.dead) == {"a"}
    assert log.asked == [OffsetRange("a-topic", 0, 12, 13), OffsetRange("a-topic", 2, 4, 10)]
    first, *letters = report.dead["a"]
    assert first.value == b"of stage 0"
    found = [(letter.key, json.loads(letter.value)) for letter in letters]
    assert [(key, each["partition"], each["offset"], each["value"]) for key, each in found] == [
        (b"k12", 0, 12, "p0 o12"), (b"k4", 2, 4, "p2 o4"), (b"k9", 2, 9, "p2 o9")
    ]  # fmt: skip
    assert [each["reason"].split(":")[0] for _, each in found] == ["column body", "column body", "column more"]
    assert all(each["topic"] == "a-topic" for _, each in found)


@pytest.mark.parametrize("gone", [(4,), (12,), (4, 9, 12)])
def test_a_message_that_was_compacted_away_meanwhile_is_counted_and_its_letter_says_so(gone: tuple[int, ...]) -> None:
    """Also if it was the only message of its range, so that nothing is read at all."""
    report = left_out("dead-letter", "skip", Log(*gone))
    assert report.skipped == {"a": 4, "b": 1}
    found = {json.loads(letter.value)["offset"]: letter for letter in report.dead["a"][1:]}
    assert set(found) == {4, 9, 12}
    for offset, letter in found.items():
        content = json.loads(letter.value)
        assert (letter.key, "value" in content, "lost" in content) == (
            (None, False, True) if offset in gone else (b"k%d" % offset, True, False)
        )
        assert content["reason"].startswith("column ") and content["topic"] == "a-topic"


def test_a_row_of_another_partition_is_named_with_its_key() -> None:
    """The message is left out or stops the step, as its source has it."""
    refused = [MalformedByState("a", 1, 5, RowElsewhere(("7",), 0))]
    given = StepInput(facts=DivisionFacts(number=3), ranges=(), on_error={"a": "fail"})
    setup = SimpleNamespace(tables=TABLES, plan=plan_stages(Circuit(())))
    with pytest.raises(DataError) as stopped:
        report_malformed(refused, setup, given=given, report=SourceReport(), read=Log().read)
    assert stopped.value.place == "topic a-topic, partition 1, offset 5"
    assert "the row of the former key {id: 7} is from partition 0" in str(stopped.value)


def test_a_key_in_two_partitions_is_named_with_its_columns_and_a_message() -> None:
    fault = ScatteredKey("a", ("7",), (0, 3), (3, 12))
    name_key(fault, TABLES)
    assert "Key {id: 7} has messages in partitions 0 and 3" in str(fault)
    assert fault.place == "topic a-topic, partition 3, offset 12"
