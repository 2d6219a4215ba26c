"""Invariant 6: no checkpoint holds what is not committed; and while one worker lacks v+1, every worker goes back to v."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from engine.run.database_jobs import Folded
from engine.run.step_runner import StepRunner

from base.version import VersionId
from coordinator.checkpointing import Checkpointing
from coordinator.core import Core
from coordinator.errors import RecoveryFailed, StateLost
from coordinator.recoveries import RECOVERIES_MAX
from engine.errors import StaleTask
from engine.run import database_jobs
from engine.run.tasks import TaskSetup
from io_kafka.clients.writer import PipelineWriter
from io_kafka.step_log.state import BrokenStepLog, StepLogState
from storage.database import Database
from storage.errors import StorageFull
from tests.end_to_end import sums
from tests.end_to_end.harness import Playground


def test_a_checkpoint_of_what_is_not_committed_cannot_be_recorded_nor_opened(
    play: Playground, monkeypatch: pytest.MonkeyPatch
) -> None:
    play.topic("in")
    play.send("in", sums.rows(0, 2))
    resolved = sums.project(play)
    with monkeypatch.context() as sabotage:
        sabotage.setattr(PipelineWriter, "write_step", lambda *_args, **_named: None)
        sabotage.setattr(Core, "stepped", believes_it_was_written)
        sabotage.setattr(Core, "check", lambda core, log: None)
        with pytest.raises(BrokenStepLog, match="holds step 0, whose output is not committed"):
            play.run(resolved)
    assert play.log(resolved).checkpoints == ()
    with pytest.raises(StateLost, match="databases are at step 1, the step log ends before step 0"):
        play.run(resolved)
    assert play.read("out") == []


def believes_it_was_written(core: Core, step: int, log: StepLogState) -> None:
    core.step += 1


real_fold = database_jobs.fold


def fold_of_worker_0(setup: TaskSetup, worker: int) -> Folded:
    if worker != 0:
        raise StorageFull(setup.databases[worker][0], "a disk that is full on one worker", 0)
    return real_fold(setup, worker)


def test_all_workers_go_back_to_v_where_one_lacks_the_next(play: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    play.topic("in")
    resolved = sums.project(play, workers=3)
    play.send("in", sums.rows(0, 4))
    first = play.run(resolved)
    play.send("in", sums.rows(4, 4))
    with monkeypatch.context() as full_disk:
        full_disk.setattr(database_jobs, "fold", fold_of_worker_0)
        with pytest.raises(StorageFull):
            play.run(resolved)
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
    monkeypatch.setattr(StepRunner, "fold", failing(1, StepRunner.fold))
    with play.running(resolved) as run:
        run.wait_until(lambda status: status["rows"] == 4)
    assert run.fault is None
    assert run.board.show()["recoveries"] == 1
    assert play.run(resolved)["steps_replayed"] == 2
    assert play.check(resolved) == {"sums": 3}


def test_a_fold_that_fails_again_and_again_ends_the_run(play: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    play.topic("in")
    play.send("in", sums.rows(0, 4))
    resolved = sums.project(play)
    monkeypatch.setattr(StepRunner, "fold", failing(RECOVERIES_MAX, StepRunner.fold))
    with pytest.raises(RecoveryFailed, match="a fold that was lost"):
        play.run(resolved)
    assert play.run(resolved)["steps_replayed"] == 2
    assert play.check(resolved) == {"sums": 3}


def failing(times: int, real: Callable[..., Any]) -> Callable[..., Any]:
    left = [times]

    def fold(*given: Any) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            raise StaleTask("a fold that was lost")
        return real(*given)

    return fold


def test_a_state_of_another_step_is_not_frozen(play: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    play.topic("in")
    play.send("in", sums.rows(0, 4))
    resolved = sums.project(play)
    real = StepRunner.freeze
    with monkeypatch.context() as sabotage:
        sabotage.setattr(
            StepRunner, "freeze", lambda self, v: real(self, VersionId(v.version, v.step + 1, v.checkpoint_id))
        )
        with pytest.raises(RecoveryFailed, match="worker 0 is at step 2, but the checkpoint is for step 3"):
            play.run(resolved)
    assert play.run(resolved)["checkpoint_step"] == 2
    assert play.check(resolved) == {"sums": 3}


def stop_here(*_: Any) -> None:
    raise InterruptedError


def versions(play: Playground, resolved: Any) -> dict[int, tuple[Any, ...]]:
    folders = [resolved.spec.database_folder(worker) for worker in range(resolved.spec.workers)]
    return {worker: tuple(sorted(Database.versions(folder))) for worker, folder in enumerate(folders)}
