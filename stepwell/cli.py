"""The command line: `stepwell COMMAND`, in the project's folder or with --spec FILE."""

from __future__ import annotations

import typer

from stepwell.commands import control, dev
from stepwell.commands.doctor import doctor
from stepwell.commands.dry_run import dry_run
from stepwell.commands.init import init
from stepwell.commands.query import query
from stepwell.commands.run import run
from stepwell.commands.steps import steps

app = typer.Typer(
    name="stepwell",
    help="Runs a Spark Declarative Pipelines project incrementally, exactly once, over Kafka.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

COMMANDS = (
    init, dry_run, run, control.status, control.pause, control.resume, control.stop, control.checkpoint, query, steps,
    doctor,
)  # fmt: skip
for command in COMMANDS:
    app.command(command.__name__.replace("_", "-"))(command)
app.add_typer(dev.app, name="dev")


def main() -> None:
    app()


if __name__ == "__main__":
    main()
