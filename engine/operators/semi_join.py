"""SemiJoin: the left rows that have a match on the right, or (anti) that have none: IN, EXISTS, INTERSECT, NOT EXISTS, EXCEPT, NOT IN.

With present(l) = "some right row matches l", the change of the output is

    dL x present_new  +  L_old x (present_new - present_old)

The step looks up only the left rows of keys whose number of right rows becomes zero or stops being zero. With a residual condition, it counts
the matches of each left row whose key is that of a changed right row.

NOT IN (`null_aware`) depends on two more facts about the whole right side: whether it is empty, and whether it has a null. When one of them
changes, the step looks at every left row again, because each of them may change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from base.arrays import Bools, Int64s
from engine.model.joins import SemiJoin
from engine.operators import node_texts
from engine.operators.arrangement import Arrangement, Key, by_join_key, on_one_worker
from engine.operators.context import StepContext
from engine.operators.descriptor import Fed, Growth, NoContent, Operator, OutputFacts, StateUse, Wording
from engine.operators.join import match_pairs
from engine.operators.keys import ColocatedKey, columns_at, distinct_keys, hash_keys, matchable, net_by_key, only
from engine.operators.names import OF_FIRST
from engine.rows import zset
from engine.rows.hashing import Hashes
from engine.state.runs import as_rows, as_zset
from engine.state.trace import Trace

LEFT, RIGHT, SUMMARY = 0, 1, 2
"""The numbers of the traces."""


def step_semi_join(node: SemiJoin, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    left, right = zset.consolidate(inputs[0]), zset.consolidate(inputs[1])
    if not left.num_rows and not right.num_rows:
        return zset.empty(node.types)
    if node.null_aware:
        return _not_in(node, left, right, context)
    right = only(right, matchable(right, node.right_key, node.null_safe))
    unmatchable = ~matchable(left, node.left_key, node.null_safe)
    out = [only(left, unmatchable)] if node.anti else []
    left = only(left, ~unmatchable)
    if node.residual is None:
        out += _by_key(node, left, right, context)
    else:
        out += _by_row(node, left, right, context)
    return zset.consolidate(zset.add([zset.empty(node.types), *out]))


def _types(table: pa.Table) -> list[pa.DataType]:
    return [field.type for field in table.schema][:-1]


def _scale(rows: pa.Table, factor: Int64s) -> pa.Table:
    return zset.build(rows.columns[:-1], zset.weights_of(rows) * factor)


def _counts(trace: Trace, table: pa.Table, key: ColocatedKey, hashes: Hashes) -> Int64s:
    """For every row of `table`, the number of stored rows with its key. `hashes`: of the rows' keys."""
    return trace.probe(columns_at(table, key.columns), hashes).totals(table.num_rows)


def _by_key(node: SemiJoin, left: pa.Table, right: pa.Table, context: StepContext) -> list[pa.Table]:
    """The changes of the output without a residual: whether a left row stays depends on its key alone."""
    left_key, right_key = context.join_keys(node.left_key, node.right_key)
    change, key = net_by_key(right, node.right_key), right_key.alone
    left_trace = context.trace(LEFT, node.types, node.left_key)
    right_trace = context.trace(RIGHT, _types(change), key.columns)
    hashes = key.hashes(change)
    before = _counts(right_trace, change, key, hashes)
    after = before + zset.weights_of(change)
    right_trace.append(as_rows(change), hashes)
    flip = (after > 0).astype(np.int64) - (before > 0).astype(np.int64)
    flipped = np.flatnonzero(flip)
    moved = zset.take_rows(change, flipped)
    matches = left_trace.probe(columns_at(moved, key.columns), hashes[flipped])
    sign = -1 if node.anti else 1
    stored = as_zset(matches.rows)
    out = [_scale(stored, sign * flip[flipped][matches.probe])]
    left_hashes = left_key.hashes(left)
    present = _counts(right_trace, left, left_key, left_hashes) > 0
    out.append(only(left, present != node.anti))
    left_trace.append(as_rows(left), left_hashes)
    return out


def _by_row(node: SemiJoin, left: pa.Table, right: pa.Table, context: StepContext) -> list[pa.Table]:
    """The changes of the output with a residual: whether a left row stays depends on the whole row."""
    left_key, right_key = context.join_keys(node.left_key, node.right_key)
    left_trace = context.trace(LEFT, node.types, node.left_key)
    right_trace = context.trace(RIGHT, _types(right), node.right_key)
    right_hashes = right_key.hashes(right)
    keys, hashes, _ = distinct_keys(right, node.right_key, right_hashes)
    touched = zset.consolidate(as_zset(left_trace.probe(keys, hashes).rows))
    touched_hashes = left_key.hashes(touched)
    before = _match_counts(node, touched, touched_hashes, right_trace, context, sign=-1) > 0
    right_trace.append(as_rows(right), right_hashes)
    # Rows that leave have never met the rows that come, so no condition is evaluated for the two.
    touched_leaves, leaves = _leaving(touched, left)
    after = _match_counts(node, touched, touched_hashes, right_trace, context, asked=~touched_leaves) > 0
    sign = -1 if node.anti else 1
    out = [_scale(touched, sign * (after.astype(np.int64) - before.astype(np.int64)))]
    left_hashes = left_key.hashes(left)
    present = _match_counts(node, left, left_hashes, right_trace, context, asked=~leaves) > 0
    out.append(only(left, present != node.anti))
    left_trace.append(as_rows(left), left_hashes)
    return out


def _content(
    node: SemiJoin, types: Sequence[Sequence[pa.DataType]], values: Sequence[pa.Table], context: StepContext
) -> pa.Table:
    """The stored left rows that have a match. Of an anti join, the left rows that can match nothing would be missing."""
    left_key, right_key = context.join_keys(node.left_key, node.right_key)
    left = as_zset(context.trace(LEFT, node.types, node.left_key).scan())
    hashes = left_key.hashes(left)
    if node.residual is None:
        right = context.trace(RIGHT, [types[1][column] for column in node.right_key], right_key.alone.columns)
        matches = _counts(right, left, left_key, hashes)
    else:
        right = context.trace(RIGHT, types[1], node.right_key)
        matches = _match_counts(node, left, hashes, right, context)
    return only(left, matches > 0)


def _leaving(stored: pa.Table, change: pa.Table) -> tuple[Bools, Bools]:
    """For every stored row and for every row of the change, whether the change takes the row away altogether. Both are consolidated."""
    if not stored.num_rows or not (zset.weights_of(change) < 0).any():
        return np.zeros(stored.num_rows, dtype=bool), np.zeros(change.num_rows, dtype=bool)
    both = zset.add([stored, change])
    row = range(both.num_columns - 1)
    keys, _, group = distinct_keys(both, row, hash_keys(both, row))
    net = np.zeros(keys.num_rows, np.int64)
    np.add.at(net, group, zset.weights_of(both))
    gone = (net == 0)[group]
    return gone[: stored.num_rows], gone[stored.num_rows :]


def _match_counts(
    node: SemiJoin,
    left: pa.Table,
    hashes: Hashes,
    right_trace: Trace,
    context: StepContext,
    *,
    asked: Bools | None = None,
    sign: int = 1,
) -> Int64s:
    """For every left row, the number of right rows that match it and satisfy the residual; 0 for rows that are not `asked` for. `hashes`: of
    the left rows' keys. A pair in error is no match, and counts with `sign` times the weights of both rows."""
    assert node.residual is not None
    counts = np.zeros(left.num_rows, dtype=np.int64)
    if asked is not None and not asked.all():
        counts[asked] = _match_counts(node, only(left, asked), hashes[asked], right_trace, context, sign=sign)
        return counts
    matches = right_trace.probe(columns_at(left, node.left_key), hashes)
    if not len(matches.probe):
        return counts
    rows = zset.take_rows(left, matches.probe)
    joined, weights = [*rows.columns[:-1], *matches.rows.columns[:-1]], zset.weights_of(left)
    pairs = zset.build([*joined, pa.array(matches.probe)], matches.rows.columns[-1].to_numpy())

    def weigh(wrong: pa.Table) -> pa.Table:
        of_left = weights[wrong.column(len(joined)).to_numpy()]
        return zset.build(wrong.columns[: len(joined)], zset.weights_of(wrong) * of_left)

    kept = match_pairs(pairs, node.residual, _types(pairs), context, counted=weigh, sign=sign)
    np.add.at(counts, kept.columns[-2].to_numpy(), zset.weights_of(kept))
    return counts


def _not_in(node: SemiJoin, left: pa.Table, right: pa.Table, context: StepContext) -> pa.Table:
    """NOT IN with its nulls. All rows are on the worker that owns slot 0, because it depends on the whole right side."""
    left_key, right_key = context.join_keys(node.left_key, node.right_key)
    change, key = net_by_key(right, node.right_key), right_key.alone
    left_trace = context.trace(LEFT, node.types, node.left_key)
    right_trace = context.trace(RIGHT, _types(change), key.columns)
    old = _Summary.load(context)
    new = old.plus(change)
    stored = _rows_to_review(key, change, old, new, left_trace)
    before = _stays(left_key, stored, old, right_trace)
    right_trace.append(as_rows(change), key.hashes(change))
    new.save(context, old)
    after = _stays(left_key, stored, new, right_trace)
    out = [_scale(stored, after.astype(np.int64) - before.astype(np.int64))]
    out.append(only(left, _stays(left_key, left, new, right_trace)))
    left_trace.append(as_rows(left), left_key.hashes(left))
    return zset.consolidate(zset.add(out))


@dataclass(frozen=True)
class _Summary:
    """A summary of the right side of a NOT IN: the number of rows, and the number of rows that are null."""

    rows: int
    nulls: int

    @staticmethod
    def load(context: StepContext) -> _Summary:
        content = _summary_trace(context).scan()
        return _Summary(*(int(content.column(i).to_numpy().sum()) for i in (0, 1)))

    def plus(self, change: pa.Table) -> _Summary:
        weights = zset.weights_of(change)
        null = change.column(0).is_null().to_numpy()
        return _Summary(self.rows + int(weights.sum()), self.nulls + int(weights[null].sum()))

    def save(self, context: StepContext, old: _Summary) -> None:
        delta = {"a0": [self.rows - old.rows], "a1": [self.nulls - old.nulls]}
        _summary_trace(context).append(pa.table(delta), np.zeros(1, np.uint64))

    @property
    def has_rows_and_nulls(self) -> tuple[bool, bool]:
        """The facts on which the answer for every left row depends."""
        return self.rows > 0, self.nulls > 0


def _summary_trace(context: StepContext) -> Trace:
    return context.trace(SUMMARY, (), (), ("sum", "sum"), (pa.int64(), pa.int64()))


def _rows_to_review(key: ColocatedKey, change: pa.Table, old: _Summary, new: _Summary, left_trace: Trace) -> pa.Table:
    """The stored left rows whose answer may have changed. These are all rows if the right side has become empty or is no longer empty, or has
    its first null or has lost the last one. Otherwise they are the rows of the changed keys."""
    if old.has_rows_and_nulls != new.has_rows_and_nulls:
        rows = left_trace.scan()
    else:
        rows = left_trace.probe(columns_at(change, key.columns), key.hashes(change)).rows
    return zset.consolidate(as_zset(rows))


def _stays(key: ColocatedKey, left: pa.Table, right: _Summary, right_trace: Trace) -> Bools:
    """For every left row, whether it is in the output."""
    if right.rows <= 0:
        return np.ones(left.num_rows, dtype=bool)
    if right.nulls > 0:
        return np.zeros(left.num_rows, dtype=bool)
    known = matchable(left, key.columns, (False,))
    stays: Bools = known & (_counts(right_trace, left, key, key.hashes(left)) <= 0)
    return stays


def _arrange(node: SemiJoin, inputs: Sequence[Key | None]) -> Arrangement:
    return on_one_worker(inputs) if node.null_aware else by_join_key(node.left_key, node.right_key, inputs)


def _retraction(node: SemiJoin) -> str | None:
    if not node.anti:
        return None
    return "a row without a match is retracted when a match arrives (NOT IN, NOT EXISTS, EXCEPT, LEFT ANTI JOIN)"


def _text(node: SemiJoin) -> str:
    marks = ("anti " if node.anti else "") + ("null-aware " if node.null_aware else "")
    return marks + node_texts.join(node.left_key, node.right_key, node.null_safe, node.residual)


SEMI_JOIN = Operator(
    node=SemiJoin,
    implementation_version=1,
    step=step_semi_join,
    arrange=_arrange,
    output=OutputFacts(
        # A unique key of the left is one of the output too. With it here, more joins would get partial sums, and the circuits of existing state
        # would change.
        unique_key=lambda node, inputs: None,
        comes_without_input=lambda node: False,
        counts_errors=lambda node: node.residual is not None,
    ),
    growth=Growth(retraction=_retraction, is_needed=False, is_relied_on=lambda node: False),
    state=StateUse(
        keeps=lambda node, append_only: "both inputs, by key",
        content=NoContent(),
        fed=Fed(lambda node: not node.anti, _content),
        traces_in_recursion=3,
    ),
    wording=Wording(columns=OF_FIRST, text=_text, user_name=lambda node: None),
)
