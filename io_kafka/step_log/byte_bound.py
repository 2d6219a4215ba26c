"""Where ranges of messages are cut so that what is left of them fits into a number of bytes.

Guarantees: the cut is a function of the messages' sizes and of the bound, and of nothing else; so two runs over the same topics cut
alike, whoever reads the ranges and in whatever order they come. Each range that has messages keeps at least its first one, so that a
message larger than the bound gets through. What is cut stays as it is when it is cut again.

Source: max-min fairness ("water filling"), as in io_kafka/step_log/division.py, over bytes in place of rows: every range keeps the longest
prefix of at most `level` bytes, where `level` is the highest for which all prefixes fit together. It can be found before all is read:
a range that is not read to its end counts as endless. Then the level only rises while ranges come to their ends, and once every
unfinished range holds more than the level, what it lacks cannot change it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Amount(NamedTuple):
    """What is known of one range: the bytes of its messages that were read, and whether these are all of them."""

    read_bytes: int
    is_whole: bool


def level_of(amounts: Sequence[Amount], bytes_max: int) -> int | None:
    """The most bytes that a range may keep; None where all ranges are whole and fit."""
    left, waiting = bytes_max, len(amounts)
    for size in sorted(amount.read_bytes for amount in amounts if amount.is_whole):
        if size > left // waiting:
            break
        left -= size
        waiting -= 1
    return left // waiting if waiting else None


def unsettled(amounts: Sequence[Amount], level: int) -> list[int]:
    """The ranges, by index, of which more must be read before it is known where they are cut."""
    return [i for i, amount in enumerate(amounts) if not amount.is_whole and amount.read_bytes <= level]


def kept_messages(sizes: npt.NDArray[np.int64], level: int) -> int:
    """How many messages, of these sizes in bytes, a range keeps: the longest prefix within the level, but at least one."""
    fitting = int(np.searchsorted(np.cumsum(sizes), level, side="right"))
    return min(len(sizes), max(1, fitting))
