"""Carries out a checkpoint: intent, freeze, fold, completion, and what a completed checkpoint lets go.

    LogIntent --> Freeze --> Fold ........ steps go on ........ fold over --> Complete --> snapshot, if one is due
    log           databases  in a thread of its own                           log         truncation, if it is worth it

The core decides when each part is due (core.py); this module does it and reports it afterwards.
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
"""For the fold of a lost attempt to end before databases are opened again. One that hangs is fenced by that, or holds a database's lock,
which `open` then tells."""


class Checkpointing:
    """The checkpoints of one run. `failed_in_a_row`: folds that failed since the last one that did not."""

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
        """Whether a fold is under way, or has ended and was not noticed yet."""
        return self._fold is not None

    def do(self, action: CheckpointAction, core: Core, runner: StepRunner, setup: TaskSetup) -> None:
        """Does what the core asks for, then reports it."""
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
        """Reports a fold that is over; raises what ended it, if it failed."""
        if self._fold is None or not self._fold.is_over:
            return
        fold, self._fold = self._fold, None
        self.failed_in_a_row += 1
        self._folded = fold.result()
        self.failed_in_a_row = 0
        reached("checkpoint.folded")
        core.folded({worker: folded.versions for worker, folded in self._folded.items()})

    def join_fold(self) -> None:
        """Before databases are opened again, the fold of the former attempt is over."""
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
    """The bytes of all workers together: of live state by the view that owns it, and on disk by layer."""
    tables: dict[str, int] = {}
    disk: dict[str, int] = {}
    for found in folded:
        for table, size in found.statistics.table_bytes.items():
            owner = setup.owner_of_table(table)
            tables[owner] = tables.get(owner, 0) + size
        for layer, size in found.statistics.disk_bytes.items():
            disk[layer] = disk.get(layer, 0) + size
    return tables, disk
