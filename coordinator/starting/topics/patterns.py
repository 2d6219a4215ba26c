"""The topics of sources that name them by a pattern, as Spark's `subscribePattern` does.

The topics are looked up when a run starts. Those that match and were never read join then, from their first offset. None joins while a run
goes on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from coordinator.specification import InputTopic, PipelineSpec
from coordinator.starting.errors import TopicChanged
from coordinator.starting.topics.positions import start_in
from coordinator.topic_names import has_rows_of_tables
from io_kafka.clients.topics import Topics
from io_kafka.errors import NoTopicMatches
from io_kafka.step_log.records import TopicIdentity


def with_matching_topics(spec: PipelineSpec, topics: Topics, known: Mapping[str, TopicIdentity]) -> PipelineSpec:
    """The specification, whose sources name their topics. `known`: the topics that the step log has. Raises NoTopicMatches if a source has none,
    and TopicChanged if a topic that was read is gone, or if a pattern matches what the pipeline writes."""
    if all(source.table.pattern is None for source in spec.inputs):
        return spec
    names = {name for name in topics.names() if not has_rows_of_tables(name)}
    own = {output.topic for output in spec.outputs} | set(spec.dead_letter_topics.values())
    not_read = {spec.log_topic, spec.plan_topic, *spec.table_topics}
    read = {name for name in known if name not in not_read and not has_rows_of_tables(name)}
    found = read if spec.lost_topics else names - not_read  # a project that stands still begins with no topic
    inputs = tuple(_with_topics(source, found, own, read) for source in spec.inputs)
    _refuse_other_starts(inputs)
    return replace(spec, inputs=inputs)


def _refuse_other_starts(inputs: Iterable[InputTopic]) -> None:
    """A pipeline begins to read a topic at one place. What sources name their topics is compared when the project is planned."""
    first: dict[str, InputTopic] = {}
    for source in sorted(inputs, key=lambda source: source.table.pattern is None):
        for topic in source.table.topics:
            other = first.setdefault(topic, source)
            starts = [start_in(each.starting_offsets, topic) for each in (other, source)]
            if other.table.pattern is not None and starts[0] != starts[1]:
                raise TopicChanged(
                    f"topic {topic} is read by {other.table.handle} from {other.starting_offsets}, and by {source.table.handle} from "
                    f"{source.starting_offsets}.",
                    "A pipeline begins to read a topic at one place: write the same startingOffsets at both.",
                )


def _with_topics(source: InputTopic, names: Iterable[str], own: set[str], known: Iterable[str]) -> InputTopic:
    pattern = source.table.pattern
    if pattern is None:
        return source
    matches = re.compile(pattern).fullmatch
    found = sorted(name for name in names if matches(name))
    for name in filter(own.__contains__, found):
        raise TopicChanged(
            f"{source.table.handle}: the pattern {pattern} matches topic {name}, which this pipeline writes.",
            "Its output would be its input. Write a pattern that does not match it, or name another topic for the output.",
        )
    for name in sorted(name for name in known if matches(name) and name not in found and name not in own):
        raise TopicChanged(
            f"topic {name}, which {source.table.handle} reads by the pattern {pattern}, is gone.",
            "Its messages cannot be read again: rebuild with `stepwell run --full-refresh`.",
        )
    if not found:
        raise NoTopicMatches(source.table.handle, pattern)
    return replace(source, table=replace(source.table, topics=tuple(found)))
