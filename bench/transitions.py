"""Measures changes of the project: how fast new nodes are filled, what the steps notice of it, and how long none can begin.

Each case has a service of its own with two workers, over a topic that holds every key once and then bids over all keys. Without load, a view is
added, and the rate at which it is filled is compared with that of a run which has this view alone. Under load, bids are sent at half of the
rate of such a run while the view is added.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from confluent_kafka import Producer

from bench import generate, measure, ours
from bench.generate import PARTITIONS, Shape
from bench.ours import RunFailed
from bench.result import Step
from bench.service import Service
from bench.topics import Bench, producer_config, send
from bench.workloads import BUILD, WORKLOADS, Case
from stepwell.project.loading import STATE_FOLDER
from stepwell.service.client import ControlClient

ROWS = 10_000_000
STEP_ROWS = 10_000
"""Under load."""

BACKLOG_STEP_ROWS = 100_000
BASE_SECONDS = 60.0
"""Of steps before the change under load. Those during it are compared to those of the second half, which are some hundreds: the longest of a few
steps says little."""

SLICES_PER_S = 20
"""So often the bids of the load are sent."""

FLUSH_SECONDS_MAX = 60.0
"""Of what is left of the load."""

COLUMNS = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP, extra STRING"
KEYED = "'mode' = 'upsert', 'key' = 'auction', "
BASE = "SELECT channel, count(*) AS bids FROM bids GROUP BY channel"
ADDED = "SELECT auction, count(*) AS bids, sum(price) AS total FROM bids GROUP BY auction"
AGAIN = (
    "SELECT auction, bids, total FROM (SELECT auction, count(*) OVER (PARTITION BY auction) AS bids, sum(price) OVER (PARTITION BY auction) "
    "AS total, row_number() OVER (PARTITION BY auction ORDER BY price) AS place FROM bids) WHERE place = 1"
)
"""The same as ADDED in another way."""


@dataclass(frozen=True)
class Project:
    """`views`: (name, key, query)."""

    name: str
    topic: str
    keyed: bool
    views: tuple[tuple[str, str, str], ...]

    @property
    def text(self) -> str:
        source = (
            f"CREATE STREAMING TABLE bids ({COLUMNS}) USING kafka TBLPROPERTIES "
            f"('subscribe' = '{self.topic}', {KEYED if self.keyed else ''}'format' = 'json');"
        )
        views = (
            f"CREATE MATERIALIZED VIEW {name} TBLPROPERTIES ('topic' = '{self.name}-{name}', 'mode' = 'upsert', 'key' = '{key}') AS {query};"
            for name, key, query in self.views
        )
        return "\n".join([source, *views]) + "\n"

    def write(self) -> ours.Prepared:
        folder = BUILD / "runs" / self.name
        (folder / "transformations").mkdir(parents=True, exist_ok=True)
        (folder / "spark-pipeline.yml").write_text(
            f"name: {self.name}\nstorage: storage\nlibraries:\n  - glob:\n      include: transformations/**\n"
            "configuration:\n  stepwell.checkpoint.interval: 10s\n  stepwell.workers: 2\n"
        )
        (folder / "transformations" / "views.sql").write_text(self.text)
        return ours.Prepared(self.name, folder, f"{self.name}-{self.views[-1][0]}", self.topic)


VIEW, OTHER = ("by_channel", "channel", BASE), ("by_auction", "auction", ADDED)


def runs(bench: Bench, broker: int, *, quick: bool) -> Iterator[tuple[str, Callable[[], list[dict[str, Any]]]]]:
    """Pairs of a name and a function that measures and returns rows of the tables. `quick`: with a tenth of the rows."""
    rows = ROWS // 10 if quick else ROWS
    yield "a view over a keyed table", partial(_added, bench, broker, rows, keyed=True)
    yield "a view over messages", partial(_added, bench, broker, rows, keyed=False)
    yield "a view over messages under load", partial(_under_load, bench, broker, rows // 5)
    yield "the same view in another way", partial(_rewritten, bench, rows // 5)


def _topic(bench: Bench, rows: int, more: int = 0) -> str:
    topic = f"transitions_{rows}_{more}"
    bench.make(
        topic, generate.every_key_then_bids(Shape(bench.shape.seed, rows // 10), rows // 10, rows - rows // 10 + more)
    )
    return topic


def _added(bench: Bench, broker: int, rows: int, *, keyed: bool) -> list[dict[str, Any]]:
    topic = f"transitions_keys_{rows}" if keyed else _topic(bench, rows)
    if keyed:
        bench.make(topic, generate.every_key_then_bids(Shape(bench.shape.seed, rows), rows, 0))
    name = "keyed" if keyed else "messages"
    fresh = _fresh_rate(bench, broker, Project(f"fresh-{name}", topic, keyed, (OTHER,)), rows)
    project = Project(f"added-{name}", topic, keyed, (VIEW,))
    with _running(bench, project) as (service, prepared):
        service.wait(lambda status: status["rows"] >= rows)
        service.wait_checkpoints(1, service.wait(lambda status: True)["checkpoint_version"])
        before = _disk(service, prepared)
        ended = _apply(bench, service, Project(project.name, topic, keyed, (VIEW, OTHER)))
        after = _disk(service, prepared)
    what = f"a view over {'a keyed table' if keyed else 'messages'}"
    row = _row(what, rows, ended)
    return [row | {"fresh": round(fresh), "of_fresh": round(row["rate"] / fresh, 2), **_of_disk(before, after)}]


def _rewritten(bench: Bench, rows: int) -> list[dict[str, Any]]:
    topic = _topic(bench, rows)
    project = Project("rewritten", topic, False, (VIEW, OTHER))
    with _running(bench, project) as (service, _):
        service.wait(lambda status: status["rows"] >= rows)
        ended = _apply(bench, service, Project(project.name, topic, False, (VIEW, (*OTHER[:2], AGAIN))))
    return [_row("an aggregate rewritten as windows", rows, ended)]


def _under_load(bench: Bench, broker: int, rows: int) -> list[dict[str, Any]]:
    topic = _topic(bench, rows, more=1)  # a topic of its own, because bids are added to it
    both = Project("load-fresh", topic, False, (VIEW, OTHER))
    rate = _fresh_rate(bench, broker, both, rows, step_rows=STEP_ROWS) / 2
    project = Project("load", topic, False, (VIEW,))
    with _running(bench, project, ["--conf", f"stepwell.step.rows.max={STEP_ROWS}"]) as (service, prepared):
        service.wait(lambda status: status["rows"] >= rows)
        with _load(bench, topic, rate):
            time.sleep(BASE_SECONDS)
            began = time.time()
            ended = _apply(bench, service, Project(project.name, topic, False, (VIEW, OTHER)))
            read = service.wait(lambda status: True)["rows"]
            done = began + ended["filling_s"]
        steps = ours.steps_of(bench, prepared.name, topic)
    base = [step for step in steps if began - BASE_SECONDS / 2 < step.end < began]
    during = [step for step in steps if began <= step.end <= done]
    row = _row("a view over messages, at half load", read, ended)
    return [row | {"what": "Changes of the project under load", "load": round(rate), **_compared(base, during)}]


def _compared(base: Sequence[Step], during: Sequence[Step]) -> dict[str, Any]:
    ms, base_ms = ([1e3 * float(gap) for gap in np.diff([step.end for step in steps])] for steps in (during, base))
    rates = [sum(step.rows for step in steps[1:]) / (steps[-1].end - steps[0].end) for steps in (during, base)]
    p99, base_p99 = (float(np.percentile(each, 99)) for each in (ms, base_ms))
    return {
        "p99": round(p99, 1),
        "base_p99": round(base_p99, 1),
        "p99_ratio": round(p99 / base_p99, 2),
        "max_ratio": round(max(ms) / max(base_ms), 2),
        "rate_ratio": round(rates[0] / rates[1], 2),
    }


def _row(what: str, rows: int, ended: dict[str, Any]) -> dict[str, Any]:
    return {
        "what": "Changes of the project",
        "change": what,
        "rows": rows,
        "filling_s": ended["filling_s"],
        "rate": round(rows / ended["filling_s"]),
        "begin_ms": ended["begin_ms"],
        "pause_ms": ended["pause_ms"],
        "messages": ended["messages"],
    }


def _fresh_rate(bench: Bench, broker: int, project: Project, rows: int, step_rows: int = BACKLOG_STEP_ROWS) -> float:
    prepared = project.write()
    result, _ = ours.run(bench, Case(WORKLOADS["W2"], step_rows, rows, rows // 5), broker, prepared=prepared)
    shutil.rmtree(prepared.storage, ignore_errors=True)
    if result.rows_per_s is None:
        raise RunFailed(f"{project.name} has no rate")
    return float(result.rows_per_s)


@contextmanager
def _running(bench: Bench, project: Project, more: Sequence[str] = ()) -> Iterator[tuple[Service, ours.Prepared]]:
    """A service, while the body of `with` runs."""
    prepared = project.write()
    with ours.started(bench, prepared, ["--workers", "2", *more]) as child:
        client = ControlClient(prepared.storage / STATE_FOLDER)
        yield Service(client, lambda: child.poll() is None, may_be_idle=True), prepared
    shutil.rmtree(prepared.storage, ignore_errors=True)


def _apply(bench: Bench, service: Service, project: Project) -> dict[str, Any]:
    """Runs `stepwell apply`. Returns how the transition has ended, as the service tells it."""
    prepared = project.write()
    ours.command(bench, prepared.folder, "apply", "--yes", "--spec", str(prepared.spec))
    ended: dict[str, Any] = service.wait(lambda status: status["transition_last"] is not None)["transition_last"]
    if ended["outcome"] != "switched":
        raise RunFailed(f"the transition was {ended['outcome']}")
    return ended


@contextmanager
def _load(bench: Bench, topic: str, rate: float) -> Iterator[None]:
    """Bids are sent at a rate while the body of `with` runs."""
    is_over = threading.Event()
    thread = threading.Thread(target=_send, args=(bench, topic, rate, is_over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _send(bench: Bench, topic: str, rate: float, is_over: threading.Event) -> None:
    count = int(rate / SLICES_PER_S) // PARTITIONS * PARTITIONS
    values = generate.as_json(next(iter(generate.bids(bench.shape, 0, count))))
    producer, due = Producer(producer_config(bench.servers)), time.monotonic()
    while not is_over.is_set():
        send(producer, topic, PARTITIONS, None, values)
        producer.poll(0)
        due += 1 / SLICES_PER_S
        time.sleep(max(0.0, due - time.monotonic()))
    producer.flush(FLUSH_SECONDS_MAX)


def _disk(service: Service, prepared: ours.Prepared) -> tuple[int, int]:
    """(bytes of the live state, bytes on disk), as of a new checkpoint."""
    status = service.wait(lambda status: True)
    service.client.ask("checkpoint")
    time.sleep(2.0)
    return sum(status["state_bytes"].values()), measure.folder_bytes(prepared.storage)


def _of_disk(before: tuple[int, int], after: tuple[int, int]) -> dict[str, Any]:
    return {
        "live_mb": f"{before[0] / 1e6:.0f} -> {after[0] / 1e6:.0f}",
        "disk_mb": f"{before[1] / 1e6:.0f} -> {after[1] / 1e6:.0f}",
        "disk_of_live": round(after[1] / max(1, after[0]), 2),
    }
