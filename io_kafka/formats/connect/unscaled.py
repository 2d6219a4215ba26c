"""Decimals as Connect sends them: an unscaled number in two's complement, the highest byte first, beside a scale.

Numbers of up to 16 bytes are brought into a DECIMAL all at once. A longer one, which databases have and DECIMAL has not, is read one by one.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.text.columns import bytes_of, nulls_of
from io_kafka.formats.avro.values import low_bytes

BYTES_MAX = 65_536
"""The largest number of bytes of an unscaled number. PostgreSQL has the longest decimals: 131,072 digits before the point and 16,383 behind it,
which is 61,240 bytes."""

SCALE_MAX = 1_000_000
"""The longest text of a decimal that is made from a few bytes. No database has a scale of more than 16,383."""


def number_of(raw: bytes, scale: int) -> Decimal | None:
    """One exact number. None for no byte, which is no number in Java, and for what no database has."""
    if not 0 < len(raw) <= BYTES_MAX or abs(scale) > SCALE_MAX:
        return None
    return exact(int.from_bytes(raw, "big", signed=True), scale)


def exact(unscaled: int, scale: int) -> Decimal:
    """unscaled * 10^-scale. Python's own `scaleb` would round it to its context."""
    return Decimal((int(unscaled < 0), tuple(map(int, _digits(abs(unscaled)))), -scale))


def _digits(number: int) -> str:
    """str() of a number of any size; Python refuses to write numbers of more than 4,300 digits at once."""
    if number < 10**4000:
        return str(number)
    half = number.bit_length() * 30103 // 200_000
    high, low = divmod(number, 10**half)
    return _digits(high) + _digits(low).zfill(half)


def as_decimals(raw: pa.Array, scale: int, kind: pa.Decimal128Type) -> pa.Array | None:
    """`raw`: binary. None unless all numbers fit the type, whose scale is at least theirs."""
    null = nulls_of(raw)
    data, ends = bytes_of(raw)
    starts = ends[:-1].astype(np.int64)
    lengths = np.where(null, 0, np.diff(ends)).astype(np.int64)
    if (lengths[~null] == 0).any():
        return None
    wide, padded = low_bytes(data if len(data) else np.zeros(1, np.uint8), starts, np.maximum(lengths, 1))
    if not padded[~null].all():
        return None
    wide[null] = 0
    numbers = pa.Array.from_buffers(
        pa.decimal128(38, scale), len(wide), [None, pa.py_buffer(np.ascontiguousarray(wide).tobytes())]
    )
    if null.any():
        numbers = pc.if_else(pa.array(null), pa.scalar(None, numbers.type), numbers)
    try:
        numbers.validate(full=True)
        found = numbers.cast(kind)
        found.validate(full=True)
        return found
    except pa.ArrowInvalid:
        return None
