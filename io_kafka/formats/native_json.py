"""Access to the C extension `_json`, which reads the usual JSON messages straight into Arrow columns.

It declines every message about which anything is unusual, and `parse.py` reads those. So what it accepts has the value that `parse_slowly`
gives, and nothing but speed depends on whether the extension was built.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from base.arrays import Bools, leaf_types
from base.text.columns import bytes_of, nulls_of
from base.text.pattern_columns import pattern_of, pattern_values
from base.text.patterns import NO_PATTERNS, Patterns
from base.text.variants import has_variants
from io_kafka.formats.exact_json import nullable
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

DECIMALS, UNQUOTED_DECIMALS = "p", "P"
"""The kinds of decimals: numbers that may be in quotes, and numbers that may not."""

DECLINED = "x"
"""The kind of a column whose values the extension declines, unless they are null: intervals, and what is nested too deeply."""

DEPTH_MAX = 16
"""How many columns may be within each other for the extension. Deeper ones are rare, and the extension calls itself for each level."""


@cache
def why_not() -> str | None:
    """Why the extension is not used, as a text for users. None if it is used."""
    return why_off() or (NOT_BUILT if _json is None else None)


def read_usual(
    values: pa.Array, schema: pa.Schema, patterns: Patterns = NO_PATTERNS, *, quoted_decimals: bool = True
) -> tuple[pa.RecordBatch, Bools] | None:
    """`values`: messages, binary; a null is declined. Returns (rows, which messages were declined: these have no meaning). None if the schema
    has no columns, or the extension is not used. What has a pattern is read as text, and converted. `quoted_decimals`: whether the text of a
    number is one of a decimal. If it may be anything else, such messages are declined."""
    if patterns != NO_PATTERNS:
        read = read_usual(values, _as_texts(schema, patterns), quoted_decimals=quoted_decimals)
        return None if read is None else _in_patterns(*read, schema, patterns)
    if not len(schema) or why_not() is not None or any(has_variants(field.type) for field in schema):
        return None
    data, ends = bytes_of(values)
    text_bytes = int(ends[-1] - ends[0]) // max(1, _texts(schema))
    declared = _declared_columns(schema, quoted_decimals)
    declined, found = _json.read(data, np.ascontiguousarray(ends), nulls_of(values), declared, text_bytes)
    arrays = _arrays(schema.types, declared, found)
    return pa.RecordBatch.from_arrays(arrays, schema=nullable(schema)), np.array(memoryview(declined), dtype=np.bool_)


@lru_cache(maxsize=256)  # one for each schema in use: an input has at most a few
def _as_texts(schema: pa.Schema, patterns: Patterns) -> pa.Schema:
    return pa.schema([_as_text(field, patterns) for field in schema])


def _as_text(field: pa.Field, patterns: Patterns) -> pa.Field:
    """The column as it is read: its texts where it has a pattern. A list or a map with a pattern within it has the type of nothing, so that its
    messages are left to the exact reader."""
    kind = field.type
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([_as_text(member, patterns) for member in kind]))
    if all(pattern_of(leaf, patterns) is None for leaf in leaf_types(kind)):
        return field
    return field.with_type(pa.null() if pa.types.is_nested(kind) else pa.string())


def _in_patterns(
    texts: pa.RecordBatch, declined: Bools, schema: pa.Schema, patterns: Patterns
) -> tuple[pa.RecordBatch, Bools]:
    columns = [
        _of_text(column, field.type, patterns, declined) for column, field in zip(texts.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=nullable(schema)), declined


def _of_text(column: pa.Array, kind: pa.DataType, patterns: Patterns, declined: Bools) -> pa.Array:
    """The column of the declared type. It declines rows whose text is none in its pattern, of which parse.py says why."""
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), kind)
    if pa.types.is_struct(kind) and kind.num_fields and column.type != kind:
        members = [
            _of_text(member, field.type, patterns, declined)
            for member, field in zip(column.flatten(), kind, strict=True)
        ]
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=pa.array(nulls_of(column)))
    pattern = None if pa.types.is_nested(kind) else pattern_of(kind, patterns)
    if pattern is None:
        return column
    values, wrong = pattern_values(column, kind, pattern)
    declined |= wrong
    return values


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
def _declared_columns(schema: pa.Schema, quoted_decimals: bool) -> tuple[Declared, ...]:
    decimals = DECIMALS if quoted_decimals else UNQUOTED_DECIMALS
    return tuple(_declared_column(field, decimals, DEPTH_MAX) for field in schema)


def _declared_column(field: pa.Field, decimals: str, depth_max: int) -> Declared:
    def within(inner: pa.Field) -> Declared:
        return _declared_column(inner, decimals, depth_max - 1)

    kind, name, required = field.type, field.name.encode(), not field.nullable
    if pa.types.is_decimal128(kind) and 0 <= kind.scale <= kind.precision:
        return name, decimals, required, (kind.precision, kind.scale)
    if depth_max and pa.types.is_struct(kind) and all(member.nullable for member in kind):
        return name, "{", required, tuple(map(within, kind))
    if depth_max and pa.types.is_map(kind) and kind.key_type == pa.string():
        return name, "m", required, ((b"", "s", True, None), within(kind.item_field.with_nullable(True)))
    if depth_max and pa.types.is_list(kind):
        return name, "[", required, (within(kind.value_field.with_nullable(True)),)
    return name, KINDS.get(kind, DECLINED), required, None


@lru_cache(maxsize=256)
def _texts(fields: pa.Schema | pa.StructType) -> int:
    """The number of columns of texts and bytes, also within structs."""
    return sum(_texts(f.type) if pa.types.is_struct(f.type) else f.type in (pa.string(), pa.binary()) for f in fields)
