"""The client by which a command talks to the service of a project."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from base.fault import ExitCode
from stepwell.errors import StepwellError
from stepwell.service.codes import FAILED, MALFORMED, REFUSED, UNAUTHORIZED, UNKNOWN
from stepwell.service.endpoint import (
    ANSWER_SECONDS_MAX,
    APPLY_SECONDS_MAX,
    LAYOUT_SECONDS_MAX,
    PLAN_SECONDS_MAX,
    QUERY_SECONDS_MAX,
    READ_SECONDS_MAX,
    Endpoint,
    post,
    read_endpoint,
    request,
)
from stepwell.service.last_run import read_last_run
from stepwell.service.silence import why_silent

if TYPE_CHECKING:
    import httpx
    import pyarrow as pa

    from base.version import VersionId

LOOK_SECONDS = 0.05

SILENT_SECONDS_MAX = 60.0
"""The time that a service may be silent before a command that follows it gives up. A busy machine may leave it without the processor for some
seconds, and a checkpoint to a slow disk holds it up longer."""


class NotRunning(StepwellError):
    """No service runs for this project."""

    exit_code = ExitCode.NOT_RUNNING


class ServiceSilent(StepwellError):
    """The process of the service lives and does not answer. It is not a NotRunning: what a command does without a service could disturb it."""

    exit_code = ExitCode.NOT_RUNNING


class LayoutRefused(StepwellError):
    """The service refuses a request that concerns the layout. Nothing was changed."""

    exit_code = ExitCode.STATE


class LayoutAsAsked(LayoutRefused):
    """The layout is the one that was asked for, so nothing had to be changed."""


class RevisionRefused(StepwellError):
    """The service refuses a request that concerns the revision. Nothing was changed. The exit code is that of the reason."""

    exit_code = ExitCode.STATE

    def __init__(self, message: str, what_to_do: str = "", exit_code: ExitCode = ExitCode.STATE) -> None:
        super().__init__(message, what_to_do)
        self.exit_code = exit_code


class ControlClient:
    """Talks to the service whose endpoint file is in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def status(self) -> dict[str, Any]:
        """Raises NotRunning, ServiceSilent."""
        return self._call("GET", "/status")

    def status_when_it_answers(self, seconds: float = SILENT_SECONDS_MAX) -> dict[str, Any]:
        """The status, of a service that may be silent for so long. Raises NotRunning, ServiceSilent."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self.status()
            except ServiceSilent:
                if time.monotonic() > deadline:
                    raise
            time.sleep(LOOK_SECONDS)

    def page(self) -> str:
        """An address that opens the page in a browser, once and soon."""
        return self.endpoint().url + str(self._call("POST", "/page/ticket")["path"])

    def metrics(self) -> str:
        """What Prometheus gets."""
        return self._answer("GET", "/metrics").text

    def ask(self, what: str) -> dict[str, Any]:
        return self._call("POST", f"/{what}")

    def hand_over(self) -> None:
        """Has the service stop for a run that opens the same databases. One of an earlier release stops as for a user."""
        answer = self._answer("POST", "/hand-over")
        if answer.status_code == UNKNOWN:
            self.ask("stop")
        else:
            _content(answer, "/hand-over")

    def ask_layout(self, what: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Asks for a rescale, or for something of the one under way, and waits until the service has accepted it. Returns the
        layout. Raises LayoutRefused, LayoutAsAsked, NotRunning, ServiceSilent, StepwellError."""
        path = f"/layout/{what}"
        answer = self._answer("POST", path, seconds=LAYOUT_SECONDS_MAX + ANSWER_SECONDS_MAX, body=body)
        if answer.status_code == REFUSED:
            is_as_asked = answer.json().get("is_as_asked", False)  # a service of a former release does not send it
            raise (LayoutAsAsked if is_as_asked else LayoutRefused)(**_fault_of(answer))
        return _content(answer, path)

    def ask_revision(self, what: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Asks for a transition (`apply`), or for something of the one under way, and waits until the service has accepted it. Returns the
        revision and the transition. Raises RevisionRefused, NotRunning, ServiceSilent, StepwellError."""
        path = f"/revision/{what}"
        seconds = PLAN_SECONDS_MAX + APPLY_SECONDS_MAX if what == "apply" else LAYOUT_SECONDS_MAX
        answer = self._answer("POST", path, seconds=seconds + ANSWER_SECONDS_MAX, body=body)
        if answer.status_code in (MALFORMED, REFUSED):
            raise _refused_revision(answer.json())
        return _content(answer, path)

    def views(self, names: Sequence[str], next_of: str | None = None) -> tuple[VersionId, list[pa.Table]]:
        """What kept views hold as of the last checkpoint, as the service's workers have read it. `next_of`: the fingerprint of the circuit of
        the next revision, to read its views before the switch. Raises NotRunning, ServiceSilent, StepwellError."""
        from stepwell.service.views import decode_views  # loads Arrow, which `status` does not need

        parameters = {"name": list(names), **({} if next_of is None else {"next": [next_of]})}
        answer = self._answer("GET", "/views", seconds=READ_SECONDS_MAX + ANSWER_SECONDS_MAX, parameters=parameters)
        if answer.status_code != 200:
            raise StepwellError(f"the service has no answer: {answer.json().get('error', answer.status_code)}")
        return decode_views(answer.content)

    def query(self, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """What the service answers to a query, see service/queries.py. None if it gives no answer: none runs, it is of a release that knows
        no queries, it is busy, or it ends meanwhile."""
        endpoint = read_endpoint(self._folder)
        if endpoint is None:
            return None
        seconds = QUERY_SECONDS_MAX + ANSWER_SECONDS_MAX
        answer = post(endpoint, "/query", body, seconds=seconds)
        if answer is None or answer[0] != 200:
            return None
        with suppress(ValueError):  # another program may use the port of a dead service
            found = json.loads(answer[1])
            if isinstance(found, dict) and not found.keys().isdisjoint(("found", "refused")):
                return found
        return None

    def wait(self, until: Callable[[dict[str, Any]], bool], seconds: float) -> dict[str, Any] | None:
        """The first status that `until` accepts; None if the service ended in the meantime. Raises StepwellError at the deadline, which is
        ServiceSilent if it is silent then."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                status = self.status_when_it_answers(deadline - time.monotonic())
            except NotRunning:
                return None
            if until(status):
                return status
            if time.monotonic() > deadline:
                raise StepwellError(
                    f"not done after {seconds:g} s: the service is at {status['phase']}", "See `stepwell status`."
                )
            time.sleep(LOOK_SECONDS)

    def wait_for_end(self, endpoint: Endpoint, seconds: float) -> dict[str, Any] | None:
        """Waits until the service's process has ended. Returns its last status, or None. Raises StepwellError at the deadline."""
        deadline = time.monotonic() + seconds
        while not process_is_gone(endpoint.pid):
            if time.monotonic() > deadline:
                raise StepwellError(
                    f"process {endpoint.pid} has not ended after {seconds:g} s",
                    "See `stepwell status`; a second Ctrl-C, or SIGKILL, ends it at once, and the next run replays.",
                )
            time.sleep(LOOK_SECONDS)
        return self.last_run(endpoint.pid)

    def last_run(self, pid: int | None = None) -> dict[str, Any] | None:
        """How the last run ended. With `pid`, only the run of that process counts."""
        found = read_last_run(self._folder)
        return found if found is not None and pid in (None, found.get("pid")) else None

    def endpoint(self) -> Endpoint:
        """The endpoint where the service answers, or answered when it last ran. Raises NotRunning."""
        endpoint = read_endpoint(self._folder)
        if endpoint is None:
            last = self.last_run()
            ended = f"; the last run ended: {last['error']}" if last and last.get("error") else ""
            raise NotRunning(f"no service runs for this project{ended}", "Start it with `stepwell run`.")
        return endpoint

    def _call(self, method: str, path: str) -> dict[str, Any]:
        return _content(self._answer(method, path), path)

    def _answer(
        self,
        method: str,
        path: str,
        *,
        seconds: float = ANSWER_SECONDS_MAX,
        parameters: Mapping[str, Sequence[str]] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> httpx.Response:
        endpoint = self.endpoint()
        answer = _request(endpoint, method, path, seconds=seconds, parameters=parameters, body=body)
        if answer is None or answer.status_code == UNAUTHORIZED:  # another program may use the port of a dead service
            self.endpoint()  # raises, if the service has ended meanwhile and removed its file
            silence = why_silent(self._folder, endpoint)
            kind = NotRunning if silence.is_gone else ServiceSilent
            raise kind(f"the service does not answer: {silence.found}", silence.what_to_do)
        return answer


def _content(answer: httpx.Response, path: str) -> dict[str, Any]:
    if answer.status_code == FAILED:
        raise StepwellError(
            f"the service fails at {path}, which is a bug in Stepwell.", "Its log says why: please report that."
        )
    if answer.status_code == UNKNOWN and not answer.headers.get("content-type", "").startswith("application/json"):
        raise StepwellError(
            f"the service does not know {path}: another version of Stepwell runs it.",
            "Start it again with this version.",
        )
    found: dict[str, Any] = answer.json()
    if answer.status_code != 200:
        raise StepwellError(f"the service refuses {path}: {found.get('error', answer.status_code)}")
    return found


def _refused_revision(found: Mapping[str, Any]) -> RevisionRefused:
    """If the project is refused as `stepwell plan` refuses it, the fault has each reason and the exit code of that command."""
    refused = found.get("planned", {}).get("refused", ())
    reasons = [
        f"\nREFUSED: {each['subject']}{each['place'] and ' (' + each['place'] + ')'}: {each['reason']}. {each['way_out']}."
        for each in refused
    ]
    code = ExitCode.PROJECT if refused else ExitCode(found.get("exit_code", ExitCode.STATE))
    return RevisionRefused(str(found["error"]) + "".join(reasons), str(found["what_to_do"]), code)


def _fault_of(answer: httpx.Response) -> dict[str, str]:
    found = answer.json()
    return {"message": str(found["error"]), "what_to_do": str(found["what_to_do"])}


def _request(
    endpoint: Endpoint,
    method: str,
    path: str,
    *,
    seconds: float,
    parameters: Mapping[str, Sequence[str]] | None,
    body: Mapping[str, Any] | None,
) -> httpx.Response | None:
    headers = {"Authorization": f"Bearer {endpoint.token}"}
    assert endpoint.url.startswith("http://")
    import httpx

    try:
        return request(method, endpoint.url + path, headers, seconds=seconds, parameters=parameters, body=body)
    except httpx.TransportError:
        return None


def process_is_gone(pid: int) -> bool:
    """Whether the process has ended. A zombie process has ended."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
