"""TopK: the first rows of each key in some order: ORDER BY, LIMIT and OFFSET.

With P(b) = "the first b rows of the key", the output is P(offset + count) - P(offset). Without a count it is all rows - P(offset). So the
operator is two cursors per key, and `engine/state/prefixes.py` moves them.

Order: by the sort keys, as Spark orders them, and then by canonical order, which is by the hash of the whole row. So the rows that are kept
are a function of the content alone, although Spark's own choice among rows that tie depends on its partitions.

Cost of a step: what `engine/state/prefixes.py` bounds. It grows with the change and with the rows that enter or leave the first `offset` and the
first `offset + count` rows, and not with the rows that are kept nor with `offset + count`.

State: if the input can retract, every row may come back, and all rows are stored. If it only inserts, a row that has left the first
`offset + count` rows never comes back, and only these rows are stored.

    trace 0   key, sort bytes, the other columns -> weight      (without partition columns, spread over slot 0 in their order)
    trace 1   key, number of the bound, sort bytes of the cursor's class, places before it -> 1
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Int64s
from engine.accumulators.sort_bytes import SortedBy, sort_bytes, spread_codes
from engine.model.node import Column
from engine.model.ordered import TopK
from engine.operators import node_texts
from engine.operators.arrangement import Key, by_key
from engine.operators.context import StepContext
from engine.operators.descriptor import Fed, Growth, NoContent, Operator, OutputFacts, StateUse, Wording
from engine.operators.keys import distinct_keys, hash_keys
from engine.operators.names import OF_FIRST
from engine.rows import zset
from engine.rows.hashing import Hashes, hash_columns
from engine.state.ordered_rows import KeyedRows, SpreadRows
from engine.state.prefixes import Cursors, PrefixChange, TraceChange, advance_cursors, before_cursor, clip, effects_of
from engine.state.runs import as_rows
from engine.state.trace import Trace

ROWS_TRACE, CURSORS_TRACE = 0, 1
"""The numbers of the traces."""


def step_top_k(node: TopK, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    delta = zset.consolidate(inputs[0])
    if delta.num_rows == 0:
        return zset.empty(node.types)
    layout = _Layout(node)
    rows = layout.rows_of(delta)
    keys, hashes, group = distinct_keys(rows, layout.key, context.key(0, node.partition).hashes(delta))
    trace = context.trace(ROWS_TRACE, rows.schema.types, layout.key, ordered=True)
    cursors = _CursorsTrace(context, keys, hashes)
    stored = KeyedRows(trace, keys, hashes) if node.partition else SpreadRows(trace, layout.spread_hashes)
    old = [cursors.read(bound) for bound in range(len(node.bounds))]
    change = TraceChange(group, rows, zset.weights_of(delta), zset.weights_of(delta))
    append_only = all(context.append_only)
    if not append_only:
        some = before_cursor(trace, change, old[-1])[0] if node.count is not None else np.ones(len(group), np.bool_)
        change = TraceChange(group, rows, change.weights, effects_of(trace, stored, change, some))
    moved = [
        advance_cursors(trace, stored, change, cursor, bound) for cursor, bound in zip(old, node.bounds, strict=True)
    ]
    _append(node, layout, trace, hashes, moved[-1] if append_only else change)
    cursors.write(old, [m.cursors for m in moved])
    return _output(node, layout, change, moved)


def _append(node: TopK, layout: _Layout, trace: Trace, hashes: Hashes, added: TraceChange | PrefixChange) -> None:
    """Adds rows to the trace under the co-located hash of their key. Without partition columns that is 0, and the rows are spread over slot
    0."""
    rows = added.rows
    of_rows = (
        hashes[added.key] if node.partition else layout.spread_hashes(rows.column(len(layout.key)).combine_chunks())
    )
    trace.append(rows.append_column("a0", pa.array(added.weights)), of_rows)


def _output(node: TopK, layout: _Layout, change: TraceChange, moved: Sequence[PrefixChange]) -> pa.Table:
    """The change of P(offset + count), or of all rows, without that of P(offset)."""
    parts = []
    if node.count is None:
        parts.append(layout.zset_of(change.rows, change.effects))
    else:
        parts.append(layout.zset_of(moved[-1].rows, moved[-1].weights))
    if node.offset:
        parts.append(layout.zset_of(moved[0].rows, -moved[0].weights))
    return zset.consolidate(zset.add([zset.empty(node.types), *parts]))


def _content(
    node: TopK, types: Sequence[Sequence[pa.DataType]], values: Sequence[pa.Table], context: StepContext
) -> pa.Table:
    """From the rows of each key in their order, without the cursors. Over an input that only inserts, the trace has the first `offset + count`
    rows alone."""
    assert node.count is not None, "the trace may lack the rows of the output"
    layout = _Layout(node)
    rows = context.trace(ROWS_TRACE, layout.types, layout.key, ordered=True).scan()
    if not rows.num_rows:
        return zset.empty(node.types)
    _, _, group = distinct_keys(rows, layout.key, hash_keys(rows, layout.key))
    order, before = _places(layout, rows, group)
    weights = np.maximum(rows.columns[-1].to_numpy()[order], 0)
    taken = clip(node.offset + node.count - before, weights) - clip(node.offset - before, weights)
    kept = np.flatnonzero(taken)
    return layout.zset_of(zset.take_rows(rows, order[kept]), taken[kept])


def _places(layout: _Layout, rows: pa.Table, group: Int64s) -> tuple[Int64s, Int64s]:
    """(the rows in the order of their groups and within them of the output, the places before each of them in its group). Rows of one class are
    in the same order as engine/state/prefixes.py has them. `rows`: of the trace, each once, with their weights."""
    sort = len(layout.key)
    score = pc.rank(rows.column(sort).combine_chunks(), tiebreaker="dense").to_numpy().astype(np.int64)
    major = (group * (1 + score.max()) + score).astype(np.uint64)
    others = [column for place, column in enumerate(rows.columns[:-1]) if place != sort]
    order, starts = zset.group_rows(others, rows.num_rows, major)
    assert len(starts) == rows.num_rows, "a row of the trace is twice in what was read"
    weights, ordered = np.maximum(rows.columns[-1].to_numpy()[order], 0), group[order]
    before = np.cumsum(weights) - weights
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return order, before - np.repeat(before[first], np.diff(np.append(first, len(order))))


class _Layout:
    """The columns of the trace of rows: the partition columns, or one constant column because a table needs a column; the sort bytes; and the
    other columns of the input."""

    def __init__(self, node: TopK) -> None:
        self._node = node
        self.key: tuple[Column, ...] = tuple(range(max(1, len(node.partition))))
        self._leading = None if not node.order else node.types[node.order[0].column]
        self._others = [c for c in range(len(node.types)) if c not in node.partition]

    @property
    def types(self) -> list[pa.DataType]:
        """The types of the columns of the trace."""
        key = [self._node.types[c] for c in self._node.partition] or [pa.int8()]
        return [*key, pa.binary(), *(self._node.types[c] for c in self._others)]

    def rows_of(self, delta: pa.Table) -> pa.Table:
        columns = zset.rows_of(delta)
        keys = [SortedBy(columns[k.column], k.ascending, k.nulls_first) for k in self._node.order]
        sort = sort_bytes(keys, hash_columns(columns, delta.num_rows))
        key = [columns[c] for c in self._node.partition] or [pa.array(np.zeros(delta.num_rows, np.int8))]
        arrays = [*key, sort, *(columns[c] for c in self._others)]
        return pa.Table.from_arrays(arrays, [f"c{i}" for i in range(len(arrays))])

    def spread_hashes(self, sort: pa.Array) -> Hashes:
        """Hashes in slot 0 that ascend with the sort bytes."""
        return spread_codes(sort, self._leading)

    def zset_of(self, rows: pa.Table, weights: Int64s) -> pa.Table:
        """Rows of the trace as rows of the input."""
        places = {c: i for i, c in enumerate(self._node.partition)}
        places |= {c: len(self.key) + 1 + i for i, c in enumerate(self._others)}
        return zset.build([rows.column(places[c]) for c in range(len(self._node.types))], weights)


class _CursorsTrace:
    """The cursors of some keys. An open cursor of a key without rows is not stored."""

    def __init__(self, context: StepContext, keys: pa.Table, hashes: Hashes) -> None:
        types = [*keys.schema.types, pa.int8(), pa.binary(), pa.int64()]
        self._keys, self._hashes = keys, hashes
        self._trace = context.trace(CURSORS_TRACE, types, range(keys.num_columns))
        matches = self._trace.probe(keys, hashes)
        numbered = zset.build(
            [pa.array(matches.probe), *matches.rows.columns[keys.num_columns : -1]], matches.rows.columns[-1].to_numpy()
        )
        self._stored = zset.consolidate(numbered)
        assert (zset.weights_of(self._stored) == 1).all(), "a cursor is stored once"

    def read(self, bound: int) -> Cursors:
        """The cursors of a bound, by the number of their key."""
        count = self._keys.num_rows
        rows = np.flatnonzero(self._stored.column(1).to_numpy() == bound)
        key = self._stored.column(0).to_numpy()[rows]
        place = np.full(count, -1)
        place[key] = rows
        before = np.zeros(count, np.int64)
        before[key] = self._stored.column(3).to_numpy()[rows]
        sort = zset.take(self._stored.column(2), pa.array(place, mask=place < 0))
        return Cursors(sort, before)

    def write(self, old: Sequence[Cursors], new: Sequence[Cursors]) -> None:
        parts = [self._rows(bound, cursors, -1) for bound, cursors in enumerate(old)]
        parts += [self._rows(bound, cursors, 1) for bound, cursors in enumerate(new)]
        change = zset.consolidate(zset.add(parts))
        key = change.column(0).to_numpy()
        arrays = [zset.take(column, pa.array(key)) for column in self._keys.columns]
        rows = zset.build([*arrays, *change.columns[1:-1]], zset.weights_of(change))
        self._trace.append(as_rows(rows), self._hashes[key])

    def _rows(self, bound: int, cursors: Cursors, weight: int) -> pa.Table:
        there = np.flatnonzero(cursors.sort.is_valid().to_numpy(zero_copy_only=False) | (cursors.before != 0))
        number = pa.array(np.full(len(there), bound, np.int8))
        columns = [pa.array(there), number, cursors.sort.take(pa.array(there)), pa.array(cursors.before[there])]
        return zset.build(columns, np.full(len(there), weight, np.int64))


def _retraction(node: TopK) -> str | None:
    """Without a count, a new row before the offset pushes another one out of the first rows and into the output, and takes none back."""
    return None if node.count is None else "a row that comes before others takes the place of the last one (LIMIT)"


def _unique_key(node: TopK, inputs: Sequence[Key | None]) -> Key | None:
    """If one row of each key is kept, the key is unique. Otherwise a unique key of the input remains one."""
    return node.partition if node.count == 1 else inputs[0]


def _keeps(node: TopK, append_only: bool) -> str:
    rows = f"the first {node.bounds[-1]} rows" if append_only else "all rows in order"
    return rows + (", by key" if node.partition else "")


def _text(node: TopK) -> str:
    return node_texts.top_k(node.partition, node.order, node.offset, node.count)


TOP_K = Operator(
    node=TopK,
    implementation_version=1,
    step=step_top_k,
    arrange=lambda node, inputs: by_key(node.partition, inputs[0]),
    output=OutputFacts(
        unique_key=_unique_key, comes_without_input=lambda node: False, counts_errors=lambda node: False
    ),
    growth=Growth(retraction=_retraction, is_needed=False, is_relied_on=lambda node: True),
    state=StateUse(
        keeps=_keeps,
        # The state holds the content among all other rows, if the input can retract. A view stores the few rows that are in it instead, and a
        # query reads these alone.
        content=NoContent(),
        # Without a count, and over an input that only grows, it keeps the rows that are left out, and not those of its output.
        fed=Fed(lambda node: node.count is not None, _content),
        traces_in_recursion=None,
    ),
    wording=Wording(columns=OF_FIRST, text=_text, user_name=lambda node: None),
)
