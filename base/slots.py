"""Slots: the units in which state is owned. A slot is one of 65,536 equal ranges of the routing hash, which are its top 16 bits.

Guarantee: a `SlotSet` has one form for one set, so sets are equal exactly where their bytes are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

SLOT_BITS = 16
SLOTS = 1 << SLOT_BITS

Range = tuple[int, int]
"""(first slot, the slot after the last one)."""

_RANGE = struct.Struct(">II")


@dataclass(frozen=True)
class SlotSet:
    """Ranges that ascend and do not touch each other."""

    ranges: tuple[Range, ...]

    def __post_init__(self) -> None:
        after = -1
        for first, end in self.ranges:
            if not after < first < end <= SLOTS:
                raise ValueError(f"not ranges of slots that ascend with gaps between them: {self.ranges}")
            after = end

    @staticmethod
    def of(ranges: Iterable[Range]) -> SlotSet:
        """The union of ranges in any order, which may overlap or be empty."""
        merged: list[Range] = []
        for first, end in sorted(span for span in ranges if span[0] < span[1]):
            if merged and first <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((first, end))
        return SlotSet(tuple(merged))

    def __len__(self) -> int:
        return sum(end - first for first, end in self.ranges)

    def __contains__(self, slot: int) -> bool:
        return any(first <= slot < end for first, end in self.ranges)

    def __str__(self) -> str:
        if not self.ranges:
            return "no slots"
        return "slots " + ", ".join(str(a) if b == a + 1 else f"{a}-{b - 1}" for a, b in self.ranges)

    def union(self, other: SlotSet) -> SlotSet:
        return SlotSet.of((*self.ranges, *other.ranges))

    def minus(self, other: SlotSet) -> SlotSet:
        return self.intersection(SlotSet(tuple(other._gaps())))

    def intersection(self, other: SlotSet) -> SlotSet:
        return SlotSet.of(
            (max(mine[0], theirs[0]), min(mine[1], theirs[1])) for mine in self.ranges for theirs in other.ranges
        )

    def is_within(self, other: SlotSet) -> bool:
        return self.minus(other) == NO_SLOTS

    def _gaps(self) -> Iterator[Range]:
        """The ranges between those of the set, from the first slot to the last."""
        at = 0
        for first, end in self.ranges:
            if at < first:
                yield at, first
            at = end
        if at < SLOTS:
            yield at, SLOTS

    def to_bytes(self) -> bytes:
        return b"".join(_RANGE.pack(*span) for span in self.ranges)

    @staticmethod
    def from_bytes(data: bytes | memoryview) -> SlotSet:
        """The reverse of `to_bytes`. Raises ValueError."""
        if len(data) % _RANGE.size:
            raise ValueError(f"{len(data)} bytes are no ranges of slots")
        return SlotSet(tuple((first, end) for first, end in _RANGE.iter_unpack(data)))


NO_SLOTS = SlotSet(())
ALL_SLOTS = SlotSet(((0, SLOTS),))
