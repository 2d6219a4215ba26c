"""The key of a message -> the values of the key columns.

A key is a JSON object of the key columns, perhaps within Connect's wrapper of a schema and a payload; where there is one key column
it may be a bare JSON scalar, or bare text: for a STRING column whatever is not a quoted string, an object or an
array stands for itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, fill
from base.text.columns import nulls_of
from base.text.pattern_columns import pattern_of
from base.text.patterns import NO_PATTERNS, Patterns
from io_kafka.binary_arrays import offsets_and_bytes
from io_kafka.formats.agreement import shown_cell, written_texts
from io_kafka.formats.connect.read import WantedColumns, parse_wrapped
from io_kafka.formats.connect.registered import HEADER_BYTES
from io_kafka.formats.debezium import column_reader
from io_kafka.formats.encodings import MessagePart
from io_kafka.formats.exact_json import RowReader, read_members
from io_kafka.formats.jackson import Malformed, Members, Node, has_lone_surrogates, parse, render_node, text_of
from io_kafka.formats.parse import Parsed
from io_kafka.formats.parse import parse as parse_all

# Keys that become objects by putting text around them; whatever else is bare goes the slow way.
_BARE_INTEGER = r"^-?(?:0|[1-9][0-9]*)$"
_BARE_QUOTED = r'^"[^"\\\x00-\x1f]*"$'
_BARE_TEXT = r"""^[^\s"'\[{\\\x00-\x1f][^"\\\x00-\x1f]*$"""
_ESCAPE = b"\\u"
_PERHAPS_LONE = r"\\u[dD][89a-fA-F]"
A_LONE_SURROGATE = "it has the escape of half a character (a lone surrogate), which no text can hold"


KEY_CHARS_SHOWN = 60
HOW_KEYS_ARE_WRITTEN = "set 'key.format' as the producer writes its keys: string, long, int, avro or protobuf; or none, if the value has them"


class Keys(NamedTuple):
    """The keys of a batch of messages, as columns. `columns`: of all messages, null where `present` is false (no key, or a refused one, which is
    in `faults`)."""

    columns: list[pa.Array]
    present: Bools
    faults: dict[int, str]


ParseKeys = Callable[[pa.Array, pa.Schema], Parsed]
"""(the keys that are there, the key columns, of which none may be missing) -> their values."""


def json_keys(keys: pa.Array, schema: pa.Schema, patterns: Patterns = NO_PATTERNS) -> Parsed:
    """Keys that are there. `schema`: the key columns."""

    def plain(given: pa.Array) -> Parsed:
        return parse_all(_as_objects(schema, given), schema, KeyReader(schema, patterns), patterns)

    return parse_wrapped(keys, WantedColumns(schema, MessagePart.KEY, patterns), plain)


def refuse_lone_surrogates(parsed: Parsed, keys: pa.Array) -> Parsed:
    """`parsed`: of these keys in JSON. Keys are compared, and a lone surrogate becomes a question mark: different keys would be one."""
    offsets, octets = offsets_and_bytes(keys)
    if _ESCAPE not in octets[offsets[0] : offsets[-1]].tobytes():  # a fifth of the time of a pattern
        return parsed
    perhaps = fill(pc.match_substring_regex(keys, _PERHAPS_LONE), False).to_numpy(zero_copy_only=False)
    bad = [
        place
        for place in np.flatnonzero(perhaps[parsed.at]).tolist()
        if any("?" in shown_cell(column, place) for column in parsed.rows.columns)
        and _is_json_with_lone_surrogates(keys[int(parsed.at[place])].as_py())
    ]
    if not bad:
        return parsed
    faults = [*parsed.faults, *((int(row), A_LONE_SURROGATE) for row in parsed.at[bad])]
    good = np.delete(np.arange(len(parsed.at)), bad)
    return Parsed(parsed.rows.take(pa.array(good)), parsed.at[good], sorted(faults))


def _is_json_with_lone_surrogates(key: bytes) -> bool:
    """Bare text that is no JSON has no escapes."""
    text = key[HEADER_BYTES:] if key[:1] == b"\0" else key
    try:
        parse(text)
    except Malformed:
        return False
    return has_lone_surrogates(text_of(text))


def in_either_form(schema: pa.Schema, patterns: Patterns, read: Callable[[Patterns], Keys]) -> Keys:
    """`schema`: the key columns. `patterns`: of the table's dates and timestamps. An output has them in its keys only if they tell all values
    apart. So for another pattern a key may have either form, and a text that is two values is refused."""
    found = read(patterns.exact)
    if not any(pattern_of(kind, patterns) != pattern_of(kind, patterns.exact) for kind in schema.types):
        return found
    return _either(schema, found, read(patterns), patterns)


def _either(schema: pa.Schema, usual: Keys, other: Keys, patterns: Patterns) -> Keys:
    """Keys that were read in two ways."""
    faults = {row: reason for row, reason in usual.faults.items() if row in other.faults}
    columns: list[pa.Array] = []
    for field, one, two in zip(schema, usual.columns, other.columns, strict=True):
        pattern = pattern_of(field.type, patterns)
        if pattern is not None:
            differ = pc.not_equal(written_texts(one, pattern), written_texts(two, pattern))
            for row in np.flatnonzero(fill(differ, False).to_numpy(zero_copy_only=False)).tolist():
                shown = f"it is {shown_cell(one, row)}, and {shown_cell(two, row)} in the form {pattern}"
                faults[row] = f"key: column {field.name}: {shown}"
        columns.append(pc.if_else(pa.array(usual.present), one, two))
    present = (usual.present | other.present) & ~np.isin(np.arange(len(usual.present)), list(faults))
    return Keys(columns, present, faults)


def keys_of(schema: pa.Schema, keys: pa.Array, parse_given: ParseKeys) -> Keys:
    """Keys in any format. `schema`: the key columns."""
    given = np.flatnonzero(~nulls_of(keys))
    required = pa.schema([field.with_nullable(False) for field in schema])
    parsed = parse_given(keys.take(pa.array(given)), required)
    present = np.zeros(len(keys), dtype=np.bool_)
    present[given[parsed.at]] = True
    row_of = np.zeros(len(keys), dtype=np.int64)
    row_of[given[parsed.at]] = np.arange(len(parsed.at))
    indices = pa.array(row_of, mask=~present)
    faults = {int(given[position]): f"key: {reason}" for position, reason in parsed.faults}
    return Keys([column.take(indices) for column in parsed.rows.columns], present, faults)


def _as_objects(schema: pa.Schema, keys: pa.Array) -> pa.Array:
    """Bare keys of the usual kinds as objects, so that they too can go the fast way."""
    if len(schema) != 1:
        return keys
    name, kind = schema.names[0], schema.types[0]
    begin = f"{{{json.dumps(name, ensure_ascii=False)}:".encode()
    quoted = pc.match_substring_regex(keys, _BARE_QUOTED)
    wrapped = pc.if_else(quoted, pc.binary_join_element_wise(begin, keys, b"}", b""), keys)
    if pa.types.is_integer(kind):
        number = pc.match_substring_regex(keys, _BARE_INTEGER)
        return pc.if_else(number, pc.binary_join_element_wise(begin, keys, b"}", b""), wrapped)
    if pa.types.is_string(kind):
        text = pc.and_(pc.match_substring_regex(keys, _BARE_TEXT), pc.not_equal(keys, b"null"))
        return pc.if_else(text, pc.binary_join_element_wise(begin + b'"', keys, b'"}', b""), wrapped)
    return wrapped


def _is_text(key: bytes) -> bool:
    """Keys are compared, so bytes that are no UTF-8 may not become U+FFFD: different keys would be one. No text has a zero byte, and numbers in
    4 or 8 bytes have."""
    try:
        return "\0" not in key.decode()
    except UnicodeDecodeError:
        return False


class KeyReader(RowReader):
    """Keys of every shape, one at a time."""

    def __init__(self, schema: pa.Schema, patterns: Patterns = NO_PATTERNS) -> None:
        super().__init__(schema, patterns)
        self.patterns = patterns

    def read(self, message: bytes | None) -> dict[str, Any]:
        if not message:
            raise Malformed("empty")
        if not _is_text(message):
            raise Malformed(f"its {len(message)} bytes are no text; {HOW_KEYS_ARE_WRITTEN}")
        single = len(self.schema) == 1
        try:
            node = parse(message)
        except Malformed:
            if not single or message.lstrip()[:1] in (b"{", b"["):
                raise
            return self._bare(text_of(message))
        if isinstance(node, Members):
            return self._object(node)
        if (
            single
            and pa.types.is_string(self.schema.types[0])
            and node is not None
            and not isinstance(node, str | list)
        ):
            node = text_of(message)
        return self._bare(node)

    def _object(self, node: Members) -> dict[str, Any]:
        members = {f.name: column_reader(f.name, f.type, self.patterns) for f in self.schema}
        missing = set(members) - {name for name, _ in node}
        if missing:
            raise Malformed(f"column {min(missing)} is missing")
        return read_members(node, members)

    def _bare(self, node: Node) -> dict[str, Any]:
        if len(self.schema) != 1 or node is None or isinstance(node, list):
            columns = ", ".join(self.schema.names)
            raise Malformed(f"{render_node(node)[:KEY_CHARS_SHOWN]} is not an object of the key columns {columns}")
        name = self.schema.names[0]
        return {name: column_reader(name, self.schema.types[0], self.patterns)(node)}
