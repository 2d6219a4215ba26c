# ruff: noqa: E501 (tables of messages: more readable in long lines)
"""What Kafka Connect's values mean, as literals of Spark, which then casts them. It shares no code with the reader."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession

C, T, D = "org.apache.kafka.connect.data.", "io.debezium.time.", "io.debezium.data."

DECLARED: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64(), "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(), "DECIMAL(10,2)": pa.decimal128(10, 2), "DECIMAL(38,9)": pa.decimal128(38, 9), "STRING": pa.string(),
    "BINARY": pa.binary(), "DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us", "UTC"), "TIMESTAMP_NTZ": pa.timestamp("us"),
}  # fmt: skip
NUMBERS = {"TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10,2)", "DECIMAL(38,9)"}
MOMENTS = {"TIMESTAMP", "TIMESTAMP_NTZ"}


class Sample(NamedTuple):
    """A value of a message and what it is: a literal of Spark. None: it is no value of its schema, so no column has it."""

    json: Any
    literal: str | None


class Source(NamedTuple):
    """A type of a schema, and Spark's type of the literals. `also`: another type and other literals of the samples, for those declared types for
    which the first ones do not count; without literals, no value of that type is one."""

    schema: dict[str, Any]
    samples: list[Sample]
    also: dict[str, tuple[str, list[str]]]
    spark: str

    @property
    def name(self) -> str:
        return str(self.schema.get("name", self.schema["type"]))


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def unscaled(number: int) -> str:
    return b64(number.to_bytes(max(1, (number.bit_length() + 8) // 8), "big", signed=True))


def _plain(
    kind: str, type_: str, samples: Sequence[tuple[Any, str]], logical: str | None = None, **more: Any
) -> Source:
    schema = {"type": kind, "optional": True} | ({"name": logical, "version": 1} if logical else {}) | more
    numeric = kind.startswith(("int", "float", "double"))
    also: dict[str, tuple[str, list[str]]] = {moment: ("", []) for moment in MOMENTS} if numeric else {}
    return Source(schema, [Sample(*sample) for sample in samples], also, type_)


def _decimal(scale: int, samples: Sequence[tuple[int, str]], numeric: bool = False) -> Source:
    """`numeric`: as `decimal.format` = NUMERIC writes it."""
    schema = {
        "type": "bytes",
        "optional": True,
        "name": C + "Decimal",
        "version": 1,
        "parameters": {"scale": str(scale)},
    }
    type_ = f"DECIMAL(38,{max(scale, 0)})"
    values = [json.loads(text) if numeric else unscaled(number) for number, text in samples]
    found = [Sample(value, f"CAST('{text}' AS {type_})") for value, (_, text) in zip(values, samples, strict=True)]
    return Source(schema, found, {moment: ("", []) for moment in MOMENTS}, type_)


def _count(kind: str, logical: str, spark: str, samples: Sequence[tuple[int, str | None]]) -> Source:
    """A count of time: in a column of numbers it is its own number."""
    literals = [f"CAST({number} AS {'INT' if kind == 'int32' else 'BIGINT'})" for number, _ in samples]
    schema = {"type": kind, "optional": True, "name": logical, "version": 1}
    own = "INT" if kind == "int32" else "BIGINT"
    also: dict[str, tuple[str, list[str]]] = dict.fromkeys(NUMBERS, (own, literals))
    if spark.startswith("TIME("):  # Spark takes the day on which it runs
        also |= {name: ("", []) for name in MOMENTS}
    return Source(schema, [Sample(*sample) for sample in samples], also, spark)


def _ntz(text: str) -> str:
    return f"TIMESTAMP_NTZ'{text}'"


def _moments(logical: str, kind: str, samples: Sequence[tuple[int, str]]) -> Source:
    return _count(kind, logical, "TIMESTAMP_NTZ", [(count, _ntz(text)) for count, text in samples])


DAYS = [
    (19724, "DATE'2024-01-02'"),
    (0, "DATE'1970-01-01'"),
    (-1, "DATE'1969-12-31'"),
    (-719162, "DATE'0001-01-01'"),
    (2932896, "DATE'9999-12-31'"),
    (-719894, "DATE'-0002-12-31'"),
]
MS = [
    (1704164645123, "2024-01-02 03:04:05.123"),
    (0, "1970-01-01 00:00:00"),
    (-1, "1969-12-31 23:59:59.999"),
    (7, "1970-01-01 00:00:00.007"),
]
US = [
    (1704164645123456, "2024-01-02 03:04:05.123456"),
    (-1, "1969-12-31 23:59:59.999999"),
    (5, "1970-01-01 00:00:00.000005"),
    (1704164645000000, "2024-01-02 03:04:05"),
]
NS = [
    (1704164645123456789, "2024-01-02 03:04:05.123456"),
    (-1, "1969-12-31 23:59:59.999999"),
    (999, "1970-01-01 00:00:00"),
    (1000, "1970-01-01 00:00:00.000001"),
]
STRINGS = [
    ("x", "'x'"), ("", "''"), (" 12 ", "' 12 '"), ("1.5", "'1.5'"), ("1e2", "'1e2'"), ("true", "'true'"), ("N", "'N'"), ("2024-01-02", "'2024-01-02'"),
    ("2024-01-02T03:04:05.123456Z", "'2024-01-02T03:04:05.123456Z'"), ("2024-01-02 03:04:05+02:00", "'2024-01-02 03:04:05+02:00'"), ("1,000", "'1,000'"),
    ("19724", "'19724'"), ("99999999999", "'99999999999'"), ("-128", "'-128'"), ("NaN", "'NaN'"), ("é", "'é'"), ("0.005", "'0.005'"), ("2024", "'2024'"),
]  # fmt: skip
INTEGERS = [(0, "0"), (1, "1"), (-1, "-1"), (127, "127"), (-128, "-128"), (100, "100")]
DOUBLES = [
    (1.5, "1.5D"), (-1.5, "-1.5D"), (0.0, "0.0D"), (-0.0, "-0.0D"), (1e300, "1e300D"), (2147483647.9, "2147483647.9D"), ("NaN", "CAST('NaN' AS DOUBLE)"),
    ("Infinity", "CAST('Infinity' AS DOUBLE)"), (0.1, "0.1D"), (1.005, "1.005D"), (123456789012.345, "123456789012.345D"), (1e-7, "1e-7D"), (100.0, "100.0D"),
]  # fmt: skip
SHORT_TEXTS = [("a1b2", "'a1b2'"), ('{"a": [1, 2]}', "'{\"a\": [1, 2]}'"), ("7", "'7'")]


def _zoned(logical: str) -> Source:
    texts = [
        "2024-01-02T03:04:05.123456Z",
        "2024-01-02T23:04:05-05:00",
        "1969-12-31T23:59:59.9Z",
        "2024-01-02T03:04:05.1234567+05:30",
    ]
    schema = {"type": "string", "optional": True, "name": logical, "version": 1}
    moments = [f"CAST('{text}' AS TIMESTAMP)" for text in texts]
    also = dict.fromkeys((*MOMENTS, "DATE"), ("TIMESTAMP", moments))
    return Source(schema, [Sample(text, f"'{text}'") for text in texts], also, "STRING")


SOURCES: list[Source] = [
    _plain("boolean", "BOOLEAN", [(True, "true"), (False, "false")]),
    _plain("int8", "TINYINT", [(number, f"CAST({text} AS TINYINT)") for number, text in INTEGERS]),
    _plain("int16", "SMALLINT", [*((number, f"CAST({text} AS SMALLINT)") for number, text in INTEGERS), (32767, "CAST(32767 AS SMALLINT)")]),
    _plain("int32", "INT", [*INTEGERS, (2147483647, "2147483647"), (-2147483648, "CAST(-2147483648 AS INT)")]),
    _plain("int64", "BIGINT", [*((number, f"{text}L") for number, text in INTEGERS), (2**63 - 1, f"{2**63 - 1}L"), (2**53 + 1, f"{2**53 + 1}L"), (99999999, "99999999L")]),
    _plain("int32", "INT", [(2024, "2024"), (99, "99")], T + "Year"),
    _plain("float", "FLOAT", [(1.5, "1.5F"), (1.1, "CAST('1.1' AS FLOAT)"), ("NaN", "CAST('NaN' AS FLOAT)"), (-0.25, "-0.25F"), (16777217, "CAST('16777217' AS FLOAT)")]),
    _plain("double", "DOUBLE", DOUBLES),
    _plain("string", "STRING", STRINGS),
    *(_plain("string", "STRING", SHORT_TEXTS, name) for name in (
        D + "Json", D + "Xml", D + "Uuid", D + "Enum", D + "EnumSet", D + "Ltree", T + "ZonedTime", T + "IsoTime", T + "Interval", "com.example.Own",
    )),
    _plain("bytes", "BINARY", [(b64(b"abc"), "X'616263'"), ("", "X''"), (b64("é".encode()), "X'C3A9'")]),
    _plain("bytes", "BINARY", [(b64(b"\x05"), "X'05'"), (b64(b"\x01\x02"), "X'0102'")], D + "Bits", parameters={"length": "16"}),
    _plain("bytes", "BINARY", [(b64(b"xy"), "X'7879'")], "com.example.Bytes"),
    _decimal(2, [(12345, "123.45"), (-12345, "-123.45"), (0, "0.00"), (1, "0.01"), (10**9, "10000000.00"), (10**10 + 5, "100000000.05"), (99, "0.99"), (-50, "-0.50"), (10**37, "100000000000000000000000000000000000.00")]),
    _decimal(0, [(1, "1"), (2**63, "9223372036854775808"), (-128, "-128"), (0, "0")]),
    _decimal(2, [(12345, "123.45"), (-12345, "-123.45"), (0, "0.00"), (1, "0.01"), (10**9, "10000000.00"), (10**10 + 5, "100000000.05"), (99, "0.99"), (-50, "-0.50"), (10**14 + 1, "1000000000000.01")], numeric=True),
    _decimal(0, [(1, "1"), (2**63, "9223372036854775808"), (-128, "-128"), (0, "0")], numeric=True),
    _decimal(9, [(1234567895, "1.234567895"), (5_000_000, "0.005000000"), (-2, "-0.000000002")], numeric=True),
    _decimal(9, [(1234567895, "1.234567895"), (5_000_000, "0.005000000"), (-5_000_000, "-0.005000000"), (1, "0.000000001")]),
    _decimal(38, [(1, "0." + "0" * 37 + "1"), (10**37, "0.1" + "0" * 37)]),
    _decimal(-2, [(12, "1200"), (-1, "-100")]),
    Source(
        {"type": "struct", "optional": True, "name": D + "VariableScaleDecimal", "version": 1, "fields": [
            {"type": "int32", "optional": False, "field": "scale"}, {"type": "bytes", "optional": False, "field": "value"},
        ]},
        [Sample({"scale": scale, "value": unscaled(number)}, f"CAST('{text}' AS DECIMAL(38,9))") for scale, number, text in (
            (0, 7, "7"), (2, 12345, "123.45"), (4, -12345, "-1.2345"), (0, 0, "0"), (3, 1005, "1.005"), (9, 1, "0.000000001"),
        )],
        # Its own scale is a part of it, so as text it has no more digits than it came with.
        {"TIMESTAMP": ("", []), "STRING": ("DECIMAL(38,9)", [f"CAST('{text}' AS DECIMAL(38,{scale}))" for scale, text in ((0, "7"), (2, "123.45"), (4, "-1.2345"), (0, "0"), (3, "1.005"), (9, "0.000000001"))])},
        "DECIMAL(38,9)",
    ),
    _count("int32", C + "Date", "DATE", DAYS),
    _count("int32", T + "Date", "DATE", DAYS),
    _moments(C + "Timestamp", "int64", MS),
    _moments(T + "Timestamp", "int64", MS),
    _moments(T + "MicroTimestamp", "int64", US),
    _moments(T + "NanoTimestamp", "int64", NS),
    _count("int32", C + "Time", "TIME(6)", [(11045123, "TIME'03:04:05.123'"), (0, "TIME'00:00:00'")]),
    _count("int32", T + "Time", "TIME(6)", [(11045000, "TIME'03:04:05'")]),
    _count("int64", T + "MicroTime", "TIME(6)", [(11045123456, "TIME'03:04:05.123456'"), (86399999999, "TIME'23:59:59.999999'")]),
    _count("int64", T + "NanoTime", "TIME(6)", [(11045123456789, "TIME'03:04:05.123456'")]),
    _count("int64", T + "MicroDuration", "INTERVAL DAY TO SECOND", [(93784500000, "INTERVAL '1 02:03:04.5' DAY TO SECOND"), (-1000000, "INTERVAL '-0 00:00:01' DAY TO SECOND")]),
    _count("int64", T + "NanoDuration", "INTERVAL DAY TO SECOND", [(93784500000000, "INTERVAL '1 02:03:04.5' DAY TO SECOND")]),
    _zoned(T + "ZonedTimestamp"),
    _zoned(T + "IsoTimestamp"),
    Source(
        {"type": "string", "optional": True, "name": T + "IsoDate", "version": 1},
        [Sample("2017-09-15Z", "'2017-09-15Z'"), Sample("2017-09-15", "'2017-09-15'"), Sample("2017-09-15+02:00", "'2017-09-15+02:00'")],
        {name: ("DATE", ["DATE'2017-09-15'"] * 3) for name in (*MOMENTS, "DATE")}, "STRING",
    ),
]  # fmt: skip
"""Wrong forms of each are in test_connect.py."""


class Case(NamedTuple):
    source: Source
    declared: str
    expected: list[str | None]
    """A text for each sample (None: malformed)."""


def cases(spark: SparkSession) -> Iterator[Case]:
    """Spark's answer to every pair, in few jobs."""
    pairs = [(source, name) for source in SOURCES for name in DECLARED]
    asked = {(id(source), name): _casts(spark, source, name) for source, name in pairs}
    unique = list(dict.fromkeys(text for texts in asked.values() for text in texts))
    answers: dict[str, str | None] = {}
    for start in range(0, len(unique), 400):
        part = unique[start : start + 400]
        row = spark.sql("SELECT " + ", ".join(f"{text} AS c{i}" for i, text in enumerate(part))).toArrow()
        answers |= {text: _text(row.column(i).combine_chunks()) for i, text in enumerate(part)}
    for source, name in pairs:
        texts = asked[id(source), name]
        yield Case(source, name, [answers[text] for text in texts] if texts else [None] * len(source.samples))


def _casts(spark: SparkSession, source: Source, name: str) -> list[str]:
    """None if Spark has no cast between the two types."""
    type_, literals = source.also.get(name, (source.spark, [sample.literal or "NULL" for sample in source.samples]))
    jvm: Any = spark._jvm
    from_ddl = jvm.org.apache.spark.sql.types.DataType.fromDDL
    if not literals or not jvm.org.apache.spark.sql.catalyst.expressions.Cast.canTryCast(
        from_ddl(type_), from_ddl(name)
    ):
        return []
    return [f"try_cast({literal} AS {name})" for literal in literals]


def _text(column: pa.Array) -> str | None:
    return comparable(column)[0] if column.null_count == 0 else None


def comparable(column: pa.Array) -> list[str]:
    """Counts for times, because Python's own have no year before the first."""
    if pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return [repr(value) for value in column.to_pylist()]


class Depth(NamedTuple):
    """Where a value stands. `inner` finds it in the column."""

    name: str
    schema: Any
    json: Any
    kind: Any
    inner: Any
    path: str


def _record(schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "struct",
        "optional": True,
        "name": "r",
        "fields": [{"type": "int32", "optional": True, "field": "n"}, schema | {"field": "v"}],
    }


def _list_type(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", kind))


def _record_type(kind: pa.DataType) -> pa.DataType:
    return pa.struct([pa.field("n", pa.int32()), pa.field("v", kind)])


DEPTHS = [
    Depth("top", lambda s: s, lambda v: v, lambda k: k, lambda c: c, "c"),
    Depth("array", lambda s: {"type": "array", "optional": True, "items": s}, lambda v: [None, v], _list_type,
        lambda c: c.flatten().take(pa.array(range(1, 2 * len(c), 2), pa.int64())), "c[]"),
    Depth("struct", _record, lambda v: {"n": 1, "v": v}, _record_type, lambda c: c.field("v"), "c.v"),
    Depth("map", lambda s: {"type": "map", "optional": True, "keys": {"type": "string"}, "values": s}, lambda v: {"k": v},
        lambda k: pa.map_(pa.string(), k), lambda c: c.items, "c[]"),
    Depth("array of structs", lambda s: {"type": "array", "optional": True, "items": _record(s)}, lambda v: [{"n": 1, "v": v}],
        lambda k: _list_type(_record_type(k)), lambda c: c.flatten().field("v"), "c[].v"),
    Depth("struct of array", lambda s: _record({"type": "array", "optional": True, "items": s}), lambda v: {"v": [v]},
        lambda k: _record_type(_list_type(k)), lambda c: c.field("v").flatten(), "c.v[]"),
]  # fmt: skip


def wrapped(schema: dict[str, Any] | None, payload: Any) -> bytes:
    """As JsonConverter writes it."""
    return wrapped_in(text(schema), payload)


def wrapped_in(schema: str, payload: Any) -> bytes:
    return f'{{"schema":{schema},"payload":{text(payload)}}}'.encode()


def text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def row_schema(**fields: dict[str, Any]) -> dict[str, Any]:
    members = [schema | {"field": name} for name, schema in fields.items()]
    return {"type": "struct", "optional": True, "name": "server.t.Value", "fields": members}
