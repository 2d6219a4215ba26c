"""Checkpoints of a crew, and reads of the last one."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from base.version import VersionId
from engine.resident.crew.workers import Workers
from engine.resident.frames import Buffer
from engine.resident.messages import Contents, ExpediteFold, FoldLayer, FreezeLayer, LayerFolded, Read


class CrewCheckpoints:
    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    def freeze(self, version: VersionId, in_error: Collection[str] | None) -> None:
        """Sets every worker's changes since the last version aside as `version`. Called at a drained boundary. `in_error`: the views that have
        no answer in the version; None if they are those of the previous version."""
        views = None if in_error is None else tuple(sorted(in_error))
        self._workers.ask(FreezeLayer(version=version, in_error=views))

    def expedite_fold(self) -> None:
        """Has the fold under way do nothing more than it must, because something waits for it."""
        self._workers.send(ExpediteFold())

    def begin_fold(self, *, may_rewrite: bool) -> None:
        """Makes the frozen changes durable in the background. `poll_folds` reports when it is over. `may_rewrite`: whether files that are mostly
        free may be rewritten."""
        self._workers.roster.begin(FoldLayer, dict.fromkeys(self._workers.numbers, FoldLayer(may_rewrite=may_rewrite)))

    def poll_folds(self) -> dict[int, LayerFolded] | None:
        """The answers to `begin_fold`; None until all workers have answered. Raises the fault of a fold that failed, without waiting for the
        others."""
        answers = self._workers.poll_answers(FoldLayer)
        for number, answer in (answers or {}).items():
            self._workers.note_disk_use(number, sum(answer.table_bytes.values()), answer.free_bytes)
        return answers

    @property
    def folding(self) -> list[int]:
        """The workers that have not answered `begin_fold`."""
        return self._workers.roster.workers_asked(FoldLayer)

    def begin_read(self, views: Sequence[str], revision: int, *, checks_errors: bool) -> None:
        """Has every worker read the views of a revision in the background. `poll_read` reports when that is over. `checks_errors`: as in
        `read_views`."""
        order = Read(views=tuple(views), revision=revision, checks_errors=checks_errors)
        self._workers.roster.begin(Read, dict.fromkeys(self._workers.numbers, order))

    def poll_read(self) -> dict[int, tuple[Contents, tuple[Buffer, ...]]] | None:
        """The answers to `begin_read`; None until all workers have answered. Raises the fault of the lowest worker that had one."""
        self._workers.roster.poll(0.0)
        return self._workers.roster.poll_answers(Read)
