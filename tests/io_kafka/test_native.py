"""Messages that are consumed without Python objects equal the client's objects, and so do its events and callbacks."""

from __future__ import annotations

import shutil
import sysconfig
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as ClientPartition

from io_kafka.clients import native
from io_kafka.clients.consumed import Consumed, ConsumerEvent, MessageSource, NativeSource, PlainSource
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics
from io_kafka.extras import TYPES, Extras
from io_kafka.formats import native_json
from io_kafka.native_switch import SWITCH
from io_kafka.offsets import TopicPartition

DEADLINE_SECONDS = 60

PASSING = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
)
"""What a client may tell of a topic that was made a moment ago, on a busy machine, before the error that is waited for."""

DOWN = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}

needs_native = pytest.mark.skipif(native.why_not() is not None, reason=str(native.why_not()))


@contextmanager
def source(kind: type[NativeSource] | type[PlainSource], consumer: Consumer) -> Iterator[MessageSource]:
    with closing(consumer), closing(kind(consumer)) as made:
        yield made


def until(found: Consumed, source: MessageSource, messages: int, ends: int) -> Consumed:
    """Takes until there are so many messages, and so many partitions' ends were told."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while sum(stretch.messages.length for stretch in found.stretches) < messages or len(_ends(found)) < ends:
        assert time.monotonic() < deadline, f"only {found}"
        more = source.take(1_000, 0.1)
        found.stretches.extend(more.stretches)
        found.events.extend(more.events)
    return found


def _ends(found: Consumed) -> dict[TopicPartition | None, int]:
    return {e.where: e.offset for e in found.events if e.error.code() == KafkaError._PARTITION_EOF}


def test_it_is_built_where_there_is_a_compiler() -> None:
    if shutil.which((sysconfig.get_config_var("CC") or "cc").split()[0]) is None:
        pytest.skip("no C compiler here")
    assert native.why_not() is None
    assert native_json.why_not() is None


@needs_native
def test_both_sources_give_the_same(settings: KafkaSettings, topic_prefix: str) -> None:
    """Nulls and empty values, two topics with two partitions each, an aborted transaction, ends."""
    topics = [Topics(settings).ensure(topic_prefix + name, 2).name for name in ("a", "b")]
    producer = Producer(settings.producer_config(f"test-{uuid.uuid4().hex}"))
    producer.init_transactions()
    texts: list[bytes | None] = [None, b"", b"x", b"y" * 100_000, b"\x00\xff"]
    for commits in (True, False, True):
        producer.begin_transaction()
        for name in topics:
            for partition in (0, 1):
                for key in texts[:3]:
                    for value in texts:
                        producer.produce(name, value, key, partition)
        producer.flush()
        _ = producer.commit_transaction() if commits else producer.abort_transaction()
    seen = []
    for kind in (NativeSource, PlainSource):
        consumer = Consumer(settings.consumer_config())
        consumer.assign([ClientPartition(name, partition, 0) for name in topics for partition in (0, 1)])
        with source(kind, consumer) as taken_from:
            found = until(Consumed([], []), taken_from, 120, 4)
        by_place: dict[TopicPartition, list[tuple[object, ...]]] = {}
        for where, stretch, *_ in found.stretches:
            rows = zip(*(column.to_pylist() for column in stretch), strict=True)
            by_place.setdefault(where, []).extend(rows)
        seen.append((by_place, _ends(found)))
        # A stretch that waits keeps its own messages in memory, and no other partition's.
        assert all(
            column.nbytes >= 0.9 * column.get_total_buffer_size()
            for _, stretch, *_ in found.stretches
            for column in stretch[1:]
        )
    assert seen[0] == seen[1]
    by_place, ends = seen[0]
    assert len(by_place) == 4 and set(ends.values()) == {3 * (15 + 1)}
    expected = [(key, value) for _ in range(2) for key in texts[:3] for value in texts]
    assert [(key, value) for key, value, _, _ in by_place[TopicPartition(topics[1], 1)]] == expected


@needs_native
@pytest.mark.parametrize("extras", [Extras.TIMESTAMPS, Extras.HEADERS])
def test_both_sources_give_the_same_timestamps_and_headers(
    settings: KafkaSettings, topic_prefix: str, extras: Extras
) -> None:
    """None, repeated names, nulls, empty values; over two partitions, whose messages come mixed, and cut into parts."""
    name = Topics(settings).ensure(topic_prefix + "in", 2).name
    first = round(1e3 * time.time())  # the broker soon deletes messages whose timestamps are older than its retention
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    headers: list[Any] = [None, [("a", b"1")], [("a", b"1"), ("a", None), ("", b""), ("\u00e9", b"\x00\xff" * 50)]]
    for number in range(60):
        producer.produce(name, b"v", partition=number % 2, headers=headers[number % 3], timestamp=first + number)
    producer.flush()
    seen: list[dict[TopicPartition, list[Any]]] = []
    for kind in (NativeSource, PlainSource):
        consumer = Consumer(settings.consumer_config())
        consumer.assign([ClientPartition(name, partition, 0) for partition in (0, 1)])
        with closing(consumer), closing(kind(consumer, extras)) as taken_from:
            found = until(Consumed([], []), taken_from, 60, 2)
        by_place: dict[TopicPartition, list[Any]] = {}
        for where, whole, first_ms, last_ms in found.stretches:
            stamps = whole.extras.field("timestamp")
            assert (first_ms, last_ms) == (stamps[0].as_py(), stamps[-1].as_py())
            assert whole.extras.type == TYPES[extras]
            one, other = whole.split(whole.offsets[whole.length // 2].as_py())
            assert one.content_bytes + other.content_bytes == whole.content_bytes == whole.content_sizes.sum()
            assert np.concatenate([one.content_sizes, other.content_sizes]).tolist() == whole.content_sizes.tolist()
            by_place.setdefault(where, []).extend(one.extras.to_pylist() + other.extras.to_pylist())
        seen.append(by_place)
    assert seen[0] == seen[1]
    for place, rows in seen[0].items():
        for at, row in enumerate(rows):
            number = 2 * at + place.partition
            assert (row["timestamp"], row["timestamp_type"]) == (first + number, 0)
            given = headers[number % 3]
            expected = None if given is None else [{"key": key, "value": value} for key, value in given]
            assert row.get("headers") == (expected if extras is Extras.HEADERS else None)


@needs_native
def test_an_error_is_an_event_with_its_place_and_reason(settings: KafkaSettings, topic_prefix: str) -> None:
    name = Topics(settings).ensure(topic_prefix + "in", 1).name
    said = []
    for kind in (NativeSource, PlainSource):
        consumer = Consumer(settings.consumer_config())
        consumer.assign([ClientPartition(name, 0, 77)])  # beyond the end, and no policy for that
        with source(kind, consumer) as taken_from:
            events: list[ConsumerEvent] = []
            deadline = time.monotonic() + DEADLINE_SECONDS
            while not events:
                assert time.monotonic() < deadline
                found = taken_from.take(10, 0.1).events
                events = [event for event in found if event.error.code() not in PASSING]
        said.append([(event.error.code(), event.where, event.error.str()) for event in events])
    assert said[0] == said[1]
    assert said[0][0][1] == TopicPartition(name, 0)


@needs_native
def test_produced_messages_are_consumed_unchanged(settings: KafkaSettings, topic_prefix: str) -> None:
    """Nulls, empty and large values, out of a slice of a larger array; with a header and without; a full queue is
    reported, and production goes on after a flush."""
    topic = Topics(settings).ensure(topic_prefix + "out", 2).name
    texts: list[bytes | None] = [b"left out", None, b"", b"x", b"y" * 100_000, b"\x00\xff"]
    keys = pa.array([*texts, *reversed(texts[1:])], pa.binary())[1:]
    values = pa.array([*texts, *texts[1:]], pa.binary())[1:]
    small = {**settings.producer_config(f"test-{uuid.uuid4().hex}"), "queue.buffering.max.messages": 4}
    producer = Producer(small)
    producer.init_transactions()
    producer.begin_transaction()
    columns, reached = native.Columns.of(keys, values), 0
    refusals = 0
    while reached < columns.rows:
        reached, code, text = native.produce(producer, TopicPartition(topic, 1), columns, reached, ("step", b"12"))
        if code:
            assert code == KafkaError._QUEUE_FULL and "full" in str(text).lower(), (code, text)
            refusals += 1
            producer.flush()
    assert native.produce(producer, TopicPartition(topic, 1), columns, 9, None) == (10, 0, None)
    producer.commit_transaction()
    assert refusals == 2
    found = []
    with closing(Consumer(settings.consumer_config())) as consumer:
        consumer.assign([ClientPartition(topic, 1, 0)])
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(found) < 11:
            assert time.monotonic() < deadline
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                found.append((message.key(), message.value(), message.headers()))
    expected = list(zip(keys.to_pylist(), values.to_pylist(), strict=True))
    assert found == [(k, v, [("step", b"12")]) for k, v in expected] + [(*expected[-1], None)]


@needs_native
def test_columns_that_do_not_fit_are_refused(settings: KafkaSettings) -> None:
    producer = Producer(settings.producer_config("test"))
    good = native.Columns.of(pa.array([b"a", b"b"]), pa.array([b"c", b"d"]))
    ends, present, octets = good.values
    for bad in (
        (ends[:2], present, octets),
        (ends, present[:1], octets),
        (ends, present, octets[:1]),
        (ends[::-1].copy(), present, octets),
    ):
        with pytest.raises(ValueError, match="of different lengths, or beyond"):
            native.produce(producer, TopicPartition("t", 0), native.Columns(good.keys, bad), 0, None)


@needs_native
@pytest.mark.parametrize("raises", [False, True])
def test_the_clients_callbacks_are_served(raises: bool) -> None:
    """They run within a call and need the interpreter's lock. An exception in one is raised by the call."""
    told = []
    is_taking = True

    def note(error: KafkaError) -> None:
        told.append(error.code())
        if raises and is_taking and error.code() in DOWN:  # closing the consumer serves callbacks too
            raise LookupError("from the callback")

    nobody = KafkaSettings.parse({"bootstrap.servers": "127.0.0.1:9"})
    consumer = Consumer({**nobody.consumer_config(), "error_cb": note})
    consumer.assign([ClientPartition("t", 0, 0)])
    with source(NativeSource, consumer) as taken_from:
        deadline = time.monotonic() + DEADLINE_SECONDS
        try:
            while not DOWN.intersection(told):
                assert time.monotonic() < deadline, f"nobody was told that there is no broker, but {told}"
                taken_from.take(10, 0.1)
            assert not raises
        except LookupError:
            assert raises
        is_taking = False
    assert DOWN.intersection(told)


@needs_native
def test_other_threads_run_while_it_waits(settings: KafkaSettings, topic_prefix: str) -> None:
    name = Topics(settings).ensure(topic_prefix + "in", 1).name
    consumer = Consumer(settings.consumer_config())
    consumer.assign([ClientPartition(name, 0, 0)])
    with source(NativeSource, consumer) as taken_from:
        until(Consumed([], []), taken_from, 0, 1)
        counted = []
        waits = threading.Event()

        def count() -> None:
            waits.wait()
            while waits.is_set():
                counted.append(1)

        other = threading.Thread(target=count)
        other.start()
        waits.set()
        try:
            assert not taken_from.take(1, 0.2)
            assert counted
        finally:
            waits.clear()
            other.join()


@needs_native
def test_a_closed_consumer_is_refused(settings: KafkaSettings) -> None:
    consumer = Consumer(settings.consumer_config())
    consumer.close()
    with pytest.raises(RuntimeError, match="closed"):
        NativeSource(consumer)


def test_it_serves_no_other_consumer_and_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not native.serves(object())
    native.why_not.cache_clear()
    monkeypatch.setenv(SWITCH, "0")
    assert native.why_not() == "STEPWELL_NATIVE is 0"
    monkeypatch.setenv(SWITCH, "1")
    native.why_not.cache_clear()
    monkeypatch.setattr("confluent_kafka.__version__", "2.99.0")
    assert "it is for confluent-kafka 2.16, and 2.99.0 is installed" in str(native.why_not())
    monkeypatch.undo()
    native.why_not.cache_clear()
    monkeypatch.setattr(native, "_librdkafka_version", lambda library: (3, 0))
    assert "it is for librdkafka 2.16, and confluent-kafka has loaded 3.0" in str(native.why_not())
    monkeypatch.undo()
    native.why_not.cache_clear()
    monkeypatch.setattr(native, "_HANDLE_BYTES_MIN", 1 << 20)
    assert "are smaller than it expects" in str(native.why_not())
    native.why_not.cache_clear()
