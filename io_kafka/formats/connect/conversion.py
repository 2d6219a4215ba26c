"""A type of a schema, of any depth, and the type of a column -> how the JSON is read, and how what was read becomes the column.

JSON is read as Arrow's nearest type of what the schema says (`raw`): numbers as numbers, and bytes as the text that has them in base64. So most
messages are read by the extension in C, and the conversion works on whole columns. A value that has no place in the column is a fault of its
message, and the reason names the column, the value, the schema's type and the column's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, assert_never, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, Int64s, as_lists, fill
from base.limits import DECIMAL_DIGITS_MAX
from base.text.columns import nulls_of
from base.text.pattern_columns import pattern_of, pattern_values
from base.text.patterns import Patterns
from base.text.type_names import sql_type
from base.text.variants import VARIANT
from io_kafka.formats import javatext, vector
from io_kafka.formats.connect.casts import cast_each, cast_of, decimals_to, from_numbers
from io_kafka.formats.connect.leaves import Leaf, Sense, leaf_of
from io_kafka.formats.connect.types import (
    DECIMAL,
    VARIABLE_DECIMAL,
    Array,
    Map,
    Plain,
    Struct,
    Type,
    Unknown,
    type_text,
)
from io_kafka.formats.connect.unscaled import number_of
from io_kafka.formats.debezium import column_reader
from io_kafka.formats.exact_json import Reader, read_members, reader
from io_kafka.formats.jackson import Malformed, Members, Node, Number, render_node
from io_kafka.formats.names import fields_of

Faults = dict[int, str]
Convert = Callable[[pa.Array, Int64s, Faults], pa.Array]
"""(what was read, the message of each value, faults that grow) -> the column."""

VALUE_CHARS_SHOWN = 60
NUMBER_MARK = "#"
"""Before a decimal that came as a number and not in base64, whose alphabet lacks it."""

UNIT_UNKNOWN = ": it is a timestamp of unknown unit, because it has no logical type. Declare BIGINT, and use timestamp_millis or the like"


@dataclass(frozen=True)
class Conversion:
    """How a column is made of what JSON has for it. `raw`: as what the JSON is read, by `read` where it is read one message at a time.
    `convert`: None if that is the column."""

    raw: pa.DataType
    read: Reader
    convert: Convert | None


@dataclass(frozen=True)
class Manner:
    """What the table says of how its values are read. `numeric`: whether decimals are read as numbers (`decimal.format` = NUMERIC). Otherwise
    they are read as text, and whatever the converter writes becomes text. `patterns`: of dates and timestamps, where the schema says that they
    are text, or says nothing."""

    numeric: bool
    patterns: Patterns


def conversion(type_: Type, kind: pa.DataType, column: str, manner: Manner) -> Conversion:
    """`column`: its name or path, for errors. A VARIANT is the JSON of the message, whatever its schema says of it."""
    if kind == VARIANT:
        return Conversion(kind, column_reader(column, kind, manner.patterns), None)
    match type_:
        case Unknown():
            return Conversion(kind, column_reader(column, kind, manner.patterns), None)
        case Plain():
            return _plain(type_, kind, column, manner)
        case Struct(name=name) if name == VARIABLE_DECIMAL and not pa.types.is_struct(kind):
            return _variable_decimal(type_, kind, column)
        case Struct() if pa.types.is_struct(kind):
            named = fields_of([field.name for field in kind], [name for name, _ in type_.fields])
            members = [(named.get(field.name, field.name), field) for field in kind]
            return _struct([(name, field, type_.member(name)) for name, field in members], kind, column, manner)
        case Map() if pa.types.is_struct(kind):
            return _struct([(field.name, field, type_.values) for field in kind], kind, column, manner)
        case Array() if pa.types.is_list(kind) and not pa.types.is_map(kind):
            return _list(type_, kind, column, manner)
        case Map() if pa.types.is_map(kind):
            return _map(type_, kind, column, manner)
        case Struct() | Array() | Map() if kind == pa.string():
            return _text_of(type_, column, manner)
        case Struct() | Array() | Map():
            return Conversion(pa.string(), reader(column, pa.string()), _refusing_convert(type_, kind, column))
        case _:
            assert_never(type_)


def fault(column: str, value: str, type_: Type, kind: pa.DataType, why: str = "") -> str:
    text = value if len(value) <= VALUE_CHARS_SHOWN else value[:VALUE_CHARS_SHOWN] + "..."
    return f"column {column}: {text} of the schema's type {type_text(type_)} cannot be cast to {sql_type(kind)}{why}"


def checked_cast(
    cast_: Callable[[pa.Array], tuple[pa.Array, Bools]], type_: Type, kind: pa.DataType, column: str, why: str = ""
) -> Convert:
    """A cast whose failures are faults."""
    scale = type_.scale if isinstance(type_, Plain) and type_.logical == DECIMAL else None

    def convert(raw: pa.Array, rows: Int64s, faults: Faults) -> pa.Array:
        values, failed = cast_(raw)
        for place in np.flatnonzero(failed).tolist():
            faults.setdefault(int(rows[place]), fault(column, _value_text(raw[place].as_py(), scale), type_, kind, why))
        return values

    return convert


def _value_text(value: Any, scale: int | None) -> str:
    number = number_of(value, scale) if isinstance(value, bytes) and scale is not None else None
    return str(value if number is None else number)


def _refusing_convert(type_: Type, kind: pa.DataType, column: str, why: str = "") -> Convert:
    """No value becomes one of the column's but NULL."""
    return checked_cast(lambda raw: (pa.nulls(len(raw), kind), ~nulls_of(raw)), type_, kind, column, why)


def _explaining_reader(read: Reader, type_: Type, kind: pa.DataType) -> Reader:
    """A value that is none of the schema's own type."""

    def read_or_explain(node: Node) -> Any:
        try:
            return read(node)
        except Malformed as refusal:
            raise Malformed(
                f"{refusal}; the schema's type is {type_text(type_)}, the column's {sql_type(kind)}"
            ) from None

    return read_or_explain


def leaf_convert(type_: Plain, leaf: Leaf | None, kind: pa.DataType, column: str, patterns: Patterns) -> Convert | None:
    """From the leaf's own values. None if they are the column's already. `patterns`: of dates and timestamps that are plain text."""
    if leaf is None:
        return _refusing_convert(type_, kind, column, ", because the schema gives it no scale")
    if leaf.raw == kind and leaf.sense not in (Sense.DECIMAL, Sense.ZONED, Sense.ISO_DATE):
        return None
    pattern = pattern_of(kind, patterns) if leaf.sense is Sense.STRING else None
    if pattern is not None:
        in_pattern = partial(pattern_values, type_=kind, pattern=pattern)
        return checked_cast(in_pattern, type_, kind, column, f" in the form {pattern}")
    found = cast_of(leaf, kind)
    if found is None:
        no_unit = pa.types.is_timestamp(kind) and leaf.sense in (Sense.INTEGER, Sense.REAL, Sense.DECIMAL)
        return _refusing_convert(type_, kind, column, UNIT_UNKNOWN if no_unit else "")
    return checked_cast(found, type_, kind, column)


def _plain(type_: Plain, kind: pa.DataType, column: str, manner: Manner) -> Conversion:
    leaf = leaf_of(type_)
    if manner.numeric and leaf is not None and leaf.sense is Sense.DECIMAL and 0 <= leaf.scale <= DECIMAL_DIGITS_MAX:
        return _number(type_, leaf.scale, kind, column)
    convert = leaf_convert(type_, leaf, kind, column, manner.patterns)
    raw = leaf.raw if leaf is not None else pa.binary()
    if raw != pa.binary():
        return Conversion(raw, _explaining_reader(reader(column, raw), type_, kind), convert)
    decode: Callable[[pa.Array], tuple[pa.Array, Bools]] = _bytes_of_base64
    read = reader(column, pa.string())
    if leaf is not None and leaf.sense is Sense.DECIMAL:
        decode, read = partial(_unscaled_numbers, scale=leaf.scale), partial(_decimal_text, column)
    return Conversion(
        pa.string(), _explaining_reader(read, type_, kind), _decoding_convert(decode, convert, type_, kind, column)
    )


def _number(type_: Plain, scale: int, kind: pa.DataType, column: str) -> Conversion:
    raw = pa.decimal128(DECIMAL_DIGITS_MAX, scale)
    found = from_numbers(kind)
    convert = _refusing_convert(type_, kind, column) if found is None else checked_cast(found, type_, kind, column)
    return Conversion(raw, reader(column, raw), None if raw == kind else convert)


def _decoding_convert(
    decode: Callable[[pa.Array], tuple[pa.Array, Bools]],
    convert: Convert | None,
    type_: Type,
    kind: pa.DataType,
    column: str,
) -> Convert:
    """First the bytes of the text, then what they mean."""
    first = checked_cast(decode, type_, kind, column)
    if convert is None:
        return first
    then = convert
    return lambda raw, rows, faults: then(first(raw, rows, faults), rows, faults)


def _bytes_of_base64(texts: pa.Array) -> tuple[pa.Array, Bools]:
    values, doubtful = vector.base64s(texts)
    if not doubtful.any():
        return values, doubtful
    return cast_each(texts.to_pylist(), pa.binary(), javatext.binary_value)


def _decimal_text(column: str, node: Node) -> str | None:
    """A decimal as the converter writes it: in base64 (`decimal.format` = BASE64), or as a number (NUMERIC)."""
    if isinstance(node, Number):
        return NUMBER_MARK + node.text
    if node is None or isinstance(node, str):
        return node
    raise Malformed(f"column {column}: {render_node(node)[:VALUE_CHARS_SHOWN]} is not a decimal in base64")


def _unscaled_numbers(texts: pa.Array, scale: int) -> tuple[pa.Array, Bools]:
    """The bytes of the unscaled numbers."""
    values, doubtful = vector.base64s(texts)
    if not doubtful.any():
        return values, doubtful
    return cast_each(texts.to_pylist(), pa.binary(), lambda text: _unscaled_bytes(text, scale))


def _unscaled_bytes(text: str, scale: int) -> bytes | None:
    if not text.startswith(NUMBER_MARK):
        return javatext.binary_value(text)
    try:
        number = Decimal(text[1:])
    except ArithmeticError:
        return None
    if not number.is_finite():
        return None
    sign, digits, exponent = number.as_tuple()
    zeros = cast(int, exponent) + scale
    if number and not -len(digits) < zeros <= DIGITS_MAX:
        return None
    top = int("".join(map(str, digits)))
    whole, rest = (top * 10**zeros, 0) if zeros >= 0 else divmod(top, 10**-zeros)
    unscaled = -whole if sign else whole
    return None if rest else unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)


DIGITS_MAX = 1000
"""The largest number of digits of a number in JSON, which is Jackson's limit. So it is also the largest number of zeros behind the digits."""


_PARTS = pa.struct([pa.field("scale", pa.int32()), pa.field("value", pa.string())])


def _variable_decimal(type_: Struct, kind: pa.DataType, column: str) -> Conversion:
    """Scale and unscaled number in base64 of each value."""
    convert = variable_convert(type_, kind, column, javatext.binary_value)
    return Conversion(_PARTS, _explaining_reader(reader(column, _PARTS), type_, kind), convert)


def variable_convert(
    type_: Type, kind: pa.DataType, column: str, bytes_of_value: Callable[[Any], bytes | None]
) -> Convert:
    """From structs of scale and value."""
    found = decimals_to(kind)
    if found is None:
        return _refusing_convert(type_, kind, column)
    one = found

    def read(parts: dict[str, Any]) -> Any:
        raw = None if parts["value"] is None else bytes_of_value(parts["value"])
        number = None if raw is None or parts["scale"] is None else number_of(raw, parts["scale"])
        return None if number is None else one(number)

    return checked_cast(lambda raw: cast_each(raw.to_pylist(), kind, read), type_, kind, column)


def _struct(members: list[tuple[str, pa.Field, Type]], kind: pa.StructType, column: str, manner: Manner) -> Conversion:
    """`members`: of each field of the column, its name in the messages and its type there."""
    parts = {name: conversion(type_, field.type, f"{column}.{field.name}", manner) for name, field, type_ in members}
    return struct_of(parts, kind, column)


def struct_of(parts: dict[str, Conversion], kind: pa.StructType, column: str) -> Conversion:
    """Objects whose members are converted one by one, in the order of the type's fields. `parts`: by the members' names in the messages."""
    readers = {name: part.read for name, part in parts.items()}

    def read(node: Node) -> dict[str, Any] | None:
        if node is None:
            return None
        if not isinstance(node, Members):
            raise Malformed(f"column {column}: {render_node(node)[:VALUE_CHARS_SHOWN]} is not an object")
        return read_members(node, readers)

    raw = pa.struct([pa.field(name, part.raw) for name, part in parts.items()])
    converts = [part.convert for part in parts.values()]
    if not any(converts) and list(parts) == [field.name for field in kind]:
        return Conversion(raw, read, None)

    def convert(raw: pa.Array, rows: Int64s, faults: Faults) -> pa.Array:
        children = [
            child if each is None else each(child, rows, faults)
            for child, each in zip(raw.flatten(), converts, strict=True)
        ]
        mask = pa.array(nulls_of(raw)) if raw.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)

    return Conversion(raw, read, convert)


def _list(type_: Array, kind: pa.ListType, column: str, manner: Manner) -> Conversion:
    item = conversion(type_.items, kind.value_type, f"{column}[]", manner)

    def read(node: Node) -> list[Any] | None:
        if node is None:
            return None
        if isinstance(node, Members) or not isinstance(node, list):
            raise Malformed(f"column {column}: {render_node(node)[:VALUE_CHARS_SHOWN]} is not an array")
        return [item.read(element) for element in cast("list[Node]", node)]

    raw = pa.list_(pa.field("element", item.raw))
    if item.convert is None:
        return Conversion(kind, read, None)
    of_items = item.convert

    def convert(raw: pa.Array, rows: Int64s, faults: Faults) -> pa.Array:
        offsets, of_rows = _offsets(raw, rows)
        return pa.ListArray.from_arrays(offsets, of_items(raw.flatten(), of_rows, faults), type=kind)

    return Conversion(raw, read, convert)


def _offsets(lists: pa.Array, rows: Int64s) -> tuple[pa.Array, Int64s]:
    """Offsets of lists, null for a null one; the message of each item. No item of a null one counts."""
    lengths = fill(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.zeros(len(lists) + 1, np.int32)
    np.cumsum(lengths, out=ends[1:])
    return pa.array(ends, mask=np.append(nulls_of(lists), False)), np.repeat(rows, lengths)


def _map(type_: Map, kind: pa.MapType, column: str, manner: Manner) -> Conversion:
    """An object if the keys are strings, else an array of pairs."""
    key = conversion(type_.keys, kind.key_type, f"{column}.key", manner)
    item = conversion(type_.values, kind.item_type, f"{column}[]", manner)
    as_object = isinstance(type_.keys, Unknown) or (isinstance(type_.keys, Plain) and type_.keys.kind == "string")

    def read(node: Node) -> list[tuple[Any, Any]] | None:
        if node is None:
            return None
        if isinstance(node, Members):
            return [(key.read(name), item.read(value)) for name, value in node]
        if as_object or not isinstance(node, list):
            raise Malformed(f"column {column}: {render_node(node)[:VALUE_CHARS_SHOWN]} is not an object")
        return [_pair(pair) for pair in cast("list[Node]", node)]

    def _pair(pair: Node) -> tuple[Any, Any]:
        if isinstance(pair, Members) or not isinstance(pair, list) or len(pair) != 2:
            raise Malformed(f"column {column}: {render_node(pair)[:VALUE_CHARS_SHOWN]} is not a pair of key and value")
        first, second = cast("list[Node]", pair)
        name = key.read(first)
        if name is None:
            raise Malformed(f"column {column}: a key of the map is null")
        return name, item.read(second)

    if key.convert is None and item.convert is None:
        return Conversion(kind, read, None)

    def convert(raw: pa.Array, rows: Int64s, faults: Faults) -> pa.Array:
        lists = as_lists(raw)
        offsets, of_rows = _offsets(lists, rows)
        keys, items = lists.flatten().flatten()
        keys = keys if key.convert is None else key.convert(keys, of_rows, faults)
        items = items if item.convert is None else item.convert(items, of_rows, faults)
        if keys.null_count:  # only of messages with a fault
            keys = fill(keys, "")
        return pa.MapArray.from_arrays(offsets, keys, items).cast(kind)

    return Conversion(pa.map_(key.raw, item.raw), read, convert)


def _text_of(type_: Struct | Array | Map, column: str, manner: Manner) -> Conversion:
    """What CAST makes of a value with parts: {1, x}, [1, null], {k -> 1}."""
    inner = conversion(type_, _all_texts(type_), column, manner)
    as_texts = inner.convert

    def convert(raw: pa.Array, rows: Int64s, faults: Faults) -> pa.Array:
        values = raw if as_texts is None else as_texts(raw, rows, faults)
        return pa.array(
            [None if value is None else _joined_text(type_, value) for value in values.to_pylist()], pa.string()
        )

    return Conversion(inner.raw, inner.read, convert)


def _all_texts(type_: Type) -> pa.DataType:
    """The type with STRING in place of everything without parts."""
    match type_:
        case Struct(name=name) if name == VARIABLE_DECIMAL:
            return pa.string()
        case Struct():
            return pa.struct([pa.field(name, _all_texts(type_.member(name))) for name in dict(type_.fields)])
        case Array():
            return pa.list_(pa.field("element", _all_texts(type_.items)))
        case Map():
            return pa.map_(pa.string(), _all_texts(type_.values))
        case Unknown() | Plain():
            return pa.string()
        case _:
            assert_never(type_)


def _joined_text(type_: Type, value: Any) -> str:
    if value is None:
        return "null"
    match type_:
        case Struct() if isinstance(value, dict):
            return "{" + ", ".join(_joined_text(type_.member(name), each) for name, each in value.items()) + "}"
        case Array():
            return "[" + ", ".join(_joined_text(type_.items, each) for each in value) + "]"
        case Map():
            return "{" + ", ".join(f"{key} -> {_joined_text(type_.values, each)}" for key, each in value) + "}"
        case _:
            return str(value)
