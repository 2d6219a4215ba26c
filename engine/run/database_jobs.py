"""Operations on all workers' databases, each as a small Spark job. Task i acts for worker i, on the host of its database.

The coordinator calls `fence`, `open`, `freeze` and `fold`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, TypeVar, cast

from base.version import VersionId
from engine.errors import EngineError, StaleTask
from engine.run.spark_results import collected
from engine.run.tasks import TaskSetup
from storage.database import Database, FencedState, Statistics
from storage.errors import StorageError

Result = TypeVar("Result")
_Answer = tuple[int, Result, None] | tuple[int, None, StorageError | EngineError]


@dataclass(frozen=True)
class Folded:
    """A worker's answer after a fold: the versions that its database can open now, and its size."""

    versions: tuple[VersionId, ...]
    statistics: Statistics


def fence_all(context: Any, setup: TaskSetup) -> dict[int, FencedState]:
    """Fences every worker's database: no older run can change it from now on. Returns what each of them can open."""
    return _on_workers(context, len(setup.databases), partial(_fence, setup))


def open_all(context: Any, setup: TaskSetup, version: VersionId, fenced: Mapping[int, FencedState]) -> None:
    """Every database opens `version`, durably, and discards the other one, before any step."""
    _on_workers(context, len(setup.databases), partial(_open, setup, version, fenced))


def freeze_all(context: Any, setup: TaskSetup, version: VersionId) -> None:
    """Sets every worker's changes since the last version aside as `version`. It is called at a boundary, between two steps."""
    _on_workers(context, len(setup.databases), partial(freeze, setup, version))


def fold_all(context: Any, setup: TaskSetup) -> dict[int, Folded]:
    """Makes the frozen changes durable. Steps may run at the same time."""
    return _on_workers(context, len(setup.databases), partial(fold, setup))


def _fence(setup: TaskSetup, worker: int) -> FencedState:
    folder, _ = setup.databases[worker]
    return Database.fence(folder, epoch=setup.epoch, identity=setup.identity(worker))


def _open(setup: TaskSetup, version: VersionId, fenced: Mapping[int, FencedState], worker: int) -> None:
    folder, _ = setup.databases[worker]
    Database.open(folder, version, epoch=setup.epoch, identity=setup.identity(worker), fenced=fenced[worker].number)


def freeze(setup: TaskSetup, version: VersionId, worker: int) -> None:
    """As `freeze_all`, for one worker and in this process. Raises StaleTask if the worker's state is not at the version's step."""
    database = setup.attach(worker)
    with database.transaction() as transaction:
        if setup.plan.stages == 1:
            transaction.set_step(version.step)  # a circuit without state has no `run_region` that stores it
        elif (step := transaction.get_step()) != version.step:
            raise StaleTask(
                f"worker {worker} is at step {step}, but the checkpoint is for step {version.step}; nothing was changed."
            )
    database.freeze(version)


def fold(setup: TaskSetup, worker: int) -> Folded:
    """As `fold_all`, for one worker and in this process."""
    database = setup.attach(worker)
    database.fold()
    folded = Folded(Database.versions(database.path), database.statistics())
    # Raises if a newer epoch has opened the database in the meantime: it may have discarded the version.
    setup.attach(worker)
    return folded


def _on_workers(context: Any, workers: int, work: Callable[[int], Result]) -> dict[int, Result]:
    """The results of `work(worker)` on every worker. Raises the fault of the lowest worker that had one, or TaskLost."""
    rdd = context.parallelize(range(workers), workers).mapPartitionsWithIndex(partial(_guarded, work))
    results: dict[int, Result] = {}
    answers: list[_Answer[Result]] = collected(rdd, workers, itemgetter(0), "the databases")
    for worker, result, fault in sorted(answers, key=itemgetter(0)):
        if fault is not None:
            raise fault
        results[worker] = cast(Result, result)
    return results


def _guarded(work: Callable[[int], Result], worker: int, _: Iterable[int]) -> Iterator[_Answer[Result]]:
    try:
        yield worker, work(worker), None
    except (StorageError, EngineError) as fault:
        yield worker, None, fault
