"""What a metric is: an entry of the table, with the function that reads its samples.

The names follow Prometheus' conventions: base units (seconds, bytes) at the end of the name, `_total` for counters, no unit in a label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from coordinator.measures import Histogram, Measurements
from stepwell.service.metrics.processes import ProcessUse

Kind = Literal["counter", "gauge", "histogram"]

PIPELINE = "pipeline"
"""The first label of every metric, so that several pipelines can share one dashboard."""


@dataclass(frozen=True)
class Seen:
    """What one look at the service finds. `status`: see Status. `now`: in seconds since 1970. `releases`: of Stepwell and of what it runs on."""

    status: Mapping[str, Any]
    measured: Measurements
    now: float
    uses: tuple[ProcessUse, ...] = ()
    releases: Mapping[str, str] = field(default_factory=dict)


Value = float | Histogram
Samples = Iterable[tuple[tuple[str, ...], Value]]
"""The values of the labels, without the pipeline, and the value."""


@dataclass(frozen=True)
class Metric:
    """A metric: its name, its meaning, and how its values are read. `per`: for what there is a series, for users; empty if there is one.
    `labels`: without the pipeline."""

    name: str
    kind: Kind
    help: str
    read: Callable[[Seen], Samples]
    labels: tuple[str, ...] = ()
    per: str = ""

    @property
    def all_labels(self) -> tuple[str, ...]:
        return (PIPELINE, *self.labels)

    @property
    def series(self) -> tuple[str, ...]:
        """The names that a query can use."""
        if self.kind == "histogram":
            return tuple(self.name + end for end in ("_bucket", "_sum", "_count"))
        return (self.name,)


def one(read: Callable[[Seen], float | None]) -> Callable[[Seen], Samples]:
    """Returns a function that gives the samples of a metric without labels. A value of None is not known, so there is no sample of it."""

    def samples(seen: Seen) -> Samples:
        value = read(seen)
        return [] if value is None else [((), value)]

    return samples


def each(read: Callable[[Seen], Mapping[str, float]]) -> Callable[[Seen], Samples]:
    """Returns a function that gives the samples of a metric with one label."""
    return lambda seen: [((label,), value) for label, value in read(seen).items()]


def states(names: Iterable[str], current: Callable[[Seen], str | None]) -> Callable[[Seen], Samples]:
    """1 for the present one of several states, and 0 for the others."""
    known = tuple(names)

    def samples(seen: Seen) -> Samples:
        now = current(seen)
        every = known if now is None or now in known else (*known, now)
        return [((name,), float(name == now)) for name in every]

    return samples
