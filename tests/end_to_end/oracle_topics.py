"""What an outsider reads from Kafka: committed messages, in order, and how far the step log can be read at a moment."""

from __future__ import annotations

import json
import time
from contextlib import closing
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

STEP_HEADER = "stepwell.step"

READ_SECONDS_MAX = 60.0
"""To read to an end that is known; a broker that was killed meanwhile is back well within it."""
LOOK_SECONDS = 0.05
PASSING = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE}
"""The client gets over these; they are seen where a broker is killed."""
UNSETTLED = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    *PASSING,
}
"""And these are passing where a topic is made."""

Place = tuple[str, int]
"""Topic and partition."""
Ends = dict[Place, int]


class Message(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]

    @property
    def step(self) -> int:
        """-1: it names none."""
        return int(dict(self.headers).get(STEP_HEADER, b"-1"))


Messages = dict[Place, list[Message]]


WATCHING_MS, READING_MS = 50, 5
"""How long a broker keeps a question for new messages if there are none. One that watches would otherwise ask it 200 times per second."""


def open_consumer(servers: str, wait_ms: int) -> Consumer:
    consumer = Consumer({
        "bootstrap.servers": servers, "group.id": "oracle", "isolation.level": "read_committed", "enable.auto.commit": False,
        "enable.partition.eof": True, "auto.offset.reset": "error", "fetch.wait.max.ms": wait_ms, "fetch.queue.backoff.ms": 2,
    })  # fmt: skip
    # One that is assigned before it knows its broker waits half a second.
    consumer.list_topics(timeout=READ_SECONDS_MAX)
    return consumer


def arrived(consumer: Consumer) -> list[Any]:
    """What is there, after a short wait for the first: `consume` alone waits for a full batch."""
    first = consumer.poll(LOOK_SECONDS)
    return [] if first is None else [first, *consumer.consume(10_000, timeout=0)]


def read(servers: str, ends: Ends) -> Messages:
    """Every committed message below these ends, by partition, in order."""
    found: Messages = {place: [] for place in ends}
    deadline = time.monotonic() + READ_SECONDS_MAX
    with closing(open_consumer(servers, READING_MS)) as consumer:
        open_places = {place for place, end in ends.items() if end > 0}
        consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in open_places])
        while open_places:
            assert time.monotonic() < deadline, f"no end of {sorted(open_places)} in {READ_SECONDS_MAX} s"
            for message in arrived(consumer):
                place = (message.topic(), message.partition())
                if is_content(message):
                    if message.offset() < ends[place]:
                        found[place].append(to_message(message))
                elif message.error().code() == KafkaError._PARTITION_EOF and message.offset() >= ends[place]:
                    open_places.discard(place)
    return found


class LogTail:
    """The step log as far as it can be read at one moment after another."""

    def __init__(self, servers: str, log: Place) -> None:
        self._log, self._at = TopicPartition(*log, OFFSET_BEGINNING), 0
        self._consumer = open_consumer(servers, WATCHING_MS)
        self._consumer.assign([self._log])
        self.close = self._consumer.close

    def divisions(self) -> set[int]:
        """The steps of those that can be read now and could not the last time."""
        deadline = time.monotonic() + READ_SECONDS_MAX
        end, found = self._end(deadline), set[int]()
        while self._at < end:
            assert time.monotonic() < deadline, f"the step log does not come to {end}"
            for message in arrived(self._consumer):
                if is_content(message):
                    record = json.loads(message.value())
                    found |= {record["step"]} if record["kind"] == "division" else set()
                    self._at = message.offset() + 1
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    self._at = message.offset()
        return found

    def _end(self, deadline: float) -> int:
        while True:
            try:
                return self._consumer.get_watermark_offsets(self._log, timeout=1.0, cached=False)[1]
            except KafkaException as error:  # of a broker that was killed, or a topic that was made, just now
                if error.args[0].code() not in UNSETTLED or time.monotonic() > deadline:
                    raise


def is_content(message: Any) -> bool:
    """Not an end of a partition, nor an error that passes; raises others."""
    error = message.error()
    if error is None:
        return True
    if error.code() not in {KafkaError._PARTITION_EOF, *PASSING} and not error.retriable():
        raise KafkaException(error)
    return False


def is_gone(message: Any) -> bool:
    """The partition no longer has the offset that is to be read."""
    error = message.error()
    return error is not None and error.code() in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}


def to_message(message: Any) -> Message:
    headers = tuple((name, value) for name, value in message.headers() or ())
    return Message(message.offset(), message.key(), message.value(), headers)


def at(place: Place) -> str:
    return f"{place[0]}/{place[1]}"
