"""The extension that reads usual messages: what it accepts means the same to the exact reader, and it accepts what is usual."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from io_kafka.formats import native_json
from io_kafka.formats import parse as module
from io_kafka.formats.native_json import DEPTH_MAX, KINDS, read_usual
from io_kafka.formats.parse import parse, parse_slowly
from io_kafka.native_switch import SWITCH

pytestmark = pytest.mark.skipif(native_json.why_not() is not None, reason=str(native_json.why_not()))

MONEY, SMALL, WHOLE, WIDE = pa.decimal128(10, 2), pa.decimal128(2, 2), pa.decimal128(18, 0), pa.decimal128(38, 18)
DECIMALS = {MONEY: "money", SMALL: "small", WHOLE: "whole", WIDE: "wide"}
FLAT = [*(pa.field(f"k{kind}", type_) for type_, kind in KINDS.items()), *(pa.field(n, t) for t, n in DECIMALS.items())]
DEEPER = pa.struct([pa.field("kq", pa.int64()), pa.field("ks", pa.string()), pa.field("money", MONEY)])
INNER = pa.struct([*FLAT, pa.field("deeper", DEEPER)])
LIST, MAP = pa.list_(pa.field("element", pa.string())), pa.map_(pa.string(), DEEPER)
ROWS = pa.list_(pa.field("element", pa.struct([*FLAT, pa.field("list", LIST), pa.field("map", MAP)])))
NESTED = {INNER: "inner", LIST: "list", MAP: "map", ROWS: "rows"}
EVERY_KIND = pa.schema([*FLAT, *(pa.field(name, type_) for type_, name in NESTED.items()), pa.field("second", INNER)])
NAMES = {type_: f"k{kind}" for type_, kind in KINDS.items()} | DECIMALS | NESTED


def array(messages: Sequence[bytes | None]) -> pa.Array:
    return pa.array(messages, pa.binary())


def accepted(messages: Sequence[bytes | None], schema: pa.Schema) -> list[bool]:
    """Which messages the extension takes. Each has the row that the exact reader gives, bit for bit."""
    read = read_usual(array(messages), schema)
    assert read is not None
    rows, declined = read
    assert _is_valid(rows)
    taken = np.flatnonzero(~declined)
    slowly = parse_slowly(array([messages[i] for i in taken]), schema)
    assert slowly.faults == []
    assert texts(rows.take(pa.array(taken))) == texts(slowly.rows)
    assert all(column.null_count == np.count_nonzero(declined) for column in rows.filter(pa.array(declined)).columns)
    return [bool(not each) for each in declined]


def _is_valid(rows: pa.RecordBatch) -> bool:
    try:
        rows.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def texts(rows: pa.RecordBatch) -> list[list[str]]:
    """Also the signs of zeros count. Times are compared as counts, for Python's own know no year before the first."""
    counts = {pa.date32(): pa.int32(), pa.timestamp("us"): pa.int64(), pa.timestamp("us", "UTC"): pa.int64()}
    columns = [column.cast(counts.get(column.type, column.type)) for column in _leaves(rows.columns)]
    return [[repr(value) for value in column.to_pylist()] for column in columns]


def _leaves(columns: Sequence[pa.Array]) -> list[pa.Array]:
    """The columns without what is nested: for each struct where it is null, and then its own columns; for each list its length, and then its
    elements; for each map its text."""
    leaves = []
    for column in columns:
        if pa.types.is_struct(column.type):
            leaves += [column.is_null(), *_leaves(column.flatten())]
        elif pa.types.is_map(column.type):
            leaves.append(pa.array([repr(each) for each in column.to_pylist()]))
        elif pa.types.is_list(column.type):
            leaves += [pc.list_value_length(column), *_leaves([column.flatten()])]
        else:
            leaves.append(column)
    return leaves


def _many(entries: int) -> str:
    return json.dumps({f"n{number}": None for number in range(entries)})


def one(text: str | bytes, kind: pa.DataType) -> bool:
    """Whether a value of this text is accepted."""
    value = text.encode() if isinstance(text, str) else text
    return accepted([b'{"' + NAMES[kind].encode() + b'":' + value + b"}"], EVERY_KIND)[0]


@pytest.mark.parametrize(
    ("kind", "usual_texts", "others"),
    [
        (pa.int8(), ["0", "-0", "127", "-128", "null"], ["128", "255", "-129", "1.0", "1e0", '"1"', "true", "01", "+1", "", "-", "{}"]),
        (pa.int16(), ["32767", "-32768"], ["32768", "-32769"]),
        (pa.int32(), ["2147483647", "-2147483648"], ["2147483648", "-2147483649"]),
        (
            pa.int64(),
            ["9223372036854775807", "-9223372036854775808", "-0", "1000000000000000000"],
            ["9223372036854775808", "-9223372036854775809", "18446744073709551616", "99999999999999999999", "1_0", "0x1", "1 2"],
        ),
        (
            pa.float32(),
            ["0", "-0", "-0.0", "0.1", "16777217", "1e38", "1e39", "-1e-50", "1.1754943508222875e-38", "8388608.5000000001",
             "0.30000001192092896"],
            ["NaN", '"Infinity"', "1.", ".5", '"1"', "[]"],
        ),
        (
            pa.float64(),
            ["0", "-0", "-0.0", "0.1", "1e22", "1e23", "123456789012345678901234567890", "4.9e-324", "2.2250738585072011e-308", "1e999", "-1E+5",
             "1e-9999", "9007199254740993", "0.30000000000000004", "100", "0.000001"],
            ["NaN", '"NaN"', "Infinity", "-Inf", "1.", ".5", "1e", "1e+", "00.1", "1" * 65, "0x1p3"],
        ),
        (pa.bool_(), ["true", "false", "null"], ["True", "1", '"true"', "tru", "truee", "nul"]),
        (
            pa.string(),
            ['""', '"a"', '"ä€😀"', r'"\"\\\/\b\f\n\r\t"', '"\x7f"', '"12345678"', '"1234567\\n89"', r'"\u00e4\u00E4"', r'"\u0000\u007f\u0080"',
             r'"\u07ff\u0800\uffff"', r'"\ud83d\ude00\uD83D\uDE00 \udbff\udfff"', r'"12345\u0041"'],
            [r'"\ud83d"', r'"\ud83dx"', r'"\ud83d\u0041"', r'"\ude00"', r'"\ud83d\ud83d"', r'"\u12"', r'"\u12g4"', '"' + chr(92) + 'u123',
             r'"\x"', r'"\'"', '"a', '"\n"', '"\x00"', "'a'", "1", "{}", "[]", '"a"b'],
        ),
        (
            pa.binary(),
            ['""', '"AA=="', '"AAA="', '"AAAA"', '"+/8="', '"AAAAAA=="', '"AB=="', "null"],
            ['"A"', '"AA"', '"AAA"', '"AAAAA"', '"===="', '"A==="', '"AA==AAAA"', '"AA=A"', '"-_8="', '"AAAA\\n"', '" AAAA"',
             '"\\u0041AAA"', "1"],
        ),
        (
            pa.date32(),
            ['"2024-02-29"', '"1970-01-01"', '"0001-01-01"', '"9999-12-31"', '"1900-03-01"', '"2020-01-01T"', '"2020-01-01 any"'],
            ['"2023-02-29"', '"1900-02-29"', '"0000-01-01"', '"2020-1-1"', '"2020-13-01"', '"2020-00-10"', '"2020-01-00"', '"2020-01-01x"', "1",
             r'"2020-01-01T\n"', '"2020-01-32"', '"+2020-01-01"', '"12020-01-01"'],
        ),
        (
            pa.timestamp("us"),
            ['"2020-01-01"', '"2020-01-01T00:00:00"', '"2020-01-01 23:59:59.123456789"', '"1969-12-31T23:59:59.9"', '"0001-01-01 00:00:00"'],
            ['"2020-01-01T00:00:00Z"', '"2020-01-01T24:00:00"', '"2020-01-01T00:60:00"', '"2020-01-01T00:00"', '"2020-01-01T00:00:00."',
             '"2020-01-01T00:00:00.1234567890"', '"2020-01-01T00:00:00.12x"', '"2020-01-01T00:00:00.1234567x"', '"2020-01-01T00:00:0"', "0"],
        ),
        (
            pa.timestamp("us", "UTC"),
            ['"2020-01-01T00:00:00Z"', '"2020-01-01T00:00:00.5Z"', '"2020-01-01T00:00:00.000001"', '"2020-01-01"', '"2020-01-01T00:00:00+00:00"',
             '"2020-01-01 00:00:00.25-05:30"', '"2020-01-01T00:00:00+18:00"', '"0001-01-01T00:00:00+18:00"',
             '"9999-12-31T23:59:59.999999-18:00"'],
            ['"2020-01-01T00:00:00+18:01"', '"2020-01-01T00:00:00+19:00"', '"2020-01-01T00:00:00+00:60"', '"2020-01-01+01:00"',
             '"2020-01-01T00:00+01:00"',
             '"2020-01-01T00:00:00+0100"', '"2020-01-01T00:00:00.+01:00"', '"2020-01-01T00:00:00.Z"', '"2020-01-01Z"',
             '"2020-01-01T00:00:00ZZ"', '"2020-01-01T00:00:00z"'],
        ),
        (
            MONEY,
            ["0", "-0", "0.00", "-0.01", "12345678", "-12345678.99", "99999999.9", "1.5", '"1.50"', '"-0.1"', "null"],
            ["123456789", "100000000.00", "0.001", "1.500", "1e2", "0e0", "1E-2", '"1,000.5"', '" 1.5"', '"1.5', '"+1.5"', '"01"', '""',
             '"1.5x"', "NaN", "1.", "01", "-", "true", "{}"],
        ),
        (SMALL, ["0.99", "-0.5", "0"], ["1", "1.0", "-1.00", "0.999"]),
        (WHOLE, ["999999999999999999", "-999999999999999999"], ["1000000000000000000", "1.0", "0.1", "1e1"]),
        (
            WIDE,
            ["99999999999999999", "-0.000000000000000001", "0.999999999999999999", "123456789012345678", "0.1"],
            ["1234567890123456789", "99999999999999999999", "0.0000000000000000001", "1.000000000000000001"],
        ),
        (
            INNER,
            ["{}", "null", '{"kq":1}', '{ "kq" : 1 , "more" : [{}] }', '{"deeper":{"money":1.25,"ks":"\\n"},"ks":"x"}', '{"deeper":null}'],
            ["[]", '"{}"', "1", '{"kq":1,"kq":2}', '{"kq":"1"}', '{"deeper":{"kq":1,"kq":1}}', '{"deeper":{"kq":0.5}}', '{"deeper":[]}',
             '{"kq":1,}', '{"deeper":{}', '{"kq":1'],
        ),
        (
            LIST,
            ["[]", "[ ]", "null", '["a"]', '[ "a" , null , "" ]', r'["\u00e4","\n"]'],
            ["[1]", '["a",]', '[,"a"]', '["a" "b"]', '["a"', "{}", '"a"', '[["a"]]', "[nul]"],
        ),
        (
            MAP,
            ["{}", "{ }", "null", '{"a":null}', '{ "a" : {"kq":1} , "" : {} , "b" : {"ks":"x"} }', r'{"\u00e4\n":{"money":1.5}}', _many(64)],
            ['{"a":null,"b":null,"a":null}', '{"a":{},"\\u0061":{}}', '{"":{},"":{}}', _many(65), "[]", '{"a":1}', '{"a":{},}', '{"a"}',
             '{"a":{"kq":1,"kq":1}}', '{"a":{}', "1"],
        ),
        (
            ROWS,
            ["[]", "[{}]", '[null,{"kq":1},{"kq":2,"list":["a",null],"map":{"x":{"kq":3}}}]', '[{"list":[]},{"list":null},{"map":{}}]',
             '[{"kB":"AAAA","kf":0.5,"k?":true},{"k?":false,"kD":"2020-01-01"}]'],
            ["[[]]", '[{"kq":1,"kq":1}]', '[{"kq":1},{"kq":"1"}]', '[{"list":["a"]},{"list":[1]}]',
             '[{"map":{"x":{"kq":1}}},{"map":{"x":1}}]', "{}"],
        ),
    ],
)  # fmt: skip
def test_usual_values_are_read_and_all_others_declined(
    kind: pa.DataType, usual_texts: list[str], others: list[str]
) -> None:
    assert [text for text in usual_texts if not one(text, kind)] == []
    assert [text for text in others if one(text, kind)] == []


def test_every_kind_has_its_texts() -> None:
    (mark,) = [
        m for m in test_usual_values_are_read_and_all_others_declined.pytestmark if m.name == "parametrize"  # type: ignore[attr-defined]
    ]  # fmt: skip
    assert {case[0] for case in mark.args[1]} == {*KINDS, *DECIMALS, *NESTED}


@pytest.mark.parametrize(
    ("message", "is_usual"),
    [
        (b"{}", True),
        (b' {"ki":1}', False),
        (b'{"ki":1} \r\n\t', True),
        (b'{ "ki" : 1 , "other" : [ { "a" : [ ] , "b" : { } , "c" : "\\n" } , null , -1.5e3 , true , false ] }', True),
        (b'{"ki":1,}', False),
        (b'{,"ki":1}', False),
        (b'{"ki":1 "kq":2}', False),
        (b'{"ki":1}{', False),
        (b'{"ki":1}}', False),
        (b'{"ki":1', False),
        (b'{"ki"}', False),
        (b'{"ki":}', False),
        (b'{"ki":1,"ki":1}', False),
        (b'{"x":1,"x":2}', True),
        (b'{"k\\u0069":1}', False),
        (b'{"\\n":1}', False),
        ('{"ä":1}'.encode(), True),
        (b'{"x":[1,]}', False),
        (b'{"x":[1 2]}', False),
        (b'{"x":{"a"}}', False),
        (b'{"x":{"a":}}', False),
        (b'{"x":{a:1}}', False),
        (b'{"x":[}', False),
        (b'{"x":01}', False),
        (b'{"x":nul}', False),
        (b'{"x":"\xff"}', False),
        (b'{"x":"\xc3"}', False),
        (b'{"x":"\xed\xa0\x80"}', False),
        (b'{"x":"\xc0\x80"}', False),
        (b'{"x":"\xf4\x90\x80\x80"}', False),
        (b'{"x":' + b"[" * 60 + b"]" * 60 + b"}", True),
        (b'{"x":' + b"[" * 70 + b"]" * 70 + b"}", False),
        (b'{"' + b"n" * 1000 + b'":1}', True),
        (b'{"' + b"n" * 1001 + b'":1}', False),
        (b'{"x":{"' + b"n" * 1001 + b'":1}}', False),
        (b'{"x":"' + b"s" * (1 << 20) + b'"}', False),
        (b"", False),
        (None, False),
        (b"null", False),
        (b"[]", False),
    ],
)
def test_usual_messages_are_read_and_all_others_declined(message: bytes | None, is_usual: bool) -> None:
    assert accepted([b'{"ki":7}', message, b'{"ks":"after"}'], EVERY_KIND) == [True, is_usual, True]


def test_a_value_that_is_required_must_be_there() -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.string())])
    messages = [b'{"a":1}', b'{"b":"x"}', b'{"a":null}', b'{"b":"y","a":2}', b"{}"]
    assert accepted(messages, schema) == [True, False, False, True, False]


def test_a_required_object_must_be_there_and_may_be_empty() -> None:
    schema = pa.schema([pa.field("a", pa.struct([pa.field("b", pa.string())]), nullable=False)])
    messages = [b"{}", b'{"a":null}', b'{"a":{}}', b'{"a":{"b":null}}', b'{"a":{"b":"x"}}']
    assert accepted(messages, schema) == [False, False, True, True, True]


def test_an_object_that_is_declined_late_leaves_nothing_behind() -> None:
    whole = b'{"inner":{"ks":"two","kq":5,"deeper":{"ks":"x","money":1.00}},"second":{"ks":"three"}'
    messages = [b'{"inner":{"ks":"one"}}', whole + b',"ki":"no"}', whole + b"}", b'{"second":null}', whole]
    assert accepted(messages, EVERY_KIND) == [True, False, True, True, False]


def test_two_objects_of_one_message_do_not_share_their_fields() -> None:
    read = read_usual(array([b'{"second":{"kq":2},"inner":{"kq":1,"ks":"i"}}']), EVERY_KIND)
    assert read is not None and not read[1].any()
    inner, second = (read[0].column(name)[0].as_py() for name in ("inner", "second"))
    assert (inner["kq"], inner["ks"], second["kq"], second["ks"]) == (1, "i", 2, None)


def test_a_message_that_is_declined_late_leaves_nothing_behind() -> None:
    messages = [b'{"ks":"one","k?":true}', b'{"ks":"two","kq":5,"k?":true,"kd":1.5,"ki":"no"}', b'{"ks":"three"}']
    assert accepted(messages, EVERY_KIND) == [True, False, True]


@pytest.mark.parametrize(
    "type_",
    [
        pa.duration("us"),
        pa.list_(pa.duration("us")),
        pa.struct([("a", pa.duration("us"))]),
        pa.struct([pa.field("a", pa.int64(), nullable=False)]),
        reduce(lambda inner, _: pa.list_(inner), range(DEPTH_MAX + 1), pa.int64()),
    ],
)
def test_values_of_another_type_are_left_to_the_exact_reader(type_: pa.DataType) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", type_)])
    messages = [b'{"a":1}', b'{"a":2,"b":null}', b'{"a":3,"b":"1 00:00:00"}', b'{"a":4,"b":[]}', b'{"a":5,"b":{"a":7}}']
    read = read_usual(array(messages), schema)
    assert read is not None and read[1].tolist()[:3] == [False, False, True]
    assert parse(array(messages[:2]), schema).rows.column(0).to_pylist() == [1, 2]
    together, slowly = parse(array(messages), schema), parse_slowly(array(messages), schema)
    assert together.rows.equals(slowly.rows) and together.faults == slowly.faults


def test_a_schema_without_columns_is_left_to_the_exact_reader() -> None:
    assert read_usual(array([b"{}"]), pa.schema([])) is None


def test_lists_that_are_declined_late_leave_nothing_behind() -> None:
    first = b'{"rows":[{"list":["one"],"map":{"a":{"ks":"x"}},"kB":"AAAA"}],"list":["two"]'
    second = b'{"rows":[{"kq":1},{"kq":2,"list":["three","four"],"k?":true}],"map":{"b":null,"c":{"kq":9}}'
    messages = [
        first + b"}",
        second + b',"rows":[]}',
        second + b"}",
        first + b',"map":{"d":{"ks":"y"},"e":7}}',
        first + b"}",
    ]
    assert accepted(messages, EVERY_KIND) == [True, False, True, False, True]


def test_without_the_extension_all_is_read_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = array([b'{"kq":1,"kZ":"2020-01-01T00:00:00Z"}', b"{", b'{"ks":"\\u00e4"}'])
    natively = parse(messages, EVERY_KIND)
    native_json.why_not.cache_clear()
    monkeypatch.setenv(SWITCH, "0")
    try:
        assert read_usual(messages, EVERY_KIND) is None
        plainly = parse(messages, EVERY_KIND)
    finally:
        monkeypatch.undo()
        native_json.why_not.cache_clear()
    assert natively.rows.equals(plainly.rows)
    assert (natively.at.tolist(), natively.faults) == (plainly.at.tolist(), plainly.faults)
    assert [position for position, _ in natively.faults] == [1]


def test_a_slice_of_messages_is_read_where_it_lies() -> None:
    messages = array([b'{"kq":%d,"ks":"%d"}' % (i, i) for i in range(40)])
    for part in (messages[3:7], messages[39:], messages[5:5], messages[8:].slice(8)):
        read = read_usual(part, EVERY_KIND)
        assert read is not None and not read[1].any()
        assert read[0].column("kq").to_pylist() == [json.loads(m)["kq"] for m in part.to_pylist()]


def test_many_long_texts_of_one_column_fit() -> None:
    """The room for the texts is a guess, and grows."""
    messages = [json.dumps({"ks": "x" * (1 << i % 17), "other": i}).encode() for i in range(200)]
    assert all(accepted(messages, EVERY_KIND))


# Any text

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.integers(-200, 200), st.floats(), st.text(max_size=9),
    st.datetimes().map(lambda d: d.isoformat()), st.dates().map(lambda d: d.isoformat()),
    st.datetimes().map(lambda d: d.isoformat(" ") + "Z"),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
DECIMAL_TEXTS = st.decimals(-(10**9), 10**9, places=2) | st.decimals(allow_nan=False, allow_infinity=False)
KEYS = st.sampled_from([*EVERY_KIND.names, "deeper"]) | st.text(max_size=3)
PIECES = [b"", b'"', b"\\", b"}", b",", b":", b"0", b"-", b".", b"e", b"\xc3", b"\x00", b" ", b"\n", b"n"]
DAMAGE = st.lists(st.tuples(st.integers(0, 200), st.sampled_from(PIECES)), max_size=2)


@st.composite
def messages_of(draw: Any) -> bytes:
    ascii_only, space = draw(st.booleans()), draw(st.sampled_from(["", " ", "\t\n"]))

    def object_of(depth: int) -> str:
        members = []
        for key, value in draw(st.lists(st.tuples(KEYS, VALUES), max_size=5 if depth == 0 else 3)):
            is_object = key in ("inner", "second", "deeper") and depth < 3 and draw(st.booleans())
            is_decimal = key in DECIMALS.values() and draw(st.booleans())
            told = json.dumps(value, ensure_ascii=ascii_only)
            if is_object:
                told = object_of(depth + 1)
            elif key == "rows" and depth < 3 and draw(st.booleans()):
                told = "[" + ",".join(object_of(depth + 1) for _ in range(draw(st.integers(0, 2)))) + "]"
            elif key == "list" and draw(st.booleans()):
                told = json.dumps(draw(st.lists(st.none() | st.text(max_size=3), max_size=3)), ensure_ascii=ascii_only)
            elif key == "map" and depth < 3 and draw(st.booleans()):
                told = f'{{"a":{object_of(depth + 1)},"":null}}'
            elif is_decimal:
                told = str(draw(DECIMAL_TEXTS))
            members.append(f"{json.dumps(key, ensure_ascii=ascii_only)}:{space}{told}")
        return "{" + f",{space}".join(members) + space + "}"

    text = object_of(0).encode("utf-8", "surrogatepass")
    for place, piece in draw(DAMAGE):
        at = place % (len(text) + 1)
        text = text[:at] + piece + text[at + (1 if place % 3 else 0) :]
    return bytes(text)


@settings(max_examples=400)
@example(messages=[b'{"kd":-0}'])
@example(messages=[b'{"kZ":-62135596801}'])
@example(messages=[b'{"kd":-0e5}'])
@given(messages=st.lists(messages_of(), min_size=1, max_size=4))
def test_what_is_accepted_has_the_value_that_the_exact_reader_gives(messages: list[bytes]) -> None:
    compare_with_the_exact_reader(messages)


@pytest.mark.soak
@settings(max_examples=6000)
@given(messages=st.lists(messages_of(), min_size=1, max_size=4))
def test_many_accepted_messages_have_the_values_that_the_exact_reader_gives(messages: list[bytes]) -> None:
    compare_with_the_exact_reader(messages)


def compare_with_the_exact_reader(messages: list[bytes]) -> None:
    accepted(messages, EVERY_KIND)
    together, slowly = parse(array(messages), EVERY_KIND), parse_slowly(array(messages), EVERY_KIND)
    assert texts(together.rows) == texts(slowly.rows)
    assert (together.at.tolist(), together.faults) == (slowly.at.tolist(), slowly.faults)


def test_usual_messages_reach_no_other_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "parse_slowly", lambda *_: pytest.fail("a message was declined"))
    rows = [
        {"kb": i % 100, "kh": i, "ki": -i, "kq": i * 10**12, "kd": i / 7, "k?": i % 2 == 0, "ks": f"ä{i}\n", "kD": "2024-02-29",
         "kT": f"2024-02-29T12:00:{i % 60:02}.{i:06}", "kZ": "2024-02-29 12:00:00Z", "more": {"x": [i, None]},
         "kf": i / 4, "kB": "AAEC", "list": [f"{i}\u00e4", None], "map": {f"m{i}": {"kq": i}}, "rows": [{"kq": i}, {"list": [f"{i}"]}],
         "money": i / 4, "inner": None if i % 3 else {"ks": f"{i}", "deeper": {"kq": i}}, "second": {"money": -i}}
        for i in range(1000)
    ]  # fmt: skip
    read = parse(array([json.dumps(row, ensure_ascii=False).encode() for row in rows]), EVERY_KIND).rows
    assert read.column("kd").to_pylist() == [row["kd"] for row in rows]
    assert read.column("ks").to_pylist() == [row["ks"] for row in rows]
