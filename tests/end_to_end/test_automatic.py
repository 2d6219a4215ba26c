"""Stepwell chooses the number of workers of a real pipeline: more under a backlog, fewer when nothing comes, and the same answers."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from coordinator.automatic import choice as choices
from coordinator.automatic.choice import WorkersChoice
from coordinator.automatic.load_file import read_load
from coordinator.automatic.machine import AutoMachine
from coordinator.automatic.requests import AutoRequest
from coordinator.rescale.requests import RescaleRefused, RescaleRequest
from coordinator.specification import AutoSettings
from io_kafka.step_log.layout_records import AutoBounds, LayoutRecord, MoveStrategy
from io_kafka.step_log.records import decode
from tests.end_to_end import sums
from tests.end_to_end.harness import WAIT_SECONDS_MAX, Playground, Resolved, has_workers
from tests.end_to_end.threads import threads

ROWS = 12_000
STEP_ROWS = 60
SAMPLE_SECONDS = 0.1


def small_for(play: Playground, auto: AutoSettings, **conf: str) -> Resolved:
    """One view of sums in small steps, so that ROWS rows are a backlog of some seconds."""
    play.topic("in", 2)
    resolved = play.resolve(sums.files(), {"stepwell.step.rows.max": STEP_ROWS, "stepwell.workers": 1, **conf})
    resolved = replace(resolved, spec=replace(resolved.spec, auto=auto, checkpoint_interval_s=3600.0))
    return resolved.at_pace(sample_seconds=SAMPLE_SECONDS)


def layouts(play: Playground, resolved: Resolved) -> list[int]:
    """The numbers of workers of all layouts, in order."""
    found = []
    for message in play.read(resolved.spec.log_topic, prefixed=False):
        assert message.value is not None
        if json.loads(message.value)["kind"] == "layout":
            record = decode(message.value, resolved.spec.log_topic, message.offset)
            assert isinstance(record, LayoutRecord)
            if record.outcome != "asked":
                found.append(len(record.placed.births))
    return found


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[WorkersChoice]:
    """All choices that machines have made. New workers are threads, which start at once."""
    found: list[WorkersChoice] = []
    real = AutoMachine.take

    def take(machine: AutoMachine, *given: object) -> WorkersChoice:
        found.append(real(machine, *given))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(AutoMachine, "take", take)
    monkeypatch.setattr(choices, "START_SECONDS", 0.1)
    return found


def test_workers_come_under_a_backlog_and_leave_when_nothing_arrives(
    play: Playground, taken: list[WorkersChoice]
) -> None:
    resolved = small_for(play, AutoSettings(drain_s=0.3, lower_after_s=1.0))
    play.send("in", [sums.row(f"k{n % STEP_ROWS}", n) for n in range(ROWS)])
    with play.running(resolved, threads()) as run:
        run.wait_until(lambda status: status["steps_run"] > 0)
        run.requests.automatic.ask(AutoRequest(AutoBounds(min=1, max=2)), WAIT_SECONDS_MAX)
        run.wait_until(has_workers(2))
        run.wait_until(has_workers(1))
        run.wait_until(lambda status: status["rows"] == ROWS)
        shown = run.board.show()["automatic"]
        assert (shown["min"], shown["max"]) == (1, 2) and shown["reason"]
    made = [choice for choice in taken if choice.workers is not None]
    assert (made[0].kind, made[0].workers) == ("backlog", 2)
    assert "0 s are allowed" in made[0].reason
    assert {choice.kind for choice in made[1:] if choice.workers == 1} <= {"idle", "barren"}
    assert layouts(play, resolved)[:3] == [1, 2, 1]
    assert 0 not in play.check(resolved).values()
    play.check_steps(resolved)
    assert resolved.spec.load_file is not None
    samples = [sample for _, sample in read_load(resolved.spec.load_file).samples]
    assert sum(sample.rows for sample in samples) > ROWS // 2 and any(sample.is_changing for sample in samples)


@pytest.mark.long
def test_the_bounds_of_a_command_outlive_the_run_and_those_of_settings_count_when_they_change(
    play: Playground, taken: list[WorkersChoice]
) -> None:
    resolved = small_for(play, AutoSettings())
    play.send("in", [sums.row("a", 1)])
    with play.running(resolved, threads()) as run:
        run.wait_until(lambda status: status["steps_run"] > 0 and status["automatic"] is None)
        run.requests.automatic.ask(AutoRequest(AutoBounds(min=1, max=2)), WAIT_SECONDS_MAX)
        run.requests.layout.ask(
            RescaleRequest(2, MoveStrategy("live")), WAIT_SECONDS_MAX
        )  # within the bounds, so it stays
        run.wait_until(lambda status: status["automatic"]["decision"] == "waiting")
        assert len(run.board.show()["layout"]["members"]) == 2
        play.send("in", [sums.row("b", 1)])
        run.wait_until(lambda status: status["rows"] == 2 and bool(status["automatic"]["expected"]))
    with play.running(resolved, threads()) as run:
        run.wait_until(lambda status: status["automatic"] is not None and status["automatic"]["max"] == 2)
        run.wait_until(lambda status: bool(status["automatic"]["expected"]))  # it has read nothing, and remembers
        assert run.board.show()["rows"] == 0
        run.requests.automatic.ask(AutoRequest(None), WAIT_SECONDS_MAX)
        assert run.board.show()["automatic"] is None
    play.run(resolved, threads())
    record = play.log(resolved).auto
    assert record is not None and record.bounds is None
    set_ = replace(resolved, spec=replace(resolved.spec, auto=AutoSettings(AutoBounds(min=1, max=1), lower_after_s=60)))
    play.run(set_, threads())
    record = play.log(set_).auto
    assert record is not None and record.bounds == record.asked == AutoBounds(min=1, max=1)
    with play.running(set_, threads()) as run:
        run.wait_until(lambda status: len(status["layout"].get("members", ())) == 1)
    assert [choice.kind for choice in taken if choice.workers is not None] == ["bounds"]
    assert 0 not in play.check(resolved).values()


def test_what_spark_has_no_slots_for_is_refused(play: Playground) -> None:
    resolved = small_for(play, AutoSettings())
    play.send("in", [sums.row("a", 1)])
    cluster = threads()
    cluster.launcher.slots = 2  # type: ignore[misc]
    with play.running(resolved, cluster) as run:
        run.wait_until(lambda status: status["steps_run"] > 0)
        with pytest.raises(RescaleRefused, match="Spark has 2 task slots, and at least 3 workers need one each"):
            run.requests.automatic.ask(AutoRequest(AutoBounds(min=3, max=4)), WAIT_SECONDS_MAX)
        assert run.board.show()["automatic"] is None
