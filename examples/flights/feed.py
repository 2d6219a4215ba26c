"""The thread that sends the messages while the service runs.

It stays at most AHEAD_MESSAGES_MAX ahead of what the service has read, so that corrections meet flights that were counted already. It continues
while the service is dead. It stops at the gate until the gate is opened, so that there is something to read after the crash.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from confluent_kafka import KafkaException, Producer

from examples.flights.data import Message

AHEAD_MESSAGES_MAX = 60_000
"""The input of three steps. The service never waits for input, and never finds all of it waiting."""

BATCH_MESSAGES = 1000
"""Messages sent between two checks of how far the service is."""

FLUSH_SECONDS_MAX = 30.0


class Sender:
    """Sends messages, each once. `count`: how many Kafka has acknowledged."""

    def __init__(self, servers: str) -> None:
        # Kafka's Java client places a key by murmur2. What matters is that a key stays in one partition.
        config = {"bootstrap.servers": servers, "partitioner": "murmur2_random", "linger.ms": 20}
        # A broker may be killed. With idempotence each message is there once and in order all the same.
        config["enable.idempotence"] = True
        # Failures arrive as errors of messages. The client's own log lines would break the progress bar.
        self._producer = Producer({**config, "log_level": 0})
        self.count = 0

    def send(self, message: Message) -> None:
        while True:
            try:
                self._producer.produce(message.topic, message.value, message.key, on_delivery=self._delivered)
                return
            except BufferError:
                self._producer.poll(0.1)

    def flush(self) -> None:
        left = self._producer.flush(FLUSH_SECONDS_MAX)
        assert left == 0, f"{left} messages were not sent within {FLUSH_SECONDS_MAX:g} s"

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            raise KafkaException(error)
        self.count += 1


class Feed(threading.Thread):
    """`sent`: the number of messages handed to Kafka. The caller reports with `service_has_read` how many the service has read."""

    def __init__(self, servers: str, messages: Iterable[Message], gate_at: int) -> None:
        super().__init__(name="feed", daemon=True)
        self._sender = Sender(servers)
        self._messages, self._gate_at = messages, gate_at
        self._changed = threading.Condition()
        self._read, self._open = 0, False
        self.sent = 0
        self.fault: BaseException | None = None

    def service_has_read(self, messages: int) -> None:
        with self._changed:
            self._read = messages
            self._changed.notify()

    def open_gate(self, next_at: int | None = None) -> None:
        """Lets the feed go on, up to the next gate; without one, to the end."""
        with self._changed:
            if next_at is None:
                self._open = True
            else:
                self._gate_at = next_at
            self._changed.notify()

    @property
    def at_gate(self) -> bool:
        return self.sent >= self._gate_at and not self._open

    def run(self) -> None:
        try:
            for count, message in enumerate(self._messages):
                if count % BATCH_MESSAGES == 0:
                    self._hand_over(count)
                self._sender.send(message)
            self._hand_over(count + 1)
        except BaseException as fault:
            self.fault = fault

    def _hand_over(self, count: int) -> None:
        self._sender.flush()
        self.sent = count
        with self._changed:
            self._changed.wait_for(self._may_go_on)

    def _may_go_on(self) -> bool:
        return self.sent - self._read < AHEAD_MESSAGES_MAX and (self._open or self.sent < self._gate_at)
