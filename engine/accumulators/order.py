"""Values in a form whose natural order is Spark's: int64 *codes* for types that fit 64 bits, and binary for the others.

Spark's order: NaN is above all numbers, -0.0 equals 0.0, false is below true; decimals, dates, timestamps and intervals are ordered by value,
and strings by their UTF-8 bytes. The mapping is one to one on canonical values, so a value is restored exactly. A -0.0 that has not become 0.0
is just below it. With two forms for all types, traces of values have one of two layouts, whatever the arguments of the aggregates are."""

from __future__ import annotations

from typing import cast

import numpy as np
import pyarrow as pa

from base.arrays import Bools, Int64s, UInt64s, decimal_words, fill
from engine.accumulators.integers import to_int64

# Initial values of min and max. A value may have the same code; a count of the values that are not null distinguishes
# the two cases.
ABOVE_ALL = (1 << 63) - 1
BELOW_ALL = -(1 << 63)

_SIGN = np.uint64(1 << 63)
_WIDE_BYTES = 16


def has_codes(type_: pa.DataType) -> bool:
    """Whether the form of the type's values is int64."""
    if pa.types.is_decimal(type_):
        return cast(int, type_.precision) <= 18
    return not (pa.types.is_nested(type_) or _is_bytes(type_))


def is_ordered(type_: pa.DataType) -> bool:
    """Whether min and max accept the type: all types but null and maps."""
    return not pa.types.is_null(type_) and not pa.types.is_map(type_)


def encode(values: pa.Array) -> pa.Array:
    """Canonical values without nulls, as int64 or binary in their order. Nested values have another form (order_bytes.py)."""
    if has_codes(values.type):
        return pa.array(codes_of(values))
    if pa.types.is_decimal(values.type):
        low, high = decimal_words(values)
        words = np.stack([high.view(np.uint64) ^ _SIGN, low], axis=1).astype(">u8")
        offsets = np.arange(0, _WIDE_BYTES * (len(values) + 1), _WIDE_BYTES, dtype=np.int32)
        return pa.Array.from_buffers(
            pa.binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(words.tobytes())]
        )
    return values.cast(pa.binary())


def decode(encoded: pa.Array, type_: pa.DataType) -> pa.Array:
    """The reverse of `encode`. A value is null where its code is null."""
    if has_codes(type_):
        valid = encoded.is_valid().to_numpy(zero_copy_only=False)
        return values_of(fill(encoded, 0).to_numpy(), type_, valid)
    if pa.types.is_decimal(type_):
        zero = b"\0" * _WIDE_BYTES
        raw = b"".join(fill(encoded, zero).to_pylist())
        words = np.frombuffer(raw, dtype=">u8").reshape(-1, 2).astype(np.uint64)
        native = np.stack([words[:, 1], words[:, 0] ^ _SIGN], axis=1)
        return _decimals(native, type_, encoded.is_valid().to_numpy(zero_copy_only=False))
    return encoded.cast(type_)


def codes_of(values: pa.Array) -> Int64s:
    """Canonical values without nulls, as codes in their order."""
    type_ = values.type
    if pa.types.is_floating(type_):
        bits = values.cast(pa.float64()).to_numpy(zero_copy_only=False).view(np.int64)
        return cast(Int64s, np.where(bits < 0, bits ^ np.int64(ABOVE_ALL), bits))
    if pa.types.is_boolean(type_):
        return cast(Int64s, values.to_numpy(zero_copy_only=False).astype(np.int64))
    if pa.types.is_date32(type_):
        values = values.view(pa.int32())
    elif pa.types.is_timestamp(type_):
        values = values.view(pa.int64())
    return to_int64(values)


def values_of(codes: Int64s, type_: pa.DataType, valid: Bools) -> pa.Array:
    """The values of codes. A value is null where it is not `valid`."""
    mask = None if valid.all() else ~valid
    codes = np.where(valid, codes, 0)
    if pa.types.is_floating(type_):
        bits = np.where(codes < 0, codes ^ np.int64(ABOVE_ALL), codes)
        return pa.array(bits.view(np.float64), mask=mask, from_pandas=False).cast(type_)
    if pa.types.is_boolean(type_):
        return pa.array(codes != 0, mask=mask)
    if pa.types.is_decimal(type_):
        return _decimals(np.stack([codes, codes >> 63], axis=1), type_, valid)
    if pa.types.is_date32(type_):
        return pa.array(codes.astype(np.int32), mask=mask).view(type_)
    whole = pa.array(codes, mask=mask)
    return whole.view(type_) if pa.types.is_temporal(type_) else whole.cast(type_)


def _decimals(words: Int64s | UInt64s, type_: pa.DataType, valid: Bools) -> pa.Array:
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(type_, len(words), [bitmap, pa.py_buffer(np.ascontiguousarray(words))])


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_binary(type_))
