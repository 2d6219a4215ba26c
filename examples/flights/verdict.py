"""Compares what was published with what is right.

It asks two independent questions about every view:

- Is its content, read back from its topic, Spark's batch answer over the same input?
- Was every step written once? Each output partition must hold exactly as many messages of each step as the step's record in the step log says.
  In an upsert topic, the first question alone would not notice a step that was written twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from examples.batch import TopicMessage, batch_answer, compare, published
from examples.flights.consumer import Received, read_topic
from io_kafka.step_log.state import StepLogState
from stepwell.planning.plans import ResolvedView
from stepwell.planning.resolver import resolve
from stepwell.project.loading import Project


@dataclass(frozen=True)
class ViewResult:
    """`rows`: rows of the final content. `messages`: messages in the topic. `duplicates` and `lost`: rows of the content plus messages of steps.
    `steps`: the number of steps that wrote to this view."""

    view: str
    rows: int
    messages: int
    duplicates: int
    lost: int
    steps: int
    examples: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        return not self.duplicates and not self.lost


def judge(
    project: Project, spark: SparkSession, servers: str, log: StepLogState, done: Callable[[str], None]
) -> list[ViewResult]:
    """Judges every published view. `done(view)` is called after each."""
    resolved = resolve(project, spark)
    topics = {topic for source in resolved.sources for topic in source.topics}
    answer = batch_answer(resolved, {topic: _plain(read_topic(servers, topic)) for topic in sorted(topics)})
    results = []
    for view in resolved.views:
        if view.output is not None:
            messages = read_topic(servers, view.output.topic)
            comparison = compare(view.name, published(spark, view, _plain(messages)), answer[view.name])
            twice, missing = audit(messages, steps_of(view, log))
            steps = len({message.step for message in messages})
            results.append(
                ViewResult(
                    view.name,
                    comparison.rows,
                    len(messages),
                    comparison.duplicates + twice,
                    comparison.lost + missing,
                    steps,
                    comparison.examples,
                )
            )
            done(view.name)
    return results


def _plain(messages: Sequence[Received]) -> list[TopicMessage]:
    return [TopicMessage(m.partition, m.offset, m.key, m.value) for m in messages]


def steps_of(view: ResolvedView, log: StepLogState) -> dict[tuple[int | None, int], int]:
    """(step, output partition) -> number of messages, as the step log has recorded it."""
    return {
        (step, part.partition): part.messages
        for step, record in log.step_records.items()
        for part in record.outputs
        if part.handle == view.name and part.messages
    }


def audit(messages: Sequence[Received], recorded: Mapping[tuple[int | None, int], int]) -> tuple[int, int]:
    """(number of messages that are there too often, number of messages that are missing), counted step by step. A message without a step, or
    of a step that is not in the log, counts as one too many."""
    found = Counter((message.step, message.partition) for message in messages)
    extra = sum(max(0, count - recorded.get(place, 0)) for place, count in found.items())
    missing = sum(max(0, count - found[place]) for place, count in recorded.items())
    return extra, missing
