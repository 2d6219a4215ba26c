"""LastByKey: an upsert topic as a table.

The messages of a key are ordered by (step, partition, offset). The last one is the key's row; after a deletion there is none. The output is the
change of that table: the old row is retracted and the new one inserted. A message that repeats the row changes nothing.

The messages of one key in two partitions have no order that a producer could have meant, so this is an error. The trace stores each row's
partition to detect it. It is not an error if the topic has more partitions than when the state began, because that moves keys to other
partitions. Then the order (step, partition, offset) decides.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from base.arrays import Int64s
from engine.errors import DataError
from engine.model.rows import LastByKey
from engine.operators import words
from engine.operators.arrangement import by_key
from engine.operators.base import StepContext
from engine.operators.descriptor import NoContent, Operator
from engine.operators.keys import distinct_keys
from engine.rows import zset
from engine.state.trace import as_rows, as_zset


def step_last_by_key(node: LastByKey, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    """The change of the table. `inputs[0]`: the messages of a keyed source: the columns, then deleted, partition, offset, weight."""
    messages = inputs[0]
    if messages.num_rows == 0:
        return zset.empty(node.types)
    width = len(node.types)
    key = context.key(0, node.key)
    keys, hashes, group = distinct_keys(messages, node.key, key.hashes(messages))
    partition = messages.column(width + 1).to_numpy().astype(np.int64)
    offset = messages.column(width + 2).to_numpy()
    order = np.lexsort((offset, partition, group))
    ends = np.flatnonzero(np.append(group[order][1:] != group[order][:-1], True))
    last = order[ends]
    trace = context.trace(0, (*node.types, pa.int32()), node.key)
    matches = trace.probe(keys, hashes)
    old = zset.consolidate(as_zset(matches.rows))
    if node.handle not in context.grown:
        _check_partitions(node, keys, group, partition, matches.probe, matches.rows.column(width).to_numpy())

    alive = last[~messages.column(width).to_numpy()[last]]
    new = zset.take_rows(zset.build([*messages.columns[:width], messages.column(width + 1)], _ones(messages)), alive)
    change = zset.consolidate(zset.add([new.cast(old.schema), zset.negate(old)]))
    trace.append(as_rows(change), key.hashes(change))
    return zset.consolidate(zset.project(change, range(width)))


def _ones(table: pa.Table) -> Int64s:
    return np.ones(table.num_rows, np.int64)


def _check_partitions(
    node: LastByKey,
    keys: pa.Table,
    group: zset.Indices,
    partition: zset.Indices,
    stored_group: zset.Indices,
    stored_partition: zset.Indices,
) -> None:
    groups = np.concatenate([group, stored_group])
    partitions = np.concatenate([partition, stored_partition.astype(np.int64)])
    low = np.full(keys.num_rows, np.iinfo(np.int64).max)
    high = np.full(keys.num_rows, -1)
    np.minimum.at(low, groups, partitions)
    np.maximum.at(high, groups, partitions)
    in_two = np.flatnonzero(low != high)
    if len(in_two):
        at = int(in_two[0])
        key = {f"column {c}": keys.column(n)[at].as_py() for n, c in enumerate(node.key)}
        raise DataError(
            f"Key {key} has messages in partitions {low[at]} and {high[at]}, so their order is not known.",
            "Let the producer partition by the key.",
        )


LAST_BY_KEY = Operator(
    node=LastByKey,
    step=step_last_by_key,
    arrange=lambda node, inputs: by_key(node.key, inputs[0]),
    retraction=lambda node: f"source {node.handle} has a key, and a new message of a key replaces its row",
    keeps=lambda node, append_only: "the last row of every key",
    unique_key=lambda node, inputs: node.key,
    content=NoContent(),
    outputs_without_input=lambda node: False,
    counts_errors=lambda node: False,
    needs_append_only=False,
    traces_in_recursion=None,
    text=lambda node: f"by {words.columns(node.key)}",
    user_name=lambda node: f"source {node.handle}",
)
