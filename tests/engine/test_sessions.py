"""Sessions beside its definition, over random histories of insertions and retractions."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.model.ordered import Sessions
from engine.operators.sessions import sessions_of, step_sessions
from engine.state.store import DictStore
from tests.engine.contexts import context_of
from tests.engine.zsets import Rows, plus

LONG, MOMENT = pa.int64(), pa.timestamp("us", "UTC")
RANGE = pa.struct([pa.field("start", MOMENT), pa.field("end", MOMENT)])
NODE = Sessions((0,), (LONG, RANGE, LONG), (0,), 1)
_ROWS = st.tuples(st.sampled_from([None, 1, 2]), st.integers(0, 9), st.integers(1, 3), st.integers(0, 1))


def _table(rows: Rows) -> pa.Table:
    cells = list(rows.items())
    ranges = [{"start": start, "end": start + length} for (_, start, length, _), _ in cells]
    columns = [
        pa.array([row[0] for row, _ in cells], LONG),
        pa.array(ranges, pa.struct([("start", LONG), ("end", LONG)])).cast(RANGE),
        pa.array([row[3] for row, _ in cells], LONG),
        pa.array([weight for _, weight in cells], LONG),
    ]
    return pa.table(columns, ["c0", "c1", "c2", "weight"])


def _rows(table: pa.Table) -> Rows:
    found: Rows = Counter()
    bounds = [field.cast(LONG).to_pylist() for field in table.column(1).combine_chunks().flatten()]
    for key, start, end, value, weight in zip(
        table.column(0).to_pylist(), *bounds, table.column(2).to_pylist(), table.column(3).to_pylist(), strict=True
    ):
        found[key, start, end, value] += weight
    return Counter({row: weight for row, weight in found.items() if weight})


def _defined(rows: Rows) -> Rows:
    """One session after the other."""
    result: Rows = Counter()
    for key in {row[0] for row in rows}:
        mine = sorted((row for row in rows if row[0] == key), key=lambda row: row[1:])
        open_: list[tuple[Any, ...]] = []
        for row in [*mine, None]:
            reached = max((r[1] + r[2] for r in open_), default=0)
            if open_ and (row is None or row[1] > reached):
                for member in open_:
                    result[key, open_[0][1], reached, member[3]] += rows[member]
                open_ = []
            if row is not None:
                open_.append(row)
    return result


@st.composite
def _histories(draw: st.DrawFn) -> list[Rows]:
    """Changes that never take away more than there is."""
    whole: Rows = Counter()
    steps = []
    for added in draw(st.lists(st.lists(_ROWS, max_size=6), min_size=1, max_size=4)):
        gone = draw(st.sets(st.sampled_from(sorted(whole, key=repr)))) if whole else set()
        change = plus(Counter({row: -whole[row] for row in gone}), Counter(added))
        whole = plus(whole, change)
        steps.append(change)
    return steps


@settings(deadline=None)
@given(_histories())
def test_ranges_that_touch_are_one_session_and_part_again(steps: list[Rows]) -> None:
    NODE.check([NODE.types])
    store, content, whole = DictStore(), Counter[tuple[Any, ...]](), Counter[tuple[Any, ...]]()
    for step, change in enumerate(steps):
        content = plus(content, _rows(step_sessions(NODE, [_table(change)], context_of(NODE, store, step))))
        whole = plus(whole, change)
        assert content == _defined(whole)


def test_times_far_apart_and_many_groups_do_not_overflow() -> None:
    top = np.iinfo(np.int64).max
    start = np.array([-top, top - 5, -top, 0], dtype=np.int64)
    group = np.array([0, 0, 1 << 40, 1 << 40])
    first, last = sessions_of(group, start, start + 5)
    assert first.tolist() == start.tolist()
    assert last.tolist() == (start + 5).tolist()
