"""A project changes while it runs, and reads batch tables that are loaded for it, or loaded again: beside the steps, once and whole."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from coordinator.revisions.choices import Chosen
from coordinator.revisions.loads import UnknownTable
from coordinator.revisions.requests import ApplyRequest, TransitionRefused
from coordinator.starting.errors import StateLost
from coordinator.starting.topics import batch_tables
from coordinator.topic_names import is_table_topic
from faults.points import Crash, CrashOrder, Point, arm
from io_kafka.step_log.records import TableRecord
from stepwell.errors import ProjectError
from tests.end_to_end.harness import Playground, Resolved, wait_until
from tests.end_to_end.test_reading_again import ask, wait_until_it_stands_still
from tests.end_to_end.test_transitions import ORDER_SECONDS, apply, is_in_force, wait_until_settled

PROJECT = """
CREATE STREAMING TABLE clicks (customer STRING, n INT) USING kafka TBLPROPERTIES ('subscribe' = '@clicks');
CREATE MATERIALIZED VIEW totals TBLPROPERTIES ('topic' = '@totals', 'mode' = 'upsert', 'key' = 'customer') AS
  SELECT customer, sum(n) AS n FROM clicks GROUP BY customer;
{more}
"""
COUNTRIES = """
CREATE MATERIALIZED VIEW by_country TBLPROPERTIES ('topic' = '@by_country', 'mode' = 'upsert', 'key' = 'country') AS
  SELECT country, sum(n) AS n, count(*) AS c FROM clicks LEFT JOIN csv.`DATA/people.csv` ON customer = _c0
  JOIN (SELECT _c0 AS id, _c1 AS country FROM csv.`DATA/people.csv`) p ON customer = p.id GROUP BY country;
CREATE MATERIALIZED VIEW people TBLPROPERTIES ('topic' = '@people', 'mode' = 'changelog') AS
  SELECT _c0 AS customer, _c1 AS country FROM csv.`DATA/people.csv`;
CREATE MATERIALIZED VIEW few TBLPROPERTIES ('topic' = '@few', 'mode' = 'changelog') AS
  SELECT country, n FROM by_country WHERE n < 5000;
"""
NUMBERS = """
CREATE MATERIALIZED VIEW numbers TBLPROPERTIES ('topic' = '@numbers', 'mode' = 'upsert', 'key' = 'id') AS
  SELECT id, value FROM parquet.`DATA/numbers`;
"""
CONF = {"stepwell.step.rows.max": 1024, "stepwell.checkpoint.interval": "1h"}


def project(data: Path, *more: str) -> dict[str, str]:
    return {"project.sql": PROJECT.format(more="".join(more)).replace("DATA", str(data))}


def clicks(first: int, count: int) -> list[dict[str, object]]:
    return [{"customer": f"c{i * 7 % 13}", "n": i * 31 % 50} for i in range(first, first + count)]


def write_people(data: Path, *countries: str) -> None:
    data.mkdir(exist_ok=True)
    lines = (f"c{i},{countries[i % len(countries)]}\n" for i in range(13))
    (data / "people.csv").write_text("".join(lines))


def topics_of_tables(play: Playground, resolved: Resolved) -> set[str]:
    return {name for name in play.topics.names() if is_table_topic(resolved.spec.name, name)}


def loads(play: Playground, resolved: Resolved) -> dict[str, TableRecord]:
    return dict(play.log(resolved).tables)


@pytest.fixture
def data(play: Playground, tmp_path_factory: pytest.TempPathFactory) -> Path:
    play.topic("clicks", 2)
    return tmp_path_factory.mktemp("data")


@pytest.mark.long
@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.soak), 3])
def test_a_table_comes_is_loaded_again_and_goes(
    play: Playground, data: Path, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under input. Each time the outputs get what differs, and a load that nobody needs any more is deleted."""
    monkeypatch.setattr(batch_tables, "PART_BYTES_MAX", 1000)
    conf = {**CONF, "stepwell.workers": workers}
    write_people(data, "A", "B", "C")
    play.spark.range(5000).selectExpr("id", "id * 3 AS value").repartition(2).write.parquet(str(data / "numbers"))
    play.send("clicks", clicks(0, 200))
    before, now = play.resolve(project(data), conf), play.resolve(project(data, COUNTRIES, NUMBERS), conf)
    with play.running(before) as run:
        run.wait_until(lambda shown: shown["steps_run"] > 0)
        apply(run, now)
        play.send("clicks", clicks(200, 100), 1)
        wait_until_settled(run)
        assert run.board.show()["transition_last"]["outcome"] == "switched"
        play.send("clicks", clicks(300, 50))
    first = loads(play, now)
    assert sorted(load.rows for load in first.values()) == [13, 5000]
    assert first.keys() == topics_of_tables(play, now)
    play.run(now)
    assert play.check(now)["numbers"] == 5000
    sent = len(play.read("numbers"))

    write_people(data, "A", "C", "D", "D")
    now = play.resolve(project(data, COUNTRIES, NUMBERS), conf)
    with play.running(now) as run:
        run.wait_until(lambda shown: shown["phase"] == "run")
        assert loads(play, now) == first, "a start loads nothing again"
        run.requests.revision.ask(ApplyRequest(now.spec, False, Chosen(reload=("people.csv",))), ORDER_SECONDS)
        play.send("clicks", clicks(350, 40), 1)
        wait_until_settled(run)
    second = loads(play, now)
    assert second.keys() == topics_of_tables(play, now)
    kept = [name for name, load in first.items() if load.rows == 5000]
    assert len(second) == 2 and second.keys() & first.keys() == set(kept)
    play.run(now)
    play.check(now)
    assert len(play.read("numbers")) == sent, "a table that nobody reloads is left alone"
    play.check_steps(now)

    with play.running(now) as run:
        run.wait_until(lambda shown: shown["phase"] == "run")
        run.requests.revision.ask(
            ApplyRequest(now.spec, False, Chosen(reload=("numbers", "people.csv"))), ORDER_SECONDS
        )
        wait_until_settled(run)
        assert run.board.show()["transition_last"]["messages"] == 0, "the files are as they were"
    kept = [name for name, load in loads(play, now).items() if load.rows == 5000]
    assert not loads(play, now).keys() & second.keys()

    with play.running(now) as run:
        apply(run, play.resolve(project(data, NUMBERS), conf))
        wait_until_settled(run)
    assert loads(play, now).keys() == topics_of_tables(play, now) == set(kept)
    again = COUNTRIES
    for name in ("by_country", "people", "few"):
        again = again.replace(f"'@{name}'", f"'@{name}2'")
    before = play.resolve(project(data, NUMBERS), conf)
    now = play.resolve(project(data, again, NUMBERS), conf)
    with play.running(before) as run:
        apply(run, now)
        wait_until_settled(run)
    play.run(now)
    assert loads(play, now).keys() == topics_of_tables(play, now) and len(loads(play, now)) == 2
    play.check(now)


@pytest.mark.long
def test_a_catalog_table_is_loaded_again_if_it_has_other_columns(play: Playground, data: Path) -> None:
    """It keeps its name. A table whose files have changed behind the session's back is read as it is now."""
    name = play.prefix.strip("_-.").replace("-", "_") + "_kinds"
    view = """
CREATE MATERIALIZED VIEW kinds TBLPROPERTIES ('topic' = '@kinds', 'mode' = 'changelog') AS SELECT * FROM TABLE;
""".replace("TABLE;", f"{name};")
    play.send("clicks", clicks(0, 20))
    spark = play.spark
    try:
        spark.sql(f"CREATE TABLE {name} (k STRING) USING csv LOCATION '{data}/kinds'")
        (data / "kinds").mkdir(exist_ok=True)
        (data / "kinds" / "one.csv").write_text("a\nb\n")
        before = play.resolve(project(data, view), CONF)
        play.run(before)
        assert play.check(before)["kinds"] == 2
        (data / "kinds" / "two.csv").write_text("b\nc\n")
        now = play.resolve(project(data, view), CONF)
        with pytest.raises(UnknownTable, match="--reload kind: no batch table"):
            play.run(now, on_change="apply", chosen=Chosen(reload=("kind",)))
        assert (
            play.run(now, on_change="apply", chosen=Chosen(reload=(name,)))["transition_last"]["outcome"] == "switched"
        )
        assert play.check(now)["kinds"] == 4
        spark.sql(f"DROP TABLE {name}")
        spark.sql(f"CREATE TABLE {name} (k STRING, n INT) USING csv LOCATION '{data}/kinds'")
        other = view.replace("'@kinds'", "'@kinds2'")
        now = play.resolve(project(data, other), CONF)
        assert play.run(now, on_change="apply")["transition_last"]["outcome"] == "switched"
        assert play.check(now)["kinds"] == 4
        (load,) = loads(play, now).values()
        assert load.rows == 4 and topics_of_tables(play, now) == {load.topic.topic}
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


BREAKS: tuple[Point, ...] = (
    "plan.written",
    "revision.intended",
    "switch.ready",
    "switch.recorded",
    "revision.settled",
)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.soak), 3])
def test_a_load_that_is_broken_off_leaves_nothing_that_counts(
    play: Playground, data: Path, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the load, beside which steps go on; between it and the intent; and at the moments after it. Nothing is loaded a second time behind
    the intent."""
    monkeypatch.setattr(batch_tables, "PART_BYTES_MAX", 1000)
    conf = {**CONF, "stepwell.workers": workers}
    play.send("clicks", clicks(0, 100))
    write_people(data, "A", "B")
    former = play.resolve(project(data, COUNTRIES), conf)
    play.run(former)
    for number, point in enumerate(("rows", *(BREAKS[:: 1 if workers == 1 else 3]))):
        play.send("clicks", clicks(10 * number, 60), number % 2)
        write_people(data, "A", f"{number}")
        now = play.resolve(project(data, COUNTRIES), conf)
        before = loads(play, now)
        reads = Reads(play, monkeypatch, breaks=point == "rows")
        with play.running(former) as run:
            run.wait_until(lambda shown: shown["phase"] == "run")
            asked = run.requests.revision.put(ApplyRequest(now.spec, False, Chosen(reload=("people.csv",))))
            if point == "rows":
                assert reads.begun.wait(ORDER_SECONDS)
                steps = run.board.show()["steps_run"]
                play.send("clicks", clicks(0, 10))
                run.wait_until(lambda shown, steps=steps: shown["steps_run"] > steps)  # type: ignore[misc]
                with pytest.raises(TransitionRefused, match="is under way"):
                    apply(run, now)
                assert not asked.done.is_set()
            with arm(CrashOrder("step.complete" if point == "rows" else point, "raise")):
                play.send("clicks", clicks(0, 10))
                wait_until(lambda run=run: run.fault is not None)
            assert isinstance(run.fault, Crash), run.fault
            run.fault = None
        reads.broken.set()
        is_recorded = point not in ("rows", "plan.written")
        assert (loads(play, now) == before) != is_recorded
        play.run(now)
        assert loads(play, now).keys() == topics_of_tables(play, now), point
        if not is_recorded:
            assert loads(play, now) == before
            play.run(now, on_change="apply", chosen=Chosen(reload=("people.csv",)))
        assert reads.count == (1 if is_recorded else 2), point
        play.run(now)
        assert play.log(now).revisions.phase is None and loads(play, now).keys() == topics_of_tables(play, now), point
        assert loads(play, now) != before
        play.check(now)
        former = now
    play.check_steps(former)


class Reads:
    """Counts how often a table is read. `breaks`: the first time, its reader waits after the first rows until the run is broken off, and
    ends with it. `begun` and `broken` tell of that."""

    def __init__(self, play: Playground, monkeypatch: pytest.MonkeyPatch, *, breaks: bool) -> None:
        self.count, self._breaks, self._play = 0, breaks, play
        self.begun, self.broken = threading.Event(), threading.Event()
        monkeypatch.setattr(play, "table_rows", self.rows)

    def rows(self, handle: str) -> Iterator[pa.RecordBatch]:
        self.count += 1
        for batch in Playground.table_rows(self._play, handle):
            yield batch.slice(0, 1)
            if self._breaks:
                self._breaks = False
                self.begun.set()
                assert self.broken.wait(ORDER_SECONDS)
                raise SystemExit  # of this thread
            yield batch.slice(1)


@pytest.mark.long
def test_an_abort_leaves_the_former_load(play: Playground, data: Path) -> None:
    play.send("clicks", clicks(0, 100))
    write_people(data, "A", "B")
    before = play.resolve(project(data, COUNTRIES), CONF)
    play.run(before)
    first = loads(play, before)
    play.spark.range(10).selectExpr("id", "id AS value").write.parquet(str(data / "numbers"))
    now = play.resolve(project(data, COUNTRIES, NUMBERS), CONF)
    with play.running(before) as run:
        run.wait_until(lambda shown: shown["phase"] == "run")
        run.requests.revision.ask(ApplyRequest(now.spec, True, Chosen(reload=("people.csv",))), ORDER_SECONDS)
        assert wait_until_it_stands_still(run)["phase"] == "held"
        assert len(loads(play, now)) == len(topics_of_tables(play, now)) == 3
        ask(run, "abort")
        wait_until_settled(run)
    assert loads(play, now) == first and topics_of_tables(play, now) == first.keys()
    play.run(before)
    play.check(before)
    play.check_steps(before)


@pytest.mark.long
def test_an_abort_while_a_table_is_loaded_takes_the_change_back(
    play: Playground, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user cannot know how far the service is. Nothing else can be asked of it then, and the reason is named."""
    play.send("clicks", clicks(0, 100))
    write_people(data, "A", "B")
    before = play.resolve(project(data), CONF)
    play.run(before)
    now = play.resolve(project(data, COUNTRIES), CONF)
    reads = Gate(play, monkeypatch)
    with play.running(before) as run:
        run.wait_until(lambda shown: shown["phase"] == "run")
        asked = threading.Thread(target=apply, args=(run, now))
        asked.start()
        assert reads.begun.wait(ORDER_SECONDS)
        run.wait_until(lambda shown: (shown["transition"] or {}).get("phase") == "preparing")
        with pytest.raises(TransitionRefused, match="the transition is being prepared, so pause is not possible"):
            ask(run, "pause")
        ask(run, "abort")
        reads.opened.set()
        asked.join(ORDER_SECONDS)
        wait_until_settled(run)
        assert run.board.show()["transition_last"]["outcome"] == "aborted"
        assert not topics_of_tables(play, now) and is_in_force(play, before)
        apply(run, now)
        run.wait_until(lambda shown: shown["revision"] == 2 and shown["transition"] is None)
    play.run(now)
    play.check(now)


class Gate:
    """The reader of a table waits after the first rows until it is opened."""

    def __init__(self, play: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.opened, self._play = threading.Event(), threading.Event(), play
        monkeypatch.setattr(play, "table_rows", self.rows)

    def rows(self, handle: str) -> Iterator[pa.RecordBatch]:
        for batch in Playground.table_rows(self._play, handle):
            self.begun.set()
            assert self.opened.wait(ORDER_SECONDS)
            yield batch


@pytest.mark.long
def test_a_table_that_cannot_be_read_refuses_the_change(play: Playground, data: Path) -> None:
    """Nothing of the load is left, and the project in force goes on."""
    play.send("clicks", clicks(0, 50))
    before = play.resolve(project(data), CONF)
    write_people(data, "A")
    play.spark.range(10).selectExpr("id", "id AS value").write.parquet(str(data / "numbers"))
    now = play.resolve(project(data, COUNTRIES, NUMBERS), CONF)
    for file in (data / "numbers").glob("*.parquet"):
        file.write_bytes(b"rubbish" * 10)
    with play.running(before) as run:
        run.wait_until(lambda shown: shown["steps_run"] > 0)
        with pytest.raises(ProjectError, match=r"numbers.*cannot be read") as raised:
            apply(run, now)
        assert "project.sql:" in str(raised.value)
        assert run.board.show()["transition"] is None
        play.send("clicks", clicks(50, 10))
        run.wait_until(lambda shown: shown["rows"] == 60)
    assert not topics_of_tables(play, now) and is_in_force(play, before)


def test_an_old_copy_of_the_state_that_would_read_a_deleted_load_is_refused(play: Playground, data: Path) -> None:
    play.send("clicks", clicks(0, 50))
    write_people(data, "A", "B")
    before = play.resolve(project(data, COUNTRIES), CONF)
    play.run(before)
    copy = play.folder / "copy"
    shutil.copytree(before.spec.storage, copy)
    write_people(data, "B", "C")
    now = play.resolve(project(data, COUNTRIES), CONF)
    play.run(now, on_change="apply", chosen=Chosen(reload=("people.csv",)))
    play.run(now)
    shutil.rmtree(now.spec.storage)
    shutil.move(copy, now.spec.storage)
    with pytest.raises(StateLost, match="batch tables whose rows are deleted"):
        play.run(now)
    play.run(now, full_refresh=True)
    play.check(now)
    play.run(now)
    assert loads(play, now).keys() == topics_of_tables(play, now), "those of the former generation are gone"
