"""Texts of messages in CHAR and VARCHAR columns are what Spark writes into its tables, or the message is refused."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import SparkRuntimeException
from pyspark.sql import SparkSession

from base.text.type_names import ELEMENT
from io_kafka.formats.spec import SourceFormat
from io_kafka.formats.text_limits import TextLimit
from tests.io_kafka.formats.decoding import decode

TEXTS = [
    "", "a", "ab", "abc", "abcd", "   ", "    ", "     a", "ab ", "abc ", "abc   ", "abcd  ", "abc\t", "abc\u00a0", " a", "é😀ü", "😀😀😀😀",
    "😀😀😀 ", "e\u0301e\u0301", "a\u3000\u3000 ", "\x00\x00\x00 ", "null",
]  # fmt: skip
SIZES = (1, 3, 4)


def decoded(
    source: SourceFormat, values: list[Any], keys: list[str | None] | None = None
) -> tuple[list[Any], list[str]]:
    count = len(values)
    messages = [None if value is None else json.dumps(value).encode() for value in values]
    given = [None if key is None else key.encode() for key in keys or [None] * count]
    rows, rejected, _ = decode(
        source, pa.array(given, pa.binary()), pa.array(messages, pa.binary()), pa.array([3] * count, pa.int32()),
        pa.array(range(100, 100 + count), pa.int64()),
    )  # fmt: skip
    return rows.to_pylist(), [f"{one.partition}:{one.offset} {one.reason}" for one in rejected]


def in_spark(spark: SparkSession, text: str, limit: TextLimit) -> str | None:
    """What Spark's own function writes; None if it raises."""
    jvm: Any = spark._jvm
    functions = jvm.org.apache.spark.sql.catalyst.util.CharVarcharCodegenUtils
    check = functions.charTypeWriteSideCheck if limit.padded else functions.varcharTypeWriteSideCheck
    try:
        return str(
            check(jvm.org.apache.spark.unsafe.types.UTF8String.fromString(text), limit.characters_max).toString()
        )
    except SparkRuntimeException as error:
        assert error.getCondition() == "EXCEED_LIMIT_LENGTH"
        return None


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("size", SIZES)
def test_each_text_is_what_spark_writes(spark: SparkSession, size: int, padded: bool) -> None:
    limit = TextLimit(("a",), size, padded)
    source = SourceFormat("h", pa.schema([("a", pa.string())]), limits=(limit,))
    written = [in_spark(spark, text, limit) for text in TEXTS]
    rows, rejected = decoded(source, [{"a": text} for text in TEXTS])
    assert [row["c0"] for row in rows] == [text for text in written if text is not None]
    assert rejected == [
        f"3:{100 + place} column a: longer than {limit.declared}" for place, text in enumerate(written) if text is None
    ]


NESTED = pa.schema(
    [
        ("n", pa.int32()),
        (
            "x",
            pa.list_(
                pa.field("element", pa.struct([("y", pa.string()), ("z", pa.list_(pa.field("element", pa.string())))]))
            ),
        ),
    ]
)
WITHIN = (TextLimit(("x", ELEMENT, "y"), 2, True), TextLimit(("x", ELEMENT, "z", ELEMENT), 1, False))


def test_texts_within_arrays_and_structs_have_limits_too() -> None:
    source = SourceFormat("h", NESTED, limits=WITHIN)
    rows, rejected = decoded(
        source,
        [
            {"n": 1, "x": [{"y": "a", "z": ["b ", None, ""]}, None, {"y": None, "z": None}]},
            {"n": 2, "x": None},
            {"n": 3, "x": []},
            {"n": 4, "x": [{"y": "a"}, {"y": "abc"}]},
            {"n": 5, "x": [{"y": "ab", "z": ["c", "de"]}]},
            {"n": 6, "x": [{"y": "", "z": []}]},
        ],
    )
    assert [(row["c0"], row["c1"]) for row in rows] == [
        (1, [{"y": "a ", "z": ["b", None, ""]}, None, {"y": None, "z": None}]),
        (2, None),
        (3, []),
        (6, [{"y": "  ", "z": []}]),
    ]
    assert rejected == ["3:103 column x[].y: longer than CHAR(2)", "3:104 column x[].z[]: longer than VARCHAR(1)"]


ROW = pa.schema([("id", pa.string()), ("name", pa.string())])
LIMITS = (TextLimit(("id",), 3, True), TextLimit(("name",), 2, False))


def test_a_key_is_padded_as_the_column_is() -> None:
    source = SourceFormat("h", ROW, "upsert", ("id",), limits=LIMITS)
    rows, rejected = decoded(
        source,
        [{"id": "a ", "name": "x"}, None, {"name": "y"}, {"id": "abcd"}, None],
        ["a", "a", '{"id":"b"}', None, "abcd"],
    )
    assert [(row["c0"], row["c1"], row["deleted"]) for row in rows] == [
        ("a  ", "x", False), ("a  ", None, True), ("b  ", "y", False),
    ]  # fmt: skip
    assert rejected == ["3:103 column id: longer than CHAR(3)", "3:104 column id: longer than CHAR(3)"]


def test_both_images_of_a_change_are_padded() -> None:
    """Otherwise a change would take back a row that is not there."""
    source = SourceFormat("h", ROW, "changelog", limits=LIMITS)
    a, b, long = {"id": "a", "name": "x   "}, {"id": "b", "name": "y"}, {"id": "abcd", "name": ""}
    rows, rejected = decoded(
        source,
        [
            {"before": a, "after": b, "op": "u"},
            {"before": long, "after": b, "op": "c"},
            {"before": long, "after": None, "op": "d"},
            {"before": None, "after": long, "op": "r"},
        ],
    )
    assert [(row["c0"], row["c1"], row["weight"]) for row in rows] == [
        ("a  ", "x ", -1),
        ("b  ", "y", 1),
        ("b  ", "y", 1),
    ]
    assert rejected == ["3:102 column id: longer than CHAR(3)", "3:103 column id: longer than CHAR(3)"]
