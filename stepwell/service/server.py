"""The control endpoint: HTTP on loopback, in a thread beside the loop.

GET  /alive                               which run this is; it needs no token, so that a second run can ask
GET  /status, /metrics                    what the pipeline does
GET  /views?name=...                      what kept views hold; it waits until all workers have answered
POST /pause /resume /stop /checkpoint     a request to the loop; it returns at once, and the loop acts at the next boundary
"""

from __future__ import annotations

import hmac
import socket
import threading
from collections.abc import Awaitable, Callable

import uvicorn
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from coordinator.questions import tables_of
from coordinator.requests import Requests
from coordinator.status import StatusBoard
from stepwell.service.endpoint import READ_SECONDS_MAX, Endpoint
from stepwell.service.views import encode_views

REQUESTS = ("pause", "resume", "stop", "checkpoint")
START_SECONDS_MAX = 10.0
"""The time for a server on loopback to begin to listen. It was measured as 0.05 s."""

Handler = Callable[[Request], Awaitable[Response]]


class ControlServer:
    """Listens from `start` to `close`. `endpoint` says where."""

    def __init__(self, requests: Requests, board: StatusBoard, port: int = 0) -> None:
        self._requests, self._board = requests, board
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", port))
        self.endpoint = Endpoint.new(self._socket.getsockname()[1])
        routes = [
            Route("/alive", self._alive),
            Route("/status", self._guarded(self._status)),
            Route("/metrics", self._guarded(self._metrics)),
            Route("/views", self._guarded(self._views)),
            Route("/{what}", self._guarded(self._ask), methods=["POST"]),
        ]
        config = uvicorn.Config(Starlette(routes=routes), log_config=None, access_log=False, lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True, name="control")

    def start(self) -> None:
        self._thread.start()
        waited = threading.Event()
        for _ in range(int(START_SECONDS_MAX / 0.01)):
            if self._server.started or not self._thread.is_alive():
                break
            waited.wait(0.01)
        assert self._server.started, "the control endpoint did not start"

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(START_SECONDS_MAX)
        self._socket.close()

    def _guarded(self, handler: Handler) -> Handler:
        async def answer(request: Request) -> Response:
            given = request.headers.get("authorization", "")
            if not hmac.compare_digest(given.encode(), f"Bearer {self.endpoint.token}".encode()):
                return JSONResponse({"error": "a token is needed: it stands in the project's storage folder"}, 401)
            return await handler(request)

        return answer

    async def _alive(self, request: Request) -> Response:
        shown = self._board.show()
        return JSONResponse({"pipeline": shown["pipeline"], "epoch": shown["epoch"], "pid": self.endpoint.pid})

    async def _status(self, request: Request) -> Response:
        return JSONResponse({**self._board.show(), "pid": self.endpoint.pid})

    async def _views(self, request: Request) -> Response:
        names = request.query_params.getlist("name")
        try:
            rows = await run_in_threadpool(self._requests.questions.ask, names, READ_SECONDS_MAX)
            return Response(encode_views(rows.version, await run_in_threadpool(tables_of, rows)))
        except Exception as fault:  # also of a worker: whoever asks gets it, and the pipeline goes on
            return JSONResponse({"error": str(fault)}, 409)

    async def _ask(self, request: Request) -> Response:
        what = request.path_params["what"]
        if what not in REQUESTS:
            return JSONResponse({"error": f"{what}: one of {', '.join(REQUESTS)}"}, 404)
        self._requests.ask(what)
        return JSONResponse({"asked": what})

    async def _metrics(self, request: Request) -> Response:
        return Response(metrics(self._board), media_type="text/plain; version=0.0.4")


def metrics(board: StatusBoard) -> bytes:
    """The numbers of the status in Prometheus's text format."""
    registry = CollectorRegistry()
    shown = board.show()
    plain = (
        "step",
        "steps_run",
        "steps_replayed",
        "rows",
        "rows_per_s",
        "checkpoint_step",
        "checkpoint_age_s",
        "recoveries",
    )
    for name in plain:
        Gauge(f"stepwell_{name}", name.replace("_", " "), registry=registry).set(shown[name])
    labelled = {"lag": "partition", "state_bytes": "owner", "skipped": "source"}
    for name, label in labelled.items():
        gauge = Gauge(f"stepwell_{name}", name.replace("_", " "), [label], registry=registry)
        for key, value in shown[name].items():
            gauge.labels(key).set(value)
    return generate_latest(registry)
