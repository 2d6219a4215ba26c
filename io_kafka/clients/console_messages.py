"""Writes and reads messages for `stepwell dev produce` and `dev consume`.

Guarantees: `send` returns when the broker has every message, each once and in order. `messages_of` gives committed messages alone, those of a
partition in order; partitions are not compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from io_kafka.clients.client_faults import NO_ANSWER, fault_of
from io_kafka.clients.open_transaction import errors_of_the_client
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics
from io_kafka.errors import BrokerUnreachable

SILENCE_SECONDS_MAX = 30.0
"""How long a broker may give no message before the end of a partition. A loaded one answers within seconds, and a person waits."""

FLUSH_SECONDS_MAX = 60.0
"""The time for what is still in the client's queue. A broker restarts well within this time."""

POLL_SECONDS = 0.2


@dataclass(frozen=True)
class ConsoleMessage:
    """A message that a person writes or reads. `value` None is a tombstone. `partition`, `offset` and `timestamp_ms` are the broker's, and -1
    before it has the message."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    partition: int = -1
    offset: int = -1
    timestamp_ms: int = -1


def send(settings: KafkaSettings, topic: str, messages: Iterable[ConsoleMessage]) -> int:
    """Sends the messages, and returns how many there were. The topic must exist. Raises faults of Kafka."""
    reports = settings.reports()
    producer = settings.outside.producer({**settings.producer_config(None), "error_cb": reports.note})
    refused: list[KafkaError] = []
    doing, sent = f"writing to the topic {topic}", 0

    def note(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(error)

    try:
        for sent, each in enumerate(messages, 1):  # noqa: B007  it is the number of messages
            while True:
                try:
                    producer.produce(topic, each.value, each.key, on_delivery=note, headers=list(each.headers))
                    break
                except BufferError:  # the client's queue is full
                    producer.poll(POLL_SECONDS)
            producer.poll(0)
            if refused:
                break
        with errors_of_the_client():
            left = producer.flush(FLUSH_SECONDS_MAX)
        if refused:
            raise KafkaException(refused[0])
        if left:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"{left} messages not acknowledged"))
    except KafkaException as error:
        fault = fault_of(error, settings.bootstrap_servers, doing, topic)
        raise reports.explain(fault) if isinstance(fault, BrokerUnreachable) else fault from error
    return sent


def messages_of(settings: KafkaSettings, topic: str, *, follow: bool) -> Iterator[ConsoleMessage]:
    """The messages of a topic from its beginning to its present end, or beyond for ever. Raises faults of Kafka."""
    partitions = {where.partition for where in Topics(settings).partitions([topic])}
    reports, doing = settings.reports(), f"reading the topic {topic}"
    config = {**settings.consumer_config(), "error_cb": reports.note}
    with closing(settings.outside.consumer(config)) as consumer:
        consumer.assign([ClientPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        unread, silent_s = set(partitions), 0.0
        while follow or unread:
            message = consumer.poll(POLL_SECONDS)
            if message is None:
                silent_s += POLL_SECONDS
                if unread and silent_s > SILENCE_SECONDS_MAX:
                    reason = f"no message and no end of partition {min(unread)} in {SILENCE_SECONDS_MAX:g} s"
                    raise reports.explain(BrokerUnreachable(settings.bootstrap_servers, doing, reason))
                continue
            silent_s = 0.0
            error = message.error()
            if error is None:
                yield _console_message(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                unread.discard(message.partition())
            elif error.code() not in NO_ANSWER:  # from those the client recovers by itself
                raise fault_of(KafkaException(error), settings.bootstrap_servers, doing, topic)


def _console_message(message: Message) -> ConsoleMessage:
    return ConsoleMessage(
        key=message.key(),
        value=message.value(),
        headers=tuple((name, value or b"") for name, value in message.headers() or ()),
        partition=message.partition(),
        offset=message.offset(),
        timestamp_ms=message.timestamp()[1],
    )
