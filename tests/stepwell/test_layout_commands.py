"""`stepwell layout`: over a service whose loop is played by the test, and over a step log in memory. test_cli.py has a real service."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from rich.console import Console

from coordinator.inbox import PendingRequest
from coordinator.requests import Requests
from coordinator.rescale.requests import LayoutIsAsAsked, PauseRequest, RescaleRefused, RescaleRequest, TurnRequest
from coordinator.status import StatusBoard
from engine.model.layout import DynamicShards, FixedShards
from io_kafka.step_log.layout_records import MoveStrategy
from io_kafka.step_log.records import Claim, Record
from io_kafka.step_log.state import StepLogState
from stepwell.commands import common, steps
from stepwell.commands.control import status_table
from stepwell.commands.layout_text import RescaleBar, done_text, moved_share, rescale_text, shares_text, time_text
from stepwell.service.last_run import write_last_run
from stepwell.service.server import ControlServer, RescaleBody
from storage.host_folder import HostFolder
from tests.io_kafka.layouts import change, layout
from tests.stepwell.command_line import CommandLine
from tests.stepwell.folder import write
from tests.stepwell.metric_samples import samples_of
from tests.stepwell.unasked import unasked

HALF = 1 << 15

LOOK_SECONDS = 0.01


def shown(number: int, slots: dict[int, int], outcome: str = "changed", under_way: dict[str, Any] | None = None) -> Any:
    """The layout as a status has it."""
    members = {str(worker): {"birth": "0", "slots": count} for worker, count in slots.items()}
    found = {"number": number, "outcome": outcome, "shards": 8, "policy": "fixed", "members": members}
    return found if under_way is None else {**found, "change": under_way}


def moving(number: int, workers: int, **changes: Any) -> dict[str, Any]:
    """A change under way as a status has it."""
    begun = {"number": number, "mode": "live", "workers": workers, "state": "moving", "is_paused": False}
    counts = {
        "cuts": 0,
        "slots_left": HALF,
        "slots_moved": 0,
        "bytes_moved": 0,
        "bytes_per_s": None,
        "bytes_left": None,
        "seconds": 0.0,
        "seconds_left": None,
        "longest_cut_ms": 0.0,
        "cuts_ms": 0.0,
        "longest_pause_ms": 0.0,
    }
    return {**begun, **counts, **changes}


class Loop:
    """Plays the loop of a service: `answer` is called for each request, and its result is refused or, if None, accepted."""

    def __init__(self, folder: Path, answer: Callable[[Loop, Any], RescaleRefused | None]) -> None:
        self.requests, self.board, self.seen = Requests(), StatusBoard("test"), list[Any]()
        policies = {"fixed": FixedShards(8), "dynamic": DynamicShards(0.5)}
        self.server = ControlServer(
            self.requests, self.board, 0, policies, plan_files=lambda: pytest.fail("planned"), answer_query=unasked
        )
        self._folder, self._answer, self._over = folder, answer, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.show(0, {0: HALF, 1: HALF}, "first")

    def show(self, number: int, slots: dict[int, int], outcome: str = "changed", under_way: Any = None) -> None:
        workers = [{"worker": worker, "host": "here", "pid": 70 + worker, "folder": "f"} for worker in slots]
        self.board.update(layout=shown(number, slots, outcome, under_way), workers=workers, phase="run")

    def _run(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            for asked in (*self.requests.layout.take(), *self.requests.automatic.take()):
                self._settle(asked)

    def _settle(self, asked: PendingRequest[Any]) -> None:
        self.seen.append(asked.request)
        asked.answer(self._answer(self, asked.request))

    def start(self) -> None:
        self._thread.start()
        self.server.start()
        self.server.endpoint.write(self._folder)

    def end(self) -> None:
        self._over.set()
        self._thread.join()
        self.server.endpoint.remove(self._folder)
        self.server.close()


Answer = Callable[[Loop, Any], RescaleRefused | None]


@pytest.fixture
def line(tmp_path: Path) -> CommandLine:
    write(tmp_path, {})
    return CommandLine(tmp_path, "127.0.0.1:1", tmp_path / "cache")


@contextmanager
def playing(line: CommandLine, answer: Answer = lambda loop, asked: None) -> Iterator[Loop]:
    loop = Loop(line.folder / "state" / "stepwell", answer)
    loop.start()
    try:
        yield loop
    finally:
        loop.end()


def settling(number: int, slots: dict[int, int], outcome: str = "changed") -> Answer:
    """Accepts a change, which is settled with this layout a moment later."""

    def answer(loop: Loop, asked: Any) -> None:
        loop.show(0, {0: HALF, 1: HALF}, "first", moving(1, asked.workers))
        threading.Timer(0.3, loop.show, (number, slots, outcome)).start()

    return answer


THIRDS = {0: 21_846, 1: 21_845, 2: 21_845}


# The endpoint


def test_the_endpoint_validates_a_change_and_hands_it_to_the_loop(line: CommandLine) -> None:
    with playing(line) as loop:
        url, headers = loop.server.endpoint.url, {"Authorization": f"Bearer {loop.server.endpoint.token}"}

        def post(what: str, **body: Any) -> httpx.Response:
            return httpx.post(f"{url}/layout/{what}", json=body or None, headers=headers, trust_env=False)

        full = {"workers": 3, "mode": "cold", "policy": "dynamic", "budget_bytes": 4000, "budget_ms": 20}
        assert post("change", workers=3).status_code == post("change", **full).status_code == 200
        assert loop.seen == [
            RescaleRequest(3, MoveStrategy("live")),
            RescaleRequest(3, MoveStrategy("cold", "batches", 4000, 20.0), DynamicShards(0.5)),
        ]
        wrong = (
            {},
            {"workers": 0},
            {"workers": 1025},
            {"workers": "3"},
            {"workers": 3, "mode": "warm"},
            {"workers": 3, "budgets": 1},
        )
        answers = [post("change", **body) for body in wrong]
        assert [answer.status_code for answer in answers] == [400] * len(wrong)
        assert "workers: Input should be less than or equal to 1024" in answers[2].json()["error"]
        for what in ("pause", "resume", "reverse", "abort"):
            assert post(what).status_code == 200
        assert loop.seen[2:] == [PauseRequest(True), PauseRequest(False), TurnRequest("reverse"), TurnRequest("abort")]
        assert post("explode").status_code == 404
        assert httpx.post(f"{url}/layout/abort", trust_env=False).status_code == 401
        found = httpx.get(f"{url}/layout", headers=headers, trust_env=False).json()
        assert found == {**shown(0, {0: HALF, 1: HALF}, "first"), "fault": None, "automatic": None}


def test_the_endpoint_gives_the_reason_of_a_refusal(line: CommandLine) -> None:
    with playing(line, lambda loop, asked: RescaleRefused("Spark has 2 task slots.", "Ask for fewer.")) as loop:
        headers = {"Authorization": f"Bearer {loop.server.endpoint.token}"}
        answer = httpx.post(
            f"{loop.server.endpoint.url}/layout/change", json={"workers": 3}, headers=headers, trust_env=False
        )
        assert (answer.status_code, answer.json()) == (
            409,
            {"error": "Spark has 2 task slots.", "what_to_do": "Ask for fewer.", "is_as_asked": False},
        )
        refused = line.here("layout", "change", "--workers", "3")
        assert refused.code == 6 and "Spark has 2 task slots." in refused.err and "Ask for fewer." in refused.err


# Commands over a service


def test_a_change_to_the_layout_that_stands_is_no_failure(line: CommandLine) -> None:
    """A script may say the number of workers each time."""
    with playing(line, lambda loop, asked: LayoutIsAsAsked.of(2)):
        ended = line.here("layout", "change", "--workers", "2")
        assert ended.code == 0 and "has 2 workers already; nothing was changed" in ended.out
        assert [
            member["slots"] for member in line.here("layout", "change", "--workers", "2", "--json").json["members"]
        ] == [HALF, HALF]


def test_a_change_is_followed_until_it_is_settled(line: CommandLine) -> None:
    with playing(line, settling(1, THIRDS)) as loop:
        words = ("--budget", "4m,20ms", "--dynamic", "--protocol", "icadd", "--json")
        ended = line.here("layout", "change", "--workers", "3", *words)
        assert ended.code == 0 and [member["slots"] for member in ended.json["members"]] == [*THIRDS.values()]
        assert loop.seen == [RescaleRequest(3, MoveStrategy("live", "icadd", 4 << 20, 20.0), DynamicShards(0.5))]
        told = line.here("layout", "show")
        assert "layout 1 (changed): 8 shards, fixed policy" in told.out and "here" in told.out and "33.3 %" in told.out


def test_a_change_that_ends_otherwise_has_an_exit_code_of_its_own(line: CommandLine) -> None:
    begun = {0: HALF, 1: HALF - 100, 2: 100}
    for answer, says in (
        (settling(1, {0: HALF, 1: HALF}, "reversed"), "the change was reversed: the layout has 2 workers, as before"),
        (settling(1, {0: HALF, 1: HALF}, "aborted"), "the change was aborted: the layout has 2 workers"),
        (settling(1, {0: 2 * HALF}, "changed"), "the change got another target meanwhile: the layout has 1 workers"),
    ):
        with playing(line, answer):
            ended = line.here("layout", "change", "--workers", "3")
            assert ended.code == 6 and says in ended.err, ended
    with playing(line, settling(1, begun, "aborted")):  # as many as were asked for, and few slots have moved
        assert line.here("layout", "change", "--workers", "3").code == 6


def test_a_change_that_gets_no_tasks_says_why(line: CommandLine) -> None:
    def answer(loop: Loop, asked: Any) -> None:
        loop.show(0, {0: HALF, 1: HALF}, "first", moving(1, asked.workers))

        def refuse() -> None:
            loop.board.update(layout_fault="1 worker needs 1 task slot.")
            loop.show(0, {0: HALF, 1: HALF}, "first")

        threading.Timer(0.3, refuse).start()

    with playing(line, answer):
        ended = line.here("layout", "change", "--workers", "3", "--json")
        assert ended.code == 6 and "the change could not begin: 1 worker needs 1 task slot." in ended.json["error"]


def test_a_service_that_ends_during_a_change(line: CommandLine) -> None:
    def answer(loop: Loop, asked: Any) -> None:
        loop.show(0, {0: HALF, 1: HALF}, "first", moving(1, asked.workers))

        def end() -> None:
            loop.board.update(phase="failed", error="the disk is full")
            write_last_run(loop._folder, loop.board.show())
            loop.server.endpoint.remove(loop._folder)

        threading.Timer(0.3, end).start()

    with playing(line, answer):
        ended = line.here("layout", "change", "--workers", "3")
        assert ended.code == 8 and "the disk is full" in ended.err and "goes on with the change" in ended.err


def test_nobody_has_to_wait(line: CommandLine) -> None:
    def accept(loop: Loop, asked: Any) -> None:
        loop.show(0, {0: HALF, 1: HALF}, "first", moving(1, asked.workers))

    with playing(line, accept):
        ended = line.here("layout", "change", "--workers", "3", "--no-wait")
        assert ended.code == 0 and "the change has begun: to 3 workers, live" in ended.out
        late = line.here("layout", "change", "--workers", "3", "--wait", "0.1")
        assert late.code == 3 and "It goes on" in late.err


def test_a_mode_of_an_earlier_release_means_the_present_one(line: CommandLine) -> None:
    """In commands, which say so, and in the bodies of clients."""

    def accept(loop: Loop, asked: Any) -> None:
        loop.show(0, {0: HALF, 1: HALF}, "first", moving(1, asked.workers))

    with playing(line, accept) as loop:
        ended = line.here("layout", "change", "--workers", "3", "--mode", "hot", "--no-wait")
        assert ended.code == 0 and "there is no mode hot any more" in ended.err and "to 3 workers, live" in ended.out
        assert [asked.strategy.mode for asked in loop.seen] == ["live"]
    assert RescaleBody.model_validate({"workers": 3, "mode": "hot"}).mode == "live"


def test_requests_for_the_change_under_way(line: CommandLine) -> None:
    def answer(loop: Loop, asked: Any) -> None:
        paused = moving(1, 3, mode="cold", is_paused=asked == PauseRequest(is_paused=True))
        loop.show(0, {0: HALF, 1: HALF}, "first", paused)

    with playing(line, answer) as loop:
        assert "no step runs before `stepwell layout resume`" in line.here("layout", "pause").out
        assert "no step runs" not in line.here("layout", "resume").out
        for what in ("reverse", "abort"):
            assert f"accepted to {what} the change" in line.here("layout", what).out
        assert loop.seen == [PauseRequest(True), PauseRequest(False), TurnRequest("reverse"), TurnRequest("abort")]
    assert line.here("layout", "abort").code == 8


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--workers", "0"), 2, "1"),
        (("--workers", "1025"), 2, "1024"),
        (("--workers", "3", "--mode", "hot"), 8, "there is no mode hot any more. The change is live"),
        (("--workers", "3", "--mode", "hot"), 8, "--mode live needs one"),
        (("--workers", "3", "--mode", "warm"), 3, "Use one of cold, live"),
        (("--workers", "3", "--protocol", "paxos"), 3, "Use one of batches, damion, icadd"),
        (("--workers", "3", "--mode", "cold", "--protocol", "icadd"), 2, "goes by no protocol"),
        (("--workers", "3", "--protocol", "damion"), 8, "--protocol damion needs one"),
        (("--workers", "3", "--budget", "4x"), 2, "4x"),
        (("--workers", "3", "--budget", "4m,5m"), 2, "one size"),
        (("--workers", "3", "--mode", "cold", "--budget", "4m"), 2, "cold"),
        (("--workers", "3", "--mode", "live"), 8, "stepwell run"),
        (("--workers", "3", "--no-wait"), 8, "stepwell run"),
    ],
)
def test_what_cannot_be_asked(line: CommandLine, arguments: tuple[str, ...], code: int, says: str) -> None:
    ended = line.here("layout", "change", *arguments)
    assert ended.code == code and says in ended.err, ended


# Over the step log


def recorded(*records: Record) -> StepLogState:
    state = StepLogState("log")
    for offset, record in enumerate((Claim(epoch=0, pipeline="test", run_id="r", host="h", pid=1), *records)):
        state = state.apply(record, offset)
    return state


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def have(*records: Record) -> None:
        monkeypatch.setattr(steps, "read_log", lambda project: recorded(*records))

    return have


def test_without_a_service_the_step_log_is_shown(line: CommandLine, log: Callable[..., None]) -> None:
    log(layout())
    found = line.here("layout", "show", "--json").json
    assert [(member["worker"], member["slots"], member["host"]) for member in found["members"]] == [
        (0, HALF, None),
        (1, HALF, None),
    ]
    assert (found["is_running"], found["outcome"], found["change"]) == (False, "first", None)
    log(layout(), change(workers=(0,)))
    told = line.here("layout", "show").out
    assert "change 1: to 1 worker, live, 50.0 % of the slots left" in told and "The next `stepwell run` goes on" in told
    log()
    assert line.here("layout", "show").code == 3


def test_a_plan_says_what_would_move(
    line: CommandLine, log: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    log(layout())
    sizes = {"worker_bytes": {"0": 600_000_000, "1": 60_000_000}}
    write_last_run(line.folder / "state" / "stepwell", sizes)
    found = line.here("layout", "plan", "--workers", "1", "--json").json
    way = {"source": 1, "destination": 0, "slots": HALF, "share_percent": 50.0, "bytes": 330_000_000}
    assert found["moves"] == [way] and found["leaving"] == [1] and found["joining"] == []
    assert found["expected"] == {
        "live": {"seconds": [2.2, 13.2], "pause_s": None, "is_measured": False},
        "cold": {"seconds": [2.2, 2.2], "pause_s": 2.2, "is_measured": False},
    }
    (free,) = found["free_bytes"].values()
    assert free > 0
    assert "up to 13.2 s under load" in line.here("layout", "plan", "--workers", "1").out
    measured = {"live": {"bytes_per_s": 33e6, "pause_ms": 40.0}, "cold": {"bytes_per_s": 330e6, "pause_ms": 7000.0}}
    write_last_run(line.folder / "state" / "stepwell", {**sizes, "layout": {"measured": measured}})
    found = line.here("layout", "plan", "--workers", "1", "--json").json
    assert found["expected"]["live"] == {"seconds": [10.0, 10.0], "pause_s": 0.04, "is_measured": True}
    assert found["expected"]["cold"] == {"seconds": [1.0, 1.0], "pause_s": 1.0, "is_measured": True}
    told = line.here("layout", "plan", "--workers", "1").out
    assert "40 ms" in told and "the last such change" in told
    assert "Free on the disk of this host" in told and "is refused" not in told
    monkeypatch.setattr(HostFolder, "free_bytes", lambda folder: 100_000_000)
    assert "too little room" in line.here("layout", "plan", "--workers", "1").out
    told = line.here("layout", "plan", "--workers", "3", "--dynamic").out
    assert "from 2 to 3 workers, 8 to 32 shards" in told and "cannot be split" in told
    same = line.here("layout", "plan", "--workers", "2", "--json").json
    assert same["moves"] == [] and same["bytes"] == 0
    log(layout(), change())
    assert "under way" in line.here("layout", "plan", "--workers", "3").err


def test_a_plan_without_a_size_says_so(line: CommandLine, log: Callable[..., None]) -> None:
    log(layout())
    told = line.here("layout", "plan", "--workers", "3").out
    assert "is known after the first checkpoint" in told and "expected time" not in told


def test_a_change_without_a_service_is_refused_before_spark_starts(line: CommandLine, log: Callable[..., None]) -> None:
    log(layout())
    ended = line.here("layout", "change", "--workers", "2")
    assert ended.code == 0 and "has 2 workers already; nothing was changed" in ended.out
    assert len(line.here("layout", "change", "--workers", "2", "--json").json["members"]) == 2
    log()
    assert line.here("layout", "change", "--workers", "2").code == 3


# In words and numbers


def test_a_change_in_words() -> None:
    assert rescale_text(moving(1, 3)) == "to 3 workers, live, moving, 0 B moved, 50.0 % of the slots left"
    begun = moving(
        1,
        3,
        state="resting",
        bytes_moved=30_000_000,
        bytes_left=60_000_000,
        bytes_per_s=10e6,
        seconds_left=6.0,
        cuts=2,
        longest_cut_ms=12.5,
    )
    assert (
        rescale_text(begun)
        == "to 3 workers, live, resting, 30 MB moved, 60 MB left, 10 MB/s, about 6 s to go, longest cut 12.5 ms"
    )
    done = {"mode": "live", "bytes_moved": 90_000_000, "elapsed_s": 12.3, "cuts": 9, "longest_pause_ms": 12.5}
    assert done_text(done) == "90 MB moved in 12.3 s and 9 cuts; no step could begin for up to 12.5 ms"
    assert done_text({**done, "mode": "cold"}) == "90 MB moved in 12.3 s; no step could begin for up to 12.5 ms"
    assert "waiting for its checkpoint" in rescale_text({**begun, "slots_left": 0, "bytes_left": 0})
    assert shares_text({}) == "-"
    assert shares_text({"0": {"slots": 2 * HALF}}) == "1 worker, 100.0 % of the slots"
    assert shares_text({"0": {"slots": 30_000}, "1": {"slots": 35_536}}) == "2 workers, 45.8 % to 54.2 % of the slots"
    assert [time_text(seconds) for seconds in (0.1, 90, 600, 9000)] == ["less than 1 s", "90 s", "10 min", "2.5 h"]


def test_status_and_metrics_have_the_layout() -> None:
    board = StatusBoard("test")
    assert samples_of(board)["workers"] == 0
    board.update(
        layout=shown(
            4,
            {0: HALF, 1: HALF},
            under_way=moving(5, 1, bytes_moved=7, bytes_left=9, bytes_per_s=3, seconds_left=3.5, longest_pause_ms=6.5),
        ),
        layout_fault="no tasks",
    )
    expected = {
        "workers": 2,
        "layout_number": 4,
        "layout_changing": 1,
        "layout_moved_bytes": 7,
        "layout_left_bytes": 9,
        "layout_bytes_per_second": 3,
        "layout_left_seconds": 3.5,
    }
    assert expected.items() <= (found := samples_of(board)).items()
    assert found["layout_longest_pause_seconds"] == pytest.approx(0.0065)
    cells = [str(cell) for column in status_table(board.show()).columns for cell in column.cells]
    assert "2 workers, 50.0 % of the slots each" in cells and "no tasks" in cells
    assert any(cell.startswith("to 1 worker, live") for cell in cells)


def test_a_change_is_a_bar_on_a_terminal_and_a_line_elsewhere() -> None:
    begun = moving(1, 3, bytes_moved=30, bytes_left=60)
    for is_terminal in (True, False):
        console = Console(file=StringIO(), force_terminal=is_terminal, highlight=False, width=200)
        console.print(RescaleBar(begun, "no [tasks]", head="change 1: "))
        lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
        assert len(lines) == 1 + is_terminal and ("33 %" in lines[0]) == is_terminal
        assert "change 1: to 3 workers, live, moving" in lines[-1] and "no [tasks]" in lines[-1]
    assert moved_share(moving(1, 3)) is None and moved_share(moving(1, 3, bytes_left=0)) == 1.0


@pytest.mark.parametrize("command", [("status",), ("layout", "show")])
@pytest.mark.parametrize("as_json", [True, False])
def test_a_command_that_watches_tells_each_look(
    line: CommandLine, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], as_json: bool
) -> None:
    """A program gets one object a line; a file gets what the command says without --watch."""
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(common, "time", SimpleNamespace(sleep=sleep))  # not for all threads of the process
    with playing(line) as loop:
        loop.show(0, {0: HALF, 1: HALF}, "first", moving(1, 3, bytes_moved=30, bytes_left=60))
        ended = line.here(*command, "--watch", *(["--json"] if as_json else []))
    assert ended.code == 130 and waits == [common.WATCH_SECONDS] * 2
    if as_json:
        looks = [json.loads(text) for text in ended.out.splitlines()]
        changes = [(look["layout"] if command == ("status",) else look)["change"] for look in looks]
        assert [change["bytes_left"] for change in changes] == [60, 60]
    else:
        assert ended.out.count("to 3 workers, live, moving, 30 B moved") == 2
