"""Columns of VARIANT in messages of JSON: what Spark's from_json reads, and how to_json writes it."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from base.text.variants import FIELD, VARIANT
from io_kafka.formats.parse import parse
from io_kafka.formats.render import fragment
from io_kafka.formats.spec import FormatError, SourceFormat
from tests.io_kafka.formats import messages as m
from tests.io_kafka.formats.decoding import decode
from tests.stepwell.expressions.test_damaged_json import _shown

WITHIN = {
    "VARIANT": VARIANT,
    "ARRAY<VARIANT>": pa.list_(pa.field("element", VARIANT)),
    "MAP<STRING, VARIANT>": pa.map_(pa.string(), VARIANT),
    "STRUCT<b: VARIANT, c: STRING>": pa.struct([("b", VARIANT), ("c", pa.string())]),
}
VALUES = [
    '{"b":1,"a":[1.50,1e3,null,{"x":"\\u0001é😀"}]}', '{"b":{"a":1,"a":2}}', '{"b":1,"b":2}', "{'b':'it''s'}", "{'b':'x'}",
    "[NaN,-INF,+Infinity]",
    '"\\ud83d"', '{"\\ud83d":1}', '["\\ud83d\\ude00"]',
    '{"b":null,"c":"x"}', "[null]", '{"😀":1,"\uffff":2,"\ue000":3}', "[" * 998 + "]" * 998, "[" * 1000 + "]" * 1000,
]  # fmt: skip


def _spark_has(spark: SparkSession, ddl: str, messages: Sequence[bytes]) -> list[tuple[bool, str | None]]:
    """For each message whether Spark takes it, and its column `a` as JSON."""
    rows = spark.createDataFrame([(i, bytearray(message)) for i, message in enumerate(messages)], "i int, v binary")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "corrupt"}
    read = rows.select("i", F.from_json(F.expr("string(v)"), f"a {ddl}, corrupt STRING", options).alias("r"))
    found = read.selectExpr("i", "r is not null and r.corrupt is null ok", "to_json(struct(r.a)) j").collect()
    return [(row.ok, row.j) for row in sorted(found, key=lambda row: row.i)]


def _ours(kind: pa.DataType, messages: Sequence[bytes]) -> list[str | None]:
    """The column of each message as JSON, null for a malformed message."""
    read = parse(pa.array(messages, pa.binary()), pa.schema([("a", kind)]))
    column = read.rows.column(0)
    texts = pc.if_else(column.is_null(), None, fragment(column)).to_pylist()
    taken = dict(zip(read.at.tolist(), texts, strict=True))
    return [
        None if at not in taken else "{}" if taken[at] is None else f'{{"a":{taken[at]}}}'
        for at in range(len(messages))
    ]


@pytest.mark.parametrize("ddl", WITHIN)
def test_a_variant_in_a_message_is_what_spark_reads(spark: SparkSession, ddl: str) -> None:
    texts = [f'{{"a":{value}}}' for value in [*m.VALUES, *VALUES]]
    messages = [text.encode() for text in texts] + m.WHOLE + m.RAW_UTF8
    if ddl.startswith("MAP"):
        messages = [message for message in messages if message.count(b'"b":') < 2 and b'"a":1,"a"' not in message]
    ignored = {"STRUCT<b: VARIANT, c: STRING>"}  # Spark leaves out its fields that are NULL, and fragment writes them
    for message, (ok, text), ours in zip(
        messages, _spark_has(spark, ddl, messages), _ours(WITHIN[ddl], messages), strict=True
    ):
        if ddl in ignored and ours is not None:
            ours = json.dumps(_without_nulls(json.loads(ours)))
            text = text and json.dumps(_without_nulls(json.loads(text)))
        assert _shown(ours) == _shown(text if ok else None), message[:200]


def _without_nulls(value: object) -> object:
    return {k: _without_nulls(v) for k, v in value.items() if v is not None} if isinstance(value, dict) else value


def test_a_member_that_is_missing_is_null_and_a_null_is_a_variant() -> None:
    schema = pa.schema([("id", pa.int64()), ("v", VARIANT)])
    read = parse(pa.array([b'{"id":1}', b'{"id":2,"v":null}', b'{"id":3,"v":{"b":1,"a":2.0}}']), schema)
    assert read.rows.column(1).to_pylist() == [None, {FIELD: "null"}, {FIELD: '{"a":2.0,"b":1}'}]


def test_the_reason_of_a_malformed_variant_names_the_column() -> None:
    read = parse(pa.array([b'{"v":{"a":1,"a":2}}']), pa.schema([("v", VARIANT)]))
    assert read.faults == [(0, 'column v: an object with two members of the name "a", which no variant has')]


def test_a_variant_in_connects_wrapper_is_the_json_of_its_payload() -> None:
    struct = {"type": "struct", "fields": [{"field": "x", "type": "int32"}], "optional": True, "field": "v"}
    schema = {"type": "struct", "fields": [{"field": "id", "type": "int64"}, struct], "optional": False}
    message = json.dumps({"schema": schema, "payload": {"id": 1, "v": {"x": 7}}}).encode()
    source = SourceFormat("t", pa.schema([("id", pa.int64()), ("v", VARIANT)]))
    numbers = pa.array([0], pa.int32()), pa.array([0], pa.int64())
    found = decode(source, pa.array([None], pa.binary()), pa.array([message]), *numbers)
    assert found.rows.select([0, 1]).to_pylist() == [{"c0": 1, "c1": {FIELD: '{"x":7}'}}]


def test_a_variant_is_no_key() -> None:
    with pytest.raises(FormatError, match="key column v has type VARIANT; a key needs plain columns"):
        SourceFormat("t", pa.schema([("v", VARIANT)]), "upsert", ("v",))
