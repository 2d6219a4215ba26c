"""Why the service of a project does not answer: its process has ended, or it lives, and is stopped or busy.

A process is known by its number alone, which the system gives to another one after some time. A process that is younger than the endpoint file
has not written it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import psutil

from stepwell.service.endpoint import ENDPOINT_FILE, Endpoint

YOUNGER_SECONDS = 2.0
"""By so much a process has to be younger than the file. The system rounds both times, and counts that of a process from its own start."""


@dataclass(frozen=True)
class Silence:
    """What was found out about a process that does not answer. `found` is a sentence about the process, without a full stop. `is_gone`: whether
    the process has ended."""

    found: str
    what_to_do: str
    is_gone: bool


def why_silent(folder: Path, endpoint: Endpoint) -> Silence:
    """Looks at the process of an endpoint at which nothing answers."""
    pid = endpoint.pid
    status = _status(folder, pid)
    if status is None:
        return Silence(
            f"process {pid} was killed and left its endpoint file", "`stepwell run` starts it again.", is_gone=True
        )
    end = f"or end it with `kill -9 {pid}` and start it again with `stepwell run`, which loses nothing"
    if status in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP):
        return Silence(
            f"process {pid} is stopped, as by SIGSTOP, and does not answer at {endpoint.url}",
            f"Wake it with `kill -CONT {pid}`, {end}.",
            is_gone=False,
        )
    return Silence(
        f"process {pid} lives and does not answer at {endpoint.url}",
        f"Ask again, because it may be busy. If it stays silent, see its log, {end}.",
        is_gone=False,
    )


def _status(folder: Path, pid: int) -> str | None:
    """The status of the process that has written the endpoint file; None if it has ended."""
    try:
        process = psutil.Process(pid)
        if process.create_time() > (folder / ENDPOINT_FILE).stat().st_mtime + YOUNGER_SECONDS:
            return None
        status = str(process.status())
    except (psutil.NoSuchProcess, OSError):
        return None
    return None if status == psutil.STATUS_ZOMBIE else status
