"""Deduplicate and Distinct.

`dropDuplicates(keys)` keeps one row for every key. Spark keeps whichever row comes first. In a circuit the input decides:

- If the input only inserts, the first row of each key is kept. If several rows of a key come in one step, the least of
  them in canonical order is kept. It is never retracted, so the view can be published to an append-only topic.
- If the input can retract, the least row in canonical order is kept, which is a function of the content alone.

`engine/operators/distinct.py` computes both. In Spark's plan, dropDuplicates is a Deduplicate over a streaming relation,
and an Aggregate of `first` over a plain one. `rules/aggregate.py` recognises the second form and calls this module.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.model.circuit import Deduplicate, Distinct
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.keys import normal
from stepwell.lowering.relation import Output, Relation
from stepwell.lowering.trees import attribute, expression_id


def lower(context: Lowering, node: TreeNode) -> Relation:
    return by_key(context, context.lower(node.children[0]), [expression_id(key) for key in node["keys"]])


def lower_within_watermark(context: Lowering, node: TreeNode) -> Relation:
    context.note("dropDuplicatesWithinWatermark keeps one row of every key over all rows, as Spark does in a batch")
    return lower(context, node)


def lower_distinct(context: Lowering, node: TreeNode) -> Relation:
    child = context.lower(node.children[0])
    return by_key(context, child, [output.id for output in child.outputs])


def by_key(context: Lowering, child: Relation, keys: Sequence[int]) -> Relation:
    """One row for every combination of values of the outputs `keys`, with all its outputs."""
    outputs = []
    for output in child.outputs:
        reference = attribute(output.id, "", None)
        key = normal(reference, context.type_of(output.tree, child)) if output.id in keys else reference
        outputs.append(Output(output.id, key))
    settled = context.settle(context.project(child, outputs))
    types = context.builder.types(settled.node)
    if set(keys) >= set(settled.columns):
        return context.add(Distinct((settled.node,), types), settled.columns)
    positions = tuple(settled.position(key) for key in keys)
    return context.add(Deduplicate((settled.node,), types, positions), settled.columns)
