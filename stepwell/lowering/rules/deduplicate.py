"""Deduplicate and Distinct.

`dropDuplicates(keys)` keeps one row for every key. Spark keeps whichever row comes first. In a circuit the input decides:

- If the input only inserts, the first row of each key is kept. If several rows of a key come in one step, the least of
  them in canonical order is kept. It is never retracted, so the view can be published to an append-only topic.
- If the input can retract, the least row in canonical order is kept, which is a function of the content alone.
- If the input has the order of an ORDER BY, the first row of each key in that order is kept, as a TopK.

With a watermark below and a column that is event time, keys are forgotten (`engine/operators/timed_deduplicate.py`).

`engine/operators/distinct.py` computes both of the former. In Spark's plan, dropDuplicates is a Deduplicate over a streaming relation,
and an Aggregate of `first` over a plain one. `rules/aggregate.py` recognises the second form and calls this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.model.event_time import TimedDeduplicate
from engine.model.ordered import TopK
from engine.model.rows import Deduplicate, Distinct
from engine.operators.event_time import MS_US
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.errors import UnsupportedPlan
from stepwell.lowering.keys import normal
from stepwell.lowering.relation import PlanOutput, Relation
from stepwell.lowering.rules import event_time
from stepwell.lowering.rules.event_time import is_above
from stepwell.lowering.rules.order import order_below, release, sort_orders
from stepwell.lowering.rules.sort_keys import note_ties, sort_key
from stepwell.lowering.trees import attribute, expression_id

_WITHIN_REMEDY = "Write withWatermark('ts', '10 minutes') below it, and keep the column ts"


def lower(context: Lowering, node: TreeNode) -> Relation:
    return _of_stream(context, node, [expression_id(key) for key in node["keys"]])


def lower_within_watermark(context: Lowering, node: TreeNode) -> Relation:
    if not event_time.is_streaming(node):
        context.note("dropDuplicatesWithinWatermark of a table keeps one row of every key over all rows")
        return lower(context, node)
    if not is_above(node):
        raise UnsupportedPlan(node.kind, "dropDuplicatesWithinWatermark needs a watermark", _WITHIN_REMEDY)
    return _of_stream(context, node, [expression_id(key) for key in node["keys"]], within=True)


def lower_distinct(context: Lowering, node: TreeNode) -> Relation:
    return _of_stream(context, node, None)


def _of_stream(context: Lowering, node: TreeNode, keys: Sequence[int] | None, *, within: bool = False) -> Relation:
    """A deduplication by `keys`, or by all columns. It forgets keys if there is a watermark below, and a column that is event time."""
    watermark = event_time.watermark_below(context, node) if is_above(node) else None
    child = context.lower(node.children[0])
    of_child = [output.id for output in child.outputs]
    keys = of_child if keys is None else keys
    time = event_time.event_time_of(context, of_child)
    if watermark is None or (time is None and not within):
        references = [attribute(key, "", None) for key in keys]
        if set(keys) >= set(of_child):
            release(context, node)
            return by_key(context, child, keys, ())
        order = order_below(context, node, child, references)
        if order is None or not order.keys:
            return by_key(context, child, keys, ())
        return by_key(context, replace(child, order=order).revealed, keys, sort_orders(order)).with_order(order)
    if time is None:
        raise UnsupportedPlan(node.kind, "dropDuplicatesWithinWatermark needs the event time column", _WITHIN_REMEDY)
    if child.order is not None:
        raise UnsupportedPlan(
            node.kind,
            "an ORDER BY below a dropDuplicates above a withWatermark is not supported",
            "Leave one of them out",
        )
    materialised = _normalise(context, child, keys)
    types = context.builder.types(materialised.node)
    lifetime = context.event_times.delays_ms[time] * MS_US if within else 0 if time in keys else None
    if lifetime is None:
        context.note(
            "dropDuplicates by other columns than the event time drops late rows, and keeps every key for ever; "
            "dropDuplicatesWithinWatermark forgets them"
        )
    positions = tuple(dict.fromkeys(materialised.position(key) for key in keys))
    made = TimedDeduplicate(
        (materialised.node, watermark),
        types,
        key=positions,
        time=materialised.position(time),
        lifetime_us=lifetime,
        null_time_us=0 if within else None,
    )
    return context.add(made, materialised.columns)


def by_key(context: Lowering, child: Relation, keys: Sequence[int], order: Sequence[TreeNode]) -> Relation:
    """One row for every combination of values of the outputs `keys`, with all its outputs. `order`: that of the rows, as SortOrders over
    outputs, if they have one."""
    materialised = _normalise(context, child, keys)
    types = context.builder.types(materialised.node)
    if order:
        places = [materialised.position(expression_id(item.children[0])) for item in order]
        sorts = tuple(sort_key(context, place, item, types[place]) for place, item in zip(places, order, strict=True))
        partition = tuple(dict.fromkeys(materialised.position(key) for key in keys))
        note_ties(context, materialised.node, partition, sorts, ("a subquery below dropDuplicates",))
        return context.add(
            TopK((materialised.node,), types, partition=partition, order=sorts, offset=0, count=1), materialised.columns
        )
    if set(keys) >= set(materialised.columns):
        return context.add(Distinct((materialised.node,), types), materialised.columns)
    positions = tuple(materialised.position(key) for key in keys)
    return context.add(Deduplicate((materialised.node,), types, positions), materialised.columns)


def _normalise(context: Lowering, child: Relation, keys: Sequence[int]) -> Relation:
    """The materialised child, whose columns `keys` are compared as Spark compares keys."""
    outputs = []
    for output in child.outputs:
        reference = attribute(output.id, "", None)
        key = normal(reference, context.type_of(output.tree, child)) if output.id in keys else reference
        outputs.append(PlanOutput(output.id, key))
    return context.materialise(context.project(child, outputs))
