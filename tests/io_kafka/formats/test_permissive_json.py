"""What is kept of a text that a message may not be. tests/stepwell/expressions/test_json.py compares it with Spark; here are the cases that tell
the state of Jackson's parser after an error, and texts whose size or depth no column of a test has."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from io_kafka.formats import permissive_json
from io_kafka.formats.jackson import DEPTH_MAX, Malformed

INNER = pa.struct([pa.field("d", pa.int32()), pa.field("e", pa.int32())])
KIND = pa.struct(
    [pa.field("a", pa.int32()), pa.field("c", INNER), pa.field("l", pa.list_(pa.field("element", pa.int32())))]
)
NOTHING = {"a": None, "c": None, "l": None}


@pytest.mark.parametrize(
    ("text", "kept", "malformed"),
    [
        ('{"a":1}', {"a": 1}, False),
        ('{"a":1} and more', {"a": 1}, False),
        ("", None, False),
        (" \n", None, False),
        ("null", NOTHING, True),
        ("[1]", NOTHING, True),
        ('{"a":1,"c":{"d":"x","e":2}}', {"a": 1, "c": {"d": None, "e": 2}}, True),
        ('{"c":{"d":1,},"a":1}', {"a": 1}, True),  # the error took the brace, so the inner object goes on to the end
        ('{"c":{"d":1 "e":2},"a":1}', NOTHING, True),
        ('{"l":[1,2,,],"a":1}', {"a": 1}, True),
        ('{"l":[01],"a":1}', NOTHING, True),
        ('{"a":1,"c":{"d":tru}}', {"a": 1}, True),
        ('{"c":{"d":tru},"a":1}', NOTHING, True),
        ('{"a":1,"a":"x"}', {"a": 1}, True),
    ],
)  # fmt: skip
def test_a_broken_text_keeps_what_spark_keeps(text: str, kept: dict[str, Any] | None, malformed: bool) -> None:
    values, marks = permissive_json.read(pa.array([text]), KIND)
    assert values.to_pylist() == [None if kept is None else {**NOTHING, **kept}]
    assert marks.tolist() == [malformed]


def test_broken_texts_stay_at_their_places_among_others() -> None:
    texts = ['{"a":1}', None, "x", '{"a":"y"}', '{"a":5}', "", '{"a":6}']
    values, marks = permissive_json.read(pa.array(texts), KIND)
    assert [None if row is None else row["a"] for row in values.to_pylist()] == [1, None, None, None, 5, None, 6]
    assert [row is None for row in values.to_pylist()] == [False, True, False, False, False, True, False]
    assert marks.tolist() == [False, False, True, True, False, False, False]


def test_a_slice_of_a_column_is_read_like_a_column() -> None:
    texts = pa.array(["z", '{"a":1}', "x", '{"a":2}'])
    assert permissive_json.read(texts.slice(1, 2), KIND)[0].to_pylist() == [{**NOTHING, "a": 1}, NOTHING]


def test_deep_texts_do_not_exhaust_the_stack() -> None:
    for depth in (DEPTH_MAX - 1, DEPTH_MAX + 5):
        text = '{"x":' + "[" * depth + "]" * depth + ',"a":1}'
        deep = pa.struct([pa.field("a", pa.int32()), pa.field("x", pa.string())])
        values, marks = permissive_json.read(pa.array([text]), deep)
        assert marks.tolist() == [depth > DEPTH_MAX]
        assert (values.to_pylist()[0]["a"] == 1) == (depth < DEPTH_MAX)
    with pytest.raises(Malformed):
        permissive_json.first_value("[" * (DEPTH_MAX + 5))
