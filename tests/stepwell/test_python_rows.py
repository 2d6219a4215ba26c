"""Rows that a definition has in Python are rows of its plan, and the same as Spark makes of them."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import ArrayType, IntegerType, MapType, StringType, StructField, StructType, TimestampType

from stepwell.catalyst.tree import walk_all
from stepwell.planning.python_rows import python_rows_in_plans
from tests.stepwell.test_plans import resolved, view

MOMENT, DAY = datetime.datetime(2024, 1, 2, 3, 4, 5, 678901), datetime.date(2024, 1, 2)
NESTED = StructType(
    [
        StructField("m", MapType(StringType(), IntegerType())),
        StructField("s", StructType([StructField("f", IntegerType()), StructField("g", StringType())])),
        StructField("l", ArrayType(TimestampType())),
    ]
)
CASES: list[tuple[Any, Any]] = [
    ([(1, "x"), (2, None)], "k long, v string"),
    ([(1, "x"), (None, "y")], ["k", "v"]),
    ([{"a": 1, "b": "x"}, {"b": "y"}], None),
    ([Row(a=1, b=[1, 2]), Row(a=2, b=[])], None),
    ([1, 2, None], "int"),
    (["a", "b"], StringType()),
    ([], "a int, b string"),
    (((1, 2), (3, 4)), ["a", "b"]),
    ([(MOMENT, DAY, Decimal("1.50"), b"x", True, 1.5)], "t timestamp, d date, p decimal(10,2), b binary, o boolean, x double"),
    ([({"k": 1}, {"f": 1, "g": "s"}, [MOMENT]), (None, None, [])], NESTED),
    ([(MOMENT, datetime.timedelta(days=1, seconds=3))], "t timestamp_ntz, i interval day to second"),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "schema"), CASES)
def test_rows_are_those_that_spark_makes(spark: SparkSession, rows: Any, schema: Any) -> None:
    expected = spark.createDataFrame(rows, schema)
    for given in (rows, iter(rows)):
        with python_rows_in_plans():
            found = spark.createDataFrame(given, schema)
        assert found._jdf.queryExecution().optimizedPlan().getClass().getSimpleName() == "LocalRelation"
        assert found.schema == expected.schema and found.collect() == expected.collect()


@pytest.mark.parametrize(
    ("rows", "schema"), [([(1,)], "a int, b int"), ([("x",)], "a int"), ([(None,)], "a int not null")]
)
def test_what_is_wrong_with_rows_is_told_as_by_spark(spark: SparkSession, rows: Any, schema: str) -> None:
    def told() -> str:
        with pytest.raises(PySparkException) as raised:
            spark.createDataFrame(rows, schema)
        return str(raised.value)

    expected = told()
    with python_rows_in_plans():
        assert told() == expected


def test_other_data_goes_the_way_of_spark(spark: SparkSession) -> None:
    frame = spark.range(3).toPandas()
    rdd = spark.sparkContext.parallelize([(1, "x")])
    with python_rows_in_plans():
        assert spark.createDataFrame(frame).count() == 3 and spark.createDataFrame(rdd, ["a", "b"]).count() == 1


def test_a_definition_joins_rows_that_it_has_in_python(tmp_path: Path, spark: SparkSession) -> None:
    text = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
spark = SparkSession.active()

@dp.materialized_view
def named():
    names = spark.createDataFrame([("AA", "American"), ("UA", None)], ["carrier", "name"])
    return spark.table("flights").join(names, "carrier")
"""
    (flow,) = view(resolved(tmp_path, spark, {"v.py": text}), "named").flows
    (leaf,) = [node for node in walk_all(flow.tree) if node.kind == "LocalRelation"]
    assert sorted(leaf["data"].to_pylist(), key=repr) == [{"c0": "AA", "c1": "American"}, {"c0": "UA", "c1": None}]
