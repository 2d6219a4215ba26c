"""What several rules of the step log ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, Protocol

from io_kafka.step_log.form import TopicIdentity


class _Ordered(Protocol):
    def __lt__(self, other: Any, /) -> bool: ...


def is_ascending(values: Iterable[_Ordered]) -> bool:
    """Whether each is greater than the one before, so that nothing is out of order or there twice."""
    return all(left < right for left, right in pairwise(values))


def why_not_topic(topic: TopicIdentity, known: Mapping[str, TopicIdentity]) -> str | None:
    """Why a topic cannot have been found like this; None if it can. A topic that is not known yet can have any identity."""
    before = known.get(topic.topic, topic)
    if before.id != topic.id or before.partitions > topic.partitions:
        return f"topic {topic.topic!r} was {before.id}, now {topic.id}, or has shrunk"
    return None
