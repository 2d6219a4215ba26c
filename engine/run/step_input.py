"""What the coordinator gives all workers for a step. It is the same on every worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from base.options import OnError, Truncate
from engine.operators.facts import DivisionFacts
from io_kafka.offsets import OffsetRange, TopicPartition
from io_kafka.registry.unknown import UnknownSchemas


@dataclass(frozen=True, kw_only=True)
class StepInput:
    """What differs from step to step: `facts` for the operators, and the rest for those that read.

    `on_error`: the policy by source handle. `grown`: the topics that have more partitions than when the state began. `bytes_max`: the bound on
    the keys and values of all ranges; None if the ranges are final, because the step has output already or was measured. `truncate`: the policy
    for truncations, of the sources for which it is not `fail`. `again`: what is read for the new nodes of a transition alone. `unknown`: the ids
    of schemas that counted as unknown when the step ran first; None if the registry says it. All but `bytes_max` and `unknown` are as the
    division recorded them."""

    facts: DivisionFacts
    ranges: tuple[OffsetRange, ...]
    on_error: Mapping[str, OnError]
    grown: frozenset[str] = frozenset()
    bytes_max: int | None = None
    truncate: Mapping[str, Truncate] = field(default_factory=dict)
    again: tuple[OffsetRange, ...] = ()
    unknown: tuple[UnknownSchemas, ...] | None = None

    @property
    def step(self) -> int:
        return self.facts.number

    def unknown_in(self, source: str, where: TopicPartition) -> frozenset[int] | None:
        """The ids of `unknown` in the messages of a partition that a source reads."""
        if self.unknown is None:
            return None
        mine = [each for each in self.unknown if (each.source, each.topic) == (source, where.topic)]
        return frozenset(number for each in mine if where.partition in each.partitions for number in each.ids)

    def bytes_max_of(self, ranges: Sequence[OffsetRange]) -> int | None:
        """The share of `bytes_max` for these of the step's ranges. Each offset has an equal share, so all ranges together stay within the
        bound."""
        if self.bytes_max is None:
            return None
        offsets = sum(span.length for span in (*self.ranges, *self.again))
        return self.bytes_max * sum(span.length for span in ranges) // max(1, offsets)
