"""The numbers of the status in Prometheus's text format."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, get_args

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from coordinator.automatic.choice import Changes, Stays
from coordinator.revisions.view import PHASES
from coordinator.status import StatusBoard

NUMBERS_OF_A_RESCALE = (
    "slots_left",
    "bytes_moved",
    "bytes_left",
    "bytes_per_s",
    "seconds_left",
    "longest_cut_ms",
    "longest_pause_ms",
)
"""What the metrics have of a change under way. `longest_pause_ms`: the longest time in which no step could begin because of it."""


NUMBERS_OF_AUTOMATIC = ("min", "max", "workers", "arrived_per_s", "rows_per_s", "lag", "busy_share", "changes")
"""What the metrics have of automatic layouts. `workers`: the number that the last decision is for. `rows_per_s`: what the present workers
manage."""


def metrics(board: StatusBoard) -> bytes:
    registry = CollectorRegistry()
    shown = board.show()
    plain = (
        "revision",
        "step",
        "steps_run",
        "steps_replayed",
        "rows",
        "rows_per_s",
        "checkpoint_step",
        "checkpoint_age_s",
        "recoveries",
    )
    for name in plain:
        Gauge(f"stepwell_{name}", name.replace("_", " "), registry=registry).set(shown[name])
    up = Gauge("stepwell_kafka_up", "1 while a broker answers, 0 while the pipeline waits for one", registry=registry)
    up.set(shown["kafka_up"])
    labelled = {"lag": "partition", "state_bytes": "owner", "skipped": "source", "late": "view"}
    for name, label in labelled.items():
        gauge = Gauge(f"stepwell_{name}", name.replace("_", " "), [label], registry=registry)
        for key, value in shown[name].items():
            gauge.labels(key).set(value)
    in_error = Gauge("stepwell_in_error", "1 for a view or an output that is in error", ["view"], registry=registry)
    for view in shown["in_error"]:
        in_error.labels(view).set(1)
    lag = Gauge("stepwell_watermark_lag_s", "seconds from the watermark until now", ["view"], registry=registry)
    for view, at in shown["watermarks"].items():
        lag.labels(view).set(time.time() - at)
    for name, number in (layout_numbers(shown["layout"]) | transition_numbers(shown["transition"])).items():
        Gauge(f"stepwell_{name}", name.replace("_", " "), registry=registry).set(number)
    for name, number in store_numbers(shown["store"]).items():
        Gauge(f"stepwell_{name}", name.replace("_", " "), registry=registry).set(number)
    for name, number in automatic_numbers(shown["automatic"]).items():
        Gauge(f"stepwell_{name}", name.replace("_", " "), registry=registry).set(number)
    decision = Gauge(
        "stepwell_auto_decision", "1 for the last decision on the number of workers", ["decision"], registry=registry
    )
    for name in (*get_args(Stays), *get_args(Changes)):
        is_last = shown["automatic"] is not None and shown["automatic"]["decision"] == name
        decision.labels(name).set(is_last or (name == "off" and shown["automatic"] is None))
    phase = Gauge("stepwell_transition_phase", "1 for the phase of the transition", ["phase"], registry=registry)
    for name in PHASES:
        phase.labels(name).set(shown["transition"] is not None and shown["transition"]["phase"] == name)
    return generate_latest(registry)


def store_numbers(store: Mapping[str, Any] | None) -> dict[str, float]:
    """The gauges of the checkpoint store; none without one. The step is -1 before a version is stored."""
    if store is None:
        return {}
    return {
        "store_step": -1 if store["step"] is None else store["step"],
        "store_lag_s": store["lag_s"],
        "store_is_late": int(store["is_late"]),
        "store_has_fault": int(bool(store["fault"])),
        "store_uploaded_bytes": store["uploaded_bytes"],
    }


def automatic_numbers(automatic: Mapping[str, Any] | None) -> dict[str, float]:
    """The gauges of automatic layouts. `auto_is_on` is 0 and the others are left out while users alone change the number of workers; what is not
    known yet is left out too."""
    if automatic is None:
        return {"auto_is_on": 0}
    numbers = {f"auto_{name}": automatic[name] for name in NUMBERS_OF_AUTOMATIC}
    return {"auto_is_on": 1, **{name: number for name, number in numbers.items() if number is not None}}


def layout_numbers(layout: Mapping[str, Any]) -> dict[str, float]:
    """The gauges of the layout. Without a change its numbers are 0; what is not known yet, such as bytes that are not counted, is left out."""
    change = layout.get("change")
    shown: dict[str, float | None] = {
        "workers": len(layout.get("members", ())),
        "layout_number": layout.get("number"),
        "layout_changing": int(change is not None),
    }
    for name in NUMBERS_OF_A_RESCALE:
        shown[f"layout_{name}"] = 0 if change is None else change[name]
    return {name: number for name, number in shown.items() if number is not None}


def transition_numbers(transition: Mapping[str, Any] | None) -> dict[str, float]:
    """The gauges of the transition under way. Without one they are 0; what is not known yet is left out."""
    shown: dict[str, float | None] = dict.fromkeys(
        (f"transition_{name}" for name in ("number", "filled", "seconds_left", "drained", "is_held", "is_paused")), 0
    )
    if transition is not None:
        shown |= {f"transition_{name}": transition[name] for name in ("number", "filled", "seconds_left")}
        shown["transition_drained"] = transition["drained"] or 0
        shown["transition_is_held"] = int(transition["phase"] == "held")
        shown["transition_is_paused"] = int(transition["is_paused"])
    return {name: number for name, number in shown.items() if number is not None}
