"""Metrics of the service, its state, its checkpoints, and what they are kept on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args

from coordinator.measures import RECOVERY_REASONS
from coordinator.shown_status import ServicePhase, next_step_of
from stepwell.service.metrics.metric import Metric, Samples, Seen, each, one, states
from stepwell.service.metrics.names import add_by_view
from stepwell.service.metrics.steps import PER_VIEW, VIEW

PHASES: tuple[str, ...] = get_args(ServicePhase)

WORKER = ("worker",)
PER_WORKER = "worker"
PROCESS = ("role", "worker")
PER_PROCESS = "worker, and 2"


def _phase(seen: Seen) -> str:
    return str(seen.status["phase"])


def _uncheckpointed_value(seen: Seen) -> float:
    return steps_uncheckpointed(seen.status)


def steps_uncheckpointed(status: Mapping[str, Any]) -> int:
    """How many steps of this run are in no checkpoint."""
    return max(0, next_step_of(status) - int(status["checkpoint_step"]))


def _kafka_up(seen: Seen) -> float:
    return float(seen.status["kafka_up"])


def _store(name: str, of: Callable[[Any], float] = float) -> Callable[[Seen], Samples]:
    """A number of the checkpoint store; nothing without one."""

    def read(seen: Seen) -> float | None:
        store = seen.status["store"]
        return None if store is None else of(store[name])

    return one(read)


OF_STATE = (
    Metric(
        "stepwell_build_info",
        "gauge",
        "1, with the releases of Stepwell and of what it runs on.",
        lambda seen: [(tuple(seen.releases.get(name, "") for name in ("version", "python", "spark", "kafka")), 1.0)],
        labels=("version", "python", "spark", "kafka"),
    ),
    Metric(
        "stepwell_phase",
        "gauge",
        "1 for what the service does now.",
        states(PHASES, _phase),
        labels=("phase",),
        per=f"phase ({len(PHASES)})",
    ),
    Metric(
        "stepwell_epoch", "gauge", "The number of this run of the pipeline.", one(lambda seen: seen.status["epoch"])
    ),
    Metric(
        "stepwell_kafka_up",
        "gauge",
        "1 while Kafka answers, and 0 while the service waits for it.",
        one(_kafka_up),
    ),
    Metric(
        "stepwell_recoveries_total",
        "counter",
        "How often the run has gone back to its last checkpoint, by the reason: `worker_lost`, `divided_again` (a step got another input, "
        "because a row of it gave an error), `state_damaged`, `transition_failed`.",
        each(lambda seen: dict.fromkeys(RECOVERY_REASONS, 0) | seen.measured.recoveries),
        labels=("reason",),
        per="reason (4)",
    ),
    Metric(
        "stepwell_last_recovery_duration_seconds",
        "gauge",
        "How long the last start or recovery took, until the first step could begin.",
        one(lambda seen: 1e-3 * seen.status["recovery_ms"]),
    ),
    Metric(
        "stepwell_checkpoint_duration_seconds",
        "histogram",
        "Time of a checkpoint. The steps go on during most of it.",
        lambda seen: [((), seen.measured.checkpoint)],
    ),
    Metric(
        "stepwell_checkpoint_step",
        "gauge",
        "The first step that is not in the last checkpoint.",
        one(lambda seen: seen.status["checkpoint_step"]),
    ),
    Metric(
        "stepwell_checkpoint_age_seconds",
        "gauge",
        "The age of the last checkpoint, as `stepwell status` has it. Compare it with stepwell_uncheckpointed_steps.",
        one(lambda seen: seen.status["checkpoint_age_s"]),
    ),
    Metric(
        "stepwell_uncheckpointed_steps",
        "gauge",
        "Steps that are in no checkpoint yet, and would be replayed after a crash.",
        one(_uncheckpointed_value),
    ),
    Metric(
        "stepwell_state_bytes",
        "gauge",
        "Bytes of the live state in the last checkpoint of this run, on all workers.",
        lambda seen: add_by_view(seen.status["state_bytes"]).items(),
        labels=VIEW,
        per=PER_VIEW,
    ),
    Metric(
        "stepwell_worker_state_bytes",
        "gauge",
        "Bytes of the live state of a worker in the last checkpoint.",
        each(lambda seen: seen.status["worker_bytes"]),
        labels=WORKER,
        per=PER_WORKER,
    ),
    Metric(
        "stepwell_database_bytes",
        "gauge",
        "Bytes of the databases of all workers on disk, by their layer.",
        each(lambda seen: seen.status["disk_bytes"]),
        labels=("layer",),
        per="layer (3)",
    ),
    Metric(
        "stepwell_disk_free_bytes",
        "gauge",
        "Free bytes of the disk that a worker's database is on, as of the last checkpoint.",
        each(lambda seen: {str(worker["worker"]): worker["free_bytes"] for worker in seen.status["workers"]}),
        labels=WORKER,
        per=PER_WORKER,
    ),
    Metric(
        "stepwell_process_memory_bytes",
        "gauge",
        "Physical memory of the service, of its JVM, and of the workers on its host.",
        lambda seen: [((use.role, use.worker), use.memory_bytes) for use in seen.uses],
        labels=PROCESS,
        per=PER_PROCESS,
    ),
    Metric(
        "stepwell_process_cpu_seconds_total",
        "counter",
        "Processor time of the same processes.",
        lambda seen: [((use.role, use.worker), use.cpu_s) for use in seen.uses],
        labels=PROCESS,
        per=PER_PROCESS,
    ),
    Metric(
        "stepwell_store_step",
        "gauge",
        "The next step of the version in the checkpoint store; -1 before the first.",
        _store("step", lambda step: -1.0 if step is None else float(step)),
    ),
    Metric(
        "stepwell_store_lag_seconds",
        "gauge",
        "For how long a complete checkpoint has waited for the store; 0 if none waits.",
        _store("lag_s"),
    ),
    Metric(
        "stepwell_store_late",
        "gauge",
        "1 if that is longer than stepwell.store.lag.max.",
        _store("is_late"),
    ),
    Metric(
        "stepwell_store_fault",
        "gauge",
        "1 if the last upload has failed.",
        _store("fault", lambda text: float(bool(text))),
    ),
    Metric("stepwell_store_uploaded_bytes_total", "counter", "Bytes uploaded by this run.", _store("uploaded_bytes")),
)
