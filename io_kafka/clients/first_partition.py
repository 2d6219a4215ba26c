"""Topics of which Stepwell uses the first partition alone, whose records have an order. Somebody may have given one more partitions.

Everything is written to partition 0 and read from there, so more partitions do no harm, and Kafka cannot take a partition away again. Messages
there come from something else. In the step log they are refused, because whoever writes them may write to partition 0 too. A plan document is
found by its digest, which no other message has.
"""

from __future__ import annotations

from base.logger import Logger
from io_kafka.clients.topics import TopicFacts, Topics

_log = Logger("io_kafka.clients.first_partition")

EMPTY_THEM = (
    "Delete the messages of these partitions, such as with Kafka's kafka-delete-records, and take the right to write there from everybody but "
    "Stepwell. Then run again."
)

UNUSED = "It has to stay empty there: take the right to write to the topic from everybody but Stepwell."


def foreign_partitions(topics: Topics, facts: TopicFacts) -> list[int]:
    """The partitions behind the first that hold messages, which something other than Stepwell has written."""
    if facts.partitions == 1:
        return []
    begins, ends = topics.begin_offsets([facts.name]), topics.high_watermarks([facts.name])
    return [where.partition for where, end in sorted(ends.items()) if where.partition and end > begins[where]]


def how_many(facts: TopicFacts) -> str:
    """What a warning says of a topic with more partitions than one, of which the others are empty."""
    return f"it has {facts.partitions} partitions, of which only the first is used"


def warn_of_others(facts: TopicFacts) -> None:
    """Says in the log that a topic has more partitions than one."""
    if facts.partitions != 1:
        _log.warning(
            "a topic has partitions that are not used", topic=facts.name, found=how_many(facts), what_to_do=UNUSED
        )


def why_foreign(foreign: list[int]) -> str:
    """Why a topic cannot be used."""
    numbers = ", ".join(map(str, foreign))
    return f"something else has written into it: there are messages in partition {numbers}, and Stepwell writes into partition 0 alone"
