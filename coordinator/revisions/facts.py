"""What a plan has to know beside the two plan documents: where the pipeline is in its inputs, and how large its state is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from io_kafka.offsets import TopicPartition


@dataclass(frozen=True, kw_only=True)
class Facts:
    """`first`: the offset at which the pipeline began with each partition. A partition that it has read and that is missing there was begun by
    a release that did not record it. `positions`: the offsets that it reads next. `begins`, `ends`: those of the topics now, also of the
    outputs' ones; a topic that is missing does not exist. `compacted`: the topics of which Kafka keeps the last message of each key alone.
    `grown`: those that have more partitions than when the pipeline began. `own`: the step log and the topic of plan documents. `used`: those
    that the step log has and that no new output can have: they hold messages, are gone, or were made anew. `remade`: the topics of the step
    log that were deleted and made again. `loads`: how many rows each load of a batch table has, by its topic. `other_files`: the batch tables
    whose files are not those that were loaded, by handle. `refused_schemas`: why a registry refuses the schema of an output, by handle.
    `rows`, `bytes`: of the state, by node number; None if nobody has counted them."""

    first: Mapping[TopicPartition, int] = field(default_factory=dict)
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    begins: Mapping[TopicPartition, int] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    compacted: frozenset[str] = frozenset()
    grown: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()
    used: frozenset[str] = frozenset()
    remade: frozenset[str] = frozenset()
    loads: Mapping[str, int] = field(default_factory=dict)
    other_files: frozenset[str] = frozenset()
    refused_schemas: Mapping[str, str] = field(default_factory=dict)
    rows: Mapping[int, int] | None = None
    bytes: Mapping[int, int] | None = None

    def check(self) -> None:
        """Asserts what holds of every pipeline and every topic."""
        assert self.first.keys() <= self.positions.keys(), "a partition was begun and has no position"
        assert all(begin <= self.positions[where] for where, begin in self.first.items())
        assert self.begins.keys() == self.ends.keys()
        assert all(begin <= self.ends[where] for where, begin in self.begins.items())
