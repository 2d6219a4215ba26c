"""The listener for monitoring: metrics and probes at an address of their own, which another host may reach.

    GET /metrics            for Prometheus
    GET /livez /readyz      probes.py

Metrics need the token of a file, unless the listener is on loopback and no file is named. The file outlives the service, so that
Prometheus, which reads it too, needs no change after a restart. Whoever has this token can control nothing.
"""

from __future__ import annotations

import errno
import secrets
import socket
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from base.address import Address
from base.fault import ExitCode
from base.secrets import remember
from base.whole_file import write_whole
from stepwell.errors import StepwellError
from stepwell.service.bodies import has_token
from stepwell.service.codes import UNAUTHORIZED
from stepwell.service.http_thread import HttpThread
from stepwell.service.metrics.exposition import Exposition
from stepwell.service.probes import Probes

TOKEN_FILE = "metrics.token"
"""In the project's storage folder, if no other file is named."""

TOKEN_CHARACTERS_MIN = 16
"""A shorter token could be guessed. One that was made here has 43."""


class MetricsUnavailable(StepwellError):
    """The listener for metrics cannot be opened: its address, or the file with its token."""

    exit_code = ExitCode.MACHINE


def token_of(address: Address, file: Path | None, folder: Path) -> str | None:
    """The token that a listener at this address asks for; None if it asks for none. `file`: the one that the user names. A file that is missing
    is made, readable by this user alone. Raises MetricsUnavailable."""
    if file is None and address.is_loopback:
        return None
    path = folder / TOKEN_FILE if file is None else file
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, secrets.token_urlsafe(32) + "\n", private=True)
        token = path.read_text().strip()
        remember(token)
    except (OSError, ValueError) as fault:
        raise MetricsUnavailable(
            f"the token of the metrics cannot be read from {path}: {fault}",
            "Make the file readable for the service, or name another one: stepwell.metrics.token.file.",
        ) from fault
    if len(token) < TOKEN_CHARACTERS_MIN:
        raise MetricsUnavailable(
            f"the token of the metrics in {path} has fewer than {TOKEN_CHARACTERS_MIN} characters",
            "Write a longer one, or delete the file: the next start makes one.",
        )
    return token


def check_listener(address: Address, file: Path | None, folder: Path) -> None:
    """Raises MetricsUnavailable if no listener could be opened here with this address and token, whoever listens there now. A run that is to
    take the place of another one finds it out before that one ends."""
    token_of(address, file, folder)
    try:
        _bound(address).close()
    except MetricsUnavailable as fault:
        if not _is_in_use(fault):
            raise


def _is_in_use(fault: MetricsUnavailable) -> bool:
    return isinstance(fault.__cause__, OSError) and fault.__cause__.errno == errno.EADDRINUSE


class Listener:
    """Listens from `start` to `close`. `address`: with the port that was chosen, if 0 was asked for."""

    def __init__(self, address: Address, token: str | None, exposition: Exposition, probes: Probes) -> None:
        self._token, self._exposition = token, exposition
        bound = _bound(address)
        self.address = Address(address.host, bound.getsockname()[1])
        routes = [Route("/metrics", self._metrics), *probes.routes]
        self._thread = HttpThread(bound, routes, "metrics", is_open=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._thread.close()

    async def _metrics(self, request: Request) -> Response:
        if self._token is not None and not has_token(request, self._token):
            what_to_do = "a token is needed: it is in the file of stepwell.metrics.token.file"
            return JSONResponse({"error": what_to_do}, UNAUTHORIZED, {"WWW-Authenticate": "Bearer"})
        return await show_metrics(self._exposition, request)


async def show_metrics(exposition: Exposition, request: Request) -> Response:
    """The metrics. They are collected in another thread, because a look at processes may take some milliseconds."""
    text, content_type = await run_in_threadpool(exposition.text, request.headers.get("accept", ""))
    return Response(text, headers={"Content-Type": content_type})


def _bound(address: Address) -> socket.socket:
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(where)
        except OSError:
            made.close()
            raise
        return made
    except OSError as fault:
        raise MetricsUnavailable(
            f"nothing can listen for metrics at {address}: {fault.strerror or fault}",
            "Choose another stepwell.metrics.address, or leave it out: the control endpoint has the metrics too.",
        ) from fault
