"""Which sources can be read again from where the pipeline began, why the others cannot, and how many messages that is.

A source can be read again if all messages are there that the pipeline has counted. So no partition may begin above the offset
at which the pipeline began with it, and no topic may be compacted. A keyed source may be compacted, because only the last
message of each key counts. If its topic has got more partitions since, a key may have messages in several of them, and nothing says which was
the last. A topic that was deleted and created again has other messages at the same offsets.
A source that the pipeline has not read yet is read like any new one, from its `startingOffsets`. A batch table that has no load yet is
loaded first.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from coordinator.revisions.carrying import why_not_carried
from coordinator.revisions.document import PlanDocument
from coordinator.revisions.facts import PlanFacts
from coordinator.revisions.leaves import HasLeaves, former_sources
from coordinator.revisions.loads import tables_to_load
from coordinator.specification import InputTopic
from coordinator.topic_names import has_rows_of_tables
from engine.model.from_now import handle_of_files
from io_kafka.formats.spec import SourceFormat
from io_kafka.formats.unavailable import placeholder_of
from io_kafka.offsets import TopicPartition

REASONS_MAX = 3
"""The partitions that a reason names. A topic of a hundred expired partitions is one finding."""

Obstacle = Literal["expired", "compacted", "grown", "unknown start", "missing topic", "remade", "frozen", "nulls"]

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
    `messages`: an upper bound of how many are read; None if it is not known. `is_marked`: messages below the starts do not count, because the
    user has asked for that (marks.py). `is_load`: it is a batch table that is loaded first, again unless it `is_new`."""

    handle: str
    is_new: bool
    starts: Mapping[TopicPartition, int]
    messages: int | None
    starting_offsets: str
    is_marked: bool = False
    is_load: bool = False

    @property
    def text(self) -> str:
        if self.is_load:
            return f"{self.handle}: loaded{'' if self.is_new else ' again'}"
        if self.is_marked:
            name = handle_of_files(self.handle)
            return f"{name}: read again from its mark on" if self.messages else f"{name}: counts from now on"
        if self.is_new:
            return f"{self.handle}: read from its startingOffsets ({self.starting_offsets})"
        firsts = sorted(set(self.starts.values()))
        where = f"offset {firsts[0]:,}" if len(firsts) == 1 else "where the pipeline began"
        return f"{self.handle}: read again from {where}"


def rereadings(
    before: PlanDocument, now: PlanDocument, facts: PlanFacts
) -> tuple[dict[str, Rereading], dict[str, Unreadable]]:
    """For each source of `now`, by handle: how it is read again, or why it cannot be."""
    facts = facts_of_inputs(before, now, facts)
    able: dict[str, Rereading] = {}
    unable: dict[str, Unreadable] = {}
    for source in now.inputs:
        found = _of_source(source, before, facts)
        if isinstance(found, Unreadable):
            unable[source.table.handle] = found
        else:
            able[source.table.handle] = found
    return able, unable


def facts_of_inputs(before: HasLeaves, now: HasLeaves, facts: PlanFacts) -> PlanFacts:
    """Returns the facts without the topics that the pipeline writes: a pattern may fit one, and no source reads it."""
    written = {output.topic for output in (*before.outputs, *now.outputs)} | facts.own
    begins = {where: begin for where, begin in facts.begins.items() if where.topic not in written}
    return replace(facts, begins=begins)


def messages_of(readings: Iterable[Rereading], facts: PlanFacts) -> int | None:
    """How many messages these are together. Sources of one topic share its messages."""
    starts: dict[TopicPartition, int] = {}
    for reading in readings:
        if reading.messages is None:
            return None
        for where, start in reading.starts.items():
            starts[where] = min(start, starts.get(where, start))
    return sum(max(0, _end(where, facts) - start) for where, start in starts.items())


def _of_source(source: InputTopic, before: PlanDocument, facts: PlanFacts) -> Rereading | Unreadable:
    handle = source.table.handle
    if source.is_table:
        if tables_to_load([source], before.inputs):
            return _load(source, before)
        starts = {where: facts.first.get(where, facts.begins[where]) for where in partitions_of(source, facts)}
        if not starts:
            reason = f"topic {', '.join(source.table.topics)}, which has its rows, was deleted"
            return Unreadable("missing topic", reason, "Read the table again: `stepwell run --full-refresh`")
        return Rereading(handle, False, starts, _count(starts, facts), "earliest")
    if missing := [t for t in source.table.topics if not any(where.topic == t for where in facts.begins)]:
        return Unreadable("missing topic", f"there is no topic {', '.join(missing)}", "Create it")
    if remade := sorted({where.topic for where in partitions_of(source, facts)} & facts.remade):
        reason = f"topic {', '.join(remade)} was deleted and created again since the pipeline began with it"
        return Unreadable("remade", reason, f"Send its messages to a topic of another name; or {REFRESH}")
    begun = _starts_of(source, before, facts)
    if begun is None:
        return _new(source, facts)
    known = {where: start for where, start in begun.items() if start is not None}
    is_marked = source.table.counts_from is not None
    if is_marked and not _count(known, facts):  # whatever has happened to earlier messages
        return Rereading(handle, False, known, 0, source.starting_offsets, is_marked=True)
    why_not = _why_not(source, begun, before, facts)
    if why_not is not None:
        return why_not
    messages = _count(known, facts)
    return Rereading(handle, False, known, messages, source.starting_offsets, is_marked=is_marked)


def _starts_of(
    source: InputTopic, before: PlanDocument, facts: PlanFacts
) -> Mapping[TopicPartition, int | None] | None:
    """Where each partition is read from, None if that is not known; and None if the pipeline has not begun with the source. That is so too if
    an earlier revision has read it, whose state is gone."""
    mine, marked = partitions_of(source, facts), source.table.counts_from
    if marked is not None:
        known = dict(marked)
        return {where: known.get(where, facts.first.get(where, facts.begins[where])) for where in mine}
    begun_with = facts.positions.keys() | facts.first.keys()
    of_before = [each for each in before.inputs if not each.is_table]
    if not any(where in begun_with and any(reads(each, where) for each in of_before) for where in mine):
        return None
    return {where: _start(where, source, facts) for where in mine}


def _why_not(
    source: InputTopic, begun: Mapping[TopicPartition, int | None], before: PlanDocument, facts: PlanFacts
) -> Unreadable | None:
    way_out = _way_out(source, before)
    keyed = source.is_keyed
    if source.nulls:
        columns = ", ".join(source.nulls)
        return Unreadable(
            "nulls",
            f"the rows of its table have NULL in {columns} since --from-now, which its messages do not say",
            way_out,
        )
    compacted = sorted({where.topic for where in begun} & facts.compacted)
    if compacted and not (keyed and _same_key(source, before) and not _may_lack_values(source)):
        return Unreadable(
            "compacted",
            f"topic {', '.join(compacted)} is compacted, so earlier messages of a key are gone",
            way_out,
        )
    if keyed and (grown := grown_topics(source, begun, facts.grown)):
        return Unreadable(
            "grown",
            f"topic {', '.join(grown)} has got more partitions since the pipeline began, so the order of the messages of a key is not known",
            way_out,
        )
    unknown = [where for where, start in begun.items() if start is None]
    if unknown:
        return Unreadable(
            "unknown start",
            f"it is not recorded where the pipeline began with {_list(map(str, unknown))}, because a former release began it",
            way_out,
        )
    starts = {where: start for where, start in begun.items() if start is not None}
    expired = [(where, facts.begins[where] - start) for where, start in starts.items() if facts.begins[where] > start]
    return _expiry(expired, source, facts, starts, way_out) if expired else None


def grown_topics(source: InputTopic, partitions: Iterable[TopicPartition], grown: Collection[str]) -> list[str]:
    """Returns the topics of the source that have got partitions since it counts. `grown`: the topics that have got some since the pipeline
    began."""
    every, marked = list(partitions), source.table.counts_from
    if marked is None:
        return sorted({where.topic for where in every} & set(grown))
    known = dict(marked)
    return sorted({where.topic for where in every if where not in known})


def _expiry(
    expired: list[tuple[TopicPartition, int]],
    source: InputTopic,
    facts: PlanFacts,
    starts: Mapping[TopicPartition, int],
    way_out: str,
) -> Unreadable:
    who = "the pipeline began" if source.table.counts_from is None else "the mark is"
    each = (
        f"{where} begins at offset {facts.begins[where]:,}, and {who} at {starts[where]:,}: {count:,} offsets are missing"
        for where, count in expired
    )
    return Unreadable("expired", _list(each), f"Restore them; or {way_out}", tuple(expired))


def _way_out(source: InputTopic, before: PlanDocument) -> str:
    """What helps if not all messages are there. The table of a keyed source has rows that new nodes may not lose, and a changelog without a key
    takes back rows of any time."""
    if takes_rows_back(source):
        return REFRESH
    if has_table(source, before):
        of_its_topics = [each for each in before.inputs if each.table.topics == source.table.topics]
        was = former_sources([source], of_its_topics).get(source.table.handle)
        if why_not_carried(source, was) is not None:
            return REFRESH
        return f"`--from-now {source.table.handle}`: its rows then have NULL in the columns that are new; or {REFRESH}"
    handle = handle_of_files(source.table.handle)
    return f"`--from-now {handle}`: new nodes then count {handle} from the present positions on; or {REFRESH}"


def _start(where: TopicPartition, source: InputTopic, facts: PlanFacts) -> int | None:
    """None if it is not known. A partition that came later was read from its beginning."""
    if where in facts.first:
        return facts.first[where]
    was_read = where in facts.positions
    if not was_read:
        return facts.begins[where]
    # What begins at 0 today began at 0 then, if it was read from its beginning.
    return 0 if facts.begins[where] == 0 and source.starting_offsets == "earliest" else None


def partitions_of(source: InputTopic, facts: PlanFacts) -> list[TopicPartition]:
    """The partitions that the source reads, in order."""
    return sorted(where for where in facts.begins if reads(source, where))


def reads(source: InputTopic, where: TopicPartition) -> bool:
    """Whether a source of a project as it was planned reads the partition, also if it names its topics by a pattern."""
    table = source.table
    if table.partitions is not None and not source.is_table:
        return where in table.partitions
    return where.topic in topics_of(source, (where.topic,))


def topics_of(source: InputTopic, names: Iterable[str]) -> tuple[str, ...]:
    """Returns the topics of a source; with a pattern those of `names` that fit."""
    pattern = source.table.pattern
    if pattern is None:
        return source.table.topics
    fits = re.compile(pattern).fullmatch
    return tuple(name for name in names if fits(name) and not has_rows_of_tables(name))


def _load(source: InputTopic, before: PlanDocument) -> Rereading:
    """How many rows it has is known when they are read."""
    is_known = any(each.is_table and each.table.handle == source.table.handle for each in before.inputs)
    starts = dict.fromkeys(sorted(source.table.partitions or ()), 0)
    return Rereading(source.table.handle, not is_known, starts, None, source.starting_offsets, is_load=True)


def _new(source: InputTopic, facts: PlanFacts) -> Rereading:
    """A source of which nothing has been read. Where Spark's JSON of offsets begins is not worked out here."""
    handle, given = source.table.handle, source.starting_offsets
    if given not in ("earliest", "latest"):
        return Rereading(handle, True, {}, None, "as given")
    edges = facts.begins if given == "earliest" else facts.ends
    starts = {where: edges[where] for where in partitions_of(source, facts)}
    return Rereading(handle, True, starts, _count(starts, facts), given)


def _count(starts: Mapping[TopicPartition, int], facts: PlanFacts) -> int:
    return sum(max(0, _end(where, facts) - start) for where, start in starts.items())


def _end(where: TopicPartition, facts: PlanFacts) -> int:
    return facts.positions.get(where, facts.ends[where])


def _may_lack_values(source: InputTopic) -> bool:
    """Whether a message can leave a value to the message of its key before it, which a compacted topic may not have any more."""
    form = source.table.format
    return isinstance(form, SourceFormat) and placeholder_of(form.unavailable) is not None and form.mode == "changelog"


def takes_rows_back(source: InputTopic) -> bool:
    """Whether a message can take back a row of another message, which it names by its values."""
    form = source.table.format
    return isinstance(form, SourceFormat) and form.mode == "changelog" and not form.keyed


def has_table(source: InputTopic, before: PlanDocument) -> bool:
    """Whether the previous project has a table of the same messages, whose rows the one of this source has to hold."""
    return source.is_keyed and _same_key(source, before)


def _same_key(source: InputTopic, before: PlanDocument) -> bool:
    """Whether the previous project has a table of the same messages by the same key, with which what is read can be compared."""
    form = source.table.format
    assert isinstance(form, SourceFormat)
    former = [each.table.format for each in before.inputs if each.table.topics == source.table.topics]
    return any(isinstance(each, SourceFormat) and (each.mode, each.key) == (form.mode, form.key) for each in former)


def _list(texts: Iterable[str]) -> str:
    every = list(texts)
    more = f"; and {len(every) - REASONS_MAX} partitions more" if len(every) > REASONS_MAX else ""
    return "; ".join(every[:REASONS_MAX]) + more
