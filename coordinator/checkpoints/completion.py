"""What the step log says of checkpoints: the records that begin and complete one, and which steps are needed after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from base.slots import drop_empty
from base.version import EMPTY, VersionId
from engine.model.placement import Placement
from io_kafka.clients.writer import PipelineWriter
from io_kafka.step_log.layout_records import (
    LayoutRecord,
    Outcome,
    Ownership,
    ranges_of,
)
from io_kafka.step_log.records import CheckpointComplete, Record
from io_kafka.step_log.state import StepLogState


def ownership_of(placement: Placement, births: Mapping[int, str], state: StepLogState) -> Ownership:
    """Who owns what, as a checkpoint records it: without workers that are about to leave, and without those that have not got any slots
    yet."""
    staying = set() if state.target is None else set(state.target.members)
    if state.target is None or ranges_of(placement.owned) != state.target.ranges:
        staying = set(drop_empty(placement.owned))
    return Ownership.of({worker: births[worker] for worker in staying}, placement.owned)


def completion_records(version: VersionId, state: StepLogState, epoch: int, *, is_moved: bool) -> list[Record]:
    """The records that complete a checkpoint. If it has the owners to which the rescale under way leads, they settle the rescale too.
    `is_moved`: whether the owners are these now. After a turn back, slots may have moved since the checkpoint was frozen."""
    complete = CheckpointComplete(epoch=epoch, version=version)
    target, placed = state.target, state.placed[version]
    if target is None or not is_moved or (placed.ranges, tuple(placed.births)) != (target.ranges, target.members):
        return [complete]
    assert state.rescale is not None
    outcomes: dict[str, Outcome] = {"reverse": "reversed", "abort": "aborted", "replan": "changed"}
    last = state.turns[-1] if state.turns else None
    settled = LayoutRecord(
        epoch=epoch,
        number=state.rescale.change,
        shards=target.shards,
        policy=target.policy,
        placed=placed,
        asked=state.rescale.asked if last is None else last.asked,
        outcome="changed" if last is None else outcomes[last.reason],
    )
    return [complete, settled]


def record_completion(writer: PipelineWriter, version: VersionId) -> None:
    """Writes the completion of `version`, which was just opened everywhere, if the log has only its intent. Every worker had folded the
    version, and the run before ended before it could write that."""
    if writer.state.intent == version:
        writer.log.append(completion_records(version, writer.state, writer.epoch, is_moved=True))


def first_needed_step(version: VersionId, checkpoints: Iterable[VersionId], kept: Iterable[VersionId]) -> int:
    """The first step that a later attempt of this run can replay, after `version` was opened. `checkpoints`: the complete ones. On another host
    the next attempt may find a copy of a database that is not further than the last of them. `kept`: those of the checkpoint
    store to which a lost disk is restored."""
    return min([version.step, max(checkpoints, default=EMPTY).step, *(stored.step for stored in kept)])
