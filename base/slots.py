"""Slots: the units in which state is owned. A slot is one of 65,536 equal ranges of the routing hash, which are its top 16 bits.

The **routing hash** is the 64-bit hash of the columns by which an exchange sends rows. It is 0 for rows without such columns. The **owned
slots** of a database are those of which it has the state. They are a record of the database, versioned like all others.

Guarantee: a `SlotSet` has one form for one set, so sets are equal exactly where their bytes are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from base import ranges as numbers
from base.ranges import Range, Ranges

SLOT_BITS = 16
SLOTS = 1 << SLOT_BITS

_RANGE = struct.Struct(">II")


@dataclass(frozen=True)
class SlotSet:
    """A set of slots, as ranges that ascend and do not touch each other."""

    ranges: Ranges

    def __post_init__(self) -> None:
        after = -1
        for first, end in self.ranges:
            if not after < first < end <= SLOTS:
                raise ValueError(f"not ranges of slots that ascend with gaps between them: {self.ranges}")
            after = end

    @staticmethod
    def of(ranges: Iterable[Range]) -> SlotSet:
        """The union of ranges in any order, which may overlap or be empty."""
        return SlotSet(numbers.union(ranges))

    def __len__(self) -> int:
        return sum(end - first for first, end in self.ranges)

    def __contains__(self, slot: int) -> bool:
        return any(first <= slot < end for first, end in self.ranges)

    def __iter__(self) -> Iterator[int]:
        return (slot for first, end in self.ranges for slot in range(first, end))

    def first(self, count: int) -> SlotSet:
        """The lowest slots of the set."""
        taken: list[Range] = []
        for first, end in self.ranges:
            if count > 0:
                taken.append((first, min(end, first + count)))
                count -= end - first
        return SlotSet(tuple(taken))

    def __str__(self) -> str:
        if not self.ranges:
            return "no slots"
        return "slots " + ", ".join(str(a) if b == a + 1 else f"{a}-{b - 1}" for a, b in self.ranges)

    def union(self, other: SlotSet) -> SlotSet:
        return SlotSet.of((*self.ranges, *other.ranges))

    def minus(self, other: SlotSet) -> SlotSet:
        return SlotSet(numbers.intersection(self.ranges, numbers.complement(other.ranges, SLOTS)))

    def intersection(self, other: SlotSet) -> SlotSet:
        return SlotSet(numbers.intersection(self.ranges, other.ranges))

    def is_within(self, other: SlotSet) -> bool:
        return self.minus(other) == NO_SLOTS

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


Name = TypeVar("Name", int, str)


def drop_empty(owned: Mapping[Name, SlotSet]) -> dict[Name, SlotSet]:
    """Returns the sets of slots by worker, without those of workers that own nothing."""
    return {worker: slots for worker, slots in owned.items() if slots != NO_SLOTS}


def why_no_partition(owned: Mapping[int, SlotSet]) -> str | None:
    """Why these sets, by worker, do not give each slot exactly one owner; None if they do."""
    union = NO_SLOTS
    for worker, slots in sorted(owned.items()):
        if (both := union.intersection(slots)) != NO_SLOTS:
            return f"two workers, one of them worker {worker}, own {both}"
        union = union.union(slots)
    return None if union == ALL_SLOTS else f"no worker owns {ALL_SLOTS.minus(union)}"
