"""TemporalFilter: rows that are in the output in an interval of time.

With `t` the time after a step, a row is in one of three states, which follow from its interval [since, until) alone:

    t < since             it waits, in a trace by `since`
    since <= t < until    it is inside, in the output, and in a trace by `until` unless it never leaves
    until <= t            it can match no more, and is nowhere

A step first moves the stored rows of which a border lies between the times before and after it. It reads no others (engine/state/timed_rows.py).
Then it files the rows that have come, by their state at the time after the step. A row that is taken back is filed in the same way with its
negative weight, so it meets the row that it takes back; if that has expired, both are nowhere.

So the output after a step is a function of the input up to then and of the time, whatever the times between were.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from base.arrays import Int64s
from engine.model.clock import TemporalFilter
from engine.operators import node_texts
from engine.operators.arrangement import EVERYONE, Arrangement, Exchange, Key
from engine.operators.clock_bounds import FOREVER_US, intervals
from engine.operators.clock_value import Tick, tick_of
from engine.operators.context import StepContext
from engine.operators.descriptor import Fed, Growth, NoContent, Operator, OutputFacts, StateUse, Wording
from engine.operators.event_time import empty_rows
from engine.operators.names import OF_FIRST
from engine.rows import zset
from engine.rows.hashing import Hashes
from engine.state.forgetting import forget
from engine.state.runs import HASH
from engine.state.timed_rows import first_time_after, rows_between, timed_hashes
from engine.state.trace import Trace

WAITING, INSIDE = 0, 1
"""The numbers of the traces."""

_TIME = pa.int64()


def step_temporal_filter(node: TemporalFilter, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    rows, told = inputs
    if not told.num_rows:
        return empty_rows([rows], node.types)
    state, tick = _State(node, context), tick_of(told)
    out = [zset.empty(node.types)]
    if tick.before < tick.after:
        out += [state.enter(tick), state.leave(tick)]
    if rows.num_rows:
        out.append(state.arrive(zset.consolidate(rows), tick.after))
    if context.step.division.asks_border:
        state.note_borders(tick.after)
    return zset.consolidate(zset.add(out))


class _State:
    """The rows that wait, which have `since` and `until` behind their columns, and those inside, which have `until`."""

    def __init__(self, node: TemporalFilter, context: StepContext) -> None:
        self._node, self._context, self._width = node, context, len(node.types)
        self._waiting = context.trace(WAITING, (*node.types, _TIME, _TIME), ())
        self.inside = context.trace(INSIDE, (*node.types, _TIME), ())

    def enter(self, tick: Tick) -> pa.Table:
        """What the rows change whose time has come. If it is over already, they are only forgotten."""
        due = rows_between(self._waiting, self._width, tick.before, tick.after)
        forget(self._waiting, due)
        until = due.column(self._width + 1).to_numpy()
        there = np.flatnonzero(until > tick.after)
        rows, until = zset.take_rows(due, there), until[there]
        columns, weights = rows.columns[: self._width], rows.column(self._width + 2).to_numpy()
        self._keep_inside(columns, until, weights, rows.column(HASH).to_numpy())
        return zset.build(columns, weights)

    def leave(self, tick: Tick) -> pa.Table:
        """What the rows change whose time is over."""
        gone = rows_between(self.inside, self._width, tick.before, tick.after)
        forget(self.inside, gone)
        return zset.build(gone.columns[: self._width], -gone.column(self._width + 1).to_numpy())

    def arrive(self, rows: pa.Table, now: int) -> pa.Table:
        """What the rows of the step change."""
        since, until, ever = intervals(self._node.bounds, rows)
        weights = zset.weights_of(rows)
        hashes = self._context.key(0, range(rows.num_columns - 1)).hashes(rows)
        later, here = np.flatnonzero(ever & (since > now)), np.flatnonzero(ever & (since <= now) & (until > now))
        for borders in (since[later], until[here]):
            self._note_border(int(borders.min()) if len(borders) else None)
        times = since[later], until[later]
        _file(self._waiting, self._columns(rows, later), times, weights[later], timed_hashes(hashes[later], times[0]))
        columns = self._columns(rows, here)
        self._keep_inside(columns, until[here], weights[here], hashes[here])
        return zset.build(columns, weights[here])

    def note_borders(self, now: int) -> None:
        for trace in (self._waiting, self.inside):
            self._note_border(first_time_after(trace, self._width, now))

    def _note_border(self, border: int | None) -> None:
        if border is not None and border < FOREVER_US:
            self._context.found.note_border(border)

    def _columns(self, rows: pa.Table, chosen: Int64s) -> list[pa.Array]:
        return [zset.take(column, pa.array(chosen)) for column in rows.columns[: self._width]]

    def _keep_inside(
        self, columns: Sequence[pa.Array | pa.ChunkedArray], until: Int64s, weights: Int64s, hashes: Hashes
    ) -> None:
        """Nothing is known of rows inside that never leave: if one is taken back, it was there."""
        if self._node.ends:
            _file(self.inside, columns, (until,), weights, timed_hashes(hashes, until))


def _file(
    trace: Trace,
    columns: Sequence[pa.Array | pa.ChunkedArray],
    times: Sequence[Int64s],
    weights: Int64s,
    hashes: Hashes,
) -> None:
    if len(weights):
        arrays = [*columns, *(pa.array(each, _TIME) for each in times), pa.array(weights, pa.int64())]
        trace.append(pa.Table.from_arrays(arrays, trace.layout.schema.names[:-1]), hashes)


def _content(
    node: TemporalFilter, types: Sequence[Sequence[pa.DataType]], values: Sequence[pa.Table], context: StepContext
) -> pa.Table:
    stored = _State(node, context).inside.scan()
    return zset.build(stored.columns[: len(node.types)], stored.column(len(node.types) + 1).to_numpy())


def _arrange(node: TemporalFilter, inputs: Sequence[Key | None]) -> Arrangement:
    """Rows that lie by some columns stay. Others must be given a slot in which they can be stored. If nothing of the rows is in the output but
    how many there are, they lie by what is compared."""
    rows, width = inputs[0], len(node.types)
    exchange: Exchange = None
    if rows is None:
        exchange = rows = tuple(range(width)) or tuple(bound.column for bound in node.bounds)
    return Arrangement((exchange, EVERYONE), rows if all(column < width for column in rows) else None)


def _unique_key(node: TemporalFilter, inputs: Sequence[Key | None]) -> Key | None:
    key, width = inputs[0], len(node.types)
    return key if key is not None and all(column < width for column in key) else None


def _text(node: TemporalFilter) -> str:
    return " and ".join(f"{node_texts.of_clock(bound.path)} {bound.relation} c{bound.column}" for bound in node.bounds)


def _keeps(node: TemporalFilter, append_only: bool) -> str:
    return "the rows that match, and those that will" if node.ends else "the rows that will match"


TEMPORAL_FILTER = Operator(
    node=TemporalFilter,
    implementation_version=1,
    step=step_temporal_filter,
    arrange=_arrange,
    output=OutputFacts(
        unique_key=_unique_key, comes_without_input=lambda node: False, counts_errors=lambda node: False
    ),
    growth=Growth(
        retraction=lambda node: "rows leave the view as time passes" if node.ends else None,
        is_needed=False,
        is_relied_on=lambda node: False,
    ),
    state=StateUse(
        keeps=_keeps, content=NoContent(), fed=Fed(lambda node: node.ends, _content), traces_in_recursion=None
    ),
    wording=Wording(columns=OF_FIRST, text=_text, user_name=lambda node: None),
)
