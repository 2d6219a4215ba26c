"""The messages of one key in two partitions. They have no order that a producer could have meant, so LastByKey refuses them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from base.arrays import Int64s
from engine.errors import DataError
from engine.expressions.functions.function import shown_cell
from engine.model.rows import LastByKey
from engine.rows import zset
from io_kafka.formats.message_fields import OFFSET, PARTITION


class ScatteredKey(DataError):
    """A key has messages in two partitions. `handle`: the source. `key`: the values of the key as text. `partition`, `offset`: a message of the
    step that has it. engine/run/malformed_by_state.py knows the table, and names the columns and the topic."""

    def __init__(self, handle: str, key: tuple[str, ...], partitions: tuple[int, int], place: tuple[int, int]) -> None:
        shown = f"({', '.join(key)})"
        super().__init__(text_of_scattered_key(shown, partitions), "Let the producer partition by the key.")
        self.handle, self.key, self.partitions = handle, key, partitions
        self.partition, self.offset = place


def text_of_scattered_key(key: str, partitions: tuple[int, int]) -> str:
    """The text of the error. `key`: its values as text."""
    low, high = partitions
    return f"Key {key} has messages in partitions {low} and {high}, so their order is not known."


def check_partitions(
    node: LastByKey, messages: pa.Table, group: zset.Indices, keys: pa.Table, stored: tuple[zset.Indices, Int64s]
) -> None:
    """Raises ScatteredKey if a key has rows of two partitions. `group`: the number of each message's key in `keys`. `stored`: the keys of the
    rows in the state, and the partitions of these rows."""
    partition, offset = (
        messages.column(len(node.types) + at).to_numpy().astype(np.int64) for at in (PARTITION, OFFSET)
    )
    groups, partitions = np.concatenate([group, stored[0]]), np.concatenate([partition, stored[1]])
    low = np.full(keys.num_rows, np.iinfo(np.int64).max)
    high = np.full(keys.num_rows, -1)
    np.minimum.at(low, groups, partitions)
    np.maximum.at(high, groups, partitions)
    in_two = np.flatnonzero(low != high)
    if len(in_two):
        number = int(in_two[0])
        mine = np.flatnonzero(group == number)
        where = mine[np.lexsort((offset[mine], -partition[mine]))][0]
        raise ScatteredKey(
            node.handle,
            key_as_text(keys, number),
            (int(low[number]), int(high[number])),
            (int(partition[where]), int(offset[where])),
        )


def key_as_text(keys: pa.Table, at: int) -> tuple[str, ...]:
    """The values of one key."""
    return tuple(shown_cell(column, at) for column in keys.columns)
