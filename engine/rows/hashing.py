"""A stable 64-bit hash of rows: the same in every process, on every machine, in every run.

It decides where a row lives (shard = top bits), so it is part of the state's format: changing it is a migration. Fixed-width
values go through the finaliser of splitmix64 (Steele, Lea, Flood 2014; constants of Stafford's variant 13), which numpy does for
a whole column; strings go through xxh3 once a distinct value. Null, NaN and zero each have one form, so that what Spark
takes for one key has one hash.

`identity_columns` is the other half: rows are the same row when these columns are equal. Hashes narrow a search, equality decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

Hashes = npt.NDArray[np.uint64]

SHARDS_DEFAULT = 4096
"""Shards of a state: enough to divide it evenly among some hundred workers, few enough for a table in every task."""

_NULL = np.uint64(0x9E3779B97F4A7C15)
_COMBINE = np.uint64(0xD1342543DE82EF95)
_INCREMENT = np.uint64(0x8CB92BA72F3D8DD7)
_ELEMENT = np.uint64(0xA0761D6478BD642F)


def hash_columns(columns: Sequence[pa.Array | pa.ChunkedArray], length: int, seed: int = 0) -> Hashes:
    """One hash a row over `columns`, in their order; rows without columns hash to 0. O(rows), and one xxh3 a distinct string."""
    result = np.zeros(length, dtype=np.uint64)
    if seed:
        result += np.uint64(seed)
    for column in columns:
        with np.errstate(over="ignore"):
            # splitmix64 keeps 0, and keys of zeros are common: the increment takes them away from it.
            result = _mix(result * _COMBINE + _hash_column(_flat(column)) + _INCREMENT)
    return result


def shard_of(hashes: Hashes, shards: int) -> npt.NDArray[np.int64]:
    """The shard of every hash: its top bits. `shards` is a power of two, 1 to 65536."""
    bits = shards.bit_length() - 1
    if bits == 0:
        return np.zeros(len(hashes), dtype=np.int64)
    return (hashes >> np.uint64(64 - bits)).astype(np.int64)


def canonical_floats(column: pa.Array) -> pa.Array:
    """-0.0 becomes 0.0 and every NaN the same NaN, as Spark's NormalizeFloatingNumbers has keys; other types are returned as they are."""
    if not pa.types.is_floating(column.type):
        return column
    values = column.fill_null(0.0).to_numpy(zero_copy_only=False)
    plain = np.where(np.isnan(values), np.array(np.nan, dtype=values.dtype), values + np.array(0.0, dtype=values.dtype))
    mask = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return pa.array(plain, type=column.type, mask=mask)


def identity_columns(columns: Sequence[pa.Array | pa.ChunkedArray]) -> list[pa.Array]:
    """Flat columns that are equal exactly where the rows are equal: structs become their fields and a mark of presence,
    lists become two independent hashes of their elements (128 bits: equal lists are told apart from unequal ones)."""
    flat: list[pa.Array] = []
    for column in columns:
        _flatten(_flat(column), flat)
    return flat


def _flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return column


def _flatten(column: pa.Array, flat: list[pa.Array]) -> None:
    if pa.types.is_struct(column.type):
        flat.append(column.is_valid())
        for field in column.flatten():
            _flatten(field, flat)
    elif pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        flat.append(column.is_valid())
        flat.append(pa.array(_hash_column(column)))
        flat.append(pa.array(_hash_list(column, seed=1)))
    elif pa.types.is_floating(column.type):
        # Bits decide: NaN equals NaN, and -0.0 stays apart from 0.0, for which of two merged rows stays must not depend on order.
        width = column.type.bit_width
        bits = column.fill_null(0.0).to_numpy(zero_copy_only=False).view(f"int{width}")
        mask = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
        flat.append(pa.array(bits, mask=mask))
    else:
        flat.append(column)


def _mix(values: Hashes) -> Hashes:
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return values ^ (values >> np.uint64(31))


def _hash_column(column: pa.Array) -> Hashes:
    kind = column.type
    if pa.types.is_struct(kind):
        hashes = hash_columns(column.flatten(), len(column), seed=1)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        hashes = _hash_list(column, seed=0)
    elif pa.types.is_null(kind):
        return np.full(len(column), _NULL)
    elif _is_bytes(kind):
        return _hash_bytes(column)
    else:
        hashes = _hash_fixed(column)
    if column.null_count:
        hashes = np.where(column.is_null().to_numpy(zero_copy_only=False), _NULL, hashes)
    return hashes


def _is_bytes(kind: pa.DataType) -> bool:
    return any(kind == known for known in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary()))


def _hash_bytes(column: pa.Array) -> Hashes:
    encoded = column.dictionary_encode()
    distinct = encoded.dictionary.cast(pa.binary()).to_pylist()
    table = np.fromiter(map(xxhash.xxh3_64_intdigest, distinct), dtype=np.uint64, count=len(distinct))
    table = np.append(table, _NULL)
    indices = encoded.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)
    return _take(table, indices)


def _take(table: Hashes, indices: npt.NDArray[Any]) -> Hashes:
    taken: Hashes = table[indices]
    return taken


def _hash_fixed(column: pa.Array) -> Hashes:
    kind = column.type
    if pa.types.is_decimal(kind):
        low, high = decimal_words(column)
        with np.errstate(over="ignore"):
            return _mix(_mix(low) * _COMBINE + high.view(np.uint64))
    if pa.types.is_floating(kind):
        values = canonical_floats(column).cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        return _mix(values.view(np.uint64))
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_temporal(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    return _mix(values.astype(np.int64).view(np.uint64))


def decimal_words(column: pa.Array) -> tuple[Hashes, npt.NDArray[np.int64]]:
    """A decimal128 column's unscaled values as (low unsigned word, high signed word); what stands at nulls is 0."""
    if column.type.bit_width != 128:
        raise TypeError(f"decimal128 expected, not {column.type}")
    words = np.frombuffer(column.buffers()[1], dtype=np.int64, count=2 * (column.offset + len(column)))
    words = words.reshape(-1, 2)[column.offset :]
    low, high = words[:, 0].copy(), words[:, 1].copy()
    if column.null_count:
        null = column.is_null().to_numpy(zero_copy_only=False)
        low[null] = 0
        high[null] = 0
    return low.view(np.uint64), high


def _hash_list(column: pa.Array, seed: int) -> Hashes:
    """Sum over the elements of mix(hash + position): a polynomial would need a loop, a plain sum would forget the order."""
    flat = pc.list_flatten(column)
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.cumsum(lengths)
    starts = ends - lengths
    positions = np.arange(len(flat), dtype=np.int64) - np.repeat(starts, lengths)
    elements = hash_columns([flat], len(flat), seed=seed + 1)
    with np.errstate(over="ignore"):
        placed = _mix(elements + positions.astype(np.uint64) * _ELEMENT)
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(placed, dtype=np.uint64)])
        return _mix(sums[ends] - sums[starts] + lengths.astype(np.uint64))
