"""Topics that two definitions of a project use in ways that exclude each other.

Guarantee: no topic is written by two outputs, or written and read by the same pipeline, or is one of Stepwell's own, and all sources begin to
read a topic at one place. Otherwise an error names both definitions with file and line. Without this, one output would delete the rows of
another by its tombstones, a pipeline would feed itself for ever, and letters about malformed messages would become rows, or letters of letters.

Kafka has no two topics whose names differ only in `.` and `_`, because they are one name in its metrics. So an output or a
dead-letter topic whose name collides so with another topic of the project is refused, too: the run would fail when it creates the second one.

Several sources may read one topic, and several may share a dead-letter topic. A topic that matches a pattern is looked up when a run starts, so
what exists only then is compared by coordinator/starting/topics/patterns.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from stepwell.errors import Location, ProjectError
from stepwell.project.kafka_options import disagreements
from stepwell.project.tables import OutputSpec, SourceSpec

_ANY_OWN = re.compile(r"stepwell\..+\.(steps|plans|table\..+)")
"""Names of the topics that some pipeline has for itself: coordinator/specification.py makes them."""


class _Written(NamedTuple):
    """A topic that the pipeline writes. `what`: in which role, for users. `is_letters`: it takes the malformed messages of a source."""

    topic: str
    what: str
    owner: str
    location: Location
    is_letters: bool


def clashes(pipeline: str, sources: Sequence[SourceSpec], outputs: Sequence[OutputSpec]) -> list[ProjectError]:
    """All clashes, each at the definition that should give way."""
    written = [*map(_output, outputs), *(_letters(source) for source in sources if source.dead_letter_topic)]
    return [
        *disagreements(sources),
        *_own_topics(pipeline, sources, written),
        *_written_twice(written),
        *_written_and_read(written, sources),
        *_colliding_names(pipeline, sources, written),
    ]


def _output(output: OutputSpec) -> _Written:
    return _Written(output.topic, f"the output {output.handle}", output.handle, output.location, False)


def _letters(source: SourceSpec) -> _Written:
    assert source.dead_letter_topic is not None
    what = f"the malformed messages of {source.handle}"
    return _Written(source.dead_letter_topic, what, source.handle, source.location, True)


def _own_topics(pipeline: str, sources: Sequence[SourceSpec], written: Sequence[_Written]) -> Iterator[ProjectError]:
    own = f"stepwell.{pipeline}."
    for source in sources:
        for topic in source.topics:
            if topic.startswith(own) and source.format != "table":
                yield ProjectError(
                    f"topic {topic} is one of Stepwell's own for this pipeline, and its messages are no input",
                    "Read another topic. What the step log says is shown by `stepwell steps`.",
                    view=source.handle,
                    location=source.location,
                )
    for each in written:
        if each.topic.startswith(own) or _ANY_OWN.fullmatch(each.topic):
            yield ProjectError(
                f"{each.what} would be written to topic {each.topic}, which is one of Stepwell's own",
                "Name another topic: nothing but Stepwell may write to these.",
                view=each.owner,
                location=each.location,
            )


def _written_twice(written: Sequence[_Written]) -> Iterator[ProjectError]:
    first: dict[str, _Written] = {}
    for each in sorted(written, key=lambda each: each.is_letters):  # outputs first
        other = first.setdefault(each.topic, each)
        if other is each or (other.is_letters and each.is_letters):
            continue
        yield ProjectError(
            f"topic {each.topic} gets {each.what}, and also {other.what} ({other.location})",
            "Name another dead.letter.topic."
            if each.is_letters
            else "Name another topic for one of them. To bring rows together, write one view with UNION ALL.",
            view=each.owner,
            location=each.location,
        )


def _written_and_read(written: Sequence[_Written], sources: Sequence[SourceSpec]) -> Iterator[ProjectError]:
    for each in written:
        for source in sources:
            if (how := _reads(source, each.topic)) is None:
                continue
            what_to_do = (
                "Name another dead.letter.topic, or do not read it: letters would become rows, or letters of letters."
                if each.is_letters
                else f"Its output would be its input. Read the view itself ({each.owner}), or name another topic for the output."
            )
            yield ProjectError(
                f"topic {each.topic} gets {each.what}, and {source.handle} {how} ({source.location})",
                what_to_do,
                view=each.owner,
                location=each.location,
            )


def _colliding_names(
    pipeline: str, sources: Sequence[SourceSpec], written: Sequence[_Written]
) -> Iterator[ProjectError]:
    """What the pipeline writes beside another topic with the same name in Kafka's metrics, and what it reads beside an own topic."""
    first: dict[str, tuple[str, str]] = {}
    for source in sources:
        for topic in source.topics if source.format != "table" else ():
            first.setdefault(_in_metrics(topic), (topic, f"{source.handle} reads ({source.location})"))
    for each in sorted(written, key=lambda each: each.is_letters):
        topic, use = first.setdefault(_in_metrics(each.topic), (each.topic, f"gets {each.what} ({each.location})"))
        if topic != each.topic:
            yield _collision(
                f"{each.what} would be written to topic {each.topic}",
                f"topic {topic}, which {use}",
                each.owner,
                each.location,
            )
    own = re.compile(rf"stepwell_{re.escape(_in_metrics(pipeline))}_(steps|plans|table_.+)")
    read = [
        (topic, f"{each.handle} reads topic {topic}", each.handle, each.location)
        for each in sources
        for topic in each.topics
    ]
    wrote = [
        (each.topic, f"{each.what} would be written to topic {each.topic}", each.owner, each.location)
        for each in written
    ]
    for topic, use, owner, location in (*read, *wrote):
        if own.fullmatch(_in_metrics(topic)) and not topic.startswith(f"stepwell.{pipeline}."):
            yield _collision(use, "one that Stepwell has for this pipeline", owner, location)


def _collision(use: str, other: str, owner: str, location: Location) -> ProjectError:
    return ProjectError(
        f"{use}, and its name differs only in '.' and '_' from {other}: Kafka refuses to have both",
        "Name another topic.",
        view=owner,
        location=location,
    )


def _in_metrics(topic: str) -> str:
    """The name in Kafka's metrics, which no two topics share."""
    return topic.replace(".", "_")


def _reads(source: SourceSpec, topic: str) -> str | None:
    """How a source reads a topic, for users; None if it does not."""
    if topic in source.topics:
        return "reads it"
    if source.pattern is not None and re.fullmatch(source.pattern, topic):
        return f"reads it by the pattern {source.pattern}"
    return None
