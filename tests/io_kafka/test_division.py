"""Divisions: fair, bounded, without gap, and a function of (start, end, limits)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from io_kafka.errors import OffsetGone
from io_kafka.offsets import OffsetRange, TopicPartition
from io_kafka.step_log.division import Division, StepLimits, divide

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def lengths(division: Division | None) -> list[int]:
    assert division is not None
    return [r.length for r in division.ranges]


def test_nothing_to_read_is_no_division() -> None:
    assert divide(0, {}, {}, StepLimits()) is None
    assert divide(3, {A0: 7, A1: 0}, {A0: 7, A1: 0}, StepLimits()) is None


def test_what_fits_is_read_whole() -> None:
    assert divide(3, {A0: 5, B0: 0}, {A0: 9, B0: 0}, StepLimits(100)) == Division(
        3, (OffsetRange("a", 0, 5, 9), OffsetRange("b", 0, 0, 0))
    )


@pytest.mark.parametrize(
    ("backlogs", "rows", "expected"),
    [
        ([10, 10, 10], 9, [3, 3, 3]),
        ([1, 10, 10], 9, [1, 4, 4]),
        ([0, 100, 2], 10, [0, 8, 2]),
        ([10, 11, 10], 10, [3, 4, 3]),  # what cannot be shared goes to the longest backlog
        ([10, 10, 10], 2, [1, 1, 0]),
        ([10, 10, 12], 1, [0, 0, 1]),
    ],
)
def test_shares_are_fair(backlogs: list[int], rows: int, expected: list[int]) -> None:
    starts = dict.fromkeys([A0, A1, B0], 50)
    ends = {place: 50 + n for place, n in zip([A0, A1, B0], backlogs, strict=True)}
    assert lengths(divide(0, starts, ends, StepLimits(rows))) == expected


def test_a_bound_in_bytes_is_a_bound_in_messages_and_never_none() -> None:
    assert lengths(divide(0, {A0: 0}, {A0: 100}, StepLimits(50, bytes_max=1000, message_bytes=100))) == [10]
    assert lengths(divide(0, {A0: 0}, {A0: 100}, StepLimits(50, bytes_max=1, message_bytes=100))) == [1]


def test_a_partition_that_ends_before_it_starts_is_named() -> None:
    with pytest.raises(OffsetGone, match="'a' partition 1: offset 8"):
        divide(0, {A0: 0, A1: 8}, {A0: 5, A1: 7}, StepLimits())


def test_a_partition_that_goes_short_is_not_short_for_ever() -> None:
    """One offset a step for three partitions that each receive one a step: all of them advance."""
    starts, ends = dict.fromkeys([A0, A1, B0], 0), dict.fromkeys([A0, A1, B0], 5)
    for step in range(30):
        division = divide(step, starts, ends, StepLimits(1))
        assert division is not None
        starts, ends = division.ends, {place: end + 1 for place, end in ends.items()}
    assert min(starts.values()) >= 9


PLACES = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 3)),
    st.tuples(st.integers(0, 1000), st.integers(0, 60)),
    max_size=8,
)


@settings(deadline=None)
@given(PLACES, st.integers(1, 40), st.permutations(range(8)))
def test_repeated_division_covers_everything_once(
    places: dict[TopicPartition, tuple[int, int]], rows: int, order: list[int]
) -> None:
    starts = {place: start for place, (start, _) in places.items()}
    ends = {place: start + n for place, (start, n) in places.items()}
    shuffled = [list(places)[i] for i in order if i < len(places)]
    at, step, backlog = dict(starts), 0, sum(n for _, n in places.values())
    while (division := divide(step, at, ends, StepLimits(rows))) is not None:
        division.check()
        assert {r.where: r.start for r in division.ranges} == at  # no gap, nothing twice
        assert division.rows == min(rows, backlog)  # never idle, never too much
        assert division == divide(step, {p: at[p] for p in shuffled}, {p: ends[p] for p in shuffled}, StepLimits(rows))
        at, step, backlog = division.ends, step + 1, backlog - division.rows
    assert at == ends
