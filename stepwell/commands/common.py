"""What all commands share: options, output for people and for programs, and exit codes.

0  done
1  a mistake of ours: please report it
2  wrong usage
3  the project or a setting is wrong, or asks for what is not supported
4  the data stopped the pipeline: a malformed message, two rows of one key, an overflow
5  Kafka: no broker, no topic, no permission, lost input
6  the state: damaged, full disk, not this project's
7  another run holds the pipeline, or has taken it over
8  no service runs that could be asked
9  this machine is not fit to run: no Java, no Spark; or `doctor` found something that FAILs
130  broken off with Ctrl-C
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stepwell.project.loading import Project, load_project


class Exit(IntEnum):
    OK = 0
    INTERNAL = 1
    USAGE = 2
    PROJECT = 3
    DATA = 4
    KAFKA = 5
    STATE = 6
    HELD = 7
    NOT_RUNNING = 8
    MACHINE = 9
    INTERRUPTED = 130


WIDTH_WITHOUT_TERMINAL = 200
"""Columns of a table in a pipe or a file: rich would take 80 and cut names short."""

out = Console(soft_wrap=True, highlight=False, width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL)
err = Console(stderr=True, soft_wrap=True, highlight=False)

SpecOption = Annotated[Path | None, typer.Option("--spec", help="The project file, if not ./spark-pipeline.yml.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Output for programs.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting, as in configuration: of the project file."),
]


def project_of(spec: Path | None, conf: list[str] | None = None, **flags: str | None) -> Project:
    """The project, with settings from --conf and from flags of their own (`stepwell_workers="2"`)."""
    settings = {key.replace("_", "."): value for key, value in flags.items() if value is not None}
    for item in conf or ():
        key, equals, value = item.partition("=")
        if not equals:
            raise typer.BadParameter(f"{item}: write KEY=VALUE", param_hint="--conf")
        settings[key.strip()] = value.strip()
    return load_project(spec, settings)


def show(data: Any, *, as_json: bool, text: Any) -> None:
    """`data` for programs, or `text` (anything rich can print) for people."""
    if as_json:
        sys.stdout.write(json.dumps(data, indent=2, default=str, ensure_ascii=False) + "\n")
    else:
        out.print(text)


def plain_table(*columns: str) -> Table:
    """A table without lines, whose cells are never cut short."""
    table = Table(box=None)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def note(text: str) -> None:
    """A line beside the answer: on standard error, for people, as it is."""
    err.print(text, markup=False)


@contextmanager
def reported(as_json: bool = False) -> Iterator[None]:
    """Turns the world's faults into a text and an exit code. A mistake of ours keeps its stack trace, unless it was found to concern one
    view (`OwnMistake`)."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(int(Exit.INTERRUPTED)) from None
    except Exception as error:
        code = exit_code_of(error)
        if code is None:
            raise
        if as_json:
            sys.stdout.write(json.dumps({"error": str(error), "exit_code": int(code)}) + "\n")
        err.print(f"[bold red]error:[/] {escape(str(error))}")
        raise typer.Exit(int(code)) from None


def exit_code_of(error: Exception) -> Exit | None:
    """None for a mistake of ours that is known as nothing but an exception: it keeps its stack trace."""
    from stepwell.commands import exit_codes  # which knows the errors of all rooms: a second of imports

    return exit_codes.exit_code_of(error)
