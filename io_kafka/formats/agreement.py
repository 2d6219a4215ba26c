"""Decides whether a message's key and its value name one timestamp, in texts of different precision.

By default a timestamp has milliseconds in a value of JSON or CSV, as `to_json` and `to_csv` have it. In a key it has microseconds, because two
rows of one key would be one row of a compacted topic. A pattern may leave out more. So the two contradict each other only if the key's
timestamp, written as the value's was, has another text.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, fill
from base.text.pattern_columns import kind_of, pattern_of, pattern_texts
from base.text.patterns import BadPattern, Patterns, writer
from io_kafka.formats.render import fragment

MILLISECOND_US = 1000


def written_texts(column: pa.Array, pattern: str) -> pa.Array:
    """Returns the dates or timestamps as a value has them; as they are if the pattern can only be read."""
    kind = kind_of(column.type)
    assert kind is not None, f"{column.type} has no pattern"
    try:
        writer(pattern, kind)
    except BadPattern:
        return column
    return pattern_texts(column, pattern)


def same_as_written(of_key: pa.Array, of_value: pa.Array, patterns: Patterns) -> Bools:
    """Returns the rows in which the value's timestamp is what a text in a value has of the key's. False where one is null."""
    nowhere = np.zeros(len(of_key), np.bool_)
    kind = kind_of(of_key.type)
    if kind is None:
        return nowhere
    pattern = pattern_of(of_key.type, patterns)
    if pattern is not None:
        same = pc.equal(*(written_texts(column, pattern) for column in (of_key, of_value)))
        return np.asarray(fill(same, False).to_numpy(zero_copy_only=False), np.bool_)
    if kind == "date":
        return nowhere
    key, value = (fill(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False) for column in (of_key, of_value))
    both = np.asarray(pc.and_(of_key.is_valid(), of_value.is_valid()).to_numpy(zero_copy_only=False), np.bool_)
    both &= (value % MILLISECOND_US == 0) & (key // MILLISECOND_US == value // MILLISECOND_US)
    return both


def are_different(one: pa.Array, other: pa.Array) -> Bools:
    """Where both are there and are not the same; NaN is the same as NaN."""
    differ = pc.not_equal(one, other)
    if pa.types.is_floating(one.type):
        differ = pc.and_(differ, pc.invert(pc.and_(pc.is_nan(one), pc.is_nan(other))))
    return np.array(fill(differ, False).to_numpy(zero_copy_only=False), dtype=np.bool_)


def shown_cell(column: pa.Array, row: int) -> str:
    """A value as a reason shows it. Python has no dates and times outside of the years 1 to 9999: those are shown as JSON has them."""
    try:
        return str(column[row])
    except (ValueError, OverflowError):
        return str(fragment(column.slice(row, 1), micros=True)[0]).strip('"')
