"""The sum of several runs of a trace: equal rows become one row, and their accumulators are combined.

A row is left out if all its sums are 0. The result is sorted as a run is, whatever the order of the parts. So it is a function of the content of
the parts alone, and not of how the content was spread over them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools
from engine.accumulators.integers import LIMB_BITS, LIMB_MASK
from engine.rows import zset
from engine.rows.hashing import identity_columns
from engine.state.runs import HASH, Combine, Run, TraceLayout


def sum_runs(runs: Sequence[Run], layout: TraceLayout) -> pa.Table:
    """Merges runs of one bucket, with the same result as `merge`. Each run is a sum already, so only rows whose hash is in several runs are
    added up. The others, which are most, are only put in order."""
    table = pa.concat_tables([run.table for run in runs]).combine_chunks()
    order, several = _order_runs(runs)
    if not several.any():
        return zset.take_rows(table, order)
    merged = merge([zset.take_rows(table, order[several])], layout)
    both = pa.concat_tables([zset.take_rows(table, order[~several]), merged]).combine_chunks()
    return zset.take_rows(both, np.argsort(both.column(HASH).to_numpy(), kind="stable"))


def merge(parts: Sequence[pa.Table], layout: TraceLayout) -> pa.Table:
    """The sum of tables of a layout: sorted, with equal rows combined, and without rows whose sums are all 0."""
    table = pa.concat_tables(parts).combine_chunks()
    width = len(layout.types)
    columns = table.columns[:width]
    hashes = table.column(HASH).to_numpy()
    order, starts = zset.group_rows(columns, table.num_rows, major=hashes, of_rows=layout.hash_is_of_rows)
    accumulators = [_combine(table.column(width + i), order, starts, how) for i, how in enumerate(layout.combines)]
    accumulators = _carry(accumulators, layout.combines)
    chosen = order[starts]
    kept = _is_kept(accumulators, len(starts), layout.combines)
    if not kept.all():
        chosen = chosen[kept]
        accumulators = [a.filter(pa.array(kept)) for a in accumulators]
    indices = pa.array(chosen)
    arrays = [*(zset.take(c, indices) for c in columns), *accumulators, pa.array(hashes[chosen])]
    merged = pa.Table.from_arrays(arrays, schema=layout.schema)
    return _value_order(merged, layout) if layout.ordered else merged


def _is_kept(accumulators: list[pa.Array], length: int, combines: Sequence[Combine]) -> Bools:
    kept = np.zeros(length, dtype=bool)
    for array, how in zip(accumulators, combines, strict=True):
        if how in ("sum", "carry"):
            kept |= array.to_numpy() != 0
    return kept


def _value_order(table: pa.Table, layout: TraceLayout) -> pa.Table:
    """The rows in the order of (hash, key, column behind the key). NaN is the greatest value, as in Spark, and nulls
    follow it. Keys of one hash are in any order that depends on the key alone."""
    width = len(layout.key)
    assert layout.key == tuple(range(width)), "the key of an ordered trace is its first columns"
    key = identity_columns([c for c in table.columns[:width] if pa.types.is_nested(c.type)])
    key += [c for c in table.columns[:width] if not pa.types.is_nested(c.type)]
    columns = {HASH: table.column(HASH), **{f"k{i}": c for i, c in enumerate(key)}, "value": table.column(width)}
    order = pc.sort_indices(pa.table(columns), sort_keys=[(name, "ascending") for name in columns])
    return table.take(order)


def _order_runs(runs: Sequence[Run]) -> tuple[zset.Indices, Bools]:
    """(the rows of all runs, one run after another, in the order of their hashes; for each of these, whether its hash is in several runs)."""
    hashes = np.concatenate([run.hashes for run in runs])
    if len(runs) == 1:
        return np.arange(len(hashes)), np.zeros(len(hashes), np.bool_)
    order = np.argsort(hashes, kind="stable")
    number = np.repeat(np.arange(len(runs)), [len(run.hashes) for run in runs])[order]
    starts = np.flatnonzero(np.concatenate([[True], hashes[order[1:]] != hashes[order[:-1]]]))
    ends = np.append(starts[1:], len(order))
    return order, np.repeat(number[starts] != number[ends - 1], ends - starts)


def _carry(accumulators: list[pa.Array], combines: Sequence[Combine]) -> list[pa.Array]:
    """The accumulators after the carry of each limb is added to the next accumulator."""
    carried = list(accumulators)
    for place, how in enumerate(combines):
        if how == "carry":
            limb, above = carried[place].to_numpy(), carried[place + 1].to_numpy()
            carried[place] = pa.array(limb & LIMB_MASK)
            carried[place + 1] = pa.array(above + (limb >> LIMB_BITS))
    return carried


def _combine(column: pa.ChunkedArray, order: zset.Indices, starts: zset.Indices, how: Combine) -> pa.Array:
    """One combined value for each group of neighbours in `order`. Null is the identity of min and max; sums have no
    nulls."""
    if how in ("sum", "carry"):
        return pa.array(np.add.reduceat(column.to_numpy()[order], starts), column.type)
    if len(starts) == len(order):
        return zset.take(column, pa.array(order))
    if pa.types.is_integer(column.type) and not column.null_count:
        extreme = np.maximum if how == "max" else np.minimum
        return pa.array(extreme.reduceat(column.to_numpy()[order], starts), column.type)
    group = np.zeros(len(order), dtype=np.int64)
    group[starts] = 1
    sorted_values = zset.take(column, pa.array(order))
    table = pa.table({"group": np.cumsum(group), "value": sorted_values})
    combined = table.group_by("group", use_threads=False).aggregate([("value", how)])
    return combined.column(f"value_{how}").combine_chunks().cast(column.type)
