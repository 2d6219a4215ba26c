"""hash and xxhash64 of any types, and hashes of bytes.

A hash of several values is a chain: each value is hashed with the hash so far as its seed, and a null leaves the hash as it is. Arrays and
structs are chains of their elements and fields.

Sources: Murmur3_x86_32 and XXH64. Spark's Murmur3 differs from the published one in the last bytes of a text: it mixes each of
them as a number of 32 bits.
"""

from __future__ import annotations

import hashlib
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from base.arrays import Int64s, UInt32s, UInt64s, decimal_words, fill
from base.text.columns import bytes_of, nulls_of
from base.text.months import is_months
from engine.expressions.functions.function import row_function
from engine.expressions.functions.generic_function import GenericFunction
from engine.expressions.generic import Signature

DECIMAL_DIGITS_IN_LONG_MAX = 18  # Spark hashes such decimals as numbers of 64 bits, and larger ones as bytes

Hashes = npt.NDArray[np.unsignedinteger]


class _Chain(ABC):
    """The hashes of a batch of rows, as far as they are computed."""

    def __init__(self, hashes: Hashes) -> None:
        self.hashes = hashes

    @abstractmethod
    def ints(self, rows: Int64s, values: UInt32s) -> None: ...

    @abstractmethod
    def longs(self, rows: Int64s, values: UInt64s) -> None: ...

    @abstractmethod
    def binary(self, rows: Int64s, values: pa.Array) -> None: ...

    def add(self, rows: Int64s, values: pa.Array) -> None:
        """Hashes one value for each of these rows, which are different."""
        present = ~nulls_of(values)
        if not present.all():
            rows, values = rows[present], values.filter(pa.array(present))
        kind = values.type
        if pa.types.is_struct(kind):
            for field in values.flatten():
                self.add(rows, field)
        elif pa.types.is_list(kind):
            self._elements(rows, values)
        elif pa.types.is_string(kind) or pa.types.is_binary(kind):
            self.binary(rows, values.cast(pa.binary()))
        elif pa.types.is_decimal(kind):
            self._decimals(rows, values)
        elif pa.types.is_floating(kind):
            self._floats(rows, values)
        elif is_months(kind):
            self.ints(rows, values.view(pa.int64()).to_numpy().astype(np.int32).view(np.uint32))
        elif kind.bit_width < 64:
            numbers = (values if pa.types.is_boolean(kind) else values.view(_signed_type(kind))).cast(pa.int32())
            self.ints(rows, numbers.to_numpy(zero_copy_only=False).view(np.uint32))
        else:
            self.longs(rows, values.view(pa.int64()).to_numpy().view(np.uint64))

    def _elements(self, rows: Int64s, lists: pa.Array) -> None:
        """By place: the first element of every row, then the second one of those that have one."""
        sizes = fill(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        values = pc.list_flatten(lists)
        starts = np.cumsum(sizes) - sizes
        for place in range(int(sizes.max(initial=0))):
            longer = np.flatnonzero(sizes > place)
            self.add(rows[longer], values.take(pa.array(starts[longer] + place)))

    def _decimals(self, rows: Int64s, values: pa.Array) -> None:
        low, high = decimal_words(values)
        if values.type.precision <= DECIMAL_DIGITS_IN_LONG_MAX:
            self.longs(rows, low)
            return
        whole = [(upper << 64) + lower for lower, upper in zip(low.tolist(), high.tolist(), strict=True)]
        # As Java's BigInteger.toByteArray: big-endian two's complement with one bit for the sign.
        texts = [
            number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
            for number in whole
        ]
        self.binary(rows, pa.array(texts, pa.binary()))

    def _floats(self, rows: Int64s, values: pa.Array) -> None:
        numbers = values.to_numpy() + 0  # one zero
        numbers = np.where(np.isnan(numbers), np.array(np.nan, numbers.dtype), numbers)  # and one NaN
        if pa.types.is_float32(values.type):
            self.ints(rows, numbers.view(np.uint32))
        else:
            self.longs(rows, numbers.view(np.uint64))


def _signed_type(kind: pa.DataType) -> pa.DataType:
    return {8: pa.int8(), 16: pa.int16(), 32: pa.int32()}[kind.bit_width]


class _Murmur3(_Chain):
    hashes: UInt32s

    def ints(self, rows: Int64s, values: UInt32s) -> None:
        self._mix(rows, values)
        self._finish(rows, np.uint32(4))

    def longs(self, rows: Int64s, values: UInt64s) -> None:
        self._mix(rows, values.astype(np.uint32))
        self._mix(rows, (values >> np.uint64(32)).astype(np.uint32))
        self._finish(rows, np.uint32(8))

    def binary(self, rows: Int64s, values: pa.Array) -> None:
        data, offsets = bytes_of(values)
        sizes, starts = np.diff(offsets).astype(np.int64), offsets[:-1].astype(np.int64)
        words = sizes // 4
        for place in range(int(words.max(initial=0))):
            longer = np.flatnonzero(words > place)
            at = starts[longer] + 4 * place
            self._mix(rows[longer], np.ascontiguousarray(data[at[:, None] + np.arange(4)]).view(np.uint32)[:, 0])
        for place in range(3):
            longer = np.flatnonzero(sizes % 4 > place)
            byte = data[starts[longer] + 4 * words[longer] + place].view(np.int8)
            self._mix(rows[longer], byte.astype(np.int32).view(np.uint32))
        self._finish(rows, sizes.astype(np.uint32))

    def _mix(self, rows: Int64s, block: UInt32s) -> None:
        k = _rotate(block * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        self.hashes[rows] = _rotate(self.hashes[rows] ^ k, 13) * np.uint32(5) + np.uint32(0xE6546B64)

    def _finish(self, rows: Int64s, length: UInt32s | np.uint32) -> None:
        h = self.hashes[rows] ^ length
        h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        self.hashes[rows] = h ^ (h >> np.uint32(16))


def _rotate(x: UInt32s, bits: int) -> UInt32s:
    return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))


class _XXH64(_Chain):
    hashes: UInt64s

    def ints(self, rows: Int64s, values: UInt32s) -> None:
        self._each(rows, [value.tobytes() for value in values])

    def longs(self, rows: Int64s, values: UInt64s) -> None:
        self._each(rows, [value.tobytes() for value in values])

    def binary(self, rows: Int64s, values: pa.Array) -> None:
        self._each(rows, values.to_pylist())

    def _each(self, rows: Int64s, values: list[bytes]) -> None:
        seeds = self.hashes[rows].tolist()
        self.hashes[rows] = np.fromiter(map(xxhash.xxh64_intdigest, values, seeds), np.uint64, len(values))


def _hash(signature: Signature, *columns: pa.Array) -> pa.Array:
    """Constants: the seed."""
    seed = np.int64(signature.constants).astype(np.uint32)
    return pa.array(_chain_hashes(_Murmur3(np.full(len(columns[0]), seed, np.uint32)), columns).view(np.int32))


def _xxhash64(signature: Signature, *columns: pa.Array) -> pa.Array:
    """Constants: the seed."""
    seed = np.int64(signature.constants).astype(np.uint64)
    return pa.array(_chain_hashes(_XXH64(np.full(len(columns[0]), seed, np.uint64)), columns).view(np.int64))


def _chain_hashes(chain: _Chain, columns: tuple[pa.Array, ...]) -> Hashes:
    rows = np.arange(len(columns[0]))
    with np.errstate(over="ignore"):
        for column in columns:
            chain.add(rows, column)
    return chain.hashes


FUNCTIONS = (
    row_function("spark_crc32", "BLOB", "BIGINT", zlib.crc32),
    row_function("spark_md5", "BLOB", "VARCHAR", lambda data: hashlib.md5(data, usedforsecurity=False).hexdigest()),
    row_function("spark_sha1", "BLOB", "VARCHAR", lambda data: hashlib.sha1(data, usedforsecurity=False).hexdigest()),
    row_function(
        "spark_sha2", "BLOB INTEGER", "VARCHAR", lambda data, bits: hashlib.new(f"sha{bits}", data).hexdigest()
    ),
)

GENERIC: Mapping[str, GenericFunction] = {"hash": _hash, "xxhash64": _xxhash64}
