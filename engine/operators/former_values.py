"""What the messages of a step make of each key, if some lack values or the table was truncated between them.

The messages of a key are taken in their order, beside the row that the key had before the step:

    a deletion, a truncation      the key has no row
    a message with all values     is the row
    a message that lacks values   takes them from the row before it; if there is none, it is malformed and changes nothing

Nothing is computed message by message. A *stretch* is a run of messages of one key between two ends of its row. Within a stretch, a key that has
a row keeps having one: the row from before the step, or the first message with all values. So a message is malformed if there is neither. And a
value that the last message lacks is that of the last message of the stretch which has it, or else of the row from before the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from base.arrays import Bools, Int64s

FROM_BEFORE = -1
"""In the place of a message: the row that the key had before the step."""


class KeyedMessages(NamedTuple):
    """The messages of a step, by key and then in their order. `key`: a number, ascending. `truncations`: how many lie before the message.
    `lacks`: for each column of which some value is missing, the messages that lack it."""

    key: Int64s
    deletes: Bools
    truncations: Int64s
    lacks: Mapping[int, Bools]


class Outcome(NamedTuple):
    """What the messages of a step lead to, for all of its keys. `last`: the message that is the row after the step, for each key that has
    one. `sources[column]`: the message that has the column's value, for each of `last`, or FROM_BEFORE. `malformed`: the messages that lack a
    value which no row has."""

    last: Int64s
    sources: dict[int, Int64s]
    malformed: Int64s


def outcome(messages: KeyedMessages, had_row: Bools, truncations: int) -> Outcome:
    """`had_row`: by the key's number, whether it had a row before the step. `truncations`: those of the step."""
    count = len(messages.key)
    places = np.arange(count)
    is_first = np.append(True, messages.key[1:] != messages.key[:-1])
    ended = messages.deletes[:-1] | (messages.truncations[1:] != messages.truncations[:-1])
    start = np.maximum.accumulate(np.where(is_first | np.append(True, ended), places, 0))
    from_before = is_first[start] & (messages.truncations == 0) & had_row[messages.key]
    lacking = np.zeros(count, np.bool_)
    for lacks in messages.lacks.values():
        lacking |= lacks
    whole = np.maximum.accumulate(np.where(~lacking & ~messages.deletes, places, -1))
    has_row = ~messages.deletes & (from_before | (whole >= start))
    malformed = np.flatnonzero(~messages.deletes & ~has_row)
    ends = np.flatnonzero(np.append(is_first[1:], True))
    last = ends[has_row[ends] & (messages.truncations[ends] == truncations)]
    sources = {}
    for column, lacks in messages.lacks.items():
        having = np.maximum.accumulate(np.where(~lacks & ~messages.deletes, places, -1))[last]
        sources[column] = np.where(having >= start[last], having, FROM_BEFORE)
    return Outcome(last, sources, malformed)


def truncations_before(partition: Int64s, offset: Int64s, truncates: Bools) -> Int64s:
    """For each message, the number of truncations before it in the order (partition, offset)."""
    order = np.lexsort((offset, partition))
    before = np.zeros(len(order), np.int64)
    before[order] = np.cumsum(truncates[order]) - truncates[order]
    return before
