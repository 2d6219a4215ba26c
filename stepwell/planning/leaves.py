"""Boundaries between plans: the form in which queries see a source or a view, and how leaves are distinguished.

A boundary is a `LogicalRDD` over an RDD without rows. The name of the RDD is that of the source or view. Spark's JSON of
a plan omits the RDD, and a self-join gives a leaf new attribute ids. So each leaf is recognised by the ids of its
columns, which are unique in a plan.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from base.text.months import is_months
from base.text.type_names import sql_type
from base.text.variants import FIELD, VARIANT, has_variants
from engine.expressions.types import relabel
from stepwell.catalyst.scala import scala_items
from stepwell.catalyst.tree import TreeNode, walk_all
from stepwell.catalyst.types import UnsupportedType, column_type
from stepwell.catalyst.variants import variant_literal
from stepwell.errors import Location, UnsupportedError

BOUNDARY_PREFIX = "stepwell:"

_NO_READERS = ("OneRowRelation", "Range", "UnionLoopRef")
"""Leaves that read nothing. A UnionLoopRef stands for rows of the plan itself."""

TABLE_KINDS = ("InMemoryRelation", "StreamingRelation", "StreamingRelationV2")
"""The leaves of an optimised plan that can stand for a batch table (batch_tables.py)."""


def boundary(name: str, schema: StructType, streaming: bool, spark: SparkSession) -> DataFrame:
    """The DataFrame that stands for the source or view `name` in queries."""
    # By its whole name: for each part of jvm.org.apache... Py4J would ask whether it is a class, and the JVM would look in 280 jars.
    jvm = spark._jvm
    assert jvm is not None
    context = getattr(jvm, "org.apache.spark.api.java.JavaSparkContext").toSparkContext(spark.sparkContext._jsc)
    row_class = getattr(jvm, "java.lang.Class").forName("org.apache.spark.sql.catalyst.InternalRow")
    rdd = context.emptyRDD(getattr(jvm, "scala.reflect.ClassTag").apply(row_class))
    rdd.setName(BOUNDARY_PREFIX + name)
    java_schema = spark._jsparkSession.parseDataType(schema.json())
    return DataFrame(spark._jsparkSession.internalCreateDataFrame(rdd, java_schema, streaming), spark)


def mark_leaves(
    tree: TreeNode, optimised: Any, spark: SparkSession, tables: Mapping[int, str], *, view: str, location: Location
) -> list[str]:
    """Adds a field to each leaf of `tree`: the name `rdd` to a LogicalRDD and to a batch table, and the rows `data` to a LocalRelation.

    `optimised` is the same plan in the JVM. `tables`: the handles of batch tables, by the expression id of the first column. Returns the names
    in pre-order. Raises UnsupportedError for a leaf of any other kind."""
    by_column: dict[int, Any] = {}
    without_columns: list[Any] = []
    for leaf in leaves_of(optimised):
        kind = leaf.getClass().getSimpleName().rstrip("$")
        if kind in _NO_READERS:
            continue
        if kind not in ("LogicalRDD", "LocalRelation") and not _is_table(leaf, tables):
            raise _foreign(kind, view, location)
        if leaf.output().isEmpty():
            without_columns.append(leaf)
        else:
            by_column[leaf.output().head().exprId().id()] = leaf
    names: list[str] = []
    for node in walk_all(tree):
        if node.kind in ("LogicalRDD", "LocalRelation", *TABLE_KINDS):
            output = node["output"]
            leaf = by_column[output[0]["exprId"]["id"]] if output else without_columns.pop(0)
            if node.kind in TABLE_KINDS:
                names.append(tables[_first_column_of_table(leaf)])
                node.fields["rdd"] = names[-1]
            elif node.kind == "LogicalRDD":
                names.append(_name(leaf, view, location))
                node.fields["rdd"] = names[-1]
            else:
                node.fields["data"] = _rows_or_refusal(leaf, spark, view, location)
    return names


def _is_table(leaf: Any, tables: Mapping[int, str]) -> bool:
    return not leaf.output().isEmpty() and _first_column_of_table(leaf) in tables


def _first_column_of_table(leaf: Any) -> int:
    """The expression id of the first column of what a leaf stands for. Spark also puts one leaf in place of a table and of a projection over it
    that only gives its columns other names. That leaf has the ids of the projection."""
    if leaf.getClass().getSimpleName() == "InMemoryRelation":
        leaf = leaf.cacheBuilder().logicalPlan()
    return int(leaf.output().head().exprId().id())


def leaves_of(plan: Any) -> Iterator[Any]:
    """The leaves of a plan of the JVM, and of its subqueries."""
    subqueries = plan.subqueriesAll()
    for part in (plan, *scala_items(subqueries)):
        leaves = part.collectLeaves()
        yield from scala_items(leaves)


def _name(leaf: Any, view: str, location: Location) -> str:
    name = leaf.rdd().name()
    if name is None or not name.startswith(BOUNDARY_PREFIX):
        raise UnsupportedError(
            "the query reads rows of an RDD",
            "Give the rows to spark.createDataFrame as a list, or write them in SQL: SELECT * FROM VALUES (1, 'a'), (2, 'b') AS t(id, name).",
            view=view,
            location=location,
        )
    return str(name[len(BOUNDARY_PREFIX) :])


def _rows_or_refusal(leaf: Any, spark: SparkSession, view: str, location: Location) -> pa.Table:
    try:
        return _rows(leaf, spark)
    except UnsupportedType as error:
        raise UnsupportedError(
            f"rows that are written in the definition have a column of the type {error.name}, which is not supported",
            "Write the values as texts in a view of its own, and use parse_json in a view over it.",
            view=view,
            location=location,
        ) from None


def _rows(leaf: Any, spark: SparkSession) -> pa.Table:
    """A LocalRelation's rows in columns c0, c1, .... If it has no column, c0 holds zeros, because Arrow would lose the number of rows."""
    count = leaf.data().size()
    if leaf.output().isEmpty():
        return pa.table({"c0": pa.array([0] * count, pa.int8())})
    if leaf.isStreaming():
        assert count == 0, "only an empty relation can be streaming: its rows were folded away"
        leaf = leaf.copy(leaf.output(), leaf.data(), False, leaf.stream())
    dataset = getattr(spark._jvm, "org.apache.spark.sql.classic.Dataset")
    frame = DataFrame(dataset.ofRows(spark._jsparkSession, leaf), spark)
    types = [column_type(field["type"]) for field in json.loads(leaf.schema().json())["fields"]]
    if any(is_months(type_) or has_variants(type_) for type_ in types):
        names = [f"c{index}" for index in range(len(types))]
        frame = frame.toDF(*names)  # two columns may have one name
        frame = frame.select(
            *(_for_arrow(frame[name], type_).alias(name) for name, type_ in zip(names, types, strict=True))
        )
    rows = frame.toArrow()
    return pa.table(
        {f"c{index}": _column_of(rows.column(index), type_, leaf, index) for index, type_ in enumerate(types)}
    )


def _for_arrow(column: Column, type_: pa.DataType) -> Column:
    """The column in a type that Spark can give as Arrow."""
    if is_months(type_):  # Arrow's type for them, which Spark would choose, is unknown to pyarrow
        return column.cast("interval month").cast("int").cast("bigint")
    return F.lit(None) if has_variants(type_) else column


def _column_of(column: pa.ChunkedArray, type_: pa.DataType, leaf: Any, index: int) -> pa.ChunkedArray | pa.Array:
    """The column in the circuit's Arrow form; `index` is its place in the leaf. Raises UnsupportedType."""
    if is_months(type_):
        return relabel(column, type_)
    if not has_variants(type_):
        return column.cast(type_)
    if type_ != VARIANT:
        raise UnsupportedType(sql_type(type_))
    cells = (
        None if row.isNullAt(index) else variant_literal(row.getVariant(index)) for row in scala_items(leaf.data())
    )
    texts = list(cells)
    if any(isinstance(text, bytes) for text in texts):
        raise UnsupportedType("VARIANT of a date or another kind that JSON has not")
    return pa.array([None if text is None else {FIELD: text} for text in texts], VARIANT)


def _foreign(kind: str, view: str, location: Location) -> UnsupportedError:
    return UnsupportedError(
        f"the query reads something that is neither a table of this project nor rows written in it ({kind})",
        "Send these rows to a Kafka topic and declare it as a table, or write them as VALUES.",
        view=view,
        location=location,
    )
