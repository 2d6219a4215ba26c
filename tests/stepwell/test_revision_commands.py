"""`stepwell revision`: over a service whose loop is played by the test, and over a step log in memory; and a transition in words and numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from coordinator.checkpoints.view_queries import NoAnswer
from coordinator.revisions.requests import TransitionRefused, TurnTransition
from coordinator.revisions.transition_shown import PHASES, ChangedViews, ViewDifference
from coordinator.status import StatusBoard
from io_kafka.errors import BrokerUnreachable
from io_kafka.step_log.records import Claim
from io_kafka.step_log.revision_records import (
    Choices,
    RevisionIntent,
    RevisionRecord,
    RevisionSwitch,
    RevisionTurn,
    TransitionPlans,
)
from io_kafka.step_log.revision_state import Clearing, Detached, Filling, Phase, RevisionState, Switching
from io_kafka.step_log.state import StepLogState
from stepwell.commands import common, steps
from stepwell.commands.control import status_table
from stepwell.commands.transition_text import TransitionBar, ended_text, transition_text, ways_out, whole_text
from stepwell.errors import StepwellError
from stepwell.service.client import ControlClient
from tests.stepwell.command_line import CommandLine, Ended
from tests.stepwell.folder import write
from tests.stepwell.metric_samples import samples_of
from tests.stepwell.played_loop import PlayedLoop
from tests.stepwell.transitions import (
    held,
    over,
    playing,
    under_way,
)

PLAN = "a" * 64


@pytest.fixture
def line(tmp_path: Path) -> CommandLine:
    write(tmp_path, {})
    return CommandLine(tmp_path, "127.0.0.1:1", tmp_path / "cache")


def test_requests_for_the_transition_under_way(line: CommandLine) -> None:
    def answer(loop: PlayedLoop, asked: Any) -> None:
        if asked.what == "abort":
            loop.board.update(transition=None, transition_last=over("aborted"))
        else:
            wrong = ("a",) if asked.what == "switch" else ()
            loop.board.update(transition=under_way(is_paused=asked.what == "pause", in_error=wrong))

    with playing(line, answer) as loop:
        told = line.here("revision", "pause")
        assert (
            told.out.strip() == "the service has accepted to pause the transition: revision 4 -> 5: paused, 43 % filled"
        )
        assert line.here("revision", "resume", "--json").json["transition"]["is_paused"] is False
        told = line.here("revision", "switch").out.splitlines()
        assert "accepted to switch the transition" in told[0], "it is a request, which may end in another hold"
        assert told[1].startswith(
            "The switch accepts rows in error: view a is in error from then on, and nothing is written to"
        )
        assert told[2:] == ["`stepwell revision show` shows how far it is."]
        told = line.here("revision", "abort")
        assert told.out.strip() == "the transition to revision 5 was aborted after 12.3 s; revision 4 stays in force"
        assert loop.seen == [TurnTransition(what) for what in ("pause", "resume", "switch", "abort")]  # type: ignore[arg-type]
    for what in ("pause", "resume", "switch", "abort"):
        assert line.here("revision", what).code == 8
    with playing(line, lambda loop, asked: TransitionRefused("no transition is under way.")):
        told = line.here("revision", "abort", "--json")
        assert told.code == 6 and told.json["error"] == "no transition is under way."


def log_with(revisions: RevisionState, **changes: Any) -> StepLogState:
    claim = Claim(epoch=0, pipeline="test", run_id="r", host="h", pid=1)
    return replace(StepLogState("log").apply(claim, 0), revisions=revisions, **changes)


BEFORE = RevisionRecord(epoch=0, number=4, plan=PLAN, step=812)


def intent(*, hold: bool = False) -> RevisionIntent:
    plans = TransitionPlans(facts=PLAN, present=PLAN, filling=PLAN, switching=PLAN, following=PLAN)
    choices = Choices(hold=hold)
    return RevisionIntent(epoch=0, number=5, plan="b" * 64, plans=plans, whole=8, choices=choices, again=(), step=1204)


def turn(reason: Any, error: str) -> RevisionTurn:
    return RevisionTurn(epoch=0, number=5, reason=reason, step=1207, error=error)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def have(phase: Phase | None = None, filled: int = 0, in_force: RevisionRecord | None = BEFORE) -> None:
        state = RevisionState(root=in_force, in_force=in_force, phase=phase)
        monkeypatch.setattr(StepLogState, "filled", property(lambda self: filled))
        monkeypatch.setattr(steps, "read_log", lambda project: log_with(state))
        monkeypatch.setattr(steps, "read_document", lambda project, record: None)

    return have


def test_show_has_the_revision_in_force_and_the_transition(line: CommandLine, log: Callable[..., None]) -> None:
    log()
    with playing(line) as loop:
        told = line.here("revision", "show").out
        assert "revision 4, in force from step 812 on" in told
        assert f"Its plan document is {PLAN} in topic stepwell.test.plans." in told
        loop.board.update(transition_last=over(), in_error={"a": "division by zero"})
        assert "View a is in error, and its output is withheld: division by zero" in line.here("revision", "show").out
        loop.board.update(transition=held(), transition_last=None, in_error={})
        told = line.here("revision", "show").out
        assert "revision 4 -> 5: held: append output late_flights" in told and "`stepwell revision abort`" in told
        assert "rebuilt: busy_routes\nnew: by_plane\ndropped: old_routes" in told
        assert [text.split() for text in told.splitlines() if "busy_routes" in text][-1] == ["busy_routes", "12", "7"]
        loop.board.update(transition=held(differences=()))
        assert "No row of a changed view differs." in line.here("revision", "show").out
        loop.board.update(transition=held(differences=(), views=ChangedViews(new=("by_plane",))))
        assert "differs" not in line.here("revision", "show").out, "no view has changed"
        loop.board.update(transition=held(differences=()))
        found = line.here("revision", "show", "--json").json
        assert found["is_running"] and (found["revision"], found["since_step"], found["plan"]) == (4, 812, PLAN)
        assert found["transition"] == held(differences=()) and found["transition_last"] is None
        loop.board.update(transition=None, transition_last=over(), revision=5)
        told = line.here("revision", "show").out
        assert "The last transition: revision 5 is in force from step 1,310 on: it took 12.3 s" in told
        assert told.startswith("revision 5\n"), "the log that was read has revision 4"


def test_a_broker_that_is_down_hides_nothing_that_the_service_knows(
    line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(project: object) -> StepLogState:
        raise BrokerUnreachable("127.0.0.1:1", "reading the step log", "timed out")

    monkeypatch.setattr(steps, "read_log", down)
    with playing(line):
        found = line.here("revision", "show", "--json").json
        assert (found["revision"], found["since_step"], found["plan"]) == (4, None, None)
        assert "Its plan document is in topic stepwell.test.plans." in line.here("revision", "show").out
    assert line.here("revision", "show").code == 5


AFTER = RevisionRecord(epoch=0, number=5, plan="b" * 64, step=1310)
SWITCH = RevisionSwitch(epoch=0, number=5, step=1310)
IN_THE_LOG: dict[str, tuple[Phase, int, RevisionRecord, str]] = {
    "filling": (Filling(before=BEFORE, intent=intent()), 2, BEFORE, "being filled, 25 % filled"),
    "ready": (Filling(before=BEFORE, intent=intent()), 8, BEFORE, "filled, and the switch comes at the next boundary"),
    "held": (Filling(before=BEFORE, intent=intent(hold=True)), 8, BEFORE, "held: it waits for `stepwell revision switch`, as --hold asked for"),
    "taken back": (
        Filling(before=BEFORE, intent=intent(), turn=turn("taken_back", "two rows with one key")), 8, BEFORE,
        "held: the step of the switch has failed: two rows with one key",
    ),
    "detached": (Detached(before=BEFORE, intent=intent(), turn=turn("detached", "it died")), 0, BEFORE, "detached: it died"),
    "switching": (Switching(before=BEFORE, intent=intent(), switch=SWITCH, counted=(), known=()), 8, AFTER, "switching"),
    "clearing": (
        Clearing(before=BEFORE, intent=intent(), is_switched=True, since=1311), 8, AFTER,
        "the tables that no revision needs are being removed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_THE_LOG)
def test_without_a_service_the_step_log_is_shown(line: CommandLine, log: Callable[..., None], name: str) -> None:
    phase, filled, in_force, says = IN_THE_LOG[name]
    log(phase, filled, in_force)
    told = line.here("revision", "show")
    assert told.code == 0 and f"revision 4 -> 5: {says}" in told.out, told
    assert f"revision {in_force.number}, in force from step {in_force.step:,} on" in told.out
    assert "The next `stepwell run` goes on with the transition." in told.out
    found = line.here("revision", "show", "--json").json
    assert not found["is_running"] and found["transition"].keys() == under_way().keys()
    assert found["transition"]["phase"] in PHASES


def test_a_state_without_a_revision(line: CommandLine, log: Callable[..., None]) -> None:
    log(None, 0, None)
    told = line.here("revision", "show")
    assert told.code == 3 and "no revision yet" in told.err and "stepwell run" in told.err


# In words and numbers


def test_a_transition_in_words() -> None:
    assert transition_text(under_way("preparing", filled=0.0, seconds_left=None)) == "revision 4 -> 5: being prepared"
    assert transition_text(under_way()) == "revision 4 -> 5: being filled, 43 % filled, about 12 s to go"
    assert transition_text(under_way(seconds_left=0.2)).endswith("43 % filled, less than 1 s to go")
    assert (
        transition_text(under_way(filled=1.0, seconds_left=0.0))
        == "revision 4 -> 5: filled, and what differs is being counted"
    )
    assert transition_text(under_way(is_paused=True)) == "revision 4 -> 5: paused, 43 % filled"
    assert "99 % filled" in transition_text(under_way(filled=0.9999)), "100 % means that nothing is left"
    assert transition_text(under_way(error="it failed once")).endswith("to go: it failed once")
    assert transition_text(under_way("switching", filled=1.0)) == "revision 4 -> 5: switching"
    assert len(
        {transition_text(under_way(phase, held_because="x" if phase == "held" else "", error="e")) for phase in PHASES}
    ) == len(PHASES)
    assert ways_out(under_way()) == [] and ways_out(under_way(is_paused=True)) == [
        "`stepwell revision resume` goes on with it."
    ]
    assert "rows in error" not in " ".join(ways_out(held()))
    assert ways_out(held(in_error=("a", "b")))[1] == (
        "It accepts the rows in error: views a, b are in error from then on, and nothing is written to the outputs behind them until the rows "
        "in error are corrected."
    )
    assert ended_text(over(messages=1)).endswith("the outputs that it concerns received 1 message in that step")
    assert (
        ended_text(over("aborted"))
        == "the transition to revision 5 was aborted after 12.3 s; revision 4 stays in force"
    )


def test_texts_of_users_are_no_markup() -> None:
    console = Console(file=StringIO(), highlight=False, width=200)
    shown = held(
        "view [red]a[/red]: [/]", differences=(ViewDifference("[bold]v", 1, 0),), views=ChangedViews(new=("[bold]v",))
    )
    console.print(*whole_text(shown))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "view [red]a[/red]: [/]" in text and text.count("[bold]v") == 2


def test_a_transition_is_a_bar_on_a_terminal_and_a_line_elsewhere() -> None:
    for is_terminal in (True, False):
        console = Console(file=StringIO(), force_terminal=is_terminal, highlight=False, width=200)
        console.print(TransitionBar(under_way()))
        lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
        assert len(lines) == 1 + is_terminal and lines[0].endswith(" 43 %") == is_terminal
        assert "revision 4 -> 5: being filled, 43 % filled" in lines[-1]


def gauges(board: StatusBoard) -> dict[str, float]:
    return {
        name.removeprefix("transition_"): value
        for name, value in samples_of(board).items()
        if name.startswith("transition_")
    }


def test_status_and_metrics_have_the_transition() -> None:
    board = StatusBoard("test")
    without = gauges(board)
    assert set(without.values()) == {0.0} and {f"phase:{name}" for name in PHASES} < without.keys()
    assert "transition" not in [str(cell) for column in status_table(board.show()).columns for cell in column.cells]
    board.update(transition=under_way(is_paused=True))
    found = gauges(board)
    assert found.keys() == without.keys()
    shown = {name: value for name, value in found.items() if value}
    assert shown == {
        "phase:filling": 1.0,
        "number": 5.0,
        "filled_ratio": 0.437,
        "left_seconds": 12.0,
        "paused": 1.0,
    }
    board.update(transition=held())
    found = gauges(board)
    assert found["phase:held"] == 1.0 and found["phase:filling"] == 0.0
    assert "left_seconds" not in found, "it is not known"
    cells = [str(cell) for column in status_table(board.show()).columns for cell in column.cells]
    assert any(cell.startswith("revision 4 -> 5: held: append output") for cell in cells)


@pytest.mark.parametrize("as_json", [True, False])
def test_show_can_watch(
    line: CommandLine, log: Callable[..., None], monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    log()
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(common, "time", SimpleNamespace(sleep=sleep))
    with playing(line) as loop:
        loop.board.update(transition=under_way())
        monkeypatch.setattr(steps, "read_log", reading := Counting(steps.read_log))
        ended: Ended = line.here("revision", "show", "--watch", *(["--json"] if as_json else []))
    assert ended.code == 130 and reading.calls == 1, "the log is read once for a revision"
    if as_json:
        assert [json.loads(text)["transition"]["number"] for text in ended.out.splitlines()] == [5, 5]
    else:
        assert ended.out.count("revision 4 -> 5: being filled") == 2


class Counting:
    def __init__(self, read: Callable[..., StepLogState]) -> None:
        self.calls, self._read = 0, read

    def __call__(self, project: Any) -> StepLogState:
        self.calls += 1
        return self._read(project)


def test_help_names_the_commands(line: CommandLine) -> None:
    assert "apply" in line.here("--help").out and "revision" in line.here("--help").out
    told = line.here("revision", "--help").out
    assert all(name in told for name in ("show", "pause", "resume", "switch", "abort"))
    assert all(option in line.here("apply", "--help").out for option in ("--hold", "--no-wait", "--yes", "--json"))


def test_a_query_of_the_next_revision_needs_a_service_and_a_transition(line: CommandLine) -> None:
    """Both are told before Spark is started."""
    told = line.here("query", "--next", "SELECT 1")
    assert told.code == 8 and "asks the running service" in told.err
    with playing(line):
        told = line.here("query", "--next", "SELECT 1", "--json")
        assert told.code == 6 and "`stepwell apply --hold` begins one" in told.json["error"]


def test_the_endpoint_hands_on_which_circuit_the_next_revision_must_have(
    line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with playing(line) as loop:
        seen = list[Any]()

        def ask(views: Any, seconds: float, next_of: str | None = None) -> Any:
            seen.append((views, next_of))
            raise NoAnswer("view v is not yet what revision 5 says.", "Make the switch.")

        monkeypatch.setattr(loop.requests.questions, "ask", ask)
        client = ControlClient(line.folder / "state" / "stepwell")
        for next_of in ("abc", None):
            with pytest.raises(StepwellError, match=r"not yet what revision 5 says\. Make the switch"):
                client.views(["v", "w"], next_of)
        assert seen == [(["v", "w"], "abc"), (["v", "w"], None)]
