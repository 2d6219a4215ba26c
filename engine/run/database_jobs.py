"""What is done to all workers' databases at once, as small Spark jobs: task i is worker i, beside its database.

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
    """What a worker says after a fold: what its database can open now, and how large it is."""

    versions: tuple[VersionId, ...]
    statistics: Statistics


def fence_all(context: Any, setup: TaskSetup) -> dict[int, FencedState]:
    """Fences every worker's database: no older run can change it from now on. Returns what each of them can open."""
    return _on_workers(context, len(setup.databases), partial(_fence, setup))


def open_all(context: Any, setup: TaskSetup, version: VersionId, fenced: Mapping[int, FencedState]) -> None:
    """Every database opens `version`, durably, and discards the other one, before any step."""
    _on_workers(context, len(setup.databases), partial(_open, setup, version, fenced))


def freeze_all(context: Any, setup: TaskSetup, version: VersionId) -> None:
    """At a boundary: sets every worker's changes aside as `version`."""
    _on_workers(context, len(setup.databases), partial(freeze, setup, version))


def fold_all(context: Any, setup: TaskSetup) -> dict[int, Folded]:
    """Makes the frozen changes durable; steps may run meanwhile."""
    return _on_workers(context, len(setup.databases), partial(fold, setup))


def _fence(setup: TaskSetup, worker: int) -> FencedState:
    folder, _ = setup.databases[worker]
    return Database.fence(folder, epoch=setup.epoch, identity=setup.identity(worker))


def _open(setup: TaskSetup, version: VersionId, fenced: Mapping[int, FencedState], worker: int) -> None:
    folder, _ = setup.databases[worker]
    Database.open(folder, version, epoch=setup.epoch, identity=setup.identity(worker), fenced=fenced[worker].number)


def freeze(setup: TaskSetup, version: VersionId, worker: int) -> None:
    """As `freeze_all`, of one worker and in this process."""
    database = setup.attach(worker)
    with database.transaction() as transaction:
        if setup.plan.stages == 1:
            transaction.set_step(version.step)  # no region says it
        elif (step := transaction.get_step()) != version.step:
            raise StaleTask(
                f"worker {worker} is at step {step}, its checkpoint is for step {version.step}; nothing was changed."
            )
    database.freeze(version)


def fold(setup: TaskSetup, worker: int) -> Folded:
    """As `fold_all`, of one worker and in this process."""
    database = setup.attach(worker)
    database.fold()
    folded = Folded(Database.versions(database.path), database.statistics())
    setup.attach(worker)  # tells of a successor that has opened it meanwhile, and may have thrown the version away
    return folded


def _on_workers(context: Any, workers: int, work: Callable[[int], Result]) -> dict[int, Result]:
    """`work(worker)` on every worker; raises the fault of the lowest worker that had one, and TaskLost."""
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
