"""Spark's types in Arrow, and what `read` adds to Spark's JSON, over plans of every shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from stepwell.catalyst.read import read
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import UnsupportedType, arrow_schema, arrow_type
from tests.stepwell.expressions.harness import Oracle


def test_ddl_becomes_a_schema(spark: SparkSession) -> None:
    schema = arrow_schema(
        "a INT NOT NULL, b DECIMAL(12,3), c ARRAY<STRUCT<x: TIMESTAMP, y: BINARY>>, d INTERVAL DAY TO SECOND, e TIMESTAMP_NTZ"
    )
    inner = pa.struct([("x", pa.timestamp("us", "UTC")), ("y", pa.binary())])
    assert schema == pa.schema(
        [
            pa.field("a", pa.int32(), nullable=False),
            ("b", pa.decimal128(12, 3)),
            ("c", pa.list_(pa.field("element", inner))),
            ("d", pa.duration("us")),
            ("e", pa.timestamp("us")),
        ]
    )


@pytest.mark.parametrize(
    "spark_type",
    [
        "void",
        "interval",
        "string collate UTF8_LCASE",
        {"type": "map", "keyType": "string", "valueType": "interval"},
    ],
    ids=str,
)
def test_a_type_without_a_form_is_refused_by_name(spark_type: Any) -> None:
    with pytest.raises(UnsupportedType) as caught:
        arrow_type(spark_type)
    assert caught.value.name in ("interval", spark_type)


@pytest.mark.parametrize("names", [("v", "V"), ("v", "w", "v"), ("É", "a", "b", "B")])
def test_a_struct_in_which_case_alone_tells_fields_apart_is_refused(names: tuple[str, ...]) -> None:
    """DuckDB does not tell them apart."""
    fields = [{"name": name, "type": "integer", "nullable": True, "metadata": {}} for name in names]
    struct = {"type": "struct", "fields": fields}
    with pytest.raises(UnsupportedType, match=r"two fields of one name \(.*names that differ in more than case"):
        arrow_type({"type": "array", "elementType": struct, "containsNull": True})


def _everywhere(node: TreeNode) -> Iterator[TreeNode]:
    yield node
    for value in (*node.children, *node.fields.values()):
        yield from _within(value)


def _within(value: Any) -> Iterator[TreeNode]:
    if isinstance(value, TreeNode):
        yield from _everywhere(value)
    elif isinstance(value, list):
        for item in value:
            yield from _within(item)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT i + 1, try_add(i, j) FROM edge WHERE try_cast(s AS int) > 1",
        "SELECT sum(i + 1), count(DISTINCT cast(s AS int)) FROM edge GROUP BY d + e, s HAVING max(i * 2) > 3",
        "SELECT a.i FROM edge a JOIN edge b ON a.i + 1 = b.i AND try_subtract(a.j, b.j) > 0 WHERE a.dt > date'2020-01-01'",
        "SELECT i FROM edge WHERE j IN (SELECT k + 1 FROM edge WHERE x = X'00') AND l > (SELECT max(try_multiply(i, 2)) FROM edge)",
        "SELECT i, row_number() OVER (PARTITION BY s ORDER BY i + 1 DESC) FROM edge",
        "SELECT y FROM edge LATERAL VIEW explode(array(i, j + 1)) AS y",
        "SELECT i FROM edge EXCEPT SELECT j + 1 FROM edge",
        "SELECT i + 1 FROM edge UNION ALL SELECT try_divide(l, 2) FROM edge",
        "SELECT count(DISTINCT i), count(DISTINCT j + 1) FROM edge",
        "SELECT * FROM (SELECT i, s FROM edge) PIVOT (sum(i + 1) FOR s IN ('a', 'b'))",
        "SELECT window(ts, '10 minutes', '5 minutes'), count(*) FROM edge GROUP BY 1",
        "SELECT i FROM edge WHERE i NOT IN (SELECT j + 1 FROM edge) OR EXISTS (SELECT 1 FROM edge e2 WHERE e2.i = edge.j + 1)",
        "SELECT date'2020-01-01', X'00', array(date'2020-01-01') FROM VALUES (1), (2)",
        "SELECT i FROM edge ORDER BY i + 1 LIMIT 5",
    ],
)
def test_read_knows_the_mode_of_every_operation(oracle: Oracle, spark: SparkSession, sql: str) -> None:
    plan = spark.sql(sql)._jdf.queryExecution().optimizedPlan()
    nodes = list(_everywhere(read(plan)))
    modes = {node["evalMode"] for node in nodes if node.kind in ("Add", "Subtract", "Multiply", "Divide", "Cast")}
    assert modes <= {"ANSI", "TRY"} and ("TRY" in modes) == ("try_" in sql)
    raw = [
        node["value"]
        for node in nodes
        if node.kind == "Literal" and node["dataType"] in ("date", "binary", "timestamp")
    ]
    assert all(value is None or isinstance(value, int | bytes) for value in raw)
