"""Spark against us, cell by cell.

Spark's answer is that of the optimised expression on one row at a time, so that a row that raises does not hide the others. It is the answer
of the Java that Spark generates, because its queries run that. Spark's interpreter has other answers in a few places: `map_concat`, for
example, raises the error of a map that follows a NULL. Ours is `emit` and `evaluate` over the rows for which Spark has an answer, all at
once, and over each row for which it raises, alone: we must raise the same class of error.

Each call of the JVM costs 0.2 ms. So the rows are gone through in the JVM, by `RowByRow.java`, and Spark plans the cases of a module together.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from engine.expressions.evaluate import UNFORESEEN, ExpressionError, evaluate
from engine.model.node import Expression
from stepwell.catalyst.read import read
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import arrow_type
from stepwell.lowering.expressions import fragment_of
from stepwell.lowering.expressions.fragment import Fragment, UnsupportedExpression
from tests.stepwell.expressions.edges import DDL, edge_table

RAISES = "raises"
CASES_IN_A_PLAN = 60  # Spark's parser refuses a text that is too long
ALONE = re.compile(r"window\(")  # Spark takes one of them in a query

FLOAT_TO_DECIMAL = re.compile(r"(try_)?cast\((d|e|f|f2) as decimal\([0-9]+, ?[0-9]+\)\)", re.IGNORECASE)
FEWEST_DIGITS_SINCE_JAVA = 19
# Java leaves the last bit of these to the processor. The result of 1 / tan(x) can then differ in two.
OF_THE_PROCESSOR = re.compile(r"\b(sin|cos|tan|cot|sec|csc)\(")
UNITS_IN_THE_LAST_PLACE = 2

_NAMELESS = ("None", "java.lang.ArithmeticException", "java.lang.IllegalArgumentException")


@dataclass(frozen=True)
class Lowered:
    """The Java expression, bound to the table's row; its tree; ours."""

    bound: Any
    tree: TreeNode
    fragment: Fragment


@dataclass
class Oracle:
    """The edge table in both worlds. The optimiser cannot see through the view, so it folds nothing of the table."""

    spark: SparkSession
    table: pa.Table = field(default_factory=edge_table)
    planned: dict[str, Lowered] = field(default_factory=dict)

    def __post_init__(self) -> None:
        frame = self.spark.createDataFrame(self.table, StructType.fromDDL(DDL))
        execution = frame._jdf.queryExecution()
        self.rows = execution.executedPlan().executeCollect()
        opaque = self.spark._jsparkSession.internalCreateDataFrame(execution.toRdd(), frame._jdf.schema(), False)
        DataFrame(opaque, self.spark).createOrReplaceTempView("edge")
        names = self.table.column_names
        self.input = self.table.rename_columns([f"c{index}" for index in range(len(names))])
        self.columns = {name: (index, self.table.schema.field(name).type) for index, name in enumerate(names)}

    def lower(self, sql: str) -> Lowered:
        return self.planned[sql] if sql in self.planned else self._lowered([sql])[0]

    def plan(self, cases: Sequence[str]) -> None:
        """Lowers the cases together, for `lower` and `check` to find. A case that cannot be lowered is left to its own test."""
        together = [sql for sql in dict.fromkeys(cases) if sql not in self.planned and not ALONE.match(sql)]
        for at in range(0, len(together), CASES_IN_A_PLAN):
            self._plan(together[at : at + CASES_IN_A_PLAN])

    def _plan(self, part: Sequence[str]) -> None:
        """One that cannot be lowered would leave all of its part to plans of their own, so the part is halved until it is alone."""
        try:
            self.planned.update(zip(part, self._lowered(part), strict=True))
        except (PySparkException, UnsupportedExpression):
            if len(part) > 1:
                half = len(part) // 2
                self._plan(part[:half])
                self._plan(part[half:])

    def _lowered(self, cases: Sequence[str]) -> list[Lowered]:
        columns = ", ".join(f"{sql} AS r{index}" for index, sql in enumerate(cases))
        plan = self.spark.sql(f"SELECT {columns} FROM edge")._jdf.queryExecution().optimizedPlan()
        tree = read(plan)
        below = tree.children[0]
        assert tree.kind == "Project" and below.kind in ("LogicalRDD", "Filter"), plan.toString()
        assert not any(child.kind != "LogicalRDD" for child in below.children), plan.toString()
        jvm = self.spark.sparkContext._jvm
        output = plan.child().output()
        sequence = getattr(jvm, "org.apache.spark.sql.catalyst.expressions.package$AttributeSeq")(output)
        bind = getattr(jvm, "org.apache.spark.sql.catalyst.expressions.BindReferences").bindReference
        found = []
        for index, projected in enumerate(tree["projectList"]):
            names = {n["exprId"]["id"]: n["name"] for n in projected.walk() if n.kind == "AttributeReference"}
            fragment = fragment_of(projected, lambda identity, names=names: self.columns[names[identity]])
            found.append(Lowered(bind(plan.projectList().apply(index), sequence, False), projected, fragment))
        assert len(found) == len(cases)
        return found

    def expected(self, bound: Any) -> list[Any]:
        """A plain value a row, or (RAISES, error class)."""
        type_ = json.loads(bound.dataType().json())
        cells = json.loads(_row_by_row(self.spark).answers(bound, self.rows))
        return [(RAISES, cell[RAISES]) if isinstance(cell, dict) else _from_json(cell, type_) for cell in cells]

    def check(self, sql: str) -> None:
        lowered = self.lower(sql)
        bound, fragment = lowered.bound, lowered.fragment
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
        return int(getattr(jvm, "java.lang.Runtime").version().feature()) < FEWEST_DIGITS_SINCE_JAVA

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


@cache
def _row_by_row(spark: SparkSession) -> Any:
    """An object of the class in `RowByRow.java`."""
    jvm = spark.sparkContext._jvm
    compiler = getattr(jvm, "org.codehaus.janino.SimpleCompiler")()
    compiler.setParentClassLoader(getattr(jvm, "org.apache.spark.util.Utils").getContextOrSparkClassLoader())
    compiler.cook(Path(__file__).with_name("RowByRow.java").read_text())
    return compiler.getClassLoader().loadClass("stepwell.RowByRow").newInstance()


def _raised(cell: Any) -> bool:
    return isinstance(cell, tuple) and bool(cell) and cell[0] == RAISES


def _from_json(cell: Any, type_: Any) -> Any:
    """A plain value from what `RowByRow.java` writes."""
    if cell is None:
        return None
    if type_ == "binary":
        return bytes.fromhex(cell)
    if isinstance(type_, str):
        return cell
    match type_["type"]:
        case "array":
            return [_from_json(item, type_["elementType"]) for item in cell]
        case "map":
            keys, values = (
                [_from_json(item, type_[name]) for item in part]
                for part, name in zip(cell, ("keyType", "valueType"), strict=True)
            )
            return list(zip(keys, values, strict=True))
        case "struct":
            return {f["name"]: _from_json(item, f["type"]) for item, f in zip(cell, type_["fields"], strict=True)}
    raise AssertionError(f"a cell of type {type_}")


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
