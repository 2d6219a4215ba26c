"""What is always true of what the step log says, whatever records were folded in."""

from __future__ import annotations

from itertools import pairwise

from io_kafka.offsets import TopicPartition
from io_kafka.step_log.revision_state import Switching
from io_kafka.step_log.value import CHECKPOINTS_KEPT, PENDING_STEPS_MAX, LogValue


def check_invariants(log: LogValue) -> None:
    """Asserts them; a failure is a bug in Stepwell."""
    _check_steps(log)
    _check_inputs(log)
    _check_outputs(log)
    _check_checkpoints(log)
    _check_layouts(log)
    _check_revisions(log)
    is_new = not (log.divisions or log.checkpoints or log.intent or log.snapshots)
    assert log.claim is not None or is_new, "records before any claim"
    assert all(a < b for a, b in pairwise(log.snapshots)), f"snapshots out of order: {log.snapshots}"
    assert all(offset < log.offset_next for offset, _ in log.snapshots), "a snapshot that was not folded in"


def _check_steps(log: LogValue) -> None:
    first = log.divisions.first
    assert 0 <= log.first == first <= log.steps, f"steps from {log.first} on, and divisions from {first} on"
    ahead = log.division_next - log.steps
    assert 0 <= ahead <= PENDING_STEPS_MAX, f"{ahead} steps are divided ahead of the output"
    has_lost_nodes = any(map(log.revisions.lacks_nodes_at, range(log.steps, log.division_next)))
    uncounted = log.nodes_in_error - set(log.counted)
    assert has_lost_nodes or not uncounted, f"error rows of nodes {uncounted}, which the next division does not count"


def _check_inputs(log: LogValue) -> None:
    at: dict[TopicPartition, int] = {}
    for step in sorted(log.divisions):
        for r in log.divisions[step].ranges:
            before = at.setdefault(r.where, r.start)
            assert before == r.start <= r.end, f"step {step}: {r.where} has [{r.start}, {r.end}) after {before}"
            at[r.where] = r.end
    gone = {where for where in at if log.replayed_from and where not in log.next_offsets}
    for where in at.keys() - gone:
        assert log.next_offsets[where] == at[where], f"{where}: the next division begins elsewhere than at {at[where]}"
    for where, first in log.firsts.items():
        assert first <= log.next_offsets[where], f"{where}: the first division begins at {first}, after the next one"


def _check_outputs(log: LogValue) -> None:
    ends: dict[TopicPartition, int] = {}
    for step in sorted(log.step_records):
        for where, end in log.step_records[step].ends.items():
            assert ends.get(where, 0) <= end, f"step {step}: the end of {where} decreases to {end}"
            assert end <= log.ends[where], f"step {step}: the end of {where} is above that of the log"
            ends[where] = end


def _check_checkpoints(log: LogValue) -> None:
    versions, stored = log.checkpoints, log.stored
    assert len(versions) <= CHECKPOINTS_KEPT, f"{len(versions)} checkpoints are kept"
    assert all(a.version < b.version for a, b in pairwise(versions)), f"checkpoints out of order: {versions}"
    assert all(v.step <= log.steps for v in versions), "a checkpoint of a step that is not written"
    assert stored is None or versions, "a version is stored, and none is complete"
    assert stored is None or stored.version.step <= log.steps, "a stored version of a step that is not written"
    known = {*versions, *([] if log.intent is None else [log.intent])}
    assert log.placed.keys() == known, "other versions have owners than can be opened"


def _check_layouts(log: LogValue) -> None:
    if log.rescale is None:
        assert not log.turns, "turns without a rescale"
    else:
        assert log.layout is not None, "a rescale before any layout"
        assert log.rescale.change == log.layout.number + 1, "a rescale that does not lead to the next layout"


def _check_revisions(log: LogValue) -> None:
    revisions = log.revisions
    revisions.check()
    assert log.revision is None or (log.circuit is None and log.leaves is None), "a project in two forms"
    if isinstance(revisions.phase, Switching):
        assert set(revisions.phase.known) <= log.topics.keys(), "a switch has forgotten topics"
        assert log.steps == revisions.phase.switch.step, "a step of the next revision before the switch is written"
    for step in log.divisions:
        before, after = log.filled_before(step), log.filled_after(step)
        passage = revisions.passage_that_fills(step)
        assert passage is None or before <= after <= passage.intent.whole, f"step {step} fills from {before} to {after}"
        drain = revisions.drain_at(step)
        assert drain is None or before <= after <= drain.whole, f"step {step} drains from {before} to {after}"
    for passage in revisions.passages:
        if passage.switch is not None and passage.switch >= log.first:
            assert log.filled_after(passage.switch - 1) == passage.intent.whole, "a switch before all is filled"
