"""Window: functions over the rows around a row (OVER). Keys of the partition and the order, arguments and defaults become columns of a Map, and
the calls one Window node.

An aggregate of the whole partition needs no order and no frame. Unless a Window node reads the partitions anyway, it becomes an Aggregate that
is joined back to the rows by the keys, where null equals null. So a change costs only the rows of partitions whose aggregate has another value,
and every aggregate function that GROUP BY has can stand there. docs/decisions/0064-windows.md has the measurement.

Above a WindowGroupLimit of one row, every rank is 1. So `row_number() = 1` needs no Window node, and the rows are stored once.

                    Relation (without the added columns)
                       |
        Window(partition, order, calls)
                       |
        Join with Aggregate(partition, aggregates of the whole partition)
                       |
        Map(child's columns, keys, arguments, defaults)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial

import pyarrow as pa

from base.text.months import is_months
from base.text.timestamps import DAY_US
from base.text.type_names import sql_type
from engine.accumulators.order import has_codes
from engine.model.ordered import RANKING, Months, SortKey, Window, WindowCall, WindowFrame, WindowFunction
from engine.operators.aggregate_functions import FUNCTIONS, ExtremeFunction, ValuesFunction
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import DURATION, UnsupportedType, arrow_type, catalyst_type
from stepwell.lowering.context import Lowering
from stepwell.lowering.errors import UnsupportedPlan
from stepwell.lowering.relation import PlanOutput, Relation, pass_on
from stepwell.lowering.rules import aggregate, join
from stepwell.lowering.rules.aggregate_functions import Call, result_type, struct, value_where
from stepwell.lowering.rules.event_time import refuse_above
from stepwell.lowering.rules.join_condition import Condition, Equality
from stepwell.lowering.rules.limit import ARBITRARY_NOTE
from stepwell.lowering.rules.order import is_limit, window_expression
from stepwell.lowering.rules.sort_keys import note_ties, sort_key
from stepwell.lowering.rules.window_limit import first_rows
from stepwell.lowering.rules.window_rows import Orders, most_that_pass, partition_of, rows_of
from stepwell.lowering.trees import (
    attribute,
    call,
    canonical,
    conjunction,
    expression_id,
    field_of,
    literal,
    with_typed_nulls,
)

_RANKS: dict[str, WindowFunction] = {
    "RowNumber": "row_number",
    "Rank": "rank",
    "DenseRank": "dense_rank",
    "PercentRank": "percent_rank",
    "CumeDist": "cume_dist",
    "NTile": "ntile",
}
_VALUES: dict[str, WindowFunction] = {"First": "first_value", "Last": "last_value", "NthValue": "nth_value"}
_LISTS: frozenset[WindowFunction] = frozenset(
    name for name, function in FUNCTIONS.items() if isinstance(function, ValuesFunction) and function.follows_rows
)
_TIED = _LISTS | {"row_number", "ntile", "lead", "first_value", "last_value", "nth_value"}
"""The functions whose value depends on the order of rows that tie, whatever the frame is."""

_TOTALS = frozenset({"count", "sum", "avg", "min", "max"})
"""The functions that a Window computes of whole partitions as well as an Aggregate does, if it reads the partitions anyway."""
_FIRST_ROWS_MAX = 1_000
"""Spark too keeps the first rows of partitions apart up to that number."""
_TIES_REMEDY = "Order by a column. All rows tie in a constant, so to have all rows of the partition leave out ORDER BY and the frame"
_RANGE_REMEDY = "Use a number, a date or a timestamp in ORDER BY, and a literal distance in its type; or a ROWS frame"
_ONE_PARTITION = "a window without PARTITION BY: all its rows meet on one worker, and each step that changes one of them reads them all"


@dataclass(frozen=True, eq=False)
class _Function:
    """A function of the Window: the id of its column, the function's tree, its frame in Catalyst's form."""

    id: int
    tree: TreeNode
    frame: TreeNode

    @property
    def aggregate(self) -> bool:
        """Whether this is a function that GROUP BY has too and that does not depend on the order."""
        return self.tree.kind == "AggregateExpression" and self.tree.children[0].kind not in _VALUES

    @property
    def whole(self) -> bool:
        """Whether the frame of every row is its partition."""
        ends = self.frame["lower"].kind, self.frame["upper"].kind
        return ends == ("UnboundedPreceding$", "UnboundedFollowing$")


def lower(context: Lowering, node: TreeNode) -> Relation:
    refuse_above(node, "a function OVER rows", "Write it as a GROUP BY of a window of time; or leave withWatermark out")
    rows, orders = rows_of(context, node)
    items = [(item, window_expression(item)) for item in node["windowExpressions"]]
    known = {output.id for output in rows.outputs}
    columns = [PlanOutput(expression_id(item), tree) for item, tree in items if tree.kind != "WindowExpression"]
    if columns := [column for column in columns if column.id not in known]:
        rows = context.materialise(context.project(rows, (*pass_on(rows.outputs), *columns)))
    functions = [_function(item) for item, tree in items if tree.kind == "WindowExpression"]
    partition = partition_of(context, rows, node)
    is_one = _are_all_one(node.children[0], functions)
    visible = [output.id for output in rows.outputs]
    most = _most(context, functions) if orders.inherited and not orders.own else None
    if most is not None:
        reader = _reader(context, node, "row_number")
        rows = first_rows(context, rows, partition, orders.inherited, most, reader=reader)
        is_one = most == 1
    if is_one:
        ones = tuple(PlanOutput(function.id, literal("1", "integer")) for function in functions)
        return orders.result(Relation(rows.node, rows.columns, (*rows.outputs, *ones)))
    joined = [function for function in functions if function.aggregate and function.whole]
    others = [function for function in functions if function not in joined]
    if others and all(_is_total(context, rows, function) for function in joined):
        joined, others = [], functions  # the partitions are read anyway
    if not partition:
        context.note(_ONE_PARTITION)
    if joined:
        rows = _joined_back(context, rows, partition, joined, orders.both)
    if others:
        rows = _add_window(context, rows, partition, orders, others, reader=partial(_reader, context, node))
    by_id = {output.id: output for output in rows.outputs}
    wanted = [*visible, *(function.id for function in functions)]
    outputs = tuple(by_id[identifier] for identifier in wanted)
    return orders.result(Relation(rows.node, rows.columns, outputs, rows.predicates))


def _most(context: Lowering, functions: Sequence[_Function]) -> int | None:
    """How many rows of each partition can pass the filter above, if the only function is row_number() and it is worth knowing."""
    if len(functions) != 1 or functions[0].tree.kind != "RowNumber":
        return None
    most = most_that_pass(context, functions[0].id)
    return most if most is not None and 0 < most <= _FIRST_ROWS_MAX else None


def _reader(context: Lowering, node: TreeNode, function: WindowFunction) -> str:
    """How `dry-run` calls the function where it speaks of rows that tie."""
    if is_limit(context, node):
        return "a LIMIT or OFFSET in a subquery"
    return f"{'lag or lead' if function == 'lead' else function} OVER (...)"


def _function(item: TreeNode) -> _Function:
    function, spec = window_expression(item).children
    return _Function(expression_id(item), with_typed_nulls(function), spec["frameSpecification"])


def _are_all_one(below: TreeNode, functions: Sequence[_Function]) -> bool:
    """Whether the functions are ranks of rows of which only the first of each partition are there. Their peers are there too if the limit is
    one of rank() or dense_rank(), and the row_number() of these differs."""
    if below.kind != "WindowGroupLimit" or below["limit"] != 1:
        return False
    ranks = {"Rank", "DenseRank"} | ({"RowNumber"} if below["rankLikeFunction"].kind == "RowNumber" else set())
    return all(function.tree.kind in ranks for function in functions)


def _is_total(context: Lowering, rows: Relation, function: _Function) -> bool:
    """Whether this is one of `_TOTALS` over all values. max_by is a max of structs, and approx_count_distinct counts a value once."""
    call = aggregate.read_call(context, rows, function.tree)
    return call.function in _TOTALS and call.part is None and not call.distinct


def _joined_back(
    context: Lowering,
    rows: Relation,
    partition: Sequence[TreeNode],
    functions: Sequence[_Function],
    order: Sequence[TreeNode],
) -> Relation:
    """The rows with the aggregates of their partitions. Lists are in this order."""
    keys = [PlanOutput(context.fresh(), tree) for tree in partition]
    calls = [PlanOutput(function.id, function.tree) for function in functions]
    totals = aggregate.build_groups(context, rows, partition, [*keys, *calls], order)
    pairs = [Equality(key.tree, attribute(key.id, "", None), True) for key in keys]
    one = Equality(literal("0", "byte"), literal("0", "byte"), False)
    return join.inner(context, rows, totals, Condition(tuple(pairs) or (one,), (), ()))


def _add_window(
    context: Lowering,
    rows: Relation,
    partition: Sequence[TreeNode],
    orders: Orders,
    functions: Sequence[_Function],
    *,
    reader: Callable[[WindowFunction], str],
) -> Relation:
    columns = _Columns(context, rows)
    keys = tuple(columns.add(tree) for tree in partition)
    # All frames of a window without an order are ROWS, for which it does not matter whether rows tie.
    by, between = (orders.own, orders.inherited) if orders.given else (orders.inherited, ())
    sorts = [(columns.add(item.children[0]), item) for item in by]
    ties = [(columns.add(item.children[0]), item) for item in between]
    reads = [columns.read(function) for function in functions]
    below = columns.settle()
    types = context.builder.types(below.node)
    at = columns.positions
    sort_keys = tuple(sort_key(context, at[column], item, types[at[column]]) for column, item in sorts)
    tie_keys = tuple(sort_key(context, at[column], item, types[at[column]]) for column, item in ties)
    calls = tuple(_call(read, at, types, sort_keys) for read in reads)
    names = [reader(function) for function in _functions_over_ties(calls)]
    if names and not orders.both and names == [reader("row_number")]:
        context.note(ARBITRARY_NOTE)
    note_ties(context, below.node, tuple(at[key] for key in keys), (*sort_keys, *tie_keys), names)
    types_out = (*types, *(call.type for call in calls))
    made = Window(
        (below.node,), types_out, partition=tuple(at[key] for key in keys), order=sort_keys, calls=calls, ties=tie_keys
    )
    whole = {
        function.id: context.fresh() for function, read in zip(functions, reads, strict=True) if read.part is not None
    }
    relation = context.add(made, [*below.columns, *(whole.get(function.id, function.id) for function in functions)])
    by_id = {output.id: output.tree for output in relation.outputs}
    parts = [
        PlanOutput(function.id, field_of(by_id[whole[function.id]], read.part))
        for function, read in zip(functions, reads, strict=True)
        if read.part is not None
    ]
    return Relation(relation.node, relation.columns, (*relation.outputs, *parts))


@dataclass(frozen=True, eq=False, kw_only=True)
class _Read:
    """A call whose columns have numbers, before they have positions (`_Columns`). `aggregate`: the call of an aggregate function. `part`: the
    result is this field of the call's result."""

    function: WindowFunction
    argument: int | None
    frame: TreeNode
    offset: int = 0
    default: int | None = None
    ignore_nulls: bool = False
    aggregate: Call | None = None
    part: int | None = None

    @property
    def is_extreme(self) -> bool:
        """Whether it chooses the lowest or the highest value of its frame."""
        return self.aggregate is not None and isinstance(FUNCTIONS[self.aggregate.function], ExtremeFunction)


class _Columns:
    """The columns that a Window reads besides those of its input. Equal expressions are one column."""

    def __init__(self, context: Lowering, rows: Relation) -> None:
        self._context, self._rows = context, rows
        self._trees: list[TreeNode] = []
        self._known: dict[Hashable, int] = {}
        self.positions: tuple[int, ...] = ()

    def add(self, tree: TreeNode) -> int:
        """The number of the expression, whose column is at `positions[number]` after `settle`."""
        number = self._known.setdefault(canonical(tree), len(self._trees))
        if number == len(self._trees):
            self._trees.append(tree)
        return number

    def settle(self) -> Relation:
        """The rows with all these columns."""
        relation, self.positions = self._context.compute(self._rows, self._trees)
        return relation

    def read(self, function: _Function) -> _Read:
        """Adds what the function reads. Raises UnsupportedPlan for a function that is not supported."""
        tree = function.tree
        inner = tree.children[0] if tree.kind == "AggregateExpression" else tree
        if function.aggregate:
            return self._read_aggregate(function)
        if tree.kind in _RANKS:
            offset = _whole_number(tree.children[0]) if tree.kind == "NTile" else 0
            return _Read(function=_RANKS[tree.kind], argument=None, frame=function.frame, offset=offset)
        if tree.kind in ("Lag", "Lead"):
            value, offset_tree, default = tree.children
            offset = _whole_number(offset_tree) * (-1 if tree.kind == "Lag" else 1)
            default_column = None if default.kind == "Literal" and default["value"] is None else self.add(default)
            return _Read(
                function="lead",
                argument=self.add(value),
                frame=function.frame,
                offset=offset,
                default=default_column,
                ignore_nulls=tree["ignoreNulls"],
            )
        if inner.kind in _VALUES:
            return self._read_value(function, inner)
        raise UnsupportedPlan(
            "Window",
            f"the function {inner.kind} is not supported over a window",
            "Use one of the functions that docs/sql.md lists for OVER, or compute it outside",
        )

    def _read_aggregate(self, function: _Function) -> _Read:
        made = aggregate.read_call(self._context, self._rows, function.tree)
        argument = made.argument(self._catalyst_type)
        number = None if argument is None else self.add(argument)
        return _Read(function=made.function, argument=number, frame=function.frame, aggregate=made, part=made.part)

    def _read_value(self, function: _Function, inner: TreeNode) -> _Read:
        """first, last and nth_value. With FILTER, they are those of structs that are null for the rows that do not count."""
        filters = function.tree.children[1:] if function.tree is not inner else ()
        argument, ignores = inner.children[0], bool(inner["ignoreNulls"])
        kept = conjunction((*filters, *([call("IsNotNull", child=argument)] if filters and ignores else [])))
        if kept is not None:
            value = struct(("value", argument))
            argument = value_where(kept, value, self._catalyst_type(value))
        return _Read(
            function=_VALUES[inner.kind],
            argument=self.add(argument),
            frame=function.frame,
            offset=_whole_number(inner.children[1]) if inner.kind == "NthValue" else 0,
            ignore_nulls=ignores or bool(filters),
            part=0 if filters else None,
        )

    def _catalyst_type(self, tree: TreeNode) -> object:
        return catalyst_type(self._context.type_of(tree, self._rows))


def _call(read: _Read, at: Sequence[int], types: Sequence[pa.DataType], order: tuple[SortKey, ...]) -> WindowCall:
    argument = None if read.argument is None else at[read.argument]
    default = None if read.default is None else at[read.default]
    if argument is not None and default is not None and types[argument] != types[default]:
        raise UnsupportedPlan(
            "Window",
            f"the default of lead or lag has type {sql_type(types[default])}, and its value has type {sql_type(types[argument])}",
            "Give the fields of both the same names",
        )
    frame = _frame(read.frame, order, types)
    if read.function in RANKING or read.function == "lead":
        frame = WindowFrame("rows", None, None)  # it does not read the frame that Spark writes there
    type_ = _type(read, None if argument is None else types[argument])
    signed = read.is_extreme and pa.types.is_floating(type_)
    of = read.aggregate
    return WindowCall(
        read.function,
        argument,
        frame=frame,
        type=type_,
        offset=read.offset,
        default=default,
        ignore_nulls=read.ignore_nulls,
        signed_zeros=signed,
        distinct=of is not None and of.distinct,
        parameters=() if of is None else of.parameters,
        field=None if of is None else of.field,
    )


def _type(read: _Read, argument: pa.DataType | None) -> pa.DataType:
    """Spark's type of the result."""
    if read.aggregate is not None:
        return result_type(read.aggregate, argument)
    if read.function in RANKING:
        return pa.float64() if read.function in ("percent_rank", "cume_dist") else pa.int32()
    assert argument is not None
    return argument


def _frame(tree: TreeNode, order: tuple[SortKey, ...], types: Sequence[pa.DataType]) -> WindowFrame:
    unit = tree["frameType"]["object"]
    if unit.endswith("RowFrame$"):
        return WindowFrame("rows", *(_row_bound(tree[side]) for side in ("lower", "upper")))
    return WindowFrame("range", *(_range_bound(tree[side], order, types) for side in ("lower", "upper")))


def _row_bound(tree: TreeNode) -> int | None:
    if tree.kind.startswith("Unbounded"):
        return None
    return 0 if tree.kind == "CurrentRow$" else _whole_number(tree)


def _range_bound(
    tree: TreeNode, order: tuple[SortKey, ...], types: Sequence[pa.DataType]
) -> int | float | Months | None:
    """The distance in the form in which the engine stores values of the order's type."""
    if tree.kind.startswith("Unbounded"):
        return None
    if tree.kind == "CurrentRow$":
        return 0
    type_ = types[order[0].column] if len(order) == 1 else pa.null()
    distance = _literal_type(tree)
    value = tree["value"] if tree.kind == "Literal" else None
    if value is not None and distance is not None:
        if pa.types.is_floating(type_) and distance == type_:
            return float(value)
        if pa.types.is_decimal(type_) and has_codes(type_) and distance == type_:
            return int(Decimal(value).scaleb(type_.scale))
        whole = (pa.types.is_integer(type_) or is_months(type_)) and distance == type_
        days = pa.types.is_date32(type_) and distance == pa.int32()
        microseconds = (pa.types.is_timestamp(type_) or type_ == DURATION) and distance == DURATION
        if whole or days or microseconds:
            return int(value)
        if pa.types.is_date32(type_) and distance == DURATION:  # Spark takes an interval of days alone
            return int(value) // DAY_US
        if (pa.types.is_date32(type_) or pa.types.is_timestamp(type_)) and is_months(distance):
            return Months(int(value)) if int(value) else 0
    if not order:
        raise UnsupportedPlan("Window", "a RANGE frame at a distance from a constant is not supported", _TIES_REMEDY)
    raise UnsupportedPlan(
        "Window", f"a RANGE frame at a distance from {sql_type(type_)} is not supported", _RANGE_REMEDY
    )


def _literal_type(tree: TreeNode) -> pa.DataType | None:
    """The type of a literal; None if no column can have it."""
    try:
        return arrow_type(tree["dataType"])
    except (UnsupportedType, KeyError):
        return None


def _whole_number(tree: TreeNode) -> int:
    if tree.kind != "Literal" or tree["value"] is None:
        raise UnsupportedPlan(
            "Window", "a number of rows in OVER (...) that is not a literal is not supported", "Write the number itself"
        )
    return int(tree["value"])


def _functions_over_ties(calls: Sequence[WindowCall]) -> list[WindowFunction]:
    """The functions whose value depends on the order of rows that tie."""
    return [
        call.function for call in calls
        if call.function in _TIED or (call.function not in RANKING and call.frame.unit == "rows" and not call.frame.whole)
    ]  # fmt: skip
