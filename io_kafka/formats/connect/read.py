"""A batch of messages in JSON -> rows, where some or all of them are in Kafka Connect's wrapper.

A wrapper without a schema is read as its payload alone would be. One with a schema is read as the schema says, and converted to the columns.
A message that is no wrapper is left to the reader of plain messages.

A table may have columns of its own that are named `schema` or `payload`. Its messages are wrappers only if what is within has these columns too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Int64s
from base.text.columns import nulls_of
from base.text.patterns import Patterns
from io_kafka.formats.connect.conversion import Conversion, Convert, Manner, conversion
from io_kafka.formats.connect.types import VARIABLE_DECIMAL, Map, Plain, Struct, Type, is_schema, type_of, type_text
from io_kafka.formats.connect.wrapper import Form, Group, form_of, groups_of, perhaps_null
from io_kafka.formats.debezium import FROM_MONGODB, row_columns
from io_kafka.formats.encodings import MessagePart
from io_kafka.formats.envelopes import NAMES_SHOWN, why_no_row
from io_kafka.formats.exact_json import RowReader, nullable
from io_kafka.formats.jackson import Malformed, parse_object, text_of
from io_kafka.formats.names import Ambiguous, fields_of
from io_kafka.formats.native_json import read_usual
from io_kafka.formats.parse import Parsed, parse

ParsePlain = Callable[[pa.Array], Parsed]

WRAPPER = frozenset({"schema", "payload"})
NO_SCHEMA = b"null"
NO_OP = "no op: not a change in Debezium's envelope"
A_TOMBSTONE = "its payload is null: a tombstone deletes by key, so it needs mode upsert, or changelog with a key"


@dataclass(frozen=True)
class WantedColumns:
    """What messages are read as. `schema`: the columns. `patterns`: of dates and timestamps that come as text."""

    schema: pa.Schema
    part: MessagePart
    patterns: Patterns


class Way(NamedTuple):
    """One way to read payloads, and what then makes the columns."""

    raw: pa.Schema
    reader: RowReader
    converts: list[Convert | None]


class Typed(NamedTuple):
    """How the payloads of one schema are read into the columns of one table. `numeric`: with decimals as numbers, if there are any. `around`:
    what makes an object of a bare key."""

    usual: Way
    numeric: Way | None
    around: tuple[bytes, bytes]


class _PayloadReader(RowReader):
    """Payloads -> raw columns, one at a time."""

    def __init__(self, parts: dict[str, Conversion]) -> None:
        self.schema = pa.schema([pa.field(name, part.raw) for name, part in parts.items()])
        self._members = {name: part.read for name, part in parts.items()}
        self._required = []


def parse_wrapped(values: pa.Array, wanted: WantedColumns, plain: ParsePlain) -> Parsed:
    """`values`: binary; a null is an empty message. `plain` reads messages that are not wrapped, and payloads without a schema."""
    groups = groups_of(values)
    if not groups:
        return plain(values)
    found: list[tuple[Int64s, Parsed]] = []
    others = np.ones(len(values), np.bool_)
    for group in groups:
        group = _without_rows(group, wanted.schema)
        if group.schema == NO_SCHEMA:
            parsed = _schemaless(group.payloads, plain)
        else:
            parsed = parse_typed(group.payloads, group.schema, wanted)
        good = _faults_of_wrappers(parsed, values, group.at)
        found.append((group.at, good))
        others[group.at[good.at]] = False
        others[group.at[[row for row, _ in good.faults]]] = False
    rest = np.flatnonzero(others)
    if len(rest):
        found.append((rest, plain(values.take(pa.array(rest)))))
    return merge_parts(found, wanted.schema)


def _faults_of_wrappers(parsed: Parsed, values: pa.Array, at: Int64s) -> Parsed:
    """Without the messages that only begin and end as a wrapper does: what is between is not one value."""
    if not parsed.faults:
        return parsed
    return parsed._replace(
        faults=[each for each in parsed.faults if form_of(values[int(at[each[0]])].as_py()) is not None]
    )


def _without_rows(group: Group, schema: pa.Schema) -> Group:
    """Without the messages that are rows of a table with columns of those names."""
    own = WRAPPER & set(schema.names)
    if not own:
        return group
    if group.schema == NO_SCHEMA:
        wrapped = [_has(payload, own) for payload in group.payloads.to_pylist()]
        mask = np.array(wrapped, np.bool_)
        return Group(group.schema, group.at[mask], group.payloads.filter(pa.array(mask)))
    return group if _names_of(group.schema) >= own else Group(group.schema, group.at[:0], group.payloads[:0])


def _has(payload: bytes, names: frozenset[str]) -> bool:
    try:
        return {name for name, _ in parse_object(payload)} >= names
    except Malformed:
        return False


@lru_cache(maxsize=256)
def _names_of(schema: bytes) -> frozenset[str]:
    """The columns that a schema has; none if it is not one."""
    try:
        type_ = _read_schema(schema)
    except Malformed:
        return frozenset()
    return frozenset(name for name, _ in type_.fields) if isinstance(type_, Struct) else frozenset()


def _schemaless(payloads: pa.Array, plain: ParsePlain) -> Parsed:
    parsed = plain(payloads)
    faults = [(row, A_TOMBSTONE if payloads[row].as_py() == b"null" else reason) for row, reason in parsed.faults]
    return parsed._replace(faults=faults)


def tombstones_as_null(values: pa.Array, schema: pa.Schema) -> pa.Array:
    """The messages, with nothing in place of wrappers whose payload is null. `schema`: the columns of the table, or of its key."""
    own = WRAPPER & set(schema.names)
    found = [row for row in perhaps_null(values).tolist() if _is_tombstone(values[row].as_py(), own)]
    if not found:
        return values
    mask = np.zeros(len(values), np.bool_)
    mask[found] = True
    return pc.if_else(pa.array(mask), pa.scalar(None, values.type), values)


@lru_cache(maxsize=1024)  # tombstones of one producer have the same bytes
def _is_tombstone(message: bytes, own: frozenset[str]) -> bool:
    form = form_of(message)
    if form is None or _payload(message, form) != b"null":
        return False
    if form.schema == NO_SCHEMA:
        return own != WRAPPER
    return _names_of(form.schema) >= own


def _payload(message: bytes, form: Form) -> bytes:
    return message[len(form.before) : len(message) - len(form.behind)]


def merge_parts(found: list[tuple[Int64s, Parsed]], schema: pa.Schema) -> Parsed:
    """Parts of a batch in the order of the messages. Each has the numbers of its messages."""
    faults = sorted((int(at[row]), reason) for at, parsed in found for row, reason in parsed.faults)
    places = np.concatenate([np.zeros(0, np.int64), *(at[parsed.at] for at, parsed in found)])
    batches = [parsed.rows for _, parsed in found]
    rows = pa.concat_batches([batch.cast(nullable(schema)) for batch in batches])
    if (np.diff(places) < 0).any():
        order = np.argsort(places)
        rows, places = rows.take(pa.array(order)), places[order]
    return Parsed(rows, places, faults)


def parse_typed(payloads: pa.Array, text: bytes, wanted: WantedColumns) -> Parsed:
    """Payloads that all have the schema of this text."""
    try:
        typed = _typed_schema(text, wanted)
    except Malformed as refusal:
        return refuse_all(len(payloads), wanted.schema, str(refusal))
    return read_typed(payloads, typed, wanted)


def refuse_all(count: int, schema: pa.Schema, reason: str) -> Parsed:
    none = pa.RecordBatch.from_pylist([], nullable(schema))
    return Parsed(none, np.zeros(0, np.int64), [(row, reason) for row in range(count)])


def read_typed(payloads: pa.Array, typed: Typed, wanted: WantedColumns) -> Parsed:
    texts, patterns = _between(payloads, *typed.around), wanted.patterns
    if typed.numeric is None or not _has_numbers(texts, typed.numeric, patterns):
        return _convert(payloads, parse(texts, typed.usual.raw, typed.usual.reader, patterns), typed.usual, wanted)
    read = read_usual(texts, typed.numeric.raw, patterns, quoted_decimals=False)
    assert read is not None, "the first message was read"
    rows, declined = read
    good, late = np.flatnonzero(~declined), np.flatnonzero(declined)
    taken = Parsed(rows.take(pa.array(good)), np.arange(len(good)), [])
    found = [(good, _convert(payloads, taken, typed.numeric, wanted))]
    if len(late):
        others = parse(texts.take(pa.array(late)), typed.usual.raw, typed.usual.reader, patterns)
        found.append((late, _convert(payloads.take(pa.array(late)), others, typed.usual, wanted)))
    return merge_parts(found, wanted.schema)


def _has_numbers(texts: pa.Array, numeric: Way, patterns: Patterns) -> bool:
    """Whether the decimals of the first message are numbers. The messages of one producer are alike; others are read too, only more slowly. A
    text is never a number here: "1234" is base64 of three bytes."""
    first = read_usual(texts[:1], numeric.raw, patterns, quoted_decimals=False) if len(texts) else None
    return first is not None and not first[1].any()


def _convert(payloads: pa.Array, parsed: Parsed, way: Way, wanted: WantedColumns) -> Parsed:
    schema, part = wanted.schema, wanted.part
    faults = {row: A_TOMBSTONE if payloads[row].as_py() == b"null" else reason for row, reason in parsed.faults}
    wrong: dict[int, str] = {}
    every = np.arange(len(parsed.at))
    columns = [
        column if convert is None else convert(column, every, wrong)
        for column, convert in zip(parsed.rows.columns, way.converts, strict=True)
    ]
    for field, column in zip(schema, columns, strict=True):
        if not field.nullable and column.null_count and part is not MessagePart.KEY:  # a key's NULL was sent
            reason = NO_OP if part is MessagePart.ENVELOPE else f"column {field.name}: null, but declared NOT NULL"
            for row in np.flatnonzero(nulls_of(column)).tolist():
                wrong.setdefault(row, reason)
    faults |= {int(parsed.at[row]): reason for row, reason in wrong.items()}
    rows = pa.RecordBatch.from_arrays(columns, schema=nullable(schema))
    at = parsed.at
    if wrong:
        good = np.setdiff1d(every, np.array(list(wrong), np.int64))
        rows, at = rows.take(pa.array(good)), at[good]
    return Parsed(rows, at, sorted(faults.items()))


def _between(payloads: pa.Array, begin: bytes, end: bytes) -> pa.Array:
    return payloads if not begin else pc.binary_join_element_wise(begin, payloads, end, b"")


def _read_schema(text: bytes) -> Type:
    try:
        plain: Any = json.loads(text_of(text))
    except (ValueError, RecursionError):
        raise Malformed("the wrapper's schema is not JSON") from None
    if not is_schema(plain):
        raise Malformed("the wrapper's schema is none of Kafka Connect's")
    return type_of(plain)


@lru_cache(maxsize=1024)  # of a process: one for each schema in use and each use of it
def _typed_schema(text: bytes, wanted: WantedColumns) -> Typed:
    """Raises Malformed."""
    return typed_of(_read_schema(text), wanted)


def typed_of(type_: Type, wanted: WantedColumns) -> Typed:
    """Raises Malformed if the type has no rows of such columns."""
    schema, part = wanted.schema, wanted.part
    around = (b"", b"")
    has_columns = isinstance(type_, Map) or (isinstance(type_, Struct) and type_.name != VARIABLE_DECIMAL)
    if not has_columns:
        if part is not MessagePart.KEY or len(schema) != 1:
            what = f"the key columns {', '.join(schema.names)}" if part is MessagePart.KEY else "rows"
            raise Malformed(f"its schema is {type_text(type_)}, and {what} need a struct")
        name = schema.names[0]
        type_ = Struct(None, ((name, type_),))
        around = (f"{{{json.dumps(name, ensure_ascii=False)}:".encode(), b"}")
    if part is not MessagePart.KEY and isinstance(type_, Struct):
        of_row = type_ if part is MessagePart.ROW else type_.member("after")
        if isinstance(of_row, Struct):
            _check_row(of_row, row_columns(schema, part))
        elif isinstance(of_row, Plain):
            raise Malformed(f"its schema has {type_text(of_row)} as after{FROM_MONGODB}")
    try:
        if part is MessagePart.KEY and isinstance(type_, Struct):
            _check_key(type_, schema)
        usual, numeric = (_way(type_, schema, Manner(numeric, wanted.patterns)) for numeric in (False, True))
    except Ambiguous as fault:
        raise Malformed(f"its schema: {fault}") from None
    return Typed(usual, None if numeric.raw == usual.raw else numeric, around)


def _check_key(type_: Struct, schema: pa.Schema) -> None:
    """A column of the key may be NULL, but not because the schema does not have it: all its rows would have one key. Raises Malformed and
    Ambiguous."""
    names = [name for name, _ in type_.fields]
    missing = set(schema.names) - set(fields_of(schema.names, names))
    if missing:
        raise Malformed(f"column {min(missing)} is missing; its schema has {', '.join(names[:NAMES_SHOWN])}")


def _check_row(type_: Struct, columns: Set[str]) -> None:
    """A schema that has none of the columns is one of something else, and its rows would have nothing but NULL."""
    reason = why_no_row([name for name, _ in type_.fields], columns, any_case=True)
    if reason is not None:
        raise Malformed(f"its schema {reason}")


def _way(type_: Type, schema: pa.Schema, manner: Manner) -> Way:
    named = fields_of(schema.names, [name for name, _ in type_.fields]) if isinstance(type_, Struct) else {}
    parts = {
        (name := named.get(field.name, field.name)): conversion(_member(type_, name), field.type, field.name, manner)
        for field in schema
    }
    reader = _PayloadReader(parts)
    return Way(reader.schema, reader, [each.convert for each in parts.values()])


def _member(type_: Type, name: str) -> Type:
    return type_.values if isinstance(type_, Map) else type_.member(name) if isinstance(type_, Struct) else type_
