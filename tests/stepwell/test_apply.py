# ruff: noqa: E501 (texts as users read them)
"""`stepwell apply` and the endpoint that it asks, over a service whose loop is played by the test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from base.fault import ExitCode
from coordinator.requests import Requests
from coordinator.rescale.requests import PauseRequest
from coordinator.revisions.choices import Chosen
from coordinator.revisions.loads import chosen_tables
from coordinator.revisions.plan_key import key_of_project
from coordinator.revisions.planned import Planned
from coordinator.revisions.requests import ApplyRequest, TransitionRefused, TurnTransition
from coordinator.specification import PipelineSpec
from io_kafka.errors import BrokerUnreachable
from stepwell.commands import plan, transition
from stepwell.errors import Location, ProjectError, ProjectErrors
from stepwell.service.client import ControlClient
from tests.stepwell.command_line import CommandLine
from tests.stepwell.folder import write
from tests.stepwell.played_loop import PlayedLoop
from tests.stepwell.transitions import (
    NOTHING,
    REFUSAL,
    REFUSED,
    SETTLED,
    a_plan,
    a_spec,
    call,
    held,
    leading,
    over,
    playing,
    under_way,
)


@pytest.fixture
def line(tmp_path: Path) -> CommandLine:
    write(tmp_path, {})
    return CommandLine(tmp_path, "127.0.0.1:1", tmp_path / "cache")


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What the command finds in the files, which Spark would plan."""

    def have(found: Planned, key: str | None = None, number: int = 4) -> None:
        look = plan.PlanLook(found, number, key_of_project(a_spec()) if key is None else key)
        monkeypatch.setattr(plan, "look_at", lambda project, chosen: replace(look, chosen=chosen))

    have(a_plan())
    return have


# The endpoint


def test_the_endpoint_plans_the_files_and_hands_them_to_the_loop(line: CommandLine) -> None:
    with playing(line) as loop:
        assert call(loop, "POST", "/revision/apply").status_code == 200
        key = key_of_project(a_spec())
        assert call(loop, "POST", "/revision/apply", hold=True, expect_plan=key).status_code == 200
        assert loop.seen == [ApplyRequest(a_spec(), False), ApplyRequest(a_spec(), True)]
        chosen = {"from_now": ["b", "a", "a"], "append_from_now": ["o"], "retract": ["gone"], "reload": ["t.csv"]}
        assert call(loop, "POST", "/revision/apply", **chosen).status_code == 200
        of_user = Chosen(from_now=("a", "b"), append_from_now=("o",), retract=("gone",), reload=("t.csv",))
        assert loop.seen.pop() == ApplyRequest(a_spec(), False, of_user)
        for body in (
            {"hold": "yes"},
            {"hold": True, "workers": 3},
            {"expect_plan": 7},
            {"reload": "a.csv"},
            {"reload": [1]},
        ):
            answer = call(loop, "POST", "/revision/apply", **body)
            assert (answer.status_code, answer.json()["exit_code"]) == (400, 2)
        for what in ("pause", "resume", "switch", "abort"):
            assert call(loop, "POST", f"/revision/{what}").status_code == 200
        assert loop.seen[2:] == [TurnTransition(what) for what in ("pause", "resume", "switch", "abort")]  # type: ignore[arg-type]
        explode = call(loop, "POST", "/revision/explode")
        assert explode.status_code == 404 and "one of apply, pause, resume, switch, abort" in explode.json()["error"]
        for method, path in (("GET", "/revision"), ("POST", "/revision/apply"), ("POST", "/revision/abort")):
            url = f"{loop.server.endpoint.url}{path}"
            assert httpx.request(method, url, trust_env=False).status_code == 401
        assert len(loop.seen) == 6
        loop.board.update(transition=under_way(), transition_last=over("aborted"))
        found = call(loop, "GET", "/revision").json()
        assert found == {"revision": 4, "transition": under_way(), "transition_last": over("aborted")}


def test_files_that_are_not_those_that_were_shown_are_not_applied(line: CommandLine) -> None:
    with playing(line, plan_files=lambda: a_spec("another")) as loop:
        answer = call(loop, "POST", "/revision/apply", expect_plan=key_of_project(a_spec()))
        assert answer.status_code == 409 and "another project than the one that was shown" in answer.json()["error"]
        assert "--conf" in answer.json()["what_to_do"]
        assert loop.seen == []


def one_error() -> PipelineSpec:
    raise ProjectError(
        "there is no table flihgts", "Did you mean flights?", view="late", location=Location("views.sql", 12)
    )


def two_errors() -> PipelineSpec:
    places = (("late", 12), ("busy", 31))
    raise ProjectErrors(
        [ProjectError("no such table", "Add it.", view=v, location=Location("views.sql", n)) for v, n in places]
    )


@pytest.mark.parametrize(
    ("plan_files", "error", "what_to_do"),
    [
        (one_error, "views.sql:12: late: there is no table flihgts", "Did you mean flights?"),
        (two_errors, "views.sql:12: late: no such table\n  Add it.\nviews.sql:31: busy: no such table\n  Add it.", ""),
    ],
)
def test_errors_of_the_files_have_their_places(
    line: CommandLine, planned: Callable[..., None], plan_files: Any, error: str, what_to_do: str
) -> None:
    with playing(line, plan_files=plan_files) as loop:
        answer = call(loop, "POST", "/revision/apply")
        assert (answer.status_code, answer.json()) == (400, {"error": error, "what_to_do": what_to_do, "exit_code": 3})
        told = line.here("apply", "--yes")
        assert told.code == 3 and error in told.err and what_to_do in told.err
        assert loop.seen == []


def test_a_mistake_of_ours_while_the_service_plans_is_told(line: CommandLine, planned: Callable[..., None]) -> None:
    def breaks() -> PipelineSpec:
        raise KeyError("node 7")

    with playing(line, plan_files=breaks):
        told = line.here("apply", "--yes")
        assert told.code == 3 and "fails at /revision/apply" in told.err and "Its log says why" in told.err


def test_the_loop_answers_every_request_also_at_the_end() -> None:
    requests = Requests()
    asked = [
        requests.revision.put(TurnTransition("abort")),
        requests.layout.put(PauseRequest(True)),
    ]
    assert requests.wait(0), "a request wakes the loop"
    assert requests.revision.take() == asked[:1] and requests.revision.take() == []
    late = requests.revision.put(TurnTransition("pause"))
    requests.end()
    assert late.done.is_set() and isinstance(late.fault, TransitionRefused) and "has ended" in str(late.fault)
    with pytest.raises(TransitionRefused, match="is ending"):
        requests.revision.ask(TurnTransition("pause"), 1.0)
    requests = Requests()
    with pytest.raises(TransitionRefused, match=r"not answered within 0\.01 s.*`stepwell revision show`"):
        requests.revision.ask(TurnTransition("pause"), 0.01)


# apply


def test_a_plan_is_shown_applied_and_followed_until_it_is_settled(
    line: CommandLine, planned: Callable[..., None]
) -> None:
    with playing(line, leading({"transition": under_way("clearing", filled=1.0)}, SETTLED)) as loop:
        ended = line.here("apply", "--yes")
        assert ended.code == 0, ended
        assert "revision 4 -> 5" in ended.out and "rebuilt from filter up" in ended.out
        last = ended.out.strip().splitlines()[-1]
        assert (
            last
            == "revision 5 is in force from step 1,310 on: 98.3 % of the state was kept; it took 12.3 s, no step could begin for 18 ms, and the outputs that it concerns received 1,234 messages in that step"
        )
        assert loop.seen == [ApplyRequest(a_spec(), False, expect_revision=4)]


def test_tables_that_are_to_be_loaded_anew_reach_the_plan_and_the_loop(
    line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def look_at(project: Any, chosen: Chosen) -> plan.PlanLook:
        asked.append(chosen.reload)
        return plan.PlanLook(a_plan(), 4, key_of_project(a_spec()), chosen)

    monkeypatch.setattr(plan, "look_at", look_at)
    with playing(line, leading(SETTLED)) as loop:
        assert line.here("apply", "--yes", "--reload", "a.csv", "--reload", "db.b").code == 0
        assert loop.seen == [
            ApplyRequest(a_spec(), False, Chosen(reload=("a.csv", "db.b")), expect_revision=4)
        ] and asked == [("a.csv", "db.b")]
    told = line.here("run", "--reload", "a.csv")
    assert told.code == 2 and "--reload goes with --apply" in told.err


def test_a_table_that_is_not_there_is_told_before_the_service_is_asked(
    line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look_at(project: Any, chosen: Chosen) -> plan.PlanLook:
        chosen_tables(chosen.reload, ())
        raise AssertionError

    monkeypatch.setattr(plan, "look_at", look_at)
    with playing(line) as loop:
        told = line.here("apply", "--yes", "--reload", "a.csv")
        assert told.code == 3 and "--reload a.csv: no batch table of the project has this name" in told.err
        assert loop.seen == []


def test_for_programs_an_end_is_one_object(line: CommandLine, planned: Callable[..., None]) -> None:
    with playing(line, leading(SETTLED)):
        found = line.here("apply", "--yes", "--json").json
        assert found["plan"]["revision"] == 4 and found["plan"]["next"] == 5 and found["plan"]["can_be_applied"]
        assert (found["revision"], found["transition"], found["transition_last"]) == (5, None, over())


def test_a_change_that_costs_nothing_is_applied_unasked(line: CommandLine, planned: Callable[..., None]) -> None:
    planned(NOTHING)
    with playing(line, leading({**SETTLED, "transition_last": over(messages=0)})) as loop:
        ended = line.here("apply")
        assert ended.code == 0 and "Nothing would be filled, written or lost." in ended.out
        assert "no output received a message because of it" in ended.out and len(loop.seen) == 1


def test_the_project_that_is_in_force_is_not_applied_again(line: CommandLine, planned: Callable[..., None]) -> None:
    planned(replace(NOTHING, is_in_force=True))
    with playing(line) as loop:
        ended = line.here("apply", "--yes")
        assert ended.code == 0 and "revision 4 is this project already: nothing to apply" in ended.out
        found = line.here("apply", "--yes", "--json").json
        assert (found["revision"], found["transition"], found["plan"]["is_in_force"]) == (4, None, True)
        assert loop.seen == []


def test_a_plan_that_is_refused_is_shown_and_nothing_is_asked(line: CommandLine, planned: Callable[..., None]) -> None:
    planned(REFUSED)
    with playing(line) as loop:
        told = line.here("apply", "--yes")
        assert told.code == ExitCode.PROJECT and "nothing was asked of the service" in told.err
        assert "REFUSED: view late (views.sql:7): flights/2 begins at 81,204. Restore it." in told.out
        found = line.here("apply", "--yes", "--json")
        assert found.code == ExitCode.PROJECT and found.json["refused"] == [REFUSAL.to_json()]
        assert loop.seen == []


def test_nothing_begins_before_the_user_agrees(
    line: CommandLine, planned: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with playing(line, leading(SETTLED)) as loop:
        told = line.here("apply")
        assert told.code == 2 and "--yes" in told.err and "cannot do with --json" in told.err
        asking = SimpleNamespace(isatty=lambda: True, readline=lambda: given)
        monkeypatch.setattr("stepwell.commands.apply.sys", SimpleNamespace(stdin=asking))
        assert line.here("apply", "--json").code == 2, "a program has not seen the plan"
        for given in ("\n", "", "n\n", "later\n"):  # noqa: B007
            told = line.here("apply")
            assert told.code == 130 and "Nothing was asked of the service" in told.err
        assert loop.seen == []
        given = "Yes\n"
        assert line.here("apply").code == 0 and len(loop.seen) == 1


def test_without_a_service_apply_says_what_to_do(line: CommandLine, planned: Callable[..., None]) -> None:
    planned(a_plan(), key="must not be planned", number=-1)
    told = line.here("apply", "--yes")
    assert told.code == 8 and "needs a running service" in told.err and "stepwell run" in told.err
    told = line.here("apply", "--yes", "--json")
    assert told.code == 8 and told.json["exit_code"] == 8 and "stepwell run --apply" in told.json["error"]


def test_a_second_transition_is_refused_before_anything_is_planned(
    line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "look_at", lambda project, chosen: pytest.fail("planned"))
    with playing(line, plan_files=lambda: pytest.fail("planned")) as loop:
        loop.board.update(transition=under_way())
        told = line.here("apply", "--yes")
        assert (
            told.code == 6 and "the transition to revision 5 is under way" in told.err and "revision abort" in told.err
        )
        answer = call(loop, "POST", "/revision/apply")
        assert answer.status_code == 409 and "is under way" in answer.json()["error"] and loop.seen == []
        loop.board.update(transition=None, phase="starting")
        answer = call(loop, "POST", "/revision/apply")
        assert answer.status_code == 409 and "starts" in answer.json()["error"] and loop.seen == []
        loop.board.update(revision=0)
        told = line.here("apply", "--yes")
        assert told.code == 6 and "the service starts" in told.err


def test_a_plan_for_another_revision_is_not_applied(line: CommandLine, planned: Callable[..., None]) -> None:
    planned(a_plan(), number=3)
    with playing(line) as loop:
        told = line.here("apply", "--yes")
        assert told.code == 6 and "revision 4 is in force now, and the plan was made for revision 3" in told.err
        assert loop.seen == []


def test_what_the_service_refuses_is_told_with_its_reason(line: CommandLine, planned: Callable[..., None]) -> None:
    why = TransitionRefused(
        "view late needs messages of flights a second time, which is not possible yet.", "Rebuild it."
    )
    with playing(line, lambda loop, asked: why) as loop:
        told = line.here("apply", "--yes")
        assert told.code == 6 and why.message in told.err and "Rebuild it." in told.err
        answer = call(loop, "POST", "/revision/abort")
        assert answer.status_code == 409
        assert answer.json() == {"error": why.message, "what_to_do": "Rebuild it.", "exit_code": 6}
    with playing(
        line, lambda loop, asked: TransitionRefused("the plan is refused.", planned=REFUSED.to_json())
    ) as loop:
        assert call(loop, "POST", "/revision/apply").json()["planned"]["refused"] == [REFUSAL.to_json()]
        told = line.here("apply", "--yes", "--json")
        assert (
            told.code == 3
            and "REFUSED: view late (views.sql:7): flights/2 begins at 81,204. Restore it." in told.json["error"]
        )
    broker = BrokerUnreachable("127.0.0.1:1", "writing the plan", "timed out")
    with playing(line, lambda loop, asked: broker):
        told = line.here("apply", "--yes")
        assert told.code == 5 and "no Kafka broker answered" in told.err


def test_a_transition_that_is_held_says_why_and_what_can_be_done(
    line: CommandLine, planned: Callable[..., None]
) -> None:
    with playing(line, leading({"transition": held()})):
        told = line.here("apply", "--yes")
        assert told.code == 6
        assert "revision 4 -> 5: held: append output late_flights would take back 3 rows" in told.out
        assert "`stepwell revision switch`" in told.out and "`stepwell revision abort`" in told.out
    with playing(line, leading({"transition": held()})):
        found = line.here("apply", "--yes", "--json")
        assert found.code == 6 and found.json["transition"]["held_because"].startswith("append output")


@pytest.mark.parametrize(
    "still", [held("it was begun with --hold"), under_way("ready", filled=1.0)], ids=["held", "ready"]
)
def test_a_hold_that_was_asked_for_is_a_success(line: CommandLine, planned: Callable[..., None], still: Any) -> None:
    with playing(line, leading({"transition": still})) as loop:
        told = line.here("apply", "--yes", "--hold")
        assert told.code == 0 and "revision 4 -> 5" in told.out, told
        assert loop.seen == [ApplyRequest(a_spec(), True, expect_revision=4)]


def test_a_transition_that_is_detached_says_why(line: CommandLine, planned: Callable[..., None]) -> None:
    error = "step 1,207: view busy_routes: division by zero"
    with playing(line, leading({"transition": under_way("detached", error=error)})):
        told = line.here("apply", "--yes")
        assert told.code == 6 and f"detached: {error}" in told.out and "`stepwell revision resume`" in told.out


def test_a_transition_that_ends_otherwise_has_an_exit_code_of_its_own(
    line: CommandLine, planned: Callable[..., None]
) -> None:
    with playing(line, leading({"transition": None, "transition_last": over("aborted")})):
        told = line.here("apply", "--yes")
        assert told.code == 6 and "the transition was aborted, and revision 4 stays in force" in told.err
    fails = under_way("preparing", filled=0.0, error="a worker has no room on its disk")
    with playing(line, leading({"transition": fails}, {"transition": None})):
        told = line.here("apply", "--yes")
        assert told.code == 6 and "could not begin: a worker has no room on its disk" in told.err


def test_a_transition_that_is_not_shown_at_once_is_waited_for(line: CommandLine, planned: Callable[..., None]) -> None:
    """Also if an earlier one to the same number was aborted: an abort leaves the number to the next transition."""

    def accept(loop: PlayedLoop, asked: Any) -> None:
        loop.later(0.5, lambda: loop.board.update(transition=under_way()))
        loop.later(1.0, lambda: loop.board.update(**SETTLED))

    for before in (None, over("aborted")):
        with playing(line, accept) as loop:
            loop.board.update(transition_last=before)
            assert line.here("apply", "--yes").code == 0


def test_one_that_never_shows_is_given_up(
    line: CommandLine, planned: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transition, "BEGIN_SECONDS_MAX", 0.1)
    with playing(line):
        told = line.here("apply", "--yes")
        assert told.code == 6 and "the service does not say why" in told.err


def test_a_service_that_ends_during_a_transition(line: CommandLine, planned: Callable[..., None]) -> None:
    def fail(loop: PlayedLoop, asked: Any) -> None:
        loop.board.update(transition=under_way())
        loop.later(0.3, lambda: loop.fail("the disk is full"))

    with playing(line, fail):
        told = line.here("apply", "--yes")
        assert told.code == 8 and "the disk is full" in told.err and "goes on with what is recorded" in told.err

    def stop_before_it_begins(loop: PlayedLoop, asked: Any) -> None:
        loop.board.update(transition=under_way("preparing", filled=0.0))
        loop.later(0.3, lambda: loop.fail(""))

    with playing(line, stop_before_it_begins):
        told = line.here("apply", "--yes")
        assert told.code == 6 and "stopped before the transition began, so it is refused" in told.err
        assert "Revision 4 stays in force" in told.err and "goes on with" not in told.err

    def settle_and_stop(loop: PlayedLoop, asked: Any) -> None:
        loop.board.update(transition=under_way())

        def end() -> None:
            loop.board.update(**SETTLED)
            loop.fail("the disk is full")

        loop.later(0.3, end)

    with playing(line, settle_and_stop):
        assert line.here("apply", "--yes").code == 0, "its last status says that the transition is settled"


def test_nobody_has_to_wait(line: CommandLine, planned: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    with playing(line, leading()):
        told = line.here("apply", "--yes", "--no-wait")
        assert told.code == 0 and told.out.strip().endswith(
            "12 s to go. It goes on: `stepwell revision show` shows how far it is."
        )
        assert "the service has accepted it: revision 4 -> 5: being filled, 43 % filled" in told.out
    with playing(line):
        told = line.here("apply", "--yes", "--no-wait")
        assert told.code == 0 and "accepted it: the transition to revision 5" in told.out

    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(transition, "time", SimpleNamespace(sleep=interrupted, monotonic=lambda: 0.0))
    with playing(line, leading()):
        told = line.here("apply", "--yes")
        assert told.code == 130 and "The transition goes on." in told.err


def test_ctrl_c_while_the_service_plans_says_that_it_was_asked(
    line: CommandLine, planned: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ControlClient, "ask_revision", interrupted)
    with playing(line):
        told = line.here("apply", "--yes")
        assert told.code == 130 and "was asked already" in told.err and "`stepwell revision show`" in told.err


@pytest.mark.parametrize("now", [under_way(number=6), held(number=6)], ids=["filling", "held"])
def test_the_next_transition_is_not_this_one(line: CommandLine, planned: Callable[..., None], now: Any) -> None:
    """Somebody else has begun it as soon as this one was settled."""
    with playing(line, leading({**SETTLED, "transition": now})):
        told = line.here("apply", "--yes")
        assert told.code == 0 and "revision 5 is in force from step 1,310 on" in told.out, told


def test_a_service_of_a_former_version_is_told(line: CommandLine, planned: Callable[..., None]) -> None:
    with playing(line) as loop:
        routes = loop.server._thread._server.config.app.routes  # type: ignore[union-attr]
        routes[:] = [route for route in routes if not route.path.startswith("/revision/")]
        told = line.here("apply", "--yes")
        assert told.code == 3 and "another version of Stepwell runs it" in told.err
