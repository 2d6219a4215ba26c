"""The sections of the page as HTML, from what the service knows at one moment.

Every text of a user, of a file or of a fault is escaped. Rows of the data are never here, but for the example in the text of an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from typing import Any
from urllib.parse import urlencode

from coordinator.measures import MINUTES, Histogram, Minute, lag_seconds
from coordinator.shown_status import READY_PHASES
from stepwell.service.metrics.metric import Seen
from stepwell.service.metrics.state import steps_uncheckpointed
from stepwell.service.page.graph import PipelineGraph, bare_name, kind_of
from stepwell.service.page.rates import Rate
from stepwell.service.page.svg import BoxText, Line, chart_svg, graph_svg
from stepwell.service.page.texts import NONE, bytes_text, facts, number_text, percent_text, seconds_text, table

PARTITIONS_SHOWN_MAX = 50
"""The partitions with the greatest lag. More rows than fit a few screens help nobody."""

IDLE = Rate(0.0, 0.0)


@dataclass(frozen=True)
class Shown:
    """What the page shows of a pipeline. `rates`, `topics`: by the name for users. `graph`: empty before the first step can begin. `kept`: the
    views whose rows can be read."""

    seen: Seen
    rates: Mapping[str, Rate]
    graph: PipelineGraph
    topics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()

    @property
    def status(self) -> Mapping[str, Any]:
        return self.seen.status

    @property
    def lags(self) -> dict[str, float]:
        return lag_seconds(self.status["lag"], self.seen.measured.newest_ms, self.seen.now)


def sections_of(shown: Shown) -> dict[str, str]:
    """The HTML of each section, by its id."""
    return {name: make(shown) for name, (_, make) in SECTIONS.items()}


def _summary(shown: Shown) -> str:
    status, minutes = shown.status, shown.seen.measured.minutes
    steps, latency = _together(minutes, lambda each: each.step_ms), _together(minutes[-5:], lambda each: each.latency)
    lags = shown.lags
    unread = any(messages and where not in lags for where, messages in status["lag"].items())
    late = None if unread else max(lags.values(), default=None)
    phase = escape(str(status["phase"]))
    is_well = status["phase"] in READY_PHASES
    return facts(
        [
            ("does", f'<strong class="{"good" if is_well else "bad"}">{phase}</strong>'),
            ("messages per second", number_text(status["rows_per_s"])),
            ("unread messages", number_text(sum(status["lag"].values()))),
            ("late by", seconds_text(late)),
            ("latency, 5 min p50 / p99", _both(latency, 1.0)),
            ("step, 1 h p50 / p99", _both(steps, 1e-3)),
            ("last checkpoint", _checkpoint_text(status)),
            ("workers", str(len(status["workers"]))),
            ("revision", str(status["revision"])),
            ("run", str(status["epoch"])),
        ]
    )


def _checkpoint_text(status: Mapping[str, Any]) -> str:
    steps = steps_uncheckpointed(status)
    if not steps:
        return "has all steps"
    return f"{seconds_text(status['checkpoint_age_s'])} old, {number_text(steps)} steps since"


def _both(found: Histogram | None, factor: float) -> str:
    if found is None or not found.count:
        return NONE
    return " / ".join(seconds_text(factor * (found.quantile(part) or 0.0)) for part in (0.5, 0.99))


def _together(minutes: Sequence[Minute], of: Callable[[Minute], Histogram]) -> Histogram | None:
    if not minutes:
        return None
    total = of(minutes[0]).copy()
    for minute in minutes[1:]:
        total.add(of(minute))
    return total


def _problems(shown: Shown) -> str:
    status = shown.status
    now = [(_title_of_error(name), text, GUARD) for name, text in status["in_error"].items()]
    now += [("the run has failed", status["error"], "")] if status["error"] else []
    if status.get("kafka_fault"):
        now.append(("Kafka does not answer", status["kafka_fault"], KAFKA_AWAY))
    now += [
        (
            f"messages of {where} wait",
            f"{number_text(count)} of them lie behind an open transaction of a producer.",
            OPEN,
        )
        for where, count in status["blocked"].items()
    ]
    if status["layout_fault"]:
        now.append(("the change of the layout could not begin", status["layout_fault"], ""))
    if status["store"] and status["store"]["fault"]:
        now.append(("the checkpoint store", status["store"]["fault"], "Uploads are tried again by themselves."))
    transition = status["transition"]
    if transition and (transition["error"] or transition["held_because"]):
        text = transition["error"] or transition["held_because"]
        now.append((f"the change to revision {transition['number']} waits", text, WAITS))
    items = "".join(_problem(*each, "now bad") for each in now)
    events = reversed(shown.seen.measured.events)
    items += "".join(
        _problem(f"{_clock(event.at)}, {event.kind}", event.text, event.what_to_do, "past") for event in events
    )
    return (
        f'<ul class="problems">{items}</ul>'
        if items
        else '<p class="good">Nothing is wrong, and nothing was in this run.</p>'
    )


def _title_of_error(name: str) -> str:
    if kind_of(name) == "output":
        return f"output {bare_name(name)} has no message for a row"
    return f"view {bare_name(name)} has no answer"


KAFKA_AWAY = "The service goes on by itself when it does. `stepwell doctor` tries the connection."
GUARD = "Correct or delete the row, or guard against it in the view: CASE, nullif, try_cast."
OPEN = "End the transaction: `stepwell doctor` says how to find its producer."
WAITS = "End it with `stepwell revision switch`, or take it back with `stepwell revision abort`."


def _problem(title: str, text: str, what_to_do: str, style: str) -> str:
    advice = f"<p>{escape(what_to_do)}</p>" if what_to_do else ""
    return f'<li class="{style}"><h3>{escape(title)}</h3><p>{escape(str(text))}</p>{advice}</li>'


def _graph(shown: Shown) -> str:
    if not shown.graph.names:
        return "<p>It is not known yet.</p>"
    graph = shown.graph
    busiest = sum(rate.busy for rate in shown.rates.values()) or 1.0
    texts = {name: _box_text(shown, name, busiest) for name in graph.names}
    label = "the pipeline as a graph; its numbers are in the table of views"
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">{graph_svg(graph, texts)}</div>'


def _box_text(shown: Shown, name: str, busiest: float) -> BoxText:
    rate, size = shown.rates.get(name, IDLE), shown.status["state_bytes"].get(name)
    lines = (
        f"{number_text(rate.rows)} rows/s · {percent_text(rate.busy)} busy",
        *([f"{bytes_text(size)} of state"] if size else []),
    )
    topics = ", ".join(shown.topics.get(name, ()))
    title = f"{name}{f' (topic {topics})' if topics else ''}: {'; '.join(lines)}"
    is_bad = _is_in_error(shown, name)
    title += "; in error" if is_bad else ""
    return BoxText(
        kind=kind_of(name),
        name=bare_name(name),
        lines=lines,
        share=min(1.0, rate.busy / busiest),
        is_in_error=is_bad,
        link=_row_id(name),
        title=title,
    )


def _is_in_error(shown: Shown, name: str) -> bool:
    """Views are there by their name alone."""
    in_error = shown.status["in_error"]
    return name in in_error or (kind_of(name) == "view" and bare_name(name) in in_error)


def _row_id(name: str) -> str:
    return "row-" + "".join(letter if letter.isalnum() else "-" for letter in name)


def _rows_link(shown: Shown, name: str) -> str:
    bare = bare_name(name)
    if kind_of(name) != "view" or bare not in shown.kept:
        return ""
    return f' <a href="/page/rows?{escape(urlencode({"view": bare}))}" aria-label="rows of {escape(bare)}">rows</a>'


def _views(shown: Shown) -> str:
    sizes, work = shown.status["state_bytes"], shown.seen.measured.work
    names = [*shown.graph.names, *sorted({*work, *sizes} - set(shown.graph.names))]
    errors = shown.seen.measured.error_rows
    rows = [
        (
            f'<span id="{_row_id(name)}" tabindex="-1">{escape(name)}</span>{_rows_link(shown, name)}',
            number_text(shown.rates.get(name, IDLE).rows),
            percent_text(shown.rates.get(name, IDLE).busy),
            number_text(work[name].rows) if name in work else NONE,
            seconds_text(1e-3 * work[name].ms) if name in work else NONE,
            bytes_text(sizes.get(name)),
            number_text(errors.get(name, 0)),
        )
        for name in names
    ]
    bad = [at for at, name in enumerate(names) if _is_in_error(shown, name)]
    heads = ("", "rows/s", "busy", "rows of changes", "time", "state", "error rows")
    return table("sources, views and outputs: in a second, and in this run", heads, rows, marked=bad)


def _steps(shown: Shown) -> str:
    first = int(shown.seen.now // 60) - MINUTES + 1
    by_minute = {minute.at: minute for minute in shown.seen.measured.minutes}
    minutes = [by_minute.get(at) for at in range(first, first + MINUTES)]
    steps = [
        Line(
            f"p{round(100 * part)}", style, [None if each is None else each.step_ms.quantile(part) for each in minutes]
        )
        for part, style in ((0.5, "first"), (0.99, "second"))
    ]
    rows = [Line("messages", "first", [None if each is None else each.rows / 60 for each in minutes])]
    parts = shown.seen.measured.parts
    last = shown.status["last_step"]
    table_of_parts = table(
        "parts of a step",
        ("", "last", "mean of this run", "all of this run"),
        [
            (
                escape(part),
                seconds_text(1e-3 * last.get(part, 0.0)),
                seconds_text(found.sum / found.count if found.count else None),
                seconds_text(found.sum),
            )
            for part, found in parts.items()
        ],
    )
    charts = chart_svg("time of a step in the last hour", steps, "ms")
    return charts + chart_svg("messages in the last hour", rows, "per second") + table_of_parts


def _lag(shown: Shown) -> str:
    lag, seconds = shown.status["lag"], shown.lags
    worst = sorted(lag, key=lambda where: (-lag[where], where))[:PARTITIONS_SHOWN_MAX]
    read = {f"{topic}/{partition}": count for (topic, partition), count in shown.seen.measured.read_messages.items()}
    rows = [
        (escape(where), number_text(lag[where]), seconds_text(seconds.get(where)), number_text(read.get(where, 0)))
        for where in worst
    ]
    more = "" if len(lag) <= len(worst) else f"<p>{len(lag) - len(worst)} partitions with less lag are left out.</p>"
    return table("input by partition", ("", "unread", "late by", "read in this run"), rows) + more


def _state(shown: Shown) -> str:
    status, found = shown.status, shown.seen.measured.checkpoint
    mean = found.sum / found.count if found.count else None
    rows = [
        ("last checkpoint", f"version {status['checkpoint_version']}, before step {status['checkpoint_step']}"),
        ("steps that are in none", number_text(steps_uncheckpointed(status))),
        ("time of the last / mean", f"{seconds_text(1e-3 * status['checkpoint_ms'])} / {seconds_text(mean)}"),
        ("last step", number_text(status["step"])),
        *([("steps to replay", number_text(status["steps_to_replay"]))] if status["steps_to_replay"] else []),
        ("recoveries", number_text(sum(shown.seen.measured.recoveries.values()))),
        ("last start or recovery", seconds_text(1e-3 * status["recovery_ms"])),
    ]
    if (store := status["store"]) is not None:
        at = "nothing stored yet" if store["step"] is None else f"before step {store['step']}"
        rows.append(("checkpoint store", f"{at}, {seconds_text(store['lag_s'])} behind"))
    return facts(rows)


def _workers(shown: Shown) -> str:
    members, memory = shown.status["layout"].get("members", {}), {use.worker: use for use in shown.seen.uses}
    rows = [
        (
            escape(str(worker["worker"])),
            escape(str(worker["host"])),
            escape(str(worker["pid"])),
            number_text(members.get(str(worker["worker"]), {}).get("slots")),
            bytes_text(shown.status["worker_bytes"].get(str(worker["worker"]))),
            bytes_text(memory[str(worker["worker"])].memory_bytes if str(worker["worker"]) in memory else None),
            bytes_text(worker["free_bytes"]),
        )
        for worker in shown.status["workers"]
    ]
    heads = ("", "host", "process", "slots", "state", "memory", "free disk")
    change = shown.status["layout"].get("change")
    under_way = "" if change is None else f"<h3>A change of the layout is under way</h3>{facts(_plain(change))}"
    return under_way + table("workers", heads, rows)


def _change(shown: Shown) -> str:
    status, found = shown.status, ""
    if (transition := status["transition"]) is not None:
        left = transition["seconds_left"]
        found = f"<h3>To revision {transition['number']}: {escape(transition['phase'])}</h3>" + facts(
            [
                (
                    "filled",
                    f'<progress max="1" value="{transition["filled"]:.3f}"></progress> {transition["filled"]:.0%}',
                ),
                ("time left", seconds_text(left)),
                ("paused", "yes" if transition["is_paused"] else "no"),
                *((name, escape(", ".join(views)) or NONE) for name, views in transition["views"].items()),
            ]
        )
    if (last := status["transition_last"]) is not None:
        found += f"<h3>The last change</h3>{facts(_plain(last))}"
    return found or f"<p>Revision {status['revision']} is in force. No change is under way.</p>"


def _plain(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What has no picture of its own: texts and numbers."""
    named = ((name.replace("_", " "), value) for name, value in found.items())
    return [
        (
            name,
            number_text(value)
            if isinstance(value, int | float) and not isinstance(value, bool)
            else escape(str(value)),
        )
        for name, value in named
        if isinstance(value, str | int | float) and value != ""
    ]


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S UTC")


SECTIONS: Mapping[str, tuple[str, Callable[[Shown], str]]] = {
    "summary": ("Now", _summary),
    "problems": ("What is wrong", _problems),
    "graph": ("Pipeline", _graph),
    "views": ("Views", _views),
    "steps": ("Steps", _steps),
    "lag": ("Input", _lag),
    "state": ("Checkpoints", _state),
    "workers": ("Workers", _workers),
    "change": ("Changes of the project", _change),
}
"""The titles of the sections, and what makes them, in the order of the page."""
