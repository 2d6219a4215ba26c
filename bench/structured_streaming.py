"""The peer that our users have: Structured Streaming, with its faster state store (HDFS-backed) and as many partitions as there are cores.

It runs the newest Spark of which Maven Central had a Kafka connector when it was measured. It writes to Kafka at least once.
It does not run W4, because it refuses a maximum under retractions.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import numpy as np

from bench import measure, peers
from bench.result import Result, Step, fill
from bench.topics import Bench
from bench.workloads import BUILD, DEFAULT, Case

ENGINE = "structured_streaming"
SPARK_VERSION = "4.2.0"
REAL_TIME = "real_time_mode"
REAL_TIME_WORKLOADS = ("W1",)
"""This version's Real-Time Mode runs queries without state alone."""
REAL_TIME_NOTE = "its results are at least once, and its offsets are stored every 5 minutes"
WORKLOADS = ("W1", "W2", "W3")
SCRIPT = Path(__file__).with_name("jobs") / "structured_streaming_job.py"
DEFAULT_STEP_ROWS = 500_000
"""Its own default reads the whole backlog as one batch. Half a million rows gave its best rate here, and enough batches for a p50."""

OUTPUT_PARTITIONS = 4
"""Partitions of the output topics, as many as Stepwell makes."""

_CONNECTOR = [("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK_VERSION)]
_HAS_ITSELF = ("org.scala-lang", "org.apache.hadoop", "org.slf4j", "com.google.code.findbugs")

NOTES = {"W3": "auctions read once, before the start: it would not follow a change of them"}


def install() -> tuple[Path, list[str]]:
    """(Python, jars)."""
    python = peers.environment("structured-streaming", [f"pyspark=={SPARK_VERSION}"])
    return python, [str(jar) for jar in peers.jars("structured-streaming", _CONNECTOR, _HAS_ITSELF)]


def job_of(
    bench: Bench,
    case: Case,
    starts: dict[int, int],
    topic: str | None = None,
    *,
    live: bool = False,
    real_time: bool = False,
) -> tuple[dict[str, object], Path]:
    name = f"ss-{case.name}-{uuid.uuid4().hex[:6]}"
    bench.topics.ensure(name, OUTPUT_PARTITIONS)
    folder = BUILD / "runs" / name
    step_rows = DEFAULT_STEP_ROWS if case.step_rows == DEFAULT else case.step_rows
    return {
        "servers": bench.servers,
        "workload": case.workload.name,
        "topic": topic or case.workload.topic,
        "starting": {topic or case.workload.topic: {str(p): o for p, o in starts.items()}},
        "output": name,
        "step_rows": 0 if live else step_rows,
        "folder": str(folder),
        "jars": install()[1],
        "live": live,
        "real_time": real_time,
    }, folder


def run(bench: Bench, case: Case, broker: int) -> tuple[Result, str]:
    """One measured run; returns the result and the output topic. Raises RunFailed."""
    python, _ = install()
    job, folder = job_of(bench, case, bench.start_offsets(case.workload.topic, case.rows))
    said, watch = peers.run_job(python, SCRIPT, job, folder, broker)
    result = Result(ENGINE, case.workload.name, case.step_rows, note=NOTES.get(case.workload.name, ""))
    batches = said["batches"]
    steps = [Step(batch["end"], batch["rows"], batch["ms"]) for batch in batches]
    fill(result, steps, case.warm_rows, watch.usage)
    measured = batches[len(steps) - (result.steps or 0) :]
    result.parts = {
        part: round(float(np.mean([b["parts"].get(part, 0) for b in measured])), 1) for part in measured[0]["parts"]
    }
    result.state_mb = round(measure.folder_bytes(folder / "checkpoint") / (1 << 20), 1)
    return result, str(job["output"])
