"""Reads plan documents from their topic. They are written by transactions of the step log's writer (writer.py)."""

from __future__ import annotations

from io_kafka.clients.reader import RangeReader
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import TopicFacts, Topics
from io_kafka.errors import KafkaFault, UnknownTopic
from io_kafka.offsets import OffsetRange, TopicPartition
from io_kafka.step_log.plans import text_in

PLAN_TOPIC_CONFIG = {"cleanup.policy": "compact"}


class PlanMissing(KafkaFault):
    """The step log names a plan document that the topic of plan documents does not have."""

    def __init__(self, topic: str, digest: str) -> None:
        super().__init__(
            f"topic {topic!r} does not have the plan document {digest}, which the step log names. Nothing was changed.",
            "Restore that topic, or take all output back and rebuild the state with `stepwell run --full-refresh`.",
        )


class UnsuitablePlanTopic(KafkaFault):
    """The topic exists, but its configuration would lose plan documents."""

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(
            f"topic {topic!r} cannot have plan documents: {reason}.",
            "Set cleanup.policy=compact on a topic of one partition, or delete it: then it is created.",
        )


def check_plan_topic(facts: TopicFacts) -> None:
    """Raises UnsuitablePlanTopic."""
    policy = facts.config.get("cleanup.policy", "compact")
    if policy != "compact":
        raise UnsuitablePlanTopic(facts.name, f"its cleanup.policy is {policy}, which loses them")
    if facts.partitions != 1:
        raise UnsuitablePlanTopic(facts.name, f"it has {facts.partitions} partitions, and is read from one")


def read_plan(settings: KafkaSettings, topics: Topics, topic: str, digest: str) -> str:
    """The text of the document. Raises PlanMissing, and what RangeReader raises."""
    where = TopicPartition(topic, 0)
    try:
        span = OffsetRange(topic, 0, topics.begin_offsets([topic])[where], topics.end_offsets([topic])[where])
    except UnknownTopic:
        raise PlanMissing(topic, digest) from None
    reader = RangeReader(settings)
    try:
        (batch,) = reader.read([span])
    finally:
        reader.close()
    pairs = zip(batch.messages.keys.to_pylist(), batch.messages.values.to_pylist(), strict=True)
    text = text_in(pairs, digest)
    if text is None:
        raise PlanMissing(topic, digest)
    return text
