"""Layouts: which worker owns which slots, and which slots move if the set of workers changes.

A layout divides the slots into S shards of equal size, where S is a power of two, and gives each shard an owner. Its *members* are the numbers
of the workers; they may have gaps, because a worker that leaves takes its number with it.

Two policies decide S, and one rule (`quota`) gives out the shards under both:

    FixedShards      S is a setting, and large: 4096 shards are even enough for some hundred workers.
    DynamicShards    S follows the number of workers, so that the largest share exceeds the mean by a given part at most. S doubles by repeating
                     every owner, and halves where two neighbours have the same owner everywhere, so neither moves anything.

`quota` moves as few shards as any rule can that leaves all shares equal within one. It is the rebalancing of a consistent assignment by quotas;
an assignment by ranges (`shard * workers // S`) would move half of the state from two to three workers, where a third is enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from base.slots import SLOTS, SlotSet

SHARDS_FIXED = 4096
"""Enough to divide the state evenly among some hundred workers: with 100 workers, shares differ by 2.5 %."""

INACCURACY = 0.1
"""By which part the largest share may exceed the mean under the dynamic policy."""


@dataclass(frozen=True)
class FixedShards:
    """The policy that keeps the number of shards, unless there are more workers than shards. `shards`: a power of two."""

    shards: int = SHARDS_FIXED

    def shards_needed(self, workers: int) -> int:
        """The least number of shards for so many workers."""
        return max(self.shards, _power_of_two(workers))


@dataclass(frozen=True)
class DynamicShards:
    inaccuracy: float = INACCURACY

    def shards_needed(self, workers: int) -> int:
        """The least number of shards for so many workers."""
        return min(SLOTS, _power_of_two(workers / self.inaccuracy))


Policy = FixedShards | DynamicShards

PolicyName = Literal["fixed", "dynamic"]


@dataclass(frozen=True)
class Layout:
    """The owner of each shard among the members. `members`: ascending. `owners[shard]`: the member that owns the shard. `number` counts the
    layouts of a state from 0 on."""

    number: int
    policy: Policy
    members: tuple[int, ...]
    owners: tuple[int, ...]

    @staticmethod
    def initial(policy: Policy, workers: int) -> Layout:
        """Returns the layout of a new state: members 0 to `workers` - 1, with neighbouring shards."""
        members = tuple(range(workers))
        shards = policy.shards_needed(workers)
        return Layout(0, policy, members, tuple(shard * workers // shards for shard in range(shards)))

    @property
    def shards(self) -> int:
        return len(self.owners)

    def check(self) -> None:
        assert self.members, "a layout without members"
        assert list(self.members) == sorted(set(self.members)), f"{self.members}: not ascending"
        assert self.members[0] >= 0
        assert self.shards & (self.shards - 1) == 0 and 0 < self.shards <= SLOTS, f"{self.shards} shards"
        assert set(self.owners) <= set(self.members), "a shard is owned by somebody who is no member"

    def slots_of(self, member: int) -> SlotSet:
        each = SLOTS // self.shards
        return SlotSet.of((s * each, (s + 1) * each) for s, owner in enumerate(self.owners) if owner == member)

    @property
    def owned(self) -> dict[int, SlotSet]:
        """The slots of each member."""
        return {member: self.slots_of(member) for member in self.members}

    def with_policy(self, policy: Policy) -> Layout:
        """Returns the same owners under another policy. The next change of the members obeys it."""
        return Layout(self.number, policy, self.members, self.owners)

    def with_members(self, members: Sequence[int]) -> Layout:
        """The next layout, which has these members and moves as little as possible."""
        needed = self.policy.shards_needed(len(members))
        owners = quota(stretch(self.owners, max(needed, self.shards)), members)
        while len(owners) > needed and (half := halve(owners)) is not None:
            owners = half
        return Layout(self.number + 1, self.policy, tuple(sorted(members)), owners)

    def with_workers(self, workers: int) -> Layout:
        """The next layout, with so many members: new ones get the lowest numbers that are free, and those with the highest numbers leave."""
        members = list(self.members[:workers])
        free = (number for number in range(workers + len(members)) if number not in members)
        while len(members) < workers:
            members.append(next(free))
        return self.with_members(sorted(members))

    def with_replaced(self, leaving: Collection[int]) -> Layout:
        """The next layout, in which a new member owns what each of these members has. New ones get the lowest numbers that are free."""
        free = (number for number in range(len(self.members) + len(leaving)) if number not in self.members)
        instead = {member: next(free) for member in sorted(leaving)}
        members = tuple(sorted(instead.get(member, member) for member in self.members))
        return Layout(self.number + 1, self.policy, members, tuple(instead.get(owner, owner) for owner in self.owners))


def quota(owners: Sequence[int], members: Iterable[int]) -> tuple[int, ...]:
    """The owner of each shard after a change of the members. Members that are not among `members` give up all their shards.

    Each member's share is S // n, and those that own most keep one more, as many as there are shards left. A member that owns more than its
    share gives up its last shards; they go to the members that own less, in ascending order of both."""
    everyone = sorted(members)
    owned = Counter(owners)
    share, left = divmod(len(owners), len(everyone))
    largest = sorted(everyone, key=lambda member: (-owned[member], member))[:left]
    shares = {member: share + (member in largest) for member in everyone}
    kept: Counter[int] = Counter()
    after = list(owners)
    given_up = []
    for shard, owner in enumerate(owners):
        if kept[owner] < shares.get(owner, 0):
            kept[owner] += 1
        else:
            given_up.append(shard)
    takers = (member for member in everyone for _ in range(shares[member] - kept[member]))
    for shard, taker in zip(given_up, takers, strict=True):
        after[shard] = taker
    return tuple(after)


def stretch(owners: Sequence[int], shards: int) -> tuple[int, ...]:
    """So many shards, a multiple of those of `owners`, with the same owners of all slots."""
    times = shards // len(owners)
    return tuple(owner for owner in owners for _ in range(times))


def halve(owners: Sequence[int]) -> tuple[int, ...] | None:
    """Half as many shards with the same owners of all slots; None if two shards that would be joined have different owners."""
    if len(owners) < 2 or owners[::2] != owners[1::2]:
        return None
    return tuple(owners[::2])


def moves(origin: Layout, target: Layout) -> Mapping[tuple[int, int], SlotSet]:
    """The slots that go from one member to another, by (source, destination)."""
    shards = max(origin.shards, target.shards)
    each = SLOTS // shards
    before, after = (stretch(layout.owners, shards) for layout in (origin, target))
    ranges: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for shard, way in enumerate(zip(before, after, strict=True)):
        if way[0] != way[1]:
            ranges.setdefault(way, []).append((shard * each, (shard + 1) * each))
    return {way: SlotSet.of(ranges[way]) for way in sorted(ranges)}


def _power_of_two(least: float) -> int:
    """The lowest power of two that is not below `least`."""
    power = 1
    while power < least:
        power *= 2
    return power
