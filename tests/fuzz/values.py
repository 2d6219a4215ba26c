"""The values of a project's tables, and how a message, SQL and Arrow write them.

A value is what Arrow takes: a date is its days since 1970, a moment its microseconds, an interval its months. An array is a tuple, a struct
too, so that rows can be counted. `edges.py` has the values at which engines differ; `TAME` has those of which sums are exact and few
expressions fail.

A column of a source may be declared as CHAR(n) or VARCHAR(n). Queries see a STRING, and the value of a message is not the one that the table
has: see `stored`.
"""

from __future__ import annotations

import base64
import datetime
import json
import random
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa

from base.text.months import MONTH, YEAR, YEAR_TO_MONTH, is_months
from tests.stepwell.expressions import edges

Value = Any
Row = tuple[Value, ...]

DDL: dict[str, pa.DataType] = {
    "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "decimal(10,2)": pa.decimal128(10, 2), "decimal(38,10)": pa.decimal128(38, 10), "decimal(38,0)": pa.decimal128(38, 0),
    "decimal(5,5)": pa.decimal128(5, 5), "string": pa.string(), "binary": pa.binary(), "boolean": pa.bool_(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"), "array<int>": pa.list_(pa.field("element", pa.int32())),
    "array<string>": pa.list_(pa.field("element", pa.string())),
    "struct<a:int,b:string>": pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string())]),
    "interval year to month": YEAR_TO_MONTH, "interval month": MONTH, "interval year": YEAR,
}  # fmt: skip
"""The types of columns of sources, as queries see them, by Spark's name."""

DECLARED = ("char(2)", "char(4)", "varchar(3)", "array<char(2)>", "struct<a:int,b:varchar(2)>")
"""The types of such columns that queries see as others."""

INTEGERS = ("tinyint", "smallint", "int", "bigint")
FLOATS = ("float", "double")
INTERVALS = ("interval year to month", "interval month", "interval year")
KEYS = (
    "bigint",
    "string",
    "int",
    "date",
    "decimal(10,2)",
    "boolean",
    "timestamp",
    "char(2)",
    "varchar(3)",
    "interval month",
)
"""Types of keys of keyed sources: a float in a key is a bad idea in Spark too."""

_DAY_US = 86_400_000_000
_NAN = float("nan")
TAME: dict[str, list[Value]] = {
    **{type_: [0, 1, 2, 3, 5, -1] for type_ in INTEGERS},
    "float": [0.0, -0.0, 1.5, -2.25, 4.0, float("inf"), _NAN], "double": [0.0, -0.0, 1.5, -2.25, 4.0, 1024.125, float("inf"), _NAN],
    "decimal(10,2)": [Decimal(v) for v in ("0.00", "1.50", "-2.25", "10.00", "0.01")],
    "decimal(38,10)": [Decimal(v) for v in ("0", "1.5000000000", "-0.0000000001", "1234567890.1234567891")],
    "decimal(38,0)": [Decimal(v) for v in ("0", "1", "-7", "12345678901234567890")],
    "decimal(5,5)": [Decimal(v) for v in ("0.00000", "0.99999", "-0.50000")],
    "string": ["", "a", "b", "ab", "é", "10"], "binary": [b"", b"a", b"\x00\xff"], "boolean": [True, False],
    "date": [0, 1, 18321, 18322], "timestamp": [0, 1, 1_600_000_000_000_000, 18321 * _DAY_US + 3_600_000_000],
    "timestamp_ntz": [0, -1, 1_600_000_000_000_000, 18321 * _DAY_US],
    "array<int>": [(), (1,), (1, None, 3), (2, 1)], "array<string>": [(), ("a",), ("a", None)],
    "struct<a:int,b:string>": [(1, "a"), (None, "b"), (1, None), (2, "a")],
    "interval year to month": [0, 1, 14, -13, 24], "interval month": [0, 1, 14, -13, 24], "interval year": [0, 12, -24, 120],
    "char(2)": ["", "a", "a ", "b", "ab", "é ", "a    "], "char(4)": ["", "a", "a   ", "b", "ab", "abcd", "abcd  "],
    "varchar(3)": ["", "a", "a ", "ab", "ab  ", "b", "éa"], "array<char(2)>": [(), ("a",), ("a ", None), ("ab   ",)],
    "struct<a:int,b:varchar(2)>": [(1, "a"), (None, "b"), (1, None), (1, "a   ")],
}  # fmt: skip
_MONTHS_EDGES = [(1 << 31) - 1, -(1 << 31), 0, 11, -1, 2_000_000_000]


def _edge_values() -> dict[str, list[Value]]:
    by_type: dict[pa.DataType, list[Value]] = {}
    for type_, values, _ in edges.COLUMNS.values():
        by_type.setdefault(type_, []).extend(_hashable(v) for v in values if v is not None)
    months = dict.fromkeys(("interval year to month", "interval month"), _MONTHS_EDGES)
    months["interval year"] = [value - value % 12 for value in _MONTHS_EDGES if value > -(1 << 31)]
    declared = {name: [*TAME[name], "😀"] if name[-1] == ")" else TAME[name] for name in DECLARED}
    return {**{name: by_type[type_] for name, type_ in DDL.items() if not is_months(type_)}, **months, **declared}


def _hashable(value: Value) -> Value:
    if isinstance(value, list):
        return tuple(value)
    return tuple(value.values()) if isinstance(value, dict) else value


EDGES = _edge_values()
POOL_MAX = 4
"""Few values a type, so that keys meet."""


def pool(chance: random.Random, type_: str, wild: bool) -> list[Value]:
    """The values of all columns of a type in one project, without null, as messages have them."""
    known = EDGES[type_] if wild and chance.random() < 0.7 else TAME[type_]
    chosen = chance.sample(known, min(len(known), chance.randint(2, POOL_MAX)))
    both = [v for v in TAME[type_] if v == 0 and isinstance(v, float)]
    return chosen + (both if chance.random() < 0.5 else [])


# As declared


def seen(kind: str) -> str:
    """The type that queries see of a column that is declared so."""
    return re.sub(r"(var)?char\(\d+\)", "string", kind)


def stored(value: Value, kind: str) -> Value:
    """The value that a table has in a column of this declared type, if a message has `value`: CHAR is padded, and of what is too long only
    blanks are lost."""
    if value is None or "char(" not in kind:
        return value
    if kind.startswith("array<"):
        return tuple(stored(inner, kind[len("array<") : -1]) for inner in value)
    if kind.startswith("struct<"):
        kinds = [field.split(":")[1] for field in kind[len("struct<") : -1].split(",")]
        return tuple(stored(inner, of) for inner, of in zip(value, kinds, strict=True))
    length = int(kind[kind.index("(") + 1 : -1])
    text = str(value)
    while len(text) > length and text.endswith(" "):
        text = text[:-1]
    return text.ljust(length) if kind.startswith("char") else text


def is_comparable(type_: str) -> bool:
    return "map<" not in type_


def has_floats(type_: str) -> bool:
    return "float" in type_ or "double" in type_


# As JSON


def json_of(value: Value, type_: pa.DataType) -> str:
    """As a producer of messages writes it. Two values have one text if and only if they are the same, NaN included."""
    if value is None:
        return "null"
    if pa.types.is_struct(type_):
        parts = (f"{json.dumps(f.name)}: {json_of(v, f.type)}" for f, v in zip(type_, value, strict=True))
        return "{" + ", ".join(parts) + "}"
    if pa.types.is_list(type_):
        return "[" + ", ".join(json_of(v, type_.value_type) for v in value) + "]"
    if pa.types.is_floating(type_):
        return _float(value)
    if pa.types.is_decimal(type_):
        return f"{value:f}"
    if pa.types.is_binary(type_):
        return json.dumps(base64.b64encode(value).decode())
    if is_months(type_):
        return json.dumps(_months(value, type_))
    if pa.types.is_date(type_):
        return json.dumps(_date(value))
    if pa.types.is_timestamp(type_):
        return json.dumps(_moment(value).replace(" ", "T") + ("Z" if type_.tz else ""))
    return json.dumps(value)


def _float(value: float) -> str:
    if value != value:
        return '"NaN"'
    if value in (float("inf"), -float("inf")):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    return repr(value)


def _months(months: int, type_: pa.DataType) -> str:
    if type_ == MONTH:
        return f"INTERVAL '{months}' MONTH"
    years, rest = divmod(abs(months), 12)
    sign = "-" if months < 0 else ""
    return f"INTERVAL '{sign}{years}' YEAR" if type_ == YEAR else f"INTERVAL '{sign}{years}-{rest}' YEAR TO MONTH"


def _date(days: int) -> str:
    return (datetime.date(1970, 1, 1) + datetime.timedelta(days)).isoformat()


def _moment(us: int) -> str:
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=us)
    return f"{moment.date().isoformat()} {moment.time().isoformat('microseconds')}"


# As SQL


def literal(value: Value, type_: str) -> str:
    """An expression of this type; no braces, which have a meaning in Expr."""
    arrow = DDL[type_]
    if value is None:
        return f"CAST(NULL AS {type_})"
    if type_.startswith("struct"):
        return f"named_struct('a', {literal(value[0], 'int')}, 'b', {literal(value[1], 'string')})"
    if pa.types.is_list(arrow):
        inner = type_[len("array<") : -1]
        return f"CAST(array({', '.join(literal(v, inner) for v in value)}) AS {type_})"
    if pa.types.is_string(arrow):
        return "'" + "".join(_character(c) for c in value) + "'"
    if pa.types.is_binary(arrow):
        return f"X'{value.hex()}'"
    if pa.types.is_boolean(arrow):
        return "true" if value else "false"
    if is_months(arrow):
        return _months(value, arrow)
    if pa.types.is_date(arrow):
        return f"DATE'{_date(value)}'"
    if pa.types.is_timestamp(arrow):
        return f"{'TIMESTAMP' if arrow.tz else 'TIMESTAMP_NTZ'}'{_moment(value)}'"
    if pa.types.is_floating(arrow):
        return f"CAST('{_float(value).strip(chr(34))}' AS {type_})"
    return f"CAST('{value:f}' AS {type_})" if pa.types.is_decimal(arrow) else f"CAST('{value}' AS {type_})"


def _character(c: str) -> str:
    return c if c.isalnum() or c in " .,-:_%" else f"\\U{ord(c):08X}"


# As Arrow


def arrow_column(values: list[Value], type_: pa.DataType) -> pa.Array:
    """Of months it is the numbers, which PySpark takes: it has no Arrow type for such intervals."""
    if is_months(type_):
        return pa.array(values, pa.int32())
    if pa.types.is_struct(type_):
        names = [f.name for f in type_]
        return pa.array([None if v is None else dict(zip(names, v, strict=True)) for v in values], type_)
    if pa.types.is_date(type_):
        return pa.array(values, pa.int32()).cast(type_)
    if pa.types.is_timestamp(type_):
        return pa.array(values, pa.int64()).cast(type_)
    return pa.array(values, type_)
