"""Where reading begins: `startingOffsets` of sources that were never read, with Spark's meaning.

Guarantee: a partition that the step log knows is read from the position in the log, whatever the source says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

from coordinator.specification import InputTopic
from engine.run.source_table import name_of_source
from io_kafka.clients.topics import Topics
from io_kafka.errors import NoSuchStart, NothingSince, UnknownTopic
from io_kafka.offsets import TopicPartition

EARLIEST, LATEST = -2, -1
"""The numbers with which Spark's JSON form of startingOffsets names the two ends of a partition."""


def starting_positions(
    topics: Topics, inputs: Iterable[InputTopic], known: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The next offset to read in every partition of every input. `known` are the positions in the log; the source decides for the others.

    A partition that was added to a topic which is being read already begins at its first offset, whatever the source says, so that none of
    its messages is lost. So does a topic that began to match a pattern after the first start. Raises UnknownTopic if a partition that a source
    names does not exist, NoSuchStart if an offset that decides is not there, and NothingSince."""
    inputs = tuple(inputs)
    names = sorted({topic for source in inputs for topic in source.table.topics})
    begin, end = topics.begin_offsets(names), topics.end_offsets(names)
    read_before = {partition.topic for partition in known}
    positions: dict[TopicPartition, int] = {}
    for source in inputs:
        for missing in sorted((source.table.partitions or frozenset()) - begin.keys()):
            raise UnknownTopic(*missing)
        joins = source.table.pattern is not None and not read_before.isdisjoint(source.table.topics)
        for topic in [] if joins else sorted(set(source.table.topics) - read_before):
            _refuse_missing(source, topic, begin)
        for partition in filter(source.table.reads, begin):
            wish = "earliest" if joins or partition.topic in read_before else source.starting_offsets
            offset = known.get(partition)
            if offset is None and (since := since_of(wish)) is not None:
                offset = _first_since(topics, partition, since, end[partition])
            chosen = (
                offset if offset is not None else _start(source, wish, partition, (begin[partition], end[partition]))
            )
            # Two tables may read one topic. The earlier position counts for both.
            positions[partition] = min(chosen, positions.get(partition, chosen))
    return positions


class Since(NamedTuple):
    """A start at the first message with this timestamp, in milliseconds, or a later one. `or_latest`: where a partition has no such message, its
    end is the start; otherwise that is an error."""

    milliseconds: int
    or_latest: bool

    def __str__(self) -> str:
        return f"since {self.milliseconds}{' or latest' if self.or_latest else ''}"


_SINCE = re.compile(r"since (\d+)( or latest)?")


def since_of(wish: str) -> Since | None:
    """The start that `str(Since)` has written; None if the text is another start."""
    found = _SINCE.fullmatch(wish)
    return None if found is None else Since(int(found[1]), found[2] is not None)


def start_in(wish: str, topic: str) -> str | dict[int, int]:
    """Where a source begins to read a topic, alike for two spellings of the same: the text for `latest` and for a timestamp, or else the offsets
    of the partitions that do not begin at their first."""
    if wish == "latest" or since_of(wish) is not None:
        return wish
    offsets = {} if wish == "earliest" else _offsets_in(wish, topic)
    return {number: at for number, at in offsets.items() if at != EARLIEST}


def offsets_given(text: str) -> dict[str, dict[str, int]] | None:
    """Spark's JSON of offsets by topic and partition; None if it is none."""
    try:
        found = {
            topic: {number: int(at) for number, at in places.items()} for topic, places in json.loads(text).items()
        }
    except (ValueError, TypeError, AttributeError):
        return None
    known = all(number.isdecimal() and at >= EARLIEST for places in found.values() for number, at in places.items())
    return found if known else None


def _offsets_in(wish: str, topic: str) -> dict[int, int]:
    """The offsets of a topic's partitions in Spark's JSON form."""
    return {int(number): int(at) for number, at in json.loads(wish).get(topic, {}).items()}


def _refuse_missing(source: InputTopic, topic: str, there: Container[TopicPartition]) -> None:
    """Raises NoSuchStart if the source names an offset in a partition of the topic that does not exist. When it comes later, the topic is being
    read already, and the partition is read from its first offset."""
    wish = start_in(source.starting_offsets, topic)
    for number, offset in [] if isinstance(wish, str) else sorted(wish.items()):
        where = TopicPartition(topic, number)
        if where not in there:
            raise NoSuchStart(name_of_source(source.table.handle), where, offset, None)


def _first_since(topics: Topics, partition: TopicPartition, since: Since, end: int) -> int:
    found = topics.offsets_since([partition], since.milliseconds)[partition]
    if found is None and not since.or_latest:
        raise NothingSince(*partition, since.milliseconds)
    return end if found is None else found


def depends_on_the_start(source: InputTopic) -> bool:
    """Whether some partition of the source begins where it ended when the pipeline was first started."""
    wish = source.starting_offsets
    if wish in ("earliest", "latest"):
        return wish == "latest"
    if since_of(wish) is not None:
        return True
    return any(int(offset) == LATEST for partitions in json.loads(wish).values() for offset in partitions.values())


def _start(source: InputTopic, wish: str, partition: TopicPartition, held: tuple[int, int]) -> int:
    """`held`: the first offset of the partition, and its end. Raises NoSuchStart. A batch table begins where its load does, and no user has
    named that offset: if it is gone, reading says so."""
    begin, end = held
    if wish == "earliest":
        return begin
    if wish == "latest":
        return end
    offset = _offsets_in(wish, partition.topic).get(partition.partition, EARLIEST)
    if offset in (EARLIEST, LATEST):
        return begin if offset == EARLIEST else end
    if not (begin <= offset <= end or source.is_table):
        raise NoSuchStart(name_of_source(source.table.handle), partition, offset, held)
    return offset
