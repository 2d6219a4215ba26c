"""Whether a view's rows are Spark's, with exactly the freedom that docs/sql.md gives.

A `loose` column is "sum", a sum of doubles, which Spark rounds at every addition and we round once; or "zero", an extreme, for which Spark takes
either of -0.0 and 0.0, whichever came first. All other cells are compared exactly: NaN equals itself, and -0.0 differs from 0.0.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tests.end_to_end.oracle_rows import RELATIVE_ERROR_MAX

FLOATING = ("float", "double")
Cell = Any
Shape = tuple[str, ...]


class _Number(str):
    """A number as it was written."""


def plain(text: str | bytes, types: Mapping[str, str]) -> dict[str, Cell]:
    """A row of JSON with floating numbers as such, and all other numbers as they were written."""
    row = json.loads(text, parse_float=_Number, parse_int=_Number, parse_constant=str)
    return {name: _cell(row.get(name), types[name]) for name in types}


def _cell(value: Any, type_: str) -> Cell:
    if value is None:
        return None
    if type_ in FLOATING:
        # An older Java writes some numbers with a digit more, which reads back as the same FLOAT.
        return float(np.float32(value)) if type_ == "float" else float(value)
    if isinstance(value, dict):
        return tuple((name, _cell(inner, _field_type(type_, name))) for name, inner in value.items())
    if isinstance(value, list):
        return tuple(_cell(inner, type_[len("array<") : -1]) for inner in value)
    return str(value) if isinstance(value, str | _Number) else value


def _field_type(struct: str, name: str) -> str:
    """Only whether a field is floating matters."""
    inner = struct[len("struct<") : -1]
    return next((kind for kind in FLOATING if f"{name}:{kind}" in inner.split(",")), "")


def bag(rows: Iterable[str | bytes], types: Mapping[str, str], loose: Mapping[str, str]) -> dict[Shape, list[Any]]:
    """The rows by their exact cells; for each, the cells that are summed doubles."""
    found: dict[Shape, list[Any]] = {}
    for text in rows:
        row = plain(text, types)
        exact = tuple(
            repr(_unsigned(cell) if loose.get(name) == "zero" else cell)
            for name, cell in row.items()
            if loose.get(name) != "sum"
        )
        found.setdefault(exact, []).append(tuple(cell for name, cell in row.items() if loose.get(name) == "sum"))
    return found


def _unsigned(cell: Cell) -> Cell:
    return 0.0 if isinstance(cell, float) and cell == 0 else cell


def difference(
    ours: Iterable[str | bytes], sparks: Iterable[str], types: Mapping[str, str], loose: Mapping[str, str]
) -> tuple[list[Any], list[Any]]:
    """The rows that are too many, and those that are missing."""
    mine, right = bag(ours, types, loose), bag(sparks, types, loose)
    extra: list[Any] = []
    missing: list[Any] = []
    for shape in mine.keys() | right.keys():
        rest = list(right.get(shape, []))
        for row in mine.get(shape, []):
            match = next((i for i, other in enumerate(rest) if all(map(_close, row, other))), None)
            if match is None:
                extra.append((*shape, *row))
            else:
                rest.pop(match)
        missing += [(*shape, *row) for row in rest]
    return extra, missing


def _close(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return one == other or (one != one and other != other) or math.isclose(one, other, rel_tol=RELATIVE_ERROR_MAX)


def one_of_each(
    ours: Iterable[str | bytes], sparks: Iterable[str], types: Mapping[str, str], key: Sequence[str]
) -> tuple[list[Any], list[Any]]:
    """The same for a view that holds any one row of each key: rows that are none of Spark's or the second of a key, and keys without one."""
    rows = [plain(row, types) for row in sparks]
    # Spark shows the normal form of a key.
    candidates = {repr({name: _unsigned(cell) if name in key else cell for name, cell in row.items()}) for row in rows}
    keys = {_key(row, key) for row in rows}
    extra: list[Any] = []
    for text in ours:
        row = plain(text, types)
        if repr(row) not in candidates or _key(row, key) not in keys:
            extra.append(row)
        keys.discard(_key(row, key))
    return extra, sorted(keys)


def _key(row: Mapping[str, Cell], key: Sequence[str]) -> str:
    """As Spark compares keys: a zero has no sign."""
    return repr(tuple(_unsigned(row[name]) for name in key))
