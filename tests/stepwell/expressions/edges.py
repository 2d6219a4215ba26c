# ruff: noqa: E501 (tables of cases read better in long lines)
"""One table of values at which engines differ; each row mixes its columns' values in another way."""

from __future__ import annotations

import datetime
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa

MIXED_ROWS = 71
"""It is prime, and more than any column has values: each column is walked through with a stride of its own. All begin with null, so two columns
of equally many values are never null in different rows of these."""

_NAN, _INF = float("nan"), float("inf")
_DAY_US = 86_400_000_000


def _us(text: str) -> int:
    return (datetime.datetime.fromisoformat(text) - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)


def _days(text: str) -> int:
    return _us(text) // _DAY_US


def _integers(bits: int) -> list[int | None]:
    top = 1 << (bits - 1)
    return [None, 0, 1, -1, 2, -2, 3, 7, -7, 10, 31, 33, 100, -100, top - 1, -top, top - 2, 5, 12, 4]


_DOUBLES = [
    None, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.1, 1e-3, 1e-4, 123456.789, 1e7, 9999999.0, 12345678.9, 1e16, 1e300, -1e300,
    5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, _NAN, _INF, -_INF, 2147483647.0, 2147483648.0, -2147483649.0,
    9.223372036854776e18, 2.675, 1.005, 3.0, 10.0, 0.25, 1e-10, 123.456, -7.0, 1e22, 4.35,
]  # fmt: skip
_FLOATS = [
    None, 0.0, -0.0, 1.0, -1.5, 0.1, 3.4028234663852886e38, 1.401298464324817e-45, _NAN, _INF, -_INF, 16777217.0, 1e10, 0.001, 2.5,
    -2.5, 33.333, 1e-5, 1.17549435e-38,
]  # fmt: skip
_STRINGS = [
    None, "", " ", "a", "A", "abc", "abcabc", "Hello World", "hELLO wORLD foo", "  padded  ", "\t tab\n", "ß", "straße", "ÀÉÎ", "é",
    "e\u0301", "日本語", "😀", "a😀b", "😀😀", "a%b", "a_b", "100%", "a\\b", "a.b.c", ".", "..", "a,b,,c", "12", "-12", " 12 ", "12.5", "1e3", "abc123def456",
    "2020-01-31", "2020-02-29 12:34:56.789", "true", "NaN", "line1\nline2", "a\r\nb", "\x00", "o'clock", "İstanbul", "ΟΔΥΣΣΕΥΣ", "aaa",
]  # fmt: skip
_NUMBERS = [
    None, "", " ", "0", "1", "-1", "+5", " 12 ", "\t7\n", "12.5", "-0", "127", "128", "-128", "32768", "2147483647", "2147483648", "-2147483648",
    "9223372036854775807", "9223372036854775808", "1e3", "1E3", "1.5e-3", "1e400", "abc", "0x10", "1_000", "1,000", "NaN", "nan", "Infinity", "-inf",
    "+Infinity", "1d", "1.0f", ".5", "5.", ".", "-", "1e", "--1", "t", "TRUE", "false", "yes", "N", "0.1", "99999999.99", "123456789012345678901234567890",
    "0.000000000000000000000000000001", "１２",
]  # fmt: skip
_MOMENTS = [
    None, "", "2020-01-01", "2020-1-1", "2020", "2020-02", "2020-02-30", "2019-02-29", "2020-02-29", " 2020-01-01 ", "2020-01-01T", "2020-01-01 ",
    "2020-01-01 01:02:03", "2020-01-01T01:02:03.123456", "2020-01-01 1:2:3", "2020-01-01 01:02", "2020-01-01 01:02:03.1234567", "2020-01-01 01:02:03Z",
    "2020-01-01 01:02:03+02:00", "2020-01-01 01:02:03 UTC", "2020-01-01 24:00:00", "2020-01-01 23:59:60", "0001-01-01", "9999-12-31", "12345-01-01",
    "-0001-01-01", "20200101", "01/02/2020", "1969-12-31 23:59:59.999999", "2020-13-01", "abc", "2020-01-01abc", "2020-01-01 abc", 
    "2020-06-15T12:00:00-08:00", "2020-01-01 01:02:03.5+0530", "+2020-01-01", "2020-01-01 01:02:03.", "2020-12-31",
]  # fmt: skip
_DATES = [
    None, "1970-01-01", "1969-12-31", "2020-02-29", "2019-02-28", "2020-01-31", "2021-03-31", "0001-01-01", "9999-12-31", "1582-10-04", "1582-10-15",
    "2000-02-29", "1900-02-28", "2020-12-31", "2021-01-01", "2021-01-03", "2021-01-04", "2024-06-15", "2016-01-01", "1968-02-29", "2023-11-30", "2018-12-30",
]  # fmt: skip
_TIMESTAMPS = [
    None, "1970-01-01 00:00:00", "1969-12-31 23:59:59.999999", "1969-07-20 20:17:40.5", "2020-02-29 12:34:56.789012", "2020-01-31 23:59:59.999999",
    "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "2021-01-01 00:00:00.000001", "2024-06-15 01:02:03.1", "1900-01-01 00:00:00",
    "1582-10-15 00:00:00", "2021-03-28 02:30:00", "2020-12-31 00:10:00", "1999-12-31 11:59:59", "2000-01-01 00:00:00.12", "2022-05-16 13:05:07",
    "1960-02-29 06:00:00.000001", "2020-11-09 10:00:00",
]  # fmt: skip
_DURATIONS = [
    None,
    0,
    1,
    -1,
    1_000_000,
    -1_500_000,
    3_600_000_000,
    _DAY_US,
    -_DAY_US,
    93_784_123_456,
    -93_784_123_456,
    400 * _DAY_US,
    (1 << 63) - 1,
    -(1 << 63),
    60_000_000,
]
_DEC_10_2 = [
    None,
    "0.00",
    "0.01",
    "-0.01",
    "1.00",
    "-1.00",
    "0.50",
    "1.50",
    "2.50",
    "-2.50",
    "0.05",
    "0.15",
    "12345678.99",
    "-99999999.99",
    "99999999.99",
    "3.00",
    "7.25",
    "100.00",
    "33.33",
    "0.99",
]
_DEC_38_10 = [
    None,
    "1234567890123456789012345678.1234567891",
    "-8765432109876543210987654321.9876543219",
    "0",
    "1",
    "-1",
    "0.0000000001",
    "-0.0000000001",
    "9999999999999999999999999999.9999999999",
    "-9999999999999999999999999999.9999999999",
    "123456789.987654321",
    "0.5",
    "2.5",
    "3",
    "7.7777777777",
    "1000000000000",
    "0.3333333333",
]
_DEC_38_0 = [
    None,
    "12345678901234567890123456789012345678",
    "0",
    "1",
    "-1",
    "99999999999999999999999999999999999999",
    "-99999999999999999999999999999999999999",
    "12345678901234567890",
    "2",
    "7",
    "10",
]
_DEC_5_5 = [None, "0.00000", "0.99999", "-0.99999", "0.00001", "0.50000", "0.12345", "0.55555"]  # fmt: skip


def _decimals(values: list[str | None]) -> list[Decimal | None]:
    return [None if value is None else Decimal(value) for value in values]


def _single(value: float | None) -> float | None:
    return None if value is None else float(struct.unpack("f", struct.pack("f", value))[0])


_ARRAYS: list[list[Any] | None] = [
    None,
    [],
    [None],
    [1],
    [1, 2, 3],
    [3, None, 1],
    [-1, 0, 2147483647],
    [5, 5, 5],
    [None, None],
]
_TEXTS: list[list[Any] | None] = [None, [], [None], ["a"], ["a", None, "b"], ["", "x"], ["😀", "日本"]]
_STRUCTS: list[dict[str, Any] | None] = [
    None,
    {"a": None, "b": None},
    {"a": 1, "b": "x"},
    {"a": -5, "b": ""},
    {"a": 2, "b": "y"},
    {"a": 1, "b": "X"},
]
_JSON = [
    None, "", " ", "null", "{}", '{"a":1}', '{"a":1} x', '{"a":"x","b":2}', "[1]", '[{"a":1},{"a":"x","b":null}]', "abc",
    '{"a":1', '{"a":1,"b":tru}', '{"b":"\\q","a":1}',
    '{"a":1,"c":{"d":tru}}', '{"a":1,"c":{"d":1', '{"c":{"d":"x","e":2},"a":1}', '{"l":[1,"x",3],"a":1}', '{"l":[1,{"a":7},[1]],"a":1}', '{"l":[1,2,,],"a":1}', '{"a":1,"l":[1,2,x]}',
    '{"ls":[{"d":1},{"d":"x","e":3},4],"a":1}', '{"ls":[{"d":1},{"d":"x","e":3}],"a":1}', '{"a":"","b":"","dt":"","ts":"","d":""}', '{"b":{"x":[1.50,2,"é\\n"]}}', '{"a":1,"a":"x"}',
    '{"a":"x","a":2}', '{"A":1}', '{"a":1}{"a":2}', '{"c":{"d":1,},"a":1}', '{"c":{"d":1 "e":2},"a":1}', '{"l":[1 2],"a":1}', '{"l":[1,tru],"a":1}', '{"c":null,"l":null,"ls":[null]}',
    '{"ts":"2020-01-01T01:02:03Z","dt":"2020-01-01","o":true,"d":1.5e3,"m":"1.234","x":"YWI="}', '{"ts":5,"dt":"x","o":"true","d":"NaN","m":1e9,"x":"?"}', '{"a":1.0,"d":1e400}', '{"a":99999999999,"b":1e3}',
    '{"b":"x', "{'a':1,'b':'it''s'}", '{"b":"\\u00e9\\ud83d\\ude00\\/","a":-0}', '[1,null,2]', '[null]', '[]', '["x",1.50]', '[[1],[2,"x"]]', '[[1,2],[3]]', '[1,2', '[1] x', '"x"', "5", "-", "NaN",
    '{"a": 1, "b" : "y" , " a ":3}', '{"x":{"y":[[1,2],{"z":null}]},"b":null}', '{"l":[[1,2],["a",null]]}', '{"a":01}', '{"a":1.}', '{"l":[01],"a":1}', '{"l":[1.,2],"a":1}', '{"l":[-],"a":1}', '{"l":["\\q"],"a":1}',
    '{"c":{"d":1,"d":"x","e":5},"a":1}', '{"c":{d:1},"a":1}', '{"c":{"d" 1},"a":1}', '{"c":[1],"l":{"a":1},"a":2}',
]  # fmt: skip

_MAPS: list[list[tuple[str, Any]] | None] = [
    None,
    [],
    [("a", 1)],
    [("a", 1), ("b", None)],
    [("b", 2), ("a", 0)],
    [("", 5), ("é", -1), ("zz", 3)],
]

# name -> Arrow type, values, stride. Two columns of one type have different strides, so that they meet in other pairs.
COLUMNS: dict[str, tuple[pa.DataType, list[Any], int]] = {
    "b": (pa.int8(), _integers(8), 1), "b2": (pa.int8(), _integers(8), 7),
    "sh": (pa.int16(), _integers(16), 1), "sh2": (pa.int16(), _integers(16), 3),
    "i": (pa.int32(), _integers(32), 1), "j": (pa.int32(), _integers(32), 3), "k": (pa.int32(), [None, 0, 1, 2, 3, 5, -1, -2, -3, 4, 7, 12, -12, 40, 1000, -40], 1),
    "l": (pa.int64(), _integers(64), 1), "l2": (pa.int64(), _integers(64), 7),
    "n": (pa.int64(), [None, 0, 1, -1, 86400, 1577836800, -62135596800, 253402300799, 1234567890, -86401, 951782400], 1),
    "f": (pa.float32(), [_single(v) for v in _FLOATS], 1), "f2": (pa.float32(), [_single(v) for v in _FLOATS], 5),
    "d": (pa.float64(), _DOUBLES, 1), "e": (pa.float64(), _DOUBLES, 7),
    "m": (pa.decimal128(10, 2), _decimals(_DEC_10_2), 1), "m2": (pa.decimal128(10, 2), _decimals(_DEC_10_2), 3),
    "w": (pa.decimal128(38, 10), _decimals(_DEC_38_10), 1), "w2": (pa.decimal128(38, 10), _decimals(_DEC_38_10), 2),
    "h": (pa.decimal128(38, 0), _decimals(_DEC_38_0), 1), "q": (pa.decimal128(5, 5), _decimals(_DEC_5_5), 1),
    "s": (pa.string(), _STRINGS, 1), "u": (pa.string(), [None, "", "a", "b", "A", "abc", "😀", " ", ".", "%", "l", "日", "ß", "x", "aa"], 4),
    "num": (pa.string(), _NUMBERS, 1), "mom": (pa.string(), _MOMENTS, 1),
    "x": (pa.binary(), [None, b"", b"\x00", b"abc", b"\xff\xfe", b"a\x00b", "é😀".encode()], 1), "x2": (pa.binary(), [None, b"", b"\x00", b"abc", b"b"], 2),
    "o": (pa.bool_(), [None, True, False], 1), "p": (pa.bool_(), [True, None, None, False, False, True, True, None, False], 4),
    "dt": (pa.date32(), [None if v is None else _days(v) for v in _DATES], 1), "dt2": (pa.date32(), [None if v is None else _days(v) for v in _DATES], 5),
    "ts": (pa.timestamp("us", "UTC"), [None if v is None else _us(v) for v in _TIMESTAMPS], 1),
    "ts2": (pa.timestamp("us", "UTC"), [None if v is None else _us(v) for v in _TIMESTAMPS], 4),
    "nt": (pa.timestamp("us"), [None if v is None else _us(v) for v in _TIMESTAMPS], 1),
    "iv": (pa.duration("us"), _DURATIONS, 1), "iv2": (pa.duration("us"), _DURATIONS, 4),
    "arr": (pa.list_(pa.field("element", pa.int32())), _ARRAYS, 1), "arrs": (pa.list_(pa.field("element", pa.string())), _TEXTS, 1),
    "js": (pa.string(), _JSON, 1),
    "mp": (pa.map_(pa.string(), pa.int32()), _MAPS, 1),
    "st": (pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string())]), _STRUCTS, 1),
}  # fmt: skip


# The types that Spark would not infer from Arrow's are named too, so all are.
DDL = (
    "b tinyint, b2 tinyint, sh smallint, sh2 smallint, i int, j int, k int, l bigint, l2 bigint, n bigint, f float, f2 float, d double, e double, "
    "m decimal(10,2), m2 decimal(10,2), w decimal(38,10), w2 decimal(38,10), h decimal(38,0), q decimal(5,5), s string, u string, num string, mom string, "
    "x binary, x2 binary, o boolean, p boolean, dt date, dt2 date, ts timestamp, ts2 timestamp, nt timestamp_ntz, iv interval day to second, "
    "iv2 interval day to second, arr array<int>, arrs array<string>, js string, mp map<string, int>, st struct<a: int, b: string>"
)


def edge_table() -> pa.Table:
    """First rows that mix the values, then those with one-sided nulls, and last one in which all columns are null."""
    one_sided = len(COLUMNS).bit_length()
    columns = {}
    for place, (name, (type_, values, stride)) in enumerate(COLUMNS.items()):
        picked = [values[(row * stride) % len(values)] for row in range(MIXED_ROWS)]
        picked += [value for bit in range(one_sided) for value in _one_sided(values, place >> bit & 1)] + [None]
        raw = {pa.date32(): pa.int32()}.get(type_, type_)
        raw = pa.int64() if pa.types.is_timestamp(type_) or pa.types.is_duration(type_) else raw
        columns[name] = pa.array(picked, raw).cast(type_)
    return pa.table(columns)


def _one_sided(values: list[Any], bit: int) -> list[Any]:
    """A column in two rows that belong to one bit of the columns' places. It is null in one of them, and has its first other value, which is
    zero or empty for most, in the other one. Any two columns differ in a bit, so each is null where the other one is not."""
    first = next(value for value in values if value is not None)
    return [None, first] if bit else [first, None]
