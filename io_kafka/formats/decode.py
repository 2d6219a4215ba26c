"""Messages of an input topic -> rows of the circuit's source, and the messages that were refused.

    append                  the value is the row, of weight 1
    changelog without key   before -> weight -1, after -> weight +1; there is no state, so before is required
    upsert                  the value is the row, null deletes; the key is the message's, else the value's
    changelog with key      after is the row, op d or a tombstone deletes; before is used only for the key of a delete

The last two produce messages for `LastByKey`: columns, deleted, partition, offset. Columns may hold the mark of a value that the database did
not send (unavailable.py), and `deleted` is null where the whole table was truncated (table_events.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, Int64s
from base.options import Truncate
from base.text.columns import nulls_of
from io_kafka.formats.agreement import are_different, same_as_written, shown_cell
from io_kafka.formats.connect.read import tombstones_as_null
from io_kafka.formats.encodings import MessagePart
from io_kafka.formats.exact_json import nullable
from io_kafka.formats.flattened import flagged_columns, has_flag, without_flag
from io_kafka.formats.keys import Keys
from io_kafka.formats.message_fields import MESSAGE_FIELDS
from io_kafka.formats.moved_keys import moved_keys, refuse_moved, with_former_rows
from io_kafka.formats.reading import parse_keys, parse_values
from io_kafka.formats.records import columns_of
from io_kafka.formats.spec import Decoded, Rejected, SourceFormat
from io_kafka.formats.table import format_of
from io_kafka.formats.table_events import NO_EVENTS, TableEvents, is_op, table_events
from io_kafka.formats.text_limits import fit_columns
from io_kafka.formats.unavailable_cells import (
    mark_missing,
    null_missing,
    refuse_images,
    refuse_parts,
    unavailable_cells,
)
from io_kafka.messages import TopicMessages

Faults = dict[int, str]

NO_KEY = (
    "it has no key, and its value has nothing in the key's columns; all such messages would be one row. If a row may have NULL there and the "
    "messages have no keys, set 'key.format' = 'none'"
)

Metadata = Mapping[str, pa.Array]
"""The columns that messages have besides their values, by the names in `SourceFormat.metadata`, one entry for each message. A timestamp that no
TIMESTAMP can hold is null, and makes the message malformed."""


def decode(source: SourceFormat, records: TopicMessages, truncate: Truncate = "fail") -> Decoded:
    """Rows: `c0`.. and `weight` (append, changelog without a key), or `c0`.., `deleted`, `partition`, `offset`. `truncate`: the policy of the
    step."""
    keys, values, offsets = records.messages.keys, records.messages.values, records.messages.offsets
    assert len(keys) == len(values) == len(records.partitions) == len(offsets)
    metadata, of_records = columns_of(records, [name for _, name in source.metadata])
    events = NO_EVENTS
    if format_of(source.encoding).is_json and source.mode != "append":
        values = tombstones_as_null(values, source.payload)
    if source.mode == "append":
        rows, faults = _append_rows(source, values, metadata, of_records)
    elif not source.keyed:
        rows, faults, events = _changelog_rows(source, values, truncate)
    else:
        images = (
            _upsert_images(source, values) if source.mode == "upsert" else _changelog_images(source, values, truncate)
        )
        events = images.events
        # A deletion needs no such column.
        needed = {at: reason for at, reason in of_records.items() if not images.deleted[at]}
        columns = _with_metadata(source, images.columns, metadata)
        images = images._replace(columns=columns, faults={**needed, **images.faults})
        rows, faults = _join_keys(source, parse_keys(source, keys), images, records.partitions, offsets)
    rejected = [
        Rejected(records.partitions[position].as_py(), offsets[position].as_py(), faults[position])
        for position in sorted(faults)
    ]
    return Decoded(rows, rejected, len(events.ignored))


def _append_rows(
    source: SourceFormat, values: pa.Array, metadata: Metadata, of_records: Faults
) -> tuple[pa.Table, Faults]:
    """Mode append: (a row of weight 1 for each message, the messages that were refused). `of_records`: the faults of the metadata."""
    parsed = parse_values(source, values, source.payload)
    of_rows = {name: column.take(pa.array(parsed.at)) for name, column in metadata.items()}
    columns = _with_metadata(source, parsed.rows.columns, of_rows)
    faults = {**of_records, **dict(parsed.faults)}
    if source.limits:
        columns = fit_columns(columns, source.schema.names, source.limits, parsed.at, faults)
    if len(faults) == len(parsed.faults):
        return _with_weights(columns, np.ones(len(parsed.at), np.int64)), faults
    good = ~np.isin(parsed.at, list(faults))
    columns = [column.filter(pa.array(good)) for column in columns]
    return _with_weights(columns, np.ones(np.count_nonzero(good), np.int64)), faults


def _with_metadata(source: SourceFormat, payload: list[pa.Array], metadata: Metadata) -> list[pa.Array]:
    """Returns all columns of the table: those of the payload, with those of the records between them, which are equally long."""
    if not source.metadata:
        return payload
    of_values, of_records = iter(payload), dict(source.metadata)
    return [
        metadata[of_records[field.name]].cast(field.type) if field.name in of_records else next(of_values)
        for field in source.schema
    ]


def _with_weights(columns: list[pa.Array], weights: Int64s) -> pa.Table:
    fields = [pa.field(f"c{i}", column.type) for i, column in enumerate(columns)]
    fields.append(pa.field("weight", pa.int64(), nullable=False))
    return pa.Table.from_arrays([*columns, pa.array(weights)], schema=pa.schema(fields))


def _not_null(
    schema: pa.Schema, columns: list[pa.Array], checked: Bools, at: Int64s, faults: Faults, *, place: str = ""
) -> None:
    """Adds a fault for every checked row with a null where none may be."""
    for field, column in zip(schema, columns, strict=True):
        if not field.nullable and column.null_count:
            for row in np.flatnonzero(checked & nulls_of(column)):
                faults.setdefault(int(at[row]), f"column {place}{field.name}: null, but declared NOT NULL")


def _envelope(source: SourceFormat, before: pa.Schema) -> pa.Schema:
    images = [pa.field("before", pa.struct(list(before))), pa.field("after", pa.struct(list(nullable(source.payload))))]
    return pa.schema([*images, pa.field("op", pa.string(), nullable=False)])


def _changelog_rows(source: SourceFormat, values: pa.Array, truncate: Truncate) -> tuple[pa.Table, Faults, TableEvents]:
    """Mode changelog without a key: (the rows before changes with weight -1 and those after them with weight 1, the messages that were refused,
    those that are about no single row)."""
    given = np.flatnonzero(~nulls_of(values))  # a tombstone follows its delete, which has said it all
    schema = _envelope(source, nullable(source.schema))
    parsed = parse_values(source, values.take(pa.array(given)), schema, MessagePart.ENVELOPE)
    at, faults = given[parsed.at], {int(given[position]): reason for position, reason in parsed.faults}
    before, after, ops = parsed.rows.columns
    events = table_events(ops, at, faults, truncate, keyed=False)
    takes, gives = is_op(ops, {"u", "d"}), is_op(ops, {"c", "r", "u"})
    for image, needed, name in ((before, takes, "before"), (after, gives, "after")):
        for row in np.flatnonzero(needed & nulls_of(image)):
            faults.setdefault(
                int(at[row]), f"op {ops[row]} without {name}; declare a key if the source does not send it"
            )
        present = needed & ~nulls_of(image)
        _not_null(source.schema, image.flatten(), present, at, faults, place=f"{name}.")
        refuse_images(source, image, present, at, faults, place=name)
    if source.limits:
        before, after = (_fit_image(source, *image, at, faults) for image in ((before, takes), (after, gives)))
    good = ~np.isin(at, list(faults))
    rows = np.arange(len(at))
    # Twice as many places as messages: before at 2i, after at 2i + 1.
    places = np.sort(np.concatenate([2 * rows[takes & good], 2 * rows[gives & good] + 1]))
    both = pa.concat_arrays([before, after]).take(pa.array(places // 2 + len(at) * (places % 2)))
    return _with_weights(both.flatten(), np.where(places % 2 == 1, 1, -1).astype(np.int64)), faults, events


def _fit_image(source: SourceFormat, image: pa.Array, needed: Bools, at: Int64s, faults: Faults) -> pa.Array:
    """The rows before or after changes, with their texts as they are stored. A row that is not needed is not looked at."""
    found: Faults = {}
    columns = fit_columns(image.flatten(), source.schema.names, source.limits, np.arange(len(at)), found)
    for row, reason in found.items():
        if needed[row]:
            faults.setdefault(int(at[row]), reason)
    return pa.StructArray.from_arrays(columns, fields=list(image.type), mask=pa.array(nulls_of(image)))


class Images(NamedTuple):
    """What the values of keyed messages say, with one entry for each message.

    `columns`: the row, of the columns of the payload until those of the metadata are put between them. Of a message that deletes its row, only
    the key columns that the value itself names are set. `deleted`: whether the message deletes its row. `faults`: the values that were refused.
    `events`: the messages that are about no single row. `former`: the key columns before each update, as the value has them, and null for other
    messages. It is empty if no value has an image before its change."""

    columns: list[pa.Array]
    deleted: Bools
    faults: Faults
    events: TableEvents = NO_EVENTS
    former: tuple[pa.Array, ...] = ()


def _to_all_messages(columns: list[pa.Array], at: Int64s, count: int) -> list[pa.Array]:
    """Returns columns of all `count` messages, which have those of the messages `at`, and null for the rest."""
    row_of = np.zeros(count, dtype=np.int64)
    missing = np.ones(count, dtype=np.bool_)
    row_of[at], missing[at] = np.arange(len(at)), False
    return [column.take(pa.array(row_of, mask=missing)) for column in columns]


def _upsert_images(source: SourceFormat, values: pa.Array) -> Images:
    """Mode upsert: each value is a row, and null deletes."""
    given = np.flatnonzero(~nulls_of(values))
    parsed = parse_values(source, values.take(pa.array(given)), flagged_columns(source))
    faults = {int(given[position]): reason for position, reason in parsed.faults}
    columns = _to_all_messages(parsed.rows.columns, given[parsed.at], len(values))
    deleted = nulls_of(values)
    if has_flag(source):
        columns, flagged = without_flag(source, columns)
        deleted = deleted | flagged
    return Images(columns, deleted, faults)


def _changelog_images(source: SourceFormat, values: pa.Array, truncate: Truncate) -> Images:
    """Mode changelog with a key: each value is an envelope, whose `after` is the row."""
    given = np.flatnonzero(~nulls_of(values))
    schema = _envelope(source, nullable(_key_schema(source)))
    parsed = parse_values(source, values.take(pa.array(given)), schema, MessagePart.ENVELOPE)
    at, faults = given[parsed.at], {int(given[position]): reason for position, reason in parsed.faults}
    before, after, ops = parsed.rows.columns
    events = table_events(ops, at, faults, truncate, keyed=True)
    deletes = is_op(ops, {"d"})
    for row in np.flatnonzero(is_op(ops, {"c", "r", "u"}) & nulls_of(after)):
        faults.setdefault(int(at[row]), f"op {ops[row]} without after")
    columns = after.flatten()
    old = dict(zip(source.key, before.flatten(), strict=True))
    gone = pa.array(deletes)
    for index, field in enumerate(source.payload):
        columns[index] = pc.if_else(gone, old.get(field.name, pa.scalar(None, field.type)), columns[index])
    deleted = nulls_of(values)
    deleted[at[deletes]] = True
    former = _of_updates(list(old.values()), ops) if before.null_count < len(before) else []
    return Images(
        _to_all_messages(columns, at, len(values)),
        deleted,
        faults,
        events,
        tuple(_to_all_messages(former, at, len(values))),
    )


def _of_updates(keys: list[pa.Array], ops: pa.Array) -> list[pa.Array]:
    """Returns the keys before the changes, which are null for a change that is no update."""
    updated = pa.array(is_op(ops, {"u"}))
    return [pc.if_else(updated, key, pa.scalar(None, key.type)) for key in keys]


def _key_schema(source: SourceFormat) -> pa.Schema:
    return pa.schema([source.schema.field(name) for name in source.key])


def _join_keys(
    source: SourceFormat, keys: Keys, images: Images, partitions: pa.Array, offsets: pa.Array
) -> tuple[pa.Table, Faults]:
    """Brings keys and values together: the key's columns complete the value's, and may not contradict them. Where a text of the value can have
    fewer digits than the key, the key counts (agreement.py)."""
    faults = {**keys.faults, **images.faults}
    columns = list(images.columns)
    everywhere = np.arange(len(offsets))
    held = unavailable_cells(source, columns)
    columns = null_missing(columns, held)
    refuse_parts(source, columns, everywhere, faults)
    if source.limits:
        columns = fit_columns(columns, source.schema.names, source.limits, everywhere, faults)
        keys = keys._replace(columns=fit_columns(keys.columns, source.key, source.limits, everywhere, faults))
    moved = moved_keys(source, columns, images.former)
    refuse_moved(source, moved, held, faults)
    columns, named = _complete_by_keys(source, keys, columns, faults)
    columns = mark_missing(source, columns, held, keys, faults)
    _refuse_missing(source, columns, images, ~keys.present & ~named, faults)
    for position in images.events.all:  # whatever the key of such a message is
        faults.pop(int(position), None)
    good = pa.array(~np.isin(everywhere, [*faults, *images.events.ignored]))
    deleted = pa.array(images.deleted, mask=np.isin(everywhere, images.events.truncates))
    rows = _keyed_rows(source, columns, deleted, partitions, offsets)
    return with_former_rows(source, rows, good, moved), faults


def _complete_by_keys(
    source: SourceFormat, keys: Keys, columns: list[pa.Array], faults: Faults
) -> tuple[list[pa.Array], Bools]:
    """(the columns, of which those of the key have the values of the messages' keys, whether a message has any value of the key). It adds a
    fault for each message whose key and value contradict each other."""
    made = list(columns)
    named = np.zeros(len(keys.present), dtype=np.bool_)
    for name, of_key in zip(source.key, keys.columns, strict=True):
        index = source.schema.get_field_index(name)
        own = columns[index]
        differ = are_different(of_key, own) & keys.present
        if differ.any() and format_of(source.encoding).datetimes_are_texts:
            differ &= ~same_as_written(of_key, own, source.patterns)
        for position in np.flatnonzero(differ):
            shown = f"{shown_cell(of_key, int(position))} in the message's key, {shown_cell(own, int(position))} in its value"
            faults.setdefault(int(position), f"column {name}: {shown}")
        made[index] = pc.if_else(pa.array(keys.present), pc.coalesce(of_key, own), own)
        named |= ~nulls_of(made[index])
    return made, named


def _refuse_missing(
    source: SourceFormat, columns: list[pa.Array], images: Images, nameless: Bools, faults: Faults
) -> None:
    """Adds a fault for each message that lacks a value that its row needs. `nameless`: the messages without any value of the key."""
    everywhere = np.arange(len(nameless))
    for position in np.flatnonzero(images.deleted & nameless):
        faults.setdefault(int(position), "a deletion that names no key")
    _not_null(source.schema, columns, ~images.deleted, everywhere, faults)
    of_key = [columns[source.schema.get_field_index(name)] for name in source.key]
    _not_null(_key_schema(source), of_key, images.deleted, everywhere, faults)
    if source.key_format != "none":
        for position in np.flatnonzero(~images.deleted & nameless):
            faults.setdefault(int(position), NO_KEY)


def _keyed_rows(
    source: SourceFormat, columns: list[pa.Array], deleted: pa.Array, partitions: pa.Array, offsets: pa.Array
) -> pa.Table:
    fields = [pa.field(f"c{i}", field.type) for i, field in enumerate(source.schema)]
    schema = pa.schema([*fields, *MESSAGE_FIELDS])
    return pa.Table.from_arrays([*columns, deleted, partitions, offsets], schema=schema)
