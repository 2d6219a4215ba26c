"""Decoding equals Spark's from_json, message by message; the fast path equals the slow one; rubbish never crashes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from io_kafka.formats.debezium import EnvelopeReader
from io_kafka.formats.exact_json import RowReader
from io_kafka.formats.parse import Parsed, parse, parse_slowly
from io_kafka.formats.spec import Decoded, FormatError, SourceFormat
from tests.io_kafka.formats import messages as m
from tests.io_kafka.formats.decoding import decode

BIDS = pa.schema(
    [
        ("auction", pa.int64()),
        ("price", pa.float64()),
        ("channel", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("on", pa.date32()),
    ]
)


def one_column(kind: pa.DataType) -> pa.Schema:
    return pa.schema([("a", kind)])


def outcome(parsed: Parsed, count: int) -> list[str]:
    """A text a message: its value, or its refusal."""
    texts = dict(zip(parsed.at.tolist(), m.comparable(parsed.rows.column(0)), strict=True))
    texts |= {position: f"refused: {reason}" for position, reason in parsed.faults}
    assert sorted(texts) == list(range(count)), "every message is a row or a fault, once"
    return [texts[position] for position in range(count)]


def agree(schema: pa.Schema, messages: Sequence[bytes | None]) -> None:
    values = pa.array(messages, pa.binary())
    assert outcome(parse(values, schema), len(messages)) == outcome(parse_slowly(values, schema), len(messages))


def decoded(
    source: SourceFormat, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None
) -> Decoded:
    count = len(values)
    offsets = pa.array(range(100, 100 + count), pa.int64())
    return decode(
        source,
        pa.array(keys or [None] * count, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array([3] * count, pa.int32()),
        offsets,
    )


@pytest.mark.parametrize("ddl", m.SPARK_TYPES)
def test_each_type_has_sparks_verdict_and_value(spark: SparkSession, ddl: str) -> None:
    kind = m.SPARK_TYPES[ddl]
    texts = [f'{{"a":{value}}}' for value in m.VALUES if ddl != "BINARY" or value.isprintable()]
    messages = [text.encode() for text in texts] + m.WHOLE + m.RAW_UTF8
    taken, values = m.from_json(spark, ddl, messages)
    assert values.type == kind
    expected = [text if ok else "refused" for ok, text in zip(taken, m.comparable(values), strict=True)]
    for path in (parse, parse_slowly):
        got = outcome(path(pa.array(messages, pa.binary()), one_column(kind)), len(messages))
        differing = [
            (message[:90], want, have)
            for message, want, have in zip(messages, expected, got, strict=True)
            if want != have and not (want == "refused" and have.startswith("refused: "))
        ]
        assert not differing, path.__name__


@pytest.mark.parametrize("ddl", m.SPARK_TYPES)
def test_fast_and_slow_agree_on_each_message_among_good_ones(ddl: str) -> None:
    """Among malformed messages all would go the slow way; so each curated message has only good company here."""
    schema = one_column(m.SPARK_TYPES[ddl])
    texts: list[bytes] = [f'{{"a":{value}}}'.encode() for value in m.VALUES]
    for message in texts + (m.WHOLE + m.RAW_UTF8 + m.TRAILING if ddl == "INT" else []):
        agree(schema, [b'{"a":null}', message, b'{"x":1}'])


def test_the_usual_spellings_go_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the differential tests would compare the slow path with itself."""
    schema = pa.schema(
        [
            ("d", pa.date32()),
            ("t", BIDS.field("at").type),
            ("n", pa.timestamp("us")),
            ("x", pa.binary()),
            ("p", pa.decimal128(9, 2)),
        ]
    )
    times = [
        "2024-02-29 23:59:59",
        "2024-02-29T23:59:59Z",
        "2024-02-29T23:59:59.123Z",
        "2024-02-29 23:59:59.123456",
        "1969-12-31",
    ]
    texts = [
        f'{{"d":"{time[:10]}","t":"{time}","n":"{time.rstrip("Z")}","x":"AQI=","p":1.25,"z":{{"a":[1]}}}}'.encode()
        for time in times
    ]
    expected = [column.to_pylist() for column in parse_slowly(pa.array(texts), schema).rows.columns]
    monkeypatch.setattr(RowReader, "read", lambda self, message: pytest.fail(f"slow: {message!r}"))
    assert [column.to_pylist() for column in parse(pa.array(texts), schema).rows.columns] == expected


def test_failfast_agrees_with_the_verdicts_of_one_query(spark: SparkSession) -> None:
    """The oracle itself: FAILFAST raises for a message exactly if the corrupt-record column is set for it."""
    messages = m.WHOLE[::24]  # a query each
    taken, _ = m.from_json(spark, "INT", messages)
    for message, ok in zip(messages, taken, strict=True):
        query = spark.createDataFrame([(bytearray(message),)], "v binary").selectExpr(
            "from_json(string(v), 'a INT', map('mode', 'FAILFAST')) r"
        )
        try:
            query.collect()
            raised = False
        except Exception:
            raised = True
        assert raised is not ok, message[:80]


def test_trailing_content_and_empty_messages_are_refused() -> None:
    got = decoded(SourceFormat("h", one_column(pa.int32())), [*m.TRAILING, *m.EMPTY, b'{"a":1}', b'{"a":2} \n'])
    assert got.rows.column("c0").to_pylist() == [1, 2]
    assert [r.offset for r in got.rejected] == list(range(100, 100 + len(m.TRAILING) + len(m.EMPTY)))
    assert {r.partition for r in got.rejected} == {3}
    assert got.rejected[-1].reason == "empty"


def test_messages_that_complete_each_other_do_not_shift_rows() -> None:
    """Joined by newlines these have the right count of objects, at the wrong places."""
    for messages in (
        [b'{"a":1,"x":', b'{"a":2}}', b'{"a":3}{"a":4}', b'{"a":5}'],
        [b'{"a":1,"x":"}', b'{"}', b'{"a":3}{"a":4}', b'{"a":5}'],
        [b'{"a":1}{"a":2}', b"", b'{"a":3}'],
        [b"null{}", b'{"a":1}'],
        [b'{"a":1}\n{"a":2}', b'{"a":3,"x":"}', b'{"}', b'{"a":4}'],
    ):
        agree(one_column(pa.int64()), messages)


def test_a_malformed_message_among_many_costs_only_itself() -> None:
    values = [b'{"a":%d}' % i for i in range(5000)]
    values[1234], values[4321] = b"null", b'{"a":1}{"a":2}'
    got = decoded(SourceFormat("h", one_column(pa.int64())), values)
    assert [r.offset for r in got.rejected] == [1334, 4421]
    assert got.rows.column("c0").to_pylist() == [i for i in range(5000) if i not in (1234, 4321)]
    assert got.rows.column("weight").to_pylist() == [1] * 4998
    assert got.rows.schema.names == ["c0", "weight"]


def test_every_message_malformed() -> None:
    got = decoded(SourceFormat("h", one_column(pa.int64())), [b"null"] * 3)
    assert got.rows.num_rows == 0 and len(got.rejected) == 3
    assert got.rows.schema.types == [pa.int64(), pa.int64()]


def test_no_messages() -> None:
    got = decoded(SourceFormat("h", BIDS), [])
    assert got.rows.num_rows == 0 and got.rows.schema.names == ["c0", "c1", "c2", "c3", "c4", "weight"]


def test_not_null_columns() -> None:
    schema = pa.schema([pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.int32())])
    got = decoded(SourceFormat("h", schema), [b'{"a":1}', b'{"b":1}', b'{"a":null,"b":2}'])
    assert got.rows.num_rows == 1
    assert [r.reason for r in got.rejected] == ["column a: null, but declared NOT NULL"] * 2


def test_a_slice_of_a_longer_array_is_read_as_itself() -> None:
    values = pa.array([b"xx", None, b'{"a":"2024-01-02"}', b'{"a":"2024-01-03"}', b"null"], pa.binary()).slice(2, 2)
    assert outcome(parse(values, one_column(pa.date32())), 2) == ["19724", "19725"]


def test_unreadable_types_are_refused_by_name() -> None:
    with pytest.raises(FormatError, match=r"h: column m has type map"):
        SourceFormat("h", pa.schema([("m", pa.map_(pa.int32(), pa.string()))]))
    with pytest.raises(FormatError, match=r"h: key column k is not among"):
        SourceFormat("h", BIDS, "upsert", ("k",))
    with pytest.raises(FormatError, match="needs a key"):
        SourceFormat("h", BIDS, "upsert")


# Java before 19 writes some doubles with a digit too many; none of six digits.
SHORT_FLOATS = st.floats().map(lambda number: float(f"{number:.6g}"))
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), SHORT_FLOATS, st.text(max_size=8),
    st.sampled_from([*m.TIMES[:60], "}", "{", '"', "Inf", ",-NaN"]),
)  # fmt: skip
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcxé"), inner, max_size=4),
    max_leaves=6,
)
WIDE = pa.schema(
    [
        ("a", pa.int64()), ("b", pa.float64()), ("c", pa.string()), ("d", pa.timestamp("us", "UTC")),
        ("e", pa.date32()),
        ("f", pa.struct([("a", pa.float32()), ("b", pa.binary())])),
        ("g", pa.list_(pa.field("element", pa.decimal128(9, 3)))),
        ("h", pa.bool_()),
    ]
)  # fmt: skip


def usually(right: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly a value that fits the column, else anything."""
    return st.integers(0, 19).flatmap(lambda dice: SCALARS if dice == 0 else right)


ROWS = st.fixed_dictionaries(
    {},
    optional={
        "a": usually(st.integers(-(2**63), 2**63 - 1)),
        "b": usually(st.floats()),
        "c": usually(st.text(max_size=10) | TREES),
        "d": usually(st.datetimes().map(str)),
        "e": usually(st.dates().map(str)),
        "f": usually(
            st.fixed_dictionaries({}, optional={"a": st.floats(width=32), "b": st.sampled_from(["AQI=", "AQIB", None])})
        ),
        "g": usually(st.lists(st.none() | st.floats(-9999, 9999) | st.integers(-999999, 999999), max_size=3)),
        "h": usually(st.booleans()),
        "z": TREES,
    },
)


def _mutated(parts: tuple[dict[str, Any], str, int, bytes]) -> bytes:
    """A row's text, perhaps with a piece cut out or put in."""
    row, how, place, piece = parts
    text = json.dumps(row, ensure_ascii=place % 2 == 0).encode(errors="replace")
    at = place % (len(text) + 1)
    return {
        "whole": text,
        "cut": text[:at],
        "insert": text[:at] + piece + text[at:],
        "drop": text[:at] + text[at + 1 :],
    }[how]


MESSAGES = st.lists(
    st.tuples(
        ROWS,
        st.sampled_from(["whole"] * 9 + ["cut", "insert", "drop"]),
        st.integers(0, 400),
        st.sampled_from(
            [b"}{", b"null", b"\n", b",", b'"', b"{", b"}", b"]", b"\xff", b"0", b"\\", b"NaN", b"Inf", b"'", b" "]
        ),
    ).map(_mutated),
    max_size=70,
)


@given(MESSAGES)
@settings(max_examples=60, deadline=None)
def test_fast_and_slow_agree_on_generated_messages(messages: list[bytes]) -> None:
    values = pa.array(messages, pa.binary())
    fast, slow = parse(values, WIDE), parse_slowly(values, WIDE)
    assert fast.faults == slow.faults
    assert fast.at.tolist() == slow.at.tolist()
    for name in WIDE.names:
        assert m.comparable(fast.rows.column(name)) == m.comparable(slow.rows.column(name))


ENVELOPE = pa.schema(
    [("before", pa.struct(WIDE)), ("after", pa.struct(WIDE)), pa.field("op", pa.string(), nullable=False)]
)


def _enveloped(parts: tuple[bytes, bytes, str]) -> bytes:
    before, after, shape = parts
    return shape.encode().replace(b"B", before).replace(b"A", after)


@pytest.mark.long
@given(
    st.lists(
        st.tuples(
            st.tuples(ROWS, st.just("whole"), st.integers(0, 1), st.just(b"")).map(_mutated),
            st.tuples(ROWS, st.just("whole"), st.integers(0, 1), st.just(b"")).map(_mutated),
            st.sampled_from(
                [
                    '{"before":B,"after":A,"op":"u"}',
                    '{"after":A,"op":1}',
                    '{"op":"d","before":B}',
                    '{"schema":null,"payload":{"op":"c","after":A}}',
                    '{"schema":null,"payload":A,"op":"c"}',
                    '{"payload":A}',
                    "A",
                    '{"op":null,"after":A}',
                    '{"before":{"d":1},"op":"u"}',
                ]
            ),
        ).map(_enveloped),
        max_size=50,
    )
)
@settings(max_examples=40, deadline=None)
def test_fast_and_slow_agree_on_envelopes(messages: list[bytes]) -> None:
    values = pa.array(messages, pa.binary())
    fast = parse(values, ENVELOPE, EnvelopeReader(ENVELOPE))
    slow = parse_slowly(values, ENVELOPE, EnvelopeReader(ENVELOPE))
    assert fast.faults == slow.faults and fast.at.tolist() == slow.at.tolist()
    for name in ENVELOPE.names:
        assert m.comparable(fast.rows.column(name)) == m.comparable(slow.rows.column(name))


@given(st.lists(st.tuples(st.sampled_from(sorted(m.SPARK_TYPES)), st.sampled_from(m.VALUES)), min_size=1, max_size=40))
@settings(max_examples=80, deadline=None)
def test_fast_and_slow_agree_in_any_company(pairs: list[tuple[str, str]]) -> None:
    """A block's other messages must not change what a message means."""
    kind = m.SPARK_TYPES[pairs[0][0]]
    agree(one_column(kind), [f'{{"a":{value}}}'.encode() for _, value in pairs])


def test_generated_messages_against_spark(spark: SparkSession) -> None:
    """A few hundred generated messages of all columns at once, in one query."""
    drawn: list[bytes] = []

    @given(MESSAGES)
    @settings(max_examples=60, deadline=None, database=None, derandomize=True)
    def draw(messages: list[bytes]) -> None:
        drawn.extend(messages)

    draw()
    ddl = "a:BIGINT,b:DOUBLE,c:STRING,d:TIMESTAMP,e:DATE,f:STRUCT<a:FLOAT,b:BINARY>,g:ARRAY<DECIMAL(9,3)>,h:BOOLEAN"
    whole = [b'{"a":' + message + b"}" for message in drawn if message.strip()]
    taken, values = m.from_json(spark, f"STRUCT<{ddl}>", whole)
    got = outcome(parse_slowly(pa.array(whole, pa.binary()), one_column(pa.struct(WIDE))), len(whole))
    expected = m.comparable(values)
    trailing = "content after the end"
    differing = [
        (message, ok, want, have)
        for message, ok, want, have in zip(whole, taken, expected, got, strict=True)
        if trailing not in have and (have != want if ok else not have.startswith("refused"))
    ]
    assert not differing, [(ascii(w), ascii(h)) for _, _, w, h in differing]
    assert sum(taken) > 20 and taken.count(False) > 20
