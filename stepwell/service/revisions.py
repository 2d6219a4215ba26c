"""The part of the control endpoint that concerns the revision: what is in force, the transition under way, and requests for one.

POST /revision/apply plans the project's files in a thread and asks the loop for the transition to what they define. A body with `expect_plan`
names what the user has seen of it (`key_of_project`), so that files which were changed meanwhile are not applied unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from base.fault import ExitCode, Fault
from coordinator.requests import Requests
from coordinator.revisions.choices import Chosen
from coordinator.revisions.plan_key import key_of_project
from coordinator.revisions.requests import (
    ApplyRequest,
    RevisionRequest,
    TransitionRefused,
    TurnTransition,
    second_transition,
)
from coordinator.revisions.turns import TurnName
from coordinator.specification import PipelineSpec
from coordinator.status import StatusBoard
from stepwell.service.bodies import JsonAnswer, parts_of, validation_text
from stepwell.service.codes import MALFORMED, REFUSED, UNKNOWN
from stepwell.service.endpoint import APPLY_SECONDS_MAX, LAYOUT_SECONDS_MAX

PlanFiles = Callable[[], PipelineSpec]
"""Plans the project as it is in the files now. Raises faults that name file and line."""

TURNS: Mapping[str, TurnTransition] = {name: TurnTransition(name) for name in get_args(TurnName)}


class ApplyBody(BaseModel):
    """The body of POST /revision/apply: see ApplyRequest and Chosen. `expect_plan`: the key of the only project that may be applied.
    `expect_revision`: the only one that may be in force."""

    model_config = ConfigDict(extra="forbid", strict=True)

    hold: bool = False
    reload: tuple[str, ...] = ()
    expect_plan: str | None = None
    expect_revision: int | None = None
    from_now: list[str] = []
    append_from_now: list[str] = []
    retract: list[str] = []
    gradual: bool = False

    @property
    def chosen(self) -> Chosen:
        return Chosen(
            from_now=tuple(self.from_now),
            append_from_now=tuple(self.append_from_now),
            retract=tuple(self.retract),
            reload=self.reload,
            gradual=self.gradual,
        ).normal()


class RevisionRoutes:
    """The handlers of /revision."""

    def __init__(self, requests: Requests, board: StatusBoard, plan_files: PlanFiles) -> None:
        self._requests, self._board, self._plan_files = requests, board, plan_files

    async def show(self, request: Request) -> Response:
        return JsonAnswer(self._shown_fields())

    async def apply(self, request: Request) -> Response:
        try:
            body = ApplyBody.model_validate_json(await request.body() or b"{}")
        except ValidationError as fault:
            return JsonAnswer(
                {"error": validation_text(fault), "what_to_do": "", "exit_code": int(ExitCode.USAGE)}, MALFORMED
            )
        try:
            self._refuse_now()
            spec = await run_in_threadpool(self._plan_files)
            _refuse_unseen(spec, body.expect_plan)
        except TransitionRefused as fault:
            return _refusal(fault)
        except Fault as fault:
            return JsonAnswer({**parts_of(fault), "exit_code": int(fault.exit_code)}, MALFORMED)
        return await self._ask(ApplyRequest(spec, body.hold, body.chosen, body.expect_revision))

    async def turn(self, request: Request) -> Response:
        what = request.path_params["what"]
        if what not in TURNS:
            return JsonAnswer({"error": f"revision/{what}: one of apply, {', '.join(TURNS)}"}, UNKNOWN)
        return await self._ask(TURNS[what])

    async def _ask(self, asked: RevisionRequest) -> Response:
        try:
            seconds = APPLY_SECONDS_MAX if isinstance(asked, ApplyRequest) else LAYOUT_SECONDS_MAX
            await run_in_threadpool(self._requests.revision.ask, asked, seconds)
        except Fault as fault:  # one of Kafka can end what the loop does before it accepts
            return _refusal(fault)
        return JsonAnswer(self._shown_fields())

    def _refuse_now(self) -> None:
        """Raises TransitionRefused for what needs no plan. The loop decides about all else."""
        shown = self._board.show()
        if shown["transition"] is not None:
            raise second_transition(shown["transition"]["number"])
        if shown["phase"] == "starting":
            raise TransitionRefused(
                "the service starts, and its own project is not planned yet.",
                "Ask again when `stepwell status` shows that it runs.",
            )

    def _shown_fields(self) -> dict[str, Any]:
        shown = self._board.show()
        return {name: shown[name] for name in ("revision", "transition", "transition_last")}


def _refuse_unseen(spec: PipelineSpec, expected: str | None) -> None:
    if expected is not None and key_of_project(spec) != expected:
        raise TransitionRefused(
            "the service plans another project than the one that was shown: the files have changed meanwhile, or the service has other "
            "settings, or another environment.",
            "Run the command again, which shows the plan again. The service keeps the settings of its start: give those of `stepwell run "
            "--conf` here too, or restart it for other ones.",
        )


def _refusal(fault: Fault) -> Response:
    planned = fault.planned if isinstance(fault, TransitionRefused) else None
    more = {} if planned is None else {"planned": planned}
    return JsonAnswer({**parts_of(fault), "exit_code": int(fault.exit_code), **more}, REFUSED)
