"""The pages of settings and commands are those of the code, and documents use no other commands and options. The page of metrics is tested in
test_metrics.py, and that of errors in test_error_pages.py."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from stepwell.project.stepwell_settings import STEPWELL_KEYS, StepwellSettings
from stepwell.reference import commands, settings
from stepwell.reference.commands import Command

ROOT = Path(__file__).parents[2]

DOCUMENTS = ("README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))))


@pytest.mark.parametrize("page", [settings, commands], ids=["settings", "commands"])
def test_a_page_is_made_from_the_code(page: object) -> None:
    name = page.__name__.rpartition(".")[2]  # type: ignore[attr-defined]
    again = f"run python -m stepwell.reference.{name} > docs/{name}.md"
    assert (ROOT / "docs" / f"{name}.md").read_text() == page.reference(), again  # type: ignore[attr-defined]


def test_every_setting_says_what_it_means() -> None:
    assert not [name for name in STEPWELL_KEYS.values() if not StepwellSettings.model_fields[name].description]


@cache
def known() -> dict[str, Command]:
    return {command.name: command for command in commands.commands()}


def why_not(line: str) -> str | None:
    """What is wrong with a line `stepwell ...`; None if nothing is. The text behind it may be more of a sentence."""
    words = line.split("#")[0].replace("[", " ").replace("]", " ").split()[1:]
    if words and words[0] in ("--version", "--install-completion", "COMMAND"):
        return None
    name = next((" ".join(words[:count]) for count in (3, 2, 1) if " ".join(words[:count]) in known()), None)
    if name is None:
        return "there is no such command"
    used = {word.split("=")[0] for word in words if re.fullmatch(r"--?[a-z][a-z-]*(=.*)?", word)}
    unknown = used - known()[name].options
    return f"{name} has no {', '.join(sorted(unknown))}" if unknown else None


def commands_in(text: str) -> list[str]:
    """The commands in a document: lines of blocks, and in running text `stepwell ...`."""
    fenced = re.findall(r"^```(?:console|bash|sh)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    blocks = [line.strip() for block in fenced for line in block.splitlines()]
    indented = [line.strip() for line in re.findall(r"^ {4}.*$", text, re.MULTILINE)]
    lines = [line.removeprefix("$ ") for line in (*blocks, *indented)]
    inline = [" ".join(found.split()) for found in re.findall(r"`(stepwell\s[^`]+)`", text)]
    return [line for line in (*lines, *inline) if re.match(r"stepwell [a-z-]", line)]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_uses_commands_and_options_that_exist(document: str) -> None:
    found = {line: why for line in commands_in((ROOT / document).read_text()) if (why := why_not(line))}
    assert not found


def test_a_command_or_an_option_that_does_not_exist_is_seen() -> None:
    assert why_not("stepwell layout change --workers 3") is None
    assert why_not("stepwell layout chnage --workers 3") == "there is no such command"
    assert why_not("stepwell run --worker 3 --available-now") == "run has no --worker"
    text = "```console\n$ stepwell frob\n```\n\n    stepwell dev up\n\nand `stepwell\nstatus`"
    assert commands_in(text) == ["stepwell frob", "stepwell dev up", "stepwell status"]
