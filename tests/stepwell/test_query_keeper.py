"""A service keeps one process for queries, whatever becomes of it, and lets nobody wait for long."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from stepwell.commands import query_keeper
from stepwell.commands.query_keeper import QueryKeeper
from stepwell.project.loading import load_project
from stepwell.service.queries import NotAnswered, QueryBody
from tests.stepwell import query_stub
from tests.stepwell.folder import write

DEADLINE_SECONDS = 60.0

Make = Callable[[str], QueryKeeper]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Keepers of the played process."""
    monkeypatch.setattr(query_keeper, "MODULE", query_stub.__name__)
    spec = write(tmp_path, {"a.sql": "CREATE MATERIALIZED VIEW v AS SELECT 1 AS x;\n"})
    made: list[QueryKeeper] = []

    def keeper(process: str) -> QueryKeeper:
        made.append(QueryKeeper(load_project(spec, {"stepwell.query.process": process})))
        return made[-1]

    yield keeper
    for each in made:
        each.close()


def ask(keeper: QueryKeeper, sql: str) -> Any:
    body = QueryBody(sql=sql, limit=10, of_next=False, as_json=True, key="key")
    return json.loads(keeper.answer(body))["found"]


def children() -> set[int]:
    return {process.pid for process in psutil.Process().children()}


def test_one_process_answers_all_and_is_ended(make: Make) -> None:
    keeper, before = make("on-demand"), children()
    keeper.begin()
    assert children() == before
    first, second = ask(keeper, "SELECT 'ü'\n"), ask(keeper, "answer")
    assert first["sql"] == "SELECT 'ü'\n" and first["pid"] == second["pid"] in children()
    with pytest.raises(NotAnswered, match="it is elsewhere"):
        ask(keeper, "not here")
    assert ask(keeper, "answer")["pid"] == first["pid"]
    keeper.close()
    assert children() == before
    with pytest.raises(NotAnswered, match="the service is ending"):
        ask(keeper, "answer")


def test_no_secret_is_in_the_environment_of_the_process(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_KAFKA_SASL_PASSWORD", "hush-hush")
    monkeypatch.setenv("HERE", "there")
    process = psutil.Process(ask(make("on-demand"), "answer")["pid"])
    assert process.environ()["HERE"] == "there" and "hush-hush" not in process.environ().values()


def test_the_setting_says_when_it_is_there(make: Make) -> None:
    before = children()
    with pytest.raises(NotAnswered, match=r"stepwell\.query\.process is never"):
        ask(make("never"), "answer")
    assert children() == before
    always = make("always")
    always.begin()
    (there,) = children() - before
    assert ask(always, "answer")["pid"] == there


def test_another_process_takes_the_place_of_one_that_has_ended(make: Make) -> None:
    keeper = make("on-demand")
    first = ask(keeper, "answer")["pid"]
    psutil.Process(first).kill()
    second = ask(keeper, "answer")["pid"]
    assert second != first
    with pytest.raises(NotAnswered, match="as its JVM does"):
        ask(keeper, "end")  # each process that is asked ends, so nobody tries for ever
    assert ask(keeper, "answer")["pid"] != second


def test_a_query_that_takes_too_long_is_ended(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper, before = make("on-demand"), children()
    ask(keeper, "answer")
    monkeypatch.setattr(query_keeper, "QUERY_SECONDS_MAX", 0.2)
    with pytest.raises(NotAnswered, match=r"within 0\.2 s"):
        ask(keeper, "wait")
    assert children() == before
    monkeypatch.undo()


def test_few_queries_wait(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are told at once, and those that wait get their answers in turn."""
    keeper = make("on-demand")
    ask(keeper, "answer")
    answers: list[Any] = []
    assert keeper._lock.acquire()  # as a query that is under way
    asking = [threading.Thread(target=lambda: answers.append(ask(keeper, "answer"))) for _ in range(4)]
    for thread in asking:
        thread.start()
    deadline = time.monotonic() + DEADLINE_SECONDS
    while keeper._places._value and time.monotonic() < deadline:
        time.sleep(0.01)
    with pytest.raises(NotAnswered, match="4 queries are asked"):
        ask(keeper, "answer")
    assert answers == []
    keeper._lock.release()
    for thread in asking:
        thread.join(DEADLINE_SECONDS)
    assert len(answers) == 4


def test_a_process_that_is_idle_or_large_ends(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    before = children()
    for name, limit in (("IDLE_SECONDS_MAX", 0.1), ("MEMORY_BYTES_MAX", 1)):
        with monkeypatch.context() as changed:
            changed.setattr(query_keeper, name, limit)
            assert ask(make("on-demand"), "answer")
            deadline = time.monotonic() + DEADLINE_SECONDS
            while children() != before and time.monotonic() < deadline:
                time.sleep(0.01)
        assert children() == before
