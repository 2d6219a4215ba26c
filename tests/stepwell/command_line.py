"""The real command line, in processes of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import chdir
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from typer.testing import CliRunner

from stepwell.cli import app

ROOMS = Path(__file__).resolve().parents[2]

COMMAND_SECONDS_MAX = 240
"""A session starts in 5 to 20 s, and on a full machine in a minute."""

LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def _answer(ended: Ended) -> Any:
    assert ended.code == 0, ended
    return ended.json


class CommandLine:
    """Commands in one folder, with one broker and a cache of its own."""

    def __init__(self, folder: Path, servers: str, cache: Path) -> None:
        self.folder = folder
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("STEPWELL_")},
            "PYTHONPATH": str(ROOMS),
            "STEPWELL_KAFKA_BOOTSTRAP_SERVERS": servers,
            "XDG_CACHE_HOME": str(cache),
        }

    def with_path(self, path: Path) -> CommandLine:
        """The same in the same folder, by the release of Stepwell that is there."""
        other = copy(self)
        other.environment = {**self.environment, "PYTHONPATH": str(path)}
        return other

    def __call__(self, *arguments: str, **environment: str) -> Ended:
        ran = subprocess.run(
            self._command(arguments), cwd=self.folder, env={**self.environment, **environment}, capture_output=True,
            text=True, timeout=COMMAND_SECONDS_MAX, check=False,
        )  # fmt: skip
        return Ended(ran.returncode, ran.stdout, ran.stderr)

    def done(self, *arguments: str) -> Any:
        """The answer of a command that must succeed."""
        return _answer(self(*arguments, "--json"))

    def asked(self, *arguments: str) -> Any:
        """The same in this process."""
        return _answer(self.here(*arguments, "--json"))

    def here(self, *arguments: str) -> Ended:
        """In this process, which has imported all that a new one would have to: for what does not start Spark."""
        with chdir(self.folder):
            ran = CliRunner().invoke(app, list(arguments), env=self.environment)
        return Ended(ran.exit_code, ran.stdout, ran.stderr)

    def start(self, *arguments: str) -> Service:
        return Service(self, self._command(arguments))

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "stepwell.cli", *arguments]


class Service:
    """`stepwell run` in a process group of its own, as a terminal gives it."""

    def __init__(self, line: CommandLine, command: list[str]) -> None:
        self._line = line
        self._log = (line.folder / "run.err").open("w+")
        self.process = subprocess.Popen(
            command, cwd=line.folder, env=line.environment, stdout=self._log, stderr=self._log, start_new_session=True
        )

    @property
    def said(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def wait_until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first status that is as wanted."""
        deadline = time.monotonic() + COMMAND_SECONDS_MAX
        status = None
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.said
            asked = self._line.here("status", "--json")
            status = asked.json if asked.code == 0 else asked
            if isinstance(status, dict) and wanted(status):
                return status
            time.sleep(LOOK_SECONDS)
        raise AssertionError(f"never as wanted: {status}; {self.said}")

    def wait(self) -> int:
        return self.process.wait(COMMAND_SECONDS_MAX)

    def signal_group(self, number: int) -> None:
        """As a terminal's Ctrl-C does: to every process of the group."""
        os.killpg(self.process.pid, number)

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self) -> None:
        """Whatever happened, nothing stays behind."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._log.close()
