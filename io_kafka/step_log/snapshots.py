"""What a snapshot has of the step log, declared field by field. `FROM_SNAPSHOTS` undoes `IN_SNAPSHOTS`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any

from base.version import VersionId
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.layout_records import Ownership
from io_kafka.step_log.numbered import Numbered
from io_kafka.step_log.records import PartitionOffset, Snapshot, VersionOwnership
from io_kafka.step_log.revision_state import RevisionState
from io_kafka.step_log.value import LogValue


def snapshot_of(log: LogValue) -> Snapshot:
    """All that is known as one record."""
    assert log.claim is not None, "nothing is written before a claim"
    return Snapshot(epoch=log.epoch, **{name: said(log) for name, said in IN_SNAPSHOTS.items()})


def _as_parts(offsets: Mapping[TopicPartition, int]) -> tuple[PartitionOffset, ...]:
    return tuple(
        PartitionOffset(
            topic=topic_partition.topic, partition=topic_partition.partition, offset=offsets[topic_partition]
        )
        for topic_partition in sorted(offsets)
    )


def as_offsets(parts: Iterable[PartitionOffset]) -> dict[TopicPartition, int]:
    """By partition."""
    return {TopicPartition(part.topic, part.partition): part.offset for part in parts}


def _placed_of(log: LogValue, version: VersionId) -> VersionOwnership:
    return VersionOwnership(version=version, placed=log.placed[version])


def _placed_in(record: Snapshot) -> dict[VersionId, Ownership]:
    known = (*record.checkpoints, *([] if record.intent is None else [record.intent]))
    return {each.version: each.placed for each in known}


def _revisions_of(log: LogValue) -> RevisionState:
    """A log that begins with the snapshot replays no step that is committed before it."""
    return log.revisions.forgotten_below(log.steps, log.filled_after(log.steps - 1))


NOT_IN_SNAPSHOTS = {
    "topic": "the reader knows it",
    "offset_next": "it is that of the snapshot's own message",
    "has_ended": "only a run that has not ended writes one",
    "snapshots": "those before it are of no use when the log begins with it",
}
"""The fields of the state that a snapshot does not have, with the reason."""

_AS_THEY_ARE = {each.name for each in fields(LogValue)} & Snapshot.model_fields.keys() - {
    *("firsts", "ends", "topics", "intent", "checkpoints", "tables", "grown", "revisions", "again"),
}

IN_SNAPSHOTS: Mapping[str, Callable[[LogValue], Any]] = {
    **{name: attrgetter(name) for name in _AS_THEY_ARE},
    "steps": lambda log: log.steps,
    "pending": lambda log: log.pending,
    "positions": lambda log: _as_parts(log.next_offsets),
    "firsts": lambda log: _as_parts(log.firsts),
    "ends": lambda log: _as_parts(log.ends),
    "topics": lambda log: tuple(log.topics[name] for name in sorted(log.topics)),
    "change": lambda log: log.rescale,
    "intent": lambda log: None if log.intent is None else _placed_of(log, log.intent),
    "checkpoints": lambda log: tuple(_placed_of(log, version) for version in log.checkpoints),
    "tables": lambda log: tuple(sorted(log.tables.values(), key=lambda table: (table.handle, table.topic.topic))),
    "grown": lambda log: tuple(sorted(log.grown)),
    "revisions": _revisions_of,
    "again": lambda log: _as_parts(log.again),
}
"""How each field of a snapshot follows from the log. A field of both that has one name and is not named here is taken as it is."""

FROM_SNAPSHOTS: Mapping[str, Callable[[Snapshot], Any]] = {
    **{name: attrgetter(name) for name in _AS_THEY_ARE},
    "divisions": lambda record: Numbered(record.steps, record.pending),
    "step_records": lambda record: Numbered(record.steps),
    "next_offsets": lambda record: as_offsets(record.positions),
    "firsts": lambda record: as_offsets(record.firsts or ()),
    "ends": lambda record: as_offsets(record.ends),
    "topics": lambda record: {topic.topic: topic for topic in record.topics},
    "rescale": lambda record: record.change,
    "intent": lambda record: None if record.intent is None else record.intent.version,
    "checkpoints": lambda record: tuple(each.version for each in record.checkpoints),
    "placed": _placed_in,
    "tables": lambda record: {table.topic.topic: table for table in record.tables},
    "grown": lambda record: frozenset(record.grown),
    "revisions": lambda record: record.revisions,
    "again": lambda record: as_offsets(record.again),
}
"""How each field of the state follows from a snapshot."""
