"""Z-sets as tests write them: a Counter of tuples beside its Arrow form, and strategies that make both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from engine.rows import zset

Rows = Counter[tuple[Any, ...]]


def to_table(rows: Rows | Sequence[tuple[Any, ...]], types: Sequence[pa.DataType]) -> pa.Table:
    """A Z-set of these rows; a sequence may hold a row several times, unconsolidated."""
    counted = list(rows.items()) if isinstance(rows, Counter) else [(row, 1) for row in rows]
    columns = [pa.array([row[i] for row, _ in counted], kind) for i, kind in enumerate(types)]
    return pa.Table.from_arrays([*columns, pa.array([w for _, w in counted], pa.int64())], schema=zset.schema_of(types))


def to_rows(table: pa.Table) -> Rows:
    """The Counter of a Z-set; rows of weight 0 left out."""
    result: Rows = Counter()
    for *row, weight in zip(*(column.to_pylist() for column in table.columns), strict=True):
        result[tuple(map(frozen, row))] += weight
    return Counter({row: weight for row, weight in result.items() if weight})


def frozen(value: Any) -> Any:
    """The value in a form that has a hash and from which Arrow makes it again: lists as tuples, structs as tuples of pairs."""
    if isinstance(value, dict):
        return tuple((name, frozen(inner)) for name, inner in value.items())
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def plus(left: Rows, right: Rows) -> Rows:
    """The sum of Z-sets (Counter's own + drops what is not positive)."""
    result: Rows = Counter(left)
    for row, weight in right.items():
        result[row] += weight
    return Counter({row: weight for row, weight in result.items() if weight})


KEYS = st.one_of(st.none(), st.integers(-2, 4))
WORDS = st.sampled_from([None, "", "a", "b", "ä"])
ROWS = st.tuples(KEYS, WORDS)
TYPES = (pa.int64(), pa.string())


@st.composite
def histories(draw: st.DrawFn, *, grow: bool = False, steps_max: int = 5) -> list[Rows]:
    """Changes, a step each, whose running sum never has a negative weight: what a table can do. `grow`: only insertions."""
    content: Rows = Counter()
    changes: list[Rows] = []
    for _ in range(draw(st.integers(1, steps_max))):
        change: Rows = Counter()
        for row in draw(st.lists(ROWS, max_size=6)):
            change[row] += 1
        present = sorted(content.elements(), key=repr)
        if present and not grow:
            for row in draw(st.lists(st.sampled_from(present), max_size=len(present), unique_by=id)):
                if content[row] + change[row] > 0:
                    change[row] -= 1
        change = Counter({row: weight for row, weight in change.items() if weight})
        content = plus(content, change)
        changes.append(change)
    return changes
