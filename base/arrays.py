"""Names of numpy array types, one for each element type, and what pyarrow's arrays lack. Arrays have one dimension unless a docstring
says otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]
UInt8s = npt.NDArray[np.uint8]
UInt32s = npt.NDArray[np.uint32]
UInt64s = npt.NDArray[np.uint64]


def fill(column: pa.Array, value: Any) -> pa.Array:
    """The column with `value` in place of its nulls. (`fill_null` makes a scalar and a copy even if there are none, which takes a hundred
    times as long as to ask.)"""
    return column.fill_null(value) if column.null_count else column


def leaf_types(kind: pa.DataType) -> Iterator[pa.DataType]:
    """The types within a type that are not nested; the type itself if it is not nested."""
    if not pa.types.is_nested(kind):
        yield kind
        return
    for number in range(kind.num_fields):
        yield from leaf_types(kind.field(number).type)


def with_leaves(kind: pa.DataType, replace: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """The type with what `replace` gives in place of each type within it that is not nested."""
    if pa.types.is_map(kind):
        return pa.map_(with_leaves(kind.key_type, replace), with_leaves(kind.item_type, replace))
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", with_leaves(kind.value_type, replace)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, with_leaves(field.type, replace)) for field in kind])
    return replace(kind)


def as_lists(maps: pa.Array) -> pa.Array:
    """Maps as lists of their entries, which are structs of key and value. A map keeps the order of its entries, which Spark's functions show. So
    maps whose entries have another order are other values."""
    kind = maps.type
    return maps.cast(pa.list_(pa.struct([pa.field("key", kind.key_type), pa.field("value", kind.item_type)])))


def decimal_words(column: pa.Array) -> tuple[UInt64s, Int64s]:
    """The unscaled values of a decimal128 column as (low unsigned words, high signed words); both are 0 at nulls.
    Raises TypeError for another type."""
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
