"""`stepwell run`: the service. It runs until it is stopped. Ctrl-C, SIGTERM and the end of its terminal stop it at a checkpoint.

Spark's JVM needs as long to start as Python needs for the service's modules, so it is started before they are imported. A login that fails is
reported before both have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from base.fault import ExitCode
from base.limits import WORKERS_MAX
from base.memory import keep_freed_memory
from base.standard_streams import forgive_standard_output
from stepwell.commands.choices import AppendOption, FromNowOption, GradualOption, RetractOption, chosen_of
from stepwell.commands.common import (
    JsonOption,
    LogFormatOption,
    ReloadOption,
    SetOption,
    SpecOption,
    note,
    project_of,
    report_faults,
    show,
)
from stepwell.commands.log_lines import SPARK_LOG, is_json, keep_lines, use_format
from stepwell.commands.spark import start_spark
from stepwell.commands.transition_text import WAITING, transition_text, ways_out
from stepwell.project.loading import Project

if TYPE_CHECKING:
    from stepwell.commands.serve import RunOptions


def run(
    view: Annotated[str | None, typer.Argument(hidden=True)] = None,
    *,
    spec: SpecOption = None,
    conf: SetOption = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=WORKERS_MAX,
            help="Workers that share the state. If the state has another number, it is moved before the first step.",
        ),
    ] = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Take what is there, make a checkpoint, exit.")
    ] = False,
    full_refresh: Annotated[
        bool,
        typer.Option("--full-refresh", help="Take all output back and rebuild it and the state."),
    ] = False,
    apply: Annotated[
        bool,
        typer.Option(
            "--apply", help="If the files have changed, begin with the recorded project and apply the change."
        ),
    ] = False,
    from_now: FromNowOption = None,
    append: AppendOption = None,
    retract: RetractOption = None,
    gradual: GradualOption = False,
    reload: ReloadOption = None,
    as_recorded: Annotated[
        bool,
        typer.Option("--as-recorded", help="Run the recorded project. The definitions in the files are not read."),
    ] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Fence a run that holds the pipeline, without asking.")
    ] = False,
    hand_over: Annotated[
        bool,
        typer.Option(
            "--hand-over",
            help="Prepare everything, then have the service that runs on this host stop at a checkpoint, and go on in its place.",
        ),
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Log what is done, not only what is wrong: stepwell.log.level=info.")
    ] = False,
    log_format: LogFormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep the project's views up to date."""
    keep_freed_memory()
    forgive_standard_output()  # it has the last line of a service, which a full disk may lose
    if view is not None:
        raise typer.BadParameter(
            f"{view}: `run` takes no view; a refresh of one view is not yet possible, only of the whole project"
        )
    if apply + as_recorded + full_refresh > 1:
        raise typer.BadParameter("--apply, --as-recorded and --full-refresh exclude each other")
    if hand_over and (full_refresh or available_now):
        raise typer.BadParameter("--hand-over goes with neither --full-refresh nor --available-now")
    if not apply:
        _refuse_choices(says_how=bool(from_now or append or retract or gradual), says_reload=bool(reload))
    if log_format is not None:
        use_format(log_format)  # also for an error in the project file
    with report_faults(as_json):
        project = project_of(spec, conf, stepwell_log_format=log_format, stepwell_log_level="info" if verbose else None)

        def options() -> RunOptions:
            from coordinator.goal import Goal
            from stepwell.commands.serve import RunOptions

            return RunOptions(
                goal=Goal.READ_AVAILABLE if available_now else Goal.SERVE,
                full_refresh=full_refresh,
                on_change="apply" if apply else "keep" if as_recorded else "refuse",
                chosen=chosen_of(from_now, append, retract, reload, gradual=gradual),
                take_over=take_over,
                hand_over=hand_over,
                workers=workers,
            )

        status = _serve(project, options)
        _show_end(status, as_json=as_json)
        if apply and available_now and stands_still(status):
            raise typer.Exit(int(ExitCode.STATE))


def _serve(project: Project, options: Callable[[], RunOptions]) -> dict[str, Any]:
    """Runs the service until it is stopped, and returns its last status. `options`: what the command says of the run. They are asked for after
    Spark's JVM was started, because their module takes more than a second to import."""
    keep_lines(project.state_folder)
    with start_spark(project, project.state_folder / SPARK_LOG, with_workers=True) as spark:
        from io_kafka.clients.probe import BrokerProbe
        from io_kafka.clients.settings import KafkaSettings

        BrokerProbe(KafkaSettings.parse(project.settings.kafka)).refuse_if_lasting()  # while Spark starts
        from stepwell.commands.serve import serve

        return serve(project, spark, options())


def _show_end(status: Mapping[str, Any], *, as_json: bool) -> None:
    """Says how the run has ended."""
    told = "\n".join([end_text(status), *under_way_lines(status)])
    if is_json() and not as_json:
        note(told)
    else:
        show(status, as_json=as_json, text=escape(told))


def _refuse_choices(*, says_how: bool, says_reload: bool) -> None:
    """Raises BadParameter for an option that says how a change is applied, because this run applies none."""
    if says_how:
        raise typer.BadParameter(
            "--from-now, --append, --retract and --gradual say how a change is applied: give --apply too"
        )
    if says_reload:
        raise typer.BadParameter("--reload goes with --apply; a full refresh loads all tables again")


def end_text(status: Mapping[str, Any]) -> str:
    """The last line of a run. What was left out is said there, because it is an end without an error."""
    if status["phase"] == "starting":  # a signal came before the claim, and nothing is known of the state
        return "stopped before anything was begun"
    text = f"stopped before step {status['checkpoint_step']}, at a checkpoint; {status['rows']:,} rows read in this run"
    skipped = ", ".join(f"{handle}: {count:,}" for handle, count in sorted(status["skipped"].items()) if count)
    late = ", ".join(f"{view}: {count:,}" for view, count in sorted(status["late"].items()) if count)
    text += f"; messages left out, by source: {skipped}" if skipped else ""
    return text + (f"; late rows left out, by view: {late}" if late else "")


def under_way_lines(status: Mapping[str, Any]) -> list[str]:
    """What the end of a run leaves of a transition, and what can be done about it; empty without one."""
    transition = status["transition"]
    if transition is None:
        return []
    if transition["phase"] == "preparing":  # nothing is recorded of it
        return ["the change in the files is not applied: the run was stopped while it was prepared"]
    ways = ways_out(transition)
    goes_on = "The next `stepwell run` goes on with it" + (", and while that runs:" if ways else ".")
    return [f"the transition is not settled: {transition_text(transition)}", goes_on, *ways]


def stands_still(status: Mapping[str, Any]) -> bool:
    """Whether a transition waits for the user, so that what was to be applied is not in force."""
    transition = status["transition"]
    return transition is not None and (transition["phase"] in WAITING or transition["is_paused"])
