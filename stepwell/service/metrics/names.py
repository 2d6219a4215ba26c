"""The values of labels: of views and partitions, so that their number stays bounded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

PARTITIONS_MAX = 1000
"""Beyond so many input partitions there is one series for each topic. Prometheus copes with some ten thousand series of one target, and each
partition has five."""

ALL = "all"
"""The value of the label `partition` if it stands for all partitions of the topic."""

KINDS = ("view", "source", "output")
FORMER = "former"
"""What no revision in force has: state that is not removed yet."""

V = TypeVar("V", bound=float)


def view_labels(name: str) -> tuple[str, str]:
    """(kind, name) of the name for users of a view, source or output, such as `view totals`."""
    kind, _, rest = name.partition(" ")
    if kind in KINDS and rest:
        return kind, rest
    return ("engine", "engine") if name == "the engine" else (FORMER, FORMER)


def add_by_view(found: Mapping[str, V]) -> dict[tuple[str, str], float]:
    """The sums by (kind, name). Everything that belongs to former revisions is one."""
    sums: dict[tuple[str, str], float] = {}
    for name, value in found.items():
        labels = view_labels(name)
        sums[labels] = sums.get(labels, 0) + value
    return sums


def place(text: str) -> tuple[str, str]:
    """(topic, partition) of "topic/partition". The name of a topic has no slash."""
    topic, _, partition = text.rpartition("/")
    return topic, partition


def bound(found: Mapping[tuple[str, str], float], *, is_sum: bool) -> dict[tuple[str, str], float]:
    """By (topic, partition), or by topic alone if there are more than PARTITIONS_MAX: the sums, or the greatest."""
    if len(found) <= PARTITIONS_MAX:
        return dict(found)
    by_topic: dict[tuple[str, str], list[float]] = {}
    for (topic, _), value in found.items():
        by_topic.setdefault((topic, ALL), []).append(value)
    return {where: _join(values, is_sum=is_sum) for where, values in by_topic.items()}


def _join(values: Iterable[float], *, is_sum: bool) -> float:
    return sum(values) if is_sum else max(values)
