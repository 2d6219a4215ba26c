"""The values of a batch of messages that the database did not send: found, kept apart from what concerns values, and marked for LastByKey."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, Int64s, as_lists, fill
from base.text.variants import VARIANT
from io_kafka.formats.keys import Keys
from io_kafka.formats.spec import SourceFormat
from io_kafka.formats.unavailable import WHAT_TO_SET, Placeholder, placeholder_of

Cells = Mapping[int, Bools]
"""Which values of a column are missing, by the column's position in the table; without the columns in which none is."""


def no_value(column: str, text: str, why: str) -> str:
    """The reason why a message is malformed whose value of a column is the placeholder `text`."""
    return f"column {column}: the database has not sent its value ({text}), and {why}; {WHAT_TO_SET}"


def unavailable_cells(source: SourceFormat, columns: Sequence[pa.Array]) -> Cells:
    """`columns`: all of the table. Those that are of the message's record hold no values of the database."""
    placeholder = placeholder_of(source.unavailable)
    if placeholder is None:
        return {}
    of_record = {name for name, _ in source.metadata}
    found = {
        index: placeholder.cells(column)
        for index, (name, column) in enumerate(zip(source.schema.names, columns, strict=True))
        if name not in of_record
    }
    return {index: cells for index, cells in found.items() if cells is not None}


def refuse_parts(
    source: SourceFormat, columns: Sequence[pa.Array], at: Int64s, faults: dict[int, str], *, place: str = ""
) -> None:
    """Adds a fault for each row with a placeholder in a field of a struct: what the former row had there is not looked up. `at`: the message of
    each row. `place`: the prefix of the columns' names."""
    placeholder = placeholder_of(source.unavailable)
    if placeholder is None:
        return
    for name, column in zip(source.schema.names, columns, strict=True):
        for field, rows in _fields_without_value(column, np.arange(len(column)), placeholder):
            why = "only a whole column is taken from the row before"
            _refuse(faults, np.unique(at[rows]), f"{place}{name}{field}", placeholder.text, why)


def _fields_without_value(column: pa.Array, rows: Int64s, placeholder: Placeholder) -> Iterator[tuple[str, Int64s]]:
    """(the path of a field below the column, the rows that have the placeholder there), at every depth. `rows`: the row of each value."""
    kind = column.type
    if kind == VARIANT:
        return
    if pa.types.is_struct(kind):
        for field, values in zip(kind, column.flatten(), strict=True):
            cells = placeholder.cells(values)
            if cells is not None:
                yield f".{field.name}", rows[cells]
            yield from _below(f".{field.name}", values, rows, placeholder)
    elif pa.types.is_map(kind):
        lists = as_lists(column)
        yield from _below("[]", lists.flatten().field("value"), _rows_of_items(lists, rows), placeholder)
    elif pa.types.is_list(kind) and pa.types.is_nested(kind.value_type):
        yield from _below("[]", column.flatten(), _rows_of_items(column, rows), placeholder)


def _below(path: str, column: pa.Array, rows: Int64s, placeholder: Placeholder) -> Iterator[tuple[str, Int64s]]:
    for field, found in _fields_without_value(column, rows, placeholder):
        yield f"{path}{field}", found


def _rows_of_items(lists: pa.Array, rows: Int64s) -> Int64s:
    return np.repeat(rows, fill(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False))


def null_missing(columns: list[pa.Array], held: Cells) -> list[pa.Array]:
    """The columns with null in place of the missing values, so that a placeholder is neither too long nor padded."""
    result = list(columns)
    for index, cells in held.items():
        result[index] = pc.if_else(pa.array(cells), pa.scalar(None, result[index].type), result[index])
    return result


def mark_missing(
    source: SourceFormat, columns: list[pa.Array], held: Cells, keys: Keys, faults: dict[int, str]
) -> list[pa.Array]:
    """The columns with the marks of the missing values, but for those of the key, which only the message's key can replace. Adds a fault for
    each message whose key is missing."""
    placeholder, result = placeholder_of(source.unavailable), list(columns)
    if placeholder is None:
        return result
    for index, cells in held.items():
        name = source.schema.names[index]
        if name in source.key:
            _refuse(faults, np.flatnonzero(cells & ~keys.present), name, placeholder.text, "it is in the key")
        else:
            kind = result[index].type
            result[index] = pc.if_else(pa.array(cells), placeholder.mark(kind), result[index])
    for name, column in zip(source.key, keys.columns, strict=True):
        in_key = placeholder.cells(column)
        if in_key is not None:
            _refuse(faults, np.flatnonzero(in_key), name, placeholder.text, "it is in the key")
    return result


def refuse_images(
    source: SourceFormat, image: pa.StructArray, needed: Bools, at: Int64s, faults: dict[int, str], *, place: str
) -> None:
    """Adds a fault for each row of a changelog without a key whose image, if it is needed, lacks a value."""
    placeholder = placeholder_of(source.unavailable)
    if placeholder is None:
        return
    for name, column in zip(source.schema.names, image.flatten(), strict=True):
        cells = placeholder.cells(column)
        if cells is not None:
            why = "without a key there is no former row that has it"
            _refuse(faults, at[cells & needed], f"{place}.{name}", placeholder.text, why)
    refuse_parts(source, image.filter(pa.array(needed)).flatten(), at[needed], faults, place=f"{place}.")


def _refuse(faults: dict[int, str], positions: Int64s, column: str, text: str, why: str) -> None:
    for position in positions:
        faults.setdefault(int(position), no_value(column, text, why))
