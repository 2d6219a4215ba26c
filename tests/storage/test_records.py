"""Records: any changed byte is detected, and a tombstone is never mistaken for a value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import records

keys = st.binary(min_size=1, max_size=30)


@given(keys, st.binary(max_size=300))
def test_a_value_is_read_back(key: bytes, value: bytes) -> None:
    stored = records.encode(key, value)
    records.verify(key, stored)
    assert not records.is_tombstone(stored)
    assert records.value_of(memoryview(stored)) == value
    assert records.live_bytes(key, stored) == len(key) + len(value)


@given(keys)
def test_a_tombstone_is_distinguished_from_an_empty_value(key: bytes) -> None:
    records.verify(key, records.tombstone(key))
    assert records.is_tombstone(records.tombstone(key))
    assert records.live_bytes(key, records.tombstone(key)) == 0


@given(keys, st.binary(max_size=300) | st.none(), st.data())
def test_a_changed_bit_is_found(key: bytes, value: bytes | None, data: st.DataObject) -> None:
    stored = bytearray(records.tombstone(key) if value is None else records.encode(key, value))
    stored[data.draw(st.integers(0, len(stored) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(records.ChecksumMismatch):
        records.verify(key, stored)


@given(keys, keys, st.binary(max_size=50))
def test_a_value_under_another_key_is_found(key: bytes, other: bytes, value: bytes) -> None:
    if key != other:
        for stored in (records.encode(key, value), records.tombstone(key)):
            with pytest.raises(records.ChecksumMismatch):
                records.verify(other, stored)


@given(keys, st.integers(0, 11).filter(lambda length: length != records.TOMBSTONE_BYTES))
def test_a_cut_record_is_found(key: bytes, length: int) -> None:
    with pytest.raises(records.ChecksumMismatch):
        records.verify(key, records.encode(key, b"0123")[:length])
