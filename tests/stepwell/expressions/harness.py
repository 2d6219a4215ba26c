"""Spark against us, cell by cell.

Spark's answer is that of the optimised expression on one row, through py4j: a row that raises does not hide the others, and no job is
started. It is the answer of the Java that Spark generates, because its queries run that. Spark's interpreter has other answers in a few
places: `map_concat`, for example, raises the error of a map that follows a NULL. Ours is `emit` and `evaluate` over the rows for which
Spark has an answer, all at once, and over each row for which it raises, alone: we must raise the same class of error.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import py4j.protocol
import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from engine.expressions.evaluate import UNFORESEEN, ExpressionError, evaluate
from engine.model.node import Expression
from stepwell.catalyst.read import read
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import arrow_type
from stepwell.lowering.expressions import fragment_of
from stepwell.lowering.expressions.fragment import Fragment
from tests.stepwell.expressions.edges import DDL, edge_table

RAISES = "raises"

FLOAT_TO_DECIMAL = re.compile(r"(try_)?cast\((d|e|f|f2) as decimal\([0-9]+, ?[0-9]+\)\)", re.IGNORECASE)
FEWEST_DIGITS_SINCE_JAVA = 19
# Java leaves the last bit of these to the processor. The result of 1 / tan(x) can then differ in two.
OF_THE_PROCESSOR = re.compile(r"\b(sin|cos|tan|cot|sec|csc)\(")
UNITS_IN_THE_LAST_PLACE = 2

_NAMELESS = ("None", "java.lang.ArithmeticException", "java.lang.IllegalArgumentException")


@dataclass
class Oracle:
    """The edge table in both worlds. The optimiser cannot see through the view, so it folds nothing of the table."""

    spark: SparkSession
    table: pa.Table = field(default_factory=edge_table)

    def __post_init__(self) -> None:
        frame = self.spark.createDataFrame(self.table, StructType.fromDDL(DDL))
        execution = frame._jdf.queryExecution()
        # Py4J finds a method by the name of its class, and all generated classes have one name. Option.map calls the right one.
        option = self.spark.sparkContext._jvm.scala.Option
        self.rows = [option.apply(row) for row in execution.executedPlan().executeCollect()]
        opaque = self.spark._jsparkSession.internalCreateDataFrame(execution.toRdd(), frame._jdf.schema(), False)
        DataFrame(opaque, self.spark).createOrReplaceTempView("edge")
        names = self.table.column_names
        self.input = self.table.rename_columns([f"c{index}" for index in range(len(names))])
        self.columns = {name: (index, self.table.schema.field(name).type) for index, name in enumerate(names)}

    def lower(self, sql: str) -> tuple[Any, TreeNode, Expression]:
        """The Java expression, bound to the table's row; its tree; ours."""
        bound, tree, ours = self._lowered(sql)
        return bound, tree, ours.expression

    def _lowered(self, sql: str) -> tuple[Any, TreeNode, Fragment]:
        plan = self.spark.sql(f"SELECT {sql} AS r FROM edge")._jdf.queryExecution().optimizedPlan()
        tree = read(plan)
        below = tree.children[0]
        assert tree.kind == "Project" and below.kind in ("LogicalRDD", "Filter"), plan.toString()
        assert not any(child.kind != "LogicalRDD" for child in below.children), plan.toString()
        projected = tree["projectList"][0]
        names = {n["exprId"]["id"]: n["name"] for n in projected.walk() if n.kind == "AttributeReference"}
        jvm = self.spark.sparkContext._jvm
        output = plan.child().output()
        sequence = getattr(jvm.org.apache.spark.sql.catalyst.expressions, "package$AttributeSeq")(output)
        bind = jvm.org.apache.spark.sql.catalyst.expressions.BindReferences.bindReference
        bound = bind(plan.projectList().apply(0), sequence, False)
        return bound, projected, fragment_of(projected, lambda identity: self.columns[names[identity]])

    def expected(self, bound: Any) -> list[Any]:
        """A plain value a row, or (RAISES, error class)."""
        type_ = json.loads(bound.dataType().json())
        java_type = bound.dataType()
        makes_map = "map" in bound.toString()
        cells: list[Any] = []
        # PySpark's own handler asks the JVM a dozen questions about each exception, and most rows of some expressions raise one.
        with mock.patch("py4j.java_gateway.get_return_value", py4j.protocol.get_return_value):
            project = self._projection(bound)
            for row in self.rows:
                try:
                    cells.append(_from_java(project(row), type_, java_type))
                except Py4JJavaError as error:
                    cells.append((RAISES, _error_class(error.java_exception)))
                    if makes_map:  # it has kept the entries that it had
                        project = self._projection(bound)
        return cells

    def _projection(self, bound: Any) -> Callable[[Any], Any]:
        """The expression as a function from one of `rows` to Spark's internal value. As in Spark's own projections, the interpreter takes the
        place of code that cannot be generated, such as that of a time zone that does not exist."""
        java_type, fresh = bound.dataType(), bound.clone()
        jvm = self.spark.sparkContext._jvm
        expressions = jvm.scala.jdk.javaapi.CollectionConverters.asScala([fresh]).toSeq()
        generator = jvm.org.apache.spark.sql.catalyst.expressions.codegen.GenerateMutableProjection
        try:
            projection = generator.generate(expressions, False)
        except Py4JJavaError:
            return lambda row: fresh.eval(row.get())
        return lambda row: row.map(projection).get().get(0, java_type)

    def check(self, sql: str) -> None:
        bound, _, fragment = self._lowered(sql)
        ours = fragment.expression
        assert ours.type == arrow_type(json.loads(bound.dataType().json())), "the derived type differs from Spark's"
        expected = self.expected(bound)
        good = [row for row, cell in enumerate(expected) if not _raised(cell)]
        assert fragment.raises or len(good) == len(expected), (
            f"{sql}: Spark raises on some rows; the rule needs raises=True"
        )
        try:
            result = evaluate(None, (ours,), self.input.take(pa.array(good, pa.int64())))
            assert result.schema.field(0).type == ours.type
            actual = plain(result.column(0))
        except ExpressionError:
            actual = [self._alone(ours, row) for row in good]
        wrong = [
            (self._inputs(sql, row), f"spark {expected[row]!r}", f"ours {cell!r}")
            for row, cell in zip(good, actual, strict=True)
            if not same(expected[row], cell, UNITS_IN_THE_LAST_PLACE if OF_THE_PROCESSOR.search(sql) else 0)
            and not self._java_adds_a_digit(sql, expected[row], cell)
        ]
        for row, cell in enumerate(expected):
            if _raised(cell):
                ours_cell = self._alone(ours, row)
                # Some of Spark's errors are Java's own, without a class: then any of ours will do.
                nameless = cell[1] in _NAMELESS or cell[1].startswith("_LEGACY_ERROR_TEMP_")
                unforeseen = ours_cell == (RAISES, UNFORESEEN)
                other = not nameless and _raised(ours_cell) and ours_cell[1].split(".")[0] != cell[1].split(".")[0]
                if not _raised(ours_cell) or unforeseen or other:
                    wrong.append((self._inputs(sql, row), f"spark {cell!r}", f"ours {ours_cell!r}"))
        assert not wrong, (
            f"{sql}\n{ours.sql[:2000]}\n" + "\n".join(map(str, wrong[:12])) + f"\n{len(wrong)} rows differ"
        )

    def _java_adds_a_digit(self, sql: str, spark: Any, ours: Any) -> bool:
        """Whether a DOUBLE or FLOAT that was cast to DECIMAL differs only because Java writes some doubles with a digit too many before its
        version 19: the texts of both decimals are the same double."""
        if FLOAT_TO_DECIMAL.fullmatch(sql) is None or spark is None or ours is None or float(spark) != float(ours):
            return False
        jvm = self.spark.sparkContext._jvm
        return int(jvm.java.lang.Runtime.version().feature()) < FEWEST_DIGITS_SINCE_JAVA

    def _alone(self, ours: Expression, row: int) -> Any:
        read = set(re.findall(r"\bc\d+\b", ours.sql))
        columns = [name for name in self.input.column_names if name in read]
        table = self.input.select(columns) if columns and ours.column is None else self.input
        try:
            return plain(evaluate(None, (ours,), table.slice(row, 1)).column(0))[0]
        except ExpressionError as error:
            return (RAISES, error.error_class)

    def _inputs(self, sql: str, row: int) -> dict[str, Any]:
        words = set(re.findall(r"\w+", sql))
        return {name: plain(self.table.column(name).slice(row, 1))[0] for name in self.columns if name in words}


@dataclass(frozen=True)
class _ArrayOf:
    """What `_from_java` asks of the JVM's type of an array."""

    element: Any

    def elementType(self) -> Any:
        return self.element


def _error_class(exception: Any) -> str:
    """Spark's name of the error, or that of the Java class if it is none of Spark's."""
    try:
        return str(exception.getCondition())
    except Py4JError:
        return str(exception.getClass().getName())


def _raised(cell: Any) -> bool:
    return isinstance(cell, tuple) and bool(cell) and cell[0] == RAISES


def _from_java(value: Any, type_: Any, java_type: Any) -> Any:
    if value is None:
        return None
    if isinstance(type_, dict) and type_["type"] == "map":
        parts = zip(
            ("key", "value"),
            (value.keyArray(), value.valueArray()),
            (java_type.keyType(), java_type.valueType()),
            strict=True,
        )
        keys, values = (
            _from_java(part, {"type": "array", "elementType": type_[f"{name}Type"]}, _ArrayOf(inner))
            for name, part, inner in parts
        )
        return list(zip(keys, values, strict=True))
    if isinstance(type_, dict) and type_["type"] == "array":
        inner = java_type.elementType()
        return [
            None if value.isNullAt(i) else _from_java(value.get(i, inner), type_["elementType"], inner)
            for i in range(value.numElements())
        ]
    if isinstance(type_, dict):
        cells = {}
        for i, f in enumerate(type_["fields"]):
            inner = java_type.apply(i).dataType()
            cells[f["name"]] = None if value.isNullAt(i) else _from_java(value.get(i, inner), f["type"], inner)
        return cells
    if type_ == "float":
        return float(np.float32(value))
    if type_ == "string":
        return value.toString()
    if type_.startswith("decimal"):
        return f"{value.toJavaBigDecimal():f}"
    return value


def plain(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    return [_plain(value) for value in column]


def _plain(value: pa.Scalar) -> Any:
    if not value.is_valid:
        return None
    type_ = value.type
    if pa.types.is_timestamp(type_) or pa.types.is_duration(type_) or pa.types.is_date(type_):
        return value.value
    if pa.types.is_map(type_):
        return [(_plain(item["key"]), _plain(item["value"])) for item in value.values]
    if pa.types.is_list(type_):
        return [_plain(item) for item in value.values]
    if pa.types.is_struct(type_):
        return {name: _plain(item) for name, item in value.items()}
    if pa.types.is_decimal(type_):
        return f"{value.as_py():f}"
    return value.as_py()


def same(left: Any, right: Any, ulps: int) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        if left == right:
            return math.copysign(1, left) == math.copysign(1, right)
        return ulps > 0 and abs(left - right) <= ulps * math.ulp(left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(same(a, b, ulps) for a, b in zip(left, right, strict=True))
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(same(a, b, ulps) for a, b in zip(left, right, strict=True))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k], ulps) for k in left)
    if isinstance(left, str) and isinstance(right, str):
        return left == right
    return type(left) is type(right) and left == right
