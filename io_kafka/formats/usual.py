"""Access to the C extension `_json`, which reads the usual JSON messages straight into Arrow columns.

It declines every message about which anything is unusual. `parse.py` reads those. So what it accepts has the value that `parse_slowly` gives,
and nothing but speed depends on whether the extension was built.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from base.arrays import Bools
from base.text.columns import bytes_of, nulls_of
from io_kafka.formats.exact import nullable
from io_kafka.native_switch import NOT_BUILT, why_off

if TYPE_CHECKING:
    from io_kafka.formats._json import Column, Declared

try:
    import io_kafka.formats._json as _json
except ImportError:  # no C compiler where Stepwell was installed
    _json = None  # type: ignore[assignment]

KINDS = {
    pa.int8(): "b",
    pa.int16(): "h",
    pa.int32(): "i",
    pa.int64(): "q",
    pa.float32(): "f",
    pa.float64(): "d",
    pa.bool_(): "?",
    pa.string(): "s",
    pa.binary(): "B",
    pa.date32(): "D",
    pa.timestamp("us"): "T",
    pa.timestamp("us", "UTC"): "Z",
}
"""The types without details that the extension reads, and their kinds there. It also reads decimals, and structs, lists and maps of what it
reads."""

DECLINED = "x"
"""The kind of a column whose values the extension declines, unless they are null: intervals, and what is nested too deeply."""

DEPTH_MAX = 16
"""Of columns within columns. Deeper ones are rare, and the extension calls itself for each level."""


@cache
def why_not() -> str | None:
    """Why the extension is not used, as a text for users. None if it is used."""
    return why_off() or (NOT_BUILT if _json is None else None)


def read_usual(values: pa.Array, schema: pa.Schema) -> tuple[pa.RecordBatch, Bools] | None:
    """`values`: messages, binary; a null is declined. Returns (rows, which messages were declined: these are rows of nulls). None if
    the schema has no columns, or the extension is not used."""
    if not len(schema) or why_not() is not None:
        return None
    data, ends = bytes_of(values)
    text_bytes = int(ends[-1] - ends[0]) // max(1, _texts(schema))
    declared = _declared(schema)
    declined, found = _json.read(data, np.ascontiguousarray(ends), nulls_of(values), declared, text_bytes)
    arrays = _arrays(schema.types, declared, found)
    return pa.RecordBatch.from_arrays(arrays, schema=nullable(schema)), np.array(memoryview(declined), dtype=np.bool_)


def _arrays(kinds: Sequence[pa.DataType], declared: Sequence[Declared], found: Sequence[Column]) -> list[pa.Array]:
    return [_array(*each) for each in zip(kinds, declared, found, strict=True)]


def _array(kind: pa.DataType, declared: Declared, column: Column) -> pa.Array:
    length, nulls, validity, data, ends, found = column
    _, letter, _, detail = declared
    valid = pa.py_buffer(validity) if nulls else None
    match letter:
        case "x":
            return pa.nulls(length, kind)
        case "{":
            children = _arrays([field.type for field in kind], cast("tuple[Declared, ...]", detail), found)
            return pa.Array.from_buffers(kind, length, [valid], nulls, children=children)
        case "[":
            elements = _arrays([kind.value_type], cast("tuple[Declared, ...]", detail), found)
            return pa.Array.from_buffers(kind, length, [valid, pa.py_buffer(ends)], nulls, children=elements)
        case "m":
            entries = _arrays([kind.key_type, kind.item_type], cast("tuple[Declared, ...]", detail), found)
            both = pa.StructArray.from_arrays(entries, fields=[kind.key_field, kind.item_field])
            return pa.Array.from_buffers(kind, length, [valid, pa.py_buffer(ends)], nulls, children=[both])
        case "s" | "B":
            return pa.Array.from_buffers(kind, length, [valid, pa.py_buffer(ends), pa.py_buffer(data)], nulls)
        case _:
            return pa.Array.from_buffers(kind, length, [valid, pa.py_buffer(data)], nulls)


@lru_cache(maxsize=256)  # one for each schema in use: an input has at most a few
def _declared(schema: pa.Schema) -> tuple[Declared, ...]:
    return tuple(_declared_column(field, DEPTH_MAX) for field in schema)


def _declared_column(field: pa.Field, depth_max: int) -> Declared:
    kind, name, required = field.type, field.name.encode(), not field.nullable
    if pa.types.is_decimal128(kind) and 0 <= kind.scale <= kind.precision:
        return name, "p", required, (kind.precision, kind.scale)
    if depth_max and pa.types.is_struct(kind) and all(member.nullable for member in kind):
        return name, "{", required, tuple(_declared_column(member, depth_max - 1) for member in kind)
    if depth_max and pa.types.is_map(kind) and kind.key_type == pa.string():
        names = (b"", "s", True, None)
        return name, "m", required, (names, _declared_column(kind.item_field.with_nullable(True), depth_max - 1))
    if depth_max and pa.types.is_list(kind):
        return name, "[", required, (_declared_column(kind.value_field.with_nullable(True), depth_max - 1),)
    return name, KINDS.get(kind, DECLINED), required, None


@lru_cache(maxsize=256)
def _texts(fields: pa.Schema | pa.StructType) -> int:
    """The number of columns of texts and bytes, also within structs."""
    return sum(_texts(f.type) if pa.types.is_struct(f.type) else f.type in (pa.string(), pa.binary()) for f in fields)
