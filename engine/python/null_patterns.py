"""Rows that a function over pandas objects may be given together.

pandas has no NULL for integers and booleans. So Spark makes another Series of such a column where one of its values is NULL: integers become
doubles, and booleans objects. What a function sees of a row then depends on the other rows of its batch: `x.astype(str)` of 7 is '7', or '7.0'
beside a NULL. Which rows are in a batch depends on the step, the layout and what is taken back. So a function is given only rows together that
have NULLs in the same places, and sees of each row what it would see of the row alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, Int64s


def rows_by_pattern(columns: Sequence[pa.ChunkedArray]) -> list[Int64s]:
    """The places of the rows of each pattern. There is one pattern if no integer and no boolean is NULL, or all are."""
    arrays = [pa.concat_arrays(column.chunks) if column.chunks else pa.array([], column.type) for column in columns]
    patterns = [places for array in arrays for places in _nulls_in(array) if places.any() and not places.all()]
    rows = len(arrays[0])
    if not patterns:
        return [np.arange(rows)]
    packed = np.packbits(np.stack(patterns, axis=1), axis=1)
    _, pattern = np.unique(packed, axis=0, return_inverse=True)
    order = np.argsort(pattern, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(pattern[order])) + 1)


def _nulls_in(array: pa.Array) -> Iterator[Bools]:
    """For each integer or boolean of the type, at any depth, whether the row has a NULL there."""
    type_ = array.type
    if pa.types.is_integer(type_) or pa.types.is_boolean(type_):
        yield array.is_null().to_numpy(zero_copy_only=False)
    elif pa.types.is_struct(type_):
        for field in array.flatten():  # a field of a NULL is NULL
            yield from _nulls_in(field)
    elif pa.types.is_list(type_):
        yield from _nulls_in_elements(array)
    elif pa.types.is_map(type_):
        for part in (array.keys, array.items):
            yield from _nulls_in_elements(pa.ListArray.from_arrays(array.offsets, part))


def _nulls_in_elements(lists: pa.ListArray) -> Iterator[Bools]:
    owners = pc.list_parent_indices(lists).to_numpy()
    for places in _nulls_in(lists.flatten()):
        yield np.bincount(owners[places], minlength=len(lists)) > 0
