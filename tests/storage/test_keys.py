"""Keys: their parts are read back, and their order keeps a table and a shard together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import keys

tables = st.integers(0, keys.TABLE_MAX)
slots = st.integers(0, keys.SLOT_MAX)
parts = st.tuples(tables, slots, st.binary(max_size=20))


@given(parts)
def test_parts_are_read_back(part: tuple[int, int, bytes]) -> None:
    key = keys.record_key(*part)
    assert (keys.key_table(key), keys.key_slot(key), key[keys.PREFIX_BYTES :]) == part
    assert key.startswith(keys.table_prefix(part[0])) and key.startswith(keys.slot_prefix(*part[:2]))


@given(st.lists(parts, max_size=30))
def test_order_of_keys_is_order_of_parts(some: list[tuple[int, int, bytes]]) -> None:
    assert sorted(keys.record_key(*part) for part in some) == [keys.record_key(*part) for part in sorted(some)]


@given(parts)
def test_the_reserved_table_comes_after_all_others(part: tuple[int, int, bytes]) -> None:
    assert keys.record_key(*part) < keys.RESERVED


@pytest.mark.parametrize("part", [(0xFFFF, 0, b""), (-1, 0, b""), (0, 0x10000, b""), (0, 0, bytes(507))])
def test_parts_out_of_range_are_asserted(part: tuple[int, int, bytes]) -> None:
    with pytest.raises(AssertionError):
        keys.record_key(*part)
