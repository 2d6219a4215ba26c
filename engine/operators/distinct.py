"""Distinct and Deduplicate: of rows that are alike, one.

Distinct: a row is in the output when its weight is positive. Of a change, only rows whose weight crosses zero are output:
one lookup a changed row (DBSP, Budiu et al. 2023, section 4.2).

Deduplicate: of the rows of one key, one. Where the input only inserts, it is the first to come (within a step the least in canonical
order), which is never taken back, so such a view can be an append-only output. Where the input can retract, it is the least row in
canonical order: a function of the content alone; cost: the rows of the keys that changed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from engine.model.circuit import Deduplicate, Distinct
from engine.operators import words
from engine.operators.arrangement import by_key
from engine.operators.base import StepContext
from engine.operators.descriptor import NoContent, Operator
from engine.operators.keys import distinct_keys
from engine.rows import zset
from engine.rows.hashing import hash_columns
from engine.state.trace import Trace, as_rows, as_zset


def step_distinct(node: Distinct, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    delta = zset.consolidate(inputs[0])
    if delta.num_rows == 0:
        return zset.empty(node.types)
    everything = range(len(node.types))
    trace = context.trace(0, node.types, tuple(everything))
    rows = zset.rows_of(delta)
    hashes = hash_columns(rows, delta.num_rows)
    keys = pa.Table.from_arrays(rows, [f"k{i}" for i in everything])
    before = trace.probe(keys, hashes).totals(delta.num_rows)
    after = before + zset.weights_of(delta)
    trace.append(as_rows(delta), hashes)
    change = (after > 0).astype(np.int64) - (before > 0).astype(np.int64)
    moved = np.flatnonzero(change)
    return zset.build([zset.take(c, pa.array(moved)) for c in rows], change[moved])


def step_deduplicate(node: Deduplicate, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    delta = zset.consolidate(inputs[0])
    if delta.num_rows == 0:
        return zset.empty(node.types)
    trace = context.trace(0, node.types, node.key)
    keys, hashes, _ = distinct_keys(delta, node.key)
    matches = trace.probe(keys, hashes)
    stored = zset.consolidate(as_zset(matches.rows))
    if all(context.append_only):
        return _first_seen(node, delta, stored, trace)
    before = _least(node, stored)
    after = _least(node, zset.consolidate(zset.add([stored, delta])))
    trace.append(as_rows(delta))
    return zset.consolidate(zset.add([after, zset.negate(before)]))


def _least(node: Deduplicate, content: pa.Table) -> pa.Table:
    """The least row of every key, weight 1: `content` is consolidated, so its rows stand in canonical order."""
    positive = content.filter(pa.array(zset.weights_of(content) > 0))
    if positive.num_rows == 0:
        return zset.empty(node.types)
    _, _, group = distinct_keys(positive, node.key)
    _, first = np.unique(group, return_index=True)
    chosen = np.sort(first)
    return zset.build([zset.take(c, pa.array(chosen)) for c in zset.rows_of(positive)], np.ones(len(chosen), np.int64))


def _first_seen(node: Deduplicate, delta: pa.Table, stored: pa.Table, trace: Trace) -> pa.Table:
    least = _least(node, delta)
    both = zset.add([stored, least])
    _, _, group = distinct_keys(both, node.key)
    known = np.isin(group[stored.num_rows :], group[: stored.num_rows])
    fresh = least.filter(pa.array(~known))
    if fresh.num_rows:
        trace.append(as_rows(fresh))
    return fresh


DISTINCT = Operator(
    node=Distinct,
    step=step_distinct,
    arrange=lambda node, inputs: by_key(tuple(range(len(node.types))), inputs[0]),
    retraction=lambda node: None,
    keeps=lambda node, append_only: "the weight of every row",
    unique_key=lambda node, inputs: tuple(range(len(node.types))),
    content=NoContent(),
    outputs_without_input=lambda node: False,
    text=lambda node: "",
    user_name=lambda node: None,
)

DEDUPLICATE = Operator(
    node=Deduplicate,
    step=step_deduplicate,
    arrange=lambda node, inputs: by_key(node.key, inputs[0]),
    retraction=lambda node: None,
    keeps=lambda node, append_only: "the first row of every key" if append_only else "all rows, by key",
    # Its key is unique too. Saying so would change which joins take sums early, and with that the circuits that existing state belongs to.
    unique_key=lambda node, inputs: None,
    content=NoContent(),
    outputs_without_input=lambda node: False,
    text=lambda node: f"by {words.columns(node.key)}",
    user_name=lambda node: None,
)
