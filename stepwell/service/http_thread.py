"""An HTTP server in a thread of its own, beside the loop."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from stepwell.service.bounded_protocol import CONNECTIONS_MAX, BoundedProtocol

START_SECONDS_MAX = 10.0
"""The time for a server on loopback to begin to listen. It was measured as 0.05 s."""

BACKLOG = 2048
"""uvicorn's own. Connections of this user's commands wait so long as the loop is busy."""


class HttpThread:
    """Serves the routes on a bound socket, from `start` to `close`. `is_open`: others than this user reach it (bounded_protocol.py)."""

    def __init__(self, bound: socket.socket, routes: Sequence[Route], name: str, *, is_open: bool = False) -> None:
        self._socket = bound
        config = uvicorn.Config(
            Starlette(routes=routes),
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            http=BoundedProtocol if is_open else H11Protocol,
            ws="none",
            backlog=CONNECTIONS_MAX
            if is_open
            else BACKLOG,  # so many are accepted at once, before any of them is looked at
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([bound],), daemon=True, name=name)

    def start(self) -> None:
        self._thread.start()
        waited = threading.Event()
        for _ in range(int(START_SECONDS_MAX / 0.01)):
            if self._server.started or not self._thread.is_alive():
                break
            waited.wait(0.01)
        assert self._server.started, "the server did not start"

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(START_SECONDS_MAX)
        self._socket.close()
