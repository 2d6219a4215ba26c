"""The folds of one worker, and whether the file of its database is to shrink after one.

A fold runs in a thread of its own, beside the steps. The worker's thread counts the folds, because orders come to it.
"""

from __future__ import annotations

from collections.abc import Callable

from base.fault import Fault
from base.logger import Logger
from engine.resident.messages import LayerFolded
from storage.database import Database

_log = Logger("engine.resident.worker")

LOOKS_AT_FOLDS = (2, 3)
"""After these folds since its database was opened, or since slots have left, a worker looks whether the file is to be compacted. Folds during a
change of the layout do not count. In the first one what has left comes into the undo log. After the last one, free pages are those that a fold
needs."""


class Folds:
    """The folds of one worker. `free_bytes`: of the disk under the database. `before`: is called before each
    fold, in its thread."""

    def __init__(
        self, worker: int, epoch: int, free_bytes: Callable[[], int], before: Callable[[Database], None]
    ) -> None:
        self._worker, self._epoch, self._free_bytes, self._before = worker, epoch, free_bytes, before
        self._count = 0  # that were begun since `restart`, and in which the file may be rewritten
        self._is_hurried = False

    def restart(self) -> None:
        """The database was opened, or slots have left it."""
        self._count = 0

    def hurry(self) -> None:
        """The coordinator waits for the fold."""
        self._is_hurried = True

    def begin(self, *, may_rewrite: bool) -> bool:
        """Whether this fold looks at the size of the file."""
        self._count += may_rewrite
        self._is_hurried = False
        return may_rewrite and self._count in LOOKS_AT_FOLDS

    def fold(self, database: Database, *, looks: bool) -> LayerFolded:
        """Folds, in a thread of its own. `looks`: whether the file is to shrink if much of it is free."""
        self._before(database)
        database.fold()
        if looks:
            self._compact(database)
        sizes = database.statistics()
        folded = LayerFolded(
            versions=Database.versions(database.path),
            table_bytes=sizes.table_bytes,
            disk_bytes=sizes.disk_bytes,
            free_bytes=self._free_bytes(),
        )
        # Raises if a newer term has opened the database in the meantime: it may have discarded the version.
        Database.attach(database.path, epoch=self._epoch, identity=database.identity)
        return folded

    def _compact(self, database: Database) -> None:
        """The version is complete already, so no fault of this may fail the fold. What matters is found by the next transaction."""
        try:
            if database.compact(lambda: not self._is_hurried):
                _log.info("the file of the state was rewritten without its free pages", worker=self._worker)
        except (Fault, OSError) as fault:
            _log.warning("the file of the state could not be rewritten", worker=self._worker, fault=str(fault))
