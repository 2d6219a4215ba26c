# ruff: noqa: E501 (tables of values: more readable in long lines)
"""Encoding equals Spark's to_json byte for byte, type by type on edge values; the shapes of the three output modes."""

from __future__ import annotations

import json
import math
import random
import struct
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from base.text.months import MONTH, YEAR, YEAR_TO_MONTH
from base.text.variants import FIELD, VARIANT
from io_kafka.formats.encode import encode
from io_kafka.formats.render import fragment
from io_kafka.formats.spec import OutputFormat, SourceFormat
from stepwell.inspection.interval_rows import frame_of
from tests.io_kafka.formats.decoding import decode

US = pa.timestamp("us", "UTC")
NTZ = pa.timestamp("us")
TEXTS = [
    "", "x", '"', "\\", "/", "a\nb\tc\rd\be\f", "".join(map(chr, range(32))), "\x7f\x80\x9f", "é", "😀", "\u2028\u2029\ufeff", "\\u0041", '\\"', "</script>",
    "\x0b\x1f", None, "null", "\ufffd", "a'b", "\U0010ffff",
]  # fmt: skip
INSTANTS = [
    0, 1, -1, 999, 1000, 1001, -999, -1000, -1001, 1704164645123456, 253402300799999999, 253402300800000000, -62135596800000000,
    -62135596800000001, -62167219200000000, -62167219200000001, -12219292800000000, 2**63 - 1, -(2**63), 951782400000000, None,
]  # fmt: skip
DAYS = [0, 1, -1, 19724, 2932896, 2932897, -719162, -719163, -719528, -719529, 11016, 2**31 - 1, -(2**31), None]
INTERVALS = [0, 1, -1, 500000, 86400000000, -86400000001, 3723000000, 2**63 - 1, -(2**63) + 1, -100, None]
DOUBLES = [
    0.0, -0.0, 1.0, -1.0, 0.1, 1e-3, 9.999e-4, 1e7, 9999999.0, 9999999.999999998, 12345678.0, 1e10, 1.5e300, 4.9e-324, 1e-323, 2.2250738585072014e-308,
    1.7976931348623157e308, math.nan, math.inf, -math.inf, 123456789012345680.0, 1 / 3, 100.0, 0.001, 0.002, 1e21, 1e22, 1e23, 5e-5, 2.0**53, None,
]  # fmt: skip
FLOATS = [
    0.0,
    -0.0,
    1.0,
    0.1,
    16777216.0,
    3.4028235e38,
    1.4e-45,
    1.17549435e-38,
    math.nan,
    -math.inf,
    1e7,
    1e-3,
    9999999.0,
    1 / 3,
    3.3e10,
    None,
]


def decimals(*texts: str) -> list[Decimal | None]:
    return [*map(Decimal, texts), None]


NESTED = pa.struct(
    [("b", pa.int32()), ('q"ué', pa.string()), ("t", US), ("l", pa.list_(pa.field("element", pa.float64())))]
)
MONTH_COUNTS = [0, 1, -1, 11, 12, -13, 2147483647, -2147483648, None]
VARIANTS = [
    "null", "true", "false", "1", "-9223372036854775808", "1.0", "1.5", "99999999999999999999999999999999999999", "1.0e0", "1e+300", "-0.0e0", "NaN", "Infinity", "-Infinity", '"x"', '"\\u001F\\n\\"\\\\é😀"', "{}", "[]",
    '{"a":1.0,"b":[1.5e0,{"1.0":"1.0e0 NaN"}],"c":{"d":NaN}}', '[-1.25,2,"-1.0"]', None,
]  # fmt: skip
VARIANTS_WITHIN = pa.struct(
    [("v", VARIANT), ("l", pa.list_(pa.field("element", VARIANT))), ("m", pa.map_(pa.string(), VARIANT))]
)
MONTHS_WITHIN = pa.struct([("m", YEAR_TO_MONTH), ("l", pa.list_(pa.field("element", YEAR)))])
DECLARED = {
    YEAR_TO_MONTH: "interval year to month",
    YEAR: "interval year",
    MONTH: "interval month",
    MONTHS_WITHIN: "struct<m: interval year to month, l: array<interval year>>",
    VARIANT: "variant",
    VARIANTS_WITHIN: "struct<v: variant, l: array<variant>, m: map<string, variant>>",
}
COLUMNS: dict[str, pa.Array] = {
    "tinyint": pa.array([0, 127, -128, None], pa.int8()),
    "smallint": pa.array([0, 32767, -32768, None], pa.int16()),
    "int": pa.array([0, 2**31 - 1, -(2**31), None], pa.int32()),
    "bigint": pa.array([0, 2**63 - 1, -(2**63), None], pa.int64()),
    "boolean": pa.array([True, False, None]),
    "string": pa.array(TEXTS, pa.string()),
    "binary": pa.array([b"", b"a", b"ab", b"abc", b"abcd", bytes(range(256)), None, b"\xff\xfe"], pa.binary()),
    "decimal(10,2)": pa.array(decimals("0", "1.5", "-1.50", "99999999.99", "0.01"), pa.decimal128(10, 2)),
    "decimal(38,0)": pa.array(decimals("0", "1", "-99999999999999999999999999999999999999"), pa.decimal128(38, 0)),
    "decimal(38,18)": pa.array(decimals("0", "1E-18", "1E-7", "1E-6", "0.000001234", "-1.5", "123456789.123456789"), pa.decimal128(38, 18)),
    "date": pa.array(DAYS, pa.int32()).cast(pa.date32()),
    "timestamp": pa.array(INSTANTS, pa.int64()).cast(US),
    "timestamp_ntz": pa.array(INSTANTS, pa.int64()).cast(NTZ),
    "interval": pa.array(INTERVALS, pa.int64()).cast(pa.duration("us")),
    "year-month interval": pa.array(MONTH_COUNTS, pa.int64()).cast(YEAR_TO_MONTH),
    "interval of years": pa.array([0, 12, -12, 2147483640, None], pa.int64()).cast(YEAR),
    "interval of months": pa.array(MONTH_COUNTS, pa.int64()).cast(MONTH),
    "struct of intervals": pa.array([{"m": 14, "l": [12, None]}, None], MONTHS_WITHIN),
    "struct": pa.array(
        [{"b": 1, 'q"ué': '"', "t": 5000, "l": [1.0, None, 1e10]}, {"b": None, 'q"ué': None, "t": None, "l": None}, None], NESTED
    ),
    "array": pa.array([["a", None, "b\n"], [], None, [""]], pa.list_(pa.field("element", pa.string()))),
    "array of struct": pa.array([[{"b": 1}, None, {}], [], None], pa.list_(pa.field("element", NESTED))),
    "variant": pa.array([None if text is None else {FIELD: text} for text in VARIANTS], VARIANT),
    "variants within": pa.array([{"v": {FIELD: "1.5"}, "l": [{FIELD: '{"a":1.0}'}, None], "m": [("k", {FIELD: "null"})]}, {}, None], VARIANTS_WITHIN),
    "array of array": pa.array([[[1], [], None], [], None], pa.list_(pa.field("element", pa.list_(pa.field("element", pa.int32()))))),
}  # fmt: skip


def to_json(spark: SparkSession, column: pa.Array) -> list[str]:
    """Spark's own answer, in the order of the rows."""
    table = pa.table({"i": pa.array(range(len(column)), pa.int32()), "a": column})
    if column.type in DECLARED:
        rows = frame_of(spark, table, StructType.fromDDL(f"i int, a {DECLARED[column.type]}"))
    else:
        # createDataFrame reads an Arrow timestamp without a zone as one with.
        a = "cast(a as timestamp_ntz) a" if column.type == NTZ else "a"
        rows = spark.createDataFrame(table).selectExpr("i", a)
    texts = rows.selectExpr("i", "to_json(struct(a), map('ignoreNullFields', 'false')) j").collect()
    return [row.j for row in sorted(texts, key=lambda row: row.i)]


def ours(column: pa.Array) -> list[str]:
    rows = pa.table({"c0": column, "weight": pa.array([1] * len(column), pa.int64())})
    output = OutputFormat("h", pa.schema([("a", column.type)]))
    return [value.decode() for value in encode(output, rows).column("value").to_pylist()]


@pytest.mark.parametrize("name", COLUMNS)
def test_each_type_is_written_as_spark_writes_it(spark: SparkSession, name: str) -> None:
    column = COLUMNS[name]
    assert ours(column) == to_json(spark, column)
    # A slice has an offset, and other first rows.
    assert ours(column.slice(1)) == ours(column)[1:]


def _java_before_19(spark: SparkSession) -> bool:
    return int(spark._jvm.java.lang.System.getProperty("java.specification.version").split(".")[0]) < 19


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_floating_point_is_written_as_java_writes_it(spark: SparkSession, kind: pa.DataType) -> None:
    """Java before 19 writes a digit too many for a few values: there the two texts must read back to one value."""
    dice = random.Random(5)
    if kind == pa.float64():
        drawn = [struct.unpack("d", dice.randbytes(8))[0] for _ in range(2000)]
        values = DOUBLES + drawn + [round(dice.uniform(-1e6, 1e6), 2) for _ in range(2000)]
    else:
        drawn = [struct.unpack("f", dice.randbytes(4))[0] for _ in range(2000)]
        values = FLOATS + drawn + [dice.uniform(-1e6, 1e6) for _ in range(2000)]
    column = pa.array(values, kind)
    pairs = list(zip(ours(column), to_json(spark, column), strict=True))
    differing = [(a, b) for a, b in pairs if a != b]
    if not _java_before_19(spark):
        assert not differing
    assert len(differing) < 0.1 * len(pairs), differing[:20]
    for a, b in differing:
        texts = [json.loads(text)["a"] for text in (a, b)]
        assert len(set(pa.array(texts, kind).to_pylist())) == 1, (a, b)
        assert len(a) <= len(b), "the shortest that reads back"


@given(st.lists(st.none() | st.text(), min_size=1, max_size=20))
@settings(max_examples=200, deadline=None)
def test_any_text_is_json_and_reads_back(texts: list[str | None]) -> None:
    assert [json.loads(text) for text in fragment(pa.array(texts, pa.string())).to_pylist()] == texts


@given(st.lists(st.none() | st.binary(), max_size=20))
@settings(max_examples=200, deadline=None)
def test_what_is_written_is_read_back(blobs: list[bytes | None]) -> None:
    schema = pa.schema([("a", pa.binary())])
    rows = pa.table({"c0": pa.array(blobs, pa.binary())})
    written = encode(OutputFormat("h", schema), rows)
    offsets = pa.array(range(len(blobs)), pa.int64())
    key, value = (written.column(name).combine_chunks() for name in ("key", "value"))
    assert (
        decode(SourceFormat("h", schema), key, value, pa.array([0] * len(offsets), pa.int32()), offsets)
        .rows.column("c0")
        .to_pylist()
        == blobs
    )


ROWS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("v", pa.float64())])


def messages(output: OutputFormat, rows: pa.Table) -> list[tuple[bytes | None, bytes | None]]:
    table = encode(output, rows)
    assert table.schema == pa.schema([("key", pa.binary()), ("value", pa.binary())])
    return list(zip(table.column("key").to_pylist(), table.column("value").to_pylist(), strict=True))


def test_append_has_the_row_and_its_key_in_declared_order() -> None:
    rows = pa.table(
        {"c0": [1], "c1": ["x"], "c2": [None]},
        schema=pa.schema([("c0", pa.int64()), ("c1", pa.string()), ("c2", pa.float64())]),
    )
    value = b'{"id":1,"name":"x","v":null}'
    assert messages(OutputFormat("h", ROWS), rows) == [(None, value)]
    assert messages(OutputFormat("h", ROWS, "append", ("name", "id")), rows) == [(b'{"name":"x","id":1}', value)]


def test_upsert_of_a_vanished_key_is_null() -> None:
    rows = pa.table({"c0": [1, 2], "c1": ["x", None], "c2": [0.5, None], "deleted": [False, True]})
    assert messages(OutputFormat("h", ROWS, "upsert", ("id",)), rows) == [
        (b'{"id":1}', b'{"id":1,"name":"x","v":0.5}'),
        (b'{"id":2}', None),
    ]


@pytest.mark.parametrize("kind", [US, NTZ])
def test_keys_that_differ_by_a_microsecond_have_different_texts(kind: pa.DataType) -> None:
    """Otherwise two rows of a view would be one row of an upsert topic. A whole millisecond is written as in the value."""
    instants = pa.array([0, 1, -1, 1000, 999, 253402300800000001, None], pa.int64()).cast(kind)
    schema = pa.schema([("at", kind)])
    rows = pa.table([instants, pa.array([False] * 7)], names=["c0", "deleted"])
    zone = "Z" if kind.tz else ""
    written = messages(OutputFormat("h", schema, "upsert", ("at",)), rows)
    assert [json.loads(key)["at"] for key, _ in written if key is not None] == [
        f"1970-01-01T00:00:00.000{zone}",
        f"1970-01-01T00:00:00.000001{zone}",
        f"1969-12-31T23:59:59.999999{zone}",
        f"1970-01-01T00:00:00.001{zone}",
        f"1970-01-01T00:00:00.000999{zone}",
        f"+10000-01-01T00:00:00.000001{zone}",
        None,
    ]
    assert json.loads(written[1][1] or b"")["at"] == f"1970-01-01T00:00:00.000{zone}"


def test_changelog_tells_before_and_after() -> None:
    image = pa.struct([("c0", pa.int64()), ("c1", pa.string()), ("c2", pa.float64())])
    one, two = {"c0": 1, "c1": "x", "c2": 1.0}, {"c0": 1, "c1": None, "c2": 2.0}
    rows = pa.table({"before": pa.array([None, one, two], image), "after": pa.array([one, two, None], image)})
    a, b = b'{"id":1,"name":"x","v":1.0}', b'{"id":1,"name":null,"v":2.0}'
    values = [
        b'{"before":null,"after":' + a + b',"op":"c"}',
        b'{"before":' + a + b',"after":' + b + b',"op":"u"}',
        b'{"before":' + b + b',"after":null,"op":"d"}',
    ]
    assert messages(OutputFormat("h", ROWS, "changelog"), rows) == [(None, value) for value in values]
    assert messages(OutputFormat("h", ROWS, "changelog", ("id",)), rows) == [(b'{"id":1}', value) for value in values]


def test_no_rows() -> None:
    empty = pa.table({f"c{i}": pa.array([], field.type) for i, field in enumerate(ROWS)})
    assert messages(OutputFormat("h", ROWS, "append", ("id",)), empty) == []
