"""The commands that talk to a running service: status, pause, resume, stop, checkpoint."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from base.sizes import size_text
from coordinator.shown_status import ENDED_PHASES, WAITING_FOR_KAFKA, next_step_of
from stepwell.commands.common import JsonOption, SetOption, SpecOption, keep_showing, project_of, report_faults, show
from stepwell.commands.layout_text import RescaleBar, automatic_text, shares_text
from stepwell.commands.transition_text import TransitionBar
from stepwell.errors import StepwellError
from stepwell.service.client import ControlClient, NotRunning

WAIT_SECONDS_MAX = 120.0
"""The time for a pause, a stop or a checkpoint, which take at most a step and a fold. If it takes longer, something is wrong."""

NOT_YET = ("starting", "recovering")
"""The phases in which there is nothing new for a checkpoint, because what is replayed is in the step log."""


def status(
    spec: SpecOption = None,
    conf: SetOption = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again every second.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what the service does: steps, rows/s, lag, times, checkpoint, state."""
    with report_faults(as_json):
        client = _client(spec, conf)
        if watch:
            keep_showing(client.status, status_table, as_json=as_json)
        found = client.status()
        show(found, as_json=as_json, text=status_table(found))


def pause(spec: SpecOption = None, conf: SetOption = None, as_json: JsonOption = False) -> None:
    """Pause between two steps."""
    with report_faults(as_json):
        _ask_and_wait(
            _client(spec, conf), "pause", lambda s: s["phase"] == "paused", as_json, "paused before step {step_next}"
        )


def resume(spec: SpecOption = None, conf: SetOption = None, as_json: JsonOption = False) -> None:
    """Go on after a pause."""
    with report_faults(as_json):
        _ask_and_wait(_client(spec, conf), "resume", lambda s: s["phase"] != "paused", as_json, "running")


def stop(spec: SpecOption = None, conf: SetOption = None, as_json: JsonOption = False) -> None:
    """Stop the service at a checkpoint, and wait until its process has ended."""
    with report_faults(as_json):
        client = _client(spec, conf)
        endpoint = client.endpoint()
        client.ask("stop")
        found = client.wait_for_end(endpoint, WAIT_SECONDS_MAX)
        if found is None:
            raise StepwellError(
                f"process {endpoint.pid} was killed before it had stopped",
                "Nothing is lost: the next `stepwell run` replays.",
            )
        if found["error"] is not None:
            raise StepwellError(f"the service ended with an error before it had stopped: {found['error']}")
        show(found, as_json=as_json, text=f"stopped before step {found['checkpoint_step']}, at a checkpoint")


def checkpoint(spec: SpecOption = None, conf: SetOption = None, as_json: JsonOption = False) -> None:
    """Make a checkpoint now."""
    with report_faults(as_json):
        client = _client(spec, conf)
        client.status()  # distinguishes a service that does not run from one that ends in the meantime
        before = _still_there(client.wait(lambda s: s["phase"] not in NOT_YET, WAIT_SECONDS_MAX), client)
        if before["checkpoint_step"] >= next_step_of(before):
            show(before, as_json=as_json, text=f"nothing new since {_checkpoint_text(before)}")
            return
        client.ask("checkpoint")
        after = client.wait(lambda s: bool(s["checkpoint_version"] > before["checkpoint_version"]), WAIT_SECONDS_MAX)
        show(_still_there(after, client), as_json=as_json, text="" if after is None else _checkpoint_text(after))


def _client(spec: Path | None, conf: list[str] | None) -> ControlClient:
    return ControlClient(project_of(spec, conf, may_lack=True).state_folder)


def _ask_and_wait(client: ControlClient, what: str, until: Any, as_json: bool, text: str) -> None:
    client.ask(what)
    found = _still_there(client.wait(until, WAIT_SECONDS_MAX), client)
    show(found, as_json=as_json, text=text.format(step_next=next_step_of(found)))


def _still_there(found: dict[str, Any] | None, client: ControlClient) -> dict[str, Any]:
    if found is None or found["phase"] in ENDED_PHASES:
        last = client.last_run()
        error = f": {last['error']}" if last and last.get("error") else ""
        raise NotRunning(f"the service ended meanwhile{error}", "Start it again with `stepwell run`.")
    return found


def _checkpoint_text(status: dict[str, Any]) -> str:
    if not status["checkpoint_version"]:
        return "no checkpoint yet"
    return f"checkpoint {status['checkpoint_version']}, before step {status['checkpoint_step']}"


def _phase_text(status: dict[str, Any]) -> str:
    since = _if_sent(status, "kafka_away_since")
    if status["phase"] != WAITING_FOR_KAFKA or since is None:
        return str(status["phase"])
    return f"{WAITING_FOR_KAFKA} since {_time_text(since)} UTC: {escape(str(status['kafka_fault']))}"


def _store_text(store: dict[str, Any]) -> str:
    """What the checkpoint store has, and how far it is behind."""
    has = "nothing yet" if store["version"] is None else f"checkpoint {store['version']}, before step {store['step']}"
    behind = f", {store['lag_s']:g} s behind" if store["lag_s"] else ""
    late = ", [red]late[/]" if store["is_late"] else ""
    fault = f": {escape(store['fault'])}" if store["fault"] else ""
    return f"{escape(store['place'])}: {has}{behind}{late}, {size_text(store['uploaded_bytes'])} uploaded{fault}"


def _time_text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _step_text(status: dict[str, Any]) -> str:
    left = f", {status['steps_to_replay']:,} to replay" if _if_sent(status, "steps_to_replay") else ""
    counts = (
        f"{status['steps_run']:,} run, {status['steps_replayed']:,} replayed{left}, {status['recoveries']:,} recoveries"
    )
    return f"{status['step']} ({counts})"


def _if_sent(status: dict[str, Any], field: str) -> Any:
    """Returns a field of the status; None from a service of an earlier release, which does not send it."""
    return status.get(field)


def status_table(status: dict[str, Any]) -> Table:
    """Returns the status as a table for users."""
    table = Table(show_header=False, box=None, padding=(0, 2))
    for name, value in {**_usual_rows(status), **_rows_if_any(status)}.items():
        table.add_row(f"[bold]{name}[/]", value)
    return table


def _usual_rows(status: dict[str, Any]) -> dict[str, RenderableType]:
    """Returns the rows that every status has, by name."""
    times = status["last_step"]
    return {
        "pipeline": f"{status['pipeline']} (epoch {status['epoch']}, revision {status['revision']}, {_phase_text(status)})",
        "step": _step_text(status),
        "workers": ", ".join(f"{worker['pid']} on {worker['host']}" for worker in status["workers"]) or "-",
        "layout": shares_text(status["layout"].get("members", {})),
        "rows": f"{status['rows']:,} ({status['rows_per_s']:,.0f} rows/s)",
        "lag": (", ".join(f"{place} {count:,}" for place, count in status["lag"].items()) or "-")
        + " (stale)" * bool(_if_sent(status, "lag_is_stale")),
        "last step, ms": ", ".join(f"{part} {value:g}" for part, value in times.items()),
        "checkpoint": _checkpoint_text(status)
        + f", took {status['checkpoint_ms']:g} ms" * bool(status["checkpoint_ms"])
        + (f", {status['checkpoint_age_s']:g} s behind" if status["checkpoint_age_s"] else ""),
        "state": ", ".join(f"{owner} {size_text(size)}" for owner, size in sorted(status["state_bytes"].items()))
        or "-",
        "on disk": ", ".join(f"{layer} {size_text(size)}" for layer, size in sorted(status["disk_bytes"].items()))
        or "-",
        "skipped": ", ".join(f"{source} {count:,}" for source, count in status["skipped"].items()) or "none",
    }


def _rows_if_any(status: dict[str, Any]) -> dict[str, RenderableType]:
    """Returns the rows for which the status has something to show, by name."""
    rows: dict[str, RenderableType] = {}
    if blocked := _if_sent(status, "blocked"):
        waiting = ", ".join(f"{place} {count:,}" for place, count in blocked.items())
        rows["blocked"] = f"{waiting}: a producer has not ended its transaction (`stepwell doctor`)"
    if (store := _if_sent(status, "store")) is not None:
        rows["store"] = _store_text(store)
    if status["watermarks"]:
        rows["watermark"] = ", ".join(f"{view} {_time_text(at)}" for view, at in sorted(status["watermarks"].items()))
        rows["late"] = ", ".join(f"{view} {count:,}" for view, count in status["late"].items()) or "none"
        if idle := _if_sent(status, "idle"):
            rows["idle inputs"] = escape(", ".join(idle))
    for view, text in sorted(status["in_error"].items()):
        rows[f"in error: {view}"] = escape(text)
    if (change := status["layout"].get("change")) is not None:
        rows["change"] = RescaleBar(change)
    if (transition := _if_sent(status, "transition")) is not None:
        rows["transition"] = TransitionBar(transition)
    if status["layout_fault"] is not None:
        rows["last change"] = escape(status["layout_fault"])
    if (automatic := _if_sent(status, "automatic")) is not None:
        rows["automatic"] = escape(automatic_text(automatic))
    return rows
