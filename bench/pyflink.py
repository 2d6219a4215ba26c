"""The peer with the same promise: PyFlink SQL with an exactly-once sink and one checkpoint per second.

It has no steps, so it has no step times, and one run stands for every step size. Its rate is the slope of its committed output, between
the moments at which a first part and nearly all of it was written. The start of a cluster is not counted.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from pathlib import Path

from bench import measure, peers
from bench.ours import RunFailed
from bench.result import Result, fill_cost
from bench.topics import Bench
from bench.workloads import BUILD, DEFAULT, Case
from io_kafka.errors import KafkaFault

ENGINE = "pyflink"
FLINK_VERSION = "2.2.1"
CONNECTOR_VERSION = "5.0.0-2.2"
SCRIPT = Path(__file__).with_name("jobs") / "pyflink_job.py"
OUTPUT_PARTITIONS = 4
SLOPE_FROM, SLOPE_TO = 0.3, 0.95
"""The shares of the output between which the slope is measured."""

_CONNECTOR = [("org.apache.flink", "flink-sql-connector-kafka", CONNECTOR_VERSION)]
_HAS_ITSELF = ("org.slf4j", "com.google.code.findbugs")


def install() -> tuple[Path, list[str]]:
    """(Python, jars). Raises RunFailed if PyFlink is not available."""
    python = peers.environment("pyflink", [f"apache-flink=={FLINK_VERSION}", "setuptools<81"])
    jars = peers.jars("pyflink", _CONNECTOR, _HAS_ITSELF)
    return python, [str(jar) for jar in jars if jar.name.startswith("flink-sql-connector-kafka")]


def job_of(
    bench: Bench, case: Case, starts: dict[int, int], topic: str | None = None, *, live: bool = False
) -> tuple[dict[str, object], Path]:
    name = f"flink-{case.name}-{uuid.uuid4().hex[:6]}"
    bench.topics.ensure(name, OUTPUT_PARTITIONS)
    folder = BUILD / "runs" / name
    return {
        "servers": bench.servers,
        "workload": case.workload.name,
        "topic": topic or case.workload.topic,
        "starting": {str(p): o for p, o in starts.items()},
        "output": name,
        "folder": str(folder),
        "jars": install()[1],
        "live": live,
    }, folder


def run(bench: Bench, case: Case, broker: int) -> tuple[Result, str]:
    """One measured run; returns the result and the output topic. Raises RunFailed."""
    python, _ = install()
    job, folder = job_of(bench, case, bench.start_offsets(case.workload.topic, case.rows))
    output = str(job["output"])
    seen: list[tuple[float, int]] = []

    def look() -> None:
        with contextlib.suppress(KafkaFault):  # the partitions of a new topic may not have a leader yet
            seen.append((time.time(), sum(bench.topics.end_offsets([output]).values())))

    _, watch = peers.run_job(python, SCRIPT, job, folder, broker, looking=look)
    look()
    result = Result(
        ENGINE, case.workload.name, DEFAULT, note="continuous: no steps; rate is the slope of its committed output"
    )
    total = seen[-1][1]
    inside = [(at, count) for at, count in seen if SLOPE_FROM * total <= count <= SLOPE_TO * total]
    if len(inside) < 2 or inside[-1][1] == inside[0][1]:
        raise RunFailed(f"{total} messages came within one commit: no slope to be had from {case.rows:,} rows")
    share = (inside[-1][1] - inside[0][1]) / total
    result.rows = round(share * case.rows)
    result.rows_per_s = round(result.rows / (inside[-1][0] - inside[0][0]))
    fill_cost(result, inside[0][0], inside[-1][0], watch.usage)
    result.state_mb = round(measure.folder_bytes(folder / "checkpoint") / (1 << 20), 1)
    return result, output
