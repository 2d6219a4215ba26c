"""Reads the step log into a `StepLogState`.

Guarantees: it reads all committed records up to the last stable offset. That offset never lies inside a transaction, so
of a transaction the reader sees all records or none. A log that was emptied or cut short is an error, never a new log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from base.logger import Logger
from io_kafka.clients.broker_requests import ANSWER_SECONDS_MIN, FIRST_ANSWER_SECONDS, PASSING_SECONDS
from io_kafka.clients.client_faults import NO_ANSWER, NO_LEADER, OLD_EPOCH, UNKNOWN_TOPIC, fault_of
from io_kafka.clients.first_partition import EMPTY_THEM, foreign_partitions, warn_of_others, why_foreign
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import LARGE_MESSAGES, TopicFacts, Topics
from io_kafka.errors import BrokerUnreachable, KafkaFault, NotAuthorized, ReadDeadline, UnknownTopic
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.lost import LogOffsetGone, written_topics
from io_kafka.step_log.records import Record, decode
from io_kafka.step_log.state import StepLogState

_log = Logger("io_kafka.clients.step_log_reader")

LOG_CONFIG = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
"""The broker must never remove records by itself: only a truncation at a snapshot may do that."""

NEW_LOG_CONFIG = {**LOG_CONFIG, **LARGE_MESSAGES}
"""A record names every partition that a step reads or writes, at some 150 bytes each: with the default of 1 MiB a pipeline could write seven
thousand."""

READ_SECONDS_MAX = 60.0
"""The time for reading the whole log. A log of a million steps takes seconds, and a broker restarts well within this time."""

DECIDED_SECONDS_MAX = 10.0
"""How long a reader waits for the markers of transactions. A broker writes them within milliseconds after a commit; the transaction of a process
that has died may stay open for a minute, and nobody should wait for that."""

NEW_TOPIC_SECONDS_MAX = 10.0
"""How long a broker may not know a topic that another broker has. It learns of it within a second, even if it is busy."""

HIDDEN_SECONDS_MAX = 5.0
"""The time for the question whether a topic that is not found is only hidden. The broker has just answered."""

_BATCH_MESSAGES_MAX = 10_000
_POLL_SECONDS_MAX = 0.5

_FETCH_WAIT_MS = 5
"""The log ends with a transaction marker, which is never delivered, so the end is found by one more fetch, which is empty. By
default the broker delays its answer for half a second."""

_PASSING = {*NO_ANSWER, KafkaError._RESOLVE}
"""Errors from which a consumer recovers by itself. The deadline bounds the wait."""

_OF_NO_CONCERN = {KafkaError.GROUP_AUTHORIZATION_FAILED}
"""The client names a group and never uses it, so it does not matter whether it may."""

_ASK_AGAIN = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, *OLD_EPOCH, *NO_LEADER}
"""Errors after which the reader starts over: the log was truncated between the request for its offsets and the fetch, or the partition has
no leader while a broker restarts. It also starts over after those of _PASSING."""


A = TypeVar("A")


class UnsuitableStepLog(KafkaFault):
    """The topic exists, but its configuration would lose records, or it has others than a step log."""

    def __init__(self, topic: str, reason: str, what_to_do: str) -> None:
        self.topic = topic
        super().__init__(f"topic {topic!r} cannot be a step log: {reason}.", what_to_do)


class StepLogGone(UnknownTopic):
    """There is no step log: the pipeline never ran, or the topic was deleted."""

    def __init__(self, topic: str) -> None:
        super().__init__(topic)
        self.message = f"the step log {topic!r} does not exist on this broker."
        self.what_to_do = (
            f"If the pipeline never ran, run it. If the topic was deleted, restore it from a replica. Without one, delete {written_topics([])}, "
            "and rebuild all output with `stepwell run --full-refresh`."
        )


def ensure_step_log(topics: Topics, topic: str) -> TopicFacts:
    """The facts of the log's topic, which is created if it is missing. Raises UnsuitableStepLog if the topic could lose records, or holds
    some in other partitions than the first."""
    facts = topics.ensure(topic, 1, NEW_LOG_CONFIG)
    check_log_topic(topics, facts)
    warn_of_others(facts)
    return facts


def check_log_topic(topics: Topics, facts: TopicFacts) -> None:
    """Raises UnsuitableStepLog, which names all settings that are wrong."""
    wrong = [name for name, wanted in LOG_CONFIG.items() if facts.config.get(name, wanted) != wanted]
    if wrong:
        found = " and ".join(f"its {name} is {facts.config[name]}" for name in wrong)
        wanted = " and ".join(f"{name}={LOG_CONFIG[name]}" for name in wrong)
        raise UnsuitableStepLog(facts.name, f"{found}, so it loses records", f"Set {wanted} on it. Then run again.")
    if foreign := foreign_partitions(topics, facts):
        raise UnsuitableStepLog(facts.name, why_foreign(foreign), EMPTY_THEM)


class StepLogReader:
    """Reads the log up to its last stable offset. It does not fence anyone, so any command may use it during a run."""

    def __init__(self, settings: KafkaSettings, topic: str, *, timeout_s: float = READ_SECONDS_MAX) -> None:
        self._settings, self._topic, self._timeout_s = settings, topic, timeout_s
        self._reports = settings.reports()

    def read(self, *, is_known: bool = False) -> StepLogState:
        """The state of the whole log. `is_known`: some broker has the topic, so one that does not know it will soon learn of it."""
        return self.read_with(lambda state: False, is_known=is_known)[0]

    def read_with(
        self, is_wanted: Callable[[StepLogState], bool], *, is_known: bool = False
    ) -> tuple[StepLogState, StepLogState | None]:
        """The state of the whole log, and the first one on the way to it that is wanted, if there is one."""
        state: StepLogState | None = None

        def begin(low: int, end: int) -> int:
            nonlocal state
            if low == end > 0:
                raise LogOffsetGone(self._topic, 0, low, end)  # this is not a new log but an emptied one
            state = StepLogState(self._topic, low)
            return low

        records = self._records(begin, NEW_TOPIC_SECONDS_MAX if is_known else 0.0)
        assert state is not None
        wanted: StepLogState | None = None
        for offset, record in records:
            state = state.apply(record, offset)
            if wanted is None and is_wanted(state):
                wanted = state
        return state, wanted

    def read_tail(self, state: StepLogState, *, in_doubt: bool = False) -> tuple[StepLogState, list[Record]]:
        """The state with the records that were committed since, and these records in order.

        `in_doubt`: the log may seem to end before a transaction that is in `state` already. The broker acknowledges a commit before it
        writes the transaction's marker, and until then the last stable offset lies before the transaction. There is nothing to read then,
        and nothing is missing."""

        def begin(low: int, end: int) -> int:
            if in_doubt and low <= end < state.offset_next:
                return end
            if not low <= state.offset_next <= end:
                raise LogOffsetGone(self._topic, state.offset_next, low, end)
            return state.offset_next

        tail, after = self._records(begin), state
        for offset, record in tail:
            after = after.apply(record, offset)
        return after, [record for _, record in tail]

    def read_last(self, count: int) -> list[tuple[int, Record]]:
        """The last `count` records with their offsets, or fewer: the markers of transactions take offsets too."""
        return self._records(lambda low, end: max(low, end - count))

    def wait_decided(self) -> None:
        """Waits until all transactions are decided that the log holds now. A commit that was acknowledged is not seen by `read_tail` before
        its marker is in the log. Raises ReadDeadline."""
        outside = self._settings.outside
        high = self._end("read_uncommitted")
        deadline = outside.monotonic() + DECIDED_SECONDS_MAX
        while (stable := self._end("read_committed")) < high:
            if outside.monotonic() > deadline:
                why = "a transaction in the step log is neither committed nor aborted"
                where = TopicPartition(self._topic, 0)
                raise ReadDeadline(where, position=stable, end=high, deadline_s=DECIDED_SECONDS_MAX, reason=why)
            outside.sleep(PASSING_SECONDS)

    def _records(self, begin: Callable[[int, int], int], unknown_s: float = 0.0) -> list[tuple[int, Record]]:
        """Every committed record from the offset `begin(first offset held, last stable offset)` to that last stable offset. Later records are
        left out, because they may be half of a transaction. `unknown_s`: how long a broker may not know the topic."""
        return self._repeat(partial(self._records_now, begin), unknown_s)

    def _repeat(self, ask: Callable[[float, float], A], unknown_s: float = 0.0) -> A:
        """Does `ask(deadline, seconds for an answer)` again while what fails may pass."""
        outside = self._settings.outside
        began = outside.monotonic()
        patience_s = ANSWER_SECONDS_MIN if self._reports.has_answered else FIRST_ANSWER_SECONDS
        deadline = began + self._timeout_s
        while True:
            left_s = deadline - outside.monotonic()
            try:
                found = ask(deadline, min(patience_s, max(left_s, PASSING_SECONDS)))
            except KafkaException as error:
                code = error.args[0].code()
                if code in _PASSING and (refusal := self._reports.refusal()) is not None:
                    raise refusal from error
                is_new = code in UNKNOWN_TOPIC and outside.monotonic() - began < unknown_s
                if left_s <= PASSING_SECONDS or not (is_new or code in (*_ASK_AGAIN, *_PASSING)):
                    raise self._fault(error) from error
                if code in _PASSING:
                    patience_s *= 2
            else:
                self._reports.answered()
                return found
            outside.sleep(PASSING_SECONDS)

    def _records_now(
        self, begin: Callable[[int, int], int], deadline: float, answer_s: float
    ) -> list[tuple[int, Record]]:
        """Returns what `_records` returns. It uses a new client, which asks who leads the partition. An older client would not ask again if that
        broker died. `answer_s`: how long the answer about the offsets may take."""
        partition = ClientPartition(self._topic, 0)
        config = {**self._settings.consumer_config(), "fetch.wait.max.ms": _FETCH_WAIT_MS}
        with self._client(config) as consumer:
            low, end = consumer.get_watermark_offsets(partition, timeout=answer_s, cached=False)
            at = begin(low, end)
            consumer.assign([ClientPartition(self._topic, 0, at)])
            return self._consume(consumer, at, end, deadline)

    def _end(self, isolation_level: str) -> int:
        """The high watermark with read_uncommitted, and the last stable offset with read_committed."""
        partition = ClientPartition(self._topic, 0)
        config = {**self._settings.consumer_config(), "isolation.level": isolation_level}

        def ask(_: float, answer_s: float) -> int:
            with self._client(config) as consumer:
                return int(consumer.get_watermark_offsets(partition, timeout=answer_s, cached=False)[1])

        return self._repeat(ask)

    @contextmanager
    def _client(self, config: Mapping[str, Any]) -> Iterator[Consumer]:
        """A consumer of its own for the body. If it fails, the reasons that the client knows are in the reports."""
        with closing(self._settings.outside.consumer({**config, "error_cb": self._reports.note})) as consumer:
            try:
                yield consumer
            except KafkaException:
                consumer.poll(0)  # serves the callback
                raise

    def _consume(self, consumer: Consumer, at: int, end: int, deadline: float) -> list[tuple[int, Record]]:
        found: list[tuple[int, Record]] = []
        while at < end:
            if self._settings.outside.monotonic() > deadline:
                where, why = TopicPartition(self._topic, 0), "the step log has to be read whole"
                raise ReadDeadline(where, position=at, end=end, deadline_s=self._timeout_s, reason=why)
            for message in _next_messages(consumer):
                error = message.error()
                if error is None:
                    at = message.offset() + 1
                    if message.offset() < end:
                        found.append((message.offset(), decode(message.value(), self._topic, message.offset())))
                elif error.code() == KafkaError._PARTITION_EOF:
                    at = message.offset()  # this is beyond the markers, which are never delivered
                elif not error.retriable() and error.code() not in {*_PASSING, *_OF_NO_CONCERN}:
                    raise KafkaException(error)
        return found

    def _fault(self, error: KafkaException) -> KafkaFault:
        doing = f"reading the step log {self._topic!r}"
        fault = fault_of(error, self._settings.bootstrap_servers, doing, self._topic, 0)
        if isinstance(fault, BrokerUnreachable):
            return self._reports.explain(fault)
        return self._gone_or_hidden() if isinstance(fault, UnknownTopic) else fault

    def _gone_or_hidden(self) -> KafkaFault:
        """A consumer does not distinguish a topic that is not there from one that its user may not see."""
        try:
            Topics(self._settings, timeout_s=HIDDEN_SECONDS_MAX).allowed_operations(self._topic)
        except NotAuthorized as hidden:
            return hidden
        except UnknownTopic:
            return StepLogGone(self._topic)
        except KafkaFault as fault:
            _log.debug("it is not known whether the step log is hidden", fault=fault.message)
        return StepLogGone(self._topic)


def _next_messages(consumer: Consumer) -> list[Message]:
    """The messages that have arrived, after waiting for the first one. `consume` alone would wait for a full batch."""
    first = consumer.poll(_POLL_SECONDS_MAX)
    return [] if first is None else [first, *consumer.consume(_BATCH_MESSAGES_MAX, timeout=0)]
