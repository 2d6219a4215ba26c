"""The binary form of Spark's variants: what Spark has computed while it planned, as `parse_json('{"a": 1}')` becomes a literal.

Guarantee: each value has the kind that it has in Spark. A kind that no JSON has, such as a date, raises OtherKind.
"""

from __future__ import annotations

import struct
from decimal import Decimal
from itertools import pairwise
from typing import Any

from base.text.variants import Value, canonical_text


class OtherKind(Exception):
    """A value has a kind that no JSON has."""


def variant_literal(java: Any) -> str | bytes:
    """The text (base/text/variants.py) of a JVM's `VariantVal`. If a value within has a kind that JSON has not, it is the binary form, which no
    rule takes."""
    value, metadata = bytes(java.getValue()), bytes(java.getMetadata())
    try:
        return text_of_binary(value, metadata)
    except OtherKind:
        return value


def text_of_binary(value: bytes, metadata: bytes) -> str:
    """The text of a variant. Raises OtherKind."""
    return canonical_text(_value(value, _names(metadata)))


_UNSCALED_BYTES = {8: 4, 9: 8, 10: 16}
"""By the primitive type of a decimal. Before them is one byte, the scale."""
_INTEGER_BYTES = {3: 1, 4: 2, 5: 4, 6: 8}
_CONSTANTS: dict[int, bool | None] = {0: None, 1: True, 2: False}
_DOUBLE, _LONG_TEXT = 7, 16


def _numbers(data: bytes, at: int, size: int, count: int) -> list[int]:
    return [int.from_bytes(data[at + size * index : at + size * (index + 1)], "little") for index in range(count)]


def _names(metadata: bytes) -> list[str]:
    size = (metadata[0] >> 6) + 1
    (count,) = _numbers(metadata, 1, size, 1)
    ends = _numbers(metadata, 1 + size, size, count + 1)
    texts = metadata[1 + size * (count + 2) :]
    return [texts[begin:end].decode() for begin, end in pairwise(ends)]


def _value(data: bytes, names: list[str]) -> Value:
    basic, info = data[0] & 3, data[0] >> 2
    if basic == 0:
        return _primitive(info, data[1:])
    if basic == 1:
        return data[1 : 1 + info].decode()
    is_object = basic == 2
    offset_bytes, id_bytes = (info & 3) + 1, ((info >> 2) & 3) + 1 if is_object else 0
    size_bytes = 4 if (info >> (4 if is_object else 2)) & 1 else 1
    (count,) = _numbers(data, 1, size_bytes, 1)
    at = 1 + size_bytes
    ids = _numbers(data, at, id_bytes, count)
    at += id_bytes * count
    offsets = _numbers(data, at, offset_bytes, count + 1)
    content = data[at + offset_bytes * (count + 1) :]
    values = [_value(content[offset:], names) for offset in offsets[:count]]
    return {names[id_]: value for id_, value in zip(ids, values, strict=True)} if is_object else values


def _primitive(kind: int, data: bytes) -> Value:
    if kind in _CONSTANTS:
        return _CONSTANTS[kind]
    if kind in _INTEGER_BYTES:
        return int.from_bytes(data[: _INTEGER_BYTES[kind]], "little", signed=True)
    if kind in _UNSCALED_BYTES:
        unscaled = int.from_bytes(data[1 : 1 + _UNSCALED_BYTES[kind]], "little", signed=True)
        return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -data[0]))
    if kind == _DOUBLE:
        return float(struct.unpack("<d", data[:8])[0])
    if kind == _LONG_TEXT:
        return data[4 : 4 + int.from_bytes(data[:4], "little")].decode()
    raise OtherKind(f"kind {kind} of Spark's variants")
