"""The control endpoint: HTTP on loopback, in a thread beside the loop.

GET  /alive                               which run this is; it needs no token, so that a second run can ask
GET  /status, /metrics                    what the pipeline does
GET  /livez, /readyz                      whether it lives and is ready (probes.py); without a token
GET  /page                                a page for browsers (page/routes.py says the paths below it)
GET  /views?name=...                      what kept views hold; it waits until all workers have answered. With next=FINGERPRINT, of the circuit
                                          of the next revision: what its views hold before the switch
POST /query                               Spark SQL over the kept views (queries.py)
POST /pause /resume /stop /checkpoint     a request to the loop; it returns at once, and the loop acts at the next boundary
POST /hand-over                           as /stop, for a run that is about to open the same databases: it does not wait for the store
GET  /layout                              who owns how many slots, and how far a change of that is
POST /layout/change                       begin a change: {"workers": 3, "mode": "live", "policy": "fixed", "protocol": "batches",
                                          "budget_bytes": 4000000, "budget_ms": 20}; all but `workers` may be left out
POST /layout/replace                      move everything from one host to another: {"host": "a", "to": "b"}; `to` may be left out
POST /layout/auto                         let Stepwell choose the number of workers: {"min": 2, "max": 8}, or no more: {"off": true}
POST /layout/pause /resume                stop and continue the change under way
POST /layout/reverse /abort               move everything back, or nothing more
GET  /revision                            the revision in force, the transition under way, and how the last one has ended
POST /revision/apply                      plan the project's files, and begin the transition to what they define: {"hold": false,
                                          "expect_plan": null}; all may be left out (ApplyBody in revisions.py)
POST /revision/pause /resume              stop and continue the filling of the transition under way
POST /revision/switch /abort              end a hold, or take everything back

The requests below /layout and /revision are answered when the loop has accepted or refused them: 200 with the layout or the revision, 400 if the
body is malformed or the files cannot be planned, 409 with the reason if the loop refuses.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from base.fault import ExitCode
from base.limits import WORKERS_MAX
from coordinator.automatic.requests import AutoRequest
from coordinator.checkpoints.view_rows import tables_of
from coordinator.requests import RequestName, Requests
from coordinator.rescale.requests import (
    LayoutIsAsAsked,
    LayoutRequest,
    PauseRequest,
    ReplaceRequest,
    RescaleRefused,
    RescaleRequest,
    TurnRequest,
)
from coordinator.status import StatusBoard
from engine.model.layout import Policy, PolicyName
from io_kafka.step_log.layout_records import FORMER_MODES, AutoBounds, CutProtocol, MoveStrategy, RescaleMode
from stepwell.errors import StepwellError
from stepwell.service.bodies import JsonAnswer, has_token, validation_text
from stepwell.service.codes import MALFORMED, REFUSED, UNAUTHORIZED, UNKNOWN
from stepwell.service.endpoint import LAYOUT_SECONDS_MAX, READ_SECONDS_MAX, Endpoint
from stepwell.service.http_thread import HttpThread
from stepwell.service.listener import show_metrics
from stepwell.service.metrics.exposition import Exposition
from stepwell.service.page.routes import PageRoutes
from stepwell.service.probes import READY_LAG_SECONDS, Probes
from stepwell.service.queries import AnswerQuery, QueryRoute
from stepwell.service.revisions import PlanFiles, RevisionRoutes
from stepwell.service.views import encode_views

REQUESTS: tuple[RequestName, ...] = get_args(RequestName)

REQUESTS_OF_A_RESCALE: Mapping[str, LayoutRequest] = {
    "pause": PauseRequest(is_paused=True),
    "resume": PauseRequest(is_paused=False),
    "reverse": TurnRequest("reverse"),
    "abort": TurnRequest("abort"),
}


class PortUnavailable(StepwellError):
    """The control endpoint cannot listen at the port that the settings name."""

    exit_code = ExitCode.MACHINE

    def __init__(self, port: int, fault: OSError) -> None:
        super().__init__(
            f"the control endpoint cannot listen at 127.0.0.1:{port}: {fault.strerror or fault}",
            "Set stepwell.control.port to another port, or to 0 for any that is free; or end the program that has it (`ss -ltnp`).",
        )


R = TypeVar("R")
Handler = Callable[[Request], Awaitable[Response]]


class RescaleBody(BaseModel):
    """The body of POST /layout/change: see RescaleRequest. `policy` is one that the project's settings describe."""

    model_config = ConfigDict(extra="forbid", strict=True)

    workers: int = Field(ge=1, le=WORKERS_MAX)
    mode: RescaleMode = "live"
    policy: PolicyName | None = None
    protocol: CutProtocol = "batches"
    budget_bytes: int | None = Field(default=None, ge=1)
    budget_ms: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    @field_validator("mode", mode="before")
    @classmethod
    def _mode_now(cls, mode: object) -> object:
        """Clients may name a mode of an earlier release."""
        return FORMER_MODES.get(mode, mode) if isinstance(mode, str) else mode


class ReplaceBody(BaseModel):
    """The body of POST /layout/replace. See ReplaceRequest."""

    model_config = ConfigDict(extra="forbid", strict=True)

    host: str = Field(min_length=1)
    to: str | None = Field(default=None, min_length=1)


class AutoBody(BaseModel):
    """The body of POST /layout/auto: both bounds, or `off`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    min: int | None = Field(default=None, ge=1, le=WORKERS_MAX)
    max: int | None = Field(default=None, ge=1, le=WORKERS_MAX)
    off: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = (self.min is not None, self.max is not None)
        if given != ((False, False) if self.off else (True, True)):
            raise ValueError("give min and max, or off alone")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min is {self.min}, and max is less: {self.max}")
        return self

    @property
    def bounds(self) -> AutoBounds | None:
        return None if self.min is None or self.max is None else AutoBounds(min=self.min, max=self.max)


class ControlServer:
    """Listens from `start` to `close`. `endpoint` says where. `policies`: those that a rescale may ask for. `plan_files`: called in a
    thread of its own, one call at a time or several. `answer_query`: the same. `ready_lag_s`: see Probes."""

    def __init__(
        self,
        requests: Requests,
        board: StatusBoard,
        port: int,
        policies: Mapping[PolicyName, Policy],
        *,
        plan_files: PlanFiles,
        answer_query: AnswerQuery,
        ready_lag_s: float = READY_LAG_SECONDS,
    ) -> None:
        self._requests, self._board, self._policies = requests, board, policies
        self.exposition, self.probes = Exposition(board), Probes(board, ready_lag_s)
        bound = socket.socket()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind(("127.0.0.1", port))
        except OSError as fault:
            bound.close()
            raise PortUnavailable(port, fault) from None
        self.endpoint = Endpoint.new(bound.getsockname()[1])
        page = PageRoutes(requests, board, self.exposition, self.endpoint)
        revision = RevisionRoutes(requests, board, plan_files)
        routes = [
            Route("/alive", self._alive),
            *self.probes.routes,
            *page.routes,
            Route("/status", self._guard(self._status)),
            Route("/metrics", self._guard(self._metrics)),
            Route("/views", self._guard(self._views)),
            Route("/query", self._guard(QueryRoute(answer_query).answer), methods=["POST"]),
            Route("/layout", self._guard(self._layout)),
            Route("/layout/change", self._guard(self._rescale), methods=["POST"]),
            Route("/layout/replace", self._guard(self._replace), methods=["POST"]),
            Route("/layout/auto", self._guard(self._automatic), methods=["POST"]),
            Route("/layout/{what}", self._guard(self._ask_of_rescale), methods=["POST"]),
            Route("/revision", self._guard(revision.show)),
            Route("/revision/apply", self._guard(revision.apply), methods=["POST"]),
            Route("/revision/{what}", self._guard(revision.turn), methods=["POST"]),
            Route("/{what}", self._guard(self._ask), methods=["POST"]),
        ]
        self._thread = HttpThread(bound, routes, "control")

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._thread.close()

    def _guard(self, handler: Handler) -> Handler:
        async def answer(request: Request) -> Response:
            if not has_token(request, self.endpoint.token):
                return JsonAnswer(
                    {"error": "a token is needed: it stands in the project's storage folder"}, UNAUTHORIZED
                )
            return await handler(request)

        return answer

    async def _alive(self, request: Request) -> Response:
        """Not an Answer, because a second run compares it: nothing here is secret, whatever the passwords are."""
        shown = self._board.show()
        return JSONResponse({"pipeline": shown["pipeline"], "epoch": shown["epoch"], "pid": self.endpoint.pid})

    async def _status(self, request: Request) -> Response:
        return JsonAnswer({**self._board.show(), "pid": self.endpoint.pid})

    async def _views(self, request: Request) -> Response:
        names, next_of = request.query_params.getlist("name"), request.query_params.get("next")
        try:
            rows = await run_in_threadpool(self._requests.questions.ask, names, READ_SECONDS_MAX, next_of)
            return Response(encode_views(rows.version, await run_in_threadpool(tables_of, rows)))
        except Exception as fault:  # also of a worker: whoever asks gets it, and the pipeline goes on
            return JsonAnswer({"error": str(fault)}, REFUSED)

    async def _ask(self, request: Request) -> Response:
        path = request.path_params["what"]
        what = next((each for each in REQUESTS if each == path), None)
        if what is None:
            return JsonAnswer({"error": f"{path}: one of {', '.join(REQUESTS)}"}, UNKNOWN)
        self._requests.ask(what)
        return JsonAnswer({"asked": what})

    async def _layout(self, request: Request) -> Response:
        return JsonAnswer(self._shown_layout())

    async def _rescale(self, request: Request) -> Response:
        try:
            body = RescaleBody.model_validate_json(await request.body())
        except ValidationError as fault:
            return JsonAnswer({"error": validation_text(fault)}, MALFORMED)
        policy = None if body.policy is None else self._policies[body.policy]
        return await self._ask_layout(
            RescaleRequest(
                body.workers, MoveStrategy(body.mode, body.protocol, body.budget_bytes, body.budget_ms), policy
            )
        )

    async def _replace(self, request: Request) -> Response:
        try:
            body = ReplaceBody.model_validate_json(await request.body())
        except ValidationError as fault:
            return JsonAnswer({"error": validation_text(fault)}, MALFORMED)
        return await self._ask_layout(ReplaceRequest(body.host, body.to))

    async def _automatic(self, request: Request) -> Response:
        try:
            body = AutoBody.model_validate_json(await request.body())
        except ValidationError as fault:
            return JsonAnswer({"error": validation_text(fault)}, MALFORMED)
        return await self._answer_with_layout(self._requests.automatic.ask, AutoRequest(body.bounds))

    async def _ask_of_rescale(self, request: Request) -> Response:
        what = request.path_params["what"]
        if what not in REQUESTS_OF_A_RESCALE:
            return JsonAnswer(
                {"error": f"layout/{what}: one of change, replace, auto, {', '.join(REQUESTS_OF_A_RESCALE)}"}, UNKNOWN
            )
        return await self._ask_layout(REQUESTS_OF_A_RESCALE[what])

    async def _ask_layout(self, asked: LayoutRequest) -> Response:
        return await self._answer_with_layout(self._requests.layout.ask, asked)

    async def _answer_with_layout(self, ask: Callable[[R, float], None], asked: R) -> Response:
        """The layout when the loop has accepted the request, or why it has not."""
        try:
            await run_in_threadpool(ask, asked, LAYOUT_SECONDS_MAX)
        except RescaleRefused as fault:
            is_as_asked = isinstance(fault, LayoutIsAsAsked)
            return JsonAnswer(
                {"error": fault.message, "what_to_do": fault.what_to_do, "is_as_asked": is_as_asked}, REFUSED
            )
        return JsonAnswer(self._shown_layout())

    def _shown_layout(self) -> dict[str, Any]:
        shown = self._board.show()
        return {**shown["layout"], "fault": shown["layout_fault"], "automatic": shown["automatic"]}

    async def _metrics(self, request: Request) -> Response:
        return await show_metrics(self.exposition, request)
