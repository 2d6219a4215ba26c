"""Pins: while slots are copied to another worker, the runs that were there when the copy began stay as they are.

A run that a merge took in would have been copied for nothing. So what is new lies in runs of its own meanwhile. A pin is about some slots,
because slots are copied portion by portion, and all others are merged as ever. Pins are kept in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from base.ranges import Range
from base.slots import SlotSet


@dataclass(frozen=True)
class Pin:
    """A mark that keeps the runs of some slots as they are while they are copied. `below`: by table, the number below which all runs were
    when the copy of these slots began."""

    slots: SlotSet
    below: Mapping[int, int]

    def reaches_into(self, span: Range) -> bool:
        return any(first < span[1] and span[0] < end for first, end in self.slots.ranges)


def pinned_below(pins: Sequence[Pin], table: int, span: Range | None = None) -> int:
    """Returns the number below which runs are pinned in the buckets of a table that reach into a range of slots. Without a range, all buckets
    count."""
    return max((pin.below.get(table, 0) for pin in pins if span is None or pin.reaches_into(span)), default=0)
