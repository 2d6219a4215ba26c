"""What the record of a step has of schemas that counted as unknown, and what a replay makes of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from coordinator.specification import InputTopic, PipelineSpec
from coordinator.stepping.unknown_schemas import unknown_in_replay, unknown_to_record
from engine.run.source_table import SourceTable
from io_kafka.formats.encodings import Avro
from io_kafka.formats.spec import SourceFormat
from io_kafka.registry.address import RegistryAddress
from io_kafka.registry.unknown import UnknownSchemas
from io_kafka.step_log.records import StepRecord, UnknownIds, decode, encode

COLUMNS = pa.schema([("id", pa.int64())])
UNKNOWN = (UnknownSchemas("a", "in", (0, 3), (7,)),)


def source(handle: str, encoding: Avro | None) -> InputTopic:
    form = SourceFormat(handle, COLUMNS, encoding=encoding, key_format="none")
    return InputTopic(SourceTable(handle, ("in",), form), "earliest", "skip", None)


SPEC = cast(
    PipelineSpec,
    SimpleNamespace(inputs=(source("a", Avro(RegistryAddress("http://r"))), source("j", None))),
)


def record(**more: Any) -> StepRecord:
    return StepRecord(epoch=0, step=3, outputs=(), encoder="e", **more)


@pytest.mark.parametrize(
    ("unknown", "skipped", "recorded"),
    [
        ((), {}, None),
        ((), {"j": 2}, None),
        ((), {"a": 2, "j": 1}, ()),
        (UNKNOWN, {"a": 2}, (UnknownIds(source="a", topic="in", partitions=(0, 3), ids=(7,)),)),
        (UNKNOWN, {}, (UnknownIds(source="a", topic="in", partitions=(0, 3), ids=(7,)),)),  # of what is read again
    ],
)
def test_a_record_has_unknown_schemas_where_messages_of_a_registry_are_left_out(
    unknown: tuple[UnknownSchemas, ...], skipped: dict[str, int], recorded: tuple[UnknownIds, ...] | None
) -> None:
    """So a release from before reads the log of all others."""
    assert unknown_to_record(SPEC, unknown, skipped) == recorded
    written = encode(record(skipped=skipped, unknown=recorded))
    assert (b"unknown" in written) == (recorded is not None)
    read = decode(written, "log", 0)
    assert isinstance(read, StepRecord)
    assert unknown_in_replay(read) == (None if recorded is None and skipped else unknown)


def test_the_registry_says_what_a_release_from_before_has_not_recorded() -> None:
    """A step of it that left nothing out knew all schemas."""
    assert unknown_in_replay(None) is None
    assert unknown_in_replay(record(skipped={"a": 1})) is None
    assert unknown_in_replay(record(skipped={"a": 0})) == ()
    assert unknown_in_replay(record()) == ()
