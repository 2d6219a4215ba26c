"""Sets of keys. A key is the 64-bit hash by which its records are routed.

`Explicit` lists its keys. `Interval` has all keys of some ranges of the hash space, also those that no record has had yet. Both are values, and
any two sets can be combined: what contains a range stays or becomes an `Interval`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import assert_never

from base import ranges as numbers
from base.ranges import Range, Ranges

HASH_END = 1 << 64
"""The end of the hash space, which is no hash itself."""


@dataclass(frozen=True)
class Explicit:
    """The keys that are listed."""

    keys: frozenset[int] = frozenset()

    def contains(self, key: int) -> bool:
        return key in self.keys

    def union(self, other: Keys) -> Keys:
        match other:
            case Explicit():
                return Explicit(self.keys | other.keys)
            case Interval():
                return _singles(self).union(other)
            case _:
                assert_never(other)

    def minus(self, other: Keys) -> Explicit:
        return Explicit(frozenset(key for key in self.keys if not other.contains(key)))

    def intersection(self, other: Keys) -> Explicit:
        return Explicit(frozenset(key for key in self.keys if other.contains(key)))

    def is_empty(self) -> bool:
        return not self.keys


@dataclass(frozen=True)
class Interval:
    """All hashes in `ranges`, which ascend and neither overlap nor touch: equal sets are equal values. `Interval.of` takes any ranges.

    Raises ValueError for ranges that are not in this form, or that leave the hash space.
    """

    ranges: Ranges = ()

    def __post_init__(self) -> None:
        for low, high in self.ranges:
            if not 0 <= low < high <= HASH_END:
                raise ValueError(f"[{low}, {high}) is no range of hashes")
        for (_, end), (start, _) in pairwise(self.ranges):
            if start <= end:
                raise ValueError(f"the range from {start} does not lie behind the one up to {end}")

    @staticmethod
    def of(ranges: Iterable[Range]) -> Interval:
        """The union of ranges in any order. They may overlap, and empty ones count for nothing."""
        return Interval(numbers.union(ranges))

    def contains(self, key: int) -> bool:
        at = bisect_right(self.ranges, (key, HASH_END)) - 1
        return at >= 0 and key < self.ranges[at][1]

    def union(self, other: Keys) -> Interval:
        return Interval.of((*self.ranges, *_ranges(other)))

    def minus(self, other: Keys) -> Interval:
        return Interval(numbers.intersection(self.ranges, numbers.complement(_ranges(other), HASH_END)))

    def intersection(self, other: Keys) -> Interval:
        return Interval(numbers.intersection(self.ranges, _ranges(other)))

    def is_empty(self) -> bool:
        return not self.ranges


Keys = Explicit | Interval

NO_KEYS = Explicit()


def is_within(part: Keys, whole: Keys) -> bool:
    """Whether `whole` contains every key of `part`."""
    return part.minus(whole).is_empty()


def _singles(listed: Explicit) -> Interval:
    return Interval.of((key, key + 1) for key in listed.keys)


def _ranges(keys: Keys) -> Ranges:
    match keys:
        case Explicit():
            return _singles(keys).ranges
        case Interval():
            return keys.ranges
        case _:
            assert_never(keys)
