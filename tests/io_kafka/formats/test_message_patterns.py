# ruff: noqa: E501 (tables of cases read better in long lines)
"""Messages with dateFormat, timestampFormat and timestampNTZFormat, at every depth, as Spark's functions with these options read and write them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from base.text.patterns import Patterns
from io_kafka.formats.encode import encode
from io_kafka.formats.encodings import Csv
from io_kafka.formats.exact_json import RowReader
from io_kafka.formats.native_json import why_not
from io_kafka.formats.parse import parse, parse_slowly
from io_kafka.formats.spec import Decoded, OutputFormat, SourceFormat
from tests.base.text.test_patterns import MOMENTS
from tests.io_kafka.formats import connect_table as t
from tests.io_kafka.formats.decoding import decode

DDL = "d DATE, t TIMESTAMP, n TIMESTAMP_NTZ, s STRUCT<d: DATE, t: TIMESTAMP>, l ARRAY<TIMESTAMP>, m MAP<STRING, STRUCT<n: TIMESTAMP_NTZ>>"
T, N = pa.timestamp("us", "UTC"), pa.timestamp("us")
SCHEMA = pa.schema(
    [
        ("d", pa.date32()), ("t", T), ("n", N), ("s", pa.struct([("d", pa.date32()), ("t", T)])),
        ("l", pa.list_(pa.field("element", T))), ("m", pa.map_(pa.string(), pa.struct([("n", N)]))),
    ]
)  # fmt: skip
CHOICES = [
    Patterns("yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss.SSSSSS", "yyyy-MM-dd HH:mm:ss.SSSSSS"),
    Patterns("dd.MM.yyyy", "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX", "yyyyMMdd'T'HHmmss.SSS"),
    Patterns("d MMM yyyy", "\"yyyy\\MM\\dd\" HH'h'mm", None),
    Patterns(None, "yyyy-MM-dd HH:mm:ss", "dd/MM/yyyy HH:mm:ss[ XXX]"),
    Patterns("M/d/yy", None, "EEEE, d MMMM yyyy h:mm a"),
]


def options(patterns: Patterns) -> dict[str, str]:
    named = {
        "dateFormat": patterns.date,
        "timestampFormat": patterns.timestamp,
        "timestampNTZFormat": patterns.timestamp_ntz,
    }
    return {name: pattern for name, pattern in named.items() if pattern is not None}


def rows() -> pa.Table:
    us = np.array(MOMENTS, np.int64)
    day = pa.array(us // 86_400_000_000, pa.int64()).cast(pa.int32()).cast(pa.date32())
    t, n = pa.array(us, T), pa.array(us[::-1].copy(), N)
    null = pa.array(np.arange(len(us)) % 7 == 3)
    columns: list[Any] = [day, t, n]
    columns = [
        pa.array(column.to_numpy(zero_copy_only=False), column.type, mask=null.to_numpy(zero_copy_only=False))
        for column in columns
    ]
    columns.append(pa.StructArray.from_arrays([day, t], fields=list(SCHEMA.field("s").type), mask=null))
    offsets = pa.array(
        [*range(0, 2 * (len(us) // 2), 2), *[2 * (len(us) // 2)] * (len(us) - len(us) // 2 + 1)], pa.int32()
    )
    columns.append(pa.ListArray.from_arrays(offsets, t, type=SCHEMA.field("l").type))
    entry = pa.StructArray.from_arrays([n], names=["n"])
    columns.append(
        pa.MapArray.from_arrays(pa.array(range(len(us) + 1), pa.int32()), pa.array(["k"] * len(us)), entry).cast(
            SCHEMA.field("m").type
        )
    )
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def as_declared(spark: SparkSession, table: pa.Table) -> DataFrame:
    """`createDataFrame` reads an Arrow timestamp without a zone as one with."""
    kinds = {"n": "TIMESTAMP_NTZ", "m": "MAP<STRING, STRUCT<n: TIMESTAMP_NTZ>>"}
    frame = spark.createDataFrame(table)
    return frame.selectExpr(
        *(f"CAST({name} AS {kinds[name]}) AS {name}" if name in kinds else name for name in table.column_names)
    )


def writable(patterns: Patterns) -> bool:
    return patterns.timestamp_ntz is None or "EEEE" not in patterns.timestamp_ntz


@pytest.mark.long
@pytest.mark.parametrize("patterns", CHOICES)
def test_json_is_written_and_read_as_spark_does(spark: SparkSession, patterns: Patterns) -> None:
    table = rows()
    frame = as_declared(spark, table)
    theirs = [
        row[0]
        for row in frame.select(F.to_json(F.struct("*"), {**options(patterns), "ignoreNullFields": "false"})).collect()
    ]
    ours = encode(OutputFormat("v", SCHEMA, patterns=patterns), table).column("value").to_pylist()
    assert [value.decode() for value in ours] == theirs
    if not writable(patterns):
        return
    messages = [*theirs, *damaged(theirs)]
    json = spark.createDataFrame(pa.table({"v": messages}))
    read = F.from_json("v", DDL + ", bad STRING", {**options(patterns), "columnNameOfCorruptRecord": "bad"})
    expected = json.select(read.alias("r")).select("r.*").toArrow()
    good = [bad is None for bad in expected.column("bad").to_pylist()]
    values = pa.array([message.encode() for message in messages])
    reader = RowReader(SCHEMA, patterns)
    for parsed in (parse(values, SCHEMA, None, patterns), parse_slowly(values, SCHEMA, reader)):
        assert parsed.at.tolist() == np.flatnonzero(good).tolist()
        wanted = expected.drop_columns(["bad"]).filter(pa.array(good))
        for name in SCHEMA.names:
            assert plain(parsed.rows.column(name)) == plain(wanted.column(name)), name
    assert 0 < sum(good) < len(good)
    said = [number for number, message in enumerate(messages) if not re.search(r'":\[?(\d|true)', message)]
    assert len(said) > len(messages) / 2
    found = decode_all(SourceFormat("t", SCHEMA, patterns=patterns), [wrapped(messages[number]) for number in said])
    assert [said[each.offset] for each in found.rejected] == [number for number in said if not good[number]]
    taken = expected.take([number for number in said if good[number]])
    for place, name in enumerate(SCHEMA.names):
        assert plain(found.rows.column(place)) == plain(taken.column(name)), name


def decode_all(source: SourceFormat, messages: list[bytes]) -> Decoded:
    count = len(messages)
    places = pa.array([0] * count, pa.int32()), pa.array(range(count), pa.int64())
    return decode(source, pa.nulls(count, pa.binary()), pa.array(messages, pa.binary()), *places)


TEXT = {"type": "string", "optional": True}
"""A producer without types of its own for moments sends text."""
RECORDS = {name: t.row_schema(**dict.fromkeys(name, TEXT)) | {"optional": True} for name in ("dt", "n")}
WRAPPER = t.row_schema(
    d=TEXT, t=TEXT, n=TEXT, s=RECORDS["dt"], l={"type": "array", "optional": True, "items": TEXT},
    m={"type": "map", "optional": True, "keys": {"type": "string"}, "values": RECORDS["n"]},
)  # fmt: skip


def wrapped(payload: str) -> bytes:
    return f'{{"schema":{t.text(WRAPPER)},"payload":{payload}}}'.encode()


def test_a_pattern_in_a_wrapper_is_for_what_the_schema_calls_text() -> None:
    """A count is what its schema says, and so is ISO text. What the schema lacks is read as without one."""
    patterns = Patterns("dd.MM.yyyy", "dd.MM.yyyy HH:mm", "dd.MM.yyyy HH:mm")
    columns = pa.schema([("d", pa.date32()), ("t", T), ("n", N), ("z", T), ("x", T), ("s", pa.string())])
    schema = t.row_schema(
        d={"type": "int32", "name": t.C + "Date"}, t={"type": "int64", "name": t.T + "MicroTimestamp"},
        n={"type": "string", "name": "com.example.Own"}, z={"type": "string", "name": t.T + "ZonedTimestamp"},
        s={"type": "int64", "name": t.T + "MicroTimestamp"},
    )  # fmt: skip
    own = {"d": 1, "t": 5, "n": "02.01.1970 00:00", "z": "1970-01-01T00:00:00.000005Z", "x": "02.01.1970 00:00", "s": 5}
    messages = [own, own | {"n": "1970-01-02 00:00"}, own | {"x": "1970-01-02 00:00"}, own | {"d": "02.01.1970"}]
    found = decode_all(
        SourceFormat("t", columns, patterns=patterns), [t.wrapped(schema, message) for message in messages]
    )
    day = 86_400_000_000
    values = [plain(found.rows.column(place)) for place in range(6)]
    assert values == [[1], [5], [day], [5], [day], ["1970-01-01 00:00:00.000005"]]
    assert [(each.offset, each.reason.split(":")[0]) for each in found.rejected] == [
        (1, "column n"), (2, "column x"), (3, "column d"),
    ]  # fmt: skip
    assert "1970-01-02 00:00 of the schema's type string com.example.Own" in found.rejected[0].reason
    assert found.rejected[0].reason.endswith("cannot be cast to TIMESTAMP_NTZ in the form dd.MM.yyyy HH:mm")


def test_wrapped_keys_and_images_have_the_pattern_too() -> None:
    source, schema = moments(None, "yyyy-dd-MM HH:mm"), t.row_schema(k=TEXT, v={"type": "int64"})
    key = t.row_schema(k=TEXT)
    good, also = {"k": "2024-13-02 03:04", "v": 1}, {"k": "2024-01-02T03:04:05.000006Z"}
    found, wrong = keyed(
        source,
        (t.wrapped(key, {"k": good["k"]}).decode(), t.wrapped(schema, good).decode()),
        (t.wrapped(key, also).decode(), t.wrapped(schema, {"k": "2024-02-01 03:04", "v": 1}).decode()),
        (t.wrapped(TEXT, good["k"]).decode(), t.wrapped(schema, good).decode()),
        (t.wrapped(key, {"k": "2024-01-02 03:04"}).decode(), None),
    )
    assert found == [
        "2024-02-13 03:04:00+00:00", "2024-01-02 03:04:05.000006+00:00", "2024-02-13 03:04:00+00:00",
    ]  # fmt: skip
    assert [reason[:18] for reason in wrong] == ["3: key: column k: "], "of January or of February"
    change = t.row_schema(before=schema, after=schema, op={"type": "string"})
    images = SourceFormat("t", source.schema, "changelog", patterns=source.patterns)
    rows = decode_all(images, [t.wrapped(change, {"before": None, "after": good, "op": "c"})]).rows
    assert [str(value) for value in rows.column(0).to_pylist()] == ["2024-02-13 03:04:00+00:00"]


def plain(column: Any) -> list[Any]:
    """Python's datetime has no year 10000."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kind = column.type
    if pa.types.is_timestamp(kind):
        return list(column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).to_pylist())
    if pa.types.is_date(kind):
        return list(column.cast(pa.int32()).to_pylist())
    if pa.types.is_map(kind):
        return (
            [plain(pa.array([]))]
            if not len(column)
            else list(zip(column.offsets.to_pylist(), plain(column.items), strict=False))
        )
    if pa.types.is_list(kind):
        return [column.value_lengths().to_pylist(), plain(column.flatten())]
    if pa.types.is_struct(kind):
        return [plain(child) for child in column.flatten()]
    return list(column.to_pylist())


def damaged(texts: list[str]) -> list[str]:
    """Each changes one text in one place."""
    found = []
    for number, text in enumerate(texts[::3]):
        digits = [place for place, c in enumerate(text) if c.isdigit()]
        place = digits[number * 7 % len(digits)]
        found.append(text[:place] + ("x", "", "9", "11")[number % 4] + text[place + 1 :])
    return [
        *found,
        '{"t":1600000000,"d":null}',
        '{"d":20200101}',
        '{"n":1600000000}',
        '{"t":""}',
        '{"t":" "}',
        '{"t":true}',
        '{"l":[1,null]}',
        '{"l":["x"]}',
    ]


COLUMNS = pa.schema([("d", pa.date32()), ("t", T), ("n", N), ("s", pa.string())])


@pytest.mark.parametrize("patterns", [each for each in CHOICES if writable(each)])
def test_csv_is_written_and_read_as_spark_does(spark: SparkSession, patterns: Patterns) -> None:
    table = rows().select(["d", "t", "n"]).append_column("s", pa.array([f"s{n}" for n in range(len(MOMENTS))]))
    frame = as_declared(spark, table)
    theirs = [row[0] for row in frame.select(F.to_csv(F.struct("*"), {**options(patterns), "sep": "/"})).collect()]
    form = OutputFormat("v", COLUMNS, encoding=Csv("/"), patterns=patterns)
    ours = encode(form, table).column("value").to_pylist()
    assert [value.decode() for value in ours] == theirs
    messages = [*theirs, "x///", "///", "2020-01-01///", "1///s", "/1600000000//", '"01.02.2020"///']
    read = F.from_csv(
        "v",
        "d DATE, t TIMESTAMP, n TIMESTAMP_NTZ, s STRING, bad STRING",
        {**options(patterns), "sep": "/", "columnNameOfCorruptRecord": "bad"},
    )
    expected = spark.createDataFrame(pa.table({"v": messages})).select(read.alias("r")).select("r.*").toArrow()
    good = [bad is None for bad in expected.column("bad").to_pylist()]
    source = SourceFormat("t", COLUMNS, encoding=Csv("/"), patterns=patterns)
    count = len(messages)
    values = pa.array([message.encode() for message in messages])
    found = decode(
        source,
        pa.nulls(count, pa.binary()),
        values,
        pa.array([0] * count, pa.int32()),
        pa.array(range(count), pa.int64()),
    )
    assert [each.offset for each in found.rejected] == [place for place, ok in enumerate(good) if not ok]
    wanted = expected.drop_columns(["bad"]).filter(pa.array(good))
    for number, name in enumerate(COLUMNS.names):
        assert plain(found.rows.column(number)) == plain(wanted.column(name)), name


@pytest.mark.skipif(why_not() is not None, reason="the extension is not in use")
def test_usual_texts_in_a_pattern_are_not_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    schema, patterns = (
        pa.schema([("t", T), ("s", pa.struct([("d", pa.date32())]))]),
        Patterns("dd.MM.yyyy", "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][XXX]"),
    )
    texts = [
        "2024-02-29T01:02:03.123456+02:00",
        "2024-02-29T01:02:03Z",
        "2024-02-29T01:02:03",
        "2024-02-29T01:02:03.000001",
    ]
    values = pa.array([f'{{"t":"{text}","s":{{"d":"29.02.2024"}}}}'.encode() for text in texts])
    slowly = parse_slowly(values, schema, RowReader(schema, patterns)).rows
    monkeypatch.setattr(RowReader, "read", lambda self, message: pytest.fail(f"slow: {message!r}"))
    monkeypatch.setattr("base.text.pattern_columns.one_in_pattern", lambda *_: pytest.fail("one by one"))
    assert parse(values, schema, None, patterns).rows.equals(slowly)


def keyed(source: SourceFormat, *messages: tuple[str | None, str | None]) -> tuple[list[Any], list[str]]:
    keys, values = (
        pa.array([None if m[n] is None else str(m[n]).encode() for m in messages], pa.binary()) for n in (0, 1)
    )
    places = pa.array([0] * len(messages), pa.int32()), pa.array(range(len(messages)), pa.int64())
    found = decode(source, keys, values, *places)
    kept = [value if isinstance(value, str) else str(value) for value in found.rows.column("c0").to_pylist()]
    return kept, [f"{each.offset}: {each.reason}" for each in found.rejected]


def moments(*patterns: str | None) -> SourceFormat:
    return SourceFormat("t", pa.schema([("k", T), ("v", pa.int64())]), "upsert", ("k",), patterns=Patterns(*patterns))


def test_a_key_counts_where_the_value_has_fewer_digits() -> None:
    found, wrong = keyed(
        moments(),
        ('{"k":"2024-01-01T00:00:00.000001Z"}', '{"k":"2024-01-01T00:00:00.000Z","v":1}'),
        ('{"k":"1969-12-31T23:59:59.999999Z"}', '{"k":"1969-12-31T23:59:59.999Z","v":1}'),
        ('{"k":"2024-01-01T00:00:00.001001Z"}', '{"k":"2024-01-01T00:00:00.000Z","v":1}'),
        ('{"k":"2024-01-01T00:00:00.000001Z"}', '{"k":"2024-01-01T00:00:00.000002Z","v":1}'),
        ('{"k":"2024-01-01T00:00:00.000Z"}', '{"k":"2024-01-01T00:00:00.000001Z","v":1}'),
        ('{"k":"2024-01-01T00:00:00.000001Z"}', None),
    )
    assert found == [
        "2024-01-01 00:00:00.000001+00:00",
        "1969-12-31 23:59:59.999999+00:00",
        "2024-01-01 00:00:00.000001+00:00",
    ]
    assert [reason[:12] for reason in wrong] == ["2: column k:", "3: column k:", "4: column k:"]


def test_keys_of_a_pattern_that_leaves_something_out_are_read_in_both_forms() -> None:
    found, wrong = keyed(
        moments(None, "yyyy-dd-MM HH:mm"),
        ('{"k":"2024-01-02T03:04:05.000006Z"}', '{"k":"2024-02-01 03:04","v":1}'),  # as an output writes it
        ('{"k":"2024-13-02 03:04"}', '{"k":"2024-13-02 03:04","v":1}'),  # as others may
        ('{"k":"2024-01-02 03:04"}', '{"k":"2024-01-02 03:04","v":1}'),  # of January or of February
        ('{"k":"2024-02-02 03:04"}', '{"k":"2024-02-02 03:04","v":1}'),
        ('{"k":"x"}', '{"k":"2024-02-02 03:04","v":1}'),
        ('{"k":"+10000-01-02 03:04"}', '{"k":"+10000-01-02 03:04","v":1}'),  # Python has no such year
    )
    assert found == ["2024-01-02 03:04:05.000006+00:00", "2024-02-13 03:04:00+00:00", "2024-02-02 03:04:00+00:00"]
    assert [reason[:18] for reason in wrong] == ["2: key: column k: ", "4: key: column k: ", "5: key: column k: "]
    assert "it is +10000-01-02T03:04:00.000Z, and +10000-02-01T03:04:00.000Z in the form" in wrong[2]


def test_an_output_has_a_pattern_in_its_keys_only_if_it_tells_all_apart() -> None:
    table = pa.table({"k": pa.array([1, 2], T), "v": [1, 2]}).append_column("deleted", pa.array([False, False]))
    schema = table.schema.remove(2)
    for pattern, key in (
        ("yyyy HH:mm", '{"k":"1970-01-01T00:00:00.000001Z"}'),
        ("HH:mm:ss.SSSSSS dd.MM.yyyy", '{"k":"00:00:00.000001 01.01.1970"}'),
    ):
        encoded = encode(OutputFormat("v", schema, "upsert", ("k",), patterns=Patterns(None, pattern)), table)
        assert encoded.column("key")[0].as_py().decode() == key
