"""The latency runs: an engine waits at the end of a topic, and bids are sent to it at a fixed rate."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from bench import latency, ours, peers, pyflink, structured_streaming
from bench.generate import PARTITIONS
from bench.ours import RunFailed
from bench.result import Result
from bench.topics import Bench, producer_config, send
from bench.workloads import DEFAULT, WORKLOADS, Case
from io_kafka.errors import KafkaFault

Latency = tuple[float, float, float]

READY_SECONDS_MAX = 180
"""How long an engine may take for its first result."""

LOST_SHARE_MAX = 0.001
"""The share of measured bids without a result in time. Above it the engine does not keep up, and its p99 would mean nothing."""

CASES = {name: Case(WORKLOADS[name], DEFAULT, 0, 0) for name in latency.TRACED}
"""By workload: those of which the latency is measured."""


def fill(result: Result, measured: Latency) -> None:
    p50, p99, lost = measured
    if lost > LOST_SHARE_MAX:
        result.note = "; ".join(
            filter(None, [result.note, f"did not keep up with 20,000 rows/s: {lost:.0%} without a result"])
        )
        return
    result.latency_ms_p50, result.latency_ms_p99 = round(p50, 1), round(p99, 1)


def ours_latency(bench: Bench, workload: str, seconds: int) -> Latency:
    prepared = ours.prepare(bench, CASES[workload], _starts(bench), topic=latency.TOPIC)
    with ours.started(bench, prepared, []) as child:
        ready = _ready(bench, prepared.output, lambda: child.poll())
        return latency.measure(bench, workload, prepared.output, seconds, ready)


def structured_streaming_latency(bench: Bench, workload: str, seconds: int, *, real_time: bool = False) -> Latency:
    job, folder = structured_streaming.job_of(
        bench, CASES[workload], _starts(bench), topic=latency.TOPIC, live=True, real_time=real_time
    )
    return _of_job(
        bench, workload, (structured_streaming.install()[0], structured_streaming.SCRIPT), job, folder, seconds=seconds
    )


def real_time_mode(bench: Bench, workload: str, seconds: int) -> Result:
    """Structured Streaming in Real-Time Mode, of which the latency alone is measured: a backlog is not what it is for."""
    result = Result(structured_streaming.REAL_TIME, workload, DEFAULT, note=structured_streaming.REAL_TIME_NOTE)
    fill(result, structured_streaming_latency(bench, workload, seconds, real_time=True))
    return result


def pyflink_latency(bench: Bench, workload: str, seconds: int) -> Latency:
    job, folder = pyflink.job_of(bench, CASES[workload], _starts(bench), topic=latency.TOPIC, live=True)
    return _of_job(bench, workload, (pyflink.install()[0], pyflink.SCRIPT), job, folder, seconds=seconds)


def _of_job(
    bench: Bench, workload: str, program: tuple[Path, Path], job: dict[str, Any], folder: Path, *, seconds: int
) -> Latency:
    output = str(job["output"])
    with peers.started(*program, job, folder) as child:
        return latency.measure(bench, workload, output, seconds, _ready(bench, output, lambda: child.poll()))


def _starts(bench: Bench) -> dict[int, int]:
    bench.topics.ensure(latency.TOPIC, PARTITIONS)
    return bench.start_offsets(latency.TOPIC, 0)


def _ready(bench: Bench, output: str, ended: Callable[[], int | None]) -> Callable[[], None]:
    """Sends one bid for an auction that no other bid has, and waits for any output."""

    def wait() -> None:
        producer = Producer(producer_config(bench.servers))
        send(producer, latency.TOPIC, PARTITIONS, None, latency.first_bid())
        producer.flush(READY_SECONDS_MAX)
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not _has_output(bench, output):
            if ended() is not None or time.monotonic() > deadline:
                raise RunFailed(f"no first result within {READY_SECONDS_MAX} s, or the engine ended ({ended()})")
            time.sleep(0.2)

    return wait


def _has_output(bench: Bench, output: str) -> bool:
    try:
        return sum(bench.topics.end_offsets([output]).values()) > 0
    except KafkaFault:  # the topic does not exist yet, or has no leader
        return False
