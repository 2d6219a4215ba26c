"""Maps in messages: objects whose names are the keys."""

from __future__ import annotations

import pyarrow as pa
import pytest

from io_kafka.formats import render
from io_kafka.formats.parse import parse
from io_kafka.formats.spec import FormatError, check_type

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
    ]
    parsed = parse(pa.array(messages), SCHEMA)
    assert parsed.rows.column(0).to_pylist() == [[("b", {"d": 1}), ("a", None)], None, []]
    assert parsed.rows.column(1).to_pylist() == [5, None, None]
    assert [position for position, _ in parsed.faults] == [3, 4, 5]


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
