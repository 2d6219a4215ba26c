"""How a command asks the service of a project."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from stepwell.errors import StepwellError
from stepwell.service.endpoint import Endpoint, read_endpoint

ANSWER_SECONDS_MAX = 5.0
"""The endpoint's thread shares an interpreter with the loop, which may encode a large step."""


class NotRunning(StepwellError):
    """No service answers for this project."""


class ControlClient:
    """Speaks to the service whose endpoint file lies in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def status(self) -> dict[str, Any]:
        return self._call("GET", "/status")

    def ask(self, what: str) -> dict[str, Any]:
        return self._call("POST", f"/{what}")

    def wait(self, until: Callable[[dict[str, Any]], bool], seconds: float) -> dict[str, Any] | None:
        """The first status that `until` accepts; None when the service ended meanwhile. Raises StepwellError at the deadline."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                status = self.status()
            except NotRunning:
                return None
            if until(status):
                return status
            if time.monotonic() > deadline:
                raise StepwellError(
                    f"not done after {seconds:g} s: the service is at {status['phase']}", "See `stepwell status`."
                )
            time.sleep(0.05)

    def _call(self, method: str, path: str) -> dict[str, Any]:
        endpoint = read_endpoint(self._folder)
        if endpoint is None:
            raise NotRunning("no service runs for this project", "Start it with `stepwell run`.")
        answer = _request(endpoint, method, path)
        if answer is None:
            raise NotRunning(
                f"the service of process {endpoint.pid} does not answer at {endpoint.url}",
                "Start it again with `stepwell run`.",
            )
        found: dict[str, Any] = answer.json()
        if answer.status_code != 200:
            raise StepwellError(f"the service refuses {path}: {found.get('error', answer.status_code)}")
        return found


def _request(endpoint: Endpoint, method: str, path: str) -> httpx.Response | None:
    headers = {"Authorization": f"Bearer {endpoint.token}"}
    try:
        return httpx.request(method, endpoint.url + path, headers=headers, timeout=ANSWER_SECONDS_MAX, trust_env=False)
    except httpx.TransportError:
        return None


def who_answers(url: str) -> dict[str, Any] | None:
    """What `/alive` says at this address; None where nobody answers, or somebody else."""
    try:
        found = httpx.get(url + "/alive", timeout=ANSWER_SECONDS_MAX, trust_env=False).json()
        return found if isinstance(found, dict) and "pipeline" in found else None
    except (httpx.HTTPError, ValueError):
        return None
