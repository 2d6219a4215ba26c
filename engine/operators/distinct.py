"""Distinct and Deduplicate: one of the rows that are equal, or that have equal keys.

Distinct: a row is in the output if its weight is positive. A change of the input changes the output where a weight becomes positive or stops
being positive. This needs one lookup per changed row (DBSP, Budiu et al. 2023, section 4.2).

Deduplicate: one row of each key. If the input only inserts, it is the first row to arrive; of several in the same step, the least in canonical
order. It is never retracted, so such a view can be an append-only output. If the input can retract, it is the least row in canonical order,
which is a function of the content alone. A step then reads all rows of the keys that changed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from engine.model.rows import Deduplicate, Distinct
from engine.operators import node_texts
from engine.operators.arrangement import by_key
from engine.operators.context import StepContext
from engine.operators.descriptor import (
    FOLLOWS_INPUTS,
    Fed,
    Growth,
    NoContent,
    Operator,
    OutputFacts,
    StateUse,
    Wording,
    always,
)
from engine.operators.keys import ColocatedKey, distinct_keys, hash_keys
from engine.operators.names import OF_FIRST
from engine.rows import zset
from engine.state.runs import as_rows, as_zset
from engine.state.trace import Trace


def step_distinct(node: Distinct, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    delta = zset.consolidate(inputs[0])
    if delta.num_rows == 0:
        return zset.empty(node.types)
    everything = range(len(node.types))
    trace = context.trace(0, node.types, tuple(everything))
    rows = zset.rows_of(delta)
    hashes = context.key(0, everything).hashes(delta)
    keys = pa.Table.from_arrays(rows, [f"k{i}" for i in everything])
    before = trace.probe(keys, hashes).totals(delta.num_rows)
    after = before + zset.weights_of(delta)
    trace.append(as_rows(delta), hashes)
    change = (after > 0).astype(np.int64) - (before > 0).astype(np.int64)
    moved = np.flatnonzero(change)
    return zset.build([zset.take(c, pa.array(moved)) for c in rows], change[moved])


def _content_of_distinct(
    node: Distinct, types: Sequence[Sequence[pa.DataType]], values: Sequence[pa.Table], context: StepContext
) -> pa.Table:
    stored = as_zset(context.trace(0, node.types, tuple(range(len(node.types)))).scan())
    there = np.flatnonzero(zset.weights_of(stored) > 0)
    return zset.build([zset.take(c, pa.array(there)) for c in zset.rows_of(stored)], np.ones(len(there), np.int64))


def step_deduplicate(node: Deduplicate, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    delta = zset.consolidate(inputs[0])
    if delta.num_rows == 0:
        return zset.empty(node.types)
    trace = context.trace(0, node.types, node.key)
    key = context.key(0, node.key)
    of_rows = key.hashes(delta)
    keys, hashes, _ = distinct_keys(delta, node.key, of_rows)
    matches = trace.probe(keys, hashes)
    stored = zset.consolidate(as_zset(matches.rows))
    if all(context.append_only):
        return _first_seen(key, node, delta, stored, trace)
    before = _least(node, stored)
    after = _least(node, zset.consolidate(zset.add([stored, delta])))
    trace.append(as_rows(delta), of_rows)
    return zset.consolidate(zset.add([after, zset.negate(before)]))


def _least(node: Deduplicate, content: pa.Table) -> pa.Table:
    """The least row of every key, with weight 1. `content` is consolidated, so its rows are in canonical order."""
    positive = content.filter(pa.array(zset.weights_of(content) > 0))
    if positive.num_rows == 0:
        return zset.empty(node.types)
    _, _, group = distinct_keys(positive, node.key, hash_keys(positive, node.key))
    _, first = np.unique(group, return_index=True)
    chosen = np.sort(first)
    return zset.build([zset.take(c, pa.array(chosen)) for c in zset.rows_of(positive)], np.ones(len(chosen), np.int64))


def _first_seen(key: ColocatedKey, node: Deduplicate, delta: pa.Table, stored: pa.Table, trace: Trace) -> pa.Table:
    least = _least(node, delta)
    both = zset.add([stored, least])
    _, _, group = distinct_keys(both, node.key, hash_keys(both, node.key))
    known = np.isin(group[stored.num_rows :], group[: stored.num_rows])
    fresh = least.filter(pa.array(~known))
    if fresh.num_rows:
        trace.append(as_rows(fresh), key.hashes(fresh))
    return fresh


def _content_of_deduplicate(
    node: Deduplicate, types: Sequence[Sequence[pa.DataType]], values: Sequence[pa.Table], context: StepContext
) -> pa.Table:
    """If the input only inserts, the trace has the first row of each key alone."""
    return _least(node, zset.consolidate(as_zset(context.trace(0, node.types, node.key).scan())))


DISTINCT = Operator(
    node=Distinct,
    implementation_version=1,
    step=step_distinct,
    arrange=lambda node, inputs: by_key(tuple(range(len(node.types))), inputs[0]),
    output=OutputFacts(
        unique_key=lambda node, inputs: tuple(range(len(node.types))),
        comes_without_input=lambda node: False,
        counts_errors=lambda node: False,
    ),
    growth=FOLLOWS_INPUTS,
    state=StateUse(
        keeps=lambda node, append_only: "the weight of every row",
        content=NoContent(),
        fed=Fed(always, _content_of_distinct),
        traces_in_recursion=1,
    ),
    wording=Wording(columns=OF_FIRST, text=lambda node: "", user_name=lambda node: None),
)

DEDUPLICATE = Operator(
    node=Deduplicate,
    implementation_version=1,
    step=step_deduplicate,
    arrange=lambda node, inputs: by_key(node.key, inputs[0]),
    output=OutputFacts(
        # The key is unique too. With that key here, more joins would get partial sums, and the circuits of existing state would change.
        unique_key=lambda node, inputs: None,
        comes_without_input=lambda node: False,
        counts_errors=lambda node: False,
    ),
    growth=Growth(retraction=lambda node: None, is_needed=False, is_relied_on=lambda node: True),
    state=StateUse(
        keeps=lambda node, append_only: "the first row of every key" if append_only else "all rows, by key",
        content=NoContent(),
        fed=Fed(always, _content_of_deduplicate),
        traces_in_recursion=1,
    ),
    wording=Wording(
        columns=OF_FIRST, text=lambda node: f"by {node_texts.columns(node.key)}", user_name=lambda node: None
    ),
)
