"""The command line: `stepwell COMMAND`, in the project's folder or with --spec FILE.

A command's module is imported only when the command is called, because `status` needs neither Spark nor the engine, and is called often.
"""

from __future__ import annotations

import gc
import os
import platform
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from base.standard_streams import forgive_standard_error
from stepwell.commands.log_lines import FORMAT_VARIABLE, use_format

COMMANDS = {
    "init": "stepwell.commands.init",
    "dry-run": "stepwell.commands.dry_run",
    "graph": "stepwell.commands.graph",
    "plan": "stepwell.commands.plan",
    "apply": "stepwell.commands.apply",
    "run": "stepwell.commands.run",
    "status": "stepwell.commands.control",
    "page": "stepwell.commands.page",
    "metrics": "stepwell.commands.metrics",
    "pause": "stepwell.commands.control",
    "resume": "stepwell.commands.control",
    "stop": "stepwell.commands.control",
    "checkpoint": "stepwell.commands.control",
    "layout": "stepwell.commands.layout",
    "revision": "stepwell.commands.revision",
    "backup": "stepwell.commands.backup",
    "restore": "stepwell.commands.restore",
    "query": "stepwell.commands.query",
    "steps": "stepwell.commands.steps",
    "doctor": "stepwell.commands.doctor",
    "bundle": "stepwell.commands.bundle",
    "explain": "stepwell.commands.explain",
    "dev": "stepwell.commands.dev",
}
"""The commands, in the order of a project's life. A module has a function with the command's name, or an `app` of commands."""


@dataclass(frozen=True)
class _Completion:
    """What a shell may complete a word to."""

    value: str
    type: str = "plain"
    help: str | None = None


class _Commands(TyperGroup):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]  # their names, which suggestions are made from

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """The names alone: the help of each would load its module, and all of them take seconds."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [_Completion(name) for name in COMMANDS if name.startswith(incomplete)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module = _import_module(COMMANDS[cmd_name])
        group = getattr(module, "app", None)
        if group is None:
            group = typer.Typer(add_completion=False)
            group.command(cmd_name)(getattr(module, cmd_name.replace("-", "_")))
        command = typer.main.get_command(group)
        command.name = cmd_name
        return command


def _import_module(name: str) -> ModuleType:
    """What a module makes while it is imported is no garbage, and to look for some takes a seventh of the time of a short command."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        return import_module(name)
    finally:
        if was_on:
            gc.enable()


app = typer.Typer(name="stepwell", cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        about = f"Python {platform.python_version()}, PySpark {_installed_version('pyspark')}"
        typer.echo(f"stepwell {_installed_version('stepwell')} ({about})")
        raise typer.Exit


def _installed_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


@app.callback()
def stepwell(
    is_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Runs a Spark Declarative Pipelines project incrementally, exactly once, over Kafka."""


def main() -> None:
    forgive_standard_error()  # a line that nobody can take ends no command, and changes no exit code
    use_format("json" if os.environ.get(FORMAT_VARIABLE) == "json" else "text")  # until the settings are read
    app(prog_name="stepwell")  # also as `python -m stepwell`, for help and for completion


if __name__ == "__main__":
    main()
