"""How ranges of messages are cut so that the messages of all ranges fit into a number of bytes.

Guarantees: the cut is a function of the sizes of the messages and of the bound alone. So two runs over the same topics make the same cut,
whoever reads the ranges and in whatever order messages arrive. Each range that has messages keeps at least its first one, so that a message
larger than the bound can be processed. Ranges that were cut stay the same if they are cut again.

Source: max-min fairness ("water filling"), as in io_kafka/step_log/division.py, with bytes in place of rows. Every range keeps the longest
prefix of at most `level` bytes, where `level` is the highest for which all prefixes fit together. The level can be found before everything
is read. A range that was not read to its end counts as infinite, so the level can only rise while more is read. Once every unfinished range
holds more than the level, the rest of its messages cannot change the level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Amount(NamedTuple):
    """What is known of one range: the bytes of the messages that were read, and whether the range was read to its end."""

    read_bytes: int
    is_whole: bool


def level_of(amounts: Sequence[Amount], bytes_max: int) -> int | None:
    """The number of bytes that a range may keep at most; None if all ranges are whole and fit."""
    left, waiting = bytes_max, len(amounts)
    for size in sorted(amount.read_bytes for amount in amounts if amount.is_whole):
        if size > left // waiting:
            break
        left -= size
        waiting -= 1
    return left // waiting if waiting else None


def undecided_ranges(amounts: Sequence[Amount], level: int) -> list[int]:
    """The indices of the ranges of which more must be read before their cut is known."""
    return [i for i, amount in enumerate(amounts) if not amount.is_whole and amount.read_bytes <= level]


def kept_messages(sizes: npt.NDArray[np.int64], level: int) -> int:
    """How many messages a range keeps: the longest prefix within the level, but at least one. `sizes` are their bytes, in order."""
    fitting = int(np.searchsorted(np.cumsum(sizes), level, side="right"))
    return min(len(sizes), max(1, fitting))
