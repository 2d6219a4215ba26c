"""One step on one worker: what it leaves in the state, and what its peers learn, however it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from base.version import EMPTY
from engine.errors import DataError, StaleTask
from engine.run.exchange import ExchangeMessage
from engine.run.task_setup import TaskSetup
from engine.run.tasks import PeerFailed, Readers, StepTask
from storage.database import Database
from tests.engine.contexts import placement_of
from tests.engine.resident.local_cluster import Log, folder_of, identity_of, setup_of, step_of

VALUE = b'{"id": 1, "word": "a"}'


class Alone:
    """The peers of a single worker. `fails[stage]` is raised in the exchange after that stage."""

    def __init__(self, fails: Mapping[int, Exception] | None = None) -> None:
        self.fails = dict(fails or {})
        self.told: list[tuple[int, int]] = []

    def exchange(self, step: int, stage: int, rows: Mapping[int, Any]) -> Sequence[ExchangeMessage]:
        if stage in self.fails:
            raise self.fails[stage]
        return [ExchangeMessage(0, rows.get(0, {}))]

    def abandon(self, step: int, stage: int) -> None:
        self.told.append((step, stage))


@pytest.fixture
def setup(tmp_path: Path) -> TaskSetup:
    return setup_of(tmp_path, 1)


def opened(setup: TaskSetup) -> Database:
    folder = folder_of(setup, 0)
    fenced = Database.fence(folder, epoch=0, identity=identity_of(0))
    return Database.open(folder, EMPTY, epoch=0, identity=identity_of(0), fenced=fenced.number)


def step_at(database: Database) -> int:
    with database.read() as transaction:
        return transaction.get_step()


def log_of(*values: bytes) -> Log:
    log = Log(1)
    log.add(0, *values)
    return log


def readers(log: Log) -> Readers:
    """Nothing is read again."""
    return Readers(log, lambda: log)


def test_a_step_moves_the_state_to_the_next_step(setup: TaskSetup) -> None:
    database, peers = opened(setup), Alone()
    outcome = StepTask(setup, placement_of(1), step_of(0, {0: (0, 1)}), 0, peers).run(readers(log_of(VALUE)), database)
    assert step_at(database) == 1 and not peers.told
    assert {node: sum(table.num_rows for table in tables) for node, tables in outcome.output.items()} == {1: 1, 4: 1}
    assert len(outcome.stages) == setup.plan.stages


@pytest.mark.parametrize("step", [1, 7])
def test_a_step_that_is_not_the_next_one_is_refused(setup: TaskSetup, step: int) -> None:
    database = opened(setup)
    with pytest.raises(StaleTask, match=f"is at step 0, but the task is for step {step}"):
        StepTask(setup, placement_of(1), step_of(step, {}), 0, Alone()).run(readers(log_of()), database)
    assert step_at(database) == 0


def test_a_step_that_ran_already_is_refused(setup: TaskSetup) -> None:
    database = opened(setup)
    StepTask(setup, placement_of(1), step_of(0, {0: (0, 1)}), 0, Alone()).run(readers(log_of(VALUE)), database)
    with pytest.raises(StaleTask, match="is at step 1, but the task is for step 0"):
        StepTask(setup, placement_of(1), step_of(0, {0: (0, 1)}), 0, Alone()).run(readers(log_of(VALUE)), database)


def test_a_fault_before_the_exchange_is_told_to_the_peers(setup: TaskSetup) -> None:
    database, peers = opened(setup), Alone()
    with pytest.raises(DataError):
        StepTask(setup, placement_of(1), step_of(0, {0: (0, 1)}), 0, peers).run(readers(log_of(b"no JSON")), database)
    assert peers.told == [(0, 0)] and step_at(database) == 0


def test_a_fault_of_the_reader_is_told_too(setup: TaskSetup) -> None:
    class Broken(Log):
        def read(self, *_: Any, **__: Any) -> Any:
            raise DataError("no broker")

    peers = Alone()
    with pytest.raises(DataError):
        StepTask(setup, placement_of(1), step_of(0, {0: (0, 1)}), 0, peers).run(readers(Broken(1)), opened(setup))
    assert peers.told == [(0, 0)]


@pytest.mark.parametrize("fault", [PeerFailed("by another"), DataError("the connection is gone")])
def test_an_exchange_that_fails_leaves_the_state_and_sends_nothing_a_second_time(
    setup: TaskSetup, fault: Exception
) -> None:
    database, peers = opened(setup), Alone({0: fault})
    with pytest.raises(type(fault)):
        StepTask(setup, placement_of(1), step_of(0, {0: (0, 1)}), 0, peers).run(readers(log_of(VALUE)), database)
    assert not peers.told and step_at(database) == 0


def test_a_fault_in_the_last_stage_has_nobody_to_be_told(setup: TaskSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    import engine.run.tasks as tasks

    real: Callable[..., Any] = tasks.run_stage

    def failing(task: Any, stage: int, *rest: Any) -> Any:
        if stage == setup.plan.stages - 1:
            raise DataError("in the last stage")
        return real(task, stage, *rest)

    monkeypatch.setattr(tasks, "run_stage", failing)
    database, peers = opened(setup), Alone()
    with pytest.raises(DataError):
        StepTask(setup, placement_of(1), step_of(0, {0: (0, 1)}), 0, peers).run(readers(log_of(VALUE)), database)
    assert not peers.told and step_at(database) == 0
