"""Outputs in CSV and text, and keys in formats of their own. Spark's `to_csv` is the judge of CSV."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from io_kafka.formats.avro.declare import key_schema as avro_key_schema
from io_kafka.formats.encode import encode
from io_kafka.formats.encodings import AvroIds, Csv, KeyFormat, OutputEncoding, ProtobufIds, Text
from io_kafka.formats.spec import OutputFormat, SourceFormat, Unwritable
from tests.io_kafka.formats.decoding import decode

OPTIONS = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
PIECES = ["a", '"', "\\", ",", "\n", "\r", " ", "\t", "é", "\0", "\u3000", "'", "#", ";", "N", "::"]


def csv(rows: list[Any], schema: pa.Schema, encoding: Csv) -> list[bytes | None]:
    table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
    return encode(OutputFormat("v", schema, encoding=encoding), table).column("value").to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("encoding", [Csv(), Csv(";", "N"), Csv("::", "")])
def test_texts_are_written_as_by_spark_and_read_back(spark: SparkSession, encoding: Csv) -> None:
    chance = Random(5)
    rows = [
        tuple(None if chance.random() < 0.1 else "".join(chance.choices(PIECES, k=chance.randrange(5))) for _ in "ab")
        for _ in range(1500)
    ]
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])
    options = OPTIONS | {"sep": encoding.sep, "nullValue": encoding.null_value}
    shown = ", ".join(f"'{name}', '{value}'" for name, value in options.items())
    frame = spark.createDataFrame(rows, "a string, b string").selectExpr(f"to_csv(struct(a, b), map({shown})) AS c")
    expected = [row.c.encode() for row in frame.collect()]
    found = csv(rows, schema, encoding)
    assert [pair for pair in zip(rows, found, expected, strict=True) if pair[1] != pair[2]] == []
    count = len(rows)
    every = pa.array([0] * count, pa.int32()), pa.array(range(count), pa.int64())
    back = decode(SourceFormat("t", schema, encoding=encoding), pa.nulls(count, pa.binary()), pa.array(found), *every)
    said = [tuple(None if v == encoding.null_value else v for v in row) for row in rows]  # as from_csv reads it
    assert back.rejected == [] and [tuple(row.values())[:2] for row in back.rows.to_pylist()] == said


VALUES = """SELECT * FROM VALUES
  (1, 1.5e10D, float(1.5), 0.0000001BD, date'2024-01-02', timestamp'2024-01-02 03:04:05.123456', timestamp_ntz'2024-01-02 03:04:05', true),
  (-7, double('NaN'), float('-infinity'), 0.0000000BD, date'0001-01-01', timestamp'1969-12-31 23:59:59', timestamp_ntz'0001-01-01', false),
  (null, -0.0D, float('nan'), -12.3400000BD, date'+12345-01-01', timestamp'2024-01-02 03:04:05.1', timestamp_ntz'9999-12-31 1:2:3.4', null),
  (0, 1e-5D, null, null, null, null, null, true) AS t(i, d, f, m, day, at, local, b)"""


@pytest.mark.parametrize("sep", [",", "-", ":", ".", "1", "E", "T", "a"])
def test_every_type_is_written_as_by_spark(spark: SparkSession, sep: str) -> None:
    frame = spark.sql(VALUES)
    expected = [row.c.encode() for row in frame.selectExpr(f"to_csv(struct(*), map('sep', '{sep}')) AS c").collect()]
    table = frame.toArrow()
    fields = {"at": pa.timestamp("us", "UTC"), "local": pa.timestamp("us")}
    schema = pa.schema([pa.field(f.name, fields.get(f.name, f.type)) for f in table.schema])
    found = encode(OutputFormat("v", schema, encoding=Csv(sep)), table.cast(schema)).column("value").to_pylist()
    assert found == expected


@pytest.mark.parametrize("sep", ["||", "::", "aba", "-N", ";;;"])
def test_no_field_ends_within_itself(spark: SparkSession, sep: str) -> None:
    ends = sorted({"x" * n + sep[:m] + end for n in (0, 1) for m in range(len(sep)) for end in ("", sep[0], sep[-1])})
    rows = [(one, other, one) for one in ends for other in ends]
    schema = pa.schema([(name, pa.string()) for name in "abc"])
    written = spark.createDataFrame(rows, "a string, b string, c string").selectExpr(
        f"to_csv(struct(*), map('sep', '{sep}')) AS v"
    )
    ours, sparks = csv(rows, schema, Csv(sep)), [row.v.encode() for row in written.collect()]
    texts = [(i, (text or b"").decode()) for i, text in enumerate(ours + sparks)]
    read = f"from_csv(v, 'a string, b string, c string', map('sep', '{sep}')) AS r"
    found = spark.createDataFrame(texts, "i int, v string").selectExpr("i", read).selectExpr("i", "r.*").sort("i")
    back = [tuple(row)[1:] for row in found.collect()]
    said = [tuple(text or None for text in row) for row in rows]
    assert back[: len(rows)] == said
    right = [i for i, row in enumerate(said) if back[len(rows) + i] == row]
    assert right and [ours[i] for i in right] == [sparks[i] for i in right]


def upsert(encoding: OutputEncoding, key_format: Any, keys: pa.Array, texts: list[Any], deleted: list[bool]) -> Any:
    schema = pa.schema([("id", keys.type), ("s", pa.string())])
    table = pa.table([keys, pa.array(texts, pa.string()), pa.array(deleted)], ["id", "s", "deleted"])
    return encode(OutputFormat("v", schema, "upsert", ("id",), encoding, key_format), table).to_pylist()


def test_an_upsert_in_csv_and_in_text_has_tombstones() -> None:
    keys = pa.array([1, 2], pa.int64())
    assert upsert(Csv(), None, keys, ["a", None], [False, True]) == [
        {"key": b'{"id":1}', "value": b"1,a"},
        {"key": b'{"id":2}', "value": None},
    ]
    assert upsert(Text(), "long", keys, ["", None], [False, True]) == [
        {"key": b"\0" * 7 + b"\x01", "value": b""},
        {"key": b"\0" * 7 + b"\x02", "value": None},
    ]


def test_a_null_that_would_say_something_else_is_refused() -> None:
    keys = pa.array([1, 2], pa.int64())
    with pytest.raises(
        Unwritable, match="column s is NULL in a row, and a message without a value would delete its key"
    ):
        upsert(Text(), None, keys, ["a", None], [False, False])
    with pytest.raises(Unwritable, match="column id is NULL in a row, and a key in the format string cannot say so"):
        upsert(None, "string", pa.array(["a", None]), ["a", None], [False, False])
    with pytest.raises(Unwritable, match="column id is NULL in a row, and a key in the format int cannot say so"):
        upsert(None, "int", pa.array([1, None], pa.int32()), ["a", None], [False, False])
    one = pa.schema([("s", pa.string())])
    with pytest.raises(Unwritable, match="column s is NULL in a row, of which CSV has no field then"):
        csv([("a",), (None,)], one, Csv())
    assert csv([("",), (None,)], one, Csv(",", "NA")) == [b'""', b"NA"]


def test_text_in_mode_append() -> None:
    schema = pa.schema([("x", pa.binary())])
    table = pa.table({"x": pa.array([b"\xff", None, b""], pa.binary())})
    found = encode(OutputFormat("v", schema, encoding=Text()), table).column("value").to_pylist()
    assert found == [b"\xff", None, b""]


@pytest.mark.parametrize(
    ("key_format", "keys"),
    [
        ("string", pa.array(["a", "", '{"id": 1}', "é"])),
        ("long", pa.array([0, 1, -1, 2**63 - 1, -(2**63)], pa.int64())),
        ("int", pa.array([0, 1, -1, 2**31 - 1, -(2**31)], pa.int32())),
        ("json", pa.array(["a", "", '{"id": 1}'])),
    ],
)
def test_keys_are_read_back_by_a_source(key_format: KeyFormat, keys: pa.Array) -> None:
    count = len(keys)
    messages = upsert(None, key_format, keys, ["x"] * count, [True] * count)
    schema = pa.schema([("id", keys.type), ("s", pa.string())])
    source = SourceFormat("t", schema, "upsert", ("id",), key_format=key_format)
    every = pa.array([0] * count, pa.int32()), pa.array(range(count), pa.int64())
    written = pa.array([message["key"] for message in messages], pa.binary())
    found = decode(source, written, pa.nulls(count, pa.binary()), *every)
    assert found.rejected == [] and found.rows.column(0).to_pylist() == keys.to_pylist()


def test_the_key_of_a_changelog_is_that_of_the_row_that_is_there() -> None:
    schema = pa.schema([("id", pa.string()), ("n", pa.int64())])
    one, two = {"id": "a", "n": 1}, {"id": "b", "n": 2}
    kind = pa.struct(list(schema))
    table = pa.table({"before": pa.array([None, two], kind), "after": pa.array([one, None], kind)})
    for encoding in (None, AvroIds(7, None), ProtobufIds(7, None)):
        output = OutputFormat("v", schema, "changelog", ("id",), encoding, "string")
        assert encode(output, table).column("key").to_pylist() == [b"a", b"b"]
    assert "record" in avro_key_schema(OutputFormat("v", schema, "changelog", ("id",)))
