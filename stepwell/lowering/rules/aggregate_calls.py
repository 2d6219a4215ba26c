"""The aggregate calls in a plan as calls of the engine, and the refusal of functions that have none."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

import pyarrow as pa

from stepwell.catalyst.analysed import Analysed
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.errors import UnsupportedPlan
from stepwell.lowering.keys import refuse_variants
from stepwell.lowering.rules.aggregate_functions import READERS, Call, WrittenCall
from stepwell.lowering.trees import canonical, expression_id, with_typed_nulls

_SKETCH_REMEDY = "A sketch cannot take a row back: use approx_count_distinct, percentile_approx or count with GROUP BY, which are exact here"
_INSTEAD: dict[str, str] = {
    **dict.fromkeys(("HistogramNumeric", "ApproxTopK"), "Group by the value, or by its range, and count"),
    **dict.fromkeys(
        ("CountMinSketchAgg", "HllSketchAgg", "HllUnionAgg", "ThetaSketchAgg", "BitmapConstructAgg"), _SKETCH_REMEDY
    ),
    "Product": "Use exp(sum(ln(x))) for positive x",
}
_ELSE = "Use one of the aggregate functions that docs/sql.md lists, or compute it outside"
# The SQL names that are not the name of the class with underscores.
_SQL_NAMES = {
    "CountMinSketchAgg": "count_min_sketch",
    "ListAgg": "listagg",
}


def read_calls(
    trees: Iterable[TreeNode],
    number: int | None,
    analysed: Analysed,
    type_of: Callable[[TreeNode], pa.DataType],
    order: Sequence[TreeNode],
) -> dict[Hashable, Call]:
    """The different AggregateExpressions in `trees`, in order of appearance, and the call of each.

    `number` is the column that numbers the copies in Spark's rewrite of several count(DISTINCT), if the calls are in the upper Aggregate of that
    rewrite. `type_of`: the type of an expression over the rows below. `order`: the ORDER BY of the rows below, as SortOrders."""
    written = {
        canonical(part): with_typed_nulls(part)
        for tree in trees
        for part in tree.walk()
        if part.kind == "AggregateExpression"
    }
    beside: dict[Hashable, dict[Hashable, TreeNode]] = {}
    for part in written.values():
        if _is_of_row(part) and not (number is not None and _of_one_row(part, number)):
            beside.setdefault(_row(part), {}).setdefault(canonical(_argument(part)), _argument(part))
    calls: dict[Hashable, Call] = {}
    for key, part in written.items():
        function, *filters = part.children
        condition = filters[0] if filters else None
        if number is not None and _of_one_row(part, number):
            calls[key] = Call("max", function.children[0], False, condition)  # of the one value that there is
            continue
        reader = READERS.get(function.kind)
        if reader is None:
            raise _refusal(function, analysed)
        if part["isDistinct"]:
            for argument in function.children:
                if argument.kind != "SortOrder":
                    refuse_variants(type_of(argument))
        arguments = tuple(beside.get(_row(part), {}).values())
        calls[key] = reader(
            WrittenCall(
                _same(function, arguments),
                bool(part["isDistinct"]),
                filter=condition,
                type_of=type_of,
                beside=arguments,
                order=order,
            )
        )
    return calls


def _is_of_row(part: TreeNode) -> bool:
    return part.children[0].kind in ("First", "Last") and not part.children[0]["ignoreNulls"]


def _argument(part: TreeNode) -> TreeNode:
    return part.children[0].children[0]


def _row(part: TreeNode) -> Hashable:
    """The calls with the same of these are of one row."""
    return (part.children[0].kind, tuple(canonical(filter_) for filter_ in part.children[1:]))


def _same(function: TreeNode, arguments: Sequence[TreeNode]) -> TreeNode:
    """The function, whose argument is the very one in `arguments` that equals it."""
    if not _first_or_last(function):
        return function
    equal = [argument for argument in arguments if canonical(argument) == canonical(function.children[0])]
    return TreeNode(function.kind, function.fields, (equal[0], *function.children[1:])) if equal else function


def _first_or_last(function: TreeNode) -> bool:
    return function.kind in ("First", "Last")


def _refusal(function: TreeNode, analysed: Analysed) -> UnsupportedPlan:
    text = f"the aggregate function {sql_name_of(function.kind, analysed)} is not supported"
    return UnsupportedPlan(function.kind, text, _INSTEAD.get(function.kind, _ELSE))


def _of_one_row(part: TreeNode, number: int) -> bool:
    """Whether this is `first(x) FILTER (WHERE gid = 0)` over the inner of the two Aggregates that Spark makes of
    several count(DISTINCT). `number` is the id of gid. In that inner Aggregate each group has exactly one row with
    gid = 0, so both first and max return the value of that row."""
    function, *filters = part.children
    if function.kind != "First" or not filters or filters[0].kind != "EqualTo":
        return False
    column, zero = filters[0].children
    return column.kind == "AttributeReference" and expression_id(column) == number and zero.get("value") == "0"


def sql_name_of(kind: str, analysed: Analysed) -> str:
    """The function's name in SQL: HistogramNumeric -> histogram_numeric."""
    if kind in _SQL_NAMES:
        return _SQL_NAMES[kind]
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in kind).lstrip("_")
