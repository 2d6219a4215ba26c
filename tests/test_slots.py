"""Sets of slots, compared with Python's sets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.slots import ALL_SLOTS, NO_SLOTS, SLOTS, SlotSet

ends = st.one_of(st.integers(0, 40), st.integers(SLOTS - 5, SLOTS))
sets = st.lists(st.tuples(ends, ends), max_size=5).map(SlotSet.of)


def plain(slots: SlotSet) -> set[int]:
    return {slot for first, end in slots.ranges for slot in range(first, end)}


@given(sets, sets)
def test_the_operations_are_those_of_sets(a: SlotSet, b: SlotSet) -> None:
    assert plain(a.union(b)) == plain(a) | plain(b)
    assert plain(a.minus(b)) == plain(a) - plain(b)
    assert plain(a.intersection(b)) == plain(a) & plain(b)
    assert a.is_within(b) == (plain(a) <= plain(b))
    assert len(a) == len(plain(a))
    assert all((slot in a) == (slot in plain(a)) for slot in (0, 1, 17, 40, SLOTS - 1))


@given(sets, sets)
def test_equal_sets_have_equal_bytes(a: SlotSet, b: SlotSet) -> None:
    assert (plain(a) == plain(b)) == (a.to_bytes() == b.to_bytes()) == (a == b)
    assert SlotSet.from_bytes(a.to_bytes()) == a


@pytest.mark.parametrize(
    "ranges", [((1, 1),), ((2, 1),), ((0, 2), (2, 3)), ((5, 6), (1, 2)), ((-1, 2),), ((0, SLOTS + 1),)]
)
def test_ranges_that_are_not_in_their_one_form_are_refused(ranges: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(ValueError, match="slots"):
        SlotSet(ranges)


def test_the_text_names_the_slots() -> None:
    assert str(SlotSet.of([(0, 3), (7, 8)])) == "slots 0-2, 7"
    assert str(NO_SLOTS) == "no slots"
    assert len(ALL_SLOTS) == SLOTS


def test_bytes_that_are_no_set_are_refused() -> None:
    with pytest.raises(ValueError, match="no ranges"):
        SlotSet.from_bytes(b"123")
