"""LastByKey: an upsert topic as a table.

The messages of a key are ordered by (step, partition, offset). The last one is the key's row; after a deletion there is none. The output is the
change of that table: the old row is retracted and the new one inserted. A message that repeats the row changes nothing.

The messages of one key in two partitions have no order that a producer could have meant, so this is an error. The trace stores each row's
partition to detect it. It is not an error if the topic has more partitions than when the state began, because that moves keys to other
partitions. Then the order (step, partition, offset) decides.

A message may lack values that the database has not sent: they are those of the row before it (former_values.py). If there is none, the message
is malformed. It is left out here, and the policy of its source decides what becomes of it (engine/run/sources.py).

An update that changes the key implies a deletion of the former key, which has the partition of the new key. It deletes only a row of its own
partition. Between two partitions there is no order: the update may be older than the row, because the former key was created anew. It may also
be read before the row that it deletes. Equal values would not show which it is. So what a key's row is follows from the messages of its own
partition, in every division into steps. If the key has a row of another partition after the step, the message is malformed.

A truncation of the table deletes every row whose last message is before it in that order. Every worker gets it and takes out its own rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from base.arrays import Bools, Int64s
from base.text.columns import nulls_of
from engine.model.rows import LastByKey
from engine.operators import node_texts
from engine.operators.arrangement import by_key
from engine.operators.context import StepContext
from engine.operators.descriptor import Fed, Growth, NoContent, Operator, OutputFacts, StateUse, Wording, always
from engine.operators.findings import Lacks, MalformedByState, RowElsewhere
from engine.operators.former_values import KeyedMessages, outcome, truncations_before
from engine.operators.keys import ColocatedKey, distinct_keys
from engine.operators.names import OF_FIRST
from engine.operators.scattered_keys import check_partitions, key_as_text
from engine.rows import zset
from engine.state.runs import HASH, as_rows, as_zset
from engine.state.trace import Trace
from io_kafka.formats.message_fields import DELETED, OFFSET, PARTITION
from io_kafka.formats.unavailable import placeholder_of

STORED_PARTITION = 0
"""The place of the partition behind the columns in the trace, from which the last message of a key has come."""

NO_PARTITION = -1
"""In the place of a partition: the key has neither a row nor a message of its own."""


def step_last_by_key(node: LastByKey, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    """The change of the table. `inputs[0]`: the messages of a keyed source: the columns, then deleted, partition, offset, weight."""
    if inputs[0].num_rows == 0:
        return zset.empty(node.types)
    key = context.key(0, node.key)
    trace = context.trace(0, (*node.types, pa.int32()), node.key)
    messages, elsewhere = _without_elsewhere(node, inputs[0], trace, key, context)
    change = zset.empty(node.types) if not messages.num_rows else _change(node, messages, trace, key, context)
    if elsewhere.num_rows:
        _refuse_elsewhere(node, elsewhere, trace, key, context)
    return change


def _change(node: LastByKey, messages: pa.Table, trace: Trace, key: ColocatedKey, context: StepContext) -> pa.Table:
    """The change of the table, which is in the trace then."""
    width = len(node.types)
    if messages.column(width + DELETED).null_count:
        return _truncate(node, messages, trace, key, context)
    old, new = _latest(node, messages, trace, key, context, before=np.zeros(messages.num_rows, np.int64), truncations=0)
    change = zset.consolidate(zset.add([new.cast(old.schema), zset.negate(old)]))
    trace.append(as_rows(change), key.hashes(change))
    return zset.consolidate(zset.project(change, range(width)))


def _without_elsewhere(
    node: LastByKey, messages: pa.Table, trace: Trace, key: ColocatedKey, context: StepContext
) -> tuple[pa.Table, pa.Table]:
    """(the messages that count, the deletions that do not count because the row that they name is not of their partition). Both have their
    partitions. Only deletions that an update of another key implies are asked for their partition: see the head of the module."""
    place = len(node.types) + PARTITION
    marked = messages.column(place).to_numpy()
    implied = marked < 0
    if not implied.any():
        return messages, messages.slice(0, 0)
    partition = np.where(implied, ~marked, marked)
    messages = messages.set_column(place, messages.schema.field(place), pa.array(partition))
    if node.handle in context.step.grown:
        return messages, messages.slice(0, 0)
    keys, hashes, group = distinct_keys(messages, node.key, key.hashes(messages))
    matches = trace.probe(keys, hashes)
    old, row_of = _rows_before(matches.rows, matches.probe, keys.num_rows)
    home = np.full(keys.num_rows, NO_PARTITION)
    own = np.flatnonzero(~implied)
    home[group[own]] = partition[own]
    known = np.flatnonzero(row_of >= 0)
    home[known] = old.column(len(node.types) + STORED_PARTITION).to_numpy()[row_of[known]]
    counts = ~implied | (home[group] == partition)
    return messages.filter(pa.array(counts)), messages.filter(pa.array(~counts))


def _refuse_elsewhere(
    node: LastByKey, elsewhere: pa.Table, trace: Trace, key: ColocatedKey, context: StepContext
) -> None:
    """Refuses the messages whose former key has a row after the step. `elsewhere`: the deletions that did not count."""
    keys, hashes, group = distinct_keys(elsewhere, node.key, key.hashes(elsewhere))
    matches = trace.probe(keys, hashes)
    rows, row_of = _rows_before(matches.rows, matches.probe, keys.num_rows)
    homes = rows.column(len(node.types) + STORED_PARTITION).to_pylist()
    places = (elsewhere.column(len(node.types) + place).to_pylist() for place in (PARTITION, OFFSET))
    for number, partition, offset in zip(group.tolist(), *places, strict=True):
        if row_of[number] >= 0:
            why = RowElsewhere(key_as_text(keys, number), homes[row_of[number]])
            context.found.malformed.append(MalformedByState(node.handle, partition, offset, why))


def _latest(
    node: LastByKey,
    messages: pa.Table,
    trace: Trace,
    key: ColocatedKey,
    context: StepContext,
    *,
    before: Int64s,
    truncations: int,
) -> tuple[pa.Table, pa.Table]:
    """(the rows before the step of the keys that have messages, the rows of these keys after it), both with the partition. `before`: the number
    of truncations before each message, and `truncations` that of the step."""
    width = len(node.types)
    keys, hashes, group = distinct_keys(messages, node.key, key.hashes(messages))
    partition = messages.column(width + PARTITION).to_numpy().astype(np.int64)
    order = np.lexsort((messages.column(width + OFFSET).to_numpy(), partition, group))
    matches = trace.probe(keys, hashes)
    if node.handle not in context.step.grown:
        stored = matches.rows.column(width + STORED_PARTITION).to_numpy().astype(np.int64)
        check_partitions(node, messages, group, keys, (matches.probe, stored))
    lacks = _lacks(node, messages)
    deleted = messages.column(width + DELETED).to_numpy()
    rows = zset.build([*messages.columns[:width], messages.column(width + PARTITION)], _ones(messages))
    if not lacks and not truncations:
        ends = np.flatnonzero(np.append(group[order][1:] != group[order][:-1], True))
        last = order[ends]
        return zset.consolidate(as_zset(matches.rows)), zset.take_rows(rows, last[~deleted[last]])
    old, row_of = _rows_before(matches.rows, matches.probe, keys.num_rows)
    in_order = KeyedMessages(group[order], deleted[order], before[order], {c: lack[order] for c, lack in lacks.items()})
    found = outcome(in_order, row_of >= 0, truncations)
    _note_malformed(node, messages, order[found.malformed], lacks, context)
    new = zset.take_rows(rows, order[found.last])
    for column, sources in found.sources.items():
        both = zset.add([rows, old]).column(column)
        chosen = np.where(sources < 0, len(order) + row_of[in_order.key[found.last]], order[sources])
        new = new.set_column(column, f"c{column}", zset.take(both, pa.array(chosen)))
    return old, new


def _lacks(node: LastByKey, messages: pa.Table) -> dict[int, Bools]:
    """For each column of which some value is missing, the messages that lack it."""
    placeholder = placeholder_of(node.unavailable)
    if placeholder is None:
        return {}
    found = {c: placeholder.marks(messages.column(c)) for c in range(len(node.types)) if c not in node.key}
    return {column: lacks for column, lacks in found.items() if lacks is not None}


def _rows_before(found: pa.Table, probe: zset.Indices, keys: int) -> tuple[pa.Table, Int64s]:
    """(the rows that a probe has found, for each key the position of its row, or -1)."""
    numbered = as_zset(found).add_column(0, "key", pa.array(probe, pa.int64()))
    net = zset.consolidate(numbered)
    row_of = np.full(keys, -1, np.int64)
    row_of[net.column(0).to_numpy()] = np.arange(net.num_rows)
    return zset.project(net, range(1, net.num_columns - 1)), row_of


def _note_malformed(
    node: LastByKey, messages: pa.Table, malformed: Int64s, lacks: dict[int, Bools], context: StepContext
) -> None:
    partitions, offsets = (
        messages.column(len(node.types) + place).to_numpy()[malformed].tolist() for place in (PARTITION, OFFSET)
    )
    for row, partition, offset in zip(malformed, partitions, offsets, strict=True):
        column = next(column for column, missing in sorted(lacks.items()) if missing[row])
        context.found.malformed.append(MalformedByState(node.handle, partition, offset, Lacks(column)))


def _truncate(node: LastByKey, arrived: pa.Table, trace: Trace, key: ColocatedKey, context: StepContext) -> pa.Table:
    """Returns the change of the table for messages among which the table was truncated. All rows leave the trace, bucket by bucket. Rows whose
    key has none after the step need no comparison with others, so they are only negated."""
    width = len(node.types)
    truncates = nulls_of(arrived.column(width + DELETED).combine_chunks())
    partition, offset = (arrived.column(width + place).to_numpy().astype(np.int64) for place in (PARTITION, OFFSET))
    before = truncations_before(partition, offset, truncates)
    kept = np.flatnonzero(~truncates)
    new = zset.empty((*node.types, pa.int32()))
    if len(kept):
        messages = zset.take_rows(arrived, kept)
        _, new = _latest(node, messages, trace, key, context, before=before[kept], truncations=int(truncates.sum()))
        new = zset.as_schema(new, zset.schema_of((*node.types, pa.int32())))
    hashes = key.hashes(new)
    result, near = [zset.empty(node.types)], [new]
    for part in trace.take_out():
        again = np.isin(part.column(HASH).to_numpy(), hashes)
        rows = zset.negate(as_zset(part.drop_columns([HASH])))
        near.append(zset.take_rows(rows, np.flatnonzero(again)))
        result.append(zset.project(zset.take_rows(rows, np.flatnonzero(~again)), range(width)))
    trace.append(as_rows(new), hashes)
    result.append(zset.consolidate(zset.project(zset.add(near), range(width))))
    return zset.add(result)


def _ones(table: pa.Table) -> Int64s:
    return np.ones(table.num_rows, np.int64)


def _content(
    node: LastByKey, types: Sequence[Sequence[pa.DataType]], values: Sequence[pa.Table], context: StepContext
) -> pa.Table:
    """The rows of the table, without their partitions."""
    stored = context.trace(0, (*node.types, pa.int32()), node.key).scan()
    return zset.project(as_zset(stored), range(len(node.types)))


LAST_BY_KEY = Operator(
    node=LastByKey,
    implementation_version=1,
    step=step_last_by_key,
    arrange=lambda node, inputs: by_key(node.key, inputs[0]),
    output=OutputFacts(
        unique_key=lambda node, inputs: node.key,
        comes_without_input=lambda node: False,
        counts_errors=lambda node: False,
    ),
    growth=Growth(
        retraction=lambda node: f"source {node.handle} has a key, and a new message of a key replaces its row",
        is_needed=False,
        is_relied_on=lambda node: False,
    ),
    state=StateUse(
        keeps=lambda node, append_only: "the last row of every key",
        content=NoContent(),
        fed=Fed(always, _content),
        traces_in_recursion=None,
    ),
    wording=Wording(
        columns=OF_FIRST,
        text=lambda node: f"by {node_texts.columns(node.key)}",
        user_name=lambda node: f"source {node.handle}",
    ),
)
