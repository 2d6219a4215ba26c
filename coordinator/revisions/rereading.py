"""Which sources can be read again from where the pipeline began, why the others cannot, and how many messages that is.

A source can be read again if all messages are there that the pipeline has counted. So no partition may begin above the offset
at which the pipeline began with it, and no topic may be compacted. A keyed source may be compacted, because only the last
message of each key counts. If its topic has got more partitions since, a key may have messages in several of them, and nothing says which was
the last. A source that the pipeline has not read yet is read like any new one, from its `startingOffsets`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from coordinator.revisions.document import PlanDocument
from coordinator.revisions.facts import Facts
from coordinator.specification import InputTopic
from io_kafka.formats.spec import SourceFormat
from io_kafka.formats.unavailable import placeholder_of
from io_kafka.offsets import TopicPartition

REASONS_MAX = 3
"""The partitions that a reason names. A topic of a hundred expired partitions is one finding."""

Obstacle = Literal["expired", "compacted", "grown", "unknown start", "missing topic", "new table"]

REFRESH = "`stepwell run --full-refresh` rebuilds all state and output from what the topics have"


@dataclass(frozen=True)
class Unreadable:
    """`reason` and `way_out` are texts. `partitions`: where messages are missing, with how many offsets."""

    obstacle: Obstacle
    reason: str
    way_out: str
    partitions: tuple[tuple[TopicPartition, int], ...] = ()


@dataclass(frozen=True)
class Rereading:
    """One source of the project. `starts`: from which offset each partition is read; empty for a new source whose start is not yet known.
    `messages`: an upper bound of how many are read; None if it is not known."""

    handle: str
    is_new: bool
    starts: Mapping[TopicPartition, int]
    messages: int | None
    starting_offsets: str

    @property
    def text(self) -> str:
        if self.is_new:
            return f"{self.handle}: read from its startingOffsets ({self.starting_offsets})"
        firsts = sorted(set(self.starts.values()))
        where = f"offset {firsts[0]:,}" if len(firsts) == 1 else "where the pipeline began"
        return f"{self.handle}: read again from {where}"


def rereadings(
    before: PlanDocument, now: PlanDocument, facts: Facts
) -> tuple[dict[str, Rereading], dict[str, Unreadable]]:
    """For each source of `now`, by handle: how it is read again, or why it cannot be."""
    written = {output.topic for output in (*before.outputs, *now.outputs)} | facts.own
    begins = {where: begin for where, begin in facts.begins.items() if where.topic not in written}
    facts = replace(facts, begins=begins)  # a pattern may fit a topic that the pipeline writes, which no source reads
    able: dict[str, Rereading] = {}
    unable: dict[str, Unreadable] = {}
    for source in now.inputs:
        found = _of_source(source, before, facts)
        if isinstance(found, Unreadable):
            unable[source.table.handle] = found
        else:
            able[source.table.handle] = found
    return able, unable


def messages_of(readings: Iterable[Rereading], facts: Facts) -> int | None:
    """How many messages these are together. Sources of one topic share its messages."""
    starts: dict[TopicPartition, int] = {}
    for reading in readings:
        if reading.messages is None:
            return None
        for where, start in reading.starts.items():
            starts[where] = min(start, starts.get(where, start))
    return sum(max(0, _end(where, facts) - start) for where, start in starts.items())


def _of_source(source: InputTopic, before: PlanDocument, facts: Facts) -> Rereading | Unreadable:
    handle = source.table.handle
    if source.is_table:
        if not any(each.is_table and each.table.handle == handle for each in before.inputs):
            reason = (
                "it is a batch table that the pipeline has not loaded, and it loads tables only when its state begins"
            )
            return Unreadable("new table", reason, f"Write its rows to a topic; or {REFRESH}")
        starts = {where: facts.first.get(where, facts.begins[where]) for where in _partitions(source, facts)}
        if not starts:
            reason = f"topic {', '.join(source.table.topics)}, which has its rows, was deleted"
            return Unreadable("missing topic", reason, "Read the table again: `stepwell run --full-refresh`")
        return Rereading(handle, False, starts, _count(starts, facts), "earliest")
    if missing := [t for t in source.table.topics if not any(where.topic == t for where in facts.begins)]:
        return Unreadable("missing topic", f"there is no topic {', '.join(missing)}", "Create it")
    mine, begun_with = _partitions(source, facts), facts.positions.keys() | facts.first.keys()
    of_before = [each for each in before.inputs if not each.is_table]
    if not any(where in begun_with and any(reads(each, where) for each in of_before) for where in mine):
        return _new(source, facts)  # also one that an earlier revision has read, whose state is gone
    begun = {where: _start(where, source, facts) for where in mine}
    keyed = _is_keyed(source)
    compacted = sorted({where.topic for where in begun} & facts.compacted)
    if compacted and not (keyed and _same_key(source, before) and not _may_lack_values(source)):
        return Unreadable(
            "compacted",
            f"topic {', '.join(compacted)} is compacted, so earlier messages of a key are gone",
            REFRESH,
        )
    if keyed and (grown := sorted({where.topic for where in begun} & facts.grown)):
        return Unreadable(
            "grown",
            f"topic {', '.join(grown)} has got more partitions since the pipeline began, so the order of the messages of a key is not known",
            REFRESH,
        )
    unknown = [where for where, start in begun.items() if start is None]
    if unknown:
        return Unreadable(
            "unknown start",
            f"it is not recorded where the pipeline began with {_listed(map(str, unknown))}, because a former release began it",
            REFRESH,
        )
    known = {where: start for where, start in begun.items() if start is not None}
    expired = [(where, facts.begins[where] - start) for where, start in known.items() if facts.begins[where] > start]
    if expired:
        return _expired(expired, known, facts)
    return Rereading(
        handle,
        is_new=False,
        starts=known,
        messages=_count(known, facts),
        starting_offsets=source.starting_offsets,
    )


def _expired(
    expired: list[tuple[TopicPartition, int]], starts: Mapping[TopicPartition, int], facts: Facts
) -> Unreadable:
    each = (
        f"{where} begins at offset {facts.begins[where]:,}, and the pipeline began at {starts[where]:,}: {count:,} offsets are missing"
        for where, count in expired
    )
    return Unreadable(
        "expired",
        _listed(each),
        f"Restore them; or {REFRESH}",
        tuple(expired),
    )


def _start(where: TopicPartition, source: InputTopic, facts: Facts) -> int | None:
    """None if it is not known. A partition that came later was read from its beginning."""
    if where in facts.first:
        return facts.first[where]
    was_read = where in facts.positions
    if not was_read:
        return facts.begins[where]
    # What begins at 0 today began at 0 then, if it was read from its beginning.
    return 0 if facts.begins[where] == 0 and source.starting_offsets == "earliest" else None


def _partitions(source: InputTopic, facts: Facts) -> list[TopicPartition]:
    """The partitions that the source reads, in order."""
    return sorted(where for where in facts.begins if reads(source, where))


def reads(source: InputTopic, where: TopicPartition) -> bool:
    """Whether a source of a project as it was planned reads the partition, also if it names its topics by a pattern."""
    table = source.table
    if table.partitions is not None and not source.is_table:
        return where in table.partitions
    return where.topic in topics_of(source, (where.topic,))


def topics_of(source: InputTopic, names: Iterable[str]) -> tuple[str, ...]:
    """Its topics; with a pattern those of `names` that fit."""
    pattern = source.table.pattern
    return source.table.topics if pattern is None else tuple(filter(re.compile(pattern).fullmatch, names))


def _new(source: InputTopic, facts: Facts) -> Rereading:
    """A source of which nothing has been read. Where Spark's JSON of offsets begins is not worked out here."""
    handle, given = source.table.handle, source.starting_offsets
    if given not in ("earliest", "latest"):
        return Rereading(handle, True, {}, None, "as given")
    edges = facts.begins if given == "earliest" else facts.ends
    starts = {where: edges[where] for where in _partitions(source, facts)}
    return Rereading(handle, True, starts, _count(starts, facts), given)


def _count(starts: Mapping[TopicPartition, int], facts: Facts) -> int:
    return sum(max(0, _end(where, facts) - start) for where, start in starts.items())


def _end(where: TopicPartition, facts: Facts) -> int:
    return facts.positions.get(where, facts.ends[where])


def _is_keyed(source: InputTopic) -> bool:
    form = source.table.format
    return isinstance(form, SourceFormat) and form.keyed


def _may_lack_values(source: InputTopic) -> bool:
    """Whether a message can leave a value to the message of its key before it, which a compacted topic may not have any more."""
    form = source.table.format
    return isinstance(form, SourceFormat) and placeholder_of(form.unavailable) is not None and form.mode == "changelog"


def _same_key(source: InputTopic, before: PlanDocument) -> bool:
    """Whether the previous project has a table of the same messages by the same key, with which what is read can be compared."""
    was = next((each for each in before.inputs if each.table.handle == source.table.handle), None)
    if was is None or was.table.topics != source.table.topics:
        return False
    form, former = source.table.format, was.table.format
    assert isinstance(form, SourceFormat)
    return isinstance(former, SourceFormat) and (former.mode, former.key) == (form.mode, form.key)


def _listed(texts: Iterable[str]) -> str:
    every = list(texts)
    more = f"; and {len(every) - REASONS_MAX} partitions more" if len(every) > REASONS_MAX else ""
    return "; ".join(every[:REASONS_MAX]) + more
