"""Carries out a checkpoint: intent, freeze, fold and completion. Then it removes what no recovery needs any more.

    LogIntent --> Freeze --> Fold ........ steps go on ........ fold over --> Complete --> snapshot, if one is due
    log           databases  in a thread of its own                           log         truncation, if it is worth it

core.py decides when each part is due. This module carries it out first and reports it to the core afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from coordinator.background_fold import BackgroundFold
from coordinator.core import CheckpointAction, Complete, Core, Fold, Freeze, LogIntent
from coordinator.requests import Requests
from coordinator.specification import PipelineSpec
from coordinator.status import StatusBoard
from coordinator.truncation import snapshot_due, truncate
from engine.run.database_jobs import Folded
from engine.run.step_runner import StepRunner
from engine.run.tasks import TaskSetup
from faults.points import reached
from io_kafka.clients.topics import Topics
from io_kafka.clients.writer import PipelineWriter
from io_kafka.step_log.records import CheckpointComplete, CheckpointIntent

FOLD_SECONDS_MAX = 60.0
"""How long a recovery waits for the fold of the failed attempt to end, before it opens the databases again. A fold that hangs for longer is
fenced by the opening, or it holds a database's lock, which the opening reports."""


class Checkpointing:
    """The checkpoints of one run. `failed_in_a_row` counts the folds that failed since the last one that succeeded."""

    def __init__(
        self, spec: PipelineSpec, writer: PipelineWriter, topics: Topics, requests: Requests, board: StatusBoard
    ) -> None:
        self._spec, self._writer, self._topics = spec, writer, topics
        self._requests, self._board = requests, board
        self._monotonic = spec.kafka.outside.monotonic
        self._began_at = self._monotonic()
        self._fold: BackgroundFold | None = None
        self._folded: dict[int, Folded] = {}
        self.failed_in_a_row = 0

    @property
    def is_folding(self) -> bool:
        """Whether a fold is under way, or has ended and was not reported to the core yet."""
        return self._fold is not None

    def do(self, action: CheckpointAction, core: Core, runner: StepRunner, setup: TaskSetup) -> None:
        """Carries out the action, then reports it to the core."""
        match action:
            case LogIntent(version):
                self._began_at = self._monotonic()
                reached("checkpoint.paused")
                self._writer.append([CheckpointIntent(epoch=self._writer.epoch, version=version)])
            case Freeze(version):
                reached("checkpoint.intended")
                runner.freeze(version)
                reached("checkpoint.frozen")
                core.frozen(self._writer.state)
            case Fold():
                self._fold = BackgroundFold(self._spec.kafka.outside, runner.fold, self._requests.wake)
                core.folding()
            case Complete():
                self._complete(action, core, setup)
            case _:
                assert_never(action)

    def notice_fold(self, core: Core) -> None:
        """Reports a fold that is over to the core. Raises the exception that ended it, if it failed."""
        if self._fold is None or not self._fold.is_over:
            return
        fold, self._fold = self._fold, None
        self.failed_in_a_row += 1
        self._folded = fold.result()
        self.failed_in_a_row = 0
        reached("checkpoint.folded")
        core.folded({worker: folded.versions for worker, folded in self._folded.items()})

    def join_fold(self) -> None:
        """Waits for the fold of the failed attempt, because its databases are about to be opened again."""
        if self._fold is not None:
            self._fold.join(FOLD_SECONDS_MAX)
            self._fold = None

    def _complete(self, action: Complete, core: Core, setup: TaskSetup) -> None:
        writer = self._writer
        writer.append([CheckpointComplete(epoch=writer.epoch, version=action.version)])
        core.completed(writer.state)
        reached("checkpoint.completed")
        if snapshot_due(writer.state, self._spec.pace.snapshot_steps_min):
            writer.append([writer.state.snapshot()])
            reached("checkpoint.snapshot")
        earliest, pace = action.former.step, self._spec.pace
        writer.state.forget(earliest)
        cut = truncate(self._topics, writer.state, earliest, self._spec.steps_kept, pace.truncate_steps_min)
        if cut is not None:
            reached("checkpoint.truncated")
        took_ms = 1e3 * (self._monotonic() - self._began_at)
        self._board.checkpointed(action.version.version, action.version.step, took_ms)
        tables, disk = bytes_of(self._folded.values(), setup)
        self._board.update(state_bytes=tables, disk_bytes=disk)


def bytes_of(folded: Iterable[Folded], setup: TaskSetup) -> tuple[dict[str, int], dict[str, int]]:
    """The bytes of all workers together: (live state, by the view that owns it; bytes on disk, by layer)."""
    tables: dict[str, int] = {}
    disk: dict[str, int] = {}
    for found in folded:
        for table, size in found.statistics.table_bytes.items():
            owner = setup.owner_of_table(table)
            tables[owner] = tables.get(owner, 0) + size
        for layer, size in found.statistics.disk_bytes.items():
            disk[layer] = disk.get(layer, 0) + size
    return tables, disk
