"""A stable 64-bit hash of rows: the same in every process, on every machine and in every run.

The hash decides where a row is stored (its top bits are the slot), so it is part of the state's format, and changing
it is a migration. Fixed-width values go through the finaliser of splitmix64 (Steele, Lea, Flood 2014; with the
constants of Stafford's variant 13), which numpy computes for a whole column. Each distinct string goes through xxh3
once. Null, NaN and zero each have one form, so values that Spark treats as one key have one hash.

Hashes narrow a search, and equality decides: `identity_columns` gives columns that are equal exactly where rows are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from base.arrays import UInt64s, as_lists, decimal_words, fill
from base.slots import SLOT_BITS

Hashes = UInt64s
HASH_BITS = 64
_SLOT_MASK = np.uint64(((1 << SLOT_BITS) - 1) << (HASH_BITS - SLOT_BITS))

# Operations on arrays of integers wrap around without a warning, which numpy gives for single numbers only.
_NULL = np.uint64(0x9E3779B97F4A7C15)
_COMBINE = np.uint64(0xD1342543DE82EF95)
_INCREMENT = np.uint64(0x8CB92BA72F3D8DD7)
_ELEMENT = np.uint64(0xA0761D6478BD642F)
_MIX_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)
_MIX_FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def hash_columns(columns: Sequence[pa.Array | pa.ChunkedArray], length: int, seed: int = 0) -> Hashes:
    """One hash for each of `length` rows, over `columns` in their order. Rows without columns hash to `seed`. The cost
    is O(rows), and one xxh3 for each distinct string of a column."""
    return _combine((_hash_column(_flat(column)) for column in columns), length, seed)


def colocated_hashes(columns: Sequence[pa.Array | pa.ChunkedArray], length: int, colocation: Sequence[int]) -> Hashes:
    """Returns hashes like those of `hash_columns`, but the slot of each is that of the routing hash, which is the hash of the columns at
    `colocation` alone. It costs one pass more over the rows, unless `colocation` is all columns in their order."""
    if length == 0:  # as one side of a join often is
        return np.empty(0, dtype=np.uint64)
    if tuple(colocation) == tuple(range(len(columns))):
        return hash_columns(columns, length)
    hashed = [_hash_column(_flat(column)) for column in columns]
    return with_slots_of(_combine([hashed[i] for i in colocation], length, 0), _combine(hashed, length, 0))


def with_slots_of(routing: Hashes, own: Hashes) -> Hashes:
    """The hashes `own` with their slots replaced by those of `routing`."""
    colocated: Hashes = (routing & _SLOT_MASK) | (own & ~_SLOT_MASK)
    return colocated


def slot_of(placed_hash: int) -> int:
    return placed_hash >> (HASH_BITS - SLOT_BITS)


def first_hash_of(slot: int) -> int:
    """The lowest hash in a slot. That of the slot after the last one is 2**64."""
    return slot << (HASH_BITS - SLOT_BITS)


def canonical_floats(column: pa.Array) -> pa.Array:
    """The column with 0.0 in place of -0.0 and with one NaN for all, as Spark's NormalizeFloatingNumbers does for keys.
    A column of another type is returned unchanged."""
    if not pa.types.is_floating(column.type):
        return column
    values = fill(column, 0.0).to_numpy(zero_copy_only=False)
    plain = np.where(np.isnan(values), np.array(np.nan, dtype=values.dtype), values + np.array(0.0, dtype=values.dtype))
    mask = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return pa.array(plain, type=column.type, mask=mask)


def identity_columns(columns: Sequence[pa.Array | pa.ChunkedArray]) -> list[pa.Array]:
    """Flat columns that are equal exactly where the rows are equal. A struct becomes its fields and a column that says
    where it is not null. A list becomes such a column and two independent 64-bit hashes of its elements: two unequal
    lists agree in both with a probability of 2**-128."""
    flat: list[pa.Array] = []
    for column in columns:
        _flatten(_flat(column), flat)
    return flat


def _flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return column


def _flatten(column: pa.Array, flat: list[pa.Array]) -> None:
    if pa.types.is_map(column.type):
        column = as_lists(column)
    if pa.types.is_struct(column.type):
        flat.append(column.is_valid())
        for field in column.flatten():
            _flatten(field, flat)
    elif pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        flat.append(column.is_valid())
        flat.append(pa.array(_hash_column(column)))
        flat.append(pa.array(_hash_list(column, seed=1)))
        if _holds_floats(column.type):  # the hashes take -0.0 for 0.0, and here the bits decide
            flat.append(pa.array(_hash_list(_as_bits(column), seed=1)))
    elif pa.types.is_floating(column.type):
        # The bits decide: NaN equals NaN, but -0.0 does not equal 0.0. Otherwise the order of the rows would decide which
        # of the two values remains when rows are merged.
        width = column.type.bit_width
        bits = fill(column, 0.0).to_numpy(zero_copy_only=False).view(f"int{width}")
        mask = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
        flat.append(pa.array(bits, mask=mask))
    else:
        flat.append(column)


def _holds_floats(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_holds_floats(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_floating(kind))


def _as_bits(column: pa.Array) -> pa.Array:
    """The column with the bits of each double in place of it, in nested fields too."""
    if pa.types.is_map(column.type):
        column = as_lists(column)
    kind = column.type
    if pa.types.is_floating(kind):
        bits = fill(column, 0.0).to_numpy(zero_copy_only=False).view(f"int{kind.bit_width}")
        return pa.array(bits, mask=column.is_null().to_numpy(zero_copy_only=False))
    if pa.types.is_struct(kind) and kind.num_fields:
        fields = [_as_bits(field) for field in column.flatten()]
        return pa.StructArray.from_arrays(fields, names=[field.name for field in kind], mask=column.is_null())
    if pa.types.is_list(kind):
        lengths = fill(column.value_lengths(), 0).to_numpy()
        offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))
        return pa.ListArray.from_arrays(offsets, _as_bits(column.flatten()), mask=column.is_null())
    return column


def _combine(columns: Iterable[Hashes], length: int, seed: int) -> Hashes:
    """One hash for each row from the hashes of its columns."""
    result = np.full(length, seed, dtype=np.uint64)
    for column in columns:
        # splitmix64 maps 0 to 0, and keys that are 0 are common. The increment keeps them from hashing to 0.
        result = _mix(result * _COMBINE + column + _INCREMENT)
    return result


def _mix(values: Hashes) -> Hashes:
    values = (values ^ (values >> _MIX_SHIFTS[0])) * _MIX_FACTORS[0]
    values = (values ^ (values >> _MIX_SHIFTS[1])) * _MIX_FACTORS[1]
    return values ^ (values >> _MIX_SHIFTS[2])


def _hash_column(column: pa.Array) -> Hashes:
    if pa.types.is_map(column.type):
        column = as_lists(column)
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
    indices = fill(encoded.indices, len(distinct)).to_numpy(zero_copy_only=False)
    return _gather(table, indices)


def _gather(table: Hashes, indices: npt.NDArray[Any]) -> Hashes:
    gathered: Hashes = table[indices]
    return gathered


def _hash_fixed(column: pa.Array) -> Hashes:
    kind = column.type
    if pa.types.is_decimal(kind):
        low, high = decimal_words(column)
        return _mix(_mix(low) * _COMBINE + high.view(np.uint64))
    if pa.types.is_floating(kind):
        values = fill(canonical_floats(column).cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
        return _mix(values.view(np.uint64))
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_temporal(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    values = fill(column, 0).to_numpy(zero_copy_only=False)
    return _mix(values.astype(np.int64).view(np.uint64))


def _hash_list(column: pa.Array, seed: int) -> Hashes:
    """A hash of each list: a mix of the sum of mix(hash of element + constant * position). A polynomial would need a
    loop, and a sum without positions would not depend on the order."""
    flat = pc.list_flatten(column)
    lengths = fill(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.cumsum(lengths)
    starts = ends - lengths
    positions = np.arange(len(flat), dtype=np.int64) - np.repeat(starts, lengths)
    elements = hash_columns([flat], len(flat), seed=seed + 1)
    colocated = _mix(elements + positions.astype(np.uint64) * _ELEMENT)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(colocated, dtype=np.uint64)])
    return _mix(sums[ends] - sums[starts] + lengths.astype(np.uint64))
