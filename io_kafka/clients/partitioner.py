"""Which output partition a message goes to.

Guarantees: a message with a key goes to the partition that Kafka's own Java client chooses, `toPositive(murmur2(key)) %
partitions`, so that other producers and stream joins agree with Stepwell. A message without a key goes by the xxh3_64 of
its value. Both are functions of the message alone: they are the same under every layout, in every process, on every run.

murmur2 (Austin Appleby, 32 bits, Kafka's seed) is computed for all keys at once, one word of four bytes per round.
Round i mixes in word i of the keys that have one. The keys are sorted by length first, so the keys of a round are a
prefix.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from base.arrays import Int64s, UInt8s, UInt32s
from io_kafka.binary_arrays import offsets_and_bytes, one_chunk

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_R = np.uint32(24)
_POSITIVE = np.uint32(0x7FFFFFFF)
_WORD_BYTES = 4


def partitions_of(
    keys: pa.Array | pa.ChunkedArray, values: pa.Array | pa.ChunkedArray, partitions: int
) -> npt.NDArray[np.int32]:
    """The output partition of every message; `keys` and `values` are binary, nulls allowed."""
    assert partitions >= 1 and len(keys) == len(values)
    keys, values = one_chunk(keys), one_chunk(values)
    numbers = ((murmur2(keys) & _POSITIVE) % np.uint32(partitions)).astype(np.int32)
    if keys.null_count:
        keyless = keys.is_null()
        rows = keyless.to_numpy(zero_copy_only=False)
        numbers[rows] = [
            xxhash.xxh3_64_intdigest(value or b"") % partitions for value in values.filter(keyless).to_pylist()
        ]
    return numbers


def murmur2(keys: pa.Array) -> UInt32s:
    """Kafka's murmur2 of every key, as an unsigned number of 32 bits. The value for a null key is undefined."""
    offsets, data = offsets_and_bytes(keys)
    if len(keys) == 0:
        return np.zeros(0, np.uint32)
    lengths = np.diff(offsets)
    longest_first = np.argsort(-lengths, kind="stable")
    lengths, starts = lengths[longest_first], offsets[:-1][longest_first]
    h = lengths.astype(np.uint32) ^ _SEED
    _mix_words(h, starts, lengths, data)
    _mix_tail(h, starts, lengths, data)
    h ^= h >> np.uint32(13)
    h *= _M
    h ^= h >> np.uint32(15)
    hashes = np.empty_like(h)
    hashes[longest_first] = h
    return hashes


def _mix_words(
    h: UInt32s,
    starts: Int64s,
    lengths: Int64s,
    data: UInt8s,
) -> None:
    """Mixes the whole words of every key into `h`; the rows are in order of descending length."""
    if lengths[0] < _WORD_BYTES:
        return
    # A word may begin at any byte, so this is a view of little-endian words that advances by one byte.
    words = np.ndarray((len(data) - _WORD_BYTES + 1,), dtype="<u4", buffer=data, strides=(1,))
    counts = lengths // _WORD_BYTES
    for round_ in range(int(counts[0])):
        rows = int(np.searchsorted(-counts, -round_))  # the rows with more than `round_` words
        k = words[starts[:rows] + round_ * _WORD_BYTES].astype(np.uint32)
        k *= _M
        k ^= k >> _R
        k *= _M
        h[:rows] *= _M
        h[:rows] ^= k


def _mix_tail(
    h: UInt32s,
    starts: Int64s,
    lengths: Int64s,
    data: UInt8s,
) -> None:
    """Mixes in the last one to three bytes of the keys whose length is not a multiple of four."""
    rest = lengths % _WORD_BYTES
    tails = starts + lengths - rest
    for byte in (2, 1, 0):
        rows = np.flatnonzero(rest > byte)
        h[rows] ^= data[tails[rows] + byte].astype(np.uint32) << np.uint32(8 * byte)
    h[rest > 0] *= _M
