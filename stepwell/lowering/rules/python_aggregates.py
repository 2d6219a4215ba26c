"""Aggregate with functions of groups in Python (pandas_udf and arrow_udf that give one value for a Series).

All rows of a group are kept as a list of structs, which is what collect_list keeps, and a PythonMap calls the functions on the lists of the
groups that changed. The rows of a group are in the order of an ORDER BY below (`ordered_rows.py`), otherwise in that of their values, so the
answer depends on the content alone.

                    Relation (pending: result expressions)
                       |
        PythonMap(functions of lists)
                       |
        Aggregate(keys, collect_list(struct(arguments)))
                       |
                     child
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from engine.model.python_call import PythonCall
from engine.model.rows import PythonMap
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import arrow_type
from stepwell.lowering.context import Lowering
from stepwell.lowering.errors import UnsupportedPlan
from stepwell.lowering.relation import PlanOutput, Relation
from stepwell.lowering.rules import aggregate
from stepwell.lowering.rules.aggregate_functions import struct
from stepwell.lowering.rules.ordered_rows import keep_order
from stepwell.lowering.rules.python_functions import arguments_of, refuse_variants
from stepwell.lowering.trees import attribute, canonical, expression_id, literal, transform, unalias
from stepwell.lowering.trees import call as expression
from stepwell.planning.python_functions import GROUP_FORMS, PROMISE

_REMEDY = "Give it the rows of a view of its own, with GROUP BY plain columns and without DISTINCT and FILTER"


def lower(context: Lowering, node: TreeNode) -> Relation:
    """Any Aggregate: `aggregate.py` lowers those without functions in Python. Spark mixes no other functions with those."""
    items: list[TreeNode] = node["aggregateExpressions"]
    calls = {canonical(part): part for item in items for part in item.walk() if _is_python(part)}
    if not calls:
        return aggregate.build_aggregate(context, node)
    for part in calls.values():
        _check(node, part)
    _refuse_others(items, calls)
    grouping: list[TreeNode] = node["groupingExpressions"]
    keys = [PlanOutput(context.fresh(), tree) for tree in grouping]
    lists = {name: PlanOutput(context.fresh(), _list_of_rows(part.children[0])) for name, part in calls.items()}
    child, order = keep_order(context, node)
    grouped = aggregate.build_groups(context, child, grouping, [*keys, *lists.values(), *_count(context, keys)], order)
    if not keys:  # of no rows Spark gives no row, and the Aggregate one
        count = attribute(grouped.outputs[-1].id, "", "long")
        grouped = context.filter(grouped, expression("GreaterThan", left=count, right=literal("0", "long")))
    below = context.materialise(grouped)
    made = [_call(below.columns.index(lists[name].id), part.children[0]) for name, part in calls.items()]
    refuse_variants(node, made, context.builder.types(below.node))
    context.note(PROMISE.format(names=", ".join(dict.fromkeys(call.name for call in made))))
    types = (*context.builder.types(below.node), *(call.type for call in made))
    identifiers = {name: context.fresh() for name in calls}
    whole = context.add(PythonMap((below.node,), types, tuple(made)), [*below.columns, *identifiers.values()])
    known: dict[Hashable, TreeNode] = {canonical(key.tree): attribute(key.id, "", None) for key in keys}
    known |= {
        name: attribute(identifier, "", calls[name].children[0]["dataType"]) for name, identifier in identifiers.items()
    }
    results = (
        PlanOutput(expression_id(item), transform(unalias(item), lambda tree: known.get(canonical(tree))))
        for item in items
    )
    return context.project(whole, results)


def _is_python(tree: TreeNode) -> bool:
    return tree.kind == "AggregateExpression" and tree.children[0].kind == "PythonUDAF"


def _check(node: TreeNode, part: TreeNode) -> None:
    function = part.children[0]
    if part["isDistinct"] or len(part.children) > 1 or node.get("sessionWindow") is not None or not function.children:
        raise UnsupportedPlan(
            function.kind,
            f"the aggregate function {function['name']} in Python is not supported with DISTINCT, FILTER, a session window or no arguments",
            _REMEDY,
        )


def _refuse_others(items: list[TreeNode], calls: Mapping[Hashable, TreeNode]) -> None:
    """Raises UnsupportedPlan if another aggregate function is among the results, or in HAVING. Spark fails then, when it plans the query."""
    parts = (part for item in items for part in item.walk() if part.kind == "AggregateExpression")
    other = next((part.children[0] for part in parts if canonical(part) not in calls), None)
    if other is not None:
        python = next(iter(calls.values())).children[0]["name"]
        raise UnsupportedPlan(
            "Aggregate",
            f"the aggregate function {python} in Python beside another one ({other.kind}) is not supported, in Spark neither",
            "Give the other one a view of its own with the same GROUP BY, and join the two",
        )


def _list_of_rows(function: TreeNode) -> TreeNode:
    """`collect_list(struct(arguments))`."""
    arguments, _ = arguments_of(function)
    rows = struct(*((f"_{place}", tree) for place, tree in enumerate(arguments)))
    collected = TreeNode("CollectList", {"child": rows}, (rows,))
    return TreeNode("AggregateExpression", {"isDistinct": False}, (collected,))


def _count(context: Lowering, keys: list[PlanOutput]) -> list[PlanOutput]:
    """count(*), if there are no keys."""
    one = literal("1", "integer")
    counted = TreeNode("AggregateExpression", {"isDistinct": False}, (TreeNode("Count", {"children": [one]}, (one,)),))
    return [] if keys else [PlanOutput(context.fresh(), counted)]


def _call(column: int, function: TreeNode) -> PythonCall:
    _, keywords = arguments_of(function)
    form = GROUP_FORMS[function["evalType"]]
    return PythonCall(
        (function["function"],),
        form,
        arguments=(column,),
        keywords=keywords,
        type=arrow_type(function["dataType"]),
        settings=function["settings"],
    )
