"""Invariants 2, 4 and 5 at work: what differs in a replay, a task that runs twice or dies, a coordinator that was replaced."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from engine.run.spark_step import region_task, source_task
from pyspark import RDD

from coordinator import stepping
from coordinator.errors import CircuitChanged, LayoutChanged
from engine.run import spark_step
from engine.run.exchange import ExchangeMessage
from engine.run.tasks import StepInput
from io_kafka.clients.writer import Fenced
from io_kafka.step_log.output_progress import DigestMismatch
from tests.end_to_end import sums
from tests.end_to_end.harness import Playground, wait_until


def test_a_replay_that_gives_other_output_stops_before_it_writes(
    play: Playground, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums.left_without_checkpoint(play)
    resolved = sums.project(play, ", 'on.error' = 'skip'")  # there is something to write after the replay
    written, state = play.read("out"), play.log(resolved)
    with monkeypatch.context() as other_encoder:
        other_encoder.setattr(stepping, "ENCODER_ID", "another")
        with pytest.raises(
            DigestMismatch, match=r"step 0, output 'sums' partition 0: .* has digest .* nothing was written"
        ) as e:
            play.run(resolved)
    assert e.value.recorded == state.step_records[0].digests["sums", 0] != e.value.computed
    assert play.read("out") == written
    assert play.run(resolved)["steps_replayed"] == 2
    assert play.check(resolved) == {"sums": 3}


def test_a_changed_project_is_told_by_its_view_and_other_workers_by_their_number(play: Playground) -> None:
    play.topic("in")
    play.send("in", sums.rows(0, 4))
    play.run(sums.project(play))
    with pytest.raises(
        CircuitChanged, match=r"what differs: view sums \(changed\), output sums \(changed\)\..*--full-refresh"
    ):
        play.run(sums.project(play, total="max(n)"))
    with pytest.raises(LayoutChanged, match=r"made with 1 workers.*asks for 2"):
        play.run(sums.project(play, workers=2))
    again = sums.project(play)
    play.send("in", sums.rows(4, 2))
    assert play.run(again)["steps_run"] == 1
    assert play.check(again) == {"sums": 3}


def waiting_region_task(
    folder: Path, shared: Any, given: StepInput, *rest: Any
) -> Iterator[tuple[int, ExchangeMessage]]:
    """Its first run in step 2 begins only when it is told to: a zombie, by then."""
    if given.step == 2:
        try:
            (folder / "here").touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            wait_until((folder / "go").exists)
    return region_task(shared, given, *rest)


def test_a_coordinator_that_was_replaced_is_fenced_and_output_stays_exactly_once(
    play: Playground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_step, "region_task", partial(waiting_region_task, tmp_path))
    play.topic("in")
    play.send("in", sums.rows(0, 8))
    resolved = sums.project(play, workers=2, in_spark=True)
    resolved = replace(resolved, spec=replace(resolved.spec, checkpoint_interval_s=3600.0))  # both steps are replayed
    with play.running(resolved) as first:
        wait_until((tmp_path / "here").exists)
        second = play.run(resolved, expect_epoch=0)  # while a task of the first one's step 2 waits
        (tmp_path / "go").touch()
        first.thread.join(60)
    assert isinstance(first.fault, Fenced) and "taken over from epoch 0: epoch 1" in str(first.fault)
    assert (second["epoch"], second["steps_replayed"], second["steps_run"]) == (1, 2, 2)
    with pytest.raises(Fenced):  # it has looked at epoch 0, and somebody else has claimed since
        play.run(resolved, expect_epoch=0)
    play.send("in", sums.rows(8, 2))
    play.run(resolved)
    assert play.check(resolved) == {"sums": 3}
    assert play.check_steps(resolved) == 5


def dying_region_task(corpse: Path, shared: Any, given: StepInput, *rest: Any) -> Iterator[tuple[int, ExchangeMessage]]:
    """Dies once, in step 2: after the database has the step, before anybody has the result."""
    result = list(region_task(shared, given, *rest))
    if given.step == 2 and not corpse.exists():
        corpse.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return iter(result)


def test_a_killed_python_worker_is_recovered_from_at_the_last_checkpoint(
    play: Playground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_step, "region_task", partial(dying_region_task, tmp_path / "corpse"))
    play.topic("in")
    play.send("in", sums.rows(0, 8))
    resolved = sums.project(play, workers=2, in_spark=True)
    status = play.run(resolved)
    assert (status["recoveries"], status["steps_replayed"]) == (1, 2)
    assert play.check(resolved) == {"sums": 3}
    assert play.check_steps(resolved) == 4


def counted_source_task(
    folder: Path, shared: Any, given: StepInput, *rest: Any
) -> Iterator[tuple[int, ExchangeMessage]]:
    (folder / f"step-{given.step}-{uuid.uuid4()}").touch()
    return source_task(shared, given, *rest)


def losing_region_task(
    folder: Path, shared: Any, given: StepInput, *rest: Any
) -> Iterator[tuple[int, ExchangeMessage]]:
    """Once, in step 2: takes away what the stage before has left for the tasks of this one. No task ends, and lets another one begin, before
    it is gone."""
    result = list(region_task(shared, given, *rest))
    if given.step == 2:
        with suppress(FileExistsError):
            (folder / "losing").touch(exist_ok=False)
            for file in Path(os.environ["SPARK_LOCAL_DIRS"]).rglob("shuffle_*"):
                file.unlink()
            (folder / "lost").touch()
        wait_until((folder / "lost").exists)
    return iter(result)


def test_a_stage_that_spark_runs_again_changes_nothing(
    play: Playground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three tasks on two cores the last begins when the shuffle's files are gone: Spark repeats the stage that made them, which reads the
    same ranges again, and then what is missing of the next."""
    monkeypatch.setattr(spark_step, "source_task", partial(counted_source_task, tmp_path))
    monkeypatch.setattr(spark_step, "region_task", partial(losing_region_task, tmp_path))
    play.topic("in")
    play.send("in", sums.rows(0, 8))
    resolved = sums.project(play, workers=3, in_spark=True)
    assert play.run(resolved)["recoveries"] == 0
    ran = [len(list(tmp_path.glob(f"step-{step}-*"))) for step in range(4)]
    assert ran[2] > 3 and [*ran[:2], ran[3]] == [3, 3, 3]
    assert play.check(resolved) == {"sums": 3}
    assert play.check_steps(resolved) == 4


def region_task_twice(*arguments: Any) -> Iterator[tuple[int, ExchangeMessage]]:
    """As Spark does where it loses the result of the first run."""
    *bound, routed = arguments
    task: Any = partial(region_task, *bound)
    inbox = list(routed)
    runs = [list(task(inbox)) for _ in range(2)]
    first, second = ([(target, replace(message, reports=())) for target, message in run] for run in runs)
    assert first == second, f"step, stage and worker: {bound[1:]}"
    return iter(runs[1])


def region_task_broken_off(
    folder: Path, shared: Any, given: StepInput, *rest: Any
) -> Iterator[tuple[int, ExchangeMessage]]:
    """Runs with each part of its input before it runs with all of it, as where the JVM cannot fetch the rest: PySpark takes that for the end."""
    stage, worker, routed = rest
    inbox = list(routed)
    for length in range(len(inbox)):
        try:
            list(region_task(shared, given, stage, worker, inbox[:length]))
        except spark_step.InputBrokenOff as refused:
            (folder / f"refused-{given.step}-{worker}-{length}").write_text(str(refused))
    return region_task(shared, given, stage, worker, inbox)


def test_a_task_whose_input_broke_off_changes_nothing(
    play: Playground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_step, "region_task", partial(region_task_broken_off, tmp_path))
    play.topic("in")
    play.send("in", sums.rows(0, 8))
    resolved = sums.project(play, workers=3, in_spark=True)
    assert play.run(resolved)["recoveries"] == 0
    refused = [file.read_text() for file in tmp_path.glob("refused-*")]
    assert len(refused) == 4 * 3 * 3  # steps, workers, lengths from 0 on
    assert all("no message from workers" in text and "nothing was changed" in text for text in refused)
    assert play.check(resolved) == {"sums": 3}
    assert play.check_steps(resolved) == 4


def test_results_that_broke_off_are_not_all(play: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the JVM is killed while it sends them: PySpark takes that for their end. Every job of a run in turn: taking and opening the
    databases, steps, freeze and fold."""
    collect, calls, short = RDD.collect, 0, -1

    def shortened(rdd: RDD[Any]) -> list[Any]:
        nonlocal calls
        found = collect(rdd)
        calls += 1
        return found[:-1] if calls == short else found

    monkeypatch.setattr(RDD, "collect", shortened)
    play.topic("in")
    resolved = sums.project(play, workers=3, in_spark=True)
    play.send("in", sums.rows(0, 4))
    assert play.run(resolved)["recoveries"] == 0
    jobs = calls
    for job in range(jobs, 0, -1):
        play.send("in", sums.rows(4 * job, 4))
        calls, short = 0, job
        assert play.run(resolved)["recoveries"] == 1, f"job {job} of {jobs}"
    assert jobs >= 6
    assert play.check(resolved) == {"sums": 3}
    assert play.check_steps(resolved) >= 2 * jobs


def test_every_task_may_run_twice(play: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_step, "region_task", region_task_twice)
    play.topic("in")
    resolved = sums.project(play, workers=2, in_spark=True)
    for first in (0, 6):
        play.send("in", sums.rows(first, 6))
        assert play.run(resolved)["recoveries"] == 0
    assert play.check(resolved) == {"sums": 3}
    assert play.check_steps(resolved) == 6
