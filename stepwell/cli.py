"""The command line: `stepwell COMMAND`, in the project's folder or with --spec FILE.

A command's module is imported only when the command is called, because `status` needs neither Spark nor the engine, and is called often.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

COMMANDS = {
    "init": "stepwell.commands.init",
    "dry-run": "stepwell.commands.dry_run",
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
    "dev": "stepwell.commands.dev",
}
"""The commands, in the order of a project's life. A module has a function with the command's name, or an `app` of commands."""


class _Commands(TyperGroup):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]  # their names, which suggestions are made from

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(COMMANDS[cmd_name])
        group = getattr(module, "app", None)
        if group is None:
            group = typer.Typer(add_completion=False)
            group.command(cmd_name)(getattr(module, cmd_name.replace("-", "_")))
        command = typer.main.get_command(group)
        command.name = cmd_name
        return command


app = typer.Typer(
    name="stepwell", cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False
)


@app.callback()
def stepwell() -> None:
    """Runs a Spark Declarative Pipelines project incrementally, exactly once, over Kafka."""


def main() -> None:
    app()


if __name__ == "__main__":
    main()
