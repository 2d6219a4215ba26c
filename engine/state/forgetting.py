"""How rows leave a trace because their time is over, and not because the input takes them back.

A trace is the sum of its runs, and runs are immutable. So a row is removed by appending it with the opposite sums. The two cancel when their
runs are merged. A bucket merges a run into a younger one unless it is more than twice as long, so what is left of removed rows stays within a
constant factor of what is there.

The cost of a search by time: one pass over one column of 8 bytes a row. Rows are filed by slots, so that they can be moved, and a slot has rows
of all times; an index by time would have to be asked slot by slot.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from base.arrays import Bools, Int64s
from engine.rows import zset
from engine.rows.hashing import Hashes, identity_columns
from engine.state.runs import HASH
from engine.state.trace import Trace

TOP = np.uint64(0xFFFFFFFF00000000)
"""The bits of a hash that all rows of a group have in common, in every trace of an aggregate."""


def select_rows(trace: Trace, wanted: Callable[[pa.Table], Bools]) -> pa.Table:
    """The rows for which `wanted(run)` is true, with accumulators and hash. A row that is in several runs occurs once for each."""
    parts = [trace.layout.schema.empty_table()]
    for run in trace.runs():
        rows = np.flatnonzero(wanted(run.table))
        if len(rows):
            parts.append(zset.take_rows(run.table, rows))
    return pa.concat_tables(parts)


def rows_of_groups(trace: Trace, groups: pa.Table, hashes: Hashes) -> pa.Table:
    """The rows whose first columns equal a row of `groups`, with accumulators and hash. `hashes` are those of the groups. The hash of a row need
    only have their upper half (engine/operators/aggregate.py), so that its key can have more columns than the group."""
    parts = [trace.layout.schema.empty_table()]
    low, high = hashes & TOP, hashes | ~TOP
    for run in trace.runs():
        first = np.searchsorted(run.hashes, low, side="left")
        counts = np.searchsorted(run.hashes, high, side="right") - first
        group, rows = _ranges(first, counts)
        if len(rows):
            parts.append(_equal(zset.take_rows(run.table, rows), groups, group))
    return pa.concat_tables(parts)


def forget(trace: Trace, rows: pa.Table) -> None:
    """Removes rows, which are in the trace. They have accumulators and hash, as `select_rows` gives them."""
    if not rows.num_rows:
        return
    hashes = rows.column(HASH).to_numpy()
    rows = rows.drop_columns([HASH])
    width = len(trace.layout.types)
    columns = list(rows.columns)
    for place, how in enumerate(trace.layout.combines, width):
        if how in ("sum", "carry"):
            columns[place] = pa.chunked_array([pa.array(-columns[place].to_numpy())], columns[place].type)
    trace.append(pa.Table.from_arrays(columns, rows.column_names), hashes)


def _ranges(first: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    """(the number of the range, the position) for every position in the ranges."""
    group = np.repeat(np.arange(len(counts)), counts)
    before = np.cumsum(counts) - counts
    return group, np.arange(len(group)) - before[group] + first[group]


def _equal(rows: pa.Table, groups: pa.Table, group: Int64s) -> pa.Table:
    """The rows whose first columns are those of their group."""
    asked = identity_columns([zset.take(column, pa.array(group)) for column in groups.columns])
    found = identity_columns([rows.column(i) for i in range(groups.num_columns)])
    return rows.filter(pa.array(zset.equal_rows(asked, found, rows.num_rows)))
