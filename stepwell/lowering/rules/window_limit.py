"""WindowGroupLimit: the first rows of each partition, below the Window whose rank a Filter above it bounds (`WHERE r <= 3`).

It is a hint: rows that it drops cannot pass the Filter. Without it a Window reads the whole partition of each row that changed. With it, a TopK
keeps the rows that can pass, and gives the Window only those that enter or leave them.

    row_number() <= k    TopK(k) of each partition
    rank() <= k          the rows whose sort keys are those of one of the first k rows:      SemiJoin with TopK(k) of the keys
    dense_rank() <= k    the rows whose sort keys are one of the first k different keys:     SemiJoin with TopK(k) of the different keys

A row has a rank of at most k if and only if fewer than k rows stand before it and its peers. Then one of its peers is among the first k rows,
and only then.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.model.joins import SemiJoin
from engine.model.ordered import SortKey, TopK
from engine.model.rows import Distinct
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.keys import normal
from stepwell.lowering.relation import PlanOutput, Relation
from stepwell.lowering.rules.sort_keys import note_ties, sort_key
from stepwell.lowering.rules.window_rows import partition_of, rows_of
from stepwell.lowering.trees import attribute


def lower(context: Lowering, node: TreeNode) -> Relation:
    rows, orders = rows_of(context, node)
    partition, function, limit = partition_of(context, rows, node), node["rankLikeFunction"].kind, node["limit"]
    assert type(limit) is int, "Spark makes no limit below 1, so the number is none of a child"
    if function == "RowNumber":
        made = first_rows(context, rows, partition, orders.both, limit, reader="row_number OVER (...)")
        return orders.result(made)
    below, at, sort_keys = _with_keys(context, rows, partition, orders.own)
    found = _first_keys(context, below, at, sort_keys, limit, distinct=function == "DenseRank")
    everything = tuple(range(len(at)))
    types = context.builder.types(below.node)
    kept = SemiJoin(
        (below.node, found), types, anti=False, left_key=at, right_key=everything, null_safe=(True,) * len(at)
    )
    return orders.result(Relation(context.builder.add(kept), below.columns, below.outputs))


def first_rows(
    context: Lowering,
    rows: Relation,
    partition: Sequence[TreeNode],
    order: Sequence[TreeNode],
    limit: int,
    *,
    reader: str,
) -> Relation:
    """The first `limit` rows of each partition in this order. `reader`: what the rows are for, as `dry-run` calls it."""
    below, at, sort_keys = _with_keys(context, rows, partition, order)
    keys = at[: len(partition)]
    note_ties(context, below.node, keys, sort_keys, (reader,))
    first = TopK(
        (below.node,), context.builder.types(below.node), partition=keys, order=sort_keys, offset=0, count=limit
    )
    return Relation(context.builder.add(first), below.columns, below.outputs)


def _with_keys(
    context: Lowering, rows: Relation, partition: Sequence[TreeNode], order: Sequence[TreeNode]
) -> tuple[Relation, tuple[int, ...], tuple[SortKey, ...]]:
    """(the rows with columns for all keys, the positions of these columns, the keys of the order)."""
    sorts = [normal(item.children[0], context.type_of(item.children[0], rows)) for item in order]
    below, at = context.compute(rows, [*partition, *sorts])
    types = context.builder.types(below.node)
    by = zip(at[len(partition) :], order, strict=True)
    return below, at, tuple(sort_key(context, place, item, types[place]) for place, item in by)


def _first_keys(
    context: Lowering, rows: Relation, at: tuple[int, ...], order: tuple[SortKey, ...], limit: int, *, distinct: bool
) -> int:
    """The node with the keys (of the partition, then of the order) of the first rows of each partition, or the first of the different keys."""
    references = [attribute(rows.columns[place], "", None) for place in at]
    whole = context.relation_over(rows.node, rows.columns)
    keys = context.materialise(context.project(whole, [PlanOutput(context.fresh(), tree) for tree in references])).node
    types = context.builder.types(keys)
    if distinct:
        keys = context.builder.add(Distinct((keys,), types))
    first = len(at) - len(order)
    moved = tuple(SortKey(first + i, key.ascending, key.nulls_first) for i, key in enumerate(order))
    return context.builder.add(TopK((keys,), types, partition=tuple(range(first)), order=moved, offset=0, count=limit))
