"""CHAR(n) and VARCHAR(n) in the messages of a source: what Spark does when it writes a row into a table with such columns.

A text of more than n characters loses blanks at its end until it has n. If that is not enough, the message is malformed. A CHAR(n) of fewer
characters is padded with blanks. Characters are code points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, Int64s, as_lists, fill
from base.text.columns import nulls_of
from base.text.type_names import ELEMENT


class TextLimit(NamedTuple):
    """The declared length of a CHAR or VARCHAR. `path` leads from the column's name to the text. `padded`: it is a CHAR."""

    path: tuple[str, ...]
    characters_max: int
    padded: bool

    @property
    def declared(self) -> str:
        return f"{'CHAR' if self.padded else 'VARCHAR'}({self.characters_max})"

    @property
    def place(self) -> str:
        return self.path[0] + "".join(step if step == ELEMENT else f".{step}" for step in self.path[1:])


class Fitted(NamedTuple):
    """Columns whose texts are as they are stored. `too_long`: for each limit that a row exceeds, the limit and the rows."""

    column: pa.Array
    too_long: list[tuple[TextLimit, Bools]]


def fit_columns(
    columns: Sequence[pa.Array], names: Sequence[str], limits: Sequence[TextLimit], at: Int64s, faults: dict[int, str]
) -> list[pa.Array]:
    """The columns with every text as it is stored. Adds a fault for each row in which a text is too long; row i is message at[i]."""
    result = list(columns)
    for index, name in enumerate(names):
        inside = [limit for limit in limits if limit.path[0] == name]
        if not inside:
            continue
        result[index], found = fit(columns[index], inside)
        for limit, rows in found:
            for row in np.flatnonzero(rows):
                faults.setdefault(int(at[row]), f"column {limit.place}: longer than {limit.declared}")
    return result


def fit(column: pa.Array, limits: Sequence[TextLimit], depth: int = 1) -> Fitted:
    """One column, or one level of it, under the limits within. `depth`: the number of steps of their paths that lead here."""
    if not limits:
        return Fitted(column, [])
    kind = column.type
    if pa.types.is_string(kind):
        (limit,) = limits
        return _text(column, limit)
    if pa.types.is_struct(kind):
        parts = [
            fit(child, _below(limits, depth, kind.field(i).name), depth + 1) for i, child in enumerate(column.flatten())
        ]
        made = pa.StructArray.from_arrays(
            [part.column for part in parts], fields=list(kind), mask=pa.array(nulls_of(column))
        )
        return Fitted(made, [found for part in parts for found in part.too_long])
    if pa.types.is_map(kind):
        lists = as_lists(column)
        keys, values = lists.flatten().flatten()
        elements = fit(values, _below(limits, depth, ELEMENT), depth + 1)
        rows, offsets = _rows_of_elements(lists)
        made = pa.MapArray.from_arrays(offsets, keys, elements.column).cast(kind)
    else:
        assert pa.types.is_list(kind), f"{kind} has a limit of text within"
        elements = fit(column.flatten(), _below(limits, depth, ELEMENT), depth + 1)
        rows, offsets = _rows_of_elements(column)
        made = pa.ListArray.from_arrays(offsets, elements.column, type=kind)
    return Fitted(made, [(limit, _any_of(rows, bad, len(column))) for limit, bad in elements.too_long])


def _below(limits: Sequence[TextLimit], depth: int, step: str) -> list[TextLimit]:
    return [limit for limit in limits if limit.path[depth] == step]


def _text(column: pa.Array, limit: TextLimit) -> Fitted:
    size = limit.characters_max
    lengths = fill(pc.utf8_length(column), size).to_numpy(zero_copy_only=False)
    bad = np.zeros(len(column), dtype=np.bool_)
    if (lengths > size).any():
        rest = pc.utf8_slice_codeunits(column, size)
        only_blanks = fill(pc.equal(pc.utf8_rtrim(rest, " "), ""), True).to_numpy(zero_copy_only=False)
        bad = (lengths > size) & ~only_blanks
        column = pc.if_else(pa.array(lengths > size), pc.utf8_slice_codeunits(column, 0, size), column)
    if limit.padded and (lengths < size).any():
        column = pc.utf8_rpad(column, size, " ")
    return Fitted(column, [(limit, bad)] if bad.any() else [])


def _rows_of_elements(lists: pa.ListArray) -> tuple[Int64s, pa.Array]:
    """The row of each element, and the offsets of the lists, among which a null list is null."""
    lengths = fill(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    ends = np.zeros(len(lists) + 1, dtype=np.int32)
    np.cumsum(lengths, out=ends[1:])
    missing = np.append(nulls_of(lists), False)
    return np.repeat(np.arange(len(lists)), lengths), pa.array(ends, mask=missing)


def _any_of(rows: Int64s, bad: Bools, count: int) -> Bools:
    result = np.zeros(count, dtype=np.bool_)
    result[rows[bad]] = True
    return result
