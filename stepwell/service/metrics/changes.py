"""Metrics of the layout, of automatic layouts, and of the transition to another revision."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from coordinator.automatic.choice import Changes, Stays
from coordinator.revisions.transition_shown import PHASES
from stepwell.service.metrics.metric import Metric, Samples, Seen, one, states

DECISIONS = (*get_args(Stays), *get_args(Changes))


def _moving(name: str, factor: float = 1.0) -> Callable[[Seen], Samples]:
    """A number of the change of the layout that is under way, 0 without one. What is not known yet, such as bytes that are not counted, is left
    out."""

    def read(seen: Seen) -> float | None:
        change = seen.status["layout"].get("change")
        value = 0.0 if change is None else change[name]
        return None if value is None else factor * value

    return one(read)


def _transition(name: str) -> Callable[[Seen], Samples]:
    """A number of the transition under way, 0 without one."""

    def read(seen: Seen) -> float | None:
        transition = seen.status["transition"]
        value = 0.0 if transition is None else transition[name]
        return None if value is None else float(value)

    return one(read)


def _drained_ratio(seen: Seen) -> float:
    transition = seen.status["transition"]
    return 0.0 if transition is None else float(transition["drained"] or 0)


def _phase(seen: Seen) -> str:
    transition = seen.status["transition"]
    return "none" if transition is None else str(transition["phase"])


def _automatic(name: str) -> Callable[[Seen], Samples]:
    """A number of automatic layouts; nothing while users alone choose the number of workers, or while it is not known."""

    def read(seen: Seen) -> float | None:
        automatic = seen.status["automatic"]
        return None if automatic is None or automatic[name] is None else float(automatic[name])

    return one(read)


def _decision(seen: Seen) -> str:
    automatic = seen.status["automatic"]
    return "off" if automatic is None else str(automatic["decision"])


OF_CHANGES = (
    Metric(
        "stepwell_workers",
        "gauge",
        "Workers of the layout.",
        one(lambda seen: len(seen.status["layout"].get("members", ()))),
    ),
    Metric(
        "stepwell_layout_number",
        "gauge",
        "The number of the layout, which counts its changes.",
        one(lambda seen: seen.status["layout"].get("number")),
    ),
    Metric(
        "stepwell_layout_changing",
        "gauge",
        "1 while the layout changes.",
        one(lambda seen: float(seen.status["layout"].get("change") is not None)),
    ),
    Metric("stepwell_layout_left_slots", "gauge", "Slots that are still to move.", _moving("slots_left")),
    Metric("stepwell_layout_moved_bytes", "gauge", "Bytes that the change has moved.", _moving("bytes_moved")),
    Metric("stepwell_layout_left_bytes", "gauge", "Bytes that are still to move.", _moving("bytes_left")),
    Metric("stepwell_layout_bytes_per_second", "gauge", "The mean rate of the moves.", _moving("bytes_per_s")),
    Metric("stepwell_layout_left_seconds", "gauge", "Expected time to the end of the moves.", _moving("seconds_left")),
    Metric(
        "stepwell_layout_longest_cut_seconds",
        "gauge",
        "The longest time that one cut took.",
        _moving("longest_cut_ms", 1e-3),
    ),
    Metric(
        "stepwell_layout_longest_pause_seconds",
        "gauge",
        "The longest time in which no step could begin because of the change.",
        _moving("longest_pause_ms", 1e-3),
    ),
    Metric(
        "stepwell_auto_on",
        "gauge",
        "1 while Stepwell chooses the number of workers. The others of stepwell_auto are left out while it does not.",
        one(lambda seen: float(seen.status["automatic"] is not None)),
    ),
    Metric("stepwell_auto_workers_min", "gauge", "The fewest workers that it may choose.", _automatic("min")),
    Metric("stepwell_auto_workers_max", "gauge", "The most workers that it may choose.", _automatic("max")),
    Metric("stepwell_auto_workers", "gauge", "The number that the last decision is for.", _automatic("workers")),
    Metric(
        "stepwell_auto_arrived_per_second", "gauge", "Messages that arrive in a second.", _automatic("arrived_per_s")
    ),
    Metric(
        "stepwell_auto_rows_per_second",
        "gauge",
        "Messages that the present workers manage in a second.",
        _automatic("rows_per_s"),
    ),
    Metric("stepwell_auto_lag_messages", "gauge", "The lag that the last decision has seen.", _automatic("lag")),
    Metric("stepwell_auto_busy_ratio", "gauge", "The part of the time in which steps run.", _automatic("busy_share")),
    Metric("stepwell_auto_changes_total", "counter", "Changes that it has asked for.", _automatic("changes")),
    Metric(
        "stepwell_auto_decision",
        "gauge",
        "1 for the last decision on the number of workers.",
        states(DECISIONS, _decision),
        labels=("decision",),
        per=f"decision ({len(DECISIONS)})",
    ),
    Metric("stepwell_revision", "gauge", "The revision that is in force.", one(lambda seen: seen.status["revision"])),
    Metric(
        "stepwell_transition_number",
        "gauge",
        "The revision that a transition leads to; 0 without one, as in all metrics of transitions.",
        _transition("number"),
    ),
    Metric(
        "stepwell_transition_phase",
        "gauge",
        "1 for the phase of the transition. `held` and `detached` wait for a person.",
        lambda seen: [((name,), float(name == _phase(seen))) for name in PHASES],
        labels=("phase",),
        per=f"phase ({len(PHASES)})",
    ),
    Metric("stepwell_transition_filled_ratio", "gauge", "The part of new nodes that is filled.", _transition("filled")),
    Metric(
        "stepwell_transition_left_seconds", "gauge", "Expected time until it is filled.", _transition("seconds_left")
    ),
    Metric(
        "stepwell_transition_drained_ratio", "gauge", "The part of the differences that has left.", one(_drained_ratio)
    ),
    Metric("stepwell_transition_paused", "gauge", "1 while a user has paused the filling.", _transition("is_paused")),
)
