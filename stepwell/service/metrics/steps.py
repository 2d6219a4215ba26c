"""Metrics of the input, of the steps, and of what they write."""

from __future__ import annotations

from coordinator.measures import lag_seconds
from stepwell.service.metrics.metric import Metric, Samples, Seen, each, one
from stepwell.service.metrics.names import add_by_view, bound, place

PARTITION = ("topic", "partition")
PER_PARTITION = "input partition"
VIEW = ("kind", "view")
PER_VIEW = "view, source and output"


def _lag(seen: Seen) -> Samples:
    found = {place(where): float(messages) for where, messages in seen.status["lag"].items()}
    return bound(found, is_sum=True).items()


def _blocked_messages(seen: Seen) -> Samples:
    waiting = {place(where): float(seen.status["blocked"].get(where, 0)) for where in seen.status["lag"]}
    return bound(waiting, is_sum=True).items()


def _lag_seconds(seen: Seen) -> Samples:
    found = lag_seconds(seen.status["lag"], seen.measured.newest_ms, seen.now)
    return bound({place(where): seconds for where, seconds in found.items()}, is_sum=False).items()


def _by_partition(found: dict[tuple[str, int], int]) -> Samples:
    texts = {(topic, str(partition)): float(count) for (topic, partition), count in found.items()}
    return bound(texts, is_sum=True).items()


OF_STEPS = (
    Metric(
        "stepwell_lag_messages",
        "gauge",
        "Messages of an input partition that are not read yet, when the broker was asked last.",
        _lag,
        labels=PARTITION,
        per=PER_PARTITION,
    ),
    Metric(
        "stepwell_lag_seconds",
        "gauge",
        "How old the last message is that was read, while others wait behind it; 0 if none waits. By the timestamps of Kafka.",
        _lag_seconds,
        labels=PARTITION,
        per=PER_PARTITION,
    ),
    Metric(
        "stepwell_blocked_messages",
        "gauge",
        "Messages of an input partition that nobody can read, because a producer has not ended its transaction for ten seconds. "
        "The lag does not count them.",
        _blocked_messages,
        labels=PARTITION,
        per=PER_PARTITION,
    ),
    Metric(
        "stepwell_latency_seconds",
        "histogram",
        "Time from the timestamp of a message to the commit of the output that has it: of each step and partition, that of the oldest message.",
        lambda seen: [((topic,), found) for topic, found in seen.measured.latency.items()],
        labels=("topic",),
        per="input topic",
    ),
    Metric(
        "stepwell_read_messages_total",
        "counter",
        "Messages read from Kafka. Those of a step that is replayed count again.",
        lambda seen: _by_partition(seen.measured.read_messages),
        labels=PARTITION,
        per=PER_PARTITION,
    ),
    Metric(
        "stepwell_read_bytes_total",
        "counter",
        "Bytes of the keys, values and headers of these messages.",
        lambda seen: _by_partition(seen.measured.read_bytes),
        labels=PARTITION,
        per=PER_PARTITION,
    ),
    Metric(
        "stepwell_written_messages_total",
        "counter",
        "Messages written to Kafka, also to dead-letter topics.",
        each(lambda seen: seen.measured.written_messages),
        labels=("topic",),
        per="output topic",
    ),
    Metric(
        "stepwell_written_bytes_total",
        "counter",
        "Bytes of the keys and values of these messages, before compression.",
        each(lambda seen: seen.measured.written_bytes),
        labels=("topic",),
        per="output topic",
    ),
    Metric(
        "stepwell_dead_letters_total",
        "counter",
        "Malformed messages that were sent to a dead-letter topic.",
        each(lambda seen: seen.measured.dead_letters),
        labels=("topic",),
        per="dead-letter topic",
    ),
    Metric(
        "stepwell_skipped_messages_total",
        "counter",
        "Messages that were left out: malformed ones, with or without a dead letter, and those that say nothing of the table.",
        each(lambda seen: seen.status["skipped"]),
        labels=("source",),
        per="source",
    ),
    Metric(
        "stepwell_late_rows_total",
        "counter",
        "Rows that a view has left out because they were behind its watermark.",
        lambda seen: [((_bare(view),), rows) for view, rows in seen.status["late"].items()],
        labels=("view",),
        per="view with event time",
    ),
    Metric(
        "stepwell_watermark_lag_seconds",
        "gauge",
        "Time from the watermark of a view until now.",
        lambda seen: [((_bare(view),), seen.now - at) for view, at in seen.status["watermarks"].items()],
        labels=("view",),
        per="view with event time",
    ),
    Metric(
        "stepwell_view_in_error",
        "gauge",
        "1 for a view that has no answer, and for an output without a message for a row. `stepwell status` has an error of each.",
        lambda seen: [(_view(name), 1.0) for name in seen.status["in_error"]],
        labels=VIEW,
        per="view and output in error",
    ),
    Metric(
        "stepwell_error_rows",
        "gauge",
        "Rows that give an error now, and are left out.",
        lambda seen: add_by_view(seen.measured.error_rows).items(),
        labels=VIEW,
        per="view, source and output with error rows",
    ),
    Metric(
        "stepwell_last_step",
        "gauge",
        "The number of the last step.",
        one(lambda seen: seen.status["step"]),
    ),
    Metric(
        "stepwell_steps_to_replay",
        "gauge",
        "Recorded steps that the state does not have yet, after a start or a recovery.",
        one(lambda seen: seen.status["steps_to_replay"]),
    ),
    Metric(
        "stepwell_steps_total",
        "counter",
        "Steps whose output was written (`written`), or compared with what was there (`replayed`).",
        lambda seen: [
            (("written",), seen.status["steps_run"]),
            (("replayed",), seen.status["steps_replayed"]),
        ],
        labels=("kind",),
        per="kind of step (2)",
    ),
    Metric(
        "stepwell_step_duration_seconds",
        "histogram",
        "Time of a step, from its division to its commit.",
        lambda seen: [((), seen.measured.step)],
    ),
    Metric(
        "stepwell_step_part_duration_seconds",
        "histogram",
        "Time of a part of a step. `read`, `compute` and `state` are the slowest worker's, `exchange` is the rest of the workers' time, and "
        "`write` is Kafka's transaction.",
        lambda seen: [((part,), found) for part, found in seen.measured.parts.items()],
        labels=("part",),
        per="part of a step (6)",
    ),
    Metric(
        "stepwell_view_seconds_total",
        "counter",
        "Time that all workers together have spent on a view, on reading the messages of a source into rows, or on the messages of an output.",
        lambda seen: add_by_view({name: 1e-3 * work.ms for name, work in seen.measured.work.items()}).items(),
        labels=VIEW,
        per=PER_VIEW,
    ),
    Metric(
        "stepwell_view_rows_total",
        "counter",
        "Rows of the changes of a view, source or output. An updated row counts twice.",
        lambda seen: add_by_view({name: work.rows for name, work in seen.measured.work.items()}).items(),
        labels=VIEW,
        per=PER_VIEW,
    ),
)


def _bare(name: str) -> str:
    """Without the kind: event time is of views alone."""
    return name.removeprefix("view ")


def _view(name: str) -> tuple[str, str]:
    kind, _, rest = name.partition(" ")
    return (kind, rest) if kind in ("output", "source", "view") and rest else ("view", name)
