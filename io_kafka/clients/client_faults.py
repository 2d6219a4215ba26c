"""Which fault an error of Kafka's client stands for, and the codes of errors that mean the same."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from io_kafka.errors import (
    BrokerRefused,
    BrokerUnreachable,
    KafkaFault,
    LoginRefused,
    NoLeader,
    NotAuthorized,
    UnknownTopic,
)

NO_LEADER = (
    KafkaError._NOENT,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.BROKER_NOT_AVAILABLE,
)
"""`_NOENT`: the client's own metadata has no leader. OFFSET_NOT_AVAILABLE: a new leader does not know yet what is committed. The others come
from a broker that has just learned of a new topic or a new leader."""

NO_ANSWER = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._DESTROY_BROKER)
"""The broker that was asked is gone, or slow. Another one may answer for it. `_DESTROY_BROKER`: the client has just heard that it is gone."""

OLD_EPOCH = (KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.FENCED_LEADER_EPOCH)
"""The client knows an outdated epoch of the partition's leader, or a newer one than the broker."""

UNKNOWN_TOPIC = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.UNKNOWN_TOPIC_ID,
)
"""The broker that was asked does not know the topic, or not this partition of it."""


class TopicExists(KafkaFault):
    """The topic to create exists already. It never leaves topics.py."""


def fault_of(
    error: KafkaException, servers: str, doing: str, topic: str | None = None, partition: int | None = None
) -> KafkaFault:
    """The fault for an error of the client. `doing` completes the sentence "while ..."; `topic` and `partition` are what it was about."""
    cause: KafkaError = error.args[0]
    code = cause.code()
    if topic is not None and code in UNKNOWN_TOPIC:
        return UnknownTopic(topic, partition)
    if topic is not None and code in NO_LEADER:
        return NoLeader(topic, partition, doing)
    if code in (*NO_ANSWER, KafkaError._RESOLVE):
        return BrokerUnreachable(servers, doing, cause.str())
    if code in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED):
        return NotAuthorized(f"topic {topic!r}" if topic else servers, doing, cause.str())
    if code in (KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._AUTHENTICATION):
        return LoginRefused(
            f"Kafka at {servers} refuses the login: {cause.str()}.", "Correct the `kafka.sasl` settings."
        )
    if code == KafkaError.TOPIC_ALREADY_EXISTS:
        return TopicExists(cause.str())
    return BrokerRefused(doing, f"{cause.name()}: {cause.str()}")
