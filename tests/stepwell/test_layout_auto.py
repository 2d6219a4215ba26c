"""`stepwell layout auto`: over a service whose loop is played by the test, and over a recorded load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from coordinator.automatic.automatic_shown import automatic_status
from coordinator.automatic.choice import Surroundings, WorkersLimits
from coordinator.automatic.load import LoadSample, StepClass
from coordinator.automatic.load_file import LOAD_FILE, LoadFile
from coordinator.automatic.machine import AutoMachine
from coordinator.automatic.requests import AutoRequest
from coordinator.rescale.requests import RescaleRefused
from coordinator.status import StatusBoard
from io_kafka.step_log.layout_records import AutoBounds
from stepwell.commands.control import status_table
from stepwell.commands.layout_text import automatic_text
from tests.io_kafka.layouts import auto, layout
from tests.stepwell.command_line import CommandLine
from tests.stepwell.folder import write
from tests.stepwell.metric_samples import samples_of
from tests.stepwell.test_layout_commands import Loop, log, playing  # noqa: F401 (a fixture)

TWO_TO_EIGHT = AutoRequest(AutoBounds(min=2, max=8))


@pytest.fixture
def line(tmp_path: Path) -> CommandLine:
    write(tmp_path, {})
    return CommandLine(tmp_path, "127.0.0.1:1", tmp_path / "cache")


def told(limits: WorkersLimits | None = None, workers: int = 3) -> dict[str, Any] | None:
    """As a status has it after a sample of a load that three workers manage."""
    machine = AutoMachine(10_000, limits)
    machine.take(LoadSample(10.0, 1.0, 100, 100, 0, workers, {7: StepClass(1, 100, 10.0)}), Surroundings())
    return automatic_status(machine, 0)


def accepting(loop: Loop, asked: Any) -> None:
    loop.board.update(
        automatic=None if asked.bounds is None else told(WorkersLimits(asked.bounds.min, asked.bounds.max))
    )


# The endpoint and the commands


def test_the_endpoint_takes_both_bounds_or_off(line: CommandLine) -> None:
    with playing(line, accepting) as loop:
        url, headers = loop.server.endpoint.url, {"Authorization": f"Bearer {loop.server.endpoint.token}"}

        def post(**body: Any) -> httpx.Response:
            return httpx.post(f"{url}/layout/auto", json=body, headers=headers, trust_env=False)

        answer = post(min=2, max=8)
        assert answer.status_code == 200 and answer.json()["automatic"]["max"] == 8
        assert post(off=True).json()["automatic"] is None
        assert loop.seen == [TWO_TO_EIGHT, AutoRequest(None)]
        for wrong in ({}, {"min": 2}, {"min": 3, "max": 2}, {"min": 0, "max": 2}, {"min": 1, "max": 2, "off": True}):
            assert post(**wrong).status_code == 400, wrong
        assert "give min and max, or off alone" in post(max=2).json()["error"]
        assert len(loop.seen) == 2


def test_commands_set_the_bounds_show_the_reason_and_end_it(line: CommandLine) -> None:
    with playing(line, accepting) as loop:
        begun = line.here("layout", "auto", "--min", "2", "--max", "8")
        assert begun.code == 0 and "Stepwell chooses 2 to 8 workers. watching: 1 of 3 samples" in begun.out
        for command in (("layout", "show"), ("status",)):
            assert "Stepwell chooses 2 to 8 workers. watching:" in line.here(*command).out
        assert line.here("layout", "show", "--json").json["automatic"]["decision"] == "watching"
        ended = line.here("layout", "auto", "--off")
        assert ended.code == 0 and "only commands change the number of workers now" in ended.out
        assert "Stepwell chooses" not in line.here("layout", "show").out
        assert loop.seen == [TWO_TO_EIGHT, AutoRequest(None)]


def test_a_refusal_is_told(line: CommandLine) -> None:
    with playing(line, lambda loop, asked: RescaleRefused("Spark has 2 task slots.", "Ask for fewer.")):
        refused = line.here("layout", "auto", "--min", "3", "--max", "8")
        assert refused.code == 6 and "Spark has 2 task slots." in refused.err


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), 2, "give --min and --max, or --off"),
        (("--min", "2"), 2, "give --min and --max, or --off"),
        (("--min", "3", "--max", "2"), 2, "--max is less"),
        (("--min", "0", "--max", "2"), 2, "--min"),
        (("--off", "--min", "1"), 2, "--off has no bounds"),
        (("--off", "--dry-run"), 2, "--off has no bounds and no --dry-run"),
        (("--min", "1", "--max", "2"), 8, "stepwell.workers.min and stepwell.workers.max do the same"),
        (("--min", "1", "--max", "2", "--dry-run"), 3, "no load was recorded yet"),
    ],
)
def test_what_cannot_be_asked(line: CommandLine, arguments: tuple[str, ...], code: int, says: str) -> None:
    ended = line.here("layout", "auto", *arguments)
    assert ended.code == code and says in ended.err, ended


def test_without_a_service_the_layout_shows_the_recorded_bounds(line: CommandLine, log: Any) -> None:  # noqa: F811
    log(layout(), auto(2, 8))
    assert "Stepwell chooses 2 to 8 workers, when the pipeline runs." in line.here("layout", "show").out


# The recorded load


def record(line: CommandLine, loads: list[tuple[int, int]], workers: int) -> Path:
    """(rows that arrive and are read in each sample, number of samples), with steps of two sizes."""
    file = line.folder / "state" / "stepwell" / LOAD_FILE
    clock = [1_000_000.0]
    writer = LoadFile(file, lambda: clock[0])
    for rows, count in loads:
        for _ in range(count):
            clock[0] += 10.0
            classes = {12: StepClass(5, 10_000, 200.0), 15: StepClass(3, 60_000, 600.0)} if rows else {}
            writer.append(LoadSample(10.0, 5.0 if rows else 0.0, rows, rows, 0, workers, classes))
    return file


def test_a_dry_run_shows_what_would_have_been_decided(line: CommandLine) -> None:
    file = record(line, [(70_000, 10), (0, 200)], workers=4)
    with file.open("ab") as out:
        out.write(b'{"at": 17')  # a process was killed here
    found = line.here("layout", "auto", "--min", "1", "--max", "8", "--dry-run")
    assert found.code == 0, found.err
    assert "over 35 min of recorded load" in found.out and "4 to 1" in found.out and "idle: For 15 min" in found.out
    assert "1 damaged lines of the record were left out" in found.out
    told = line.here("layout", "auto", "--min", "1", "--max", "8", "--dry-run", "--json").json
    assert [(each["from"], each["to"], each["decision"]) for each in told["decisions"]] == [(4, 1, "idle")]
    assert told["worker_hours"]["then"] < told["worker_hours"]["recorded"] and told["workers"] == 1
    stays = line.here("layout", "auto", "--min", "4", "--max", "8", "--dry-run")
    assert "would not have changed" in stays.out and file.exists()


# For people and programs


def test_the_metrics_and_the_status_have_the_last_decision() -> None:
    board = StatusBoard("p")

    def numbers() -> dict[str, float]:
        return {name: value for name, value in samples_of(board).items() if name.startswith("auto_")}

    assert {name for name, value in numbers().items() if value} == {"auto_decision:off"}
    board.update(automatic=told(WorkersLimits(2, 8)))
    found = numbers()
    assert (found["auto_on"], found["auto_workers_min"], found["auto_workers_max"]) == (1, 2, 8)
    assert found["auto_decision:watching"] == 1 and found["auto_decision:off"] == 0
    assert found["auto_workers"] == 3 and found["auto_arrived_per_second"] == 10
    board.update(automatic=told(WorkersLimits(4, 8)))
    assert numbers()["auto_decision:bounds"] == 1 and numbers()["auto_workers"] == 4
    automatic = board.show()["automatic"]
    assert automatic_text(automatic) == (
        "Stepwell chooses 4 to 8 workers. bounds: 3 workers are fewer than the bounds allow: 4 to 8 workers."
    )
    assert status_table(board.show()).row_count > 0
