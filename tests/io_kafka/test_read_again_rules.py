"""What is read again for new nodes, as the step log knows it: without gap, never ahead of the revision in force, level with it at the switch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from io_kafka.offsets import TopicPartition
from io_kafka.step_log.records import DivisionRecord, InputRange, Record
from io_kafka.step_log.revision_records import ReadAgain
from io_kafka.step_log.state import BrokenStepLog, StepLogState
from tests.io_kafka.test_revision_rules import NEW, RUNNING
from tests.io_kafka.test_step_log import claim, folded, step
from tests.io_kafka.transitions import WHOLE, begins, fills, switches, turns

IN, OTHER, FRESH = TopicPartition("in", 0), TopicPartition("in", 1), TopicPartition("new", 0)
LIVE = ReadAgain(topic="in", partition=0, start=2, is_live=True)
ONLY_NEW = ReadAgain(topic="new", partition=0, start=7, is_live=False)


def ranged(where: TopicPartition, start: int, end: int) -> InputRange:
    return InputRange(topic=where.topic, partition=where.partition, start=start, end=end)


def reads(number: int, start: int, end: int, *again: InputRange, filled: int = WHOLE, epoch: int = 0) -> DivisionRecord:
    """A division that reads `in/0` from `start` to `end`, and these ranges again."""
    return fills(number, filled, start=start, end=end, epoch=epoch).model_copy(update={"again": again})


BEGUN: tuple[Record, ...] = (
    *RUNNING,
    DivisionRecord(epoch=0, step=0, ranges=(ranged(IN, 2, 9),)),
    step(0, 1),
    begins(2, 1, LIVE, ONLY_NEW),
)
"""The revision in force has begun with offset 2, and is at 9."""

HALF: tuple[Record, ...] = (*BEGUN, reads(1, 9, 12, ranged(IN, 2, 6), ranged(FRESH, 7, 8)), step(1, 2))
LEVEL: tuple[Record, ...] = (*HALF, reads(2, 12, 13, ranged(IN, 6, 13), ranged(FRESH, 8, 20)), step(2, 3))


def test_each_partition_is_read_again_without_gap() -> None:
    assert folded(*BEGUN).reads_again == {IN: 2, FRESH: 7}
    assert folded(*HALF).reads_again == {IN: 6, FRESH: 8} and not folded(*HALF).has_reread_all
    level = folded(*LEVEL)
    assert level.reads_again == {IN: 13, FRESH: 20} and level.has_reread_all
    assert level.next_offsets == {IN: 13}, "the revision in force does not read the new topic"
    level.check()


def test_the_next_revision_goes_on_where_its_nodes_were_given_input() -> None:
    switched = folded(*LEVEL, switches(2, 3))
    assert switched.next_offsets == {IN: 13, FRESH: 20} and switched.firsts == {IN: 2, FRESH: 7}
    assert switched.reads_again == {}
    of_switch = DivisionRecord(epoch=0, step=3, topics=(NEW,), ranges=(ranged(IN, 13, 13), ranged(FRESH, 20, 22)))
    written = folded(*LEVEL, switches(2, 3), of_switch, step(3, 4))
    assert (written.next_offsets[FRESH], written.firsts[FRESH], written.again) == (22, 7, {})
    with pytest.raises(BrokenStepLog, match=r"new/0 has the range \[7, 9\), but should start at 20"):
        switched.apply(DivisionRecord(epoch=0, step=3, ranges=(ranged(FRESH, 7, 9),)), 99)


def test_where_the_pipeline_began_is_not_where_new_nodes_begin_to_count() -> None:
    """The log of a former release does not say where it began, and a later revision must not take the mark for that."""
    began = DivisionRecord(epoch=0, step=0, ranges=(ranged(IN, 2, 9),))
    marked = LIVE.model_copy(update={"start": 9, "is_from_now": True})
    log = (*RUNNING, began, step(0, 1), begins(2, 1, marked, ONLY_NEW), reads(1, 9, 12, ranged(IN, 9, 12)), step(1, 2))
    state = folded(*log)
    forgotten = replace(state, firsts={})
    for before, firsts in ((state, {IN: 2, FRESH: 7}), (forgotten, {FRESH: 7})):
        assert before.apply(switches(2, 2), 99).firsts == firsts


@pytest.mark.parametrize("reason", ["taken_back", "abort"])
def test_a_switch_that_fails_leaves_the_positions_as_they_were(reason: str) -> None:
    of_switch = DivisionRecord(epoch=0, step=3, topics=(NEW,), ranges=(ranged(IN, 13, 15), ranged(FRESH, 20, 22)))
    turn = turns("taken_back", 3) if reason == "taken_back" else turns("abort")
    for log in ((*LEVEL, switches(2, 3), turn), (*LEVEL, switches(2, 3), of_switch, turn)):
        state, before = folded(*log), folded(*LEVEL)
        state.check()
        assert (state.next_offsets, state.firsts, state.topics) == (before.next_offsets, before.firsts, before.topics)
        assert state.reads_again == (before.reads_again if reason == "taken_back" else {})


def test_what_was_read_again_is_void_with_what_was_filled() -> None:
    detached = folded(*HALF, turns("detached", 1))
    assert detached.reads_again == detached.again == {}
    resumed = folded(*HALF, turns("detached", 1), turns("resume", 2))
    assert resumed.reads_again == {IN: 2, FRESH: 7}
    again = folded(*HALF, turns("detached", 1), turns("resume", 2), reads(2, 12, 12, ranged(IN, 2, 12)), step(2, 3))
    assert again.reads_again == {IN: 12, FRESH: 7} and again.has_reread_all


def test_a_partition_that_comes_later_is_read_from_where_the_pipeline_began_with_it() -> None:
    both = (ranged(IN, 9, 9), ranged(OTHER, 4, 6))
    first = DivisionRecord(epoch=0, step=1, ranges=both, filled=WHOLE, again=(ranged(IN, 2, 9), ranged(OTHER, 4, 4)))
    state = folded(*BEGUN, first, step(1, 2))
    assert state.reads_again == {IN: 9, FRESH: 7, OTHER: 4} and not state.has_reread_all
    later = DivisionRecord(epoch=0, step=2, ranges=(ranged(IN, 9, 9), ranged(OTHER, 6, 6)), filled=WHOLE)
    assert folded(*BEGUN, first, step(1, 2), later.model_copy(update={"again": (ranged(OTHER, 4, 6),)})).has_reread_all
    unread = first.model_copy(update={"again": (ranged(IN, 2, 9),)})
    late = later.model_copy(update={"again": (ranged(OTHER, 4, 5),)})
    assert folded(*BEGUN, unread, step(1, 2), late).reads_again[OTHER] == 5, "it began in a step before"


def test_a_division_that_is_recorded_again_keeps_what_is_read_again() -> None:
    before = reads(1, 9, 12, ranged(IN, 2, 12), ranged(FRESH, 7, 8))
    log = (*BEGUN, before, reads(2, 12, 14, ranged(IN, 12, 14)), claim(1))
    fewer = before.with_ends(1, {IN: 10})
    assert fewer.again == (ranged(IN, 2, 10), ranged(FRESH, 7, 8)), "never ahead of the revision in force"
    for again, at in (
        (before.with_epoch(1), {IN: 14, FRESH: 8}),
        (fewer, {IN: 10, FRESH: 8}),
        (before.with_ends(1, {IN: 13}), {IN: 12, FRESH: 8}),
        (before.with_reread_ends(1, {IN: 3}), {IN: 3, FRESH: 8}),
        (before.with_reread_ends(1, {FRESH: 7}), {IN: 12, FRESH: 7}),
    ):
        state = folded(*log, again)
        state.check()
        assert state.reads_again == at and state.divisions[1] == again
    with pytest.raises(BrokenStepLog, match="with another input"):
        folded(*log, before.with_epoch(1).model_copy(update={"again": (ranged(IN, 2, 12), ranged(FRESH, 7, 9))}))


REFUSED: list[tuple[tuple[Record, ...], Record, str]] = [
    (RUNNING, reads(0, 0, 1, ranged(IN, 0, 1)).model_copy(update={"filled": None}), "reads input again, and the step fills nothing"),
    (BEGUN, reads(1, 9, 9, ranged(IN, 3, 4)), "in/0 is read again from 3 to 4, but should be from 2 to 9"),
    (BEGUN, reads(1, 9, 9, ranged(IN, 0, 4)), "in/0 is read again from 0 to 4, but should be from 2 to 9"),
    (BEGUN, reads(1, 9, 11, ranged(IN, 2, 12)), "in/0 is read again from 2 to 12, but should be from 2 to 11"),
    (BEGUN, reads(1, 9, 9, ranged(FRESH, 6, 8)), "new/0 is read again from 6 to 8, but should be from 7 to any end"),
    (BEGUN, reads(1, 9, 9, ranged(OTHER, 0, 1)), "in/1 is read again from 0 to 1, but should be from None"),
    (HALF, reads(2, 12, 12, ranged(IN, 2, 6)), "in/0 is read again from 2 to 6, but should be from 6 to 12"),
    (BEGUN, reads(1, 9, 9, ranged(FRESH, 7, 8), ranged(IN, 2, 3)), "out of order or there twice"),
    (BEGUN, reads(1, 9, 9, ranged(IN, 2, 3), ranged(IN, 3, 4)), "out of order or there twice"),
    (HALF, switches(2, 2), "new nodes lack input that the revision in force has read"),
    ((*LEVEL, reads(3, 13, 14), step(3, 4)), switches(2, 4), "new nodes lack input"),
    (RUNNING, begins(2, 0, ONLY_NEW, LIVE), "out of order or there twice"),
    (RUNNING, begins(2, 0, LIVE, LIVE), "out of order or there twice"),
    ((*LEVEL, switches(2, 3)), reads(3, 13, 14, ranged(IN, 13, 14)).model_copy(update={"filled": None}), "the step fills nothing"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "record", "reason"), REFUSED)
def test_what_cannot_follow_is_refused(before: tuple[Record, ...], record: Record, reason: str) -> None:
    with pytest.raises(BrokenStepLog, match=reason):
        folded(*before).apply(record, 99)


def test_a_log_that_begins_with_a_snapshot_goes_on_alike() -> None:
    for log in (BEGUN, HALF, LEVEL, (*LEVEL, switches(2, 3)), (*HALF, turns("detached", 1))):
        whole = folded(*log)
        cut = StepLogState("log", offset_next=50).apply(whole.snapshot(), 50)
        for name in ("reads_again", "has_reread_all", "next_offsets", "firsts", "again"):
            assert getattr(cut, name) == getattr(whole, name), name
