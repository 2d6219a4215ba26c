"""Invariants 2, 4 and 5 at work: what differs in a replay, a worker that dies, sleeps or is cut off, a coordinator that was replaced."""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import psutil
import pytest
from pyspark import SparkContext
from structlog.testing import capture_logs

from base.fault import ExitCode
from coordinator.running.recoveries import RECOVERIES_MAX
from coordinator.starting.errors import CircuitChanged, RecoveryFailed
from coordinator.stepping import stepping
from engine.resident import sockets
from engine.resident.frames import Frame
from engine.resident.mesh import Mesh
from engine.resident.messages import PeersJoined, RunStep, StageRows, StepDone
from engine.resident.spark_launcher import SparkJob
from engine.resident.worker import step_orders
from engine.resident.worker.step_orders import StepOrders
from engine.run import tasks
from engine.run.stage import StageResult, WorkerStep
from engine.run.tasks import StepTask
from io_kafka.clients.writer_faults import Fenced
from io_kafka.step_log.output_progress import DigestMismatch
from storage.errors import StaleEpoch
from tests.end_to_end import sums
from tests.end_to_end.harness import Playground, Resolved, Running, pids, wait_until
from tests.end_to_end.threads import threads


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


def test_a_changed_project_is_told_by_its_view(play: Playground) -> None:
    play.topic("in")
    play.send("in", sums.rows(0, 4))
    play.run(sums.project(play))
    with pytest.raises(
        CircuitChanged, match=r"what differs: view sums \(changed\), output sums \(changed\)\..*--full-refresh"
    ):
        play.run(sums.project(play, total="max(n)"))
    again = sums.project(play)
    play.send("in", sums.rows(4, 2))
    assert play.run(again)["steps_run"] == 1
    assert play.check(again) == {"sums": 3}


# A worker that sleeps


class Sleeper:
    """Worker 1, which falls asleep in step 2, once, and goes on when it is told to: by then it has been replaced. `ends`: what became of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, inside: bool) -> None:
        self.asleep, self.woken, self.over = threading.Event(), threading.Event(), threading.Event()
        self.ends: list[BaseException | None] = []
        self._thread: threading.Thread | None = None
        self._inside = inside
        regions, run_stage, reached = StepTask._run_stages, tasks.run_stage, tasks.reached
        steps: dict[threading.Thread, int] = {}

        def watched_point(name: Any, worker: int) -> None:
            if (
                not inside and name == "stages.before"
            ):  # its peers' rows are there, so it meets nothing but the database
                self._sleep(steps[threading.current_thread()], worker)
            reached(name, worker)

        def watched_regions(task: StepTask, *given: Any) -> None:
            steps[threading.current_thread()] = task._given.step
            try:
                regions(task, *given)
            except BaseException as end:
                self._ended(end)
                raise
            self._ended(None)

        def watched_stage(task: WorkerStep, stage: int, *given: Any) -> StageResult:
            if inside and stage > 0:
                self._sleep(task.step.division.number, task.worker)
            return run_stage(task, stage, *given)

        monkeypatch.setattr(StepTask, "_run_stages", watched_regions)
        monkeypatch.setattr(tasks, "run_stage", watched_stage)
        monkeypatch.setattr(tasks, "reached", watched_point)

    def _sleep(self, step: int, worker: int) -> None:
        if (step, worker) == (2, 1) and not self.asleep.is_set():
            self._thread = threading.current_thread()
            self.asleep.set()
            assert self.woken.wait(600), "nobody has woken it"

    def _ended(self, end: BaseException | None) -> None:
        if threading.current_thread() is self._thread and not self.over.is_set():
            self.ends.append(end)
            self.over.set()

    def wake(self) -> None:
        """And waits for what it does then."""
        self.woken.set()
        wait_until(self.over.is_set)


@pytest.fixture(params=[False, True], ids=["before its transaction", "inside its transaction"])
def sleeper(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sleeper]:
    made = Sleeper(monkeypatch, inside=request.param)
    yield made
    made.woken.set()


def without_checkpoints(resolved: Resolved, **limits: float) -> Resolved:
    """A run that keeps nothing until it is stopped, so a recovery replays every step."""
    return Resolved(resolved.project, replace(resolved.spec, checkpoint_interval_s=3600.0, **limits))  # type: ignore[arg-type]


def test_a_coordinator_that_was_replaced_is_fenced_and_output_stays_exactly_once(
    play: Playground, sleeper: Sleeper
) -> None:
    play.topic("in")
    play.send("in", sums.rows(0, 8))
    resolved = without_checkpoints(sums.project(play, workers=2), progress_s=600.0)
    with play.running(resolved, threads()) as first:
        wait_until(sleeper.asleep.is_set)
        second = play.run(resolved, expect_epoch=0)  # while a worker of the first one sleeps in step 2
        sleeper.wake()
        first.thread.join(60)
    assert isinstance(first.fault, Fenced) and "taken over from epoch 0: epoch 1" in str(first.fault)
    assert sleeper._inside or isinstance(sleeper.ends[0], StaleEpoch)
    assert (second["epoch"], second["steps_replayed"], second["steps_run"]) == (1, 2, 2)
    with pytest.raises(Fenced):  # it has looked at epoch 0, and somebody else has claimed since
        play.run(resolved, expect_epoch=0)
    play.send("in", sums.rows(8, 2))
    play.run(resolved)
    assert play.check(resolved) == {"sums": 3}
    assert play.check_steps(resolved) == 5


@pytest.mark.long
def test_a_worker_that_was_given_up_and_wakes_changes_nothing(play: Playground, sleeper: Sleeper) -> None:
    """It belongs to the same epoch as those that replaced it, and to an older attempt."""
    play.topic("in")
    play.send("in", sums.rows(0, 8))
    resolved = without_checkpoints(sums.project(play, workers=2), progress_s=2.0)
    with play.running(resolved, threads()) as run:
        wait_until(sleeper.asleep.is_set)
        run.wait_until(lambda status: status["steps_run"] == 4)
        sleeper.wake()
        play.send("in", sums.rows(8, 4))
        run.wait_until(lambda status: status["steps_run"] == 6)
    assert run.fault is None and run.board.show()["recoveries"] == 1
    assert sleeper._inside or isinstance(sleeper.ends[0], StaleEpoch)
    assert play.run(resolved)["steps_replayed"] == 0
    assert play.check(resolved) == {"sums": 3}
    assert play.check_steps(resolved) == 6


def test_a_step_that_a_worker_has_run_is_not_run_again(play: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the worker has forgotten that it has: its database has not."""
    step, repeated = StepOrders.run_step, list[int]()

    def twice(orders: StepOrders, order: RunStep) -> None:
        step(orders, order)
        if order.given.step == 2 and not repeated:
            repeated.append(order.given.step)
            orders.state.step_state.step = order.given.step
            step(orders, order)

    monkeypatch.setattr(StepOrders, "run_step", twice)
    play.topic("in")
    play.send("in", sums.rows(0, 8))
    resolved = sums.project(play)
    with capture_logs() as said:
        assert play.run(resolved, threads())["recoveries"] == 1
    assert any("is at step 3, but the task is for step 2" in str(event.get("fault")) for event in said), said
    assert play.check(resolved) == {"sums": 3}
    assert play.check_steps(resolved) == 4


# A worker that answers nonsense: its frames are whole, and what they say cannot be right


class Liar:
    """One worker, which lies in step 2 as often as it is told to. `told`: how often it has."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, lie: str, times: int) -> None:
        self.told, self._times, self._lock = 0, times, threading.Lock()
        if lie == "to the coordinator":
            done = step_orders.step_done
            monkeypatch.setattr(
                step_orders, "step_done", lambda step, outcome: self._spoiled(step, *done(step, outcome))
            )
        elif lie == "to a peer":
            exchange = Mesh.exchange
            monkeypatch.setattr(
                Mesh, "exchange", lambda mesh, step, *rest: self._exchanged(exchange, mesh, step, *rest)
            )
        else:
            run_step = StepOrders.run_step
            monkeypatch.setattr(StepOrders, "run_step", lambda orders, order: self._answered(run_step, orders, order))

    def _lies(self, step: int) -> bool:
        with self._lock:
            lies = step == 2 and self.told < self._times
            self.told += lies
            return lies

    def _spoiled(self, step: int, message: StepDone, buffers: Any) -> Any:
        return (message, tuple(b"rubbish" for _ in buffers)) if buffers and self._lies(step) else (message, buffers)

    def _exchanged(self, exchange: Callable[..., Any], mesh: Mesh, step: int, stage: int, rows: Any) -> Any:
        if mesh._worker == 1 and self._lies(step):
            for peer in mesh._peers.values():
                peer.send(Frame(mesh._term, StageRows(serial=mesh._serial, stage=stage, channels=(0,)), (b"rubbish",)))
        return exchange(mesh, step, stage, rows)

    def _answered(self, run_step: Callable[..., None], orders: StepOrders, order: RunStep) -> None:
        run_step(orders, order)
        if orders.state.number == 1 and self._lies(order.given.step):
            orders.control.answer(PeersJoined())


LIES = {
    "to the coordinator": r"worker \d has sent messages of step 2, which cannot be read",
    "to a peer": "worker 1 has sent rows of node .* in stage 0, which cannot be read",
    "an answer to nothing": r"worker 1 \(.*\) has answered join_peers, which nobody has asked",
}


@pytest.mark.parametrize("lie", LIES)
def test_a_worker_that_answers_nonsense_is_replaced(
    play: Playground, monkeypatch: pytest.MonkeyPatch, lie: str
) -> None:
    play.topic("in")
    play.send("in", sums.rows(0, 8))
    resolved, liar = sums.project(play, workers=2), Liar(monkeypatch, lie, 1)
    with capture_logs() as said:
        assert play.run(resolved, threads())["recoveries"] == 1
    assert liar.told == 1
    lost = [str(event["fault"]) for event in said if "a worker was lost" in event["event"]]
    assert len(lost) == 1 and re.search(LIES[lie], lost[0]), said
    assert play.check(resolved) == {"sums": 3}
    assert play.check_steps(resolved) == 4


@pytest.mark.long
def test_a_worker_that_answers_nonsense_again_and_again_ends_the_run(
    play: Playground, monkeypatch: pytest.MonkeyPatch
) -> None:
    play.topic("in")
    play.send("in", sums.rows(0, 8))
    resolved = sums.project(play, workers=2)
    with monkeypatch.context() as lying:
        liar = Liar(lying, "to the coordinator", 99)
        with pytest.raises(RecoveryFailed, match=LIES["to the coordinator"]) as failed:
            play.run(resolved, threads())
        assert failed.value.exit_code == ExitCode.STATE and liar.told >= RECOVERIES_MAX
    play.run(resolved, threads())
    assert play.check(resolved) == {"sums": 3}
    assert play.check_steps(resolved) == 4


# Spark's processes, which live for the run


def killed(run: Running, numbers: Sequence[int]) -> list[int]:
    """Kills the processes of these workers, all at once; the pids of all workers."""
    found = pids(run.board.show())
    for number in numbers:
        os.kill(found[number], signal.SIGKILL)
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    ("among_steps", "at_rest"), [((1,), (0, 1, 2)), pytest.param((0, 1, 2), (1,), marks=pytest.mark.soak)]
)
def test_killed_workers_are_replaced_while_the_run_goes_on(
    play: Playground, among_steps: Sequence[int], at_rest: Sequence[int]
) -> None:
    """One and all of them: among the steps of a backlog, and while there is nothing to do."""
    play.topic("in")
    resolved = without_checkpoints(sums.project(play, workers=3))
    with play.running(resolved, play.tasks(resolved)) as run:
        play.send("in", sums.rows(0, 40))
        run.wait_until(lambda status: status["steps_run"] >= 3)
        first = killed(run, among_steps)
        run.wait_until(lambda status: status["rows"] >= 40 and status["steps_run"] == 20)
        second = killed(run, at_rest)
        run.wait_until(lambda status: status["recoveries"] == 2)
        play.send("in", sums.rows(40, 4))
        run.wait_until(lambda status: status["steps_run"] == 22)
        third = pids(run.board.show())
    assert run.fault is None
    assert len({*first, *second, *third}) == 9, "every recovery has new processes"
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in (*first, *second, *third)))
    assert play.run(resolved)["steps_replayed"] == 0
    assert play.check(resolved) == {"sums": 3}
    assert play.check_steps(resolved) == 22


@pytest.mark.long
def test_a_stopped_worker_is_noticed_by_its_silence_and_changes_nothing_when_it_goes_on(
    play: Playground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a host that Spark cannot reach: nobody ends the old tasks."""
    cancels: list[Callable[[], None]] = []
    play.topic("in")
    resolved = without_checkpoints(sums.project(play, workers=2), silence_s=2.0)
    with play.running(resolved, play.tasks(resolved)) as run:
        play.send("in", sums.rows(0, 8))
        run.wait_until(lambda status: status["steps_run"] == 4)
        with monkeypatch.context() as unreachable:
            unreachable.setattr(SparkJob, "cancel", lambda job: cancels.append(job._cancel))
            stopped, other = (psutil.Process(pid) for pid in pids(run.board.show()))
            stopped.suspend()
            play.send("in", sums.rows(8, 8))
            run.wait_until(lambda status: status["steps_run"] == 8)
        assert run.board.show()["recoveries"] == 1
        assert not {stopped.pid, other.pid} & {*pids(run.board.show())}
        wait_until(lambda: not other.is_running())  # it has lost its coordinator
        assert stopped.status() == psutil.STATUS_STOPPED
        stopped.resume()
        play.send("in", sums.rows(16, 4))
        run.wait_until(lambda status: status["steps_run"] == 10)
        wait_until(lambda: not stopped.is_running())
    assert run.fault is None and run.board.show()["recoveries"] == 1
    assert len(cancels) == 2
    for cancel in cancels:
        cancel()
    assert play.run(resolved)["steps_replayed"] == 0
    assert play.check(resolved) == {"sums": 3}
    assert play.check_steps(resolved) == 10


@pytest.mark.long
def test_jobs_that_somebody_cancels_are_started_again(play: Playground) -> None:
    """Spark's page has a button for it."""
    play.topic("in")
    resolved = without_checkpoints(sums.project(play, workers=2))
    with play.running(resolved, play.tasks(resolved)) as run:
        play.send("in", sums.rows(0, 8))
        run.wait_until(lambda status: status["steps_run"] == 4)
        first = pids(run.board.show())
        context = SparkContext._active_spark_context
        assert context is not None
        context.cancelAllJobs()
        run.wait_until(lambda status: status["recoveries"] == 1)
        play.send("in", sums.rows(8, 4))
        run.wait_until(lambda status: status["steps_run"] == 6)
        assert not {*first} & {*pids(run.board.show())}
    assert run.fault is None and run.board.show()["recoveries"] == 1
    assert play.check(resolved) == {"sums": 3}
    assert play.check_steps(resolved) == 6


@pytest.mark.long
@pytest.mark.skipif(not hasattr(psutil.Process, "rlimit"), reason="limits of another process can be set on Linux only")
def test_a_worker_without_memory_is_replaced(play: Playground) -> None:
    """Whatever it was doing when an allocation failed."""
    play.topic("in")
    resolved = sums.project(play, workers=2)
    with play.running(resolved, play.tasks(resolved)) as run:
        play.send("in", sums.rows(0, 8))
        run.wait_until(lambda status: status["steps_run"] == 4)
        poor = psutil.Process(pids(run.board.show())[1])
        used = poor.memory_info().vms
        poor.rlimit(psutil.RLIMIT_AS, (used, used))
        play.send("in", sums.rows(8, 200))
        run.wait_until(lambda status: status["rows"] >= 208)
        run.wait_until(lambda status: not poor.is_running())
    assert run.fault is None and run.board.show()["recoveries"] >= 1
    play.run(
        resolved
    )  # rows that were computed twice are counted twice, so the run may have ended before the last ones
    assert play.check(resolved) == {"sums": 3}
    play.check_steps(resolved)


# Connections


KINDS = (
    "created", "register", "holds", "welcome", "fence", "fenced", "open", "opened", "join", "hello", "joined",
    "run_step", "rows", "step_done", "freeze", "frozen", "fold", "folded",
)  # fmt: skip


@pytest.mark.long
def test_a_frame_that_breaks_off_is_none(play: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that ends in the middle of a frame, for every kind of frame: nobody takes the beginning for the whole."""
    broken: list[str] = []
    wanted: list[str] = []
    queue, write = sockets.SocketConnection._queue, sockets.SocketConnection._write
    lock, doomed = threading.Lock(), set[sockets.SocketConnection]()

    def half(connection: sockets.SocketConnection, frame: Frame) -> None:
        with lock:
            is_victim = frame.message.kind in wanted
            if is_victim:
                wanted.remove(frame.message.kind)
                broken.append(frame.message.kind)
        if not is_victim:
            queue(connection, frame)
            return
        whole = b"".join(bytes(memoryview(part)) for part in sockets.encode(frame))
        connection._outgoing.append(memoryview(whole[: len(whole) // 2]))
        doomed.add(connection)

    def then_cut(connection: sockets.SocketConnection) -> None:
        write(connection)
        if connection in doomed and not connection._outgoing and not connection.ended:
            connection.socket.shutdown(socket.SHUT_RDWR)

    monkeypatch.setattr(sockets.SocketConnection, "_queue", half)
    monkeypatch.setattr(sockets.SocketConnection, "_write", then_cut)
    play.topic("in")
    resolved = without_checkpoints(sums.project(play, workers=3))
    half = len(KINDS) // 2
    for number, pair in enumerate(
        zip(KINDS[:half], KINDS[half:], strict=True)
    ):  # an early one of a run, and a late one
        play.send("in", sums.rows(4 * number, 4))
        wanted.extend(pair)
        assert play.run(resolved, threads())["recoveries"] == 2, pair
        assert not wanted
    assert sorted(broken) == sorted(KINDS)
    assert play.check(resolved) == {"sums": 3}
    assert play.check_steps(resolved) == 2 * half
