"""The metrics of a service in Prometheus's text format.

Nothing is collected before somebody asks: a look reads the status and copies what was measured.
"""

from __future__ import annotations

import os
import platform
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import metadata

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from coordinator.measures import Histogram
from coordinator.status import StatusBoard
from stepwell.service.metrics.metric import Metric, Seen
from stepwell.service.metrics.processes import Processes
from stepwell.service.metrics.table import METRICS

INFINITY = "+Inf"


@cache
def releases() -> Mapping[str, str]:
    return {
        "version": metadata.version("stepwell"),
        "python": platform.python_version(),
        "spark": metadata.version("pyspark"),
        "kafka": metadata.version("confluent-kafka"),
    }


class Exposition:
    """Shows the metrics of the run whose status is on `board`. Threads may call it beside each other."""

    def __init__(self, board: StatusBoard, processes: Processes | None = None) -> None:
        self._board, self._lock = board, threading.Lock()
        self._processes = Processes(os.getpid(), socket.gethostname()) if processes is None else processes
        self._registry = CollectorRegistry()
        self._registry.register(_ServiceCollector(self.look))

    def look(self) -> Seen:
        status = self._board.show()
        with self._lock:
            uses = self._processes.look(status["workers"])
        return Seen(status, self._board.measures.show(), time.time(), uses, releases())

    def text(self, accept: str = "") -> tuple[bytes, str]:
        """(the metrics, their content type). `accept`: the header of the request, which may ask for OpenMetrics."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


class _ServiceCollector(Collector):
    def __init__(self, look: Callable[[], Seen]) -> None:
        self._look = look

    def describe(self) -> list[Family]:
        """Nothing: a description would have to look."""
        return []

    def collect(self) -> Iterator[Family]:
        seen = self._look()
        for metric in METRICS:
            yield family_of(metric, seen)


def family_of(metric: Metric, seen: Seen) -> Family:
    """The samples of one metric."""
    labels, pipeline = list(metric.all_labels), str(seen.status["pipeline"])
    family = _FAMILIES[metric.kind](metric.name, metric.help, labels=labels)
    for values, value in metric.read(seen):
        all_values = [pipeline, *values]
        assert len(all_values) == len(labels), metric.name
        if isinstance(value, Histogram):
            assert isinstance(family, HistogramMetricFamily), metric.name
            family.add_metric(all_values, _buckets(value), value.sum)
        else:
            assert not isinstance(family, HistogramMetricFamily), metric.name
            family.add_metric(all_values, float(value))
    return family


_FAMILIES: Mapping[str, type[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """The counts up to each bound, as Prometheus wants them."""
    found, total = [], 0
    for bound, count in zip((*map(floatToGoString, histogram.bounds), INFINITY), histogram.counts, strict=True):
        total += count
        found.append((bound, float(total)))
    return found
