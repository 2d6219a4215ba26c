"""Damaged JSON: what from_json, get_json_object and json_tuple keep of it is what Spark keeps."""

from __future__ import annotations

import random
import re
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from engine.expressions.evaluate import evaluate
from engine.expressions.generic import function_name
from engine.model.node import Expression
from stepwell.catalyst.types import arrow_type
from tests.stepwell.expressions import edges

TEXTS_IN_THE_SUITE = 800
SCHEMAS = (
    "a INT, b STRING, c STRUCT<d: INT, e: INT>, l ARRAY<INT>, ls ARRAY<STRUCT<d: INT, e: STRING>>, d DOUBLE, _corrupt_record STRING",
    "a STRING, l ARRAY<ARRAY<STRING>>, c STRUCT<d: STRING, c: STRUCT<d: INT>>, ls ARRAY<STRUCT<d: INT>>",
)
MEMBERS = ["a", "b", "c"]
_WHOLE = (
    '{"a":1,"b":"xyz","c":{"d":1,"e":2},"l":[1,2,3],"ls":[{"d":1,"e":"q"},{"d":2}],"d":1.5}',
    '{"c":{"d":1,"e":2},"l":[1,2],"a":5,"ls":[{"d":1}]}',
)
_TEXT = pa.string()


def _damaged(chance: random.Random, text: str) -> str:
    """The text with some characters taken out, put in or turned around, or without its end."""
    for _ in range(chance.choice([1, 1, 2, 3])):
        at = chance.randrange(len(text) + 1)
        kind = chance.random()
        if kind < 0.4:
            text = text[:at] + text[at + 1 :]
        elif kind < 0.8:
            text = text[:at] + chance.choice("{}[]\",:\\ 0123456789tfn.-eE'x$\n") + text[at:]
        elif kind < 0.9:
            text = text[:at]
        else:
            text = text[:at] + text[at : at + 3][::-1] + text[at:]
    return text


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return {name: _plain(cell) for name, cell in value.asDict().items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _shown(value: Any) -> str:
    """The value as text. Numbers with an exponent are those that Python reads in it: Java writes some of them with digits too many before its
    version 19, and from_json makes a text of a number so (see docs/sql.md)."""
    return re.sub(r"\d\.\d+E-?\d+", lambda number: repr(float(number[0])), repr(value))


def _compare(spark: SparkSession, count: int, seed: int) -> None:
    chance = random.Random(seed)
    whole = [text for text in edges._JSON if text] + list(_WHOLE) * 15
    texts = sorted({_damaged(chance, chance.choice(whole)) for _ in range(count)})
    frame = spark.createDataFrame(list(enumerate(texts)), "n int, s string")
    rows = pa.table({"c0": texts})

    def compare(column: Any, expression: Expression) -> None:
        spark_has = [_plain(row.r) for row in frame.select("n", column.alias("r")).orderBy("n").collect()]
        ours = evaluate(None, (expression,), rows).column(0).to_pylist()
        cases = zip(texts, spark_has, ours, strict=True)
        wrong = [case for case in cases if _shown(case[1]) != _shown(case[2])]
        assert not wrong, f"{len(wrong)} of {len(texts)} differ (text, Spark, ours): {wrong[:5]}"

    for ddl in SCHEMAS:
        schema = StructType.fromDDL(ddl)
        kind = arrow_type(schema.jsonValue())
        corrupt = "_corrupt_record" if "_corrupt_record" in schema.names else None
        name = function_name("from_json", [_TEXT], kind, {"fail": False, "corrupt": corrupt})
        compare(F.from_json("s", schema), Expression(f"{name}(c0)", kind))
    for path in ("$", "$.c.d", "$.l[1]"):
        compare(F.get_json_object("s", path), Expression(f"spark_get_json_object(c0, '{path}')", _TEXT))
    list_ = pa.list_(pa.field("element", _TEXT))
    members = function_name("json_tuple", [_TEXT], list_, MEMBERS)
    lateral = frame.select("n", "s", F.json_tuple("s", *MEMBERS).alias(*MEMBERS)).withColumn("all", F.array(*MEMBERS))
    frame = lateral
    compare(F.col("all"), Expression(f"{members}(c0)", list_))


@pytest.mark.long
def test_what_spark_keeps_of_damaged_json_is_kept(spark: SparkSession) -> None:
    _compare(spark, TEXTS_IN_THE_SUITE, seed=1)


@pytest.mark.soak
def test_what_spark_keeps_of_much_damaged_json_is_kept(spark: SparkSession) -> None:
    for seed in range(10):
        _compare(spark, 10_000, seed=seed)
