"""Measures changes of the number of workers: what they move, how long they take, and what the steps notice of them.

A service reads a topic that holds every key once and then bids over all keys, in steps of STEP_ROWS rows. It starts with two workers. When
all keys are in the state, the layout is changed to three workers and back, while the steps go on as fast as they can. The steps before each
change are the base to which those during it are compared. Each pair of changes has a service of its own, so that none is measured on what
another one has left behind.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from base.slots import SLOTS
from bench import generate, measure, ours
from bench.generate import Shape
from bench.result import Step
from bench.service import Service
from bench.topics import Bench
from bench.workloads import BUILD, PROJECTS, WORKLOADS, Case
from stepwell.project.loading import STATE_FOLDER
from stepwell.service.client import ControlClient

W2 = WORKLOADS["W2"]
STEP_ROWS = 100_000
KEYS = 13_000_000
"""Which have about 2 GB of state in the form of W2 with more columns."""

AFTER_ROWS = 65_000_000
"""Bids over all keys. A service must not come to their end before its changes do."""

BASE_STEPS, SETTLING_STEPS = 60, 10
"""Before each change: those that it is compared to, and those before them that are left out, while caches settle. The base takes as long as two
checkpoints or more, because a change has some as well."""

CHECKPOINTS = 4
"""After a start: by then a worker has compacted its file (LOOKS_AT_FOLDS in engine/resident/folds.py)."""

CHANGES = (
    (("live", 3), ("live", 2)),
    (("damion", 3),),
    (("icadd", 3),),
    (("cold", 3), ("cold", 2)),
)
"""For each service: the mode, or the protocol of a live change, and the number of workers."""

PAUSED_CHANGES = (("live", 3), ("live", 2))
"""By the last service, while the steps are paused, so that the state stays as it is and the bytes that have to be moved are known."""

WIDE = (
    "max(price) AS top",
    "max(price) AS top, min(price) AS least, sum(bidder) AS bidders, min(bidder) AS first, max(bidder) AS last, max(date_time) AS at",
)


@dataclass(frozen=True)
class Rescale:
    """A change as the service has told it. `began` and `ended`: seconds since 1970. `before_bytes`, `after_bytes`: the state of all workers in
    the last checkpoint before it, and in that which settled it."""

    mode: str
    workers: int
    began: float
    ended: float
    before_bytes: int
    after_bytes: int
    done: dict[str, Any]

    def row(self, what: str) -> dict[str, Any]:
        moved, floor = (
            self.done["bytes_moved"],
            (self.before_bytes + self.after_bytes) / 2 * self.done["slots_moved"] / SLOTS,
        )
        return {
            "what": what,
            "change": f"{self.mode}, to {self.workers} workers",
            "state_mb": round(self.before_bytes / 1e6),
            "after_mb": round(self.after_bytes / 1e6),
            "moved_mb": round(moved / 1e6),
            "of_floor": round(moved / floor, 3),
            "cuts": self.done["cuts"],
            "messages": self.done.get("messages", 0),
            "seconds": round(self.done["elapsed_s"], 1),
            "moving_mb_per_s": round(moved / 1e6 / max(self.done["seconds"], 1e-3)),
            "longest_cut_ms": self.done["longest_cut_ms"],
            "pause_ms": self.done["longest_pause_ms"],
        }


def runs(bench: Bench, *, quick: bool) -> Iterator[tuple[str, Callable[[], list[dict[str, Any]]]]]:
    """Pairs of a name and a function that measures and returns rows of the tables. `quick`: with a tenth of the state."""
    keys, after_rows = (KEYS // 10, AFTER_ROWS // 2) if quick else (KEYS, AFTER_ROWS)
    for changes in CHANGES:
        name = ", ".join(f"{mode} to {workers}" for mode, workers in changes)
        yield f"{keys:,} keys, {name}", partial(_measured, bench, keys, after_rows, changes)


def _measured(bench: Bench, keys: int, after_rows: int, changes: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    """A row for each change, and for what is measured beside it. Raises RunFailed."""
    topic = f"layouts_{keys}"
    bench.make(topic, generate.every_key_then_bids(Shape(bench.shape.seed, keys), keys, after_rows))
    case = Case(W2, STEP_ROWS, keys + after_rows, 0)
    prepared = ours.prepare(bench, case, bench.start_offsets(topic, case.rows), _wide_project(), topic)
    try:
        rows, others = _of_one_service(bench, case, prepared, keys, changes, is_last=changes is CHANGES[-1])
    finally:
        shutil.rmtree(prepared.storage, ignore_errors=True)
        bench.forget(prepared.output)
    return [*rows, *others]


def _of_one_service(
    bench: Bench, case: Case, prepared: ours.Prepared, keys: int, wanted: Sequence[tuple[str, int]], *, is_last: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(a row for each change, other rows)."""
    others: list[dict[str, Any]] = []
    with ours.started(bench, prepared, ["--workers", "2", *ours.settings(case)]) as child:
        service = _Service(ControlClient(prepared.storage / STATE_FOLDER), lambda: child.poll() is None)
        service.wait(lambda status: status["rows"] > keys)
        changes = [service.change_between_steps(mode, workers) for mode, workers in wanted]
        last = service.wait_steps(1)  # so that each change is followed by a step
        if is_last:
            service.pause()
            others += [
                service.change(mode, workers).row("Changes while the steps are paused")
                for mode, workers in PAUSED_CHANGES
            ]
            service.resume()
            last = service.wait_checkpoints(1, service.wait_steps(1)["checkpoint_version"])
            others.append(_disk("after the last one", last, prepared.storage))
        steps = ours.steps_of(bench, prepared.name, prepared.topic)
    if is_last:
        with ours.started(bench, prepared, ours.settings(case)) as child:
            service = _Service(ControlClient(prepared.storage / STATE_FOLDER), lambda: child.poll() is None)
            last = service.wait_checkpoints(CHECKPOINTS, last["checkpoint_version"])
            service.stop()
        others.append(_disk("after a start and a stop", last, prepared.storage))
    bases = _base(steps, changes)
    return [_row(change, steps, base) for change, base in zip(changes, bases, strict=True)], others


class _Service(Service):
    """One whose layout is changed."""

    def change_between_steps(self, mode: str, workers: int) -> Rescale:
        """Makes a change after some steps without one."""
        self.wait_steps(SETTLING_STEPS + BASE_STEPS)
        return self.change(mode, workers)

    def change(self, mode: str, workers: int) -> Rescale:
        before = self.wait(lambda status: True)
        began = time.time()
        kind = {"mode": "live", "protocol": mode} if mode in ("damion", "icadd") else {"mode": mode}
        number = self.client.ask_layout("change", {"workers": workers, **kind})["change"]["number"]
        after = self.wait(lambda status: status["layout"]["number"] >= number and "change" not in status["layout"])
        done = after["layout"]["last_change"]
        print(f"layouts: {mode}, to {workers} workers: {done['elapsed_s']:.1f} s", flush=True)
        first, last = (sum(status["state_bytes"].values()) for status in (before, after))
        return Rescale(mode, workers, began, time.time(), first, last, done)


def _wide_project() -> Path:
    """W2 with more state for each key."""
    folder = BUILD / "layouts-project"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(PROJECTS / "w2", folder)
    file = folder / "transformations" / "w2.sql"
    narrow = file.read_text()
    assert WIDE[0] in narrow, "the project of W2 is not what it was"
    file.write_text(narrow.replace(*WIDE))
    return folder


def _disk(when: str, status: dict[str, Any], storage: Path) -> dict[str, Any]:
    live_bytes, disk_bytes = sum(status["state_bytes"].values()), measure.folder_bytes(storage)
    return {
        "what": "Disk of the changed state",
        "when": when,
        "live_mb": round(live_bytes / 1e6),
        "disk_mb": round(disk_bytes / 1e6),
        "ratio": round(disk_bytes / live_bytes, 2),
    }


def _base(steps: Sequence[Step], changes: Sequence[Rescale]) -> list[list[float]]:
    """For each change, the milliseconds of the BASE_STEPS steps before it."""
    return [_ms([step for step in steps if step.end < change.began][-BASE_STEPS - 1 :]) for change in changes]


def _ms(steps: Sequence[Step]) -> list[float]:
    """Between the ends of the steps."""
    return [1e3 * float(gap) for gap in np.diff([step.end for step in steps])]


def _row(change: Rescale, steps: Sequence[Step], base: Sequence[float]) -> dict[str, Any]:
    first = next(i for i, step in enumerate(steps) if step.end >= change.began)
    after = next(i for i, step in enumerate(steps) if step.end >= change.ended)
    ms = _ms(steps[first - 1 : after + 1])
    p99, base_p99 = (float(np.percentile(each, 99)) for each in (ms, base))
    return {
        **change.row("Changes"),
        "step_ms_p50": round(float(np.median(ms)), 1),
        "p99": round(p99, 1),
        "max": round(max(ms), 1),
        "base_p50": round(float(np.median(base)), 1),
        "base_p99": round(base_p99, 1),
        "p99_ratio": round(p99 / base_p99, 2),
        "max_ratio": round(max(ms) / max(base), 2),
        "rate_ratio": round(float(np.mean(base)) / float(np.mean(ms)), 2),
    }
