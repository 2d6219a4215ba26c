"""The timestamps of what a reader hands out: never too young, and told once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from io_kafka.clients.timestamps import Times, Timestamps
from tests.examples import examples


def test_the_times_of_whole_deliveries_are_exact() -> None:
    found = Timestamps()
    found.note(0, 100, 9, 190)
    found.note(10, 200, 19, 290)
    assert found.take(20) == Times(100, 290)
    assert found.take(20) is None, "they were told"


def test_a_message_without_a_timestamp_tells_nothing() -> None:
    found = Timestamps()
    found.note(0, -1, 4, -1)
    assert found.take(5) is None
    found.note(5, -1, 9, 70)
    assert found.take(10) == Times(70, 70)


def test_of_a_delivery_that_is_handed_out_in_parts_the_oldest_is_never_too_young() -> None:
    found = Timestamps()
    found.note(0, 100, 9, 190)
    assert found.take(0) is None
    assert found.take(5) == Times(100, 100)
    assert found.take(10) == Times(100, 190)


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.lists(st.integers(0, 30), max_size=8))
def test_every_hand_out_has_an_oldest_time_that_is_not_too_young(sizes: list[int], ends: list[int]) -> None:
    """The message with offset n has the timestamp 10 n."""
    found, at = Timestamps(), 0
    for size in sizes:
        found.note(at, 10 * at, at + size - 1, 10 * (at + size - 1))
        at += size
    taken = 0
    for end in sorted({min(end, at) for end in ends} | {at}):
        times = found.take(end)
        assert (times is None) == (end == taken)
        if times is not None:
            assert times.oldest_ms <= 10 * taken and times.newest_ms <= 10 * (end - 1)
        taken = end
