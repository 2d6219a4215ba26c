# ruff: noqa: E501 (tables of texts read better in long lines)
"""Texts on which readers of dates, timestamps and numbers disagree, and the ways in which the tests read them.

`cast` and `from_message` are ours; `sparks_cast` and `sparks_from_json` are Spark's. All give one plain value per text:
days, microseconds, a decimal's digits, a float; None where the text is refused.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from base.text.trimming import JAVA_BLANK as JAVA_BLANK
from engine.expressions.evaluate import ExpressionError, evaluate
from engine.model.node import Expression
from io_kafka.formats.parse import parse_slowly
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.expressions.casts import convert
from stepwell.lowering.expressions.fragment import Fragment
from tests.io_kafka.formats import messages

ROOT = Path(__file__).parents[3]

TYPES: dict[str, pa.DataType] = {
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "DECIMAL(10,2)": pa.decimal128(10, 2),
    "DECIMAL(38,0)": pa.decimal128(38, 0),
    "DECIMAL(38,38)": pa.decimal128(38, 38),
    "DOUBLE": pa.float64(),
    "FLOAT": pa.float32(),
}
"""What CAST makes of a string, and what the JSON reader makes of the same text: of a string in quotes, but of the bare
number for DOUBLE and FLOAT, which it does not read from strings."""

CAST_ONLY: dict[str, pa.DataType] = {
    "TINYINT": pa.int8(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "BOOLEAN": pa.bool_(),
}

_ZONES = """
Z|UTC|GMT|UT|z|utc|Zulu|UCT|GMT0|GMT-0|GMT+0|UTC0|CET|MET|EST|MST|HST|PST|ECT|EST5EDT|PST8PDT|ROC|ROK|PRC|W-SU|NZ-CHAT|Factory|posix/UTC
right/UTC|localtime|leapseconds|Europe/Paris|europe/paris|Europe/Kyiv|Asia/Calcutta|Asia/Kathmandu|Foo/Bar|../UTC|Europe|Europe/|/|A|AB
Etc/GMT+5|Etc/GMT+5:0|+1|+01|+1:00|+01:0|+01:00|+0100|+100|+01:00:30|+010030|+01:0030|+0100:30|+18|-18:00|+18:01|+19|+01:60|-00:00|+|-|UTC+1
UTC+1:5|GMT+01:00|GMT+1:05|UT-03:30|UTCZ|Z0|UTC Z|+\u0661|Europe/Paris\x1f|Europe/Paris\x7f
""".strip("\n").replace("\n", "|").split("|")  # fmt: skip

MOMENTS = [
    *(json.loads(f'"{text}"') for text in messages.TIMES),
    *(f"2020-07-01 01:02:03{blank}{zone}" for blank in ("", " ") for zone in _ZONES),
    *(f"{date} {zone}" for zone in ("Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Africa/Monrovia")
      for date in ("2015-03-29 02:30:00", "2015-10-25 02:30:00", "2015-03-08 02:30:00", "1600-07-01 00:00:00.5", "12015-07-01 01:02:03")),
    "2020-01-01 12", "2020-01-01T12", "2020-01-01 12:00Z", "2020-01-01 12Z", "2020-01-01 12:00 UTC", "2020-01-01 1:2:3.CET", "2020-01-01 1:2:3.5CET",
    "1234567-01-01", "0012345-01-01", "0002020-01-01 00:00:00", "002020-01-01 00:00:00", "+0000-02-29", "-0004-02-29", "--2020-01-01", "5881581-01-01",
    "9999999-12-31", "-9999999-01-01", "294248-01-01", "-290309-01-01", "20200-1-1", "GMT2024-01-02GMT", "2024GMT-01GMT-02 03:04:05", "5GMT", "GMT",
    "2020-01-01  01:02:03", "2020-01-01 01:02:03.0000000000000000000000000000000000000001", "2020-01-01T01:02:03\x00", "\x1f2020\x1f", "２０２０", "٢٠٢٠-٠١-٠١",
    "2020-01-01\n01:02:03", "2020-01-01 01:02:03\n", "2020 ", "2020-1", "2020-1 ", "2020-1 1", "2020T", "1" * 5000, "9" * 5000 + "-01-01", "2020-01-01 " + "1" * 5000,
    "\u0661\u0662", "+19000", "00019000", "2147483648", "-2147483648", "-2147483649", "-", "+", "", " ", "\x7f",
]  # fmt: skip

NUMBERS = [
    *(json.loads(text) if text.startswith('"') else text for text in messages.NUMBERS),
    "0e37", "0e38", "0e50", "0.00e41", "0e2147483647", "0e2147483648", "0e-2147483647", "0e-2147483648", "0.0e-2147483647", "1e-2147483647",
    "1.5e-2147483646", "1.5e-2147483647", "1e-600000000", "1e99999999999999999999", "0e99999999999999999999", "1e-99999999999999999999", "1e-9999", "1e9999",
    "0e00000000000000000000001", "1e" + "0" * 5000 + "1", "1e" + "9" * 5000, "1" * 5000, "0" * 5000 + "1", "0." + "0" * 5000 + "1", "0." + "0" * 999 + "1e1000",
    "\x001\x00", "\x7f1", "\x7f1\x7f", "\u00a01", "\U0001d7ce", "\u0661.\u0662e\u0663", "1e\u0661", "+", "+.", "-.5", "+.5e1", "1e+", "1E05", "0x1p3", "0X1.8P-1f",
    "0x.8p0d", "0x1p", "0xp1", "0x1.fffffffffffff8p1023", "-0x1p1024", "0x1p-1075", "0x0.8p-1074", "0x1p9999999999999999999", "0x1.000001000000001p0", "0x1p-149",
    "3.4028235677973366e38", "3.40282356779733661637539395458142568447e38", "3.40282356779733661637539395458142568448e38", "7.006492321624085e-46",
    "7.0064923216240853e-46", "7.0064923216240854e-46", "1.00000005960464477539062500000000000000000001", "1.000000059604644775390625", "16777219", "+NaN", "-NaN", "iNf", "+inf",
    "Infinity", "-Infinity", " infinity ", "infinityd", "1D", "1.f", "1ff", "12345678901234567890123456789012345678.4999", "99999999.995", "99999999.994999",
    "5e-39", "4.9999e-39", "true", "T", "yes", "NO", "tru", " false\t", "ＴＲＵＥ", "127.0", "1_0", "--1", "+-1",
]  # fmt: skip


def texts_of(ddl: str) -> list[str]:
    return MOMENTS if ddl.startswith(("DATE", "TIMESTAMP")) else NUMBERS


_NO_NODE = TreeNode("Cast", {}, ())


def cast(texts: Sequence[str], kind: pa.DataType) -> list[Any]:
    """CAST as a view would evaluate it, each text alone."""
    fragment = convert(_NO_NODE, Fragment("c0", pa.string()), kind)
    expression = Expression(fragment.sql, kind)
    values: list[Any] = []
    for text in texts:
        try:
            values += plain(evaluate(None, (expression,), pa.table({"c0": [text]})).column(0))
        except ExpressionError as error:
            assert error.error_class in (
                "CAST_INVALID_INPUT",
                "NUMERIC_OUT_OF_SUPPORTED_RANGE",
                "NUMERIC_VALUE_OUT_OF_RANGE",
            ), error
            values.append(None)
    return values


def message(text: str, kind: pa.DataType) -> bytes:
    """A message of one column. For a number that no string may hold the text stands bare."""
    return b'{"a":%s}' % (text if pa.types.is_floating(kind) else json.dumps(text)).encode()


def from_message(texts: Sequence[str], kind: pa.DataType) -> list[Any]:
    parsed = parse_slowly(pa.array([message(text, kind) for text in texts], pa.binary()), pa.schema([("a", kind)]))
    values: list[Any] = [None] * len(texts)
    for place, value in zip(parsed.at.tolist(), plain(parsed.rows.column(0)), strict=True):
        values[place] = value
    return values


def plain(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Values that `==` compares as Spark does: floats by their bits, but all NaN are one."""
    kind = column.type
    if pa.types.is_date(kind):
        return column.cast(pa.int32()).to_pylist()
    if pa.types.is_timestamp(kind):
        return column.cast(pa.int64()).to_pylist()
    if pa.types.is_floating(kind):
        return [None if v is None else "NaN" if v != v else struct.pack("d", v) for v in column.to_pylist()]
    if pa.types.is_decimal(kind):
        return [None if v is None else f"{v + 0:f}" for v in column.to_pylist()]
    return column.to_pylist()


_AS_NUMBERS = {
    "DATE": "unix_date({})",
    "TIMESTAMP": "unix_micros({})",
    "TIMESTAMP_NTZ": "unix_micros(cast({} as timestamp))",
}


def sparks_cast(spark: SparkSession, texts: Sequence[str], ddl: str) -> list[Any]:
    """`try_cast` is CAST in ANSI mode with null for an error, so one query does. A raising cast is compared in
    tests/stepwell/expressions."""
    rows = spark.createDataFrame(list(enumerate(texts)), "i int, t string")
    cells = rows.selectExpr("i", f"try_cast(t as {ddl}) as v")
    return _values(cells, ddl)


def sparks_from_json(spark: SparkSession, texts: Sequence[str], ddl: str) -> list[Any]:
    kind = TYPES[ddl]
    rows = spark.createDataFrame([(i, bytearray(message(t, kind))) for i, t in enumerate(texts)], "i int, v binary")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "corrupt"}
    read = rows.select("i", f.from_json(f.expr("string(v)"), f"a {ddl}, corrupt STRING", options).alias("r"))
    return _values(read.selectExpr("i", "CASE WHEN r.corrupt IS NULL THEN r.a END AS v"), ddl)


def _values(cells: Any, ddl: str) -> list[Any]:
    number = _AS_NUMBERS.get(ddl, "{}").format("v")
    return plain(cells.selectExpr("i", f"{number} AS v").orderBy("i").toArrow().column("v"))
