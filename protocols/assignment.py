"""Which instance owns a key, and the change from one assignment to the next.

An **instance** is one of the parallel copies of a chain of operators. It is named by the address of its first operator.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import assert_never

from protocols.keys import HASH_END, Explicit, Interval, Keys


@dataclass(frozen=True)
class Assignment:
    """The owner of each hash: `owners[i]` has those from `starts[i]` up to the next start. Neighbours may have the same owner.

    Raises ValueError if the starts do not ascend from 0 or do not fit the owners.
    """

    starts: tuple[int, ...]
    owners: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.starts[:1] != (0,) or len(self.starts) != len(self.owners):
            raise ValueError(
                f"{len(self.starts)} starts {self.starts[:1]} for {len(self.owners)} owners; the first start must be 0"
            )
        if self.starts[-1] >= HASH_END or any(low >= high for low, high in pairwise(self.starts)):
            raise ValueError("the starts of an assignment must be ascending hashes")

    def owner(self, key: int) -> str:
        return self.owners[bisect_right(self.starts, key) - 1]

    def hashes_of(self, owner: str) -> Interval:
        """All hashes of one owner."""
        ends = (*self.starts[1:], HASH_END)
        ranges = zip(self.starts, ends, self.owners, strict=True)
        return Interval.of((low, high) for low, high, each in ranges if each == owner)


class Naming(Enum):
    """How an old owner names the keys that it gives away. `EXPLICIT`: it lists those that have state. `INTERVAL`: it names ranges of hashes, so
    that a key which is made during the change has a place in them, and nobody has to wait until the list is complete."""

    EXPLICIT = "explicit"
    INTERVAL = "interval"


@dataclass(frozen=True)
class Reassignment:
    """The way from one assignment to the next. Changes of one group of instances are numbered from 1, and one begins when the former has ended
    at all distributors. `keys_per_batch`: how many keys move in one round, at least 1. More keys make fewer rounds, and longer waits."""

    number: int
    old: Assignment
    new: Assignment
    naming: Naming
    keys_per_batch: int

    def __post_init__(self) -> None:
        if self.number < 1 or self.keys_per_batch < 1:
            raise ValueError(
                f"change {self.number} with {self.keys_per_batch} keys in a batch: both must be at least 1"
            )

    def moves_from(self, owner: str, key: int) -> bool:
        """Whether `owner` has to give this key away."""
        return self.old.owner(key) == owner != self.new.owner(key)

    def hashes_given_by(self, owner: str) -> Interval:
        """All hashes that `owner` gives away."""
        return self.old.hashes_of(owner).minus(self.new.hashes_of(owner))

    def givers(self) -> tuple[str, ...]:
        """The owners that give something away, in the order of their names."""
        return tuple(owner for owner in sorted(set(self.old.owners)) if not self.hashes_given_by(owner).is_empty())

    def by_target(self, keys: Keys) -> dict[str, Keys]:
        """The keys that each new owner gets; owners that get none are left out."""
        parts = {owner: keys.intersection(self.new.hashes_of(owner)) for owner in sorted(set(self.new.owners))}
        return {owner: part for owner, part in parts.items() if not part.is_empty()}

    def batches(self, owner: str, named: Explicit) -> tuple[Keys, ...]:
        """The rounds in which `owner` gives away what it has to, in ascending order of hashes. `named`: the keys that have state now. The
        last range of `INTERVAL` is cut at no key, so the rounds cover all that moves."""
        listed = sorted(named.keys)
        match self.naming:
            case Naming.EXPLICIT:
                size = self.keys_per_batch
                return tuple(Explicit(frozenset(listed[at : at + size])) for at in range(0, len(listed), size))
            case Naming.INTERVAL:
                cuts = (0, *listed[self.keys_per_batch :: self.keys_per_batch], HASH_END)
                moved = self.hashes_given_by(owner)
                parts = (moved.intersection(Interval.of([between])) for between in pairwise(cuts))
                return tuple(part for part in parts if not part.is_empty())
            case _:
                assert_never(self.naming)
