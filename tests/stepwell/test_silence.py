"""Why a service does not answer: its process lives, is stopped, or has ended. A silent service does not count as one that has ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from stepwell.commands import backup, layout
from stepwell.commands import rescale as rescales
from stepwell.commands import transition as transitions
from stepwell.commands.hand_over import take_from_running
from stepwell.doctor.state import state_checks
from stepwell.project.loading import Project, load_project
from stepwell.service.client import ControlClient, NotRunning, ServiceSilent
from stepwell.service.endpoint import ENDPOINT_FILE, Endpoint
from tests.stepwell.folder import write

DEADLINE_SECONDS = 30.0
NOBODY = "http://127.0.0.1:1"


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as started:
        yield started
        started.kill()


def _wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _said(tmp_path: Path, pid: int, kind: type[NotRunning | ServiceSilent], age_s: float = 0.0) -> tuple[str, str]:
    """What `status`, which raises `kind`, and `doctor` say of a service with this process. `age_s`: of its endpoint file."""
    project = load_project(write(tmp_path, {}))
    folder = project.state_folder
    Endpoint(NOBODY, "token", pid).write(folder)
    written = time.time() - age_s
    os.utime(folder / ENDPOINT_FILE, (written, written))
    with pytest.raises(kind) as caught:
        ControlClient(folder).status()
    check = state_checks(project)[1]
    assert (check.name, check.level) == ("service", "WARN")
    return str(caught.value), f"{check.found} {check.what_to_do}"


def test_a_process_that_lives_is_not_said_to_be_killed(tmp_path: Path, process: subprocess.Popen[bytes]) -> None:
    for said in _said(tmp_path, process.pid, ServiceSilent):
        assert f"process {process.pid} lives and does not answer at {NOBODY}" in said
        assert "killed" not in said and f"kill -9 {process.pid}" in said


def test_a_process_that_is_stopped_can_be_woken(tmp_path: Path, process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGSTOP)
    _wait_until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
    for said in _said(tmp_path, process.pid, ServiceSilent):
        assert f"process {process.pid} is stopped" in said and f"`kill -CONT {process.pid}`" in said


def test_a_process_that_is_gone_was_killed(tmp_path: Path, process: subprocess.Popen[bytes]) -> None:
    for said in _said(tmp_path, process.pid, NotRunning, age_s=3600.0):
        assert f"process {process.pid} was killed" in said, "a younger process has its number"
    process.kill()
    _wait_until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
    for said in _said(tmp_path, process.pid, NotRunning):
        assert f"process {process.pid} was killed" in said and "stepwell run" in said


def test_a_service_that_ends_meanwhile_is_not_said_to_be_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It removes its file before it closes the port."""
    endpoint = Endpoint(NOBODY, "token", os.getpid())
    endpoint.write(tmp_path)
    monkeypatch.setattr("stepwell.service.client._request", lambda *of, **more: endpoint.remove(tmp_path))
    with pytest.raises(NotRunning, match="no service runs for this project"):
        ControlClient(tmp_path).status()


class Told:
    """The answers of a service whose process lives. None: silence."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *answers: dict[str, Any] | None) -> None:
        Endpoint(NOBODY, "token", os.getpid()).write(folder)
        self.client, self._answers = ControlClient(folder), iter(answers)
        monkeypatch.setattr("stepwell.service.client._request", self._request)

    def _request(self, endpoint: Endpoint, method: str, path: str, **more: Any) -> httpx.Response | None:
        assert (method, path) == ("GET", "/status"), "a silent service is asked for nothing else"
        answer = next(self._answers)
        return None if answer is None else httpx.Response(200, json=answer)


def test_who_waits_for_a_service_waits_while_it_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(tmp_path, monkeypatch, None, {"step": 1}, None, None, {"step": 2})
    assert told.client.wait(lambda status: bool(status["step"] == 2), DEADLINE_SECONDS) == {"step": 2}
    told = Told(tmp_path, monkeypatch, *[None] * 10_000)
    with pytest.raises(ServiceSilent, match=f"process {os.getpid()} lives and does not answer"):
        told.client.wait(lambda status: True, 0.2)


def test_a_transition_and_a_rescale_are_followed_through_a_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transition = {"transition_last": {"number": 3, "outcome": "applied"}, "transition": None, "revision": 3}
    told = Told(tmp_path, monkeypatch, None, None, transition)
    asked = {"transition": {"number": 3, "phase": "switching"}}
    assert (
        transitions.follow(told.client, transitions.AwaitedTransition(3, False, None), asked, quiet=True) == transition
    )
    rescale = {"layout": {"number": 2, "members": {"0": {"slots": 256}}, "outcome": "settled"}}
    told = Told(tmp_path, monkeypatch, None, None, rescale)
    assert rescales.follow(told.client, {"change": {"number": 2}}, 1, None, quiet=True) == rescale


UNASKED: Any = object()
"""What a command would need to go on."""


@pytest.mark.parametrize(
    "begin",
    [
        lambda project: layout.change(2, spec=project.spec_file),
        lambda project: take_from_running(project, UNASKED, UNASKED, UNASKED, UNASKED),
        backup._have_stored,
    ],
    ids=["layout change", "run --hand-over", "backup create"],
)
def test_no_command_does_beside_a_silent_service_what_it_does_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: Callable[[Project], None]
) -> None:
    """A rescale without a service would claim the pipeline, a run would take its place, and a backup would be of an older step."""
    monkeypatch.setattr(layout, "report_faults", lambda as_json: nullcontext())
    project = load_project(write(tmp_path, {}))
    Told(project.state_folder, monkeypatch, None)
    with pytest.raises(ServiceSilent):
        begin(project)
