"""What of a source and of an output identifies the state: every field of what describes a source is in the record of the leaves, or is left out
for a reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest

from base.text.patterns import Patterns
from coordinator.revisions.leaf_differences import differences
from coordinator.revisions.leaves import leaves_of
from coordinator.specification import InputTopic, OutputTopic, PipelineSpec
from coordinator.starting.errors import CircuitChanged
from coordinator.starting.project.same_project import check_leaves
from engine.model.circuit import Circuit
from engine.model.rows import Source
from engine.run.source_table import SourceTable
from io_kafka.clients.settings import KafkaSettings
from io_kafka.formats.batches import TableFormat
from io_kafka.formats.encodings import (
    Avro,
    Csv,
    DescribedProtobuf,
    Encoding,
    JsonWithRegistry,
    PlainAvro,
    Protobuf,
    Text,
)
from io_kafka.formats.records import RecordFormat
from io_kafka.formats.spec import SourceFormat
from io_kafka.formats.text_limits import TextLimit
from io_kafka.offsets import TopicPartition
from io_kafka.registry.address import RegistryAddress
from io_kafka.step_log.division import StepLimits
from io_kafka.step_log.former_formats import CircuitRecord
from io_kafka.step_log.leaves import Leaves
from io_kafka.step_log.records import Claim, DivisionRecord, TopicIdentity
from io_kafka.step_log.state import StepLogState

SECRET = "user:s3cret"
REGISTRY = RegistryAddress("http://registry", SECRET)
SCHEMA = json.dumps({"type": "record", "name": "r", "fields": [{"name": "v", "type": "long", "default": 1}]})
COLUMNS = pa.schema(
    [pa.field("k", pa.string(), nullable=False), pa.field("v", pa.int64()), ("t", pa.timestamp("us", "UTC"))]
)
FORM = SourceFormat("orders", COLUMNS, "upsert", ("k",))


def source(**changes: Any) -> InputTopic:
    """A source with these changes, each in the class that has such a field."""
    form = replace(FORM, **{k: v for k, v in changes.items() if k in {f.name for f in fields(SourceFormat)}})
    of_table = {"topics": ("in",), "format": form} | {
        k: v for k, v in changes.items() if k in {"topics", "format", "partitions", "pattern", "counts_from"}
    }
    table = SourceTable("orders", **of_table)
    own = {"starting_offsets": "earliest", "on_error": "fail", "dead_letter_topic": None, "truncate": "fail"}
    return InputTopic(table, **(own | {k: v for k, v in changes.items() if k in own}))  # type: ignore[arg-type]


def spec(*inputs: InputTopic, outputs: Mapping[str, str] = {"sums": "out"}) -> PipelineSpec:
    return PipelineSpec(
        name="p",
        storage=Path(),
        circuit=Circuit((Source((), (pa.int64(),), "orders"),)),
        inputs=inputs,
        outputs=tuple(OutputTopic(handle, topic, 2, True, REGISTRY) for handle, topic in outputs.items()),
        kafka=KafkaSettings.parse({"sasl.password": "s3cret"}),
        limits=StepLimits(1),
    )


def leaves(*inputs: InputTopic, **more: Any) -> Leaves:
    return of(spec(*inputs, **more))


def of(given: PipelineSpec) -> Leaves:
    return leaves_of(given)


def told(before: InputTopic, now: InputTopic) -> list[str]:
    return list(differences(leaves(before), leaves(now)))


LETTERS = RegistryAddress("http://other", "other:secret")

_AS_ROWS = "mode was upsert, and is append now; key was k, and is not set now; format was json, and is {} now"
_RENAMED = "column v was BIGINT, and is not declared now; column {} was not declared, and is BIGINT now"
CHANGES: dict[str, list[tuple[Any, str]]] = {
    "topics": [(("other",), "subscribe was in, and is other now")],
    "pattern": [("in.*", "subscribePattern was not set, and is in.* now")],
    "counts_from": [(((TopicPartition("in", 0), 7),), "earlier messages do not count now")],
    "partitions": [(frozenset({TopicPartition("in", 1), TopicPartition("in", 0)}), "assign was not set, and is in/0, in/1 now")],
    "mode": [("changelog", "mode was upsert, and is changelog now")],
    "key": [(("v",), "key was k, and is v now"), (("k", "v"), "key was k, and is k, v now"), (("v", "k"), "key was k, and is v, k now")],
    "patterns": [
        (Patterns(date="dd.MM.yyyy"), "dateFormat was not set, and is dd.MM.yyyy now"),
        (
            Patterns(timestamp="yyyy", timestamp_ntz="MM"),
            "timestampFormat was not set, and is yyyy now; timestampNTZFormat was not set, and is MM now",
        ),
    ],
    "unavailable": [("?", "unavailable.value.placeholder was not set, and is ? now")],
    "key_format": [("string", "key.format was not set, and is string now")],
    "metadata": [((("t", "timestamp"),), "column t was TIMESTAMP, and is TIMESTAMP from metadata.timestamp now")],
    "limits": [((TextLimit(("k",), 5, padded=True),), "column k was STRING NOT NULL, and is CHAR(5) NOT NULL now")],
    "format": [
        (RecordFormat("orders", COLUMNS), _AS_ROWS.format("record")),
        (TableFormat("orders", COLUMNS), _AS_ROWS.format("table")),
    ],
    "encoding": [
        (Text(), "format was json, and is text now"),
        (Csv(), "format was json, and is csv now"),
        (Csv(sep=";"), "format was json, and is csv now; csv.sep was not set, and is ; now"),
        (Csv(null_value="-"), "format was json, and is csv now; csv.nullValue was not set, and is - now"),
        (Protobuf(REGISTRY), "format was json, and is protobuf now; key.format was not set, and is json now"),
    ],
    "schema": [
        (COLUMNS.set(1, pa.field("w", pa.int64())), _RENAMED.format("w")),
        (COLUMNS.set(1, pa.field("V", pa.int64())), _RENAMED.format("V")),
        (COLUMNS.set(1, pa.field("v", pa.int32())), "column v was BIGINT, and is INT now"),
        (COLUMNS.set(1, pa.field("v", pa.int64(), nullable=False)), "column v was BIGINT, and is BIGINT NOT NULL now"),
        (COLUMNS.set(0, pa.field("k", pa.string())), "column k was STRING NOT NULL, and is STRING now"),
        (pa.schema([COLUMNS[1], COLUMNS[0], COLUMNS[2]]), "the order of the columns was k, v, t, and is v, k, t now"),
    ],
}  # fmt: skip

LEFT_OUT: dict[str, list[Any]] = {
    "starting_offsets": ["latest", '{"in": {"0": 7}}'],  # a topic that was read goes on where it was left
    "truncate": ["apply"],  # the division of each step records the policy
    "on_error": ["skip"],  # rows that were counted stay, and the division of each step records the policy
    "dead_letter_topic": ["letters"],
    "files": ["7f"],  # of a batch table, whose load is its topic; a note for people
    "nulls": ["age"],  # it says what the table holds, and not how messages are read
    "table": [],  # its fields are listed themselves
    "handle": [],  # it is the name under which two records are compared, and the circuit has it
}


def test_every_field_of_a_source_is_compared_or_left_out_for_a_reason() -> None:
    """A new property of sources must say which it is: add it in coordinator/revisions/leaves.py, or to LEFT_OUT with the reason."""
    named = {field.name for kind in (InputTopic, SourceTable, SourceFormat) for field in fields(kind)}
    assert named == CHANGES.keys() | LEFT_OUT.keys() and not CHANGES.keys() & LEFT_OUT.keys()


@pytest.mark.parametrize(
    ("name", "value", "text"), [(name, *case) for name, cases in CHANGES.items() for case in cases]
)
def test_a_difference_is_told_with_property_and_both_values(name: str, value: Any, text: str) -> None:
    changes = {"topics": ()} if name == "pattern" else {}
    now = source(**{name: value}, **changes)
    found = [what.removeprefix("source orders: ") for what in told(source(), now)]
    assert "; ".join(what for what in found if not (changes and what.startswith("subscribe was"))) == text
    assert told(now, now) == [] and len(told(now, source())) == len(told(source(), now))


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in LEFT_OUT.items() for value in values])
def test_what_changes_no_row_passes(name: str, value: Any) -> None:
    assert told(source(), source(**{name: value})) == []


def test_a_registry_for_json_changes_no_row() -> None:
    assert told(source(), source(encoding=JsonWithRegistry(REGISTRY))) == []


ENCODINGS: dict[type, tuple[Encoding, dict[str, list[Any]], dict[str, list[Any]]]] = {
    Avro: (Avro(REGISTRY, SCHEMA), {"reader": [None, SCHEMA.replace("1", "2")]}, {"registry": [LETTERS]}),
    PlainAvro: (PlainAvro(SCHEMA), {"writer": [SCHEMA.replace("long", "int")]}, {}),
    JsonWithRegistry: (JsonWithRegistry(REGISTRY), {}, {"registry": [LETTERS]}),
    Csv: (Csv(), {"sep": [";", "||"], "null_value": ["NULL"]}, {}),
    Text: (Text(), {}, {}),
    Protobuf: (Protobuf(REGISTRY), {"defaults": [True]}, {"registry": [LETTERS]}),
    DescribedProtobuf: (DescribedProtobuf(b"d", "m"), {"descriptor": [b"e"], "message": ["n"], "defaults": [True]}, {}),
}  # fmt: skip
"""A value of each encoding; changes of its fields that identify it; and changes that do not."""


def test_every_field_of_an_encoding_is_compared_or_left_out_for_a_reason() -> None:
    """A registry that moves has the same schemas."""
    kinds = [kind for kind in get_args(Encoding) if is_dataclass(kind)]
    assert set(kinds) == ENCODINGS.keys()
    for kind, (before, compared, left_out) in ENCODINGS.items():
        assert compared.keys() | left_out.keys() == {field.name for field in fields(kind)}
        for changes, differs in ((compared, True), (left_out, False)):
            for name, values in changes.items():
                for value in values:
                    now = replace(before, **{name: value})  # type: ignore[type-var]
                    found = told(source(encoding=before), source(encoding=now))
                    assert bool(found) == differs, (kind, name, value, found)


def test_the_spelling_and_the_comments_of_a_schema_are_no_part_of_it() -> None:
    plain = json.loads(SCHEMA)
    commented = {**plain, "doc": "orders", "fields": [{**plain["fields"][0], "doc": "the value"}]}
    spelled = json.dumps(dict(reversed(commented.items())), indent=2)
    assert told(source(encoding=PlainAvro(SCHEMA)), source(encoding=PlainAvro(spelled))) == []
    default = {"name": "d", "type": {"type": "map", "values": "string"}, "default": {"doc": "a"}}
    one, two = ({**plain, "fields": [{**default, "default": {"doc": text}}]} for text in "ab")
    assert told(source(encoding=PlainAvro(json.dumps(one))), source(encoding=PlainAvro(json.dumps(two))))


def test_parts_of_nested_types_are_told_apart() -> None:
    inner = [
        pa.list_(pa.struct([("a", pa.string())])),
        pa.list_(pa.struct([("b", pa.string())])),
        pa.map_(pa.string(), pa.int32()),
        pa.map_(pa.string(), pa.int64()),
        pa.decimal128(10, 2),
        pa.decimal128(10, 3),
        pa.timestamp("us"),
        pa.timestamp("us", "UTC"),
        pa.struct([("a b", pa.int32()), ("c", pa.int32())]),
        pa.struct([("a", pa.int32()), ("b c", pa.int32())]),
    ]
    records = [leaves(source(schema=COLUMNS.append(pa.field("x", kind)))) for kind in inner]
    assert len({record.sources[0].columns["x"] for record in records}) == len(inner)
    limit = TextLimit(("x", "[]", "a"), 3, padded=True)
    limited = source(schema=COLUMNS.append(pa.field("x", inner[0])), limits=(limit,))
    assert leaves(limited).sources[0].columns["x"] == "ARRAY<STRUCT<a: CHAR(3)>>"


def test_the_length_of_a_varchar_changes_no_stored_row() -> None:
    assert told(source(), source(limits=(TextLimit(("k",), 5, padded=False),))) == []


def test_no_secret_is_recorded() -> None:
    for encoding in (Avro(REGISTRY, SCHEMA), Protobuf(REGISTRY)):
        text = leaves(source(encoding=encoding)).model_dump_json()
        assert "s3cret" not in text and "registry" not in text


def state(*topics: str) -> StepLogState:
    log = StepLogState("log")
    log = log.apply(Claim(epoch=0, pipeline="p", run_id="r", host="h", pid=1), 0)
    log = log.apply(CircuitRecord(epoch=0, fingerprint="f", circuit="[]"), 1)
    if topics:
        names = tuple(TopicIdentity(topic=name, id="i", partitions=1) for name in topics)
        log = log.apply(DivisionRecord(epoch=0, step=0, ranges=(), topics=names), 3)
    return log


def test_a_start_with_other_leaves_is_refused_and_says_what_to_do() -> None:
    log, recorded = state("in", "out"), leaves(source())
    check_leaves(leaves(source()), recorded, log)
    with pytest.raises(CircuitChanged) as e:
        check_leaves(leaves(source(topics=("b",), key=("v",)), outputs={"sums": "other"}), recorded, log)
    assert str(e.value) == (
        "the project is not the one that the state belongs to; what differs: source orders: subscribe was in, and is b now; source orders: "
        "key was k, and is v now; output sums: topic was out, and is other now. `stepwell plan` shows what the change would do, and "
        "`stepwell run --apply` makes it. `stepwell run --as-recorded` runs the project without the change. `stepwell run --full-refresh` "
        "takes all output back and rebuilds the state."
    )


def test_two_outputs_that_change_places_are_noticed() -> None:
    before, now = leaves(source(), outputs={"a": "x", "b": "y"}), leaves(source(), outputs={"a": "y", "b": "x"})
    assert list(differences(before, now)) == [
        "output a: topic was x, and is y now",
        "output b: topic was y, and is x now",
    ]


def test_a_source_that_no_view_reads_is_no_leaf() -> None:
    unread = replace(source(), table=replace(source().table, handle="unread"))
    assert leaves(source(), unread) == leaves(source())


@pytest.mark.parametrize("placed", [frozenset({TopicPartition("t", 0)}), None])
def test_where_a_batch_table_was_written_is_no_part_of_it(placed: frozenset[TopicPartition] | None) -> None:
    table = source(topics=("t",), format=TableFormat("orders", COLUMNS), partitions=placed)
    assert leaves(table).sources[0].partitions is None


def test_a_state_without_the_record_belongs_to_the_topics_that_its_log_names() -> None:
    former = state("in", "out")
    check_leaves(leaves(source()), None, former)
    for changed, text in [
        (leaves(source(topics=("b",))), r"source orders: subscribe is b, which is none of the topics .* \(in, out\)"),
        (leaves(source(), outputs={"sums": "o"}), r"output sums: topic is o, which is none of the topics"),
    ]:
        with pytest.raises(CircuitChanged, match=text):
            check_leaves(changed, None, former)
    check_leaves(leaves(source(topics=("b",))), None, state())  # nothing was read yet
