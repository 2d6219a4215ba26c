"""The command line: `stepwell COMMAND`, in the project's folder or with --spec FILE."""

from __future__ import annotations

import typer

from stepwell.commands import control, run

app = typer.Typer(
    name="stepwell",
    help="Runs a Spark Declarative Pipelines project incrementally, exactly once, over Kafka.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

for command in (run.run, control.status, control.pause, control.resume, control.stop, control.checkpoint):
    app.command()(command)


def main() -> None:
    app()


if __name__ == "__main__":
    main()
