"""Reads plan documents from their topic. They are written by transactions of the step log's writer (writer.py)."""

from __future__ import annotations

from io_kafka.clients.first_partition import warn_of_others
from io_kafka.clients.reader import RangeReader
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import TopicFacts, Topics
from io_kafka.errors import KafkaFault

PLAN_TOPIC_CONFIG = {"cleanup.policy": "compact"}


class UnsuitablePlanTopic(KafkaFault):
    """The topic exists, but its configuration would lose plan documents."""

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(
            f"topic {topic!r} cannot have plan documents: {reason}.",
            "Set cleanup.policy=compact on it. Then run again.",
        )


def ensure_plan_topic(topics: Topics, topic: str, replication: int) -> None:
    """Creates the topic if it is missing. Raises UnsuitablePlanTopic."""
    facts = topics.ensure(topic, 1, PLAN_TOPIC_CONFIG, replication=replication)
    check_plan_topic(facts)
    warn_of_others(facts)


def check_plan_topic(facts: TopicFacts) -> None:
    """Raises UnsuitablePlanTopic."""
    policy = facts.config.get("cleanup.policy", "compact")
    if policy != "compact":
        raise UnsuitablePlanTopic(facts.name, f"its cleanup.policy is {policy}, which loses them")


def read_plan(settings: KafkaSettings, topic: str, digest: str) -> str:
    """The text of the document. Raises PlanMissing, and what RangeReader raises."""
    reader = RangeReader(settings)
    try:
        return reader.document(topic, digest)
    finally:
        reader.close()
