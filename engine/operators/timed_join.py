"""TimedJoin: a join of two inputs that only insert, whose rows are forgotten when the watermark has passed what they can match.

As in Join, the change is dL x (R + dR) + L x dR. Rows that are late are left out first. A row is forgotten when the watermark reaches its
expiry, which lowering derives from the condition of the join: no row that comes later and is not late can match it. So the pairs are those of a
join that forgets nothing.

An outer side has two traces: its rows, and how many pairs each of them has been in. A row that is forgotten and was in none goes out with NULLs.
It cannot be known before, and so the output only inserts.

    traces 0, 1   the rows of the left and of the right, by the key of the join
    traces 2, 3   the rows of an outer side that have been in a pair -> in how many
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from engine.model.event_time import Expiry, TimedJoin
from engine.model.node import Column
from engine.operators import node_texts
from engine.operators.arrangement import Arrangement, Key, add_broadcast, by_join_key
from engine.operators.context import StepContext
from engine.operators.descriptor import Growth, NoContent, Operator, OutputFacts, StateUse, Wording
from engine.operators.event_time import Mark, drop_late, empty_rows, find_passed, mark_of, times_of
from engine.operators.join import match_pairs, pairs_of
from engine.operators.keys import ColocatedKey, columns_at, matchable, only
from engine.operators.names import OF_BOTH
from engine.rows import zset
from engine.rows.hashing import Hashes
from engine.state.forgetting import forget, select_rows
from engine.state.runs import HASH, as_rows, as_zset
from engine.state.trace import Trace

ROWS_TRACE, PAIRS_TRACE = 0, 2


def step_timed_join(node: TimedJoin, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    *rows, told = inputs
    if not told.num_rows:
        return empty_rows(rows, node.types)
    mark = mark_of(told)
    left, right = (_TimedSide(node, number, table, mark, context) for number, table in enumerate(rows))
    right.store()
    parts = [left.paired_with(right), right.paired_with(left)]
    left.store()
    joined = zset.consolidate(zset.add([part.cast(zset.schema_of(node.types)) for part in parts]))
    if node.residual is not None:
        joined = match_pairs(joined, node.residual, node.types, context)
        joined = zset.consolidate(joined)
    out = [joined]
    for side in (left, right):
        side.count_pairs(joined)
        alone = side.forget(mark)
        if alone is not None:
            out.append(alone)
    return zset.consolidate(zset.add(out))


@dataclass(frozen=True)
class _SideColumns:
    """The columns of one side. `first`: its first column in the output."""

    key: tuple[Column, ...]
    outer: bool
    time: Column | None
    expiry: Expiry | None
    first: int


def _columns(node: TimedJoin, number: int, width: int) -> _SideColumns:
    if number == 0:
        return _SideColumns(node.left_key, node.left_outer, node.left_time, node.left_expiry, 0)
    return _SideColumns(node.right_key, node.right_outer, node.right_time, node.right_expiry, len(node.types) - width)


class _TimedSide:
    """One side of the join in one step: its punctual rows, and its traces."""

    def __init__(self, node: TimedJoin, number: int, rows: pa.Table, mark: Mark, context: StepContext) -> None:
        self._node = node
        self._types = rows.schema.types[:-1]
        self._is = _columns(node, number, len(self._types))
        rows = zset.consolidate(rows)
        if self._is.time is not None:
            rows = drop_late(rows, self._is.time, mark, context)
        can_match = matchable(rows, self._is.key, node.null_safe)
        self._key: ColocatedKey = context.join_keys(node.left_key, node.right_key)[number]
        self._whole = ColocatedKey(
            tuple(range(len(self._types))), tuple(self._key.columns[position] for position in self._key.colocation)
        )
        self.rows = rows if self._is.outer else only(rows, can_match)
        self.matchable = only(rows, can_match)
        self.trace = context.trace(ROWS_TRACE + number, self._types, self._is.key)
        self._pairs: Trace | None = None
        if self._is.outer:
            self._pairs = context.trace(PAIRS_TRACE + number, self._types, range(len(self._types)))
        self._is_left = number == 0

    def store(self) -> None:
        self.trace.append(as_rows(self.rows), self._key.hashes(self.rows))

    def paired_with(self, other: _TimedSide) -> pa.Table:
        """Every row of this step with every stored row of the other side that has its key."""
        hashes = self._key.hashes(self.matchable)
        return pairs_of(self.matchable, self._is.key, hashes, other.trace, delta_is_left=self._is_left)

    def count_pairs(self, joined: pa.Table) -> None:
        if self._pairs is None or not joined.num_rows:
            return
        first = self._is.first
        mine = zset.consolidate(zset.project(joined, range(first, first + len(self._types))))
        self._pairs.append(as_rows(mine), self._whole.hashes(mine))

    def forget(self, mark: Mark) -> pa.Table | None:
        """Removes the rows that expire. Returns those of an outer side that have been in no pair, with NULLs in place of the other side."""
        expiry = self._is.expiry
        if expiry is None:
            return None
        gone = as_zset(self._expiring(expiry, mark))
        gone = zset.consolidate(gone)
        if not gone.num_rows:
            return None
        self.trace.append(as_rows(zset.negate(gone)), self._key.hashes(gone))
        if self._pairs is None:
            return None
        hashes = self._whole.hashes(gone)
        matches = self._pairs.probe(columns_at(gone, self._whole.columns), hashes)
        paired = matches.totals(gone.num_rows) > 0
        forget(self._pairs, _with_hash(matches.rows, hashes[matches.probe]))
        return self._with_nulls(gone.filter(pa.array(~paired)))

    def _expiring(self, expiry: Expiry, mark: Mark) -> pa.Table:
        """The rows that the watermark reaches in this step. Some expire as soon as they come: they are punctual, and what could match them is
        late."""
        reached = select_rows(self.trace, lambda run: find_passed(run.column(expiry.column), mark, expiry.offset_us))
        reached = reached.drop_columns([HASH])
        times, valid = times_of(self.rows.column(expiry.column))
        at_once = self.rows.filter(pa.array(valid & (times <= mark.before - expiry.offset_us)))
        return pa.concat_tables([reached, as_rows(at_once).cast(reached.schema)])

    def _with_nulls(self, rows: pa.Table) -> pa.Table:
        first, width = self._is.first, len(self._types)
        columns: list[pa.Array | pa.ChunkedArray] = [pa.nulls(rows.num_rows, kind) for kind in self._node.types]
        columns[first : first + width] = zset.rows_of(rows)
        return zset.build(columns, zset.weights_of(rows))


def _with_hash(rows: pa.Table, hashes: Hashes) -> pa.Table:
    return rows.append_column(HASH, pa.array(hashes, pa.uint64()))


def _arrange(node: TimedJoin, inputs: Sequence[Key | None]) -> Arrangement:
    """A right row that goes out alone has NULLs in the columns of the left key, and does not lie by them."""
    arrangement = add_broadcast(by_join_key(node.left_key, node.right_key, inputs[:2]))
    return Arrangement(arrangement.exchanges, None) if node.right_outer else arrangement


def _keeps(node: TimedJoin, append_only: bool) -> str:
    sides = (("left", node.left_expiry), ("right", node.right_expiry))
    bounded = [name for name, expiry in sides if expiry is not None]
    whole = [name for name, expiry in sides if expiry is None]
    kept = [f"the rows of the {' and the '.join(bounded)} that can still match"] if bounded else []
    return ", and ".join([*kept, *(f"all rows of the {name}" for name in whole)])


def _text(node: TimedJoin) -> str:
    outer = [name for name, is_outer in (("left", node.left_outer), ("right", node.right_outer)) if is_outer]
    prefix = f"{' and '.join(outer)} outer, " if outer else ""
    return prefix + node_texts.join(node.left_key, node.right_key, node.null_safe, node.residual)


TIMED_JOIN = Operator(
    node=TimedJoin,
    implementation_version=1,
    step=step_timed_join,
    arrange=_arrange,
    output=OutputFacts(
        unique_key=lambda node, inputs: None,
        comes_without_input=lambda node: False,
        counts_errors=lambda node: node.residual is not None,
    ),
    growth=Growth(retraction=lambda node: None, is_needed=True, is_relied_on=lambda node: True),
    state=StateUse(keeps=_keeps, content=NoContent(), fed=None, traces_in_recursion=None),
    wording=Wording(columns=OF_BOTH, text=_text, user_name=lambda node: None),
)
