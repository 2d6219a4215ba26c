"""Processes that die, sleep or come twice: the service, Spark's JVM, the workers, the broker.

Each promise is one of two: the pipeline goes on by itself, or it ends with an error that says what to do; and the oracle finds nothing.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec

from base.fault import ExitCode
from faults.points import ONCE_VARIABLE, VARIABLE
from io_kafka.broker.local import LocalBroker
from stepwell.service.client import ControlClient, NotRunning, process_is_gone
from stepwell.service.endpoint import read_endpoint, who_answers
from tests.end_to_end import sums
from tests.end_to_end.harness import WAIT_SECONDS_MAX, Playground, Resolved, pids, service, wait_until
from tests.end_to_end.oracle import Oracle

pytestmark = pytest.mark.soak
"""Each starts services, some wait for a broker; what is cheaper in one process is in the other modules."""

KILLS = int(os.environ.get("SOAK_KILLS", "300"))


def project(play: Playground, **conf: str) -> Resolved:
    play.topic("in", 2)
    settings = {"stepwell.step.rows.max": 10, "stepwell.workers": 2, "stepwell.checkpoint.interval": "300ms"}
    return play.resolve(sums.files(), {**settings, **{key.replace("_", "."): value for key, value in conf.items()}})


def send(play: Playground, rows: int = 100) -> None:
    for partition in (0, 1):
        play.send("in", sums.rows(partition, rows), partition)


def judge(play: Playground, resolved: Resolved, oracle: Oracle) -> None:
    """After a last run, in this process."""
    play.run(resolved)
    story = oracle.verify(sums.batch(play))
    assert story.steps
    oracle.verify_twin(play.twin(resolved, story, workers=1))


def steps_seen(oracle: Oracle, resolved: Resolved) -> int:
    """In the output, by now."""
    oracle.prove_watching()
    topic = resolved.spec.outputs[0].topic
    return max((m[-1].step for (t, _), m in list(oracle.seen.items()) if t == topic and m), default=-1) + 1


def ended(process: subprocess.Popen[bytes], log: Path, code: int, text: str) -> None:
    """Ended by itself, with this exit code and a text, and without a stack trace."""
    assert process.wait(WAIT_SECONDS_MAX) == code, log.read_text()[-3000:]
    said = log.read_text()
    assert text in said and "Traceback" not in said and "nanobind" not in said, said[-3000:]


def java_of(process: subprocess.Popen[bytes]) -> psutil.Process:
    (jvm,) = (p for p in psutil.Process(process.pid).children(recursive=True) if p.name() == "java")
    return jvm


def is_stopped(pid: int) -> bool:
    return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)


# A service that sleeps


@pytest.mark.parametrize("timed_out", [False, True])
def test_a_service_that_slept_and_was_replaced_changes_nothing_and_ends(
    play: Playground, tmp_path: Path, timed_out: bool
) -> None:
    """It sleeps with its whole transaction sent and not committed; `timed_out`: until the broker has aborted it."""
    resolved = project(play, **{"kafka_transaction.timeout.ms": "2000"})
    log = tmp_path / "first.log"
    with play.oracle(resolved) as oracle:
        send(play)
        with service(resolved, log, **{VARIABLE: "output.sent@4=stop"}) as first:
            wait_until(lambda: first.poll() is not None or is_stopped(first.pid))
            if timed_out:
                wait_until(lambda: open_transactions(play, resolved) == 0)
            second = play.run(resolved, expect_epoch=0)
            os.kill(first.pid, signal.SIGCONT)
            ended(first, log, ExitCode.HELD, "another run of this pipeline")
            assert "epoch 1" in log.read_text()
        assert (second["epoch"], second["step"]) == (1, 19)
        judge(play, resolved, oracle)


def test_a_service_that_slept_too_long_and_was_not_replaced_goes_on(play: Playground, tmp_path: Path) -> None:
    resolved = project(play, **{"kafka_transaction.timeout.ms": "2000"})
    log = tmp_path / "service.log"
    with play.oracle(resolved) as oracle:
        send(play)
        with service(resolved, log, "--available-now", **{VARIABLE: "output.sent@4=stop"}) as process:
            wait_until(lambda: process.poll() is not None or is_stopped(process.pid))
            wait_until(lambda: open_transactions(play, resolved) == 0)
            os.kill(process.pid, signal.SIGCONT)
            assert process.wait(WAIT_SECONDS_MAX) == 0, log.read_text()
        assert steps_seen(oracle, resolved) > 4
        judge(play, resolved, oracle)


def open_transactions(play: Playground, resolved: Resolved) -> int:
    """Offsets of the step log that no reader may pass yet."""
    place = TopicPartition(resolved.spec.log_topic, 0)
    levels = (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED)
    all_of_it, stable = (
        play.admin.list_offsets({place: OffsetSpec.latest()}, isolation_level=level)[place].result(30).offset
        for level in levels
    )
    return int(all_of_it - stable)


def test_a_worker_that_sleeps_with_the_writers_lock_is_in_nobodys_way(play: Playground, tmp_path: Path) -> None:
    """Its service is killed, and the next one runs."""
    resolved = project(play)
    orders = {VARIABLE: "stages.inside@3=stop", ONCE_VARIABLE: str(tmp_path)}
    with play.oracle(resolved) as oracle:
        send(play)
        with service(resolved, tmp_path / "service.log", **orders) as process:
            sleeping = wait_for_sleeper(process)
            process.kill()  # its JVM goes with it, and the worker that sleeps can not
            process.wait()
            judge(play, resolved, oracle)
            wait_until(lambda: process_is_gone(sleeping.pid))


def wait_for_sleeper(process: subprocess.Popen[bytes]) -> psutil.Process:
    found: list[psutil.Process] = []

    def look() -> bool:
        assert process.poll() is None
        for child in psutil.Process(process.pid).children(recursive=True):
            try:
                if child.status() == psutil.STATUS_STOPPED:
                    found.append(child)
            except psutil.NoSuchProcess:
                continue
        return bool(found)

    wait_until(look)
    return found[0]


# Workers, a JVM


def workers_of(resolved: Resolved) -> list[int]:
    """The processes of a service's workers, as its status has them."""
    found: list[int] = []

    def look() -> bool:
        with suppress(NotRunning):
            found[:] = pids(ControlClient(resolved.project.project.state_folder).status())
        return bool(found)

    wait_until(look)
    return found


@pytest.mark.parametrize("point", ["source.read@3", "stages.inside@3", "stages.committed@3", "fold.inside@1"])
@pytest.mark.parametrize("action", ["kill", "stop"])
def test_a_worker_that_dies_or_hangs_is_replaced(play: Playground, tmp_path: Path, point: str, action: str) -> None:
    """One that hangs is killed. With `local[8,4]` Spark tries a task four times; nobody needs those that it begins again."""
    resolved = project(play, spark_master="local[8,4]", stepwell_worker_silence="2s")
    log = tmp_path / "service.log"
    orders = {VARIABLE: f"{point}={action}", ONCE_VARIABLE: str(tmp_path)}
    with play.oracle(resolved) as oracle:
        send(play)
        with service(resolved, log, "--available-now", "--json", **orders) as process:
            assert process.wait(WAIT_SECONDS_MAX) == 0, log.read_text()
            said = log.read_text()
            assert len(list(tmp_path.glob(f"{point.partition('@')[0]}-*"))) == 1
            assert said.count("a worker was lost") == 1, said
        judge(play, resolved, oracle)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_all_workers_of_a_service_lost_at_once(play: Playground, tmp_path: Path, number: signal.Signals) -> None:
    resolved, log = project(play, stepwell_worker_silence="2s"), tmp_path / "service.log"
    with play.oracle(resolved) as oracle:
        send(play)
        with service(resolved, log) as process:
            runs_until(process, log, oracle, resolved, 4)
            lost = workers_of(resolved)
            for pid in lost:
                os.kill(pid, number)
            send(play)
            runs_until(process, log, oracle, resolved, 40)
            assert not {*workers_of(resolved)} & {*lost}
            wait_until(lambda: all(process_is_gone(pid) for pid in lost))
        judge(play, resolved, oracle)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_workers_without_a_service_end_by_themselves(play: Playground, tmp_path: Path, number: signal.Signals) -> None:
    """Also where the JVM lives, and the service only sleeps: they cannot know whether it will wake."""
    resolved, log = project(play, stepwell_worker_silence="2s"), tmp_path / "service.log"
    with play.oracle(resolved) as oracle:
        send(play)
        with service(resolved, log) as process:
            runs_until(process, log, oracle, resolved, 4)
            orphans = workers_of(resolved)
            os.kill(process.pid, number)
            wait_until(lambda: all(process_is_gone(pid) for pid in orphans))
            if number == signal.SIGSTOP:
                os.kill(process.pid, signal.SIGCONT)
                send(play)
                runs_until(process, log, oracle, resolved, 40)
        judge(play, resolved, oracle)


def test_without_its_jvm_a_service_ends_and_the_next_one_goes_on(play: Playground, tmp_path: Path) -> None:
    resolved = project(play)
    log = tmp_path / "service.log"
    with play.oracle(resolved) as oracle:
        send(play, 400)
        with service(resolved, log) as process:
            runs_until(process, log, oracle, resolved, 4)
            orphans = workers_of(resolved)
            java_of(process).kill()
            wait_until(lambda: all(process_is_gone(pid) for pid in orphans))
            ended(process, log, ExitCode.MACHINE, "Spark's JVM has ended; nothing is lost, run again")
        judge(play, resolved, oracle)


# A JVM that sleeps: the steps need it only where a worker is to be started


def test_steps_go_on_while_the_jvm_sleeps_and_a_recovery_waits_for_it(play: Playground, tmp_path: Path) -> None:
    resolved, log = project(play), tmp_path / "service.log"
    with play.oracle(resolved) as oracle:
        send(play)
        with service(resolved, log) as process:
            runs_until(process, log, oracle, resolved, 4)
            jvm, former = java_of(process), workers_of(resolved)
            jvm.suspend()
            send(play)
            runs_until(process, log, oracle, resolved, 40)
            assert workers_of(resolved) == former and jvm.status() == psutil.STATUS_STOPPED
            os.kill(former[1], signal.SIGKILL)
            wait_until(lambda: "a worker was lost" in log.read_text())
            wait_until(lambda: all(process_is_gone(pid) for pid in former))
            assert process.poll() is None
            jvm.resume()
            send(play)
            runs_until(process, log, oracle, resolved, 60)
            assert not {*workers_of(resolved)} & {*former}
        judge(play, resolved, oracle)


def test_a_recovery_ends_if_the_jvm_does_not_wake(play: Playground, tmp_path: Path) -> None:
    """Nobody else can start workers. The service ends although the JVM does not answer, and takes it along."""
    resolved, log = project(play, stepwell_worker_register="3s"), tmp_path / "service.log"
    with play.oracle(resolved) as oracle:
        send(play)
        with service(resolved, log) as process:
            runs_until(process, log, oracle, resolved, 4)
            jvm, former = java_of(process), workers_of(resolved)
            jvm.suspend()
            os.kill(former[0], signal.SIGKILL)
            ended(process, log, ExitCode.MACHINE, "Spark does not say how many it has")
            assert "See whether Spark's JVM runs and is not stopped" in log.read_text()
            wait_until(lambda: all(process_is_gone(pid) for pid in (jvm.pid, *former)))
        judge(play, resolved, oracle)


# Two services


def test_of_two_services_started_at_once_one_runs(play: Playground, tmp_path: Path) -> None:
    resolved = project(play)
    logs = [tmp_path / "one.log", tmp_path / "two.log"]
    with play.oracle(resolved) as oracle:
        send(play)
        with service(resolved, logs[0]) as one, service(resolved, logs[1]) as two:
            both = (one, two)
            wait_until(lambda: any(process.poll() is not None for process in both))
            wait_until(lambda: steps_seen(oracle, resolved) == 20)
            (loser,) = (i for i, process in enumerate(both) if process.poll() is not None)
            ended(both[loser], logs[loser], ExitCode.HELD, "pipeline")
            endpoint = read_endpoint(resolved.project.project.state_folder)
            assert endpoint is not None and endpoint.pid == both[1 - loser].pid
            assert who_answers(endpoint.url) is not None
        judge(play, resolved, oracle)


def test_a_living_service_that_is_taken_over_ends(play: Playground, tmp_path: Path) -> None:
    resolved = project(play)
    logs = [tmp_path / "one.log", tmp_path / "two.log"]
    with play.oracle(resolved) as oracle:
        send(play)
        with service(resolved, logs[0]) as one:
            runs_until(one, logs[0], oracle, resolved, 20)
            with service(resolved, logs[1], "--take-over") as two:
                wait_until(lambda: "epoch 1" in logs[1].read_text())
                send(play)  # an idle service has nothing to write, and learns nothing
                ended(one, logs[0], ExitCode.HELD, "another run of this pipeline")
                runs_until(two, logs[1], oracle, resolved, 40)
        judge(play, resolved, oracle)


# The broker


@contextmanager
def own_broker(play: Playground, folder: Path) -> Iterator[tuple[LocalBroker, Playground]]:
    broker = LocalBroker(folder / "broker").start(die_with_parent=True)
    try:
        yield broker, replace(play, servers=broker.bootstrap_servers)
    finally:
        broker.stop()


def kill_broker(broker: LocalBroker) -> None:
    pid = broker.pid
    assert pid is not None
    victim = psutil.Process(pid)
    victim.kill()
    psutil.wait_procs([victim], timeout=WAIT_SECONDS_MAX)


BROKER_KILLS = 4


@pytest.mark.parametrize("seed", [0, 1])
def test_a_service_goes_on_when_its_broker_is_back(play: Playground, tmp_path: Path, seed: int) -> None:
    r = random.Random(seed)
    with own_broker(play, tmp_path) as (broker, there):
        resolved, log = project(there), tmp_path / "service.log"
        with there.oracle(resolved) as oracle:
            with service(resolved, log) as process:
                for kill in range(BROKER_KILLS):
                    send(there, 300)
                    runs_until(process, log, oracle, resolved, 60 * kill + r.randint(3, 50))
                    kill_broker(broker)
                    broker.start(die_with_parent=True)
                    runs_until(process, log, oracle, resolved, 60 * kill + 60)
            judge(there, resolved, oracle)


@pytest.mark.parametrize("seed", [0, 1])
def test_broker_and_service_die_together(play: Playground, tmp_path: Path, seed: int) -> None:
    r = random.Random(seed)
    with own_broker(play, tmp_path) as (broker, there):
        resolved, log = project(there), tmp_path / "service.log"
        with there.oracle(resolved) as oracle:
            for kill in range(BROKER_KILLS):
                send(there, 300)
                with service(resolved, log) as process:
                    runs_until(process, log, oracle, resolved, 60 * kill + r.randint(3, 50))
                    process.kill()
                    kill_broker(broker)
                broker.start(die_with_parent=True)
                if kill % 2:
                    there.run(resolved)
            judge(there, resolved, oracle)


def runs_until(process: subprocess.Popen[bytes], log: Path, oracle: Oracle, resolved: Resolved, steps: int) -> None:
    """Until so many steps can be read; the service may not end before."""
    wait_until(lambda: process.poll() is not None or steps_seen(oracle, resolved) >= steps)
    assert process.poll() is None, log.read_text()[-3000:]


# Again and again


def test_one_pipeline_killed_hundreds_of_times(play: Playground, tmp_path: Path) -> None:
    """At moments that have nothing to do with what it does: in its first seconds, in those after its claim, and among its steps."""
    r = random.Random(KILLS)
    resolved, log = project(play), tmp_path / "service.log"
    log.touch()
    with play.oracle(resolved) as oracle:
        for _ in range(KILLS):
            send(play, r.randint(20, 60))
            claims, steps = log.read_text().count("epoch"), steps_seen(oracle, resolved)
            with service(resolved, log) as process:
                match r.choice(["start", "claim", "step", "step", "step"]):
                    case "start":
                        pause = 6 * r.random()
                    case "claim":
                        wait_until(lambda n=claims: process.poll() is not None or log.read_text().count("epoch") > n)
                        pause = 4 * r.random()
                    case "step":
                        runs_until(process, log, oracle, resolved, steps + r.randint(1, 4))
                        pause = 0.3 * r.random()
                time.sleep(pause)  # a random moment, not a guess of one
                assert process.poll() is None, log.read_text()[-3000:]
        assert steps_seen(oracle, resolved) >= KILLS
        judge(play, resolved, oracle)
