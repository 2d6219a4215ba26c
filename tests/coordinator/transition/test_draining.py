"""How far each step of a drain goes."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from base.limits import DRAIN_ROWS_MAX
from base.slots import SLOTS
from coordinator.transition.draining import GROWTH_MAX, DrainPortions, outputs_with_content
from engine.model.circuit import Circuit, Output, View
from engine.model.filling import HASHES, ContentFeed
from engine.model.rows import Distinct, Source
from io_kafka.step_log.revision_records import Drain
from tests.engine.zsets import TYPES
from tests.examples import examples


def positions(portions: DrainPortions, drain: Drain, contents: int = 0) -> list[int]:
    """After each step. `contents`: the rows that new topics get in all."""
    found = [0]
    while found[-1] < drain.whole:
        found.append(portions.next(found[-1], drain, gives_contents=contents > 0))
        part = (found[-1] - found[-2]) / drain.whole
        portions.note(found[-2], found[-1], drain, int(contents * part))
    return found


def test_few_rows_leave_in_one_step() -> None:
    for rows in (0, 1, DRAIN_ROWS_MAX):
        assert positions(DrainPortions(), Drain(whole=HASHES, rows=rows)) == [0, HASHES]


def test_a_step_has_its_share_of_many_rows() -> None:
    found = positions(DrainPortions(), Drain(whole=HASHES, rows=1_000_000))
    assert len(found) == 22 and set(map(int.__sub__, found[1:-1], found[:-2])) == {HASHES // SLOTS * (SLOTS // 20)}
    assert len(positions(DrainPortions(10), Drain(whole=HASHES, rows=1000))) - 1 in (100, 101)


def test_the_rows_of_a_new_topic_are_seen_as_they_leave() -> None:
    """The first range is small, and none is much larger than the one before it."""
    found = positions(DrainPortions(), Drain(whole=HASHES, rows=0), contents=10_000_000)
    widths = [after - before for before, after in pairwise(found)]
    assert widths[0] == HASHES // 256 and max(widths) <= HASHES * DRAIN_ROWS_MAX / 9_900_000
    few = positions(DrainPortions(), Drain(whole=HASHES, rows=0), contents=10)
    assert len(few) - 1 == 5, "each range is four times the one before it"


@settings(deadline=None, max_examples=examples(200))
@given(
    rows_max=st.integers(1, 10**6),
    rows=st.integers(0, 10**12),
    position=st.integers(0, SLOTS - 1),
    last=st.integers(0, SLOTS),
    per_slot=st.floats(0, 1e9),
    gives_contents=st.booleans(),
)
def test_a_step_moves_by_whole_slots_and_not_too_far(
    *, rows_max: int, rows: int, position: int, last: int, per_slot: float, gives_contents: bool
) -> None:
    drain = Drain(whole=HASHES, rows=rows)
    portions = DrainPortions(rows_max, last, per_slot)
    slot = HASHES // SLOTS
    after = portions.next(position * slot, drain, gives_contents=gives_contents)
    slots, left = divmod(after - position * slot, slot)
    assert left == 0 and 1 <= slots <= SLOTS - position
    assert slots == 1 or slots * rows / SLOTS <= rows_max
    if gives_contents:
        assert slots == 1 or slots * per_slot <= rows_max
        assert slots <= max(1, GROWTH_MAX * last if last else SLOTS // 256)


def test_a_new_topic_is_behind_a_feed() -> None:
    """In the steps of a switch nothing else is."""
    distinct = Distinct((0,), TYPES)
    circuit = Circuit(
        (
            Source((), TYPES, "in"),
            distinct,
            View((1,), TYPES, "v", ("id", "word"), False),
            Output((2,), (), "old", "changelog", ("id", "word")),
            ContentFeed((1,), TYPES, holder=Distinct((), TYPES), read=(TYPES,), colocation=(0, 1), level=0),
            Output((4,), (), "new", "changelog", ("id", "word")),
        )
    )
    circuit.check()
    assert outputs_with_content(circuit) == {"new"}
