"""Layouts: what moves is the minimum, shares are equal within one, and every slot has one owner, whatever changes came before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.slots import ALL_SLOTS, NO_SLOTS, SLOTS, SlotSet
from engine.model.layout import DynamicShards, FixedShards, Layout, Policy, halve, moves, quota, stretch
from engine.model.placement import Placement
from engine.rows.hashing import slot_of
from tests.examples import examples

POLICIES: tuple[Policy, ...] = (FixedShards(), FixedShards(64), DynamicShards(), DynamicShards(0.5))
WORKERS_MAX = 64


def shares(layout: Layout) -> list[int]:
    """The number of shards of each member."""
    owned = Counter(layout.owners)
    return [owned[member] for member in layout.members]


def moved_slots(origin: Layout, target: Layout) -> SlotSet:
    """All slots that change their owner."""
    return SlotSet.of(span for slots in moves(origin, target).values() for span in slots.ranges)


def least_to_move(before: Layout, members: Sequence[int], shards: int) -> int:
    """The fewest of so many shards that any rule moves to make the shares of these members equal within one."""
    owned = Counter({member: count * shards // before.shards for member, count in Counter(before.owners).items()})
    share, left = divmod(shards, len(members))
    ranked = sorted(members, key=lambda member: -owned[member])
    return shards - sum(min(owned[member], share + (rank < left)) for rank, member in enumerate(ranked))


@pytest.mark.parametrize("policy", POLICIES)
def test_from_any_number_of_workers_to_the_next_and_back_the_minimum_moves(policy: Policy) -> None:
    layout = Layout.initial(policy, 1)
    for workers in [*range(2, WORKERS_MAX + 1), *range(WORKERS_MAX - 1, 0, -1)]:
        after = layout.with_workers(workers)
        after.check()
        assert max(shares(after)) - min(shares(after)) <= 1
        shards = max(layout.shards, policy.shards_needed(workers))
        assert len(moved_slots(layout, after)) * shards == least_to_move(layout, after.members, shards) * SLOTS
        if isinstance(policy, DynamicShards):
            assert max(shares(after)) <= (1 + policy.inaccuracy) * after.shards / workers
        layout = after


@settings(max_examples=examples(200))
@given(st.sampled_from(POLICIES), st.lists(st.sets(st.integers(0, 12), min_size=1), max_size=8), st.integers(1, 6))
def test_any_sequence_of_members_leaves_one_owner_for_every_slot(
    policy: Policy, changes: list[set[int]], workers: int
) -> None:
    layout = Layout.initial(policy, workers)
    for members in changes:
        after = layout.with_members(sorted(members))
        after.check()
        assert max(shares(after)) - min(shares(after)) <= 1
        owned = [after.slots_of(member) for member in after.members]
        assert sum(map(len, owned)) == SLOTS
        assert not any(a.intersection(b) for i, a in enumerate(owned) for b in owned[:i])
        check_moves(layout, after)
        layout = after


def check_moves(before: Layout, after: Layout) -> None:
    """They lead from the one to the other, and nothing that stays is among them."""
    held = {member: before.slots_of(member) for member in {*before.members, *after.members}}
    for (source, target), slots in moves(before, after).items():
        assert slots.is_within(held[source]) and source != target
        held[source], held[target] = held[source].minus(slots), held[target].union(slots)
    assert held == {member: after.slots_of(member) for member in held}


def test_two_to_three_workers_move_a_third() -> None:
    """An even division into ranges would move half."""
    before = Layout.initial(FixedShards(), 2)
    assert len(moved_slots(before, before.with_workers(3))) == pytest.approx(SLOTS / 3, rel=0.001)


def test_new_members_get_the_lowest_free_numbers_and_the_highest_leave() -> None:
    gaps = Layout.initial(FixedShards(), 2).with_members([0, 2, 5])
    assert gaps.with_workers(5).members == (0, 1, 2, 3, 5)
    assert gaps.with_workers(1).members == (0,)
    assert gaps.number == 1


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4))
def test_twice_and_half_as_many_shards_move_nothing(pattern: list[int]) -> None:
    owners = tuple(pattern[: 1 << (len(pattern).bit_length() - 1)])
    twice = stretch(owners, 2 * len(owners))
    assert halve(twice) == owners
    one, two = (Layout(0, FixedShards(), (0, 1, 2, 3), some) for some in (owners, twice))
    assert moved_slots(one, two) == NO_SLOTS
    assert {m: one.slots_of(m) for m in range(4)} == {m: two.slots_of(m) for m in range(4)}


def test_shards_with_different_owners_are_not_joined() -> None:
    assert halve((0, 0, 1, 0)) is None
    assert halve((1,)) is None


def test_with_more_workers_than_shards_nobody_has_more_than_one() -> None:
    assert Counter(Counter(quota((0, 0), range(5))).values()) == {1: 2}


@pytest.mark.parametrize("policy", POLICIES)
def test_one_worker_owns_everything(policy: Policy) -> None:
    assert Layout.initial(policy, 1).slots_of(0) == ALL_SLOTS


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 64])
def test_a_placement_gives_every_hash_to_the_owner_of_its_slot(workers: int) -> None:
    layout = Layout.initial(FixedShards(), workers).with_members([*range(workers - 1), workers + 3])
    placement = Placement.of(layout, {})
    placement.check()
    assert placement.workers == layout.members and placement.keyless_worker == layout.owners[0]
    hashes = np.arange(4_000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for worker, found in zip(placement.worker_of(hashes).tolist(), hashes.tolist(), strict=True):
        assert slot_of(found) in placement.owned[worker]


def test_other_members_read_all_partitions_and_own_what_they_owned() -> None:
    """A partition moves only if its reader leaves or has too many, because the worker that reads one reads ahead."""
    before = Placement.initial(Layout.initial(FixedShards(8), 2).owned, {"a": 4, "b": 2})
    assert before.readers == {"a": (0, 1, 0, 1), "b": (0, 1)}
    grown = before.with_members([0, 1, 5])
    grown.check()
    assert grown.number == before.number + 1 and grown.owned == {**before.owned, 5: NO_SLOTS}
    assert grown.readers == {"a": (0, 1, 0, 1), "b": (5, 5)}
    back = grown.with_members([0, 1])
    back.check()
    assert back.readers == before.readers and back.owned == before.owned
    assert [back.reader_of("a", partition) for partition in (3, 4)] == [1, 0]


def test_a_placement_without_an_owner_for_a_slot_is_refused() -> None:
    with pytest.raises(AssertionError, match="no worker owns slots 3"):
        Placement(0, {0: SlotSet.of([(0, 3), (4, SLOTS)])}, {}).check()
    with pytest.raises(AssertionError, match="two workers, one of them worker 4, own slots 4"):
        Placement(0, {0: ALL_SLOTS, 4: SlotSet.of([(4, 5)])}, {}).check()


@pytest.mark.parametrize("policy", [FixedShards(), DynamicShards()])
def test_new_members_take_the_place_of_others(policy: Policy) -> None:
    """Also in a layout that is uneven, as an abort may leave it."""
    even = Layout.initial(policy, 5).with_members([0, 1, 3, 4])
    owners = (even.owners[0], even.owners[0], *(3 for _ in even.owners[2:6]), *even.owners[6:])
    before = Layout(even.number, policy, even.members, owners)
    after = before.with_replaced([4, 1])
    after.check()
    assert (after.members, after.number, after.policy) == ((0, 2, 3, 5), before.number + 1, policy)
    assert after.owned == {0: before.owned[0], 2: before.owned[1], 3: before.owned[3], 5: before.owned[4]}
    assert set(moves(before, after)) == {(1, 2), (4, 5)}
