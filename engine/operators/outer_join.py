"""OuterJoin: the equi-join that also keeps rows without a match, with NULLs in the other side's columns: LEFT and FULL OUTER JOIN. (A RIGHT
OUTER JOIN is a LEFT one whose sides are exchanged.)

With m(l) = "the number of right rows that match l", where a match has an equal key and satisfies the residual, the output of a left join is

    L x R  +  the rows l of L for which m(l) = 0, with NULLs

A side whose rows are kept is *preserved*. The trace of a preserved side has two sums for each row: its weight w, and the number of its pairs
p = w * m. Both are linear, so a step only adds to them:

    dp = w_old * dm + dw * m_new

A row has no match if its p is 0. So a step reads what an inner join reads, which is the rows of the changed keys on the other side, and
counts the pairs that it makes anyway. It never reads the other rows of the changed side, which would count matches again. It writes a
stored row a second time only if its number of matches changes, and then it also has output for that row.

A row whose key has a NULL matches nothing (unless the column is compared null-safely). It needs no state: its change is a change of the
output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from base.arrays import Int64s
from engine.model.joins import OuterJoin
from engine.operators import node_texts
from engine.operators.arrangement import Arrangement, Key, by_join_key
from engine.operators.context import StepContext
from engine.operators.descriptor import Growth, NoContent, Operator, OutputFacts, StateUse, Wording
from engine.operators.error_rows import ErrorRows
from engine.operators.join import match_pairs
from engine.operators.keys import distinct_keys, matchable, only
from engine.operators.names import OF_BOTH
from engine.operators.scalar import TooManyRows
from engine.rows import zset
from engine.rows.hashing import Hashes
from engine.state.runs import Combine
from engine.state.trace import Trace

LEFT, RIGHT = 0, 1
"""The numbers of the traces, and the numbers of the sides."""

Columns = Sequence[pa.Array | pa.ChunkedArray]


def step_outer_join(node: OuterJoin, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    changes = [zset.consolidate(change) for change in inputs]
    if not any(change.num_rows for change in changes):
        return zset.empty(node.types)
    left, right, out = _sides(node, changes, context)
    if node.single and context.errors is not None:
        _count_several(left, right, context.errors, sign=-1)
    one = _meet(node, left, right, context)
    right.store(right.change.columns[:-1], right.weights, right.weights * one.partners, right.hashes)
    two = _meet(node, right, left, context)
    left.store(left.change.columns[:-1], left.weights, left.weights * two.partners, left.hashes)
    left.store_gains(one)
    right.store_gains(two)
    if node.single and context.errors is not None:
        _count_several(left, right, context.errors, sign=1)
    elif node.single:
        _refuse_several(left, one, two)
    change = zset.add([zset.empty(node.types), *out, *one.out, *two.out])
    # The rows are unique already if only one side changes and the stored rows that it meets are unique.
    unique = not left.change.num_rows or (right.preserved and not right.change.num_rows)
    return change if unique else zset.consolidate(change)


@dataclass(frozen=True, kw_only=True)
class _OuterSide:
    """One input: its change (unique rows whose keys can match), the hashes of their keys, and what is stored of it. `others`: the types of
    the other input's columns."""

    number: int
    key: tuple[int, ...]
    preserved: bool
    change: pa.Table
    hashes: Hashes
    trace: Trace
    others: tuple[pa.DataType, ...]

    @property
    def weights(self) -> Int64s:
        return zset.weights_of(self.change)

    def rows_of(self, keys: pa.Table, hashes: Hashes) -> _Stored:
        """The stored rows with these keys."""
        matches = self.trace.probe(keys, hashes)
        width = len(self.trace.layout.types)
        columns = matches.rows.columns[:width]
        sums = [column.to_numpy() for column in matches.rows.columns[width:]]
        if not self.preserved or not len(matches.probe):
            return _Stored(columns, sums[0], np.zeros(len(matches.probe), np.int64), matches.probe)
        # A row may be in several runs, with a part of its sums in each.
        order, starts = zset.group_rows(columns, len(matches.probe), matches.probe.astype(np.uint64))
        weights, pairs = (np.add.reduceat(part[order], starts) for part in sums)
        present = np.flatnonzero(weights)
        chosen = order[starts[present]]
        return _Stored(_at(columns, chosen), weights[present], pairs[present], matches.probe[chosen])

    def store(self, columns: Columns, weights: Int64s, pairs: Int64s, hashes: Hashes) -> None:
        sums = [weights, pairs] if self.preserved else [weights]
        names = self.trace.layout.schema.names[:-1]
        self.trace.append(pa.Table.from_arrays([*columns, *map(pa.array, sums)], names), hashes)

    def store_gains(self, meeting: _Meeting) -> None:
        """Adds the pairs that stored rows have gained. There is nothing to add if the side is not preserved."""
        if self.preserved:
            rows = np.flatnonzero(meeting.gained)
            hashes = meeting.hashes[meeting.stored.group[rows]]
            self.store(_at(meeting.stored.columns, rows), np.zeros(len(rows), np.int64), meeting.gained[rows], hashes)

    def join_columns(self, columns: Columns, others: Columns) -> list[pa.Array | pa.ChunkedArray]:
        """Columns of this side and of the other one, in the order of the output."""
        return [*columns, *others] if self.number == LEFT else [*others, *columns]

    def with_nulls(self, columns: Columns, weights: Int64s) -> pa.Table:
        """Rows of this side, with NULLs in the columns of the other."""
        return zset.build(self.join_columns(columns, [pa.nulls(len(weights), kind) for kind in self.others]), weights)


@dataclass(frozen=True)
class _Stored:
    """Stored rows of a side. `group[i]`, which ascends, is the number of row i's key among the keys that were looked up. If the side is not
    preserved, a row may occur several times, and `pairs` is 0."""

    columns: Columns
    weights: Int64s
    pairs: Int64s
    group: zset.Indices


@dataclass(frozen=True, kw_only=True)
class _Meeting:
    """The stored rows of one side with the change of the other. `keys`, `hashes`: the changed keys. `out`: the change of the output.
    `gained[i]`: the pairs that stored row i gains. `partners[i]`: the number of stored rows that changed row i matches."""

    keys: pa.Table
    hashes: Hashes
    stored: _Stored
    out: list[pa.Table]
    gained: Int64s
    partners: Int64s


def _sides(
    node: OuterJoin, changes: Sequence[pa.Table], context: StepContext
) -> tuple[_OuterSide, _OuterSide, list[pa.Table]]:
    """Both sides, and the rows whose keys cannot match."""
    sides: list[_OuterSide] = []
    out: list[pa.Table] = []
    for number, placed in enumerate(context.join_keys(node.left_key, node.right_key)):
        preserved = node.full or number == LEFT
        able = matchable(changes[number], placed.columns, node.null_safe)
        change = only(changes[number], able)
        combines: list[Combine] = ["sum", "sum"] if preserved else ["sum"]
        trace = context.trace(number, change.schema.types[:-1], placed.columns, combines, [pa.int64()] * len(combines))
        others = tuple(changes[1 - number].schema.types[:-1])
        sides.append(
            _OuterSide(
                number=number,
                key=placed.columns,
                preserved=preserved,
                change=change,
                hashes=placed.hashes(change),
                trace=trace,
                others=others,
            )
        )
        if preserved:
            unable = only(changes[number], ~able)
            out.append(sides[-1].with_nulls(unable.columns[:-1], zset.weights_of(unable)))
    return sides[LEFT], sides[RIGHT], out


def _meet(node: OuterJoin, stays: _OuterSide, comes: _OuterSide, context: StepContext) -> _Meeting:
    """The stored rows of the side `stays` with the change of the side `comes`. A pair in error is no match."""
    keys, hashes, group = distinct_keys(comes.change, comes.key, comes.hashes)
    stored = stays.rows_of(keys, hashes)
    stored_at, changed_at = _equal_keys(stored.group, group, len(hashes))
    columns = stays.join_columns(_at(stored.columns, stored_at), _at(comes.change.columns[:-1], changed_at))
    weights = stored.weights[stored_at] * comes.weights[changed_at]
    pairs = zset.build(columns, weights)
    if node.residual is not None and len(weights):
        numbered = zset.build([*columns, pa.array(stored_at), pa.array(changed_at)], weights)
        types = [*node.types, pa.int64(), pa.int64()]
        kept = match_pairs(
            numbered, node.residual, types, context, counted=lambda wrong: zset.project(wrong, range(len(columns)))
        )
        stored_at, changed_at = (kept.column(len(columns) + i).to_numpy() for i in (0, 1))
        pairs = zset.project(kept, range(len(columns)))
    gained = stored.weights * _sums(stored_at, comes.weights[changed_at], len(stored.weights))
    partners = _sums(changed_at, stored.weights[stored_at], comes.change.num_rows)
    out = [pairs]
    if stays.preserved:
        out.append(_no_longer_alone(stays, stored, gained))
    if comes.preserved:
        new = only(comes.change, partners <= 0)
        out.append(comes.with_nulls(new.columns[:-1], zset.weights_of(new)))
    return _Meeting(keys=keys, hashes=hashes, stored=stored, out=out, gained=gained, partners=partners)


def _no_longer_alone(side: _OuterSide, stored: _Stored, gained: Int64s) -> pa.Table:
    """Retracts the rows with NULLs of stored rows that have a match now, and inserts those of stored rows that have none any more."""
    change = _alone(stored.weights, stored.pairs + gained) - _alone(stored.weights, stored.pairs)
    rows = np.flatnonzero(change)
    return side.with_nulls(_at(stored.columns, rows), (stored.weights * change)[rows])


def _alone(weights: Int64s, pairs: Int64s) -> Int64s:
    """1 for each row that has no match, and 0 for the others. Pairs have the sign of the weight, unless the number of matches is negative."""
    return (np.sign(weights) * pairs <= 0).astype(np.int64)


def _equal_keys(stored: zset.Indices, changed: zset.Indices, count: int) -> tuple[zset.Indices, zset.Indices]:
    """The positions of all pairs with equal numbers of keys. There are `count` keys, and `stored` ascends."""
    counts = np.bincount(stored, minlength=count)
    partners = counts[changed]
    changed_at = np.repeat(np.arange(len(changed)), partners)
    first = (np.cumsum(counts) - counts)[changed] - (np.cumsum(partners) - partners)
    return np.repeat(first, partners) + np.arange(len(changed_at)), changed_at


def _sums(at: zset.Indices, values: Int64s, length: int) -> Int64s:
    """The sum of the values at each of `length` positions."""
    result = np.zeros(length, np.int64)
    np.add.at(result, at, values)
    return result


def _at(columns: Columns, rows: zset.Indices) -> list[pa.Array]:
    indices = pa.array(rows)
    return [zset.take(column, indices) for column in columns]


def _count_several(left: _OuterSide, right: _OuterSide, errors: ErrorRows, sign: int) -> None:
    """Counts the left rows of the changed keys that have more than one match now. `sign`: -1 before the change is stored, and 1 after it."""
    columns = [
        pa.chunked_array(
            [*left.change.column(one).chunks, *right.change.column(other).chunks], left.change.column(one).type
        )
        for one, other in zip(left.key, right.key, strict=True)
    ]
    both = pa.Table.from_arrays(columns, [f"k{place}" for place in range(len(columns))])
    keys, hashes, _ = distinct_keys(both, range(len(columns)), np.concatenate([left.hashes, right.hashes]))
    stored = left.rows_of(keys, hashes)
    rows = np.flatnonzero(stored.pairs > stored.weights)
    if len(rows):
        error = TooManyRows.of("more than one row for a row outside")
        errors.add(zset.build(_at(stored.columns, rows), np.ones(len(rows), np.int64)), error, sign)


def _refuse_several(left: _OuterSide, one: _Meeting, two: _Meeting) -> None:
    """Raises TooManyRows if a left row has more than one match at the end of the step."""
    if not (one.stored.pairs + one.gained > one.stored.weights).any() and not (two.partners > 1).any():
        return
    for meeting in (one, two):
        stored = left.rows_of(meeting.keys, meeting.hashes)
        if (stored.pairs > stored.weights).any():
            raise TooManyRows.of("more than one row for a row outside")


def _arrange(node: OuterJoin, inputs: Sequence[Key | None]) -> Arrangement:
    """A row without a match lies by the key of its own side; the columns of the other side's key are NULL in it. So the output of a left join
    lies by the left key. In a full join both kinds of rows occur, and nothing is known of its output."""
    arrangement = by_join_key(node.left_key, node.right_key, inputs)
    return Arrangement(arrangement.exchanges, None) if node.full else arrangement


def _unique_key(node: OuterJoin, inputs: Sequence[Key | None]) -> Key | None:
    """A unique key of the left is one of the output if every left row has at most one match."""
    left, right = inputs
    one_match = node.single or (right is not None and set(right) <= set(node.right_key))
    return left if one_match and not node.full else None


def _text(node: OuterJoin) -> str:
    marks = ("full " if node.full else "left ") + ("single " if node.single else "")
    return marks + node_texts.join(node.left_key, node.right_key, node.null_safe, node.residual)


OUTER_JOIN = Operator(
    node=OuterJoin,
    implementation_version=1,
    step=step_outer_join,
    arrange=_arrange,
    output=OutputFacts(
        unique_key=_unique_key,
        comes_without_input=lambda node: False,
        counts_errors=lambda node: node.single or node.residual is not None,
    ),
    growth=Growth(
        retraction=lambda node: (
            "a row without a match is retracted when a match arrives (LEFT, RIGHT and FULL OUTER JOIN, and subqueries that stand for a value)"
        ),
        is_needed=False,
        is_relied_on=lambda node: False,
    ),
    state=StateUse(
        keeps=lambda node, append_only: (
            "both inputs, by key, with the number of pairs of every row that stays without a match"
        ),
        content=NoContent(),
        fed=None,
        traces_in_recursion=2,
    ),
    wording=Wording(columns=OF_BOTH, text=_text, user_name=lambda node: None),
)
