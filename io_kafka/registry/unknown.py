"""Which ids of schemas count as unknown while the messages of a step are read.

A registry may learn a schema, or lose one, between a step and its replay. The replay has to read and to leave out the same messages as the first
run. So what counted as unknown is recorded with the step, and a replay takes exactly that for unknown, whatever the registry says by then.

What is recorded is by partition, because workers may have asked at different moments. One worker reads a partition, and it remembers what it
was answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NamedTuple


class UnknownSchemas(NamedTuple):
    """In the messages of these partitions of a topic, the schemas of these ids count as unknown. `source`: the handle of the table that reads
    them. Partitions and ids ascend."""

    source: str
    topic: str
    partitions: tuple[int, ...]
    ids: tuple[int, ...]


def join_unknown(found: Iterable[UnknownSchemas]) -> tuple[UnknownSchemas, ...]:
    """What was found, in order, and with all partitions together in which the same ids are unknown."""
    partitions: dict[tuple[str, str, tuple[int, ...]], set[int]] = {}
    for each in found:
        partitions.setdefault((each.source, each.topic, each.ids), set()).update(each.partitions)
    return tuple(
        UnknownSchemas(source, topic, tuple(sorted(numbers)), ids)
        for (source, topic, ids), numbers in sorted(partitions.items())
    )


@dataclass(frozen=True)
class Judgement:
    """Which ids of schemas count as unknown in a range of messages. `recorded`: the ids that counted as unknown in the first run; None if this
    is the first run, in which the registry says it. `found`: those that count as unknown now."""

    recorded: frozenset[int] | None
    found: set[int] = field(default_factory=set)


_PRESENT: ContextVar[Judgement | None] = ContextVar("judgement", default=None)


def judgement() -> Judgement:
    """What holds for the messages that are read at present."""
    return _PRESENT.get() or Judgement(None)


@contextmanager
def judge_by(recorded: frozenset[int] | None) -> Iterator[set[int]]:
    """Messages that are read within are judged by what is recorded. Yields the ids that count as unknown in them. `recorded`: see Judgement."""
    present = Judgement(recorded)
    token = _PRESENT.set(present)
    try:
        yield present.found
    finally:
        _PRESENT.reset(token)
