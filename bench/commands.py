"""How long commands take that a user waits for: the first look at a project, a start, a restart, a stop, and queries.

The project is the example `orders`, as `stepwell init` makes it, over ORDERS orders that its generator has sent. So the rows cost nothing, and
what is measured is what starts. A time is that of a whole command, from outside; that of a start ends when the status shows what was waited for.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import ours
from bench.service import Service
from bench.topics import Bench
from bench.workloads import BUILD
from stepwell.project.loading import STATE_FOLDER
from stepwell.service.client import ControlClient

ORDERS = 3_000
ROUNDS = 5
"""Each begins with a project and topics of its own."""

QUERIES = {
    "ORDER BY": "SELECT * FROM best_customers ORDER BY total DESC",
    "GROUP BY": "SELECT country, sum(orders) FROM revenue GROUP BY country ORDER BY 1",
}
"""The first needs no Spark (inspection/plain_query.py). For the second a service starts a process with Spark, which answers the later ones."""


def runs(bench: Bench, *, quick: bool) -> Iterator[tuple[str, Callable[[], list[dict[str, Any]]]]]:
    """Pairs of a name and a function that measures and returns rows of the tables. `quick`: one round."""
    rounds = 1 if quick else ROUNDS

    def all_rounds() -> list[dict[str, Any]]:
        found: dict[str, list[float]] = defaultdict(list)
        for number in range(rounds):
            for what, seconds in _Round(bench, number).measure():
                found[what].append(seconds)
        return [
            {
                "what": "Commands",
                "command": what,
                "seconds": round(statistics.median(seconds), 2),
                "from": round(min(seconds), 2),
                "to": round(max(seconds), 2),
            }
            for what, seconds in found.items()
        ]

    yield "commands", all_rounds


class _Round:
    def __init__(self, bench: Bench, number: int) -> None:
        self._bench = bench
        self._folder = BUILD / "runs" / f"shop{number}"

    def measure(self) -> Iterator[tuple[str, float]]:
        """Pairs of what was done and the seconds that it took. Raises RunFailed."""
        self._command("init", self._folder.name, "--example", "orders", folder=self._folder.parent)
        spec = self._folder / "spark-pipeline.yml"
        for each in (spec, *(self._folder / "transformations").iterdir(), self._folder / "generate.py"):
            text = each.read_text().replace("shop.", f"{self._folder.name}.")
            each.write_text(text.replace("127.0.0.1:9092", self._bench.servers))
        self._send()
        yield "dry-run", self._command("dry-run")
        with self._service() as (seconds, service):
            service.wait(lambda status: status["rows"] >= ORDERS and not any(status["lag"].values()))
            yield "run, to all rows", seconds()
            yield "checkpoint", self._command("checkpoint")
            yield "query with ORDER BY", self._command("query", QUERIES["ORDER BY"])
            for which in ("the first one of a service", "a later one"):
                yield f"query with GROUP BY, {which}", self._command("query", QUERIES["GROUP BY"])
            yield "status", self._command("status")
            yield "stop", self._command("stop")
        for name, sql in QUERIES.items():
            yield f"query with {name}, without a service", self._command("query", sql)
        with self._service() as (seconds, service):
            self._send()
            service.wait(lambda status: status["steps_run"] > 0)
            yield "run again, to the first step", seconds()
            self._command("stop")
        shutil.rmtree(self._folder, ignore_errors=True)

    def _send(self) -> None:
        subprocess.run(
            [sys.executable, "generate.py", "--count", str(ORDERS)],
            cwd=self._folder, env=ours.environment(self._bench), check=True, capture_output=True, timeout=ours.RUN_SECONDS_MAX,
        )  # fmt: skip

    def _command(self, *arguments: str, folder: Path | None = None) -> float:
        began = time.monotonic()
        ours.command(self._bench, folder or self._folder, *arguments)
        return time.monotonic() - began

    @contextmanager
    def _service(self) -> Iterator[tuple[Callable[[], float], Service]]:
        """A service, and the seconds since its command."""
        prepared = ours.Prepared(self._folder.name, self._folder, output="", topic="")
        began = time.monotonic()
        with ours.started(self._bench, prepared, []) as child:
            client = ControlClient(prepared.storage / STATE_FOLDER)
            yield lambda: time.monotonic() - began, Service(client, lambda: child.poll() is None, may_be_idle=True)
