"""Follows a change of the layout until it is settled, and says how it ended; makes one without a service."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import Any

import typer
from rich.live import Live

from base.fault import ExitCode
from base.on_change import OnChange
from coordinator.goal import Goal
from coordinator.rescale.requests import LayoutIsAsAsked
from coordinator.starting.layouts import has_same_target, layout_of, part_of
from engine.model.layout import Policy
from io_kafka.step_log.layout_records import LayoutRecord
from io_kafka.step_log.state import StepLogState
from stepwell.commands.common import err, note
from stepwell.commands.layout_text import RescaleBar
from stepwell.commands.log_lines import SPARK_LOG
from stepwell.errors import StepwellError
from stepwell.project.loading import Project
from stepwell.service.client import ControlClient, LayoutAsAsked, LayoutRefused, NotRunning

LOOK_SECONDS = 0.2
"""Between two looks at the status: fast enough for a line that moves, and no load for the service."""

GOES_ON = "`stepwell layout show` shows how far it is."


class NotAsAsked(StepwellError):
    """The change has ended, but not with the layout that was asked for."""

    exit_code = ExitCode.STATE


def follow(
    client: ControlClient, asked: dict[str, Any], workers: int, wait_s: float | None, *, quiet: bool
) -> dict[str, Any]:
    """Shows the change that the service has just accepted until it is settled, and returns the last status. `asked`: the service's answer.
    Raises NotAsAsked, LayoutRefused, NotRunning, ServiceSilent, and StepwellError at the deadline. Ctrl-C leaves the change running."""
    number = asked["change"]["number"]
    deadline = None if wait_s is None else time.monotonic() + wait_s
    pid = client.endpoint().pid
    # A file gets the end of the change alone, as lines of text.
    live = None if quiet else Live(RescaleBar(asked["change"]), console=err, auto_refresh=False, transient=True)
    try:
        with live or nullcontext():
            while True:
                status = _status(client, pid, number)
                layout = status["layout"]
                if _is_over(layout, number):
                    break
                if live is not None and "change" in layout:
                    live.update(RescaleBar(layout["change"], status["layout_fault"]), refresh=True)
                if deadline is not None and time.monotonic() > deadline:
                    raise StepwellError(f"the change is not settled after {wait_s:g} s. It goes on.", GOES_ON)
                time.sleep(LOOK_SECONDS)
    except KeyboardInterrupt:
        note(f"The change goes on. {GOES_ON}")
        raise
    _judge(status, number, workers)
    return status


def _is_over(layout: dict[str, Any], number: int) -> bool:
    """Whether nothing of the change is left. Workers that leave are there for a moment longer, without slots."""
    if "change" in layout or "number" not in layout:
        return False
    return layout["number"] < number or all(member["slots"] for member in layout["members"].values())


def _status(client: ControlClient, pid: int, number: int) -> dict[str, Any]:
    """The status of the service, or its last one if it has ended after the change."""
    try:
        return client.status_when_it_answers()
    except NotRunning:
        last = client.last_run(pid)
        if last is not None and _is_over(last["layout"], number) and last["layout"]["number"] >= number:
            return last
        error = f": {last['error']}" if last is not None and last.get("error") else "."
        raise NotRunning(
            f"the service has ended before the change was settled{error}",
            "The next `stepwell run` goes on with the change.",
        ) from None


def _judge(status: dict[str, Any], number: int, workers: int) -> None:
    """Raises NotAsAsked or LayoutRefused unless the layout is the one that was asked for."""
    layout = status["layout"]
    has = f"the layout has {len(layout['members'])} workers"
    if layout["number"] < number:
        why = status["layout_fault"] or "the service does not say why."
        raise LayoutRefused(f"the change could not begin: {why}", "Nothing was changed.")
    if layout["outcome"] == "reversed":
        raise NotAsAsked(f"the change was reversed: {has}, as before.")
    if layout["outcome"] == "aborted":
        raise NotAsAsked(
            f"the change was aborted: {has}, and the slots stay where they were then.",
            "`stepwell layout show` shows them.",
        )
    if len(layout["members"]) != workers:
        raise NotAsAsked(f"the change got another target meanwhile: {has}.", "`stepwell layout show` shows them.")


def refuse_without_need(record: LayoutRecord, log: StepLogState, workers: int, policy: Policy | None) -> None:
    """Raises LayoutAsAsked if a change without a service has nothing to do, and LayoutRefused if it cannot begin."""
    if log.refresh is not None:
        raise LayoutRefused(
            "a full refresh is under way; nothing was changed.", "Finish it with `stepwell run --available-now` first."
        )
    layout = layout_of(record)
    if log.rescale is None and has_same_target(
        record, layout.with_policy(policy or layout.policy).with_workers(workers)
    ):
        needless = LayoutIsAsAsked.of(workers)
        raise LayoutAsAsked(needless.message, needless.what_to_do)


def rescale_offline(project: Project, workers: int, policy: Policy | None, *, is_recorded: bool) -> dict[str, Any]:
    """A run that makes the change, reads no new input, and leaves. Returns its last status. Raises NotAsAsked if it was stopped before.
    `is_recorded`: whether the step log has the project, as all but logs of a former format. Then it is the one that runs: the slots that move
    are those of its state, whatever is in the files."""
    from stepwell.commands.spark import start_spark  # PySpark, which the other commands of the layout do not need

    with start_spark(project, project.state_folder / SPARK_LOG, with_workers=True) as spark:
        from stepwell.commands.serve import RunOptions, serve

        if is_recorded:
            note(
                "the workers change with the recorded project: the definitions in the files are not read, and no change of them is applied"
            )
        on_change: OnChange = "keep" if is_recorded else "refuse"
        status = serve(
            project, spark, RunOptions(workers=workers, policy=policy, goal=Goal.RESCALE, on_change=on_change)
        )
    layout = status["layout"]
    if not layout:
        raise typer.Exit(int(ExitCode.INTERRUPTED))
    is_policy = policy is None or layout["policy"] == part_of(policy).kind
    if "change" not in layout and status["layout_fault"] is not None:
        raise NotAsAsked(
            f"the layout has {len(layout['members'])} workers: {status['layout_fault']}",
            "`stepwell layout show` shows them.",
        )
    if "change" in layout or len(layout["members"]) != workers or not is_policy:
        raise NotAsAsked("the run was stopped before the change was settled.", "The next run goes on with it.")
    return status
