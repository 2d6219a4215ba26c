"""The three clients of confluent_kafka that the project uses, over the simulated broker.

Each call is one request or a few, with a point before it, between its parts and after it. What can go wrong between a client and a broker
is drawn there (`Net.fate`): a request that never arrives, one whose answer is lost, one that arrives long after its client gave up, a
connection that breaks and is restored, in which case the client sends again what it sent before.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, Protocol

from confluent_kafka import TIMESTAMP_CREATE_TIME, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from tests.simulator.broker import Broker, Outcome, Partition, Refused, Request, Where

_FENCES = (KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_ID_MAPPING)
_EARLIEST, _INVALID, _NO_OFFSET = -2, -1001, -1
_FENCED_TEXT = "fenced by a newer producer instance"


class Net(Protocol):
    """What lies between clients and the broker: the world."""

    broker: Broker
    rng: random.Random

    @property
    def now(self) -> float: ...
    def point(self, place: str) -> None: ...
    def pass_time(self, seconds: float) -> None: ...
    def fate(self, place: str, fates: Sequence[str]) -> str | None: ...
    def send_late(self, request: Request) -> None: ...
    def count(self, kind: str) -> None: ...
    def tell(self, what: str) -> None: ...
    def writer(self) -> object: ...


def kafka_error(code: int, reason: str = "", **flags: bool) -> KafkaException:
    return KafkaException(KafkaError(code, reason, **flags))


class Message:
    """As confluent_kafka's."""

    __slots__ = ("_error", "_headers", "_key", "_offset", "_partition", "_time_ms", "_topic", "_value")

    def __init__(
        self,
        where: Where | None,
        offset: int | None = None,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: tuple[tuple[str, bytes], ...] = (),
        *,
        time_ms: int = 0,
        error: KafkaError | None = None,
    ) -> None:
        self._topic, self._partition = where or (None, None)
        self._time_ms = time_ms
        self._offset, self._key, self._value, self._headers, self._error = offset, key, value, headers, error

    def topic(self) -> str | None:
        return self._topic

    def partition(self) -> int | None:
        return self._partition

    def offset(self) -> int | None:
        return self._offset

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> tuple[tuple[str, bytes], ...]:
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        return TIMESTAMP_CREATE_TIME, self._time_ms

    def error(self) -> KafkaError | None:
        return self._error


@dataclass
class _Queued:
    where: Where
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    report: Callable[[KafkaError | None, Message], None] | None


class Producer:
    """Transactional. `_spoilt`: an error after which only an abort is possible; `_fatal`: one after which nothing is."""

    def __init__(self, net: Net, config: Mapping[str, Any]) -> None:
        self._net = net
        self._id = str(config["transactional.id"])
        self._on_error: Callable[[KafkaError], None] = config.get("error_cb", lambda error: None)
        self._epoch: int | None = None
        self._queue: list[_Queued] = []
        self._begun = self._sent = False
        self._unanswered = False  # what is queued, until the transaction ends
        self._spoilt: KafkaError | None = None
        self._fatal: KafkaError | None = None
        self._fatal_untold = False  # the first call that serves callbacks raises it
        self._told: list[KafkaError] = []  # for `error_cb`, at the next call that serves callbacks
        self._writer: object = None

    def list_topics(self, topic: str, timeout: float = -1) -> None:
        """Only to have a connection."""

    def init_transactions(self, timeout: float = -1) -> None:
        net = self._net
        net.point("init")
        fate = net.fate("init", ("request lost", "answer lost"))
        if fate == "request lost":
            self._time_out(timeout, "init")
        _, self._epoch = net.broker.init(self._id)
        net.point("init, answered")
        if fate == "answer lost":
            self._time_out(timeout, "init")
        self._writer = net.writer()

    def begin_transaction(self) -> None:
        self._usable()
        if self._begun and self._spoilt is not None:
            raise KafkaException(self._spoilt)
        if self._epoch is None or self._begun:
            raise kafka_error(KafkaError._STATE, "not now")
        self._begun, self._sent, self._unanswered = True, False, False

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = 0,
        headers: Sequence[tuple[str, bytes]] = (),
        *,
        on_delivery: Callable[[KafkaError | None, Message], None] | None = None,
    ) -> None:
        if self._fatal is not None:
            raise kafka_error(KafkaError._FATAL, _FENCED_TEXT)
        if not self._begun:
            raise kafka_error(KafkaError._STATE, "no transaction")
        self._queue.append(_Queued((topic, partition), key, value, tuple(headers), on_delivery))

    def poll(self, timeout: float = 0) -> int:
        self._serve()
        return 0

    def flush(self, timeout: float = -1) -> int:
        """The number of messages that were not acknowledged."""
        net = self._net
        if self._unanswered and self._queue:  # the same wait, in another call
            net.pass_time(timeout)
            return len(self._queue)
        net.point("flush")
        fate = net.fate("flush", ("unanswered", "failed", "connection mended")) if self._queue else None
        if fate == "unanswered":
            self._unanswered = True
            self._send_late()
            net.pass_time(timeout)
            return len(self._queue)
        if fate == "failed":
            self._fail_all(KafkaError(KafkaError._MSG_TIMED_OUT, "no answer"))
            self._spoilt = KafkaError(KafkaError._MSG_TIMED_OUT, "no answer", txn_requires_abort=True)
        if fate == "connection mended":
            self._told.append(KafkaError(KafkaError._TRANSPORT, "connection lost"))
        self._send()
        self._serve()
        return 0

    def commit_transaction(self, timeout: float = -1) -> None:
        self._end("commit", timeout)

    def abort_transaction(self, timeout: float = -1) -> None:
        self._queue.clear()
        self._spoilt = None
        self._end("abort", timeout)

    def purge(self, *, blocking: bool = True) -> None:
        """What was handed over and not sent is forgotten; what is under way is not."""
        if self._queue and self._net.fate("purge", ("records arrive late",)):
            self._send_late()
        self._queue.clear()

    # Inside

    def _end(self, outcome: Outcome, timeout: float) -> None:
        net = self._net
        self._usable()
        if not self._begun:
            raise kafka_error(KafkaError._STATE, "no transaction")
        if outcome == "commit" and self._queue and self.flush(timeout):
            raise kafka_error(KafkaError._TIMED_OUT, "not all messages were sent", retriable=True)
        if self._spoilt is not None:
            raise KafkaException(self._spoilt)
        if self._sent:
            self._request_end(outcome, timeout)
        self._begun = self._sent = False
        net.point(f"{outcome}, answered")
        self._serve()

    def _request_end(self, outcome: Outcome, timeout: float) -> None:
        net, identifier, epoch = self._net, self._id, self._epoch
        assert epoch is not None
        net.point(outcome)
        fates = ("request lost", "answer lost", "late", "sent twice", "sent twice, answer lost")
        fate = net.fate(outcome, fates)
        if fate in ("late", "sent twice", "sent twice, answer lost"):
            net.send_late(
                Request(f"{outcome} of {identifier} epoch {epoch}", lambda: net.broker.end(identifier, epoch, outcome))
            )
        if fate is not None:
            self._told.append(KafkaError(KafkaError._TRANSPORT, "connection lost"))
        if fate not in ("request lost", "late"):
            self._ask(lambda: net.broker.end(identifier, epoch, outcome))
        if fate not in (None, "sent twice"):
            self._time_out(timeout, outcome)

    def _send(self) -> None:
        """Partition by partition, with a point between."""
        by_partition: dict[Where, list[_Queued]] = {}
        for queued in self._queue:
            by_partition.setdefault(queued.where, []).append(queued)
        for where, rows in by_partition.items():
            if self._fatal is not None:
                return
            self._send_partition(where, rows)
            self._queue = [queued for queued in self._queue if queued.where != where]
            self._net.point("sent")

    def _send_partition(self, where: Where, rows: list[_Queued]) -> None:
        net, epoch = self._net, self._epoch
        assert epoch is not None
        plain = [(queued.key, queued.value, queued.headers) for queued in rows]
        try:
            first = self._ask(
                lambda: net.broker.produce(self._id, epoch, where, plain, now=net.now, writer=self._writer)
            )
        except KafkaException as error:
            cause = error.args[0]
            if cause.fatal():
                self._fail_all(KafkaError(KafkaError._PURGE_QUEUE, "fenced"))
                self._serve()
            self._spoilt = cause
            for queued in rows:
                _report(queued, cause, None)
            return
        self._sent = True
        for index, queued in enumerate(rows):
            _report(queued, None, first + index)

    def _send_late(self) -> None:
        """A part of what is queued is under way, and arrives some time."""
        net, epoch, identifier, writer = self._net, self._epoch, self._id, self._writer
        if epoch is None or not self._queue:
            return
        where = self._queue[0].where
        rows = [(q.key, q.value, q.headers) for q in self._queue if q.where == where]
        self._sent = True

        def arrive() -> None:
            net.broker.produce(identifier, epoch, where, rows, now=net.now, writer=writer)

        net.send_late(Request(f"{len(rows)} records for {where[0]}/{where[1]}", arrive))

    def _fail_all(self, error: KafkaError) -> None:
        failed, self._queue = self._queue, []
        for queued in failed:
            _report(queued, error, None)

    def _ask(self, request: Callable[[], Any]) -> Any:
        try:
            return request()
        except Refused as refusal:
            if refusal.code in _FENCES:
                self._fatal, self._fatal_untold = KafkaError(KafkaError._FENCED, _FENCED_TEXT, fatal=True), True
                raise KafkaException(self._fatal) from None
            raise kafka_error(refusal.code, txn_requires_abort=True) from None

    def _usable(self) -> None:
        if self._fatal is not None:
            raise KafkaException(self._fatal)

    def _serve(self) -> None:
        if self._fatal_untold and self._fatal is not None:
            self._fatal_untold = False
            raise SystemError("a callback failed") from KafkaException(self._fatal)  # as confluent_kafka does
        told, self._told = self._told, []
        for error in told:
            self._on_error(error)

    def _time_out(self, seconds: float, what: str) -> None:
        self._net.pass_time(seconds)
        self._serve()
        raise kafka_error(KafkaError._TIMED_OUT, f"{what} timed out", retriable=self._net.rng.random() < 0.5)


def _report(queued: _Queued, error: KafkaError | None, offset: int | None) -> None:
    if queued.report is not None:
        queued.report(error, Message(queued.where, offset))


class Consumer:
    """With an event at the end of a partition. It reads with read_committed only; with read_uncommitted it can tell the high watermark."""

    def __init__(self, net: Net, config: Mapping[str, Any]) -> None:
        assert config["enable.partition.eof"]
        self._net, self._is_committed = net, config["isolation.level"] == "read_committed"
        self._next: dict[Where, int] = {}  # the offset to fetch
        self._position: dict[Where, int] = {}  # as the application is told
        self._ended: dict[Where, int] = {}  # the end that was told last

    def assign(self, partitions: Iterable[ClientPartition]) -> None:
        self._next.clear()
        self.incremental_assign(partitions)

    def incremental_assign(self, partitions: Iterable[ClientPartition]) -> None:
        assert self._is_committed
        for place in partitions:
            where = (place.topic, place.partition)
            self._next[where] = 0 if place.offset == _EARLIEST else place.offset
            self._position[where] = _INVALID
            self._ended.pop(where, None)

    def incremental_unassign(self, partitions: Iterable[ClientPartition]) -> None:
        for place in partitions:
            del self._next[place.topic, place.partition]

    def position(self, partitions: Iterable[ClientPartition]) -> list[ClientPartition]:
        return [ClientPartition(p.topic, p.partition, self._position[p.topic, p.partition]) for p in partitions]

    def poll(self, timeout: float = 0) -> Message | None:
        found = self.consume(1, timeout)
        return found[0] if found else None

    def consume(self, num_messages: int, timeout: float = 0) -> list[Message]:
        net = self._net
        net.point("fetch")
        if net.fate("fetch", ("connection lost",)):
            return [Message(None, error=KafkaError(KafkaError._TRANSPORT, "connection lost"))]
        wanted = num_messages if net.rng.random() < 0.8 else 1 + net.rng.randrange(num_messages)
        found = self._fetch(wanted)
        if not found and timeout > 0:
            net.pass_time(timeout)
            found = self._fetch(wanted)
        return found

    def get_watermark_offsets(
        self, place: ClientPartition, timeout: float = 0, *, cached: bool = False
    ) -> tuple[int, int]:
        net = self._net
        net.point("watermarks")
        if net.fate("watermarks", ("no answer",)):
            net.pass_time(timeout)
            raise kafka_error(KafkaError._TRANSPORT, "connection lost")
        partition = _partition(net, (place.topic, place.partition))
        return partition.begin, partition.stable if self._is_committed else partition.end

    def close(self) -> None:
        self._next.clear()

    def _fetch(self, most: int) -> list[Message]:
        found: list[Message] = []
        for where in list(self._next):
            partition = _partition(self._net, where)
            at, stable = self._next[where], partition.stable
            if not partition.begin <= at <= partition.end:
                error = KafkaError(KafkaError._AUTO_OFFSET_RESET, f"offset {at} is not there")
                found.append(Message(where, at, error=error))
                continue
            while at < stable and len(found) < most:
                entry = partition.entries[at]
                at += 1
                if entry.is_committed:
                    found.append(Message(where, at - 1, entry.key, entry.value, entry.headers, time_ms=entry.time_ms))
                    self._position[where] = at
            self._next[where] = at
            if at == stable and len(found) < most and self._ended.get(where) != at:
                self._ended[where] = at
                found.append(Message(where, at, error=KafkaError(KafkaError._PARTITION_EOF)))
        return found


def _partition(net: Net, where: Where) -> Partition:
    try:
        return net.broker.partition(where)
    except Refused as refusal:
        raise kafka_error(refusal.code) from None


class _Answer:
    """A future that is there already."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        self._ask = ask

    def result(self, timeout: float | None = None) -> Any:
        return self._ask()


class AdminClient:
    def __init__(self, net: Net, config: Mapping[str, Any]) -> None:
        self._net = net

    def poll(self, timeout: float = 0) -> int:
        """Nothing is reported beside the calls."""
        return 0

    def describe_topics(
        self, topics: Any, *, include_authorized_operations: bool = False, request_timeout: float = 0
    ) -> dict[str, _Answer]:
        self._request("describe", request_timeout)

        def facts(name: str) -> Any:
            topic = self._net.broker.topics.get(name)
            if topic is None:
                raise kafka_error(KafkaError.UNKNOWN_TOPIC_OR_PART)
            partitions = [SimpleNamespace(id=number) for number in range(len(topic.partitions))]
            return SimpleNamespace(topic_id=topic.topic_id, partitions=partitions, authorized_operations=None)

        return {name: _Answer(partial(facts, name)) for name in topics.topic_names}

    def list_topics(self, timeout: float = 0) -> Any:
        self._request("list topics", timeout)
        return SimpleNamespace(topics=dict.fromkeys(self._net.broker.topics))

    def describe_configs(self, resources: Iterable[Any], request_timeout: float = 0) -> dict[Any, _Answer]:
        def config(name: str) -> dict[str, Any]:
            found = self._net.broker.topics[name].config
            return {key: SimpleNamespace(name=key, value=value) for key, value in found.items()}

        return {resource: _Answer(partial(config, resource.name)) for resource in resources}

    def create_topics(
        self, topics: Iterable[Any], operation_timeout: float = 0, request_timeout: float = 0
    ) -> dict[str, _Answer]:
        self._request("create topic", request_timeout)

        def create(new: Any) -> None:
            try:
                self._net.broker.create(new.topic, new.num_partitions, new.config)
            except Refused as refusal:
                raise kafka_error(refusal.code) from None

        return {new.topic: _Answer(partial(create, new)) for new in topics}

    def list_offsets(
        self, asked: Mapping[ClientPartition, Any], isolation_level: Any = None, request_timeout: float = 0
    ) -> dict[ClientPartition, _Answer]:
        self._request("list offsets", request_timeout)
        committed = str(isolation_level).endswith("READ_COMMITTED")

        def offset(place: ClientPartition, spec: Any) -> Any:
            where = place.topic, place.partition
            partition = _partition(self._net, where)
            match type(spec).__name__:
                case "EarliestSpec":
                    return SimpleNamespace(offset=partition.begin)
                case "TimestampSpec":
                    since = self._net.broker.since(where, spec._value)
                    return SimpleNamespace(offset=_NO_OFFSET if since is None else since)
                case _:
                    return SimpleNamespace(offset=partition.stable if committed else partition.end)

        return {p: _Answer(partial(offset, p, spec)) for p, spec in asked.items()}

    def delete_records(
        self, asked: Iterable[ClientPartition], operation_timeout: float = 0, request_timeout: float = 0
    ) -> dict[ClientPartition, _Answer]:
        self._request("delete records", request_timeout)

        def delete(place: ClientPartition) -> None:
            partition = _partition(self._net, (place.topic, place.partition))
            partition.begin = max(partition.begin, place.offset)

        return {place: _Answer(partial(delete, place)) for place in asked}

    def _request(self, what: str, timeout: float) -> None:
        net = self._net
        net.point(what)
        if net.fate("admin", ("no answer",)):
            net.pass_time(timeout)
            raise kafka_error(KafkaError._TRANSPORT, "connection lost")
