"""docs/commands.md, made from the commands: `python -m stepwell.reference.commands > docs/commands.md`. A test holds that it is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer
from typer.core import TyperArgument, TyperGroup

from stepwell.cli import COMMANDS, app

TEXT = "commands.md"

OF_ALL = ("--help",)
"""What every command has, so that the page says it once."""


@dataclass(frozen=True)
class Command:
    """A command, as its page has it. `name`: all words, as `layout change`. `parameters`: typer's."""

    name: str
    help: str
    parameters: tuple[Any, ...]

    @property
    def options(self) -> set[str]:
        """The names of all options that it takes."""
        named = (name for each in self.parameters if not isinstance(each, TyperArgument) for name in _names(each))
        return {*named, *OF_ALL}


def commands() -> list[Command]:
    """All that can be called, in the order of the command line's help."""
    group: Any = typer.main.get_command(app)
    return [found for name in COMMANDS for found in _within(name, group.get_command(None, name))]


def _within(name: str, command: Any) -> Iterator[Command]:
    if isinstance(command, TyperGroup):
        for inner, of_it in command.commands.items():
            yield from _within(f"{name} {inner}", of_it)
    else:
        yield Command(name, (command.help or "").strip(), tuple(each for each in command.params if not each.hidden))


def reference() -> str:
    """The whole page. The text above the commands is in commands.md beside this module."""
    text = resources.files(__package__).joinpath(TEXT).read_text()
    return text.replace("{COMMANDS}", "\n\n".join(map(_section, commands())))


def _section(command: Command) -> str:
    arguments = [each for each in command.parameters if isinstance(each, TyperArgument)]
    options = [each for each in command.parameters if not isinstance(each, TyperArgument)]
    words = ["stepwell", command.name, *map(_argument, arguments), *(["[OPTIONS]"] if options else [])]
    lines = [f"### {command.name}", "", f"    {' '.join(words)}", "", *_paragraphs(command.help)]
    rows = [(f"`{_argument(each)}`", each.help) for each in arguments if each.help]
    rows += [(_option(each), each.help) for each in options]
    if rows:
        lines += ["", "| | |", "|---|---|"]
    lines += [f"| {name} | {_cell(text)} |" for name, text in rows]
    return "\n".join(lines)


def _paragraphs(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.split("\n\n")]


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def _argument(parameter: Any) -> str:
    name = parameter.metavar or parameter.name.upper()
    return name if parameter.required else f"[{name}]"


def _names(option: Any) -> list[str]:
    return [*option.opts, *option.secondary_opts]


def _option(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in _names(option))
    return names if option.is_flag else f"{names} {option.metavar or _kind(option)}"


def _kind(option: Any) -> str:
    """What to write for the value: N, PATH, TEXT, or one of the choices."""
    kind = option.type_descriptor.annotation
    if get_origin(kind) is Literal:
        return "\\|".join(get_args(kind))
    return {int: "N", float: "N", Path: "PATH"}.get(kind, "TEXT")


if __name__ == "__main__":
    sys.stdout.write(reference())
