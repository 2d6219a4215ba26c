"""The table of aggregate functions: for each class of Catalyst, what the engine aggregates for it.

The engine takes one argument. Several become a struct:

    corr(x, y)                                   a struct (x, y)
    max_by(x, y), min_by(x, y)                   max or min of structs (y, x), of which x is the result
    first(a), first(b)                           min of structs (is a null, a, is b null, b): both are of one row
    last(a), last(b)                             max of structs (a, b)
    listagg(x) WITHIN GROUP (ORDER BY k DESC)    all structs (k, x) in order, of which x is taken

The name of a field says whether it is in descending order (`order_bytes.DESCENDING`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from base.text.months import is_months
from engine.accumulators.order_bytes import DESCENDING
from engine.model.aggregates import AggregateFunction
from engine.operators.aggregate_functions import FUNCTIONS
from engine.operators.aggregate_types import list_of
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.errors import UnsupportedPlan
from stepwell.lowering.keys import holds_floating, normal, normal_key
from stepwell.lowering.trees import call, conjunction, literal

Parameter = str | float | bytes


def value_where(condition: TreeNode, value: TreeNode, type_: object) -> TreeNode:
    """The value in the rows for which the condition is true, and null in the others. `type_`: of the value, in Catalyst's form."""
    return call("If", predicate=condition, trueValue=value, falseValue=literal(None, type_))


@dataclass(frozen=True, eq=False)
class Call:
    """An aggregate call of the engine. `value`: what is aggregated; None if rows are counted. Only the rows for which `condition` is true are
    aggregated, and of those only the ones whose value is not null. `part`: the result is this field of the engine's result. `field`,
    `parameters`: see the engine's `ValuesCall`. `many`: the result is an array of results."""

    function: AggregateFunction
    value: TreeNode | None
    distinct: bool = False
    condition: TreeNode | None = None
    part: int | None = None
    field: int | None = None
    parameters: tuple[Parameter, ...] = ()
    many: bool = False
    rows: tuple[TreeNode, ...] = ()
    """The arguments of count(DISTINCT a, b), of which the value is a struct."""

    def argument(self, type_of: Callable[[TreeNode], object]) -> TreeNode | None:
        """The one expression that the engine aggregates; None means count(*). It is null for the rows that are not aggregated. `type_of`
        returns the type of an expression in Catalyst's form."""
        if self.condition is None:
            return self.value
        if self.value is None:
            return value_where(self.condition, literal("true", "boolean"), "boolean")
        return value_where(self.condition, self.value, type_of(self.value))


@dataclass(frozen=True, eq=False)
class WrittenCall:
    """A call as it is in the plan. `type_of`: the type of an expression. `beside`: for first and last, the arguments of all calls of the same
    function with the same FILTER. `order`: the ORDER BY of the rows below."""

    function: TreeNode
    distinct: bool
    filter: TreeNode | None
    type_of: Callable[[TreeNode], pa.DataType]
    beside: Sequence[TreeNode] = ()
    order: Sequence[TreeNode] = ()

    @property
    def children(self) -> tuple[TreeNode, ...]:
        return self.function.children

    def normal(self, tree: TreeNode) -> TreeNode:
        return normal(tree, self.type_of(tree))

    def where(self, *present: TreeNode) -> TreeNode | None:
        """The condition under which a row counts: that of FILTER, and that these are not null."""
        tests = [call("IsNotNull", child=tree) for tree in present]
        return conjunction((*([self.filter] if self.filter else []), *tests))

    def order_fields(self, orders: Sequence[TreeNode]) -> list[tuple[str, TreeNode]]:
        """The fields of a struct whose order is this ORDER BY. A null is below all values; where it shall not be, a field before says where."""
        fields: list[tuple[str, TreeNode]] = []
        for number, item in enumerate(orders):
            key = self.normal(item.children[0])
            descending = "Descending" in str(item["direction"])
            prefix = DESCENDING if descending else "key"
            if ("NullsFirst" in str(item["nullOrdering"])) == descending:
                fields.append((f"{prefix}null{number}", call("IsNull", child=key)))
            fields.append((f"{prefix}{number}", key))
        return fields


Reader = Callable[[WrittenCall], Call]


def struct(*fields: tuple[str, TreeNode]) -> TreeNode:
    """A struct of these named values."""
    children = tuple(part for name, value in fields for part in (literal(name, "string"), value))
    return TreeNode("CreateNamedStruct", {"children": list(children)}, children)


def _count(written: WrittenCall) -> Call:
    arguments = written.children
    if all(argument.kind == "Literal" and argument["value"] is not None for argument in arguments):
        one = literal("true", "boolean") if written.distinct else None  # a value that is the same in every row
        return Call("count", one, written.distinct, written.filter)
    if len(arguments) == 1:
        return Call("count", arguments[0], written.distinct, written.filter)
    if not written.distinct:
        return Call("count", None, False, written.where(*arguments))
    rows = tuple(written.normal(argument) for argument in arguments)
    value = struct(*((f"key{i}", key) for i, key in enumerate(rows)))
    return Call("count", value, True, written.where(*arguments), rows=rows)


def _linear(function: AggregateFunction, tried: AggregateFunction) -> Reader:
    def read(written: WrittenCall) -> Call:
        mode = written.function.get("evalMode")
        if mode not in (None, "ANSI", "TRY"):
            is_interval = is_months(type_ := written.type_of(written.children[0])) or pa.types.is_duration(type_)
            raise UnsupportedPlan(
                written.function.kind,
                f"{function} with ANSI mode switched off is not supported",
                f"Use {function}" + ("" if is_interval else " over a wider type, such as DECIMAL(38, 0)"),
            )
        return Call(tried if mode == "TRY" else function, written.children[0], written.distinct, written.filter)

    return read


def _extreme(function: AggregateFunction) -> Reader:
    def read(written: WrittenCall) -> Call:
        value = written.children[0]
        type_ = written.type_of(value)
        if DESCENDING in str(type_):
            raise UnsupportedPlan(
                written.function.kind,
                f"{function} of a struct with a field {DESCENDING!r}... is not supported",
                "Rename it",
            )
        if pa.types.is_nested(type_) and holds_floating(type_):
            # Zeros of both signs are equal inside, so what follows them decides. The engine's order has -0.0 below 0.0.
            rows = struct(("key", normal_key(value, type_)), ("value", value))
            return Call(function, rows, False, written.where(value), part=1)
        return Call(function, value, False, written.filter)

    return read


def _by(function: AggregateFunction) -> Reader:
    """max_by and min_by. Of several rows with the same y, max_by has the greatest x and min_by the least."""

    def read(written: WrittenCall) -> Call:
        value, by = written.children
        rows = struct(("key", normal_key(by, written.type_of(by))), ("value", value))
        return Call(function, rows, False, written.where(by), part=1)

    return read


def _by_k(written: WrittenCall) -> Call:
    """max_by(x, y, k) and min_by(x, y, k). Of several rows with the same y, the least x comes first."""
    value, by, number = written.children
    if number.kind != "Literal":
        raise UnsupportedPlan(
            "MaxMinByK", "max_by with a number that is not a constant is not supported", "Write a literal"
        )
    name = "key" if written.function["reverse"] else f"{DESCENDING}key"
    rows = struct((name, written.normal(by)), ("value", written.normal(value) if written.distinct else value))
    return Call("first_k", rows, written.distinct, written.where(by), field=1, parameters=(float(number["value"]),))


def _first(written: WrittenCall) -> Call:
    return _of_row("min", written)


def _last(written: WrittenCall) -> Call:
    return _of_row("max", written)


def _of_row(function: AggregateFunction, written: WrittenCall) -> Call:
    """first and last: the values of the first or last row in order. Without ORDER BY, the order is that of the arguments."""
    value = written.children[0]
    nullable = not written.function["ignoreNulls"]
    fields = written.order_fields(written.order)
    part = 0
    for number, argument in enumerate(written.beside if nullable else [value]):
        if nullable and function == "min":  # so that a null is chosen only if there is nothing else
            fields.append((f"null{number}", call("IsNull", child=argument)))
        if argument is value:
            part = len(fields)
        fields.append((f"value{number}", argument))
    return Call(function, struct(*fields), False, written.filter if nullable else written.where(value), part=part)


def _moment(function: AggregateFunction) -> Reader:
    def read(written: WrittenCall) -> Call:
        _nulls_for_nothing(written)
        return Call(function, written.children[0], written.distinct, written.filter)

    return read


def _pair(function: AggregateFunction, *, y_first: bool = False) -> Reader:
    """`y_first`: the function is written f(y, x)."""

    def read(written: WrittenCall) -> Call:
        _nulls_for_nothing(written)
        x, y = reversed(written.children) if y_first else written.children
        return Call(function, struct(("x", x), ("y", y)), written.distinct, written.where(x, y))

    return read


def _nulls_for_nothing(written: WrittenCall) -> None:
    if written.function.get("nullOnDivideByZero", True) is False:
        raise UnsupportedPlan(
            written.function.kind,
            "a variance or correlation under spark.sql.legacy.statisticalAggregate is not supported",
            "Leave the setting out",
        )


def _collect(function: AggregateFunction, *, once: bool) -> Reader:
    def read(written: WrittenCall) -> Call:
        value = written.children[0]
        once_ = once or written.distinct
        if once_:
            value = written.normal(value)
        fields = [] if once_ else written.order_fields(written.order)
        nulls = written.function.get("ignoreNulls") is False
        if not fields and not nulls:
            return Call(function, value, written.distinct, written.filter)
        condition = written.filter if nulls else written.where(written.children[0])
        return Call(function, struct(*fields, ("value", value)), written.distinct, condition, field=len(fields))

    return read


def _listagg(written: WrittenCall) -> Call:
    value, separator, *orders = written.children
    if separator.kind != "Literal":
        raise UnsupportedPlan(
            "ListAgg", "listagg with a separator that is not a constant is not supported", "Write a literal"
        )
    is_text = pa.types.is_string(written.type_of(value))
    between: Parameter = separator["value"] if separator["value"] is not None else ("" if is_text else b"")
    fields = written.order_fields(orders or ([] if written.distinct else written.order))
    if not fields:
        return Call("listagg", value, written.distinct, written.filter, parameters=(between,))
    rows = struct(*fields, ("value", value))
    condition = written.where(value)
    return Call("listagg", rows, written.distinct, condition, field=len(fields), parameters=(between,))


def _values(function: AggregateFunction) -> Reader:
    def read(written: WrittenCall) -> Call:
        value = written.normal(written.children[0]) if written.distinct else written.children[0]
        return Call(function, value, written.distinct, written.filter)

    return read


def _mode(written: WrittenCall) -> Call:
    greatest = written.function.get("reverseOpt") is False
    value = written.normal(written.children[0])
    return Call("mode", value, False, written.filter, parameters=(float(greatest),))


def _percentile(function: AggregateFunction) -> Reader:
    def read(written: WrittenCall) -> Call:
        value, fraction = written.children[:2]
        if written.function.get("legacyCalculation"):
            raise UnsupportedPlan(
                written.function.kind,
                "percentile_disc under spark.sql.legacy.percentileDiscCalculation is not supported",
                "Leave the setting out",
            )
        if function == "percentile_cont":
            _one(written.children[2])
        if function != "percentile_approx" and pa.types.is_duration(written.type_of(value)):
            raise UnsupportedPlan(
                written.function.kind,
                "a percentile of an interval is not supported yet",
                "Use percentile_approx, or a number of seconds",
            )
        if written.distinct:
            value = written.normal(value)
        fractions = fraction.children if fraction.kind == "CreateArray" else (fraction,)
        if not all(item.kind == "Literal" for item in fractions):
            raise UnsupportedPlan(
                written.function.kind,
                "a percentile whose fraction is not a constant is not supported",
                "Write a literal",
            )
        numbers = tuple(float(item["value"]) for item in fractions)
        descending = float(bool(written.function.get("reverse")))
        many = fraction.kind == "CreateArray"
        return Call(function, value, written.distinct, written.filter, parameters=(descending, *numbers), many=many)

    return read


def _one(frequency: TreeNode) -> None:
    if frequency.kind != "Literal" or float(frequency["value"] or 0) != 1:
        raise UnsupportedPlan(
            "Percentile",
            "percentile with a frequency is not supported yet",
            "Repeat the rows, or compute it from sums by value",
        )


def _approximate_count(written: WrittenCall) -> Call:
    """The exact number, which is within every error that may be asked for. Spark's sketch cannot take a value back."""
    return Call("count", written.normal(written.children[0]), True, written.filter)


READERS: Mapping[str, Reader] = {
    "Count": _count,
    "Sum": _linear("sum", "try_sum"),
    "Average": _linear("avg", "try_avg"),
    "Min": _extreme("min"),
    "Max": _extreme("max"),
    "MinBy": _by("min"),
    "MaxBy": _by("max"),
    "MaxMinByK": _by_k,
    "First": _first,
    "Last": _last,
    "VariancePop": _moment("var_pop"),
    "VarianceSamp": _moment("var_samp"),
    "StddevPop": _moment("stddev_pop"),
    "StddevSamp": _moment("stddev_samp"),
    "RegrReplacement": _moment("regr_sxx"),
    "CovPopulation": _pair("covar_pop"),
    "CovSample": _pair("covar_samp"),
    "Corr": _pair("corr"),
    "RegrSlope": _pair("regr_slope", y_first=True),
    "RegrIntercept": _pair("regr_intercept", y_first=True),
    "RegrR2": _pair("regr_r2", y_first=True),
    "RegrSXY": _pair("regr_sxy", y_first=True),
    "Skewness": _values("skewness"),
    "Kurtosis": _values("kurtosis"),
    "CollectList": _collect("collect_list", once=False),
    "CollectSet": _collect("collect_set", once=True),
    "ListAgg": _listagg,
    "Mode": _mode,
    "BitAndAgg": _values("bit_and"),
    "BitOrAgg": _values("bit_or"),
    "BitXorAgg": _values("bit_xor"),
    "Percentile": _percentile("percentile_cont"),
    "PercentileDisc": _percentile("percentile_disc"),
    "ApproximatePercentile": _percentile("percentile_approx"),
    "HyperLogLogPlusPlus": _approximate_count,
}


def result_type(made: Call, argument: pa.DataType | None) -> pa.DataType:
    """Spark's type of the result of the engine's call. `argument` is None for count(*)."""
    value = pa.null() if argument is None else argument if made.field is None else argument.field(made.field).type
    type_ = FUNCTIONS[made.function].type_of(value)
    if type_ is None:
        raise UnsupportedPlan(
            "Aggregate",
            f"{made.function} of {value} is not supported yet",
            "Turn the value into a number first, for example months of an interval",
        )
    return list_of(type_) if made.many else type_
