"""`consolidate` and `group_rows` against Counter, also where all hashes collide."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.rows import hashing, zset
from tests.engine.zsets import ROWS, TYPES, to_rows, to_table


@given(st.lists(st.tuples(ROWS, st.integers(-2, 2)), max_size=20))
def test_consolidate_keeps_every_row_once(weighted: list[tuple[tuple[object, ...], int]]) -> None:
    expected: Counter[tuple[object, ...]] = Counter()
    for row, weight in weighted:
        expected[row] += weight
    table = zset.build(
        to_table([row for row, _ in weighted], TYPES).columns[:-1], np.array([w for _, w in weighted], np.int64)
    )
    result = zset.consolidate(table)
    assert to_rows(result) == Counter({row: weight for row, weight in expected.items() if weight})
    assert result.num_rows == len(to_rows(result))


@given(st.permutations(list(range(12))))
def test_consolidated_order_is_a_function_of_the_content(order: list[int]) -> None:
    rows = [(i % 5, "abc"[i % 3]) for i in range(12)]
    straight = zset.consolidate(to_table(rows, TYPES))
    assert zset.consolidate(to_table([rows[i] for i in order], TYPES)).equals(straight)


@given(st.lists(ROWS, max_size=20))
def test_rows_are_distinguished_when_all_hashes_collide(rows: list[tuple[object, ...]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zset, "hash_columns", lambda columns, length, seed=0: np.zeros(length, np.uint64))
        result = zset.consolidate(to_table(rows, TYPES))
    assert to_rows(result) == Counter(rows)
    assert result.num_rows == len(set(rows))


def test_nested_values_are_rows_like_others() -> None:
    lists = pa.array([[1, 2], [2, 1], [], None, [1, 2], [1, None], [1]], pa.list_(pa.int64()))
    structs = pa.array([{"a": 1}, {"a": 1}, None, {"a": None}, {"a": 1}, None, None], pa.struct([("a", pa.int64())]))
    result = zset.consolidate(zset.build([lists, structs], np.ones(7, np.int64)))
    assert result.num_rows == 6
    assert sorted(zset.weights_of(result).tolist()) == [1, 1, 1, 1, 1, 2]


def test_floats_are_rows_by_their_bits() -> None:
    floats = pa.array([0.0, -0.0, float("nan"), float("nan"), None], pa.float64())
    result = zset.consolidate(zset.build([floats], np.ones(5, np.int64)))
    assert sorted(zset.weights_of(result).tolist()) == [1, 1, 1, 2]


def test_hashes_never_change() -> None:
    """Hashes determine where state is stored, so a change here would change the format of every database."""
    table = {
        "long": pa.array([0, 1, -1, None], pa.int64()),
        "string": pa.array(["", "a", "ä", None]),
        "double": pa.array([0.0, -0.0, 1.5, None]),
        "decimal": pa.array([0, 1, -1, None], pa.decimal128(10, 0)),
        "bool": pa.array([True, False, True, None]),
    }
    found = {name: [f"{h:016x}" for h in hashing.hash_columns([column], 4)] for name, column in table.items()}
    assert found["long"][0] == found["double"][0] == found["double"][1]
    assert found == EXPECTED


EXPECTED = {
    "bool": ["8ba22977212096a8", "399cb48bc72e8d68", "8ba22977212096a8", "e65c8202a38aca67"],
    "decimal": ["399cb48bc72e8d68", "b4a5f4b4e6ebe336", "269d27dcfcd027c6", "e65c8202a38aca67"],
    "double": ["399cb48bc72e8d68", "399cb48bc72e8d68", "bc06feaecd3b5a2f", "e65c8202a38aca67"],
    "long": ["399cb48bc72e8d68", "8ba22977212096a8", "12959da49e3e188c", "e65c8202a38aca67"],
    "string": ["78d8490a6855cc05", "8f6f815ab02180d5", "d656c8a78cd45d46", "e65c8202a38aca67"],
}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_sum_has_one_schema_however_many_parts_it_has(count: int) -> None:
    """Marks of nullability are not part of a Z-set: Arrow refuses to join tables that differ in them."""
    marked = pa.schema([pa.field("c0", pa.bool_(), nullable=False), pa.field("weight", pa.int64(), nullable=False)])
    part = pa.table([[True], [1]], schema=marked)
    total = zset.add([part] * count)
    assert total.schema.equals(zset.schema_of([pa.bool_()])) and total.num_rows == count


def test_lists_whose_doubles_differ_in_their_bits_are_two_rows() -> None:
    """As the doubles themselves are. Otherwise the order of rows would decide which of the two remains."""
    inner = pa.struct([pa.field("x", pa.float64())])
    lists = pa.array([[{"x": 0.0}, None], [{"x": -0.0}, None], [{"x": 0.0}, None], None, []], pa.list_(inner))
    change = zset.consolidate(zset.build([lists], np.array([1, 1, 1, 1, -1])))
    assert sorted((repr(row["c0"]), row["weight"]) for row in change.to_pylist()) == [
        ("None", 1),
        ("[]", -1),
        ("[{'x': -0.0}, None]", 1),
        ("[{'x': 0.0}, None]", 2),
    ]
