"""What a plan has to know beside the two plan documents: where the pipeline is in its inputs, and how large its state is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from io_kafka.offsets import TopicPartition


@dataclass(frozen=True, kw_only=True)
class PlanFacts:
    """What a plan has to know of topics, of files, of a registry and of the state."""

    first: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The offset at which the pipeline began with each partition. A partition that it has read and that is missing here was begun by a release
    that did not record it."""
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The offsets that the pipeline reads next."""
    begins: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The first offsets of the topics now, also of those of the outputs. A topic that is missing does not exist."""
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The end offsets of the same topics."""
    compacted: frozenset[str] = frozenset()
    """The topics of which Kafka keeps the last message of each key alone."""
    grown: frozenset[str] = frozenset()
    """The topics that have more partitions than when the pipeline began."""
    own: frozenset[str] = frozenset()
    """The step log and the topic of plan documents."""
    used: frozenset[str] = frozenset()
    """The topics that the step log has and that no new output can have: they hold messages, are gone, or were made again."""
    remade: frozenset[str] = frozenset()
    """The topics of the step log that were deleted and made again."""
    loads: Mapping[str, int] = field(default_factory=dict)
    """How many rows each load of a batch table has, by its topic."""
    other_files: frozenset[str] = frozenset()
    """The batch tables whose files are not those that were loaded, by handle."""
    refused_schemas: Mapping[str, str] = field(default_factory=dict)
    """Why a registry refuses the schema of an output, by handle."""
    rows: Mapping[int, int] | None = None
    """The rows of the state, by node number; None if nobody has counted them."""
    bytes: Mapping[int, int] | None = None
    """The bytes of the state, by node number; None if nobody has counted them."""

    def check(self) -> None:
        """Asserts what holds of every pipeline and every topic."""
        assert self.first.keys() <= self.positions.keys(), "a partition was begun and has no position"
        assert all(begin <= self.positions[where] for where, begin in self.first.items())
        assert self.begins.keys() == self.ends.keys()
        assert all(begin <= self.ends[where] for where, begin in self.begins.items())
