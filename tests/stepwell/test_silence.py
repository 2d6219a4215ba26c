"""Why a service does not answer, for processes that live, are stopped and are gone."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from stepwell.doctor.state import state_checks
from stepwell.project.loading import load_project
from stepwell.service.client import ControlClient, NotRunning
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


def _said(tmp_path: Path, pid: int, age_s: float = 0.0) -> tuple[str, str]:
    """What `status` and `doctor` say of a service with this process. `age_s`: of its endpoint file."""
    project = load_project(write(tmp_path, {}))
    folder = project.state_folder
    Endpoint(NOBODY, "token", pid).write(folder)
    written = time.time() - age_s
    os.utime(folder / ENDPOINT_FILE, (written, written))
    with pytest.raises(NotRunning) as caught:
        ControlClient(folder).status()
    check = state_checks(project)[1]
    assert (check.name, check.level) == ("service", "WARN")
    return str(caught.value), f"{check.found} {check.what_to_do}"


def test_a_process_that_lives_is_not_said_to_be_killed(tmp_path: Path, process: subprocess.Popen[bytes]) -> None:
    for said in _said(tmp_path, process.pid):
        assert f"process {process.pid} lives and does not answer at {NOBODY}" in said
        assert "killed" not in said and f"kill -9 {process.pid}" in said


def test_a_process_that_is_stopped_can_be_woken(tmp_path: Path, process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGSTOP)
    _wait_until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
    for said in _said(tmp_path, process.pid):
        assert f"process {process.pid} is stopped" in said and f"`kill -CONT {process.pid}`" in said


def test_a_process_that_is_gone_was_killed(tmp_path: Path, process: subprocess.Popen[bytes]) -> None:
    for said in _said(tmp_path, process.pid, age_s=3600.0):
        assert f"process {process.pid} was killed" in said, "a younger process has its number"
    process.kill()
    _wait_until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
    for said in _said(tmp_path, process.pid):
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
