"""What is measured: the workloads, the step sizes, and the number of rows that each run reads.

Small steps get fewer rows, because an engine that needs 0.4 s per step would take an hour over 8 million rows. The first steps of every run
are left out of the figures, because the JVM still compiles after 400 small steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROJECTS = Path(__file__).with_name("projects")
BUILD = Path(__file__).resolve().parent.parent / "build" / "bench"

DEFAULT = "default"
"""Instead of a number of rows: the engine divides a backlog with its own settings."""

StepRows = int | str


@dataclass(frozen=True)
class Workload:
    """`topic`: the topic that its project subscribes to. `key` is empty if the output mode is append."""

    name: str
    what: str
    topic: str
    key: tuple[str, ...]
    columns: tuple[str, ...]


WORKLOADS = {
    w.name: w
    for w in (
        Workload("W1", "filter and project", "bids", (), ("auction", "bidder", "price_eur", "channel", "date_time")),
        Workload("W2", "count, sum, max per auction", "bids", ("auction",), ("auction", "bids", "total", "top")),
        Workload(
            "W3", "join a changing table, average per category and seller", "bids",
            ("category", "seller"), ("category", "seller", "bids", "mean_price"),
        ),
        Workload("W4", "W2 with a third of its input retracted", "changes", ("auction",), ("auction", "bids", "total", "top")),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One run. `rows`: the number of rows that it reads, which are the last of the topic. `warm_rows`: rows left out of the figures."""

    workload: Workload
    step_rows: StepRows
    rows: int
    warm_rows: int

    @property
    def name(self) -> str:
        """A name that a topic and a folder can have."""
        return f"{self.workload.name.lower()}-{self.step_rows}"


@dataclass(frozen=True)
class Plan:
    """`rows`: the size of the topics. `ours` and `theirs`: (step rows, rows, warm rows). A step of a peer may take ten times as long, so
    small steps of a peer read fewer rows."""

    quick: bool
    workloads: tuple[str, ...]
    rows: int
    ours: tuple[tuple[StepRows, int, int], ...]
    theirs: tuple[tuple[StepRows, int, int], ...]
    latency_seconds: int

    def cases(self, sizes: tuple[tuple[StepRows, int, int], ...], workload: str) -> list[Case]:
        return [Case(WORKLOADS[workload], step, rows, warm) for step, rows, warm in sizes]


M = 1_000_000

QUICK = Plan(
    quick=True,
    workloads=("W1", "W2", "W3"),
    rows=3_000_000,
    ours=((1_000, 420_000, 220_000), (100_000, 3 * M, 900_000)),
    theirs=((1_000, 36_000, 12_000), (100_000, 2 * M, 600_000)),
    latency_seconds=0,
)
FULL = Plan(
    quick=False,
    workloads=("W1", "W2", "W3", "W4"),
    rows=8_040_000,
    ours=((1_000, 1_560_000, 1_000_000), (10_000, 4_080_000, 2 * M), (100_000, 8_040_000, 2 * M), (DEFAULT, 8_040_000, 2 * M)),
    theirs=((1_000, 120_000, 40_000), (10_000, 1_200_000, 400_000), (100_000, 6 * M, 2 * M), (DEFAULT, 8_040_000, 2 * M)),
    latency_seconds=30,
)  # fmt: skip

LATENCY_ROWS_PER_S = 20_000
