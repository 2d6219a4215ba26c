"""Invariant 6: no checkpoint holds what is not committed; and while one worker lacks v+1, every worker goes back to v."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from base.version import VersionId
from coordinator.checkpoints.checkpointing import Checkpointing
from coordinator.core import Core
from coordinator.running.recoveries import RECOVERIES_MAX, Recoveries
from coordinator.starting.errors import RecoveryFailed, StateLost
from engine.errors import StaleTask
from engine.resident.crew.checkpoints import CrewCheckpoints
from engine.resident.faults import WorkerMistake
from engine.resident.messages import FreezeLayer
from engine.resident.worker.checkpoint_orders import CheckpointOrders
from engine.run.tasks import StepTask
from io_kafka.clients.writer import PipelineWriter
from io_kafka.step_log.state import BrokenStepLog, StepLogState
from storage.database import Database
from storage.errors import StorageFull
from tests.end_to_end import sums
from tests.end_to_end.harness import WAIT_SECONDS_MAX, Playground, wait_until
from tests.end_to_end.threads import threads


def test_a_checkpoint_of_what_is_not_committed_cannot_be_recorded_nor_opened(
    play: Playground, monkeypatch: pytest.MonkeyPatch
) -> None:
    play.topic("in")
    play.send("in", sums.rows(0, 2))
    resolved = sums.project(play)
    with monkeypatch.context() as sabotage:
        sabotage.setattr(PipelineWriter, "write_step", lambda *_args, **_named: None)
        sabotage.setattr(Core, "settled", believes_it_was_written)
        sabotage.setattr(Core, "check", lambda core, log: None)
        with pytest.raises(BrokenStepLog, match="holds step 0, whose output is not committed"):
            play.run(resolved)
    assert play.log(resolved).checkpoints == ()
    with pytest.raises(StateLost, match="databases are at step 1, and the step log ends before step 0"):
        play.run(resolved)
    assert play.read("out") == []


def believes_it_was_written(core: Core, step: int, log: StepLogState) -> None:
    core.ran = None
    core.step += 1


def fold_of_worker_0() -> Callable[[Database], VersionId]:
    """The others fail, when the first one has folded."""
    real, done = Database.fold, threading.Event()

    def fold(database: Database) -> VersionId:
        if database.identity.worker == 0:
            version = real(database)
            done.set()
            return version
        assert done.wait(WAIT_SECONDS_MAX)
        raise StorageFull(database.path, "a disk that is full on one worker", 0)

    return fold


@pytest.mark.long
def test_all_workers_go_back_to_v_where_one_lacks_the_next(play: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    play.topic("in")
    resolved = sums.project(play, workers=3)
    play.send("in", sums.rows(0, 4))
    first = play.run(resolved)
    play.send("in", sums.rows(4, 4))
    with monkeypatch.context() as full_disk:
        full_disk.setattr(Database, "fold", fold_of_worker_0())
        with pytest.raises(StorageFull):
            play.run(resolved, threads())
    held = versions(play, resolved)
    assert [len(held[worker]) for worker in (0, 1, 2)] == [2, 1, 1]
    assert held[0][0] == held[1][0] == held[2][0]
    play.send("in", sums.rows(8, 2))
    second = play.run(resolved)
    assert (second["steps_replayed"], second["steps_run"]) == (2, 1)
    assert second["checkpoint_version"] == first["checkpoint_version"] + 1
    assert len({tuple(own) for own in versions(play, resolved).values()}) == 1
    assert play.check(resolved) == {"sums": 3}
    assert play.check_steps(resolved) == 5


@pytest.mark.parametrize("recorded", [0, 1])
def test_a_checkpoint_that_all_workers_have_counts_though_the_run_ended_before_it_said_so(
    play: Playground, monkeypatch: pytest.MonkeyPatch, recorded: int
) -> None:
    """`recorded`: the checkpoints before it. After one of them the log would refuse the next but one."""
    play.topic("in")
    resolved = sums.project(play, workers=2)
    play.send("in", sums.rows(0, 2))
    for _ in range(recorded):
        play.run(resolved)
    play.send("in", sums.rows(2, 2))
    with monkeypatch.context() as crash:
        crash.setattr(Checkpointing, "_complete", stop_here)
        with pytest.raises(InterruptedError):
            play.run(resolved)
    assert (len(play.log(resolved).checkpoints), len(versions(play, resolved)[1])) == (recorded, 2)
    for first in (4, 6):
        play.send("in", sums.rows(first, 2))
        assert play.run(resolved)["steps_replayed"] == 0
    assert [version.version for version in play.log(resolved).checkpoints] == [recorded + 2, recorded + 3]
    assert play.check(resolved) == {"sums": 3}
    assert play.check_steps(resolved) == 4


def test_a_stop_survives_a_recovery(play: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    play.topic("in")
    play.send("in", sums.rows(0, 4))
    resolved = sums.project(play)
    monkeypatch.setattr(Database, "fold", failing(1, Database.fold))
    with play.running(resolved, threads()) as run:
        run.wait_until(lambda status: status["rows"] == 4)
    assert run.fault is None
    assert run.board.show()["recoveries"] == 1
    assert play.run(resolved)["steps_replayed"] == 2
    assert play.check(resolved) == {"sums": 3}


def test_a_fold_that_fails_again_and_again_ends_the_run(play: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    play.topic("in")
    play.send("in", sums.rows(0, 4))
    resolved = sums.project(play)
    monkeypatch.setattr(Database, "fold", failing(RECOVERIES_MAX, Database.fold))
    with pytest.raises(RecoveryFailed, match="a fold that was lost"):
        play.run(resolved, threads())
    assert play.run(resolved)["steps_replayed"] == 2
    assert play.check(resolved) == {"sums": 3}


def failing(times: int, real: Callable[..., Any], after: Callable[[], None] = lambda: None) -> Callable[..., Any]:
    """Fails the first `times` times, each time after a call of `after`."""
    left = [times]

    def fold(*given: Any) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            after()
            raise StaleTask("a fold that was lost")
        return real(*given)

    return fold


def test_folds_that_fail_during_a_step_end_the_run(play: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator waits for a step when it learns of the failure. The step is committed, and that is no progress of a checkpoint."""
    play.topic("in")
    resolved = sums.project(play)
    resolved = replace(resolved, spec=replace(resolved.spec, checkpoint_interval_s=0.1))
    losses: list[int] = []
    fails, in_step = threading.Event(), threading.Event()
    lost, regions = Recoveries.count_loss, StepTask._run_stages

    def counted(recoveries: Recoveries, steps: int, folds_failed: int) -> str | None:
        losses.append(folds_failed)
        return lost(recoveries, steps, folds_failed)

    def until_the_fold_has_failed(task: StepTask, *given: Any) -> None:
        if fails.is_set():
            in_step.set()
            wait_until(lambda: "fold" not in {thread.name for thread in threading.enumerate()})
            fails.clear()
        regions(task, *given)

    def when_a_step_runs() -> None:
        in_step.clear()
        fails.set()
        play.send("in", sums.rows(0, 2))
        assert in_step.wait(WAIT_SECONDS_MAX)

    monkeypatch.setattr(Recoveries, "count_loss", counted)
    monkeypatch.setattr(StepTask, "_run_stages", until_the_fold_has_failed)
    monkeypatch.setattr(Database, "fold", failing(RECOVERIES_MAX, Database.fold, when_a_step_runs))
    play.send("in", sums.rows(0, 2))
    with play.running(resolved, threads()) as run, pytest.raises(RecoveryFailed, match="the checkpoint before step"):
        run.wait_until(lambda status: bool(status["checkpoint_version"]))
    assert losses == [1, 2, 3]
    assert play.run(resolved)["checkpoint_version"] > 0
    assert play.check(resolved) == {"sums": 2}


def test_a_state_of_another_step_is_not_frozen(play: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its worker's count of the steps nor the database itself lets that happen."""
    play.topic("in")
    play.send("in", sums.rows(0, 4))
    resolved = sums.project(play)
    of_crew, of_worker = CrewCheckpoints.freeze, CheckpointOrders._set_aside
    with monkeypatch.context() as sabotage:
        sabotage.setattr(CrewCheckpoints, "freeze", lambda crew, v, views: of_crew(crew, later(v), views))
        with pytest.raises(WorkerMistake, match="before step 2"):
            play.run(resolved, threads())
    with monkeypatch.context() as sabotage:
        sabotage.setattr(
            CheckpointOrders,
            "_set_aside",
            lambda self, o: of_worker(self, FreezeLayer(version=later(o.version), in_error=())),
        )
        with pytest.raises(RecoveryFailed, match="worker 0 is at step 2, but the checkpoint is for step 3"):
            play.run(resolved, threads())
    assert play.run(resolved)["checkpoint_step"] == 2
    assert play.check(resolved) == {"sums": 3}


def later(version: VersionId) -> VersionId:
    return VersionId(version.version, version.step + 1, version.checkpoint_id)


def stop_here(*_: Any) -> None:
    raise InterruptedError


def versions(play: Playground, resolved: Any) -> dict[int, tuple[Any, ...]]:
    folders = [resolved.spec.state_location.here.of_worker(worker) for worker in range(resolved.spec.workers)]
    return {worker: tuple(sorted(Database.versions(folder))) for worker, folder in enumerate(folders)}
