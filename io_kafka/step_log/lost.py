"""Faults of a step log that is no whole history of its pipeline, and what to do then.

A full refresh takes the outputs back by what the log knows of them, and the epochs that fence older runs are in the log. So no run can begin
beside a log that cannot be read: a person deletes the log and what the pipeline has written, and the refresh begins with nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from io_kafka.errors import KafkaFault


class StepLogUnreadable(KafkaFault):
    """The base of the faults of a step log that cannot be read from its beginning to its end. `before`: what to consider before a rebuild."""

    def __init__(self, topic: str, message: str, before: str = "") -> None:
        self.topic, self._before = topic, before
        super().__init__(message, self._advice(written_topics([])))

    def name_written(self, names: Iterable[str]) -> None:
        """Names the topics that the pipeline writes to, which only its project knows."""
        self.what_to_do = self._advice(written_topics(names))

    def _advice(self, written: str) -> str:
        return (
            f"{self._before} Restore topic {self.topic} from a replica. Without one, rebuild in this order: (1) stop every run of this "
            f"pipeline, (2) delete topic {self.topic}, (3) delete {written}, (4) `stepwell run --full-refresh`. While this log is there, "
            "a refresh cannot know which messages are the pipeline's own."
        ).strip()


class LogOffsetGone(StepLogUnreadable):
    """The step log lacks records that were in it."""

    def __init__(self, topic: str, offset: int, begin: int, end: int) -> None:
        super().__init__(
            topic,
            f"step log {topic!r} partition 0: offset {offset} does not exist, the partition holds [{begin}, {end}): records were deleted, "
            "or the topic was created again.",
        )


def written_topics(names: Iterable[str]) -> str:
    """What texts call the topics that a pipeline writes to."""
    each = sorted(set(names))
    if not each:
        return "the output topics and dead-letter topics of the pipeline"
    return f"topic {each[0]}" if len(each) == 1 else f"the topics {', '.join(each[:-1])} and {each[-1]}"
