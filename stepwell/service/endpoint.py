"""The endpoint of a service. A file of mode 0600 in the project's storage holds its address and its token.

Only a user who can read the file can control the service, although the port is open to every user of the machine.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from base.secrets import remember
from base.whole_file import write_whole

if TYPE_CHECKING:
    import httpx  # takes a sixth of the time of a short command, and not all send a request by it

ENDPOINT_FILE = "endpoint.json"

ANSWER_SECONDS_MAX = 5.0
"""An answer may take this long, because the endpoint's thread shares the interpreter with the loop, which may be encoding a large step."""

APPLY_SECONDS_MAX = 6 * 3600.0
"""How long a client waits until a transition is accepted or refused. Batch tables are loaded before that, which may take hours."""

LAYOUT_SECONDS_MAX = 60.0
"""The time for the loop to accept a request that concerns the layout, between two steps or after a recovery."""

PLAN_SECONDS_MAX = 300.0
"""The time for the service to plan the project's files beside its steps. A hundred views take 30 s on two idle cores."""

QUERY_SECONDS_MAX = 60.0
"""The time for the process that answers queries to answer one, with its own start, which takes 5 to 20 s, and with those that were asked
before."""

READ_SECONDS_MAX = 60.0
"""The time for the workers to read views, all at one version. A checkpoint that is being folded delays it by its own time."""


@dataclass(frozen=True)
class Endpoint:
    """The address of a control endpoint, and what a client needs for it. `url` is http://127.0.0.1:PORT. `token` is sent in the Authorization
    header."""

    url: str
    token: str
    pid: int

    @staticmethod
    def new(port: int) -> Endpoint:
        token = secrets.token_urlsafe(32)
        remember(token)
        return Endpoint(f"http://127.0.0.1:{port}", token, os.getpid())

    def write(self, folder: Path) -> None:
        """Replaces the file atomically. Other users can never read it, not even while it is being written."""
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / ENDPOINT_FILE, json.dumps(asdict(self)), private=True)

    def write_unless_served(self, folder: Path) -> None:
        """Writes the file as `write` does, but keeps the file of a service that is alive, because a run that has not claimed the pipeline yet
        may be rejected."""
        other = read_endpoint(folder)
        if other is None or who_answers(other.url) is None:
            self.write(folder)

    def remove(self, folder: Path) -> None:
        """Removes the file if it still belongs to this endpoint."""
        if read_endpoint(folder) == self:
            (folder / ENDPOINT_FILE).unlink(missing_ok=True)


def read_endpoint(folder: Path) -> Endpoint | None:
    """The endpoint that the last service wrote, which may have ended. None if there is no file, or none that can be read as an endpoint."""
    try:
        found = json.loads((folder / ENDPOINT_FILE).read_text())
        return Endpoint(str(found["url"]), str(found["token"]), int(found["pid"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def request(
    method: str,
    url: str,
    headers: Mapping[str, str] | None = None,
    *,
    seconds: float = ANSWER_SECONDS_MAX,
    parameters: Mapping[str, Sequence[str]] | None = None,
    body: Mapping[str, Any] | None = None,
) -> httpx.Response:
    """Sends a request to a service, which uses plain HTTP. `body` is sent as JSON. So no certificates are loaded, which would take 17 ms of
    CPU time."""
    import httpx

    return httpx.request(
        method, url, params=parameters, json=body, headers=headers, timeout=seconds, trust_env=False, verify=False
    )


def post(endpoint: Endpoint, path: str, body: Mapping[str, Any], *, seconds: float) -> tuple[int, bytes] | None:
    """The status and the content of the answer to `body`, which is sent as JSON; None if there is no whole answer. It does without httpx."""
    headers = {"Authorization": f"Bearer {endpoint.token}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection(endpoint.url.removeprefix("http://"), timeout=seconds)
    try:
        connection.request("POST", path, json.dumps(body).encode(), headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def who_answers(url: str) -> dict[str, Any] | None:
    """The answer of `/alive` at this address; None if nothing answers, or another program."""
    import httpx

    try:
        found = request("GET", url + "/alive").json()
        return found if isinstance(found, dict) and "pipeline" in found else None
    except (httpx.HTTPError, ValueError):
        return None
