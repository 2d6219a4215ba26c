"""The service as a user starts it: `stepwell run`, in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stepwell.project.loading import Project
from stepwell.service.client import ControlClient

STOP_SECONDS_MAX = 120.0
"""How long the last step and a checkpoint may take on a busy machine."""

LOG_TAIL_LINES = 15


class ServiceFailed(Exception):
    """The service ended by itself."""


class Service:
    """The service's output goes to `log`. `settings` are added to those of the project."""

    def __init__(self, project: Project, servers: str, log: Path, settings: Mapping[str, str]) -> None:
        self._spec, self._log, self._client = project.spec_file, log, ControlClient(project.state_folder)
        self._environment = {**os.environ, "STEPWELL_KAFKA_BOOTSTRAP_SERVERS": servers}
        self._options = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """The time.monotonic at which it was started."""
        began = time.monotonic()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command("run"), *self._options], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment,
                start_new_session=True,
            )  # fmt: skip
        return began

    def require_alive(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            raise ServiceFailed(f"the service ended with exit code {self._process.returncode}:\n{self._tail()}")

    def kill(self) -> None:
        """Sends SIGKILL: no handler runs, and nothing is flushed. The JVM and the Python workers end by themselves when the service is gone."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """Runs `stepwell stop` and waits for the end of the process."""
        assert self._process is not None
        asked = subprocess.run(
            self._command("stop"), env=self._environment, capture_output=True, text=True, check=False
        )
        if asked.returncode != 0:
            raise ServiceFailed(f"`stepwell stop` ended with exit code {asked.returncode}:\n{asked.stderr}")
        if self._process.wait(STOP_SECONDS_MAX) != 0:
            self.require_alive()

    def answer(self, name: str, *options: str) -> dict[str, Any]:
        """What `stepwell NAME --json` says. Raises ServiceFailed if it fails."""
        asked = subprocess.run(
            [*self._command(name), *options, "--json"],
            env=self._environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if asked.returncode != 0:
            raise ServiceFailed(f"`stepwell {name}` ended with exit code {asked.returncode}:\n{asked.stderr}")
        answer: dict[str, Any] = json.loads(asked.stdout)
        return answer

    def look(self) -> dict[str, Any]:
        """The same, asked without a process of its own."""
        return self._client.status()

    @contextmanager
    def beginning(self, *command: str) -> Iterator[Callable[[], bool]]:
        """Runs `stepwell COMMAND` beside the body, which gets a function that tells whether it has ended. Raises ServiceFailed if it fails."""
        words = [*command, "--spec", str(self._spec)]
        with subprocess.Popen(
            [sys.executable, "-m", "stepwell.cli", *words],
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            yield lambda: process.poll() is not None
            _, fault = process.communicate()
        if process.returncode != 0:
            raise ServiceFailed(f"`stepwell {' '.join(command)}` ended with exit code {process.returncode}:\n{fault}")

    def end(self) -> None:
        """Ends the process in any case."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _command(self, name: str) -> list[str]:
        return [sys.executable, "-m", "stepwell.cli", name, "--spec", str(self._spec)]

    def _tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])
