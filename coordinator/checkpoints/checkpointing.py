"""Carries out a checkpoint: intent, freeze, fold and completion. Then it removes what no recovery needs any more.

    LogIntent --> Freeze --> Fold ........ steps go on ........ fold over --> Complete --> snapshot, if one is due
    log           databases  on the workers                                   log         truncation, if it is worth it

core.py decides when each part is due. This module carries it out first and reports it to the core afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import assert_never

from base.logger import Logger
from base.version import VersionId
from coordinator.actions import CheckpointAction, Complete, Fold, Freeze, LogIntent
from coordinator.checkpoints.completion import completion_records, first_needed_step, ownership_of
from coordinator.checkpoints.truncation import Truncation, snapshot_due
from coordinator.core import Core
from coordinator.loop_part import LoopPart, Recovered
from coordinator.measures import SettledStep
from coordinator.specification import PipelineSpec
from coordinator.status import StatusBoard
from coordinator.stepping.views_in_error import views_before
from engine.model.numbers import number_of
from engine.resident.crew import Crew
from engine.resident.messages import LayerFolded
from engine.run.task_setup import TaskSetup
from faults.points import reached
from io_kafka.clients.topics import Topics
from io_kafka.clients.writer import PipelineWriter
from io_kafka.step_log.records import CheckpointIntent

_log = Logger("coordinator.checkpoints.checkpointing")

SLOW_FOLD_SECONDS = 60.0
"""After this time, and again after each such time, a fold that has not ended is reported. A fold of some GB takes a minute on a slow disk."""


class Checkpointing(LoopPart):
    """The checkpoints of one run. `failed_in_a_row` counts the folds that failed since the last one that succeeded."""

    def __init__(
        self,
        spec: PipelineSpec,
        writer: PipelineWriter,
        topics: Topics,
        board: StatusBoard,
        *,
        kept: Callable[[], Iterable[VersionId]],
    ) -> None:
        """`kept`: the versions of the checkpoint store from which the steps have to stay in the log (see Storing)."""
        self._spec, self._writer, self._board = spec, writer, board
        self._kept = kept
        self._monotonic = spec.kafka.outside.monotonic
        self._truncation = Truncation(topics, self._monotonic)
        self._began_at = self._monotonic()
        self._asked_at = 0.0  # when one was asked for last, because of the interval between two
        self._folded: dict[int, LayerFolded] = {}
        self._fold_told_at = 0.0
        self._is_hurried = False
        self.is_folding = False
        """Whether a fold is under way."""
        self.failed_in_a_row = 0
        self.node_bytes: Mapping[int, int] = {}
        """The bytes of the state of each node on all workers, by number, as of the last checkpoint of this run."""

    def recovered(self, recovered: Recovered) -> None:
        self._asked_at = self._monotonic()

    def look(self, core: Core, crew: Crew) -> None:
        """Asks for a checkpoint if the last one was asked for long ago."""
        now = self._monotonic()
        is_due = now - self._asked_at >= self._spec.checkpoint_interval_s
        if is_due and core.request_periodic_checkpoint(self._writer.state):
            self._asked_at = now

    def note_step(self, step: SettledStep) -> None:
        """Nothing has to be noted: the core counts steps, and says when a checkpoint is due."""

    @property
    def awaits_answers(self) -> bool:
        return self.is_folding

    def do(self, action: CheckpointAction, core: Core, crew: Crew, births: Mapping[int, str]) -> None:
        """Carries out the action, then reports it to the core. `births`: of the workers."""
        match action:
            case LogIntent(version):
                self._began_at = self._monotonic()
                reached("checkpoint.paused")
                assert crew.placement is not None
                placed = ownership_of(crew.placement, births, self._writer.state)
                self._writer.log.append([CheckpointIntent(epoch=self._writer.epoch, version=version, placed=placed)])
            case Freeze(version):
                reached("checkpoint.intended")
                crew.checkpoints.freeze(version, views_before(crew.answers, self._writer.state, version.step))
                reached("checkpoint.frozen")
                core.frozen(self._writer.state)
            case Fold():
                # Rewriting a file keeps the disk busy, so it does not come together with the cuts of a rescale.
                crew.checkpoints.begin_fold(may_rewrite=core.rescale.is_idle)
                self._fold_told_at = self._monotonic()
                self.is_folding, self._is_hurried = True, False
                core.folding()
            case Complete():
                self._complete(action, core, crew.setup)
            case _:
                assert_never(action)

    def notice_fold(self, core: Core, crew: Crew) -> None:
        """Reports a fold that is over to the core. Raises the fault that ended it, if it failed."""
        if not self.is_folding:
            return
        folded = crew.checkpoints.poll_folds()
        if folded is None:
            if not self._is_hurried and (core.stopping or not core.rescale.is_idle):
                self._is_hurried = True
                crew.checkpoints.expedite_fold()
            self._tell_of_slow_fold(crew)
            return
        self.is_folding, self.failed_in_a_row = False, 0
        self._folded = folded
        reached("checkpoint.folded")
        core.folded({worker: answer.versions for worker, answer in folded.items()})

    def _tell_of_slow_fold(self, crew: Crew) -> None:
        """A disk that hangs is no loss of a worker: the steps go on. But what they write until the next checkpoint grows meanwhile."""
        now = self._monotonic()
        if now - self._fold_told_at >= SLOW_FOLD_SECONDS:
            self._fold_told_at = now
            _log.warning(
                "a checkpoint has not ended",
                seconds=round(now - self._began_at),
                workers=crew.checkpoints.folding,
                what_to_do="look at the disks of these workers' hosts; the steps go on, and a restart would replay them",
            )

    def forget_steps(self, opened: VersionId) -> None:
        """Drops from memory the steps that no later attempt of this run can replay, after this version was opened."""
        writer = self._writer
        writer.log.forget(first_needed_step(opened, writer.state.checkpoints, self._kept()))

    def give_up_fold(self, *, may_be_the_cause: bool) -> None:
        """The crew is gone. A fold that was under way counts as failed if it may be what the crew was lost by, wherever that was noticed."""
        if self.is_folding and may_be_the_cause:
            self.failed_in_a_row += 1
        self.is_folding = False

    def _complete(self, action: Complete, core: Core, setup: TaskSetup) -> None:
        writer, was_under_way = self._writer, self._writer.state.rescale is not None
        writer.log.append(
            completion_records(action.version, writer.state, writer.epoch, is_moved=core.rescale.is_moved)
        )
        core.completed(writer.state)
        reached("checkpoint.completed")
        if was_under_way and writer.state.rescale is None:
            reached("settle.completed")
        if snapshot_due(writer.state, self._spec.pace.snapshot_steps_min):
            writer.log.append([writer.state.snapshot()])
            reached("checkpoint.snapshot")
        pace = self._spec.pace
        earliest = first_needed_step(action.former, (action.former,), self._kept())
        writer.log.forget(earliest)
        cut = self._truncation.make(writer.state, earliest, self._spec.steps_kept, pace.truncate_steps_min)
        if cut is not None:
            writer.log.note_truncation(cut)
            reached("checkpoint.truncated")
        took_ms = 1e3 * (self._monotonic() - self._began_at)
        self._board.note_checkpoint(action.version.version, action.version.step, took_ms)
        tables, disk = bytes_of(self._folded.values(), setup)
        self._board.update(state_bytes=tables, disk_bytes=disk)
        self.node_bytes = bytes_of_nodes(self._folded.values())


def bytes_of_nodes(folded: Iterable[LayerFolded]) -> dict[int, int]:
    found: dict[int, int] = {}
    for each in folded:
        for table, size in each.table_bytes.items():
            number = number_of(table)
            if number is not None:
                found[number] = found.get(number, 0) + size
    return found


def bytes_of(folded: Iterable[LayerFolded], setup: TaskSetup) -> tuple[dict[str, int], dict[str, int]]:
    """The bytes of all workers together: (live state, by the view that owns it; bytes on disk, by layer)."""
    tables: dict[str, int] = {}
    disk: dict[str, int] = {}
    for found in folded:
        for table, size in found.table_bytes.items():
            owner = setup.owner_of_table(table)
            tables[owner] = tables.get(owner, 0) + size
        for layer, size in found.disk_bytes.items():
            disk[layer] = disk.get(layer, 0) + size
    return tables, disk
