"""Updates that change the key of a row: `before` has one key and `after` another.

Debezium writes a deletion and a creation where a message's key changes. But a table of the database may have no primary key, or another tool may
have written the change. Then one message says both: the row of the former key is gone, and the row of the new key is there. Without this the
former row would stay for ever.

The message has the partition of the new key. Whether that is the partition of the former key too, only the operator LastByKey knows, so these
deletions are marked for it (message_fields.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from base.arrays import Bools
from base.text.columns import nulls_of
from io_kafka.formats.agreement import are_different
from io_kafka.formats.spec import SourceFormat
from io_kafka.formats.text_limits import fit_columns
from io_kafka.formats.unavailable import placeholder_of
from io_kafka.formats.unavailable_cells import Cells, no_value

MOVED = "the update changes the key, so no row has it under the new one"


def row_elsewhere(key: str, partition: int) -> str:
    """The reason of a message that changes a key whose row is of another partition. `key`: the former key, as text."""
    return (
        f"the update changes the key, and the row of the former key {key} is from partition {partition}. No order is known between two "
        "partitions, so the update does not delete that row. If the message is left out, both rows are there. Let the producer write a deletion "
        "of the former key and a creation of the new one, each with its own key; or declare the table without a key, if `before` has all columns"
    )


class MovedKeys:
    """The updates that give a row another key. `which`: the messages that change a key. `former`: the key columns before each of them."""

    def __init__(self, which: Bools, former: list[pa.Array]) -> None:
        self.which, self.former = which, former


def moved_keys(source: SourceFormat, columns: Sequence[pa.Array], former: Sequence[pa.Array]) -> MovedKeys:
    """`columns`: all of the table as the values have them, of which the text limits hold. A key before of which a part is NULL was not sent. A
    moment has the same digits in both images, so the value's own are compared and not those of the message's key."""
    count = len(columns[0])
    if not former or any(each.null_count == count for each in former):
        return MovedKeys(np.zeros(count, np.bool_), [])
    keys = list(former)
    if source.limits:
        keys = fit_columns(keys, source.key, source.limits, np.arange(count), {})
    which, known = np.zeros(count, np.bool_), np.ones(count, np.bool_)
    for name, key in zip(source.key, keys, strict=True):
        which |= are_different(key, columns[source.schema.get_field_index(name)])
        known &= ~nulls_of(key)
    return MovedKeys(which & known, keys)


def refuse_moved(source: SourceFormat, moved: MovedKeys, held: Cells, faults: dict[int, str]) -> None:
    """Adds a fault for each message that changes a key and lacks a value: the row that has the value goes away with the former key."""
    placeholder = placeholder_of(source.unavailable)
    for index, cells in held.items():
        for row in np.flatnonzero(cells & moved.which):
            assert placeholder is not None, "there are no cells without one"
            faults.setdefault(int(row), no_value(source.schema.names[index], placeholder.text, MOVED))


def with_former_rows(source: SourceFormat, rows: pa.Table, good: pa.Array, moved: MovedKeys) -> pa.Table:
    """The good rows in their order, and before each that changes a key the deletion of the row under the old one. `rows`: of all messages, as
    `LastByKey` takes them."""
    at = np.flatnonzero(moved.which & np.asarray(good))
    kept = rows.filter(good)
    if not len(at):
        return kept
    gone = rows.take(pa.array(at))
    for number, field in enumerate(source.schema):
        column = pa.nulls(len(at), field.type)
        if field.name in source.key:
            column = moved.former[source.key.index(field.name)].take(pa.array(at))
        gone = gone.set_column(number, rows.schema.field(number), column)
    partitions = ~gone.column("partition").to_numpy()
    for name, values in (("deleted", pa.repeat(pa.scalar(True), len(at))), ("partition", pa.array(partitions))):
        place = rows.schema.get_field_index(name)
        gone = gone.set_column(place, rows.schema.field(place), values)
    order = np.argsort(np.concatenate([at, np.flatnonzero(np.asarray(good))]), kind="stable")
    return pa.concat_tables([gone, kept]).take(pa.array(order))
