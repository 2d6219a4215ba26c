"""What all commands share: options, output for users and for programs, and exit codes (those of base/fault.py)."""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from base.fault import ExitCode, Fault
from base.secrets import MASK, hidden, is_secret
from stepwell.commands.log_lines import LogFormat, is_json, keep_said, say
from stepwell.commands.logs import configure_logs
from stepwell.errors import StepwellError
from stepwell.project.loading import Project, load_project
from stepwell.project.value_sources import is_reference

WIDTH_WITHOUT_TERMINAL = 200
"""The width of a table, in characters, in a pipe or a file. With rich's default of 80, names would be truncated."""

WATCH_SECONDS = 1.0
"""Between two looks of a command that watches."""

out = Console(soft_wrap=True, highlight=False, width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL)
err = Console(stderr=True, soft_wrap=True, highlight=False)

SpecOption = Annotated[Path | None, typer.Option("--spec", help="The project file, if not ./spark-pipeline.yml.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Output for programs.")]
ReloadOption = Annotated[
    list[str] | None,
    typer.Option(
        "--reload",
        metavar="TABLE",
        help="Load this batch table again with the change, because its files have changed: a path, or its name in the catalog.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting, as in configuration: of the project file."),
]
LogFormatOption = Annotated[
    LogFormat | None,
    typer.Option("--log-format", help="text, or json: one object a line. The setting stepwell.log.format."),
]


def project_of(
    spec: Path | None, conf: list[str] | None = None, *, may_lack: bool = False, **flags: str | None
) -> Project:
    """The project, with settings from --conf and from separate flags (`stepwell_workers="2"`). `may_lack`: see load_project. What is
    logged from now on is logged as they say."""
    given = settings_of(conf)
    settings = {key.replace("_", "."): value for key, value in flags.items() if value is not None} | given
    project = load_project(spec, settings, may_lack=may_lack)
    configure_logs(project.settings.stepwell.log_format, project.settings.stepwell.log_level)
    warn_of_visible(given)
    return project


def settings_of(conf: list[str] | None) -> dict[str, str]:
    """The settings of --conf, by key."""
    settings = {}
    for item in conf or ():
        key, equals, value = item.partition("=")
        if not equals:
            raise typer.BadParameter(f"{MASK if is_secret(item) else item}: write KEY=VALUE", param_hint="--conf")
        settings[key.strip()] = value.strip()
    return settings


def warn_of_visible(given: Mapping[str, str]) -> None:
    """Warns of secrets on the command line."""
    visible = [key for key, value in given.items() if is_secret(key) and not is_reference(value)]
    for key in visible:
        warn(
            f"{key} is a secret, and a command line can be read by every user of this machine (`ps`). Write --conf '{key}=${{env:NAME}}' or "
            f"'{key}=${{file:/PATH}}', or the same in configuration: of spark-pipeline.yml."
        )


def show(data: Any, *, as_json: bool, text: Any) -> None:
    """Prints `data` for programs, or `text` (anything that rich can print) for users."""
    if as_json:
        indent = None if is_json() else 2  # whoever reads lines of JSON gets one line
        sys.stdout.write(json.dumps(data, indent=indent, default=str, ensure_ascii=False) + "\n")
    else:
        out.print(text)


def keep_showing(look: Callable[[], Any], text: Callable[[Any], Any], *, as_json: bool) -> NoReturn:
    """Shows what `look` finds again and again, until Ctrl-C or a fault. Programs get one JSON object a line, a terminal one picture that
    changes, and a pipe or a file the text of each look."""
    if as_json or not out.is_terminal:
        while True:
            found = look()
            if as_json:
                sys.stdout.write(json.dumps(found, default=str, ensure_ascii=False) + "\n")
                sys.stdout.flush()
            else:
                out.print(text(found))
            time.sleep(WATCH_SECONDS)
    with Live(text(look()), console=out, auto_refresh=False) as live:
        while True:
            time.sleep(WATCH_SECONDS)
            live.update(text(look()), refresh=True)


def plain_table(*columns: str) -> Table:
    """A table without lines, whose cells are never truncated."""
    table = Table(box=None)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def note(text: str) -> None:
    """Prints a line for users to standard error, beside the answer and without markup."""
    if is_json():
        say("info", text)
    else:
        keep_said(text)
        err.print(hidden(text), markup=False)


def warn(text: str) -> None:
    """Prints a line as `note` does, about something that the user should change."""
    if is_json():
        say("warning", text)
    else:
        keep_said(f"warning: {text}")
        err.print(f"[yellow]warning:[/] {escape(hidden(text))}")


class PlaceUnusable(StepwellError):
    """A file or a folder cannot be read or written by this user, or on this disk."""

    exit_code = ExitCode.MACHINE

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(
            f"{place}: {reason}",
            "Correct its owner or its rights, make room, or name another place: `storage:` of spark-pipeline.yml, stepwell.local.dir and "
            "XDG_CACHE_HOME say where Stepwell writes.",
        )


REFUSALS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR})
"""What the system answers for a place that cannot be used. A file that is missing may be a bug in Stepwell."""


FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What it answers if a disk has no room, or this user has used up what may be used of it."""


def as_fault(error: Exception) -> Fault | None:
    """What a user can do something about; None for a bug in Stepwell."""
    if isinstance(error, OSError) and error.errno in REFUSALS:
        reason = error.strerror or "it cannot be used"
        if error.filename is not None:
            return PlaceUnusable(os.fsdecode(error.filename), reason)
        if error.errno in FULL:  # a write names no file
            return PlaceUnusable("a file that Stepwell writes", reason)
    return error if isinstance(error, Fault) else None


def more_about(fault: Fault) -> list[str]:
    """Where each kind of error in it is explained: DOCUMENT#SLUG."""
    from stepwell.error_pages.table import link, pages_of  # read by a command that fails, and by no other

    return [link(page) for page in pages_of(fault)]


def more_line(links: Sequence[str]) -> str:
    """The last line of what a command says that fails."""
    name = links[0].rpartition("#")[2] if len(links) == 1 else "NAME"
    return f"more: {', '.join(links)}, or `stepwell explain {name}`"


@contextmanager
def report_faults(as_json: bool = False) -> Iterator[None]:
    """Turns a fault into a text and an exit code. A bug in Stepwell keeps its stack trace, unless it is known to concern a single view
    (`OwnMistake`)."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(int(ExitCode.INTERRUPTED)) from None
    except Exception as error:
        fault = as_fault(error)
        if fault is None:
            raise
        code, text, more = fault.exit_code, hidden(str(fault)), more_about(fault)
        if as_json:
            sys.stdout.write(json.dumps({"error": text, "exit_code": int(code), "more": more}) + "\n")
        if is_json():
            say("error", text, exit_code=int(code), more=more)
        else:
            keep_said(f"error: {text}")
            err.print(f"[bold red]error:[/] {escape(text)}")
            err.print(more_line(more), markup=False)
        raise typer.Exit(int(code)) from None
