"""A crew of real workers, in threads, over real sockets and databases: what it computes, and what it does when one of them is lost."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from base.fault import ExitCode
from base.term import Term
from base.version import VersionId
from engine.analysis.stages import plan_stages
from engine.errors import DataError, StaleTask, TaskLost
from engine.model.placement import Placement
from engine.resident import entry, mesh, pulse, strangers
from engine.resident.crew import Crew
from engine.resident.crew.recruiting import Shrink
from engine.resident.faults import WorkerMistake
from engine.resident.frames import STRANGER_BYTES_MAX, Frame
from engine.resident.messages import Beat, DatabaseFenced, Hello, Holds, Register, SocketAddress, StageRows
from engine.resident.registration import Candidate
from engine.resident.sockets import SocketConnection, SocketTransport
from engine.resident.start_faults import NoSlots, UnequalWorkers
from engine.resident.transport import Accepted, Arrived, Disconnected, Events
from engine.resident.worker.coordinator_link import CoordinatorGone
from engine.resident.worker.step_orders import StepOrders
from engine.run.task_setup import TaskSetup
from io_kafka.clients import connection_faults
from io_kafka.errors import StepTooLarge
from storage.database import Database
from storage.host_folder import HostFolder
from storage.identity import FIRST_BIRTH, FoundDatabase, Identity
from tests.engine.in_process import InProcess
from tests.engine.resident.local_cluster import (
    CIRCUIT,
    LOOPBACK,
    Log,
    ThreadLauncher,
    crew,
    identity_of,
    impatient,
    messages_of,
    opened,
    setup_of,
    step_of,
)
from tests.engine.zsets import TYPES, to_table

PARTITIONS = 3
WAIT_SECONDS_MAX = 30.0


def value(number: int, word: str) -> bytes:
    return json.dumps({"id": number, "word": word}).encode()


@contextmanager
def run_of(setup: TaskSetup, log: Log, attempt: int = 0, **limits: float) -> Iterator[tuple[Crew, ThreadLauncher]]:
    launcher = ThreadLauncher(lambda: log)
    with closing(crew(setup, launcher, attempt, **limits)) as made:
        yield opened(made), launcher
    launcher.join()


def wait_until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def fold(made: Crew, version: VersionId) -> None:
    made.checkpoints.freeze(version, ())
    made.checkpoints.begin_fold(may_rewrite=True)
    wait_until(lambda: made.checkpoints.poll_folds() is not None)


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_any_number_of_workers_gives_what_one_process_gives(tmp_path: Path, workers: int) -> None:
    log, twin = Log(PARTITIONS), InProcess(CIRCUIT, 1, {"seen": 2, "counts": 2})
    with run_of(setup_of(tmp_path, workers), log) as (made, _):
        at = [0] * PARTITIONS
        for step, filled in enumerate([{0: "ab", 1: "a", 2: "ccd"}, {1: "bb"}, {}, {0: "a", 2: "e"}]):
            rows = []
            for partition, words in filled.items():
                numbers = [100 * step + 10 * partition + i for i in range(len(words))]
                log.add(partition, *map(value, numbers, words))
                rows += list(zip(numbers, words, strict=True))
            ends = [len(values) for values in log.partitions]
            made.steps.give(step_of(step, {p: (at[p], ends[p]) for p in range(PARTITIONS)}))
            found = messages_of(made.steps.collect(step))
            expected = twin.step({"words": to_table(rows, TYPES)})
            assert found == {
                handle: sorted(((m["partition"], m["key"], m["value"]) for m in table.to_pylist()), key=repr)
                for handle, table in expected.items()
            }
            at = ends
        made.stop(4)


@pytest.mark.long
def test_a_checkpoint_is_taken_beside_a_step_and_a_new_crew_goes_on_from_it(tmp_path: Path) -> None:
    log, setup = Log(PARTITIONS), setup_of(tmp_path, 2)
    for partition, words in enumerate(["ab", "a", "b"]):
        log.add(partition, *(value(i, word) for i, word in enumerate(words)))
    with run_of(setup, log) as (made, _):
        made.steps.give(step_of(0, {0: (0, 1)}))
        made.steps.collect(0)
        made.checkpoints.freeze(VersionId(1, 1, "v1"), ())
        made.checkpoints.begin_fold(may_rewrite=True)
        made.steps.give(step_of(1, {0: (1, 2)}))
        made.steps.collect(1)
        wait_until(lambda: made.checkpoints.poll_folds() is not None)
        made.steps.give(step_of(2, {1: (0, 1)}))
        before = messages_of(made.steps.collect(2))
    with run_of(setup, log, attempt=1) as (made, _):  # the first one was not stopped: steps 1 and 2 are run again
        for step, spans in ((1, {0: (1, 2)}), (2, {1: (0, 1)})):
            made.steps.give(step_of(step, spans))
            again = messages_of(made.steps.collect(step))
        assert again == before
        assert [row[1:] for row in again["counts"]] == [(b'{"word":"a"}', b'{"word":"a","n":2}')]
        made.stop(3)


def test_no_reader_of_a_worker_gives_up_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker has answered the coordinator, so one that is away when a worker is started will come back."""
    monkeypatch.setattr(connection_faults, "_ANSWERED", set())
    setup = setup_of(tmp_path, 1)
    assert not setup.kafka.reports().has_answered
    with run_of(setup, Log(PARTITIONS)) as (made, _):
        assert setup.kafka.reports().has_answered
        made.stop(0)


def test_a_pause_says_where_the_workers_stand_and_the_next_step_ends_it(tmp_path: Path) -> None:
    log = Log(PARTITIONS)
    with run_of(setup_of(tmp_path, 2), log) as (made, _):
        made.steps.pause(0)
        made.steps.pause(0)
        made.steps.give(step_of(0, {}))
        made.steps.collect(0)
        with pytest.raises(TaskLost, match="should stand before step 5"):
            made.steps.pause(5)


def test_bad_data_on_one_worker_stops_the_step_on_all_and_changes_no_state(tmp_path: Path) -> None:
    log, setup = Log(PARTITIONS), setup_of(tmp_path, 3)
    log.add(0, value(1, "a"))
    log.add(1, b"no JSON")
    with run_of(setup, log) as (made, _):
        made.steps.give(step_of(0, {0: (0, 1), 1: (0, 1)}))
        with pytest.raises(DataError, match="topic words, partition 1, offset 0"):
            made.steps.collect(0)
        made.steps.give(step_of(0, {0: (0, 1)}))  # the same step over other input: nothing of the first try is there
        found = messages_of(made.steps.collect(0))
        assert [row[2] for row in found["counts"]] == [b'{"word":"a","n":1}']
        made.stop(1)


def test_a_step_that_is_too_large_for_one_worker_can_be_given_again(tmp_path: Path) -> None:
    class Bounded(Log):
        def read(self, ranges: Any, *, ahead: bool = False, bytes_max: int | None = None) -> Any:
            batches = super().read(ranges)
            if bytes_max is not None and any(batch.messages.length > 1 for batch in batches):
                raise StepTooLarge(bytes_max, {batch.range.where: batch.range.start + 1 for batch in batches})
            return batches

    log = Bounded(PARTITIONS)
    log.add(0, value(1, "a"), value(2, "a"))
    log.add(1, b"no JSON")
    with run_of(setup_of(tmp_path, 2), log) as (made, _):
        made.steps.give(step_of(0, {0: (0, 2), 1: (0, 1)}, bytes_max=30))
        with pytest.raises(StepTooLarge):  # and not the malformed message of the other worker
            made.steps.collect(0)
        made.steps.give(step_of(0, {0: (0, 2)}))
        assert [row[2] for row in messages_of(made.steps.collect(0))["counts"]] == [b'{"word":"a","n":2}']
        made.stop(1)


def test_a_worker_whose_database_has_other_slots_runs_no_step(tmp_path: Path) -> None:
    log, setup = Log(PARTITIONS), setup_of(tmp_path, 2)
    with run_of(setup, log) as (made, _):
        assert made.placement is not None
        owned = made.placement.owned
        made.join(Placement(1, {0: owned[1], 1: owned[0]}, {}))
        made.steps.give(step_of(0, {}))
        with pytest.raises(
            StaleTask, match=r"worker \d has the state of slots .*, but step 0 sends it the rows of slots"
        ):
            made.steps.collect(0)


@pytest.mark.long
def test_a_lost_worker_ends_the_crew_and_a_new_one_goes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, setup = Log(PARTITIONS), setup_of(tmp_path, 2)
    log.add(0, value(1, "a"))
    real = StepOrders.run_step

    def step(self: StepOrders, order: Any) -> None:
        if self.state.number == 1:
            self.control.connection.close()
            raise CoordinatorGone("as if its process had been killed")
        real(self, order)

    with monkeypatch.context() as killed:
        killed.setattr(StepOrders, "run_step", step)
        with run_of(setup, log) as (made, launcher):
            made.steps.give(step_of(0, {0: (0, 1)}))
            # The other worker may notice it first.
            with pytest.raises(TaskLost, match=r"worker 1 (\(process|is lost)"):
                made.steps.collect(0)
        assert [job.end is not None for job in launcher.jobs] == [True, True]
    with run_of(setup, log, attempt=1) as (made, _):
        made.steps.give(step_of(0, {0: (0, 1)}))
        assert [row[2] for row in messages_of(made.steps.collect(0))["counts"]] == [b'{"word":"a","n":1}']
        made.stop(1)


@pytest.mark.long
def test_what_a_replaced_crew_still_does_changes_no_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, setup = Log(PARTITIONS), setup_of(tmp_path, 2)
    log.add(0, value(1, "a"))
    inside, go_on = threading.Event(), threading.Event()
    real = Database.transaction
    first: list[int] = []

    @contextmanager
    def transaction(self: Database) -> Iterator[Any]:
        if not first:
            first.append(1)
            inside.set()
            assert go_on.wait(WAIT_SECONDS_MAX)
        with real(self) as made:
            yield made

    monkeypatch.setattr(Database, "transaction", transaction)
    launcher = ThreadLauncher(lambda: log)
    with closing(opened(crew(setup, launcher))) as made:
        made.steps.give(step_of(0, {0: (0, 1)}))
        assert inside.wait(WAIT_SECONDS_MAX)
    with run_of(setup, log, attempt=1) as (made, _):
        go_on.set()
        launcher.join()  # the worker that slept has tried to change its database
        made.steps.give(step_of(0, {0: (0, 1)}))
        assert [row[2] for row in messages_of(made.steps.collect(0))["counts"]] == [b'{"word":"a","n":1}']
        made.stop(1)


def test_a_mistake_of_ours_arrives_with_its_stack_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def mistaken(*_: Any) -> Any:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr("engine.run.tasks.run_stage", mistaken)
    with run_of(setup_of(tmp_path, 2), Log(PARTITIONS)) as (made, _):
        made.steps.give(step_of(0, {}))
        with pytest.raises(WorkerMistake, match="ZeroDivisionError: of ours"):
            made.steps.collect(0)


@pytest.mark.long
def test_a_worker_that_sends_its_peers_nonsense_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The peer that cannot read it says so; and a new crew runs the step."""
    log, setup = Log(PARTITIONS), setup_of(tmp_path, 2)
    for partition in range(PARTITIONS):
        log.add(partition, *(value(i, f"w{i}") for i in range(20)))
    real = mesh.Mesh.exchange

    def exchange(self: mesh.Mesh, *given: Any) -> Any:
        if self._worker == 1:
            for peer in self._peers.values():
                peer.send(Frame(self._term, StageRows(serial=self._serial, stage=0, channels=(0,)), (b"rubbish",)))
        return real(self, *given)

    step = step_of(0, dict.fromkeys(range(PARTITIONS), (0, 20)))
    with monkeypatch.context() as lying:
        lying.setattr(mesh.Mesh, "exchange", exchange)
        with run_of(setup, log) as (made, _):
            made.steps.give(step)
            with pytest.raises(TaskLost, match="worker 1 has sent rows of node 0 in stage 0, which cannot be read"):
                made.steps.collect(0)
    with run_of(setup, log, attempt=1) as (made, _):
        made.steps.give(step)
        assert len(messages_of(made.steps.collect(0))["counts"]) == 20
        made.stop(1)


def test_nonsense_of_a_peer_between_two_orders_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meshes: dict[int, mesh.Mesh] = {}
    real = mesh.Mesh.join

    def join(self: mesh.Mesh, number: int, members: Any) -> None:
        meshes[number] = self
        real(self, number, members)

    monkeypatch.setattr(mesh.Mesh, "join", join)
    with run_of(setup_of(tmp_path, 2), Log(PARTITIONS)) as (made, _):
        (peer,) = meshes[1]._peers.values()
        peer.send_now(Frame(made.term, StageRows(serial=0, stage=0, channels=(99,)), (b"rubbish",)))
        with pytest.raises(TaskLost, match=r"worker 1 has sent channels \(99,\) of stage 0"):
            wait_until(lambda: made.check() is None and False)


def test_a_silent_worker_is_given_up_while_many_others_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection is open, as that of a stopped process is. The others send signs of life all the time."""
    monkeypatch.setattr(pulse, "BEAT_SECONDS", 0.02)
    stuck = threading.Event()
    real_step, real_sign = StepOrders.run_step, SocketConnection.send_sign
    stopped: list[object] = []

    def step(self: StepOrders, order: Any) -> None:
        if self.state.number == 2:
            stopped.append(self.control.connection)
            stuck.wait(WAIT_SECONDS_MAX)
        real_step(self, order)

    def sign(self: SocketConnection, frame: Frame) -> None:
        if self not in stopped:
            real_sign(self, frame)

    monkeypatch.setattr(StepOrders, "run_step", step)
    monkeypatch.setattr(SocketConnection, "send_sign", sign)
    launcher = ThreadLauncher(lambda: Log(PARTITIONS))
    with closing(opened(crew(setup_of(tmp_path, 5), launcher))) as made:
        impatient(made, silence_s=0.5)
        made.steps.give(step_of(0, {}))
        with pytest.raises(TaskLost, match="worker 2: it has been silent"):
            made.steps.collect(0)
    stuck.set()
    launcher.join()


def test_a_frozen_worker_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lives and says so, but its own thread does nothing."""
    monkeypatch.setattr(pulse, "BEAT_SECONDS", 0.02)
    go_on = threading.Event()
    real = StepOrders.run_step

    def step(self: StepOrders, order: Any) -> None:
        if self.state.number == 1:
            go_on.wait(WAIT_SECONDS_MAX)
        real(self, order)

    monkeypatch.setattr(StepOrders, "run_step", step)
    launcher = ThreadLauncher(lambda: Log(PARTITIONS))
    with closing(opened(crew(setup_of(tmp_path, 2), launcher))) as made:
        impatient(made, progress_s=0.5)
        made.steps.give(step_of(0, {}))
        with pytest.raises(TaskLost, match=r"step 0: worker 1: it has made no progress"):
            made.steps.collect(0)
    go_on.set()
    launcher.join()


def test_a_worker_ends_when_its_coordinator_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.resident.pulse.CoordinatorPulse.start", lambda self: None)
    monkeypatch.setattr(pulse, "BEAT_SECONDS", 0.05)
    launcher = ThreadLauncher(lambda: Log(PARTITIONS))
    with closing(opened(crew(setup_of(tmp_path, 2), launcher, silence_s=3.0))):
        wait_until(lambda: all(job.end is not None for job in launcher.jobs))
    assert all("the coordinator has been silent" in str(job.end) for job in launcher.jobs)
    launcher.join()


def test_a_task_without_a_number_ends_with_its_coordinator_whatever_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks at the folder of its host, which may take long, and has not heard anything yet."""
    monkeypatch.setattr(pulse, "BEAT_SECONDS", 0.05)
    looks, go_on = threading.Event(), threading.Event()

    def look(self: HostFolder) -> tuple[FoundDatabase, ...]:
        looks.set()
        assert go_on.wait(WAIT_SECONDS_MAX)
        return ()

    monkeypatch.setattr(HostFolder, "look", look)
    launcher = ThreadLauncher(lambda: Log(PARTITIONS))
    with closing(crew(setup_of(tmp_path, 1), launcher)) as made:
        made.launch()
        assert looks.wait(WAIT_SECONDS_MAX)
        wait_until(lambda: made.check() is None and bool(made.recruiting._registration._strangers._since))
    wait_until(lambda: launcher.jobs[0].end is not None)
    assert launcher.jobs[0].end == "the connection to the coordinator has ended"
    go_on.set()
    launcher.join()


def test_a_task_does_not_wait_for_ever_for_the_first_sign_of_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a driver that was stopped while its workers started: the connection is open, and nobody reads from it."""
    monkeypatch.setattr(pulse, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(pulse, "FIRST_SIGN_SECONDS_MAX", 0.2)
    launcher = ThreadLauncher(lambda: Log(PARTITIONS))
    with closing(crew(setup_of(tmp_path, 1), launcher)) as made:
        made.launch()
        wait_until(lambda: launcher.jobs[0].end is not None)
    assert launcher.jobs[0].end == "the coordinator has given no sign of life within 0.2 s"
    launcher.join()


def test_too_few_task_slots_are_named(tmp_path: Path) -> None:
    launcher = ThreadLauncher(lambda: Log(PARTITIONS), late=1)
    launcher.slots_now = lambda: 2  # type: ignore[method-assign]
    made = crew(setup_of(tmp_path, 3), launcher, register_s=0.5)
    said = r"3 workers need 3 task slots at once, and 2 workers have registered within 0\.5 s; Spark has 2 task slots"
    with closing(made), pytest.raises(NoSlots, match=said):
        made.launch()
        made.recruiting.wait_for_candidates()
    launcher.join()
    few = ThreadLauncher(lambda: Log(PARTITIONS))
    few.slots = 2
    made = crew(setup_of(tmp_path, 3), few)
    with closing(made), pytest.raises(NoSlots, match="Spark has 2 task slots"):
        made.launch()
    assert not few.jobs


def test_companions_make_up_for_task_slots_that_are_missing(tmp_path: Path) -> None:
    launcher = ThreadLauncher(lambda: Log(PARTITIONS), late=2)

    def companions() -> dict[Candidate, int]:
        return dict.fromkeys(made.recruiting.candidates, 1)

    with closing(crew(setup_of(tmp_path, 4), launcher)) as made:
        made.launch()
        made.recruiting.wait_for_candidates(Shrink(0.5, companions))
        tasks = made.recruiting.candidates
        assert [task.registered.is_companion for task in tasks] == [False, False, True, True]
    launcher.join()


def test_no_companions_come_where_they_do_not_suffice(tmp_path: Path) -> None:
    launcher = ThreadLauncher(lambda: Log(PARTITIONS), late=1)
    made = crew(setup_of(tmp_path, 3), launcher, register_s=0.5)
    with closing(made), pytest.raises(NoSlots, match=r"2 workers have registered within 0\.7 s"):
        made.launch()
        made.recruiting.wait_for_candidates(Shrink(0.7, lambda: None))
    assert len(launcher.jobs) == 3
    launcher.join()


@pytest.mark.parametrize(("slots", "attempt", "told"), [(2, 0, 1), (3, 0, 0), (None, 0, 0), (2, 1, 0)])
def test_workers_that_take_all_task_slots_are_told_once(
    tmp_path: Path, slots: int | None, attempt: int, told: int
) -> None:
    launcher = ThreadLauncher(lambda: Log(PARTITIONS))
    launcher.slots = slots
    with capture_logs() as said, closing(crew(setup_of(tmp_path, 2), launcher, attempt)) as made:
        made.launch()
    launcher.join()
    assert [event["slots"] for event in said if "take all task slots" in event["event"]] == [2] * told


def test_workers_with_other_libraries_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = entry.fingerprint()
    monkeypatch.setattr(entry, "fingerprint", lambda: own.replace('"edition": 1', '"edition": 2'))
    launcher = ThreadLauncher(lambda: Log(PARTITIONS))
    made = crew(setup_of(tmp_path, 1), launcher)
    with closing(made), pytest.raises(UnequalWorkers, match=r"edition 2 \(coordinator: 1"):
        made.launch()
        made.recruiting.wait_for_candidates()
    launcher.join()


def test_a_fingerprint_that_is_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of Stepwell may have one of another form."""
    for other in ("no JSON", "[]"):
        with monkeypatch.context() as patch:
            patch.setattr(entry, "fingerprint", lambda other=other: other)
            launcher = ThreadLauncher(lambda: Log(PARTITIONS))
            made = crew(setup_of(tmp_path, 1), launcher)
            with closing(made), pytest.raises(UnequalWorkers, match=r"has .*fingerprint") as refused:
                made.launch()
                made.recruiting.wait_for_candidates()
            launcher.join()
        assert refused.value.exit_code == ExitCode.MACHINE and other in str(refused.value)


def registration(token: str) -> Register:
    return Register(
        token=token,
        host="h",
        pid=1,
        address=SocketAddress("h", 1),
        fingerprint=entry.fingerprint(),
        release="1",
        folder="/f",
        folder_name="f",
        folder_fault=None,
        free_bytes=1,
        is_companion=False,
    )


def stranger(made: Crew, frame: Frame) -> str:
    """Connects to the coordinator and sends the frame; how the connection ends."""
    with closing(SocketTransport(LOOPBACK)) as transport:
        connection = transport.connect(made._transport.address, 5.0)
        connection.send(frame)
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while time.monotonic() < deadline:
            made.check()
            for event in transport.poll(0.05):
                if isinstance(event, Disconnected):
                    return event.reason
    raise AssertionError("the connection is not closed")


def test_who_does_not_know_the_token_becomes_no_worker(tmp_path: Path) -> None:
    launcher = ThreadLauncher(lambda: Log(PARTITIONS), late=1)  # the real worker never comes
    with closing(crew(setup_of(tmp_path, 1), launcher)) as made:
        made.launch()
        register = registration(token="guessed")
        assert "closed" in stranger(made, Frame(made.term, register))
        assert not made.recruiting.candidates


def test_who_does_not_know_the_token_or_comes_from_another_term_is_turned_away(tmp_path: Path) -> None:
    with run_of(setup_of(tmp_path, 1), Log(PARTITIONS)) as (made, _):
        register = registration(token="guessed")
        assert "closed" in stranger(made, Frame(made.term, register))
        assert "closed" in stranger(
            made, Frame(made.term, Beat(step=0, stage=0, cpu_ms=0, bytes_moved=0, waiting=True))
        )
        known = register.model_copy(update={"token": made.recruiting._assignment.token})
        assert "closed" in stranger(made, Frame(Term(9, 9), known))
        assert len(made.members) == 1
        with socket.create_connection(made._transport.address, 5.0) as raw:
            raw.sendall(b"GET / HTTP/1.1\r\n\r\n")
            raw.settimeout(WAIT_SECONDS_MAX)
            wait_until(lambda: made.check() is None and _is_closed(raw))
        made.steps.give(step_of(0, {}))
        made.steps.collect(0)
        made.stop(1)


def _is_closed(raw: socket.socket) -> bool:
    raw.setblocking(False)
    try:
        return raw.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


@pytest.mark.long
@pytest.mark.parametrize("token", ["gu\u00e9ssed", "\ud800", ""])
def test_a_token_may_be_any_text(tmp_path: Path, token: str) -> None:
    with run_of(setup_of(tmp_path, 1), Log(PARTITIONS)) as (made, _):
        register = registration(token="")
        made._roster._take(Accepted(connection := _Closable()))  # type: ignore[arg-type]
        made._roster._take(Arrived(connection, Frame(made.term, register.model_copy(update={"token": token}))))  # type: ignore[arg-type]
        assert connection.is_closed and len(made.members) == 1
        made.stop(0)


class _Closable:
    is_closed = False

    def close(self) -> None:
        self.is_closed = True


def test_strangers_are_few_and_do_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "COUNT_MAX", 3)
    now = [0.0]
    known = strangers.Strangers(lambda: now[0])
    made = [_Closable() for _ in range(5)]
    for connection in made[:4]:
        known.add(connection)  # type: ignore[arg-type]
    assert [connection.is_closed for connection in made] == [True, False, False, False, False]
    assert known.remove(made[1]) and not known.remove(made[1]) and not known.remove(made[0])  # type: ignore[arg-type]
    now[0] = strangers.SECONDS_MAX + 1
    known.add(made[4])  # type: ignore[arg-type]
    assert [connection.is_closed for connection in made] == [True, False, True, True, False]


class _Waiting(_Closable):
    """The connection of a task that waits for its number."""

    def trust(self) -> None:
        """It may send large frames."""

    def send_now(self, frame: Frame) -> None:
        """Nobody reads it."""


def candidate_of(made: Crew) -> Any:
    connection: Any = _Waiting()
    made._roster._take(Accepted(connection))
    made._roster._take(Arrived(connection, Frame(made.term, registration(made.recruiting._assignment.token))))
    return connection


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Crew]:
    launcher = ThreadLauncher(lambda: Log(PARTITIONS), late=1)
    with closing(crew(setup_of(tmp_path, 1), launcher)) as made:
        made.launch()
        yield made
    launcher.join()


def test_a_task_is_a_candidate_when_it_has_told_what_its_host_holds(waiting: Crew) -> None:
    connection, found = candidate_of(waiting), FoundDatabase(0, None, (), 0, "torn")
    assert not waiting.recruiting.candidates
    waiting._roster._take(Arrived(connection, Frame(Term(0, 7), Holds(databases=()))))  # of another term
    assert not waiting.recruiting.candidates
    waiting._roster._take(Arrived(connection, Frame(waiting.term, Holds(databases=(found,)))))
    (candidate,) = waiting.recruiting.candidates
    assert candidate.databases == (found,)
    waiting._roster._take(
        Arrived(connection, Frame(waiting.term, Beat(step=-1, stage=-1, cpu_ms=0, bytes_moved=0, waiting=True)))
    )
    with pytest.raises(TaskLost, match="process 1 on h has sent holds and is no worker yet"):
        waiting._roster._take(Arrived(connection, Frame(waiting.term, Holds(databases=()))))
    with pytest.raises(TaskLost, match="process 1 on h, which waits for its number: gone"):
        waiting._roster._take(Disconnected(connection, "gone"))


def test_who_registers_when_all_have_numbers_is_sent_away(tmp_path: Path) -> None:
    with run_of(setup_of(tmp_path, 1), Log(PARTITIONS)) as (made, _):
        assert candidate_of(made).is_closed and not made.recruiting.candidates
        made.stop(0)


def test_a_spare_task_is_started_and_sent_away_when_the_numbers_are_given(tmp_path: Path) -> None:
    launcher = ThreadLauncher(lambda: Log(PARTITIONS))
    with closing(crew(setup_of(tmp_path, 2), launcher)) as made:
        made.launch()
        made.recruiting.wait_for_candidates()
        assert made.recruiting.wait_for_another()
        serials = [candidate.serial for candidate in made.recruiting.candidates]
        assert serials == [0, 1, 2] and len(launcher.jobs) == 3
        made.bind({0: 2, 1: 0}, {worker: (FIRST_BIRTH, identity_of(worker).database) for worker in (0, 1)})
        assert {member.pid for member in made.members.values()} == {os.getpid()} and not made.recruiting.candidates
        fenced = made.fence()
        assert set(fenced) == {0, 1}
    launcher.join()


def test_a_thousand_databases_are_told(tmp_path: Path) -> None:
    """They do not fit into the frame of a task that has not shown the token."""
    setup = setup_of(tmp_path, 1)
    launcher = ThreadLauncher(lambda: Log(PARTITIONS))
    many = tuple(
        FoundDatabase(n, Identity("p" * 100, n, f"log/0/{n}"), (VersionId(1, 1, "c" * 32),) * 2, 1 << 30)
        for n in range(1024)
    )
    assert len(Holds(databases=many).model_dump_json()) > STRANGER_BYTES_MAX
    with pytest.MonkeyPatch.context() as patch, closing(crew(setup, launcher)) as made:
        patch.setattr(HostFolder, "look", lambda self: many)
        made.launch()
        made.recruiting.wait_for_candidates()
        assert made.recruiting.candidates[0].databases == many
    launcher.join()


def test_an_answer_of_another_term_is_not_taken(tmp_path: Path) -> None:
    with run_of(setup_of(tmp_path, 1), Log(PARTITIONS)) as (made, _):
        member = made._roster.members[0]
        member.asked.add("fence_database")
        made._roster._take(Arrived(member.connection, Frame(Term(0, 7), DatabaseFenced(versions=(), number=1))))
        assert not member.answers
        made._roster._take(Arrived(member.connection, Frame(made.term, DatabaseFenced(versions=(), number=1))))
        assert member.answers.keys() == {"fence_database"}


def _nothing(*_: object) -> None:
    return None


def mesh_of(transport: SocketTransport) -> mesh.Mesh:
    """That of worker 0 in term 0.1."""
    return mesh.Mesh(
        transport,
        Events(transport),
        Term(0, 1),
        "secret",
        plan_stages(CIRCUIT),
        others=lambda event: None,
        now=time.monotonic,
        copies=_nothing,
    )


def test_rows_of_another_term_or_sent_twice_are_a_loss() -> None:
    with closing(SocketTransport(LOOPBACK)) as ours, closing(SocketTransport(LOOPBACK)) as theirs:
        net, connection = mesh_of(ours), theirs.connect(ours.address, 5.0)
        connection.send(Frame(Term(0, 1), Hello(token="secret", worker=1)))
        wait_until(lambda: [net.take(event) for event in ours.poll(0.05)] and bool(net._peers))
        (peer,) = net._peers.values()
        net.begin_step(3)
        rows = StageRows(serial=3, stage=0, channels=())
        assert net.take(Arrived(peer, Frame(Term(0, 1), rows.model_copy(update={"serial": 2}))))  # of a try before
        assert net.take(Arrived(peer, Frame(Term(0, 1), rows)))
        with pytest.raises(TaskLost, match="twice"):
            net.take(Arrived(peer, Frame(Term(0, 1), rows)))
        with pytest.raises(TaskLost, match=r"term 0\.0"):
            net.take(Arrived(peer, Frame(Term(0, 0), rows)))


def test_a_peer_that_does_not_know_the_token_is_turned_away() -> None:
    with closing(SocketTransport(LOOPBACK)) as ours, closing(SocketTransport(LOOPBACK)) as theirs:
        net, connection = mesh_of(ours), theirs.connect(ours.address, 5.0)
        connection.send(Frame(Term(0, 1), Hello(token="guessed", worker=1)))
        wait_until(lambda: all(net.take(event) for event in ours.poll(0.05)) and connection.is_gone())
        assert not net._peers


def test_a_checkpoint_at_another_step_is_refused(tmp_path: Path) -> None:
    with run_of(setup_of(tmp_path, 1), Log(PARTITIONS)) as (made, _):
        made.steps.give(step_of(0, {}))
        made.steps.collect(0)
        with pytest.raises(WorkerMistake, match="before step 1"):
            made.checkpoints.freeze(VersionId(1, 0, "too early"), ())


def test_partitions_that_were_added_have_one_reader(tmp_path: Path) -> None:
    log, setup = Log(5), setup_of(tmp_path, 2)
    for partition in range(5):
        log.add(partition, value(partition, "a"))
    with run_of(setup, log) as (made, _):
        made.steps.give(step_of(0, dict.fromkeys(range(5), (0, 1))))
        outputs = made.steps.collect(0)
        read = [(checksum.topic, checksum.partition) for output in outputs for checksum in output.done.inputs]
        assert sorted(read) == [("words", partition) for partition in range(5)]
        made.stop(1)
