"""TimedDeduplicate: dropDuplicates whose keys are forgotten when the watermark has passed them.

The first row of a key goes out when it comes; of several in one step it is the least in canonical order. The state has one row for each key that
is known, with the time at which the key is forgotten, and not the row itself. Keys whose time lies between the watermarks before and after
the step are found by one pass over these times.

A forgotten key can only come back in a late row if its time is part of it (dropDuplicates). With dropDuplicatesWithinWatermark it may come back,
and is new then, as in Spark.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import fill
from engine.model.event_time import TimedDeduplicate
from engine.operators import node_texts
from engine.operators.arrangement import add_broadcast, by_key
from engine.operators.context import StepContext
from engine.operators.descriptor import PLAIN_OUTPUT, Growth, NoContent, Operator, StateUse, Wording
from engine.operators.event_time import drop_late, empty_rows, find_passed, mark_of, times_of
from engine.operators.keys import distinct_keys
from engine.operators.names import OF_FIRST
from engine.rows import zset
from engine.state.forgetting import forget, select_rows

EXPIRY_TYPE = pa.timestamp("us")
"""The type of the time at which a key is forgotten. The time is null if it never is."""


def step_timed_deduplicate(node: TimedDeduplicate, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    rows, told = inputs
    if not told.num_rows:
        return empty_rows([rows], node.types)
    mark = mark_of(told)
    delta = drop_late(zset.consolidate(rows), node.time, mark, context)
    key, width = context.key(0, node.key), len(node.key)
    trace = context.trace(0, [*(node.types[column] for column in node.key), EXPIRY_TYPE], range(width))
    fresh = zset.empty(node.types)
    if delta.num_rows:
        keys, hashes, group = distinct_keys(delta, node.key, key.hashes(delta))
        known = trace.probe(keys, hashes).totals(keys.num_rows) > 0
        _, least = np.unique(group, return_index=True)  # a consolidated change is in canonical order
        new = np.flatnonzero(~known)
        chosen = pa.array(np.sort(least[new]))
        fresh = zset.build([zset.take(column, chosen) for column in zset.rows_of(delta)], np.ones(len(new), np.int64))
        forgotten = _forgotten_at(node, fresh)
        stays = pa.array(fill(pc.greater(forgotten.cast(pa.int64()), mark.after), True))
        stored = fresh.append_column("forgotten", forgotten).filter(stays)
        columns = [
            *(stored.column(column) for column in node.key),
            stored.column("forgotten"),
            stored.column(zset.WEIGHT),
        ]
        trace.append(pa.Table.from_arrays(columns, trace.layout.schema.names[:-1]), key.hashes(stored))
    if node.lifetime_us is not None and mark.after > mark.before:
        forget(trace, select_rows(trace, lambda run: find_passed(run.column(width), mark)))
    return fresh


def _forgotten_at(node: TimedDeduplicate, rows: pa.Table) -> pa.Array:
    if node.lifetime_us is None:
        return pa.nulls(rows.num_rows, EXPIRY_TYPE)
    times, valid = times_of(rows.column(node.time))
    if node.null_time_us is not None:
        times, valid = np.where(valid, times, node.null_time_us), np.ones(len(valid), np.bool_)
    return pa.array(times + node.lifetime_us, mask=~valid).cast(EXPIRY_TYPE)


def _keeps(node: TimedDeduplicate, append_only: bool) -> str:
    return "every key" if node.lifetime_us is None else "the keys that the watermark has not passed"


TIMED_DEDUPLICATE = Operator(
    node=TimedDeduplicate,
    implementation_version=1,
    step=step_timed_deduplicate,
    arrange=lambda node, inputs: add_broadcast(by_key(node.key, inputs[0])),
    output=PLAIN_OUTPUT,
    growth=Growth(retraction=lambda node: None, is_needed=True, is_relied_on=lambda node: True),
    state=StateUse(keeps=_keeps, content=NoContent(), fed=None, traces_in_recursion=None),
    wording=Wording(
        columns=OF_FIRST,
        text=lambda node: f"by {node_texts.columns(node.key)}, at c{node.time}",
        user_name=lambda node: None,
    ),
)
