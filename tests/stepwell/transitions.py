"""Transitions as a status has them, and a service whose loop is played by the test, for tests of the commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from base.fault import Fault
from coordinator.revisions.plan_parts import PlanRefusal, ViewPlan
from coordinator.revisions.planned import Planned
from coordinator.revisions.view import ChangedViews, TransitionEnded, TransitionShown, ViewDifference
from coordinator.specification import OutputTopic, PipelineSpec
from engine.model.circuit import Circuit
from io_kafka.clients.settings import KafkaSettings
from io_kafka.step_log.division import StepLimits
from tests.stepwell.command_line import CommandLine
from tests.stepwell.played_loop import PlayedLoop

VIEWS = ChangedViews(rebuilt=("busy_routes",), new=("by_plane",), dropped=("old_routes",))


def under_way(phase: Any = "filling", **changes: Any) -> dict[str, Any]:
    """A transition as a status has it."""
    begun = TransitionShown(
        number=5, phase=phase, is_paused=False, held_because="", filled=0.437, seconds_left=12.0, drained=None,
        since_step=1204, differences=None, views=VIEWS, error="",
    )  # fmt: skip
    found = replace(begun, **changes)
    found.check()
    return found.to_json()


def over(outcome: Any = "switched", **changes: Any) -> dict[str, Any]:
    ended = TransitionEnded(
        number=5, outcome=outcome, step=1310, begin_ms=4.0, pause_ms=18.4, messages=1234, seconds=12.34, filling_s=9.5
    )
    return replace(ended, **changes).to_json()


def held(why: str = "append output late_flights would take back 3 rows", **changes: Any) -> dict[str, Any]:
    differences = (ViewDifference("busy_routes", 12, 7),)
    full = {"held_because": why, "filled": 1.0, "seconds_left": None, "differences": differences}
    return under_way("held", **{**full, **changes})


def a_spec(topic: str = "t") -> PipelineSpec:
    kafka = KafkaSettings.parse({"bootstrap.servers": "127.0.0.1:1"})
    outputs = (OutputTopic("o", topic, 1, False),)
    return PipelineSpec("test", Path(), Circuit(()), (), outputs, kafka=kafka, limits=StepLimits(1, 1))


def a_plan(**changes: Any) -> Planned:
    view = ViewPlan(name="busy_routes", kind="rebuilt", place="views.sql:25", happens="rebuilt from filter up")
    found = Planned(
        sources=(), views=(view,), outputs=(), refusals=(), kept_with_state=983, with_state=1000, kept_share=0.983,
        share_of="nodes", rows=217, disk_bytes=None, gradual=False, is_in_force=False,
    )  # fmt: skip
    return replace(found, **changes)


NOTHING = a_plan(views=(), kept_with_state=1000, kept_share=1.0)
REFUSAL = PlanRefusal("expired_input", "view late", "views.sql:7", "flights/2 begins at 81,204", "Restore it")
REFUSED = a_plan(refusals=(REFUSAL,))


Answer = Callable[[PlayedLoop, Any], Fault | None]


@contextmanager
def playing(
    line: CommandLine,
    answer: Answer = lambda loop, asked: None,
    plan_files: Callable[[], PipelineSpec] = a_spec,
) -> Iterator[PlayedLoop]:
    loop = PlayedLoop(line.folder / "state" / "stepwell", answer, plan_files)
    loop.start()
    try:
        yield loop
    finally:
        loop.end()


def leading(*later: dict[str, Any], after_s: float = 0.3) -> Answer:
    """Accepts a request and shows that the transition is filled. A moment later the status gets each of these, one after the other."""

    def answer(loop: PlayedLoop, asked: Any) -> None:
        loop.board.update(transition=under_way())
        for i, changes in enumerate(later):
            loop.later(after_s * (i + 1), lambda changes=changes: loop.board.update(**changes))

    return answer


SETTLED = {"transition": None, "transition_last": over(), "revision": 5}


def call(loop: PlayedLoop, method: str, path: str, **body: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {loop.server.endpoint.token}"}
    url = f"{loop.server.endpoint.url}{path}"
    return httpx.request(method, url, json=body or None, headers=headers, trust_env=False)
