"""Functions that compare the elements of arrays: array_distinct, array_union, array_intersect, array_except, array_remove, array_position and
arrays_overlap.

Whole columns at once: every element gets a number that equal elements share, and (row, number) pairs are compared by numpy. Nulls are equal to
each other here, -0.0 equals 0.0, and all NaN are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, Int64s, fill
from base.text.columns import nulls_of
from engine.expressions.functions.generic_function import GenericFunction
from engine.expressions.generic import Signature


class _Elements(NamedTuple):
    """The elements of a column of arrays, one after the other. `rows`: the row of each. `numbers`: equal elements share one."""

    values: pa.Array
    rows: Int64s
    numbers: Int64s
    null: Bools

    @property
    def pairs(self) -> Int64s:
        """One number for each row and number of an element."""
        pairs: Int64s = self.rows * (int(self.numbers.max(initial=0)) + 1) + self.numbers
        return pairs


def _lengths(array: pa.Array) -> Int64s:
    lengths: Int64s = fill(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths


def _elements(*columns: pa.Array) -> list[_Elements]:
    """The elements of columns of one type, with numbers that they share."""
    flat = [_normal(pc.list_flatten(column)) for column in columns]
    numbers = _numbers(pa.concat_arrays(flat))
    found, at = [], 0
    for column, values in zip(columns, flat, strict=True):
        rows = np.repeat(np.arange(len(column)), _lengths(column))
        found.append(_Elements(values, rows, numbers[at : at + len(values)], nulls_of(values)))
        at += len(values)
    return found


def _normal(values: pa.Array) -> pa.Array:
    """The values with one zero and one NaN, as Spark's hash sets have them."""
    if not pa.types.is_floating(values.type):
        return values
    numbers = fill(values, 0.0).to_numpy(zero_copy_only=False) + 0.0
    return pa.array(np.where(np.isnan(numbers), np.nan, numbers), values.type, mask=nulls_of(values))


def _numbers(values: pa.Array) -> Int64s:
    """0 for null, otherwise a number from 1."""
    coded = values.dictionary_encode().indices
    numbers: Int64s = fill(coded, -1).to_numpy(zero_copy_only=False).astype(np.int64) + 1
    return numbers


def _built(column_type: pa.DataType, length: int, values: pa.Array, rows: Int64s, null: Bools) -> pa.Array:
    """Arrays of `values`, which are sorted by their rows."""
    offsets = np.zeros(length + 1, dtype=np.int32)
    np.cumsum(np.bincount(rows, minlength=length), out=offsets[1:])
    mask = pa.array(null) if null.any() else None
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=column_type, mask=mask)


def _of(signature: Signature, length: int, elements: _Elements, kept: Int64s, null: Bools) -> pa.Array:
    """Arrays of the elements at the places `kept`, which ascend. Rows that are null have none."""
    kept = kept[~null[elements.rows[kept]]]
    return _built(signature.result, length, elements.values.take(pa.array(kept)), elements.rows[kept], null)


def _first(pairs: Int64s) -> Int64s:
    """The places of the first of equal pairs, ascending."""
    return np.sort(np.unique(pairs, return_index=True)[1])


def _distinct(signature: Signature, array: pa.Array) -> pa.Array:
    (elements,) = _elements(array)
    return _of(signature, len(array), elements, _first(elements.pairs), nulls_of(array))


def _union(signature: Signature, left: pa.Array, right: pa.Array) -> pa.Array:
    null = nulls_of(left) | nulls_of(right)
    sides = _elements(left, right)
    rows = np.concatenate([side.rows for side in sides])
    order = np.argsort(rows, kind="stable")
    numbers = np.concatenate([side.numbers for side in sides])[order]
    values = pa.concat_arrays([side.values for side in sides]).take(pa.array(order))
    both = _Elements(values, rows[order], numbers, nulls_of(values))
    return _of(signature, len(left), both, _first(both.pairs), null)


def _within(left: _Elements, right: _Elements) -> Bools:
    """Which elements on the left are among those of the same row on the right."""
    width = max(int(left.numbers.max(initial=0)), int(right.numbers.max(initial=0))) + 1
    return np.isin(left.rows * width + left.numbers, right.rows * width + right.numbers)


def _intersect(signature: Signature, left: pa.Array, right: pa.Array) -> pa.Array:
    first, second = _elements(left, right)
    distinct = _first(first.pairs)
    return _of(
        signature, len(left), first, distinct[_within(first, second)[distinct]], nulls_of(left) | nulls_of(right)
    )


def _except(signature: Signature, left: pa.Array, right: pa.Array) -> pa.Array:
    first, second = _elements(left, right)
    distinct = _first(first.pairs)
    return _of(
        signature, len(left), first, distinct[~_within(first, second)[distinct]], nulls_of(left) | nulls_of(right)
    )


def _as_lists(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Each value as an array of one element."""
    return pa.ListArray.from_arrays(pa.array(np.arange(len(values) + 1, dtype=np.int32)), values, type=type_)


def _remove(signature: Signature, array: pa.Array, value: pa.Array) -> pa.Array:
    elements, wanted = _elements(array, _as_lists(value, array.type))
    kept = np.flatnonzero(elements.null | (elements.numbers != wanted.numbers[elements.rows]))
    elements = elements._replace(values=pc.list_flatten(array))  # what stays is not normalised
    return _of(signature, len(array), elements, kept, nulls_of(array) | nulls_of(value))


def _position(signature: Signature, array: pa.Array, value: pa.Array) -> pa.Array:
    """Counted from 1; 0 if the value is not there."""
    elements, wanted = _elements(array, _as_lists(value, array.type))
    found = np.flatnonzero(~elements.null & (elements.numbers == wanted.numbers[elements.rows]))
    rows, first = np.unique(elements.rows[found], return_index=True)
    starts = np.cumsum(_lengths(array)) - _lengths(array)
    positions = np.zeros(len(array), dtype=np.int64)
    positions[rows] = found[first] - starts[rows] + 1
    return pa.array(positions, pa.int64(), mask=nulls_of(array) | nulls_of(value))


def _overlap(signature: Signature, left: pa.Array, right: pa.Array) -> pa.Array:
    """True if they share an element that is not null. Otherwise null if one of them has a null and neither is empty."""
    first, second = _elements(left, right)
    length = len(left)
    shared = np.zeros(length, dtype=np.bool_)
    shared[first.rows[~first.null & _within(first, second)]] = True
    unknown = np.zeros(length, dtype=np.bool_)
    for side in (first, second):
        unknown[side.rows[side.null]] = True
    unknown &= (_lengths(left) > 0) & (_lengths(right) > 0) & ~shared
    return pa.array(shared, mask=unknown | nulls_of(left) | nulls_of(right))


GENERIC: Mapping[str, GenericFunction] = {
    "array_distinct": _distinct,
    "array_union": _union,
    "array_intersect": _intersect,
    "array_except": _except,
    "array_remove": _remove,
    "array_position": _position,
    "arrays_overlap": _overlap,
}
