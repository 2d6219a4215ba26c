"""Partitioning: as Kafka's Java client, against a plain murmur2 and its known vectors."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from io_kafka.clients.partitioner import murmur2, partitions_of


def plain_murmur2(data: bytes) -> int:
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(data)
    whole = len(data) - len(data) % 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        k = (k ^ (k >> 24)) * m & mask
        h = (h * m & mask) ^ k
    if tail := data[whole:]:
        h = (h ^ int.from_bytes(tail, "little")) * m & mask
    h = (h ^ (h >> 13)) * m & mask
    return h ^ (h >> 15)


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_vectors_of_kafkas_own_tests(key: bytes, signed: int) -> None:
    assert murmur2(pa.array([key], pa.binary())).astype(np.int32).tolist() == [signed]
    assert plain_murmur2(key) == signed & 0xFFFFFFFF


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40)), st.integers(0, 3))
def test_the_vectorised_hash_equals_the_one_of_each_key(keys: list[bytes], skip: int) -> None:
    expected = [plain_murmur2(key) for key in keys]
    array = pa.array([b"gone"] * skip + keys, pa.binary()).slice(skip)
    assert murmur2(array).tolist() == expected
    assert murmur2(array.cast(pa.large_binary())).tolist() == expected


@settings(deadline=None)
@given(st.lists(st.tuples(st.none() | st.binary(max_size=9), st.none() | st.binary(max_size=9))), st.integers(1, 50))
def test_partitions(messages: list[tuple[bytes | None, bytes | None]], partitions: int) -> None:
    keys, values = (pa.array([m[i] for m in messages], pa.binary()) for i in (0, 1))
    expected = [
        (plain_murmur2(key) & 0x7FFFFFFF if key is not None else xxhash.xxh3_64_intdigest(value or b"")) % partitions
        for key, value in messages
    ]
    assert partitions_of(keys, values, partitions).tolist() == expected
    assert (
        partitions_of(pa.chunked_array([keys, keys]), pa.chunked_array([values, values]), partitions).tolist()
        == expected * 2
    )
