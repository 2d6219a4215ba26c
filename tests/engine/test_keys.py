"""The net rows of a change by key: as consolidation and the distinct keys say, also where hashes collide."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.operators import keys
from engine.rows import zset
from engine.rows.hashing import Hashes

Row = tuple[int | None, str | None, int]
ROWS = st.lists(
    st.tuples(st.none() | st.integers(0, 3), st.none() | st.sampled_from("ab"), st.integers(-2, 2)), max_size=12
)


def change(rows: list[Row]) -> pa.Table:
    columns = [pa.array([row[0] for row in rows], pa.int64()), pa.array([row[1] for row in rows], pa.string())]
    return zset.build(columns, np.array([row[2] for row in rows], np.int64))


def check(rows: list[Row], key: list[int]) -> None:
    net, group, count = keys.net_rows_by_key(change(rows), key)
    found = [tuple(row.values()) for row in net.to_pylist()]
    totals: Counter[tuple[int | None, str | None]] = Counter()
    for number, text, weight in rows:
        totals[number, text] += weight
    assert Counter(found) == Counter((*row, weight) for row, weight in totals.items() if weight)
    by_group = {int(g): tuple(row[i] for i in key) for g, row in zip(group, found, strict=True)}
    assert [by_group[int(g)] for g in group] == [tuple(row[i] for i in key) for row in found]
    assert len(set(by_group.values())) == len(by_group) == count
    assert set(by_group) == set(range(count))


@given(rows=ROWS, key=st.sampled_from([[0], [1], [1, 0]]))
def test_each_row_is_there_once_with_the_number_of_its_key(rows: list[Row], key: list[int]) -> None:
    check(rows, key)


@pytest.mark.parametrize("hashes", [1, 2])
@given(rows=ROWS, key=st.sampled_from([[0], [1], [1, 0]]))
def test_keys_whose_hashes_collide_are_told_from_each_other(hashes: int, rows: list[Row], key: list[int]) -> None:
    real = keys.hash_keys

    def few(table: pa.Table, columns: list[int]) -> Hashes:
        return real(table, columns) % np.uint64(hashes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "hash_keys", few)
        check(rows, key)
