"""Access to the C extension `_json`, which reads the usual JSON messages straight into Arrow columns.

It declines every message about which anything is unusual, and every schema with a type that it does not know. `parse.py` reads those. So what
it accepts has the value that `parse_slowly` gives, and nothing depends on whether the extension was built.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import TYPE_CHECKING

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
    pa.float64(): "d",
    pa.bool_(): "?",
    pa.string(): "s",
    pa.date32(): "D",
    pa.timestamp("us"): "T",
    pa.timestamp("us", "UTC"): "Z",
}
"""The types without details that the extension reads, and their kinds there. It also reads decimals, and structs of what it reads."""

DEPTH_MAX = 16
"""Of structs within structs. Deeper ones are rare, and the extension calls itself for each level."""


@cache
def why_not() -> str | None:
    """Why the extension is not used, as a text for users. None if it is used."""
    return why_off() or (NOT_BUILT if _json is None else None)


def read_usual(values: pa.Array, schema: pa.Schema) -> tuple[pa.RecordBatch, Bools] | None:
    """`values`: messages, binary; a null is declined. Returns (rows, which messages were declined: these are rows of nulls). None if
    the extension cannot read this schema, or is not used."""
    declared = _declared(schema)
    if declared is None or why_not() is not None:
        return None
    data, ends = bytes_of(values)
    text_bytes = int(ends[-1] - ends[0]) // max(1, _texts(schema))
    declined, found = _json.read(data, np.ascontiguousarray(ends), nulls_of(values), declared, text_bytes)
    arrays = [_array(field.type, len(values), column) for field, column in zip(schema, found, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=nullable(schema)), np.frombuffer(declined, dtype=np.bool_).copy()


def _array(kind: pa.DataType, length: int, column: Column) -> pa.Array:
    nulls, validity, content, text_ends, members = column
    buffers = [pa.py_buffer(validity) if nulls else None]
    if members is not None:
        children = [_array(field.type, length, member) for field, member in zip(kind, members, strict=True)]
        return pa.Array.from_buffers(kind, length, buffers, nulls, children=children)
    if text_ends is not None:
        buffers.append(pa.py_buffer(text_ends))
    return pa.Array.from_buffers(kind, length, [*buffers, pa.py_buffer(content)], nulls)


@lru_cache(maxsize=256)  # one for each schema in use: an input has at most a few
def _declared(schema: pa.Schema) -> tuple[Declared, ...] | None:
    return _declared_all(schema, DEPTH_MAX)


def _declared_all(fields: Iterable[pa.Field], depth_max: int) -> tuple[Declared, ...] | None:
    """The columns as the extension takes them. None if it cannot read one of them, or if there is none."""
    columns = []
    for field in fields:
        column = _declared_column(field, depth_max)
        if column is None:
            return None
        columns.append(column)
    return tuple(columns) or None


def _declared_column(field: pa.Field, depth_max: int) -> Declared | None:
    kind, name, required = field.type, field.name.encode(), not field.nullable
    if pa.types.is_decimal128(kind) and 0 <= kind.scale <= kind.precision:
        return name, "p", required, (kind.precision, kind.scale)
    if not pa.types.is_struct(kind):
        return (name, KINDS[kind], required, None) if kind in KINDS else None
    if not depth_max or not all(member.nullable for member in kind):
        return None
    members = _declared_all(kind, depth_max - 1)
    return None if members is None else (name, "{", required, members)


@lru_cache(maxsize=256)
def _texts(fields: pa.Schema | pa.StructType) -> int:
    """The number of columns of texts, also within structs."""
    return sum(_texts(f.type) if pa.types.is_struct(f.type) else pa.types.is_string(f.type) for f in fields)
