"""The result of one run: the row of bench/results/latest.json, and the further figures in the tables of BENCHMARKS.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.measure import Usage
from bench.workloads import StepRows


@dataclass
class Result:
    """The figures of a run. A figure that an engine does not have is None.

    rss_mb_max    peak of the tree's resident memory; a shared page is counted once (PSS)
    equal         whether the output agrees with the batch answer; None if it was not compared
    parts         mean milliseconds of a step by part
    cpu_parts     cpu_s_per_million by kind of process
    live_mb       size of the keys and values of the last version; state_mb is what they occupy on the disk
    checkpoints   step, MB on disk and MB live of each checkpoint that a look has seen
    """

    engine: str
    workload: str
    rows_per_step: StepRows
    rows_per_s: float | None = None
    step_ms_p50: float | None = None
    step_ms_p99: float | None = None
    latency_ms_p50: float | None = None
    latency_ms_p99: float | None = None
    cpu_s_per_million: float | None = None
    broker_cpu_s_per_million: float | None = None
    rss_mb_max: float | None = None
    state_mb: float | None = None
    equal: bool | None = None
    # Not in latest.json:
    step_ms_max: float | None = None
    live_mb: float | None = None
    log_mb: float | None = None
    steps: int | None = None
    rows: int = 0
    others_cores: float | None = None
    parts: dict[str, float] = field(default_factory=dict)
    cpu_parts: dict[str, float] = field(default_factory=dict)
    checkpoints: list[tuple[int, float, float]] = field(default_factory=list)
    note: str = ""
    failed: str | None = None

    def row(self) -> dict[str, Any]:
        """In the form of latest.json."""
        return {name: getattr(self, name) for name in LATEST}


LATEST = (
    "engine", "workload", "rows_per_step", "rows_per_s", "step_ms_p50", "step_ms_p99", "latency_ms_p50", "latency_ms_p99",
    "cpu_s_per_million", "broker_cpu_s_per_million", "rss_mb_max", "state_mb", "equal",
)  # fmt: skip


@dataclass(frozen=True)
class Step:
    """A step as the engine recorded it. `end`: seconds since 1970. `rows`: the number of bids it read. `ms`: its duration; None if that is
    the time since the end of the step before."""

    end: float
    rows: int
    ms: float | None = None


def fill(result: Result, steps: Sequence[Step], warm_rows: int, usage: Usage) -> None:
    """Sets the figures of the steps that follow the first `warm_rows` rows."""
    warm, seen = 1, steps[0].rows  # no step precedes the first one, so its duration is not known
    while warm < len(steps) - 2 and seen < warm_rows:
        seen += steps[warm].rows
        warm += 1
    measured = steps[warm:]
    begin, end = steps[warm - 1].end, measured[-1].end
    result.rows, result.steps = sum(s.rows for s in measured), len(measured)
    result.rows_per_s = round(result.rows / (end - begin))
    ends = np.array([s.end for s in steps[warm - 1 :]])
    between = 1e3 * np.diff(ends)
    ms = np.array([between[i] if s.ms is None else s.ms for i, s in enumerate(measured)])
    result.step_ms_p50, result.step_ms_p99 = (round(float(np.percentile(ms, q)), 1) for q in (50, 99))
    result.step_ms_max = round(float(ms.max()), 1)
    fill_cost(result, begin, end, usage)


def fill_cost(result: Result, begin: float, end: float, usage: Usage) -> None:
    """Sets the CPU for `result.rows` rows between two moments, and the peak of memory."""
    tree, broker = usage.between(begin, end)
    result.cpu_s_per_million = round(tree / result.rows * 1e6, 2)
    result.cpu_parts = {k: round(s / result.rows * 1e6, 2) for k, s in usage.kinds_between(begin, end).items()}
    result.broker_cpu_s_per_million = round(broker / result.rows * 1e6, 2)
    result.rss_mb_max = round(usage.pss_mb_max)
    result.others_cores = round(usage.others_cpu_s(begin, end) / (end - begin), 2)
