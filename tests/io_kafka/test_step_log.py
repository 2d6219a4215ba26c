"""The log's state machine: which record may follow which, and that a snapshot replaces all records before it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from base.version import VersionId
from io_kafka.offsets import OffsetRange, TopicPartition
from io_kafka.step_log.division import Division
from io_kafka.step_log.division_records import ranges_of
from io_kafka.step_log.former_formats import CircuitRecord, LeavesRecord, as_present
from io_kafka.step_log.input_policy import InputPolicy
from io_kafka.step_log.layout_records import Ownership
from io_kafka.step_log.leaves import OutputLeaf
from io_kafka.step_log.records import (
    BadLogRecord,
    CheckpointComplete,
    CheckpointIntent,
    Claim,
    Copied,
    DivisionRecord,
    Ended,
    InputRange,
    NodeErrors,
    OutputPart,
    PartitionOffset,
    Record,
    Refresh,
    Reset,
    Snapshot,
    StepRecord,
    TableRecord,
    TakenBack,
    TopicIdentity,
    decode,
    encode,
)
from io_kafka.step_log.revision_state import RevisionState
from io_kafka.step_log.rules import why_not
from io_kafka.step_log.snapshots import FROM_SNAPSHOTS, IN_SNAPSHOTS, NOT_IN_SNAPSHOTS
from io_kafka.step_log.state import BrokenStepLog, StepLogState
from tests.io_kafka.layouts import auto, change, copied, layout, origin, placed, restored, stored, turn
from tests.io_kafka.transitions import begins, revision, switches, turns


def claim(epoch: int) -> Claim:
    return Claim(epoch=epoch, pipeline="p", run_id=f"r{epoch}", host="h", pid=1)


def division(step: int, start: int, end: int, epoch: int = 0, topic_id: str = "i") -> DivisionRecord:
    return DivisionRecord(
        epoch=epoch,
        step=step,
        ranges=(InputRange(topic="in", partition=0, start=start, end=end),),
        topics=(TopicIdentity(topic="in", id=topic_id, partitions=1),),
    )


def step(number: int, end: int, epoch: int = 0) -> StepRecord:
    part = OutputPart(handle="v", topic="out", partition=0, messages=1, digest=f"d{number}", end=end)
    return StepRecord(epoch=epoch, step=number, outputs=(part,), encoder="e")


def version(number: int, first: int, identity: str = "c") -> VersionId:
    return VersionId(version=number, step=first, checkpoint_id=identity)


def intent(v: VersionId) -> CheckpointIntent:
    return CheckpointIntent(epoch=0, version=v, placed=placed(0, 1))


def complete(v: VersionId) -> CheckpointComplete:
    return CheckpointComplete(epoch=0, version=v)


def circuit_record(epoch: int = 0) -> CircuitRecord:
    return CircuitRecord(epoch=epoch, fingerprint="f", circuit="[]")


def leaves_record(epoch: int = 0, topic: str = "out") -> LeavesRecord:
    return LeavesRecord(epoch=epoch, sources=(), outputs=(OutputLeaf(handle="v", topic=topic),))


def table(start: int, end: int, *, is_whole: bool = True, topic: str = "in") -> TableRecord:
    ranges = (InputRange(topic="in", partition=0, start=start, end=end),)
    identity = TopicIdentity(topic=topic, id="i", partitions=1)
    return TableRecord(epoch=0, handle="t", topic=identity, ranges=ranges, rows=3, is_whole=is_whole)


def folded(*records: Record) -> StepLogState:
    state = StepLogState("log")
    for offset, record in enumerate(records):
        state = state.apply(record, 2 * offset)  # markers lie between
        state.check()
    return state


def checkpoint(v: VersionId, *workers: int) -> tuple[Record, ...]:
    """Of a version in which these workers have even shares."""
    return CheckpointIntent(epoch=0, version=v, placed=placed(*workers)), complete(v)


CHANGING: tuple[Record, ...] = (claim(0), layout(), change())

STORY: tuple[Record, ...] = (claim(0), division(0, 0, 10), step(0, 5), division(1, 10, 12))

GROUNDED: tuple[Record, ...] = (claim(0), layout(), *STORY[1:])
"""With a layout, which checkpoints need."""

DONE: tuple[Record, ...] = (
    CheckpointIntent(epoch=0, version=VersionId(0, 1, "c"), placed=placed(0, 1)),
    CheckpointComplete(epoch=0, version=VersionId(0, 1, "c")),
)
"""A checkpoint."""

COPIED: tuple[Record, ...] = (claim(2), copied(claim(2), version(3, 7)))


def copied_with(**changes: object) -> Copied:
    """A copy that differs in these fields of its state."""
    made = copied(claim(2), version(3, 7))
    return made.model_copy(update={"state": made.state.model_copy(update=changes)})


NUMBERED: tuple[Record, ...] = (
    *GROUNDED,
    CheckpointIntent(epoch=0, version=VersionId(2, 1, "c"), placed=placed(0, 1)),
    CheckpointComplete(epoch=0, version=VersionId(2, 1, "c")),
)
"""With a checkpoint after some that the log does not have any more."""


def test_an_empty_log() -> None:
    state = folded()
    assert (state.epoch, state.steps, state.step_last, state.division_next) == (-1, 0, None, 0)


def test_the_state_after_a_run() -> None:
    state = folded(*STORY)
    assert (state.epoch, state.steps, state.step_last, state.division_next) == (0, 1, 0, 2)
    assert [d.step for d in state.pending] == [1]
    assert state.next_offsets == {TopicPartition("in", 0): 12} and state.ends == {TopicPartition("out", 0): 5}
    assert state.step_records[0].digests == {("v", 0): "d0"}


def again(step: int, start: int, end: int, epoch: int, **changes: object) -> DivisionRecord:
    former = division(step, start, end, epoch)
    return former.with_policy(epoch, InputPolicy({"t": "skip"}, {}, {"t": "apply"})).model_copy(update=changes)


def less(step: int, start: int, end: int, cut: int, epoch: int = 0) -> DivisionRecord:
    return division(step, start, end).with_ends(epoch, {TopicPartition("in", 0): cut})


def test_a_later_epoch_may_change_the_policy_of_a_step_without_output() -> None:
    two_pending = (*STORY, division(2, 12, 15), claim(1))
    state = folded(*two_pending, again(1, 10, 12, 1), again(2, 12, 15, 1))
    assert [d.on_error for d in state.pending] == [{"t": "skip"}, {"t": "skip"}]
    assert state.next_offsets == folded(*two_pending).next_offsets == {TopicPartition("in", 0): 15}
    assert folded(*two_pending, again(1, 10, 12, 1), step(1, 6, 1), again(2, 12, 15, 1), step(2, 7, 1)).steps == 3
    assert [d.truncate for d in state.pending] == [{"t": "apply"}, {"t": "apply"}]
    once_more = (claim(2), again(1, 10, 12, 2, on_error={"t": "dead-letter"}, dead_letters={"t": "d"}))
    assert folded(*two_pending, again(1, 10, 12, 1), *once_more).pending[0].dead_letters == {"t": "d"}


def test_the_last_division_may_be_recorded_again_over_less_input() -> None:
    """By the run that recorded it or a later one; the next division starts where it ends now."""
    before = division(1, 10, 12)
    for log in (STORY, (*STORY, claim(1))):
        cut = before.with_ends(len(log) - len(STORY), {TopicPartition("in", 0): 11})
        assert cut.is_shortening_of(before)
        state = folded(*log, cut)
        assert state.next_offsets == {TopicPartition("in", 0): 11} and [d.step for d in state.pending] == [1]
        epoch = cut.epoch
        assert folded(*log, cut, step(1, 6, epoch), division(2, 11, 15, epoch)).division_next == 3


def test_a_pending_division_may_be_recorded_again_over_more_input() -> None:
    """The next division starts where it ends now, and what was divided after it is void. A step that is written has its input for ever."""
    before = division(1, 10, 12)
    for log in (STORY, (*STORY, division(2, 12, 15)), (*STORY, division(2, 12, 15), claim(1))):
        epoch = folded(*log).epoch
        wider = before.with_ends(epoch, {TopicPartition("in", 0): 14})
        assert wider.is_widening_of(before) and not wider.is_shortening_of(before) and not before.is_widening_of(before)
        state = folded(*log, wider)
        state.check()
        assert state.next_offsets == {TopicPartition("in", 0): 14} and [d.step for d in state.pending] == [1]
        assert folded(*log, wider, step(1, 6, epoch), division(2, 14, 15, epoch)).division_next == 3
    with pytest.raises(BrokenStepLog, match="of step 0"):
        folded(*STORY, division(0, 0, 10).with_ends(0, {TopicPartition("in", 0): 11}))


def node_errors(node: int) -> NodeErrors:
    return NodeErrors(node=node, since=1, rows=2, checksum="0", example="it raises")


def counting(number: int, start: int, end: int, *nodes: int, released: tuple[str, ...] = ()) -> DivisionRecord:
    return division(number, start, end).model_copy(update={"counted": nodes, "released": released})


def erring(number: int, end: int, *nodes: int) -> StepRecord:
    return step(number, end).model_copy(update={"errors": tuple(map(node_errors, nodes))})


def test_a_pending_division_may_be_recorded_again_to_count_error_rows() -> None:
    """By the run that recorded it or a later one. What was divided after it is void, because it counts as few as before."""
    before = division(1, 10, 12)
    for log in (STORY, (*STORY, division(2, 12, 15)), (*STORY, division(2, 12, 15), claim(1))):
        again = before.with_counted(folded(*log).epoch, (3, 4), frozenset())
        state = folded(*log, again)
        assert ([d.step for d in state.pending], state.counted) == ([1], (3, 4))
        assert state.next_offsets == {TopicPartition("in", 0): 12}
    state = folded(*STORY, before.with_counted(0, (3,), frozenset()), before.with_counted(0, (3, 4), frozenset()))
    assert state.counted == (3, 4)
    for wrong in (
        counting(0, 0, 10, 3),  # it is written
        before.with_counted(0, (3,), frozenset()).with_ends(0, {TopicPartition("in", 0): 11}),
        before.with_counted(0, (), frozenset()),
    ):
        with pytest.raises(BrokenStepLog, match="of step"):
            folded(*STORY, wrong)


COUNTING = (*STORY, division(1, 10, 12).with_counted(0, (3, 4), frozenset()), erring(1, 6, 4))
"""Nodes 3 and 4 are counted in step 1, and node 4 has error rows."""


def test_a_division_goes_on_counting_the_nodes_that_have_error_rows() -> None:
    state = folded(*COUNTING, counting(2, 12, 12, 4, released=("a",)), erring(2, 6), counting(3, 12, 12))
    assert (state.counted, state.errors) == ((), ())
    assert folded(*COUNTING).nodes_in_error == {4}
    snapshot = folded(*COUNTING).snapshot()
    assert (snapshot.counted, snapshot.errors) == ((3, 4), (node_errors(4),))
    for wrong, why in (
        (counting(2, 12, 12, 3), r"does not count the error rows of nodes \[4\]"),
        (counting(2, 12, 12, 3, 4, 5), r"counts the error rows of nodes \[5\]"),
        (counting(2, 12, 12, 3, 4, released=("a",)), "it releases .*a"),
    ):
        with pytest.raises(BrokenStepLog, match=why):
            folded(*COUNTING, wrong)
    with pytest.raises(BrokenStepLog, match="which may have some"):
        folded(*COUNTING[:-1], counting(2, 12, 12, 4))  # step 1 is not written, and may have error rows of node 3
    with pytest.raises(BrokenStepLog, match=r"error rows of nodes \[5\], which its division does not count"):
        folded(*COUNTING[:-1], erring(1, 6, 5))


def test_a_full_refresh_forgets_the_error_rows() -> None:
    again = (refresh(1), Reset(epoch=0, generation=1), revision(), division(0, 0, 10))
    assert folded(*COUNTING, *again).counted == ()


def test_a_division_over_less_input_voids_those_after_it() -> None:
    """They began where it ended, and no state has seen them. A partition that only they name is read from where they began."""
    later = division(2, 12, 15).model_copy(
        update={"ranges": (*division(2, 12, 15).ranges, InputRange(topic="in", partition=1, start=4, end=9))}
    )
    state = folded(*STORY, later, less(1, 10, 12, 11))
    assert [d.step for d in state.pending] == [1]
    assert state.next_offsets == {TopicPartition("in", 0): 11, TopicPartition("in", 1): 4}
    state = folded(*STORY, later, less(1, 10, 12, 11), division(2, 11, 15))
    assert [d.step for d in state.pending] == [1, 2]


def test_a_new_epoch_takes_up_what_was_divided() -> None:
    state = folded(*STORY, claim(4), step(1, 6, epoch=4), division(2, 12, 13, epoch=4))
    assert (state.epoch, state.steps) == (4, 2)


@pytest.mark.parametrize(
    ("before", "record", "reason"),
    [
        ((), division(0, 0, 10), "never claimed"),
        (STORY, claim(0), "epoch 0 was claimed before"),
        ((*STORY, claim(1)), step(1, 6), "epoch 1 has been claimed since"),
        (STORY, step(1, 6, epoch=1), "never claimed; the highest is 0"),
        (STORY, division(3, 12, 13), "where step 2 is the next to be divided"),
        (STORY, division(1, 12, 13), "where step 2 is the next to be divided"),
        (STORY, again(1, 10, 12, epoch=0), "where step 2 is the next to be divided"),
        ((*STORY, claim(1)), again(0, 0, 10, epoch=1), "where step 2 is the next to be divided"),
        ((*STORY, claim(1), step(1, 6, 1)), again(1, 10, 12, epoch=1), "where step 2 is the next to be divided"),
        ((*STORY, claim(1)), again(1, 10, 13, epoch=1), "another input than epoch 0 recorded"),
        ((*STORY, claim(1)), again(1, 9, 12, epoch=1), "another input than epoch 0 recorded"),
        ((*STORY, claim(1)), again(1, 10, 12, epoch=1, grown=("in",)), "another input than epoch 0 recorded"),
        ((*STORY, claim(1)), division(1, 10, 12, epoch=1, topic_id="j"), "another input than epoch 0 recorded"),
        ((*STORY, claim(1), again(1, 10, 12, epoch=1)), again(1, 10, 12, epoch=1), "where step 2 is the next"),
        (STORY, division(1, 10, 12), "where step 2 is the next to be divided"),
        (STORY, division(1, 10, 10), "where step 2 is the next to be divided"),
        (STORY, again(1, 10, 11, epoch=0), "where step 2 is the next to be divided"),
        ((*STORY, step(1, 6)), less(1, 10, 12, 11), "where step 2 is the next to be divided"),
        ((*STORY, step(1, 6)), less(1, 10, 12, 14), "where step 2 is the next to be divided"),
        (STORY, division(2, 11, 13), "should start at 12"),
        (STORY, division(2, 12, 11), "should start at 12"),
        (STORY, division(2, 12, 13, topic_id="j"), "topic 'in' was i, now j"),
        ((*STORY, division(2, 12, 13)), division(3, 13, 14), "output is committed only below step 1"),
        (STORY, step(0, 6), "where step 1 is the next to be written"),
        (STORY, step(2, 6), "where step 1 is the next to be written"),
        ((*STORY, step(1, 6)), step(2, 7), "never divided"),
        (STORY, step(1, 4), "end of out/0 decreases from 5 to 4"),
        (GROUNDED, complete(version(0, 1)), "without having been intended"),
        ((*GROUNDED, intent(version(0, 1))), complete(version(0, 1, "other")), "without having been intended"),
        ((*GROUNDED, intent(version(0, 2))), complete(version(0, 2)), "holds step 1, whose output is not committed"),
        ((*GROUNDED, intent(version(0, 1)), complete(version(0, 1))), complete(version(0, 1)), "without having been"),
        ((*GROUNDED, intent(version(0, 1)), complete(version(0, 1))), intent(version(2, 1)), "leave a gap"),
        (GROUNDED, stored(version(0, 1)), "without having been completed"),
        ((*GROUNDED, *DONE), stored(version(1, 1)), "without having been completed"),
        ((*GROUNDED, *DONE), stored(version(0, 1, "other")), "another checkpoint has that number"),
        (NUMBERED, stored(version(1, 2, "z")), "holds step 1, whose output is not committed"),
        ((*GROUNDED, *DONE), restored(1, workers=(0,)), "the stored version has other owners"),
        ((*GROUNDED, *DONE, stored(version(0, 1))), restored(1, workers=(0,)), "the stored version has other owners"),
        ((*GROUNDED, *DONE, stored(version(0, 1))), restored(2), "number 2 does not follow layout 0"),
        ((claim(2), layout(epoch=2)), copied(claim(2), version(3, 7)), "it has a state"),
        (
            (claim(2), Refresh(epoch=2, generation=1, topics=(), tombstones=(), ends=())),
            copied(claim(2), version(3, 7)),
            "it has a state",
        ),
        (COPIED, copied(claim(2), version(3, 7)), "it has a state, which was copied from o at step 7"),
        ((claim(2), claim(3)), copied(claim(2), version(3, 7)), "its writer was fenced"),
        ((claim(2),), copied_with(claim=claim(1)), "it is of another run"),
        ((claim(1),), copied(claim(1), version(3, 7)), "epoch 1 is not above epoch 1 of the pipeline that was copied"),
        ((claim(2),), copied_with(origin=None), "does not say from where"),
        ((claim(2),), copied_with(origin=origin(version(2, 7))), "does not begin at the version"),
        ((claim(2),), copied_with(steps=8), "does not begin at the version"),
        ((claim(2),), copied_with(ends=(PartitionOffset(topic="out", partition=0, offset=1),)), "it has output"),
        ((), layout(), "never claimed"),
        ((), Ended(epoch=0), "never claimed"),
        ((claim(0), Ended(epoch=0)), layout(), "the run of epoch 0 has ended, and only another claim can follow"),
        ((claim(0), Ended(epoch=0)), Ended(epoch=0), "the run of epoch 0 has ended"),
        ((claim(0), Ended(epoch=0)), folded(claim(0)).snapshot(), "the run of epoch 0 has ended"),
        ((claim(0), claim(1)), Ended(epoch=0), "its writer was fenced"),
        ((claim(0),), layout(1), "the first record of a layout must be layout 0"),
        ((claim(0),), change(), "the first record of a layout must be layout 0"),
        ((claim(0),), intent(version(0, 0)), "no layout is recorded"),
        ((claim(0), layout()), layout(), "number 0 does not follow layout 0"),
        ((claim(0), layout()), layout(1, workers=(0, 1, 2)), "gives slots to other workers, and no change"),
        ((claim(0), layout()), turn(), "no change of the layout is under way"),
        ((claim(0), layout()), change(2), "number 2 does not follow layout 0"),
        ((*CHANGING,), change(), "a change of the layout is under way"),
        ((claim(0),), auto(), "no layout is recorded"),
        ((*CHANGING,), layout(1, workers=(0,)), "the last checkpoint has other owners"),
        (
            (*CHANGING, *checkpoint(version(0, 0), 0, 1)),
            layout(1),
            "it is not the layout that the change leads to",
        ),
        ((claim(0), layout()), checkpoint(version(0, 0), 0)[0], "it has other owners than the layout"),
        ((*CHANGING,), checkpoint(version(0, 0), 0, 5)[0], "worker 5 owns slots .*, which neither the layout nor"),
        (STORY[:2], layout(), "step 0 is divided already, and the first layout must precede step 0"),
        (STORY, layout(), "step 1 is divided already"),
        ((claim(0), circuit_record()), circuit_record(), "circuit: generation 0 has that record already"),
        ((claim(0), revision()), circuit_record(), "circuit: generation 0 has that record already"),
        ((claim(0), revision()), revision(), "revision 1, where 2 is the next one"),
        ((claim(0),), revision(2), "revision 2, where 1 is the next one"),
        (STORY, revision(), "revision 1 begins with step 0, where step 2 is the next one"),
        (STORY, revision(step=2), "revision 1 begins with step 2, and no complete checkpoint has all steps before it"),
        ((claim(0), leaves_record()), leaves_record(), "leaves: generation 0 has that record already"),
        (STORY, circuit_record(), "step 1 is divided already, and the first circuit must precede step 0"),
        (STORY, table(0, 5), "step 1 is divided already, and the first table must precede step 0"),
        ((claim(0), table(0, 5)), table(5, 9), "the table t is loaded already"),
        ((claim(0),), table(5, 4), "the ranges of the table t are out of order"),
        ((claim(0),), table(0, 5, topic="other"), "the table t is said to be in several topics"),
    ],
)
def test_what_cannot_follow_is_refused_and_changes_nothing(
    before: tuple[Record, ...], record: Record, reason: str
) -> None:
    state = folded(*before)
    with pytest.raises(BrokenStepLog, match=f"'log' partition 0 offset 99: .*{reason}"):
        state = state.apply(record, 99)
    assert state == folded(*before)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"next_offsets": {TopicPartition("in", 0): 11}}, "the next division begins elsewhere than at 12"),
        ({"ends": {TopicPartition("out", 0): 4}}, "the end of .* is above that of the log"),
        ({"checkpoints": (version(1, 2),)}, "a checkpoint of a step that is not written"),
        ({"snapshots": ((1, 0), (1, 0))}, "snapshots out of order"),
        ({"claim": None}, "records before any claim"),
    ],
)
def test_a_broken_invariant_is_told(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(AssertionError, match=told):
        replace(folded(*STORY), **changes).check()


def test_a_record_is_folded_once() -> None:
    with pytest.raises(AssertionError):
        folded(*STORY).apply(division(2, 12, 13), 6)


def test_checkpoints_are_distinguished_by_identity_and_two_are_kept() -> None:
    records: list[Record] = [
        *GROUNDED,
        intent(version(0, 1, "a")),
        intent(version(0, 1, "b")),
        complete(version(0, 1, "b")),
    ]
    records += [r for n in (1, 2) for r in (intent(version(n, 1)), complete(version(n, 1)))]
    assert folded(*records).checkpoints == (version(1, 1), version(2, 1))
    # Version 2 was damaged, so the checkpoint is repeated.
    again: list[Record] = [intent(version(2, 1, "x")), complete(version(2, 1, "x"))]
    assert folded(*records, *again).checkpoints == (version(1, 1), version(2, 1, "x"))


def test_after_a_restore_only_the_restored_version_counts() -> None:
    records: list[Record] = [*GROUNDED, intent(version(0, 1)), complete(version(0, 1)), stored(version(0, 1))]
    records += [r for n in (1, 2) for r in (intent(version(n, 1)), complete(version(n, 1)))]
    records += [intent(version(3, 1))]
    back = stored(version(0, 1)).model_copy(update={"restores": True})
    state = folded(*records, back)
    assert (state.checkpoints, state.intent, state.placed.keys()) == ((version(0, 1),), None, {version(0, 1)})
    again: list[Record] = [intent(version(1, 1, "again")), complete(version(1, 1, "again"))]
    assert folded(*records, back, *again).checkpoints == (version(0, 1), version(1, 1, "again"))


def test_the_bounds_of_the_number_of_workers_are_those_of_the_last_record_also_after_a_refresh() -> None:
    ends = auto(2, 3).model_copy(update={"bounds": None})
    assert folded(*GROUNDED).auto is None
    assert folded(*GROUNDED, auto(1, 4), auto(2, 3)).auto == auto(2, 3)
    assert folded(*GROUNDED, auto(2, 3), ends).auto == ends
    refreshed = folded(*GROUNDED, auto(2, 3), refresh(1), Reset(epoch=0, generation=1))
    assert refreshed.auto == auto(2, 3) and refreshed.layout is None


def test_bounds_that_no_number_fits_are_no_record() -> None:
    text = auto(2, 3).model_dump_json()
    assert decode(text.encode(), "log", 0) == auto(2, 3)
    for wrong in (text.replace('"min":2', '"min":4'), text.replace('"min":2', '"min":0')):
        with pytest.raises(BadLogRecord):
            decode(wrong.encode(), "log", 0)


def test_a_copy_begins_at_the_step_of_its_version() -> None:
    """Claims of commands that were broken off may precede it. It goes on as any state, and says where it is from until a full refresh."""
    whole = folded(claim(0), claim(2), copied(claim(2), version(3, 7)))
    assert (whole.steps, whole.first, whole.checkpoints, whole.epoch) == (7, 7, (version(3, 7),), 2)
    whole.check()
    on = folded_on(whole, claim(4), division(7, 3, 5, epoch=4), step(7, 6, 4))
    on.check()
    cut = StepLogState("log", offset_next=90).apply(on.snapshot(), 90)
    assert cut.origin == on.origin == origin(version(3, 7))
    begun = refresh().model_copy(update={"epoch": 4})
    fresh = folded_on(on, begun, reset().model_copy(update={"epoch": 4}))
    assert fresh.origin is None


def folded_on(state: StepLogState, *records: Record) -> StepLogState:
    for record in records:
        state = state.apply(record, state.offset_next)
    return state


def test_a_state_is_a_value() -> None:
    """Two states that follow the same one share memory, and do not see each other's records. So a transaction that is given up changes
    nothing."""
    state = folded(*STORY)
    other = state.apply(step(1, 9), 50).forget_below(1)
    assert state == folded(*STORY)
    again = state.apply(step(1, 7), 50)
    assert (other.step_records[1].outputs[0].end, again.step_records[1].outputs[0].end) == (9, 7)
    with pytest.raises(FrozenInstanceError):
        state.generation = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        hash(state)
    assert (other.first, other.steps, sorted(other.step_records)) == (1, 2, [1])
    other.check()


def test_a_snapshot_that_says_something_else_is_refused() -> None:
    lie = folded(*STORY[:2]).snapshot()
    with pytest.raises(BrokenStepLog, match="contradicts the records before it"):
        folded(*STORY).apply(lie, 99)


def test_a_truncated_log_must_begin_with_a_snapshot() -> None:
    for record in (claim(1), division(0, 0, 1)):
        with pytest.raises(BrokenStepLog, match="deleted"):
            StepLogState("log", offset_next=7).apply(record, 7)


def test_the_truncation_point_never_passes_what_a_replay_needs() -> None:
    first = folded(*STORY)
    snapshot = first.snapshot()  # offset 8, one step committed
    after = folded(*STORY, snapshot, step(1, 6), division(2, 12, 13))
    last = folded(*STORY, snapshot, step(1, 6), division(2, 12, 13), after.snapshot())  # offset 14, two steps
    assert [last.truncation_point(n) for n in (0, 1, 2, 5)] == [None, 8, 14, 14]


IN = TopicPartition("in", 0)
OUT = TopicPartition("out", 0)


def draw_claim(draw: st.DrawFn, log: StepLogState) -> Record:
    return claim(log.epoch + draw(st.integers(1, 3)))


def draw_division(draw: st.DrawFn, log: StepLogState) -> Record | None:
    if len(log.pending) >= 2:
        return None
    start = log.next_offsets.get(IN, 0)
    record = division(log.division_next, start, start + draw(st.integers(0, 5)), log.epoch)
    counted = log.counted if log.pending else tuple(sorted(log.nodes_in_error))
    passage = log.revisions.passage_that_fills(record.step)
    filled = None if passage is None else draw(st.integers(log.filled, passage.intent.whole))
    return record.model_copy(update={"counted": counted, "filled": filled})


def draw_other_policy(draw: st.DrawFn, log: StepLogState) -> Record | None:
    if not log.pending or (before := draw(st.sampled_from(log.pending))).epoch >= log.epoch:
        return None
    policy = InputPolicy({"t": draw(st.sampled_from(("fail", "skip")))}, {}, {})
    return before.with_policy(log.epoch, policy)


def draw_less_input(draw: st.DrawFn, log: StepLogState) -> Record | None:
    if not log.pending or (read := log.pending[-1].ranges[0]).start + 1 >= read.end:
        return None
    return log.pending[-1].with_ends(log.epoch, {IN: draw(st.integers(read.start + 1, read.end - 1))})


def draw_more_input(draw: st.DrawFn, log: StepLogState) -> Record | None:
    if not log.pending:
        return None
    end = log.pending[-1].ranges[0].end + draw(st.integers(1, 5))
    return log.pending[-1].with_ends(log.epoch, {IN: end})


def draw_more_counted(draw: st.DrawFn, log: StepLogState) -> Record | None:
    if not log.pending:
        return None
    before = draw(st.sampled_from(log.pending))
    more = {*before.counted, draw(st.integers(1, 3))}
    return None if more == set(before.counted) else before.with_counted(log.epoch, tuple(sorted(more)), frozenset())


def draw_step(draw: st.DrawFn, log: StepLogState) -> Record | None:
    if not log.pending:
        return None
    counted = log.pending[0].counted
    some = draw(st.lists(st.sampled_from(counted), unique=True)) if counted else []
    record = step(log.steps, log.ends.get(OUT, 0) + draw(st.integers(0, 5)), log.epoch)
    return record.model_copy(update={"errors": tuple(node_errors(node) for node in sorted(some))})


def draw_intent(draw: st.DrawFn, log: StepLogState) -> Record | None:
    if log.layout is None:
        return None
    number = log.checkpoints[-1].version + 1 if log.checkpoints else 0
    here = log.layout.placed
    if log.target is not None and draw(st.booleans()):
        here = Ownership.of(dict.fromkeys(log.target.members, "b"), log.target.owned)
    made = version(number, log.steps, str(log.offset_next))
    return CheckpointIntent(epoch=log.epoch, version=made, placed=here)


def draw_complete(draw: st.DrawFn, log: StepLogState) -> Record | None:
    return None if log.intent is None else CheckpointComplete(epoch=log.epoch, version=log.intent)


def draw_stored(draw: st.DrawFn, log: StepLogState) -> Record | None:
    if not log.checkpoints:
        return None
    held, back = draw(st.sampled_from(log.checkpoints)), draw(st.booleans())
    return stored(held, log.epoch).model_copy(update={"placed": log.placed[held], "restores": back})


def draw_restored(draw: st.DrawFn, log: StepLogState) -> Record | None:
    if log.stored is None or log.layout is None:
        return None
    return restored(log.layout.number + 1, log.epoch).model_copy(update={"placed": log.stored.placed})


def draw_auto(draw: st.DrawFn, log: StepLogState) -> Record | None:
    return None if log.layout is None else auto(1, draw(st.integers(1, 4)), log.epoch)


def draw_layout(draw: st.DrawFn, log: StepLogState) -> Record | None:
    if log.layout is not None or log.division_next:
        return None
    return layout(0, log.epoch, tuple(range(draw(st.integers(1, 3)))))


def draw_rescale(draw: st.DrawFn, log: StepLogState) -> Record | None:
    if log.layout is None or log.rescale is not None:
        return None
    return change(log.layout.number + 1, log.epoch, tuple(range(draw(st.integers(1, 4)))))


def draw_turn_of_rescale(draw: st.DrawFn, log: StepLogState) -> Record | None:
    if log.layout is None or log.rescale is None:
        return None
    return turn(log.rescale.change, log.epoch, tuple(range(draw(st.integers(1, 4)))))


def draw_end_of_rescale(draw: st.DrawFn, log: StepLogState) -> Record | None:
    if log.rescale is None or not log.checkpoints or log.target is None:
        return None
    last = log.placed[log.checkpoints[-1]]
    if (last.ranges, tuple(last.births)) != (log.target.ranges, log.target.members):
        return None
    return layout(log.rescale.change, log.epoch).model_copy(update={"placed": last})


def next_revision(log: StepLogState) -> int:
    return 1 if log.revision is None else log.revision.number + 1


def draw_revision(draw: st.DrawFn, log: StepLogState) -> Record | None:
    record = revision(next_revision(log), 0 if log.circuit is not None else log.division_next, log.epoch)
    return record if why_not(log, record) is None else None


def number_of_transition(log: StepLogState) -> int:
    return next_revision(log) if log.revisions.phase is None else log.revisions.phase.intent.number


def draw_begin(draw: st.DrawFn, log: StepLogState) -> Record | None:
    record = begins(number_of_transition(log), log.division_next, whole=1, epoch=log.epoch)
    return record if why_not(log, record) is None else None


def draw_switch(draw: st.DrawFn, log: StepLogState) -> Record | None:
    record = switches(number_of_transition(log), log.division_next, epoch=log.epoch)
    return record if why_not(log, record) is None else None


def draw_abort(draw: st.DrawFn, log: StepLogState) -> Record | None:
    record = turns("abort", number=number_of_transition(log), epoch=log.epoch)
    return record if why_not(log, record) is None else None


def draw_circuit(draw: st.DrawFn, log: StepLogState) -> Record | None:
    return circuit_record(log.epoch) if log.circuit is log.revision is None and log.division_next == 0 else None


def draw_leaves(draw: st.DrawFn, log: StepLogState) -> Record | None:
    return leaves_record(log.epoch) if log.leaves is log.revision is None else None


def draw_refresh(draw: st.DrawFn, log: StepLogState) -> Record | None:
    if log.refresh is not None:
        return None
    return refresh(log.generation + 1).model_copy(update={"epoch": log.epoch})


def draw_taken_back(draw: st.DrawFn, log: StepLogState) -> Record | None:
    if log.refresh is None:
        return None
    end = log.ends.get(OUT, 0) + draw(st.integers(0, 5))
    return taken_back(end, generation=log.generation + 1).model_copy(update={"epoch": log.epoch})


def draw_reset(draw: st.DrawFn, log: StepLogState) -> Record | None:
    return None if log.refresh is None else Reset(epoch=log.epoch, generation=log.generation + 1)


def draw_snapshot(draw: st.DrawFn, log: StepLogState) -> Record:
    return log.snapshot()


def draw_ended(draw: st.DrawFn, log: StepLogState) -> Record:
    return Ended(epoch=log.epoch)


DRAWN: dict[str, Callable[[st.DrawFn, StepLogState], Record | None]] = {
    "claim": draw_claim,
    "division": draw_division,
    "other policy": draw_other_policy,
    "less input": draw_less_input,
    "more input": draw_more_input,
    "more counted": draw_more_counted,
    "step": draw_step,
    "intent": draw_intent,
    "complete": draw_complete,
    "layout": draw_layout,
    "revision": draw_revision,
    "circuit": draw_circuit,
    "leaves": draw_leaves,
    "snapshot": draw_snapshot,
    "refresh": draw_refresh,
    "taken_back": draw_taken_back,
    "reset": draw_reset,
    "rescale": draw_rescale,
    "turn of rescale": draw_turn_of_rescale,
    "end of rescale": draw_end_of_rescale,
    "begin": draw_begin,
    "switch": draw_switch,
    "abort": draw_abort,
    "stored": draw_stored,
    "restored": draw_restored,
    "auto": draw_auto,
    "ended": draw_ended,
}
"""What draws a record of each kind that can follow a log; None if none can. They have no loads of batch tables, no copies, no ends of
transitions, and of the turns of transitions only the abort; the simulator writes those."""

OFTEN = ("layout", "division", "step", "intent", "complete")
"""Most others follow only after these, so they are drawn twice as often."""

DURING_A_REFRESH = ("claim", "snapshot", "taken_back", "reset", "ended")
"""The only kinds that can follow then. Others become the end of the refresh, so that a story is not over with it."""


@st.composite
def stories(draw: st.DrawFn) -> list[Record]:
    """Logs that a correct run can write, with snapshots at random places."""
    log, records = StepLogState("log"), list[Record]()
    for kind in ["claim", *draw(st.lists(st.sampled_from((*DRAWN, *OFTEN)), max_size=30))]:
        if log.has_ended:
            kind = "claim"
        elif log.refresh is not None and kind not in DURING_A_REFRESH:
            kind = draw(st.sampled_from(("taken_back", "reset")))
        record = DRAWN[kind](draw, log)
        if record is not None:
            log = log.apply(record, len(records))
            log.check()
            records.append(record)
    return records


@settings(deadline=None)
@given(stories())
@example([*STORY, folded(*STORY).snapshot(), step(1, 7)])
def test_a_log_truncated_at_any_snapshot_goes_on_alike(records: list[Record]) -> None:
    whole = StepLogState("log")
    for offset, record in enumerate(records):
        whole = whole.apply(record, offset)
    for offset, steps in whole.snapshots:
        cut = StepLogState("log", offset_next=offset)
        for later, record in enumerate(records[offset:], start=offset):
            cut = cut.apply(record, later)
            cut.check()
        assert cut.snapshot() == whole.snapshot()
        assert cut.offset_next == whole.offset_next
        assert cut.pending == whole.pending
        assert cut.step_records == {s: r for s, r in whole.step_records.items() if s >= steps}


def refresh(generation: int = 1, topics: tuple[str, ...] = ("out",)) -> Refresh:
    kept = tuple(TopicIdentity(topic=name, id=f"id-{name}", partitions=1) for name in topics)
    ends = tuple(PartitionOffset(topic=name, partition=0, offset=5) for name in topics)
    return Refresh(epoch=0, generation=generation, topics=kept, tombstones=topics, ends=ends)


def taken_back(end: int, topic: str = "out", generation: int = 1) -> TakenBack:
    return TakenBack(epoch=0, generation=generation, ends=(PartitionOffset(topic=topic, partition=0, offset=end),))


def reset(generation: int = 1, topics: tuple[str, ...] = ("out",)) -> Reset:
    return Reset(epoch=0, generation=generation, topics=refresh(topics=topics).topics)


BUSY: tuple[Record, ...] = (
    claim(0),
    revision(),
    layout(),
    *STORY[1:],
    intent(version(1, 1)),
    complete(version(1, 1)),
)


def test_after_a_reset_only_the_claim_and_the_outputs_are_left() -> None:
    state = folded(*BUSY, refresh(), taken_back(7), taken_back(9), reset())
    new = folded(claim(0))
    kept = {"ends", "topics", "generation", "revisions", "offset_next"}
    assert {k: v for k, v in state.__dict__.items() if k not in kept} == {
        k: v for k, v in new.__dict__.items() if k not in kept
    }
    assert (state.ends, state.generation) == ({TopicPartition("out", 0): 9}, 1)
    assert set(state.topics) == {"out"}, "an input may be another topic of that name"
    state = state.apply(division(0, 3, 4, topic_id="recreated"), 50)
    state = state.apply(step(0, 11), 51)
    state.check()


def test_a_table_is_loaded_once_in_a_generation_and_a_load_that_is_not_whole_does_not_count() -> None:
    state = folded(claim(0), table(0, 3, is_whole=False), table(0, 5, is_whole=False), table(7, 9))
    assert state.tables == {"in": table(7, 9)}
    copy = StepLogState("log", offset_next=50)
    copy = copy.apply(state.snapshot(), 50)
    assert copy.tables == state.tables
    refresh = Refresh(epoch=0, generation=1, topics=(), tombstones=(), ends=())
    again = folded(claim(0), table(7, 9), refresh, Reset(epoch=0, generation=1), table(12, 15))
    assert again.tables == {"in": table(12, 15)}


def test_every_generation_has_a_revision_and_a_layout_of_its_own() -> None:
    """Numbers of revisions go on."""
    state = folded(*BUSY, refresh(), reset(), claim(1), revision(2, epoch=1), layout(epoch=1))
    assert (state.layout, state.revision) == (layout(epoch=1), revision(2, epoch=1))
    with pytest.raises(BrokenStepLog, match="number 0 does not follow layout 0"):
        state = state.apply(layout(epoch=1), 99)


def test_a_snapshot_carries_the_layout_which_cannot_follow_again() -> None:
    cut = StepLogState("log", offset_next=40)
    cut = cut.apply(folded(claim(0), layout()).snapshot(), 40)
    with pytest.raises(BrokenStepLog, match="number 0 does not follow layout 0"):
        cut = cut.apply(layout(), 41)
    bare = StepLogState("log", offset_next=40)
    bare = bare.apply(folded(*STORY).snapshot(), 40)
    with pytest.raises(BrokenStepLog, match="is divided already"):
        bare = bare.apply(layout(), 41)


def test_a_state_of_the_former_format_takes_a_revision_at_any_time_and_a_snapshot_carries_it() -> None:
    former = folded(claim(0), circuit_record(), leaves_record(), *STORY[1:])
    state = former.apply(revision(), 20)
    state.check()
    cut = StepLogState("log", offset_next=40).apply(state.snapshot(), 40)
    assert cut.revision == state.revision == revision() and cut.circuit is cut.leaves is None
    for late in (revision(2, step=2), circuit_record(), leaves_record()):
        with pytest.raises(BrokenStepLog, match=r"no complete checkpoint|has that record already"):
            cut.apply(late, 41)


def test_where_each_input_began_is_kept_for_ever() -> None:
    """A partition that comes later begins later, and truncation forgets none."""
    ranges = ranges_of(Division(1, (OffsetRange("in", 0, 10, 12), OffsetRange("in", 1, 4, 7))))
    wider = DivisionRecord(epoch=0, step=1, ranges=ranges)
    state = folded(claim(0), division(0, 3, 10), step(0, 5), wider)
    expected = {TopicPartition("in", 0): 3, TopicPartition("in", 1): 4}
    cut = StepLogState("log", offset_next=40).apply(state.snapshot(), 40)
    assert state.firsts == cut.firsts == expected
    assert folded(*BUSY, refresh(), reset()).firsts == {}


def test_a_reset_forgets_outputs_that_are_not_the_same_topic_any_more() -> None:
    state = folded(*BUSY, refresh(), taken_back(9), reset(topics=()))
    assert (state.ends, state.topics) == ({}, {})


@pytest.mark.parametrize(
    ("before", "record", "reason"),
    [
        (BUSY, refresh(2), "generation 2 does not follow generation 0"),
        (BUSY, reset(), "no refresh is under way"),
        (BUSY, taken_back(7), "no refresh is under way"),
        ((*BUSY, refresh()), refresh(), "a refresh is under way"),
        ((*BUSY, refresh()), reset(2), "generation 2 does not follow"),
        ((*BUSY, refresh()), reset(1, ("in",)), "keeps topics that the refresh did not empty"),
        ((*BUSY, refresh()), taken_back(4), "decreases"),
        ((*BUSY, refresh()), taken_back(7, "other"), "no tombstones for its topic"),
        ((*BUSY, refresh()), step(1, 6), "full refresh to generation 1 is under way"),
        ((*BUSY, refresh()), division(2, 12, 13), "full refresh"),
        ((*BUSY, refresh()), intent(version(2, 1)), "full refresh"),
        ((*BUSY, refresh()), layout(), "full refresh"),
        ((*BUSY, refresh(), reset()), reset(), "generation 1 does not follow generation 1"),
        ((*BUSY, refresh(), reset()), step(1, 6), "where step 0 is the next to be written"),
    ],
)
def test_a_refresh_is_finished_before_anything_else(before: tuple[Record, ...], record: Record, reason: str) -> None:
    state = folded(*before)
    with pytest.raises(BrokenStepLog, match=reason):
        state = state.apply(record, 99)


def test_another_run_finishes_the_refresh() -> None:
    state = folded(*BUSY, refresh(), claim(1), Reset(epoch=1, generation=1))
    assert (state.generation, state.epoch, state.refresh) == (1, 1, None)


@pytest.mark.parametrize("at", [5, 6, 7, 8])
def test_a_snapshot_carries_the_generation_and_a_refresh_under_way(at: int) -> None:
    records: list[Record] = [
        claim(0),
        division(0, 0, 1),
        step(0, 5),
        refresh(),
        taken_back(7),
        reset(),
        division(0, 0, 1, 0, "j"),
    ]
    whole = folded(*records[: at - 1])
    cut = StepLogState("log", offset_next=40)
    cut = cut.apply(whole.snapshot(), 40)
    assert cut.snapshot() == whole.snapshot()
    for offset, record in enumerate(records[at - 1 :], start=50):
        whole = whole.apply(record, offset)
        cut = cut.apply(record, offset)
    assert cut.snapshot() == whole.snapshot() and cut.generation == 1
    cut.check()


def grown_division(number: int, partitions: int, grown: tuple[str, ...]) -> DivisionRecord:
    return DivisionRecord(
        epoch=0, step=number, ranges=(), topics=(TopicIdentity(topic="in", id="i", partitions=partitions),), grown=grown
    )


def test_growth_is_recorded_with_every_division_from_the_one_that_finds_it() -> None:
    state = folded(claim(0), grown_division(0, 1, ()), step(0, 1))
    with pytest.raises(BrokenStepLog, match="have grown"):
        state = state.apply(grown_division(1, 2, ()), 50)
    state = state.apply(grown_division(1, 2, ("in",)), 50)
    state = state.apply(step(1, 2), 51)
    with pytest.raises(BrokenStepLog, match="have grown"):
        state = state.apply(grown_division(2, 2, ()), 52)
    assert state.topics_grown([]) == ("in",)
    cut = StepLogState("log", offset_next=60)
    cut = cut.apply(state.snapshot(), 60)
    assert cut.topics_grown([]) == ("in",)


# Snapshots have all fields, and those of former versions are read


def test_every_field_of_the_state_is_in_a_snapshot_or_is_said_not_to_be() -> None:
    """A field that is forgotten would be lost when the log is truncated, long after the step that needed it."""
    names = {field.name for field in fields(StepLogState)}
    assert (
        FROM_SNAPSHOTS.keys() | NOT_IN_SNAPSHOTS.keys() == names and not FROM_SNAPSHOTS.keys() & NOT_IN_SNAPSHOTS.keys()
    )
    assert IN_SNAPSHOTS.keys() == Snapshot.model_fields.keys() - {"kind", "format", "epoch"}


def test_a_field_is_the_same_after_a_snapshot() -> None:
    """Each one, of a state in which none has the value that it has in a new log."""
    state = full_state()
    new = StepLogState("log")
    seen = {name for name in FROM_SNAPSHOTS if getattr(state, name) != getattr(new, name)}
    assert seen | {"refresh", "is_former", "step_records"} == FROM_SNAPSHOTS.keys(), "a field has nothing to lose"
    found = StepLogState("log", offset_next=90).apply(state.snapshot(), 90)
    for name in seen - {"divisions", "step_records"}:
        assert getattr(found, name) == getattr(state, name), name
    assert found.pending == state.pending and found.steps == state.steps


SAMPLES = Path(__file__).parent / "samples"
"""Logs that former versions have written, with a snapshot after each kind of record."""

of_each_former_format = pytest.mark.parametrize("number", [2, 3])


def sample(number: int) -> list[bytes]:
    return (SAMPLES / f"step_log_format_{number}.jsonl").read_bytes().splitlines()


def full_state() -> StepLogState:
    """In the middle of the sample of format 2, when a rescale that was turned is under way, and two steps are divided. With a checkpoint that
    is being made."""
    records = [decode(line, "log", 0) for line in sample(2)]
    state = folded(*records[: next(n for n, record in enumerate(records) if isinstance(record, Refresh))])
    begun = CheckpointIntent(epoch=1, version=version(3, 2), placed=placed(0, 1))
    revisions = RevisionState(root=revision(), in_force=revision())
    again = {TopicPartition("in", 0): 3}
    full = state.apply(begun, state.offset_next)
    return replace(
        full,
        generation=7,
        leaves=leaves_record(),
        revisions=revisions,
        again=again,
        replayed_from=2,
        stored=stored(version(1, 1)),
        auto=auto(2, 3),
        origin=origin(version(1, 1)),
        clock_us=5,
        idle=("in",),
    )


KEPT_BY_A_REFRESH = {"topic", "offset_next", "claim", "revisions", "topics", "ends", "generation", "auto"}
FORGOTTEN_BY_A_REFRESH = {
    *("divisions", "step_records", "next_offsets", "firsts", "intent", "checkpoints", "placed", "layout", "rescale", "turns", "is_former"),
    *("circuit", "leaves", "tables", "refresh", "counted", "errors", "grown", "snapshots", "again", "replayed_from", "stored", "origin"),
    *("clock_us", "idle", "has_ended"),
}  # fmt: skip


def test_each_field_of_the_state_is_kept_or_forgotten_by_a_refresh() -> None:
    """A new field has to be said: it is forgotten unless `_reset` names it."""
    assert {field.name for field in fields(StepLogState)} == KEPT_BY_A_REFRESH | FORGOTTEN_BY_A_REFRESH
    state, new = full_state(), StepLogState("log")
    out = next(iter(state.ends)).topic
    begun = refresh(state.generation + 1, (out,)).model_copy(update={"epoch": state.epoch})
    done = Reset(epoch=state.epoch, generation=state.generation + 1, topics=begun.topics)
    after = folded_on(state, begun, done)
    assert {name for name in FORGOTTEN_BY_A_REFRESH if getattr(after, name) != getattr(new, name)} == set()
    assert {name for name in KEPT_BY_A_REFRESH if getattr(after, name) == getattr(new, name)} == {"topic"}


STILL_TELL_OF_A_TOPIC = {
    "divisions",  # of the steps that are kept
    "again",  # of a transition, which is over when a topic is forgotten
    "tables",  # which the caller clears
    "idle",  # handles of sources, which are called like their topics here
}


def test_of_a_topic_that_is_no_input_any_more_each_field_is_asked() -> None:
    """A new field that tells of input topics has to be cleared by `_without_topics`, or named here with a reason."""
    state, gone = full_state(), next(iter(full_state().next_offsets)).topic
    telling = {each.name for each in fields(state) if f"'{gone}'" in repr(getattr(state, each.name))}
    now = state._without_topics(frozenset({gone}))
    left = {each.name for each in fields(now) if f"'{gone}'" in repr(getattr(now, each.name))}
    assert left == STILL_TELL_OF_A_TOPIC, left
    assert telling - left == {"topics", "next_offsets", "firsts", "grown"}, telling


def at_time(record: DivisionRecord, clock_us: int | None) -> DivisionRecord:
    return record.model_copy(update={"clock_us": clock_us})


def test_the_time_of_steps_never_goes_back_and_stays_with_a_step_that_is_divided_again() -> None:
    first = at_time(division(0, 0, 10), 7)
    assert folded(claim(0), first).clock_us == 7
    assert (
        folded(claim(0), first, step(0, 5), at_time(division(1, 10, 12), 7), step(1, 6), division(2, 12, 15)).clock_us
        == 7
    )
    with pytest.raises(BrokenStepLog, match="its time is 6, and that of a step before it 7"):
        folded(claim(0), first, step(0, 5), at_time(division(1, 10, 12), 6))
    for again in (
        first.with_ends(0, {TopicPartition("in", 0): 5}),
        first.with_counted(0, (3,), frozenset()),
        first.with_policy(1, InputPolicy({"in": "skip"}, {}, {})),
    ):
        assert again.clock_us == 7
    with pytest.raises(BrokenStepLog):
        folded(claim(0), first, at_time(first.with_ends(0, {TopicPartition("in", 0): 5}), 8))


def test_a_division_without_a_time_has_the_form_that_it_had() -> None:
    assert b"clock_us" not in encode(division(0, 0, 10)) and b"clock_us" in encode(at_time(division(0, 0, 10), 0))


def idle_in(record: DivisionRecord, *idle: str) -> DivisionRecord:
    return record.model_copy(update={"idle": idle})


def test_idle_inputs_stay_with_a_step_that_is_divided_again_and_are_those_of_the_last_division() -> None:
    first = idle_in(division(0, 0, 10), "a", "b")
    for again in (
        first.with_ends(0, {TopicPartition("in", 0): 5}),
        first.with_counted(0, (3,), frozenset()),
        first.with_policy(1, InputPolicy({"in": "skip"}, {}, {})),
    ):
        assert again.idle == ("a", "b")
    later = division(1, 10, 12)
    assert folded(claim(0), first).idle == ("a", "b") and folded(claim(0), first, later).idle == ()
    cut = first.with_ends(0, {TopicPartition("in", 0): 5})
    assert folded(claim(0), first, later, cut).idle == ("a", "b"), "what was divided after it is void"
    with pytest.raises(BrokenStepLog):
        folded(claim(0), first, idle_in(cut, "a"))
    with pytest.raises(BrokenStepLog, match="its idle sources are out of order or there twice"):
        folded(claim(0), idle_in(first, "b", "a"))
    assert b"idle" not in encode(later) and b"idle" in encode(first)


@of_each_former_format
def test_a_log_of_a_former_version_is_read_from_its_beginning_and_from_each_snapshot(number: int) -> None:
    records = [decode(line, "log", offset) for offset, line in enumerate(sample(number))]
    whole = folded(*records)
    begins = [offset for offset, record in enumerate(records) if isinstance(record, Snapshot)]
    assert len(begins) > 10
    for begin in begins:
        cut = StepLogState("log", offset_next=2 * begin)
        for offset, record in enumerate(records[begin:], start=begin):
            cut = cut.apply(record, 2 * offset)
            cut.check()
        known = {"firsts": cut.snapshot().firsts}
        assert cut.snapshot() == whole.snapshot().model_copy(update=known)
        assert cut.firsts.items() <= whole.firsts.items(), "the snapshots do not say where the inputs began"
        assert cut.firsts == whole.firsts or number == 2
        assert (cut.revision is None) == (number == 2)


def test_a_log_that_was_made_short_at_a_former_snapshot_takes_what_later_ones_say_of_the_beginnings() -> None:
    """The writer of the later one has read the log from an earlier record on."""
    records = [decode(line, "log", offset) for offset, line in enumerate(sample(2))]
    reset = next(offset for offset, record in enumerate(records) if isinstance(record, Refresh))
    whole = folded(*records[:reset])
    assert whole.firsts
    later = whole.snapshot()
    for begin in (offset for offset, record in enumerate(records[:reset]) if isinstance(record, Snapshot)):
        cut = StepLogState("log", offset_next=2 * begin)
        for offset, record in enumerate(records[begin:reset], start=begin):
            cut = cut.apply(record, 2 * offset)
        cut = cut.apply(later, 900)
        cut.check()
        assert cut.firsts == whole.firsts
    another = later.model_copy(update={"firsts": (PartitionOffset(topic="nobody", partition=0, offset=1),)})
    with pytest.raises(BrokenStepLog, match="contradicts"):
        whole.apply(another, 900)


def test_a_hot_change_of_an_earlier_release_goes_on_as_a_live_one() -> None:
    """Also from a snapshot."""
    written = encode(change()).replace(b'"live"', b'"hot"')
    assert b'"hot"' in written and decode(written, "log", 2) == change()


@of_each_former_format
def test_what_a_former_version_has_written_is_written_alike(number: int) -> None:
    """Fields may have come since; what was said before is said as it was."""
    for line in sample(number):
        assert is_part_of(json.loads(as_present(line)), json.loads(encode(decode(line, "log", 0))))


def is_part_of(before: Any, now: Any) -> bool:
    match before:
        case dict():
            return all(key in now and is_part_of(value, now[key]) for key, value in before.items())
        case list():
            return len(before) == len(now) and all(is_part_of(a, b) for a, b in zip(before, now, strict=True))
        case _:
            return bool(before == now)
