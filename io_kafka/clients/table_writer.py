"""Writes the rows of a batch table into a topic of their own while steps run, beside the pipeline's only writer.

Guarantees: after `write` has returned, the broker has every message that it was given, once and in order, and `ends` has the end of each
partition. Nothing of it counts before a record of the step log names the topic and these ends. So it needs no transaction and no fence: a run
that was fenced meanwhile writes into a topic that nobody else knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, Message

from io_kafka.clients.client_faults import fault_of
from io_kafka.clients.open_transaction import errors_of_the_client
from io_kafka.clients.settings import KafkaSettings
from io_kafka.errors import BrokerUnreachable, KafkaFault

if TYPE_CHECKING:
    from collections.abc import Iterator

FLUSH_SECONDS_MAX = 120.0
"""The time for one part of a table. A broker that restarts is back in seconds, a loaded one in a minute."""

ASK_SECONDS = 1.0
"""How often a flush that takes longer looks whether a message was refused."""


class NotAlone(KafkaFault):
    """Somebody else has written into the topic of a load."""


class TableWriter:
    """The writer of one load. `ends`: the end of each partition that has messages."""

    def __init__(self, settings: KafkaSettings, topic: str) -> None:
        self._servers, self._topic = settings.bootstrap_servers, topic
        self._reports = settings.reports()
        self._producer = settings.outside.producer({**settings.producer_config(None), "error_cb": self._reports.note})
        self.ends: dict[int, int] = {}
        self._refusal: tuple[KafkaError, int] | None = None
        self._stranger: tuple[int, int] | None = None

    def write(self, messages: Mapping[int, Sequence[bytes]]) -> None:
        """`messages`: by partition. Raises faults of Kafka."""
        with self._faults():
            for number, values in sorted(messages.items()):
                for value in values:
                    self._produce(number, value)
            self._flush()

    def _produce(self, number: int, value: bytes) -> None:
        try:
            self._producer.produce(self._topic, value, None, number, on_delivery=self._note)
        except BufferError:  # the client's queue is full: wait for all of it, then go on
            self._flush()
            self._producer.produce(self._topic, value, None, number, on_delivery=self._note)

    def _flush(self) -> None:
        waited_s, left = 0.0, 1
        while left and self._refusal is None and waited_s < FLUSH_SECONDS_MAX:
            with errors_of_the_client():
                left = self._producer.flush(ASK_SECONDS)
            waited_s += ASK_SECONDS
        if self._refusal is not None:
            error, number = self._refusal
            raise fault_of(KafkaException(error), self._servers, self._doing, self._topic, number)
        if self._stranger is not None:
            number, offset = self._stranger
            raise NotAlone(
                f"topic {self._topic!r} partition {number} offset {offset}: somebody else has written into the topic of a batch table.",
                "Only Stepwell may write to its topics. Find the writer, and try again: the table is loaded into another topic then.",
            )
        if left:
            error = KafkaError(KafkaError._TIMED_OUT, f"{left} messages not acknowledged")
            fault = fault_of(KafkaException(error), self._servers, self._doing)
            raise self._reports.explain(fault) if isinstance(fault, BrokerUnreachable) else fault

    def _note(self, error: KafkaError | None, message: Message) -> None:
        number, offset = int(message.partition() or 0), message.offset()
        if error is not None:
            self._refusal = self._refusal or (error, number)
            return
        assert offset is not None
        if offset != self.ends.get(number, 0):
            self._stranger = self._stranger or (number, self.ends.get(number, 0))
        self.ends[number] = offset + 1

    @property
    def _doing(self) -> str:
        return f"writing the rows of a batch table to the topic {self._topic}"

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            raise fault_of(error, self._servers, self._doing, self._topic) from error
