"""Spark's `from_json` as an expression (mode PERMISSIVE): a malformed text gives nulls, where a malformed message would be refused.

`read` gives for every text what Spark's function gives in its mode PERMISSIVE, and says which texts were malformed. A member of an object that
cannot be converted becomes null, and those around it are kept. A text that is not JSON gives a row of nulls; what Spark has read of it when it
met the error may be kept too (see `tokens.py`). Text after the value is ignored, and a text without any value gives NULL.

A text that `parse` accepts gives the same value in every mode. So `parse` reads such texts, and only the others are read here, one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from base.arrays import Bools
from base.text.patterns import NO_PATTERNS, Patterns
from base.text.variants import FIELD, VARIANT
from io_kafka.formats import exact_json
from io_kafka.formats.jackson import (
    Malformed,
    Node,
    render_node,
    text_of,
    usual_node,
)
from io_kafka.formats.parse import parse
from io_kafka.formats.token_nodes import node_at
from io_kafka.formats.tokens import COPIED, Token, Tokens
from io_kafka.formats.variant_texts import variant_at, variant_of_node

Converter = Callable[[Tokens], Any]


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class _Partial(Exception):
    """A value of which a part could not be converted. `value` has nulls there."""

    def __init__(self, value: Any) -> None:
        super().__init__("a part is malformed")
        self.value = value


def read(texts: pa.Array, kind: pa.DataType, patterns: Patterns = NO_PATTERNS) -> tuple[pa.Array, Bools]:
    """(values of type `kind`, which texts are malformed). `texts`: strings; a null gives NULL. `kind`: a struct or a list."""
    malformed = np.zeros(len(texts), dtype=np.bool_)
    if not pa.types.is_struct(kind) or kind.num_fields == 0 or kind == VARIANT:
        return _slowly(texts, kind, patterns, np.arange(len(texts)), malformed), malformed
    schema = pa.schema([kind.field(i).with_nullable(True) for i in range(kind.num_fields)])
    parsed = parse(texts.cast(pa.binary()), schema, patterns=patterns)
    rows = pa.StructArray.from_arrays(parsed.rows.columns, fields=[kind.field(i) for i in range(kind.num_fields)])
    if not parsed.faults:
        return rows, malformed
    late = np.array([position for position, _ in parsed.faults], dtype=np.int64)
    others = _slowly(texts, kind, patterns, late, malformed)
    order = np.argsort(np.concatenate([parsed.at, late]))
    return pa.concat_arrays([rows, others]).take(pa.array(order)), malformed


def _slowly(texts: pa.Array, kind: pa.DataType, patterns: Patterns, places: Any, malformed: Bools) -> pa.Array:
    """The values of the texts at `places`, one by one. It marks the malformed ones."""
    convert, of_node = _root(kind, patterns), exact_json.reader("value", kind, patterns)
    values = []
    chosen = texts.take(pa.array(places))
    for place, text in zip(places, chosen.cast(pa.binary()).to_pylist(), strict=True):
        value, wrong = (None, False) if text is None else _read_one(text_of(text), convert, of_node)
        malformed[place] = wrong
        values.append(_nothing(kind) if wrong and value is None else value)
    return pa.array(values, kind)


def _read_one(text: str, convert: Converter, of_node: exact_json.Reader) -> tuple[Any, bool]:
    """(the value, whether the text is malformed)."""
    usual = None if "\\u" in text else usual_node(text)  # lone surrogates are not kept here
    if usual is not None and usual[0] is not None:
        with suppress(Malformed):
            return of_node(usual[0]), False
    return _value(Tokens(text), convert)


def _nothing(kind: pa.DataType) -> Any:
    """What a text gives of which nothing can be kept."""
    return {} if pa.types.is_struct(kind) and kind != VARIANT else None


def _value(tokens: Tokens, convert: Converter) -> tuple[Any, bool]:
    """(the value, whether it is malformed)."""
    try:
        if tokens.next() is None:
            return None, False
        value = convert(tokens)
    except _Partial as partial:
        return partial.value, True
    except Malformed:
        return None, True
    return value, value is None


@lru_cache(maxsize=256)  # one for each type in use
def _root(kind: pa.DataType, patterns: Patterns) -> Converter:
    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type) or kind.value_type == VARIANT:
        return _converter(kind, patterns)
    array, element = _converter(kind, patterns), _converter(kind.value_type, patterns)

    def convert(tokens: Tokens) -> Any:
        """Spark takes an object for an array with this one element."""
        if tokens.current is not Token.START_OBJECT:
            return array(tokens)
        try:
            return [element(tokens)]
        except _Partial as partial:
            raise _Partial([partial.value]) from partial

    return convert


@lru_cache(maxsize=1024)
def _converter(kind: pa.DataType, patterns: Patterns) -> Converter:
    if kind == VARIANT:
        return _variant
    if pa.types.is_struct(kind):
        return _present(_object(kind, patterns))
    if pa.types.is_map(kind):
        return _present(_map(kind, patterns))
    if pa.types.is_list(kind):
        return _present(_array(kind, patterns))
    of_node = exact_json.reader("value", kind, patterns)

    def scalar(tokens: Tokens) -> Any:
        return of_node(_node(tokens, containers=pa.types.is_string(kind)))

    return _present(scalar)


def _variant(tokens: Tokens) -> dict[str, str]:
    """A null is a variant too."""
    if tokens.current is Token.NAME:
        tokens.next()
    return {FIELD: variant_of_node(variant_at(tokens))}


def _present(convert: Converter) -> Converter:
    """Steps from a member's name to its value, and answers for null."""

    def present(tokens: Tokens) -> Any:
        if tokens.current is Token.NAME:
            tokens.next()
        return None if tokens.current in (None, Token.NULL) else convert(tokens)

    return present


def _refuse(tokens: Tokens) -> Malformed:
    if tokens.current is Token.STRING:
        tokens.text()  # Spark looks at the string's length
    return Malformed("a value of another type is expected")


def _object(kind: pa.StructType, patterns: Patterns) -> Converter:
    members = {kind.field(i).name: _converter(kind.field(i).type, patterns) for i in range(kind.num_fields)}

    def convert(tokens: Tokens) -> dict[str, Any]:
        if tokens.current is not Token.START_OBJECT:
            raise _refuse(tokens)
        row: dict[str, Any] = {}
        wrong = False
        while tokens.next() not in (None, Token.END_OBJECT):
            name = tokens.name
            member = None if name is None else members.get(name)
            if name is None or member is None:
                tokens.skip_children()
                continue
            try:
                row[name] = member(tokens)
            except _Partial as partial:
                row[name], wrong = partial.value, True
            except Malformed:
                wrong = True
                tokens.skip_children()
        if wrong:
            raise _Partial(row)
        return row

    return convert


def _array(kind: pa.ListType, patterns: Patterns) -> Converter:
    element = _converter(kind.value_type, patterns)

    def convert(tokens: Tokens) -> list[Any]:
        if tokens.current is not Token.START_ARRAY:
            raise _refuse(tokens)
        values: list[Any] = []
        wrong = False
        while tokens.next() not in (None, Token.END_ARRAY):
            try:
                values.append(element(tokens))
            except _Partial as partial:
                values.append(partial.value)
                wrong = True
        if wrong:
            raise _Partial(values)
        return values

    return convert


def _map(kind: pa.MapType, patterns: Patterns) -> Converter:
    """One value that cannot be converted makes the whole map malformed, because Spark then has more keys than values. It still reads to the
    end of the object."""
    if kind.key_type != pa.string():
        raise TypeError(f"the keys of a map in JSON are strings, not {kind.key_type}")
    item = _converter(kind.item_type, patterns)

    def convert(tokens: Tokens) -> list[tuple[str, Any]]:
        if tokens.current is not Token.START_OBJECT:
            raise _refuse(tokens)
        entries: list[tuple[str, Any]] = []
        partial, failed = False, False
        while tokens.next() not in (None, Token.END_OBJECT):
            name = tokens.name
            try:
                entries.append((name or "", item(tokens)))
            except _Partial as error:
                entries.append((name or "", error.value))
                partial = True
            except Malformed:
                failed = True
                tokens.skip_children()
        if failed:
            raise Malformed("a value of a map is malformed")
        if partial:
            raise _Partial(entries)
        return entries

    return convert


def _node(tokens: Tokens, containers: bool) -> Node:
    """The value that begins with the current token. An object or array is refused unless `containers` is set."""
    if not containers and tokens.current in (Token.START_OBJECT, Token.START_ARRAY):
        raise Malformed("a value of another type is expected")
    return node_at(tokens, of_text=lambda text: text, at_end=lambda container: None)


def first_value(text: str) -> Node:
    """The first value of a text, whatever follows it, as get_json_object and json_tuple read it. Raises Malformed."""
    usual = usual_node(text)
    if usual is not None:
        return usual[0]
    tokens = Tokens(text, COPIED)
    if tokens.next() is None:
        raise Malformed("empty")
    return _node(tokens, containers=True)


def shown_text(node: Node) -> str:
    """A value as `get_json_object` and `json_tuple` give it: a string without quotes, anything else as JSON. Raises Malformed for a text that
    cannot be encoded."""
    if not isinstance(node, str):
        return _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04X}", render_node(node))
    if _LONE_SURROGATE.search(node):
        raise Malformed("a lone surrogate")
    return node
