"""Which record can follow what the log says: see the diagram in state.py."""

from __future__ import annotations

from typing import assert_never

from base.version import VersionId
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.common_rules import is_ascending, why_not_topic
from io_kafka.step_log.former_formats import CircuitRecord, Former, LeavesRecord
from io_kafka.step_log.layout_records import LayoutAuto, LayoutIntent, LayoutRecord, LayoutTurn
from io_kafka.step_log.layout_rules import why_not_layout, why_not_placed
from io_kafka.step_log.records import (
    CheckpointComplete,
    CheckpointIntent,
    CheckpointStored,
    Claim,
    Copied,
    DivisionRecord,
    Ended,
    Record,
    Refresh,
    Reset,
    Snapshot,
    StepRecord,
    TableRecord,
    TakenBack,
)
from io_kafka.step_log.revision_records import (
    RevisionIntent,
    RevisionPause,
    RevisionRecord,
    RevisionSettled,
    RevisionSwitch,
    RevisionTurn,
)
from io_kafka.step_log.revision_rules import why_not_filled, why_not_revision, why_not_transition
from io_kafka.step_log.snapshots import as_offsets, snapshot_of
from io_kafka.step_log.table_records import why_not_ranges
from io_kafka.step_log.value import PENDING_STEPS_MAX, LogValue


def why_not(log: LogValue, record: Record) -> str | None:
    """Why the record cannot follow what the log says; None if it can. Nothing is folded in, and nothing is written, without this question."""
    if log.claim is None and log.offset_next > 0 and not isinstance(record, Snapshot):
        return "the records before it were deleted, and it is not a snapshot"
    if isinstance(record, Claim):
        return None if record.epoch > log.epoch else f"epoch {log.epoch} was claimed before"
    if log.has_ended:
        return f"the run of epoch {log.epoch} has ended, and only another claim can follow"
    if isinstance(record, Snapshot):
        return _why_not_snapshot(log, record)
    if isinstance(record, Copied) and record.epoch == log.epoch:
        return why_not_new(log) or _why_not_copied(log, record.state)
    if record.epoch < log.epoch:
        return f"epoch {log.epoch} has been claimed since: its writer was fenced"
    if record.epoch > log.epoch:
        return f"its epoch was never claimed; the highest is {log.epoch}"
    if isinstance(record, Ended):
        return None
    if isinstance(record, Refresh | TakenBack | Reset):
        return _why_not_refresh(log, record)
    if log.refresh is not None:
        return f"a full refresh to generation {log.refresh.generation} is under way, and no reset followed"
    if isinstance(record, DivisionRecord):
        return _why_not_division(log, record)
    if isinstance(record, StepRecord):
        return _why_not_step(log, record)
    if isinstance(record, CheckpointIntent):
        return _why_not_intent(log, record.version) or why_not_placed(record.placed, log.layout_ground)
    if isinstance(record, CheckpointComplete):
        return _why_not_complete(log, record.version)
    if isinstance(record, CheckpointStored):
        return _why_not_stored(log, record)
    if isinstance(record, RevisionRecord):
        return why_not_revision(record, log.revision_ground)
    if isinstance(record, RevisionIntent | RevisionSwitch | RevisionTurn | RevisionPause | RevisionSettled):
        return why_not_transition(record, log.revision_ground)
    if isinstance(record, CircuitRecord | LeavesRecord):
        return _why_not_former_project(log, record)
    if isinstance(record, TableRecord):
        return _why_not_table(log, record)
    if isinstance(record, LayoutRecord | LayoutIntent | LayoutTurn):
        return why_not_layout(record, log.layout_ground, _why_not_first(log, record.kind))
    if isinstance(record, LayoutAuto):
        return "no layout is recorded" if log.layout is None else None
    if isinstance(record, Former | Copied):
        return None
    assert_never(record)


def why_not_new(log: LogValue) -> str | None:
    """Why no state can be copied into this log; None if it has nothing but claims."""
    new = type(log)(log.topic, log.offset_next, log.claim, has_ended=log.has_ended)
    if log == new and log.steps == 0:
        return None
    if log.origin is not None:
        return f"it has a state, which was copied from {log.origin.pipeline} at step {log.origin.version.step}"
    return "it has a state"


def _why_not_copied(log: LogValue, state: Snapshot) -> str | None:
    """The state begins at its stored version, of which this pipeline's own place in the checkpoint store has a copy, and nothing of it was
    written to topics of this pipeline."""
    if state.claim != log.claim or state.epoch != log.epoch:
        return "it is of another run"
    if state.origin is None or state.stored is None or state.revisions.root is None or state.layout is None:
        return "it does not say from where, of which project or with which owners it is"
    if state.epoch <= state.origin.epoch:
        return f"epoch {state.epoch} is not above epoch {state.origin.epoch} of the pipeline that was copied"
    version = state.stored.version
    versions = {state.origin.version, *(each.version for each in state.checkpoints)}
    if versions != {version} or version.step != state.steps or not state.checkpoints:
        return "it does not begin at the version that was copied"
    if state.pending or state.ends or state.intent is not None or state.revisions.phase is not None:
        return "steps are under way in it, or it has output"
    return None


def _why_not_former_project(log: LogValue, record: CircuitRecord | LeavesRecord) -> str | None:
    """Each comes once in a generation, the circuit before its first division."""
    known = log.circuit if isinstance(record, CircuitRecord) else log.leaves
    if known is not None or log.revision is not None:
        return f"{record.kind}: generation {log.generation} has that record already, and it cannot change"
    return _why_not_first(log, record.kind) if isinstance(record, CircuitRecord) else None


def _why_not_table(log: LogValue, record: TableRecord) -> str | None:
    """A table is loaded once in a generation, before the first division, which begins where it begins."""
    if any(known.handle == record.handle and known.is_whole for known in log.tables.values()):
        return f"the table {record.handle} is loaded already"
    return why_not_ranges(record) or _why_not_first(log, record.kind)


def _why_not_first(log: LogValue, kind: str) -> str | None:
    if log.division_next > 0:
        return f"step {log.division_next - 1} is divided already, and the first {kind} must precede step 0"
    return None


def _why_not_refresh(log: LogValue, record: Refresh | TakenBack | Reset) -> str | None:
    if record.generation != log.generation + 1:
        return f"generation {record.generation} does not follow generation {log.generation}"
    if isinstance(record, Refresh):
        return "a refresh is under way" if log.refresh is not None else None
    if log.refresh is None:
        return "no refresh is under way"
    if isinstance(record, Reset):
        ids = {(topic.topic, topic.id) for topic in log.refresh.topics}
        if not ids.issuperset((topic.topic, topic.id) for topic in record.topics):
            return "it keeps topics that the refresh did not empty"
    if isinstance(record, TakenBack):
        for end in record.ends:
            where = TopicPartition(end.topic, end.partition)
            if end.topic not in log.refresh.tombstones or end.offset < log.ends.get(where, 0):
                return f"the end of {where} decreases, or the refresh has no tombstones for its topic"
    return None


def _why_not_snapshot(log: LogValue, record: Snapshot) -> str | None:
    if log.claim is None:
        return None
    known = snapshot_of(log).model_copy(update={"firsts": record.firsts})
    if record != known or not _may_be_firsts(log, record):
        return "it contradicts the records before it"
    return None


def _may_be_firsts(log: LogValue, record: Snapshot) -> bool:
    """A snapshot of format 2 does not say where the inputs began. One that follows it can say it of inputs of which the records since do
    not, because its writer has read the log from an earlier record on."""
    if record.firsts is None:
        return True
    said = as_offsets(record.firsts)
    return log.firsts.items() <= said.items() and said.keys() <= log.next_offsets.keys()


def _why_not_division(log: LogValue, record: DivisionRecord) -> str | None:
    if log.steps <= record.step < log.division_next:
        before = log.divisions[record.step]
        if record.is_shortening_of(before) or record.is_widening_of(before) or record.counts_more_than(before):
            return None
        if record.rereads_less_than(before):
            return None
        if record.epoch > before.epoch:
            return _why_not_recorded_again(log, record, before)
    if record.step != log.division_next:
        return f"of step {record.step}, where step {log.division_next} is the next to be divided"
    if record.step >= log.steps + PENDING_STEPS_MAX:
        return f"of step {record.step}, while output is committed only below step {log.steps}"
    if not is_ascending((r.topic, r.partition) for r in record.ranges):
        return f"of step {record.step}: its partitions are out of order or there twice"
    for r in record.ranges:
        start = log.next_offsets.get(TopicPartition(r.topic, r.partition), r.start)
        if r.start != start or r.end < r.start:
            where = f"{r.topic}/{r.partition}"
            return f"of step {record.step}: {where} has the range [{r.start}, {r.end}), but should start at {start}"
    for topic in record.topics:
        if (reason := why_not_topic(topic, log.topics)) is not None:
            return f"of step {record.step}: {reason}"
    if record.grown != (grown := log.topics_grown(record.topics)):
        return f"of step {record.step}: it says that {record.grown} have grown, the records before it {grown}"
    if (record.clock_us or 0) < (log.clock_us or 0) and record.clock_us is not None:
        return f"of step {record.step}: its time is {record.clock_us}, and that of a step before it {log.clock_us}"
    if not is_ascending(record.idle):
        return f"of step {record.step}: its idle sources are out of order or there twice"
    reason = why_not_filled(record.step, record.filled, log.filled, log.revisions) or _why_not_read_again(log, record)
    return reason or _why_not_counted(log, record)


def _why_not_read_again(log: LogValue, record: DivisionRecord) -> str | None:
    """Each partition is read again without gap, from where its transition says. A partition that its topic got meanwhile is read from where the
    pipeline began with it. New nodes never get input before the revision in force does."""
    if record.again and log.revisions.passage_that_fills(record.step) is None:
        return f"of step {record.step}: it reads input again, and the step fills nothing"
    if not is_ascending(r.where for r in record.again):
        return f"of step {record.step}: what it reads again is out of order or there twice"
    starts, ends = log.reads_again, {r.where: r.end for r in record.ranges}
    new = {r.where: r.start for r in record.ranges if r.where not in log.next_offsets}
    for r in record.again:
        start = starts.get(r.where, log.firsts.get(r.where, new.get(r.where)))
        if r.start != start or not r.start <= r.end <= ends.get(r.where, r.end):
            return (
                f"of step {record.step}: {r.where} is read again from {r.start} to {r.end}, but should be from {start} to "
                f"{ends.get(r.where, 'any end')} at most"
            )
    return None


def _why_not_counted(log: LogValue, record: DivisionRecord) -> str | None:
    """A new division goes on counting the error rows of the nodes that have some. It counts those of other nodes only if it is recorded
    again, because no step may leave out rows before it is known that they have an error.

    The nodes of a transition are an exception. They are counted from their first step on, so that their errors cost no recovery. Error rows of
    nodes that a step lacks end with the nodes."""
    before, now = set(log.counted), set(record.counted)
    if not now <= before and not log.revisions.has_new_nodes_at(record.step):
        return f"of step {record.step}: it counts the error rows of nodes {sorted(now - before)}, the division before it did not"
    may_have_some = before - now and (log.pending or (before - now) & log.nodes_in_error)
    if may_have_some and not log.revisions.lacks_nodes_at(record.step):
        return f"of step {record.step}: it does not count the error rows of nodes {sorted(before - now)}, which may have some"
    if record.released and not before - now:
        return f"of step {record.step}: it releases {record.released}, and counts the error rows of the same nodes as before"
    return None


def _why_not_recorded_again(log: LogValue, record: DivisionRecord, before: DivisionRecord) -> str | None:
    """A later run may record the division of a pending step again, with another policy for malformed messages: nothing of the step was
    written, and every start rolls the state back to the last checkpoint. Everything else must be equal. (`is_shortening_of` and
    `is_widening_of` handle a division over less or more input.)"""
    if record == before.with_policy(record.epoch, record.policy):
        return None
    return f"of step {record.step}, recorded again with another input than epoch {before.epoch} recorded"


def _why_not_step(log: LogValue, record: StepRecord) -> str | None:
    if record.step != log.steps:
        return f"of step {record.step}, where step {log.steps} is the next to be written"
    if record.step not in log.divisions:
        return f"of step {record.step}, which was never divided"
    if not is_ascending((part.handle, part.partition) for part in record.outputs):
        return f"of step {record.step}: its output partitions are out of order or there twice"
    for part in record.outputs:
        before = log.ends.get(part.where, 0)
        if part.end < before:
            return f"of step {record.step}: the end of {part.where} decreases from {before} to {part.end}"
    uncounted = {errors.node for errors in record.errors} - set(log.divisions[record.step].counted)
    if uncounted:
        return (
            f"of step {record.step}: it has error rows of nodes {sorted(uncounted)}, which its division does not count"
        )
    return None


def _why_not_intent(log: LogValue, version: VersionId) -> str | None:
    if log.checkpoints and version.version > log.checkpoints[-1].version + 1:
        return f"version {version.version} would leave a gap after version {log.checkpoints[-1].version}"
    return None


def _why_not_complete(log: LogValue, version: VersionId) -> str | None:
    if version != log.intent:
        return f"version {version.version} ({version.checkpoint_id}) is complete without having been intended"
    if version.step > log.steps:
        return f"version {version.version} holds step {version.step - 1}, whose output is not committed"
    return None


def _why_not_stored(log: LogValue, record: CheckpointStored) -> str | None:
    """Only complete versions are stored. The log knows only the last ones of them, and the store may be late. After a restore of an
    older version a newer one may be restored, which the log does not know any more. Whether the log has the steps since is no question here:
    when it is cut short, it begins with a snapshot from after that version, and such a record may follow that."""
    version = record.version
    if not log.checkpoints or (version.version > log.checkpoints[-1].version and not record.restores):
        return f"version {version.version} ({version.checkpoint_id}) is stored without having been completed"
    if (
        not record.restores
        and version not in log.checkpoints
        and any(version.version == known.version for known in log.checkpoints)
    ):
        return f"version {version.version} ({version.checkpoint_id}) is stored, and another checkpoint has that number"
    if log.steps < version.step:
        return f"version {version.version} holds step {version.step - 1}, whose output is not committed"
    return None
