"""Sessions: rows whose time ranges touch share one session (session_window).

Every row comes with a range of its own: from its event time to the moment at which its session would end without other rows. The ranges of one
key that touch or overlap are one session, from the first start to the last end. A row's range is replaced by that of its session, so that the
aggregate above can group by it. This is what Spark's `UpdatingSessionsExec` does to sorted rows, and a row that comes or goes can merge sessions
or split them.

State: all rows, by key. A step reads the rows of the keys that changed, and computes their sessions before and after, all keys at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from base.arrays import Int64s
from engine.model.ordered import Sessions
from engine.operators import node_texts
from engine.operators.arrangement import by_key
from engine.operators.context import StepContext
from engine.operators.descriptor import PLAIN_OUTPUT, Fed, Growth, NoContent, Operator, StateUse, Wording, always
from engine.operators.keys import distinct_keys, hash_keys
from engine.operators.names import OF_FIRST
from engine.rows import zset
from engine.state.runs import as_rows, as_zset


def step_sessions(node: Sessions, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    delta = zset.consolidate(inputs[0])
    if delta.num_rows == 0:
        return zset.empty(node.types)
    trace = context.trace(0, node.types, node.key)
    of_rows = context.key(0, node.key).hashes(delta)
    keys, hashes, _ = distinct_keys(delta, node.key, of_rows)
    before = zset.consolidate(as_zset(trace.probe(keys, hashes).rows))
    after = zset.consolidate(zset.add([before, delta]))
    trace.append(as_rows(delta), of_rows)
    return zset.consolidate(zset.add([merge_sessions(node, after), zset.negate(merge_sessions(node, before))]))


def _content(
    node: Sessions, types: Sequence[Sequence[pa.DataType]], values: Sequence[pa.Table], context: StepContext
) -> pa.Table:
    return merge_sessions(node, as_zset(context.trace(0, node.types, node.key).scan()))


def merge_sessions(node: Sessions, rows: pa.Table) -> pa.Table:
    """The rows with their sessions in place of their own ranges. `rows` holds all rows of its keys. A row of negative weight, which only a wrong
    input has, is left out."""
    rows = rows.filter(pa.array(zset.weights_of(rows) > 0))
    if rows.num_rows == 0:
        return zset.empty(node.types)
    own = rows.column(node.window).combine_chunks()
    start, end = (field.cast(pa.int64()).to_numpy(zero_copy_only=False) for field in own.flatten())
    _, _, group = distinct_keys(rows, node.key, hash_keys(rows, node.key))
    first, last = sessions_of(group, start, end)
    kinds = [field.type for field in own.type]
    columns = [pa.array(values, pa.int64()).cast(kind) for values, kind in zip((first, last), kinds, strict=True)]
    session = pa.StructArray.from_arrays(columns, fields=list(own.type))
    replaced = rows.set_column(node.window, rows.schema.field(node.window).name, session)
    return zset.as_schema(replaced, zset.schema_of(node.types))


def sessions_of(group: Int64s, start: Int64s, end: Int64s) -> tuple[Int64s, Int64s]:
    """(start, end) of the session of each row. Ranges of one group are one session if they touch or overlap."""
    order = np.lexsort((end, start, group))
    # Times become their ranks, so that the group's number can be put above them without an overflow.
    times, ranks = np.unique(np.concatenate([start, end]), return_inverse=True)
    above = group[order] * np.int64(len(times))
    starts, ends = above + ranks[: len(start)][order], above + ranks[len(start) :][order]
    reached = np.maximum.accumulate(ends)
    begins = np.concatenate([[True], starts[1:] > reached[:-1]])
    number = np.cumsum(begins) - 1
    places = np.flatnonzero(begins)
    final = reached[np.append(places[1:], len(order)) - 1] - above[places]
    first, last = np.empty_like(start), np.empty_like(end)
    first[order], last[order] = start[order][places][number], times[final][number]
    return first, last


SESSIONS = Operator(
    node=Sessions,
    implementation_version=1,
    step=step_sessions,
    arrange=lambda node, inputs: by_key(node.key, inputs[0]),
    output=PLAIN_OUTPUT,
    growth=Growth(
        retraction=lambda node: "a row can make the sessions of other rows longer",
        is_needed=False,
        is_relied_on=lambda node: False,
    ),
    state=StateUse(
        keeps=lambda node, append_only: "all rows, by key",
        content=NoContent(),
        fed=Fed(always, _content),
        traces_in_recursion=None,
    ),
    wording=Wording(
        columns=OF_FIRST,
        text=lambda node: f"c{node.window} by {node_texts.columns(node.key)}",
        user_name=lambda node: None,
    ),
)
