"""Aggregate: grouping keys and arguments become columns of a Map, and the calls become one Aggregate node. What is
computed from the calls (`sum(x) / count(*) + 1`) becomes a pending projection.

                    Relation (pending: result expressions)
                       |
        Aggregate(group columns, calls)
                       |
        Map(group keys as keys, arguments)      FILTER (WHERE f) -> if(f, argument, null)
                       |
                     child

Three forms become other nodes. An Aggregate without calls becomes a Distinct of the keys. The form that Spark makes of a
dropDuplicates (`first` of every other column) becomes a deduplication again. If count(DISTINCT a, b) is the only call,
the Aggregate becomes a count over a Distinct. Above a withWatermark, both are a ClosingAggregate.

`aggregate_functions.py` says what each function aggregates. If the rows below are sorted, first, last and lists take
that order (`ordered_rows.py`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from engine.model.aggregates import Aggregate, AggregateCall, ValuesCall
from engine.model.event_time import ClosingAggregate
from engine.model.node import Types
from engine.model.rows import Distinct
from engine.operators.aggregate_functions import FUNCTIONS, ExtremeFunction, ValuesFunction
from stepwell.catalyst.analysed import Analysed
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import catalyst_type
from stepwell.lowering.context import Lowering
from stepwell.lowering.keys import normal_key
from stepwell.lowering.relation import PlanOutput, Relation
from stepwell.lowering.rules import deduplicate, sessions
from stepwell.lowering.rules.aggregate_calls import read_calls
from stepwell.lowering.rules.aggregate_functions import Call, result_type
from stepwell.lowering.rules.distinct_order import in_order_of_use, number_column
from stepwell.lowering.rules.event_time import Closing, closing_of
from stepwell.lowering.rules.order import needs_order
from stepwell.lowering.rules.ordered_rows import keep_order
from stepwell.lowering.rules.pivot import rewrite_pivot
from stepwell.lowering.trees import canonical, expression_id, field_of, transform, unalias


def build_aggregate(context: Lowering, node: TreeNode) -> Relation:
    """An Aggregate whose functions are all Spark's own."""
    number = number_column(node, context.analysed)
    if number is not None:
        node = in_order_of_use(node, number)
    closing = closing_of(context, node)
    child, order = keep_order(context, node)
    results = [PlanOutput(expression_id(item), rewrite_pivot(unalias(item))) for item in node["aggregateExpressions"]]
    grouping: Sequence[TreeNode] = node["groupingExpressions"]
    if values := _duplicates_dropped(node, context.analysed):
        keys = [expression_id(key) for key in grouping if not _is_constant(key)]
        kept = deduplicate.by_key(context, child, keys, order)
        return context.project(kept, (PlanOutput(output.id, values[output.id]) for output in results))
    if node.get("sessionWindow") is not None:
        child, grouping = sessions.build_sessions(context, child, grouping, node["sessionWindow"], closing)
    type_of = partial(context.type_over_outputs, relation=child)
    calls = read_calls([output.tree for output in results], number, context.analysed, type_of, order)
    if needs_order(node) and not order:
        context.note(
            "first, last and lists depend on the order of rows in Spark; here that is the order of their values, or of an ORDER BY in the "
            "subquery below (docs/sql.md, Aggregate functions)"
        )
    only = next(iter(calls.values())) if len(calls) == 1 else None
    if only is not None and only.function == "count" and only.distinct and only.rows:
        return _count_distinct_rows(context, _Grouped(child, grouping, calls, results, closing))
    return _aggregate(context, _Grouped(child, grouping, calls, results, closing))


def build_groups(
    context: Lowering,
    child: Relation,
    grouping: Sequence[TreeNode],
    results: Sequence[PlanOutput],
    order: Sequence[TreeNode] = (),
) -> Relation:
    """One row per group of `child` with these results, which are expressions over the keys and over aggregate calls. `order`: that of the
    rows, as SortOrders over them."""
    trees = [output.tree for output in results]
    calls = read_calls(trees, None, context.analysed, partial(context.type_over_outputs, relation=child), order)
    return _aggregate(context, _Grouped(child, grouping, calls, results, None))


def read_call(context: Lowering, rows: Relation, tree: TreeNode) -> Call:
    """The call of an AggregateExpression over `rows`."""
    (call,) = read_calls([tree], None, context.analysed, partial(context.type_over_outputs, relation=rows), ()).values()
    return call


@dataclass(frozen=True, eq=False)
class _Grouped:
    """What an aggregate has: the rows, the trees of the group, the calls by their trees, and the results over both. `closing`: how
    its groups are closed, above a withWatermark."""

    child: Relation
    grouping: Sequence[TreeNode]
    calls: dict[Hashable, Call]
    results: Sequence[PlanOutput]
    closing: Closing | None


def _aggregate(context: Lowering, of: _Grouped) -> Relation:
    child, calls, closing = of.child, of.calls, of.closing
    keys = _keys(context, child, of.grouping)
    positions = {canonical(key.tree): position for position, key in reversed(list(enumerate(keys)))}
    arguments: list[PlanOutput] = []

    def type_of(tree: TreeNode) -> Any:
        return catalyst_type(context.type_over_outputs(tree, child))

    for call in calls.values():
        argument = call.argument(type_of)
        if argument is not None and canonical(argument) not in positions:
            positions[canonical(argument)] = len(keys) + len(arguments)
            arguments.append(PlanOutput(context.fresh(), argument))
    below = context.materialise(context.project(child, (*keys, *arguments)))
    types = context.builder.types(below.node)
    group = tuple(range(len(keys)))
    made: list[AggregateCall] = []
    places: list[int] = []
    for call in calls.values():
        argument = call.argument(type_of)
        position = None if argument is None else positions[canonical(argument)]
        one = _aggregate_call(call, position, result_type(call, None if position is None else types[position]))
        if call.part is None or one not in made:
            made.append(one)
        places.append(made.index(one) if call.part is not None else len(made) - 1)
    if made or not keys or closing is not None:
        types_out = types[: len(keys)] + tuple(call.type for call in made)
        identifiers = [*(key.id for key in keys), *(context.fresh() for _ in made)]
        relation = context.add(_node(below.node, types_out, group, tuple(made), closing), identifiers)
    else:
        relation = context.add(Distinct((below.node,), types), below.columns)
    return _results(context, relation, of, places)


def _node(
    below: int, types: Types, group: tuple[int, ...], calls: tuple[AggregateCall, ...], closing: Closing | None
) -> Aggregate | ClosingAggregate:
    if closing is None:
        return Aggregate((below,), types, group, calls)
    return ClosingAggregate((below, closing.watermark), types, group, calls, closing.key)


def _distinct(below: int, types: Types, closing: Closing | None) -> Distinct | ClosingAggregate:
    """The distinct rows; the first columns are the keys."""
    if closing is None:
        return Distinct((below,), types)
    return ClosingAggregate((below, closing.watermark), types, tuple(range(len(types))), (), closing.key)


def _aggregate_call(call: Call, position: int | None, type_: pa.DataType) -> AggregateCall:
    if isinstance(FUNCTIONS[call.function], ValuesFunction):
        return ValuesCall(
            call.function, position, distinct=call.distinct, type=type_, field=call.field, parameters=call.parameters
        )
    signed = isinstance(FUNCTIONS[call.function], ExtremeFunction) and pa.types.is_floating(type_)
    return AggregateCall(call.function, position, call.distinct, type_, signed_zeros=signed)


def _count_distinct_rows(context: Lowering, of: _Grouped) -> Relation:
    """count(DISTINCT a, b): counts the distinct rows of keys and arguments in which no argument is null. In other rows all arguments become
    null, so that a group which has only such rows is there. Without keys there is a row in any case."""
    child, closing = of.child, of.closing
    first = next(iter(of.calls.values()))
    keys = _keys(context, child, of.grouping)
    assert first.condition is not None

    def type_of(tree: TreeNode) -> Any:
        return catalyst_type(context.type_over_outputs(tree, child))

    if keys:
        found = [Call("count", row, condition=first.condition).argument(type_of) for row in first.rows]
    else:
        child, found = context.filter(child, first.condition), list(first.rows)
    rows = (*keys, *(PlanOutput(context.fresh(), argument) for argument in found if argument is not None))
    below = context.materialise(context.project(child, rows))
    types = context.builder.types(below.node)
    distinct = context.add(_distinct(below.node, types, closing), below.columns)
    count = AggregateCall("count", len(keys) if keys else None, False, result_type(first, None))
    node = _node(distinct.node, (*types[: len(keys)], count.type), tuple(range(len(keys))), (count,), closing)
    relation = context.add(node, [*(key.id for key in keys), context.fresh()])
    return _results(context, relation, of, [0])


def _keys(context: Lowering, child: Relation, grouping: Sequence[TreeNode]) -> list[PlanOutput]:
    keys = []
    for tree in grouping:
        keys.append(PlanOutput(context.fresh(), normal_key(tree, context.type_over_outputs(tree, child))))
    return keys


def _results(context: Lowering, relation: Relation, of: _Grouped, places: Sequence[int]) -> Relation:
    """The result expressions over the columns of the Aggregate node, which are the keys and then the calls. `places`: which of the latter are
    the results of the group's calls."""
    columns = [output.tree for output in relation.outputs]
    known: dict[Hashable, TreeNode] = {
        canonical(tree): column for tree, column in zip(of.grouping, columns, strict=False)
    }
    for (tree, call), place in zip(of.calls.items(), places, strict=True):
        column = columns[len(of.grouping) + place]
        known[tree] = column if call.part is None else field_of(column, call.part)

    def replace(tree: TreeNode) -> TreeNode | None:
        if tree.kind == "Literal" and tree["dataType"] in ("float", "double"):
            # Spark shows a constant key itself. The column has its normal form, in which a zero has no sign.
            return None
        return known.get(canonical(tree))

    return context.project(relation, (PlanOutput(output.id, transform(output.tree, replace)) for output in of.results))


def _duplicates_dropped(node: TreeNode, analysed: Analysed) -> dict[int, TreeNode]:
    """If Spark made this node of a dropDuplicates: the value of each result in the row that is kept, by the result's id. Otherwise empty.

    Spark (ReplaceDeduplicateWithAggregate) groups by the keys, and puts `first` of every other column into a new column. The column of
    a user's own first(x) AS x is not new, because it occurs in the analysed plan."""
    if "Deduplicate" not in analysed.kinds or node.children[0].kind == "Expand":
        return {}
    values: dict[int, TreeNode] = {}
    firsts = 0
    for item in node["aggregateExpressions"]:
        tree = unalias(item)
        if any(part.kind == "AggregateExpression" for part in tree.walk()):
            first = _first_argument(tree)
            if first is None or not analysed.made_by_spark(expression_id(item)):
                return {}
            tree = first
            firsts += 1
        values[expression_id(item)] = tree
    return values if firsts else {}


def _is_constant(key: TreeNode) -> bool:
    """Whether Spark has put the value of a column that is constant in place of it. Such a key distinguishes no rows."""
    return all(part.kind != "AttributeReference" for part in key.walk())


def _first_argument(tree: TreeNode) -> TreeNode | None:
    """x if `tree` is first(x) without FILTER and with nulls; otherwise None."""
    if tree.kind != "AggregateExpression" or len(tree.children) != 1:
        return None
    function = tree.children[0]
    return function.children[0] if function.kind == "First" and not function["ignoreNulls"] else None
