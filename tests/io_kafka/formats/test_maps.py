"""Maps in messages: objects whose names are the keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from engine.rows import zset
from io_kafka.formats import render
from io_kafka.formats.parse import parse
from io_kafka.formats.spec import FormatError, SourceFormat, check_type
from io_kafka.formats.text_limits import ELEMENT, TextLimit
from tests.io_kafka.formats.decoding import decode

KIND = pa.map_(pa.string(), pa.struct([pa.field("d", pa.int32())]))
SCHEMA = pa.schema([("m", KIND), ("a", pa.int32())])


def test_an_object_is_read_as_a_map_in_its_order() -> None:
    messages = [
        b'{"m":{"b":{"d":1},"a":null},"a":5}',
        b'{"m":null}',
        b'{"m":{}}',
        b'{"m":{"a":{"d":"x"}}}',
        b'{"m":[1]}',
        b"x",
        b'{"m":{"a":{"d":1},"b":null,"a":{"d":1}}}',
    ]
    parsed = parse(pa.array(messages), SCHEMA)
    assert parsed.rows.column(0).to_pylist() == [[("b", {"d": 1}), ("a", None)], None, []]
    assert parsed.rows.column(1).to_pylist() == [5, None, None]
    assert [position for position, _ in parsed.faults] == [3, 4, 5, 6]
    assert parsed.faults[-1][1] == 'column m: two entries of the map have the key "a"'


@pytest.mark.parametrize("nulls", [True, False])
def test_a_map_is_written_with_its_nulls(nulls: bool) -> None:
    maps = pa.array([[("b", {"d": 1}), ('"', None), ("n", {"d": None})], None, []], KIND)
    inner = '{"d":null}' if nulls else "{}"
    assert render.texts(maps, nulls=nulls).to_pylist() == [f'{{"b":{{"d":1}},"\\"":null,"n":{inner}}}', None, "{}"]
    assert render.texts(maps.slice(2), nulls=nulls).to_pylist() == ["{}"]


def test_keys_that_are_no_strings_are_refused() -> None:
    check_type("t", "m", KIND)
    with pytest.raises(FormatError, match="column m has type"):
        check_type("t", "m", pa.map_(pa.int32(), pa.string()))


def test_limits_of_the_values_of_a_map() -> None:
    source = SourceFormat(
        "t", pa.schema([("m", pa.map_(pa.string(), pa.string()))]), limits=(TextLimit(("m", ELEMENT), 2, True),)
    )
    messages = [
        b'{"m":{"long key":"a","k":"abc"}}',
        b'{"m":{"long key":"a","k":"ab  ","n":null}}',
        b'{"m":null}',
        b'{"m":{}}',
    ]
    places = pa.array([0] * 4, pa.int32()), pa.array(range(4), pa.int64())
    found = decode(source, pa.nulls(4, pa.binary()), pa.array(messages), *places)
    assert found.rows.column("c0").to_pylist() == [[("long key", "a "), ("k", "ab"), ("n", None)], None, []]
    assert [each.reason for each in found.rejected] == ["column m[]: longer than CHAR(2)"]


def test_the_order_of_entries_makes_other_rows() -> None:
    kind = pa.list_(pa.field("element", pa.map_(pa.string(), pa.float64())))
    rows = pa.table(
        {"c0": pa.array([[[("a", 0.0), ("b", 1.0)]], [[("b", 1.0), ("a", 0.0)]], [[("a", -0.0), ("b", 1.0)]]], kind)}
    )
    every = zset.consolidate(
        zset.add(
            [
                zset.build(rows.columns, np.ones(3, np.int64)),
                zset.build(rows.slice(1, 1).columns, -np.ones(1, np.int64)),
            ]
        )
    )
    assert sorted(map(str, every.column(0).to_pylist())) == [
        "[[('a', -0.0), ('b', 1.0)]]",
        "[[('a', 0.0), ('b', 1.0)]]",
    ]
