"""The functions of a Window: ranks, values of other rows, and aggregates of frames (window_aggregates.py). Each gives its values in all rows of
all partitions at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from base.arrays import Bools, Int64s
from engine.model.ordered import Window, WindowCall, WindowFrame
from engine.operators.window_aggregates import frame_aggregates
from engine.operators.window_order import RangeExceeded, Rows, Wrong, places_of_values


def call_values(node: Window, rows: Rows) -> tuple[list[pa.Array], Wrong | None]:
    """(one column per call with the value of every row, the rows that are in error if there are any). Those have any value."""
    columns: list[pa.Array | None] = [None] * len(node.calls)
    found: list[Wrong] = []
    by_frame: dict[WindowFrame, list[int]] = {}
    for number, call in enumerate(node.calls):
        rank = _RANKS.get(call.function)
        if rank is not None:
            columns[number] = pa.array(rank(call, rows)).cast(call.type)
        elif call.function == "lead":
            columns[number] = _lead(call, rows)
        else:
            by_frame.setdefault(call.frame, []).append(number)
    for frame, numbers in by_frame.items():
        bounds, exceeding = rows.bounds(frame, node.order)
        if exceeding is not None:
            found.append(Wrong(exceeding, RangeExceeded.of()))
        aggregates = [number for number in numbers if node.calls[number].function not in _NTH]
        for number in set(numbers).difference(aggregates):
            columns[number] = _nth(node.calls[number], rows, *bounds)
        if aggregates:
            made, overflowing = frame_aggregates([node.calls[number] for number in aggregates], rows, bounds)
            found += [] if overflowing is None else [overflowing]
            for number, column in zip(aggregates, made, strict=True):
                columns[number] = column
    wrong = Wrong(np.logical_or.reduce([each.rows for each in found]), found[0].error) if found else None
    return [column for column in columns if column is not None], wrong


_NTH = ("first_value", "last_value", "nth_value")


# Ranks


def _row_number(call: WindowCall, rows: Rows) -> Int64s:
    return rows.here - rows.start + 1


def _rank(call: WindowCall, rows: Rows) -> Int64s:
    return rows.peer_start - rows.start + 1


def _dense_rank(call: WindowCall, rows: Rows) -> Int64s:
    return rows.peers - rows.peers[rows.start] + 1


def _percent_rank(call: WindowCall, rows: Rows) -> object:
    others = rows.end - rows.start - 1
    return (rows.peer_start - rows.start) / np.maximum(others, 1)


def _cume_dist(call: WindowCall, rows: Rows) -> object:
    return (rows.peer_end - rows.start) / (rows.end - rows.start)


def _ntile(call: WindowCall, rows: Rows) -> Int64s:
    """The first tiles have one row more than the others if the rows cannot be divided evenly."""
    size, larger = np.divmod(rows.end - rows.start, call.offset)
    place = rows.here - rows.start
    in_larger = larger * (size + 1)
    tile: Int64s = np.where(place < in_larger, place // (size + 1), larger + (place - in_larger) // np.maximum(size, 1))
    return tile + 1


_RANKS: dict[str, Callable[[WindowCall, Rows], object]] = {
    "row_number": _row_number,
    "rank": _rank,
    "dense_rank": _dense_rank,
    "percent_rank": _percent_rank,
    "cume_dist": _cume_dist,
    "ntile": _ntile,
}


# Values of other rows


def _lead(call: WindowCall, rows: Rows) -> pa.Array:
    """The value some rows ahead in the partition, or behind if the offset is negative."""
    assert call.argument is not None
    values = rows.values(call.argument)
    if call.ignore_nulls and call.offset:
        known, before = places_of_values(values)
        if call.offset > 0:
            number = before[rows.here + 1] + call.offset - 1
        else:
            number = before[rows.here] + call.offset
        place = np.append(known, -1)[np.where((number >= 0) & (number < len(known)), number, len(known))]
    else:
        place = rows.here + call.offset
    inside = (place >= rows.start) & (place < rows.end)
    if call.default is None:
        return _take(values, place, inside)
    both = pa.concat_arrays([values, rows.values(call.default)])
    everywhere = np.ones(rows.count, np.bool_)
    return _take(both, np.where(inside, place, rows.here + rows.count), everywhere)


def _nth(call: WindowCall, rows: Rows, low: Int64s, high: Int64s) -> pa.Array:
    """The first, last or nth value of the frame."""
    assert call.argument is not None
    values = rows.values(call.argument)
    known = rows.here
    if call.ignore_nulls:
        known, before = places_of_values(values)
        low, high = before[low], before[high]
    if call.function == "last_value":
        number = high - 1
    else:
        number = low + (call.offset - 1 if call.function == "nth_value" else 0)
    inside = (number >= low) & (number < high)
    return _take(values, np.append(known, 0)[np.where(inside, number, len(known))], inside)


def _take(values: pa.Array, place: Int64s, inside: Bools) -> pa.Array:
    return values.take(pa.array(place, mask=None if inside.all() else ~inside))
