"""The cut of ranges by bytes: it is a function of the sizes, fair, and never empty."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from io_kafka.step_log.byte_bound import Amount, kept_messages, level_of, undecided_ranges

SIZES = st.lists(st.lists(st.integers(0, 40), max_size=6), min_size=1, max_size=5)


def cut(ranges: list[list[int]], bytes_max: int) -> list[list[int]]:
    level = level_of([Amount(sum(sizes), True) for sizes in ranges], bytes_max)
    if level is None:
        return ranges
    return [sizes[: kept_messages(np.array(sizes, np.int64), level)] for sizes in ranges]


@pytest.mark.parametrize(
    ("ranges", "bytes_max", "kept"),
    [
        ([[5, 5], [5]], 15, [[5, 5], [5]]),
        ([[5, 5], [5]], 14, [[5], [5]]),
        ([[1, 1], [9, 9, 9]], 20, [[1, 1], [9, 9]]),  # the rest of a small range's share goes to the large one
        ([[100], [1]], 10, [[100], [1]]),  # a single message larger than the bound
        ([[100, 1], [1]], 10, [[100], [1]]),
        ([[], [3, 3]], 3, [[], [3]]),
        ([[0, 0, 0], [2]], 1, [[0, 0, 0], [2]]),  # tombstones without a key have no bytes
    ],
)
def test_examples(ranges: list[list[int]], bytes_max: int, kept: list[list[int]]) -> None:
    assert cut(ranges, bytes_max) == kept


@given(SIZES, st.integers(1, 120))
def test_cut_ranges_fit_except_for_first_messages(ranges: list[list[int]], bytes_max: int) -> None:
    kept = cut(ranges, bytes_max)
    assert all(
        part == sizes[: len(part)] and bool(part) == bool(sizes) for part, sizes in zip(kept, ranges, strict=True)
    )
    level = level_of([Amount(sum(sizes), True) for sizes in ranges], bytes_max)
    if level is None:
        assert kept == ranges and sum(map(sum, ranges)) <= bytes_max
        return
    assert sum(map(sum, ranges)) > bytes_max
    assert sum(min(sum(part), level) for part in kept) <= bytes_max
    for part, sizes in zip(kept, ranges, strict=True):
        assert len(part) <= 1 or sum(part) <= level
        assert part == sizes or sum(sizes[: len(part) + 1]) > level, "it could have kept one more"


@given(SIZES, st.integers(1, 120))
def test_a_cut_range_is_not_cut_again(ranges: list[list[int]], bytes_max: int) -> None:
    """A run that is killed between the cut and the step's output meets the ranges that were cut, and must leave them alone."""
    once = cut(ranges, bytes_max)
    assert cut(once, bytes_max) == once


@given(SIZES, st.integers(1, 120), st.randoms(use_true_random=False))
def test_the_cut_does_not_depend_on_the_order_in_which_messages_come(
    ranges: list[list[int]], bytes_max: int, rng
) -> None:  # type: ignore[no-untyped-def]
    """Messages come one by one, of any range; reading ends as soon as no range is unsettled."""
    read = [0] * len(ranges)
    while True:
        amounts = [Amount(sum(s[:n]), n == len(s)) for s, n in zip(ranges, read, strict=True)]
        level = level_of(amounts, bytes_max)
        waiting = [] if level is None else undecided_ranges(amounts, level)
        if not waiting:
            break
        read[rng.choice(waiting)] += 1
    if level is None:
        assert cut(ranges, bytes_max) == ranges
    else:
        early = [s[:n][: kept_messages(np.array(s[:n], np.int64), level)] for s, n in zip(ranges, read, strict=True)]
        assert early == cut(ranges, bytes_max)
