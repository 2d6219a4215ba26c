"""Measures whether the time of a step grows with the keys in the state, the workers, the views and the length of the history. It should not."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench import generate, ours
from bench.generate import Shape
from bench.result import Result
from bench.topics import Bench
from bench.workloads import BUILD, PROJECTS, WORKLOADS, Case

STEP_ROWS = 100_000
KEYS = (100_000, 1_000_000, 10_000_000)
WORKERS = (1, 2, 4)
VIEWS = (1, 2, 4, 8)
HISTORY_ROWS = 24_000_000
AFTER_ROWS = 6_000_000
"""Rows read after all keys are in the state: 60 steps, and at least one checkpoint."""

W2 = WORKLOADS["W2"]


def runs(bench: Bench, rows: int, broker: int) -> Iterator[tuple[str, Callable[[], list[dict[str, Any]]]]]:
    """Pairs of a name and a function that measures and returns rows of the tables. `rows`: rows of the topic bids, which exists."""
    for keys in KEYS[:-1]:
        yield f"{keys:,} keys", partial(_keys, bench, keys, broker)
    yield f"{HISTORY_ROWS:,} rows", partial(_history, bench, broker)
    for workers in WORKERS:
        yield f"{workers} workers", partial(_workers, bench, rows, workers, broker)
    for views in VIEWS:
        yield f"{views} views", partial(_views, bench, rows, views, broker)
    yield f"{KEYS[-1]:,} keys", partial(_keys, bench, KEYS[-1], broker)  # the longest comes last


def _keys(bench: Bench, keys: int, broker: int) -> list[dict[str, Any]]:
    """Sends every key once, and then bids over all keys. Only the bids are measured."""
    topic = f"bids_{keys}"
    shape = Shape(bench.shape.seed, keys)
    bench.make(topic, generate.every_key_then_bids(shape, keys, AFTER_ROWS))
    case = Case(W2, STEP_ROWS, keys + AFTER_ROWS, keys + 5 * STEP_ROWS)
    result, prepared = _run(bench, case, broker, topic)
    changed = ours.messages_of(bench, prepared.name)[-AFTER_ROWS // STEP_ROWS :]
    return [{"what": "Keys in the state", "keys": keys, "changed_a_step": int(np.mean(changed)), **_figures(result)}]


def _workers(bench: Bench, rows: int, workers: int, broker: int) -> list[dict[str, Any]]:
    case = Case(W2, STEP_ROWS, min(rows, 4_000_000), 1_000_000)
    result, _ = _run(bench, case, broker, extra=("--workers", str(workers)))
    return [{"what": "Workers", "workers": workers, **_figures(result)}]


def _views(bench: Bench, rows: int, views: int, broker: int) -> list[dict[str, Any]]:
    """Runs `views` copies of W2, each over other bids, so that none can be shared."""
    folder = BUILD / f"views-{views}"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(PROJECTS / "w2", folder)
    file = folder / "transformations" / "w2.sql"
    source, _, view = file.read_text().partition("CREATE MATERIALIZED VIEW w2")
    copies = [
        ("CREATE MATERIALIZED VIEW w2" + view)
        .replace("VIEW w2", f"VIEW w2_{i}")
        .replace("'topic' = 'w2'", f"'topic' = 'w2-{i}'")
        .replace("FROM bids", f"FROM bids WHERE bidder % {views} = {i}")
        for i in range(views)
    ]
    file.write_text(source + "\n".join(copies))
    case = Case(W2, STEP_ROWS, min(rows, 3_000_000), 1_000_000)
    result, _ = _run(bench, case, broker, source=folder)
    return [{"what": "Views", "views": views, **_figures(result)}]


def _history(bench: Bench, broker: int) -> list[dict[str, Any]]:
    """Compares the quarters of one long run, and the state at its end."""
    topic = "bids_history"
    bench.make(topic, (generate.as_json(rows) for rows in generate.bids(bench.shape, 0, HISTORY_ROWS)))
    case = Case(W2, STEP_ROWS, HISTORY_ROWS, 5 * STEP_ROWS)
    result, prepared = _run(bench, case, broker, topic)
    steps = ours.steps_of(bench, prepared.name, topic)
    ms = 1e3 * np.diff([step.end for step in steps])
    rows = []
    for quarter, part in enumerate(np.array_split(ms, 4), 1):
        p50, p99 = (round(float(np.percentile(part, q)), 1) for q in (50, 99))
        end = quarter * len(steps) // 4
        sizes = [sizes for step, *sizes in result.checkpoints if step <= end]
        disk, live = sizes[-1] if sizes else (None, None)
        rows.append(
            {
                "what": f"History of {HISTORY_ROWS:,} rows",
                "quarter": quarter,
                "step_ms_p50": p50,
                "step_ms_p99": p99,
                "state_mb": disk,
                "live_mb": live,
            }
        )
    return rows


def _run(
    bench: Bench,
    case: Case,
    broker: int,
    topic: str = "bids",
    *,
    source: Path | None = None,
    extra: tuple[str, ...] = (),
) -> tuple[Result, ours.Prepared]:
    starts = bench.start_offsets(topic, case.rows)
    prepared = ours.prepare(bench, case, starts, source, topic)
    try:
        return ours.run(bench, case, broker, extra, prepared=prepared)
    finally:
        shutil.rmtree(prepared.storage, ignore_errors=True)


def _figures(result: Result) -> dict[str, Any]:
    return {
        "rows_per_s": result.rows_per_s,
        "step_ms_p50": result.step_ms_p50,
        "step_ms_p99": result.step_ms_p99,
        "step_ms_max": result.step_ms_max,
        "rss_mb_max": result.rss_mb_max,
        "state_mb": result.state_mb,
        "live_mb": result.live_mb,
        "others_cores": result.others_cores,
    }
