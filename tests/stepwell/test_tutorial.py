"""The commands of the tutorial, as they stand, in their order. Each says what the tutorial shows. test_reference.py proves in the suite that its
commands and options exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Broker
from tests.stepwell.command_line import COMMAND_SECONDS_MAX, CommandLine, Service

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"

OF_THE_BROKER = ("stepwell dev up", "stepwell dev down")
"""The broker of all tests is there already."""


@dataclass
class Shown:
    """A command, and the lines that follow it in the tutorial."""

    command: str
    lines: list[str] = field(default_factory=list)


def shown_in(text: str) -> list[Shown]:
    found: list[Shown] = []
    for block in re.findall(r"^```console[^\n]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Shown(line[2:]))
            else:
                found[-1].lines.append(line)
    return found


def why_not(shown: list[str], said: str) -> str | None:
    """The first of the shown lines that was not said behind the one before it; None if all were. `...` stands for anything, and alone in a line
    for any number of lines."""
    rest = said.splitlines()
    for line in shown:
        if line.strip() == "...":
            continue
        pattern = ".*".join(re.escape(" ".join(part.split())) for part in line.split("..."))
        at = next((n for n, other in enumerate(rest) if re.search(pattern, " ".join(other.split()))), None)
        if at is None:
            return line
        rest = rest[at + 1 :]
    return None


def test_what_was_not_said_is_seen() -> None:
    said = "revision 1 -> 2\nview   what\nrevenue   rebuilt from x\n98 % of the state is kept"
    assert why_not(["revision 1 -> 2", "...", "revenue ... rebuilt ...", "% of the state is kept"], said) is None
    assert why_not(["revenue ... rebuilt ...", "revision 1 -> 2"], said) == "revision 1 -> 2"
    assert why_not(["revenue ... kept"], said) == "revenue ... kept"
    assert shown_in("```console title='b'\n$ a\nb\n$ c\n```\n```sh\n$ d\n```\n") == [Shown("a", ["b"]), Shown("c")]


def _has_read_all(status: Mapping[str, Any]) -> bool:
    """People take longer from one command to the next than this does."""
    return bool(status["lag"]) and not any(status["lag"].values())


class Reader:
    """Somebody who does what the tutorial says, in two terminals."""

    def __init__(self, folder: Path, servers: str) -> None:
        programs = folder / "bin"
        programs.mkdir()
        for name, words in (("stepwell", "-m stepwell.cli "), ("python", "")):
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words}"$@"\n')
            program.chmod(0o755)
        self.line = CommandLine(folder, servers, folder / "cache")
        self.line.environment["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
        self.service: Service | None = None

    def does(self, shown: Shown) -> None:
        if shown.command in OF_THE_BROKER:
            return
        if shown.command.startswith("cd "):
            self.line.folder /= shown.command[3:]
        elif shown.command == "stepwell run":
            self.service = self.line.start("run")
            self.service.wait_until(lambda status: status["phase"] == "run" and _has_read_all(status))
        else:
            self._runs(shown)

    def _runs(self, shown: Shown) -> None:
        ran = subprocess.run(
            ["bash", "-c", shown.command], cwd=self.line.folder, env=self.line.environment, capture_output=True, text=True,
            timeout=COMMAND_SECONDS_MAX, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, (shown.command, ran.stdout, ran.stderr)
        missing = why_not(shown.lines, ran.stdout + ran.stderr)
        assert missing is None, (shown.command, missing, ran.stdout, ran.stderr)
        if shown.command.startswith("kill"):
            assert self.service is not None
            self.service.wait()
        elif shown.command.startswith("python generate.py") and self._is_running:
            assert self.service is not None
            self.service.wait_until(_has_read_all)

    @property
    def _is_running(self) -> bool:
        return self.service is not None and self.service.process.poll() is None


@pytest.mark.soak
def test_the_tutorial_does_what_it_says(tmp_path: Path, broker: Broker) -> None:
    reader = Reader(tmp_path, broker.bootstrap_servers)
    try:
        for shown in shown_in(TUTORIAL.read_text()):
            reader.does(shown)
        assert reader.service is not None and reader.service.wait() == 0, reader.service.said
    finally:
        if reader.service is not None:
            reader.service.end()
