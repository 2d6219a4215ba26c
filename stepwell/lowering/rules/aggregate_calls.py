"""The aggregate functions: the engine's form of a call in the plan, and Spark's type of its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from engine.model.circuit import AggregateFunction
from stepwell.catalyst.analysed import Analysed
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import DECIMAL_DIGITS_MAX
from stepwell.lowering.errors import UnsupportedPlan
from stepwell.lowering.trees import call, conjunction, expression_id, literal

_FUNCTIONS: dict[str, AggregateFunction] = {
    "Count": "count",
    "Sum": "sum",
    "Average": "avg",
    "Min": "min",
    "Max": "max",
}
# Spark's types for decimals: a sum has ten more digits, and an average has four more digits after the point.
_SUM_DIGITS_MORE = 10
_AVERAGE_SCALE_MORE = 4

_ORDER_REMEDY = (
    "Its answer depends on the order of rows, which a table does not have: use min or max for a value, or dropDuplicates([keys]) "
    "for one whole row of each key"
)
_PIVOT_REMEDY = "Write one aggregate for each value: sum(x) FILTER (WHERE pivoted = 'value') AS value, with GROUP BY"
_INSTEAD: dict[str, str] = {
    **dict.fromkeys(("First", "Last", "CollectList", "ListAgg", "Mode", "MaxBy", "MinBy"), _ORDER_REMEDY),
    "PivotFirst": _PIVOT_REMEDY,
}
_ELSE = "Use count, sum, avg, min or max, or compute it outside"
# The SQL names that are not the name of the class with underscores.
_SQL_NAMES = {
    "StddevSamp": "stddev_samp",
    "StddevPop": "stddev_pop",
    "VarianceSamp": "var_samp",
    "VariancePop": "var_pop",
    "HyperLogLogPlusPlus": "approx_count_distinct",
    "ApproximatePercentile": "percentile_approx",
    "CovSample": "covar_samp",
    "CovPopulation": "covar_pop",
    "ListAgg": "listagg",
}


@dataclass(frozen=True, eq=False)
class Call:
    """An aggregate call. `arguments` is empty for count(*). Only the rows for which `filter` is true are aggregated."""

    function: AggregateFunction
    arguments: tuple[TreeNode, ...]
    distinct: bool
    filter: TreeNode | None

    def counted(self) -> TreeNode | None:
        """The condition under which a row is aggregated; None if every row is. It tests for nulls only if there are
        several arguments, because the engine itself skips the nulls of a single one."""
        present = [call("IsNotNull", child=argument) for argument in self.arguments] if len(self.arguments) > 1 else []
        return conjunction((*([self.filter] if self.filter else []), *present))

    def argument(self, type_of: Callable[[TreeNode], Any]) -> TreeNode | None:
        """The one expression that the engine aggregates; None means count(*). It is null where `counted` is not true.
        `type_of` returns the type of an argument in Catalyst's form."""
        condition = self.counted()
        value = self.arguments[0] if len(self.arguments) == 1 else None
        if condition is None:
            return value
        if value is None:
            return call(
                "If",
                predicate=condition,
                trueValue=literal("true", "boolean"),
                falseValue=literal(None, "boolean"),
            )
        return call("If", predicate=condition, trueValue=value, falseValue=literal(None, type_of(value)))


def read_call(tree: TreeNode, number: int | None, analysed: Analysed) -> Call:
    """The call of an AggregateExpression. `number` is the column that numbers the copies in Spark's rewrite of several count(DISTINCT), if
    the call is in the upper Aggregate of that rewrite."""
    function, *filters = tree.children
    condition = filters[0] if filters else None
    if number is not None and _of_one_row(function, condition, number):
        return Call("max", function.children[:1], False, condition)
    name = _FUNCTIONS.get(function.kind)
    if name is None:
        if function.kind == "PivotFirst":
            text = "PIVOT is not supported yet"
        else:
            text = f"the aggregate function {_spoken(function.kind, analysed)} is not supported"
        raise UnsupportedPlan(function.kind, text, _INSTEAD.get(function.kind, _ELSE))
    if function.get("evalMode") not in (None, "ANSI"):
        text = f"{name} in {function['evalMode']} mode (try_{name}, or ANSI mode switched off) is not supported"
        raise UnsupportedPlan(function.kind, text, f"Use {name} over a wider type, such as DECIMAL(38, 0)")
    arguments = function.children
    if name == "count" and all(argument.kind == "Literal" and argument["value"] is not None for argument in arguments):
        arguments = ()
    distinct = tree["isDistinct"] and name not in ("min", "max")
    return Call(name, arguments, distinct, condition)


def result_type(made: Call, argument: pa.DataType | None) -> pa.DataType:
    """Spark's type of the result. `argument` is None for count(*)."""
    if made.function == "count":
        return pa.int64()
    assert argument is not None
    if made.function in ("min", "max") and (pa.types.is_nested(argument) or pa.types.is_null(argument)):
        raise UnsupportedPlan(
            "Aggregate",
            f"{made.function} of {argument} is not supported yet",
            f"Use {made.function} of a part of it, such as a field or element",
        )
    if made.function in ("min", "max") or pa.types.is_null(argument):
        return argument
    if pa.types.is_decimal(argument):
        return _decimal(made.function, argument.precision, argument.scale)
    if pa.types.is_floating(argument):
        return pa.float64()
    if pa.types.is_integer(argument):
        return pa.int64() if made.function == "sum" else pa.float64()
    raise UnsupportedPlan(
        "Aggregate",
        f"{made.function} of {argument} is not supported yet",
        "Turn the value into a number first, for example seconds of an interval",
    )


def _decimal(function: str, precision: int, scale: int) -> pa.DataType:
    if function == "sum":
        return pa.decimal128(min(precision + _SUM_DIGITS_MORE, DECIMAL_DIGITS_MAX), scale)
    return pa.decimal128(
        min(precision + _AVERAGE_SCALE_MORE, DECIMAL_DIGITS_MAX), min(scale + _AVERAGE_SCALE_MORE, DECIMAL_DIGITS_MAX)
    )


def _of_one_row(function: TreeNode, condition: TreeNode | None, number: int) -> bool:
    """Whether this is `first(x) FILTER (WHERE gid = 0)` over the inner of the two Aggregates that Spark makes of
    several count(DISTINCT). `number` is the id of gid. In that inner Aggregate each group has exactly one row with
    gid = 0, so both first and max return the value of that row."""
    if function.kind != "First" or condition is None or condition.kind != "EqualTo":
        return False
    column, zero = condition.children
    return column.kind == "AttributeReference" and expression_id(column) == number and zero.get("value") == "0"


def _spoken(kind: str, analysed: Analysed) -> str:
    """The function's name in SQL: CollectList -> collect_list."""
    if kind == "First" and "First" not in analysed.kinds and "AnyValue" in analysed.kinds:
        return "any_value"  # the optimiser has replaced it by another class
    if kind in _SQL_NAMES:
        return _SQL_NAMES[kind]
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in kind).lstrip("_")
