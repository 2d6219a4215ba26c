"""Existence: whether an EXISTS that does not refer to the query around it has a row. `lowering/subqueries.py` makes the node of Spark's plan,
which asks for a constant and LIMIT 1. Counting the rows keeps one number; the LIMIT would keep all rows."""

from __future__ import annotations

import pyarrow as pa

from engine.model.aggregates import Aggregate, AggregateCall
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.relation import PlanOutput, Relation
from stepwell.lowering.trees import call, expression_id, literal


def lower(context: Lowering, node: TreeNode) -> Relation:
    """One row: the constant if there is a row below, otherwise null."""
    below = context.materialise(context.project(context.lower(node.children[0]), ()))
    rows = AggregateCall("count", None, False, pa.int64())
    counted = context.add(Aggregate((below.node,), (rows.type,), (), (rows,)), [context.fresh()])
    value: TreeNode = node["item"].children[0]
    some = call("GreaterThan", left=counted.outputs[0].tree, right=literal("0", "long"))
    present = call("If", predicate=some, trueValue=value, falseValue=literal(None, value["dataType"]))
    return context.project(counted, [PlanOutput(expression_id(node["item"]), present)])
