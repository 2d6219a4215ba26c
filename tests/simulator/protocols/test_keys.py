"""Sets of keys beside plain sets, and what a change does with them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.assignment import Assignment, Naming, Reassignment
from protocols.keys import HASH_END, Explicit, Interval, Keys, is_within

SMALL_END = 24
SMALL = range(SMALL_END)

RANGES = st.lists(st.tuples(st.integers(0, SMALL_END), st.integers(0, SMALL_END)), max_size=5)
KEYS: st.SearchStrategy[Keys] = st.one_of(
    st.frozensets(st.integers(0, SMALL_END - 1), max_size=8).map(Explicit), RANGES.map(Interval.of)
)


def plain(keys: Keys) -> set[int]:
    """No strategy makes a key beyond the small ones, but a complement could."""
    assert not any(keys.contains(key) for key in (SMALL_END, SMALL_END + 1, HASH_END - 1))
    return {key for key in SMALL if keys.contains(key)}


@given(KEYS, KEYS)
def test_sets_of_keys_are_sets(one: Keys, two: Keys) -> None:
    assert plain(one.union(two)) == plain(one) | plain(two)
    assert plain(one.minus(two)) == plain(one) - plain(two)
    assert plain(one.intersection(two)) == plain(one) & plain(two)
    assert one.is_empty() == (not plain(one))
    assert is_within(one, two) == (plain(one) <= plain(two))


@given(RANGES)
def test_equal_intervals_are_equal_values(ranges: list[tuple[int, int]]) -> None:
    made = Interval.of(ranges)
    assert Interval.of((key, key + 1) for key in plain(made)) == made


@pytest.mark.parametrize(
    "ranges", [((3, 3),), ((4, 3),), ((-1, 3),), ((0, HASH_END + 1),), ((0, 3), (3, 5)), ((4, 5), (0, 1))]
)
def test_ranges_in_another_form_are_refused(ranges: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(ValueError, match="range"):
        Interval(ranges)


def test_the_last_hash_is_in_the_hash_space() -> None:
    everything = Interval(((0, HASH_END),))
    last = Explicit(frozenset({HASH_END - 1}))
    assert everything.contains(HASH_END - 1) and not everything.contains(HASH_END)
    assert everything.minus(last) == Interval(((0, HASH_END - 1),))
    assert everything.minus(everything).is_empty()


@pytest.mark.parametrize(
    ("starts", "owners"),
    [((), ()), ((1,), ("a",)), ((0, 5, 5), ("a", "b", "c")), ((0, HASH_END), ("a", "b")), ((0, 5), ("a",))],
)
def test_an_assignment_covers_every_hash_once(starts: tuple[int, ...], owners: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="start"):
        Assignment(starts, owners)


OLD = Assignment((0, 10, 20), ("a", "b", "a"))
NEW = Assignment((0, 5, 25), ("a", "c", "b"))


def change(naming: Naming, keys_per_batch: int = 2) -> Reassignment:
    return Reassignment(1, OLD, NEW, naming, keys_per_batch)


def test_what_moves_is_what_has_another_owner() -> None:
    made = change(Naming.EXPLICIT)
    assert made.hashes_given_by("a") == Interval(((5, 10), (20, HASH_END))) and made.hashes_given_by("b") == Interval(
        ((10, 20),)
    )
    assert made.givers() == ("a", "b")
    for owner in "abc":
        for key in range(30):
            assert made.moves_from(owner, key) == made.hashes_given_by(owner).contains(key)
    assert made.by_target(made.hashes_given_by("a")) == {
        "b": Interval(((25, HASH_END),)),
        "c": Interval(((5, 10), (20, 25))),
    }
    assert Reassignment(1, OLD, OLD, Naming.EXPLICIT, 1).givers() == ()


@pytest.mark.parametrize(("number", "size"), [(0, 1), (1, 0)])
def test_a_change_without_number_or_keys_is_refused(number: int, size: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Reassignment(number, OLD, NEW, Naming.EXPLICIT, size)


def test_explicit_batches_list_the_named_keys() -> None:
    named = Explicit(frozenset({30, 6, 21, 9, 8}))
    assert change(Naming.EXPLICIT).batches("a", named) == tuple(
        Explicit(frozenset(each)) for each in ({6, 8}, {9, 21}, {30})
    )
    assert change(Naming.EXPLICIT).batches("a", Explicit()) == ()


@given(st.frozensets(st.one_of(st.integers(5, 9), st.integers(20, 40)), max_size=12), st.integers(1, 4))
def test_batches_of_ranges_cover_all_that_moves_with_so_many_named_keys_in_each(
    named: frozenset[int], size: int
) -> None:
    made = change(Naming.INTERVAL, size)
    batches = made.batches("a", Explicit(named))
    union: Keys = Interval()
    for batch in batches:
        assert batch.intersection(union).is_empty() and sum(batch.contains(key) for key in named) <= size
        union = union.union(batch)
    assert union == made.hashes_given_by("a")
