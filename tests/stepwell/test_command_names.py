"""The command line itself: its version, its other name, and what a shell completes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from stepwell.cli import COMMANDS, app

ROOT = Path(__file__).resolve().parents[2]


def ran(*words: str, **environment: str) -> str:
    """In a process of its own, which loads what it needs and nothing else."""
    command = [sys.executable, "-X", "importtime", "-m", "stepwell", *words]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=True, timeout=60
    )
    assert "pyspark" not in done.stderr, "it would take seconds"
    return done.stdout


def test_the_version() -> None:
    said = ran("--version")
    assert said.startswith(f"stepwell {version('stepwell')} (Python 3.") and f"PySpark {version('pyspark')}" in said


@pytest.mark.long
def test_a_command_without_a_project_speaks_as_the_environment_says(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "STEPWELL_LOG_FORMAT": "json"}
    command = [sys.executable, "-m", "stepwell", "status"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    said = json.loads(done.stderr)
    assert (done.returncode, said["level"], said["exit_code"]) == (3, "error", 3) and "no project here" in said["event"]


@pytest.mark.parametrize(
    ("word", "names"),
    [("re", ["resume", "revision", "restore"]), ("bun", ["bundle"]), ("", list(COMMANDS)), ("--ver", ["--version"])],
)
def test_a_shell_completes_names_of_commands(word: str, names: list[str]) -> None:
    said = ran(_STEPWELL_COMPLETE="complete_bash", COMP_WORDS=f"stepwell {word}", COMP_CWORD="1")
    assert said.split() == names


@pytest.mark.parametrize(
    ("words", "found"),
    [("layout cha", "change"), ("dev clu", "cluster"), ("query --ne", "--next"), ("revision show --wa", "--watch")],
)
def test_a_shell_completes_what_belongs_to_a_command(words: str, found: str) -> None:
    variables = {"_STEPWELL_COMPLETE": "complete_bash", "COMP_WORDS": f"stepwell {words}"}
    said = CliRunner().invoke(app, env={**variables, "COMP_CWORD": str(len(words.split()))}, prog_name="stepwell")
    assert said.stdout.split() == [found]


def test_every_command_that_reads_a_project_takes_settings() -> None:
    group = typer.main.get_command(app)
    context = typer.Context(group)
    lacking, waiting = [], [(name, group.get_command(context, name)) for name in COMMANDS]  # type: ignore[attr-defined]
    while waiting:
        name, command = waiting.pop()
        waiting += [(f"{name} {key}", each) for key, each in getattr(command, "commands", {}).items()]
        options = {option for parameter in command.params for option in parameter.opts}
        if "--spec" in options and "--conf" not in options:
            lacking.append(name)
    assert not lacking
