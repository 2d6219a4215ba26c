"""Ranges are read exactly, on a real broker: markers, aborted records, other places, faults."""

from __future__ import annotations

import gc
import multiprocessing
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

import io_kafka.clients.positioned_consumer as consumer_module
import io_kafka.clients.reader as reader_module
from io_kafka.broker.local import LocalBroker
from io_kafka.clients import consumed
from io_kafka.clients.raw import RawBatch, raw_batch
from io_kafka.clients.reader import RangeReader
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics
from io_kafka.errors import OffsetGone, ReadDeadline, StepTooLarge, UnknownTopic
from io_kafka.extras import TYPES, Extras
from io_kafka.messages import Messages
from io_kafka.offsets import OffsetRange, TopicPartition
from tests.io_kafka.ways import IN_BOTH_WAYS

pytestmark = pytest.mark.usefixtures("way")


@pytest.fixture
def reader(settings: KafkaSettings) -> Iterator[RangeReader]:
    made = RangeReader(settings)
    yield made
    made.close()


@pytest.fixture
def topic(settings: KafkaSettings, topic_prefix: str) -> str:
    return Topics(settings).ensure(topic_prefix + "in", 3).name


class Transactions:
    """A producer whose transactions are written down; `offset` counts what each takes in partition 0."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.producer = Producer(settings.producer_config(f"test-{uuid.uuid4().hex}"))
        self.producer.init_transactions()

    def put(self, topic: str, values: list[bytes | None], *, partition: int = 0, commit: bool = True) -> None:
        self.producer.begin_transaction()
        for value in values:
            self.producer.produce(topic, value, key=b"key of " + (value or b"nothing"), partition=partition)
        self.producer.flush()
        if commit:
            self.producer.commit_transaction()
        else:
            self.producer.abort_transaction()


@pytest.fixture
def transactions(settings: KafkaSettings) -> Transactions:
    return Transactions(settings)


def await_end(settings: KafkaSettings, topic: str, partition: int, end: int) -> None:
    """A commit is acknowledged before its markers are in the partitions."""
    topics, where = Topics(settings), TopicPartition(topic, partition)

    def reached() -> None:
        found = topics.end_offsets_of([where])[where]
        assert found <= end, f"expected {end} offsets, found {found}"
        if found < end:
            raise TimeoutError(f"{found} of {end}")

    retry = retry_if_exception_type(TimeoutError)
    tries: Retrying = Retrying(retry=retry, wait=wait_fixed(0.02), stop=stop_after_delay(60), reraise=True)
    tries(reached)


def rows(batch: RawBatch) -> list[tuple[int, bytes | None]]:
    batch.check()
    return list(zip(batch.messages.offsets.to_pylist(), batch.messages.values.to_pylist(), strict=True))


@IN_BOTH_WAYS
def test_markers_and_aborted_records_take_offsets_and_yield_nothing(
    settings: KafkaSettings, reader: RangeReader, topic: str, transactions: Transactions
) -> None:
    transactions.put(topic, [b"a", b"b"])  # 0 1, marker 2
    transactions.put(topic, [b"x", b"y"], commit=False)  # 3 4, marker 5
    transactions.put(topic, [b"c"])  # 6, marker 7
    transactions.put(topic, [b"z"], commit=False)  # 8, marker 9
    await_end(settings, topic, 0, 10)
    expected = {0: b"a", 1: b"b", 6: b"c"}
    for start in range(11):
        for end in range(start, 11):
            (batch,) = reader.read([OffsetRange(topic, 0, start, end)])
            assert rows(batch) == [(at, value) for at, value in expected.items() if start <= at < end]
            assert batch.range == OffsetRange(topic, 0, start, end)


@IN_BOTH_WAYS
def test_a_range_tells_the_times_of_its_messages(settings: KafkaSettings, reader: RangeReader, topic: str) -> None:
    """Of a part of a delivery, the oldest is never too young."""
    first = round(1e3 * time.time())
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    for number in range(10):
        producer.produce(topic, b"v", partition=0, timestamp=first + 10 * number)
    producer.flush()
    (whole,) = reader.read([OffsetRange(topic, 0, 0, 10)])
    assert whole.times == (first, first + 90)
    for start, end in ((0, 3), (3, 10)):
        (batch,) = reader.read([OffsetRange(topic, 0, start, end)])
        assert batch.times is not None
        assert batch.times.oldest_ms <= first + 10 * start and batch.times.newest_ms <= first + 10 * (end - 1)
    (nothing,) = reader.read([OffsetRange(topic, 0, 4, 4)])
    assert nothing.times is None


@IN_BOTH_WAYS
def test_neighbouring_ranges_follow_each_other(
    settings: KafkaSettings, reader: RangeReader, topic: str, transactions: Transactions
) -> None:
    seen: list[tuple[int, bytes | None]] = []
    end = 0
    for step in range(6):
        committed = step % 3 != 1
        transactions.put(topic, [b"%d" % step] * 4, commit=committed)
        await_end(settings, topic, 0, end + 5)
        for cut in (end + 2, end + 5):
            (batch,) = reader.read([OffsetRange(topic, 0, end, cut)])
            seen += rows(batch)
            end = cut
    assert seen == [(5 * s + i, b"%d" % s) for s in range(6) if s % 3 != 1 for i in range(4)]


@IN_BOTH_WAYS
def test_keys_values_and_tombstones(
    settings: KafkaSettings, reader: RangeReader, topic: str, transactions: Transactions
) -> None:
    transactions.producer.begin_transaction()
    for key, value in [(b"k", b"v"), (b"k", None), (None, b"v"), (b"", b""), (None, None), (b"\x00\xff", b"\x00")]:
        transactions.producer.produce(topic, value, key=key, partition=0)
    transactions.producer.commit_transaction()
    await_end(settings, topic, 0, 7)
    (batch,) = reader.read([OffsetRange(topic, 0, 0, 7)])
    keys, values, offsets, _ = batch.messages
    assert keys.to_pylist() == [b"k", b"k", None, b"", None, b"\x00\xff"]
    assert values.to_pylist() == [b"v", None, b"v", b"", None, b"\x00"]
    assert (keys.type, values.type, offsets.type) == (pa.binary(), pa.binary(), pa.int64())


@IN_BOTH_WAYS
def test_many_partitions_at_once_more_than_fit_one_call(
    settings: KafkaSettings, reader: RangeReader, topic: str, transactions: Transactions
) -> None:
    counts = {0: 25_000, 1: 3, 2: 12_000}
    for partition, count in counts.items():
        transactions.put(topic, [b"%d" % i for i in range(count)], partition=partition)
        await_end(settings, topic, partition, count + 1)
    ranges = [OffsetRange(topic, p, 0, c + 1) for p, c in counts.items()]
    assert [batch.messages.length for batch in reader.read(ranges)] == list(counts.values())
    # Partition 0 runs far ahead while the others are read again; its place is given up, and the rest still comes.
    halves = [OffsetRange(topic, 0, 0, 10), OffsetRange(topic, 2, 0, 12_000)]
    first, second = reader.read(halves)
    assert rows(first) == [(i, b"%d" % i) for i in range(10)]
    assert second.messages.values.to_pylist() == [b"%d" % i for i in range(12_000)]
    (rest,) = reader.read([OffsetRange(topic, 0, 10, 25_001)])
    assert rows(rest) == [(i, b"%d" % i) for i in range(10, 25_000)]


@IN_BOTH_WAYS
def test_partitions_of_equal_number_in_two_topics_are_kept_apart(
    settings: KafkaSettings, reader: RangeReader, topic: str, topic_prefix: str, transactions: Transactions
) -> None:
    other = Topics(settings).ensure(topic_prefix + "other", 1).name
    for name in (topic, other):
        transactions.put(name, [name.encode()] * 300)
        await_end(settings, name, 0, 301)
    for batch in reader.read([OffsetRange(topic, 0, 0, 301), OffsetRange(other, 0, 0, 301)]):
        assert rows(batch) == [(i, batch.range.topic.encode()) for i in range(300)]


@IN_BOTH_WAYS
def test_neighbours_of_one_number_and_two_topics_in_one_delivery_are_kept_apart(
    settings: KafkaSettings, topic: str, topic_prefix: str, transactions: Transactions
) -> None:
    other = Topics(settings).ensure(topic_prefix + "other", 1).name
    held = consumer_module.PositionedConsumer(settings)
    held.move_to([OffsetRange(name, 0, 0, 3) for name in (topic, other)])
    consumer = Consumer(settings.consumer_config())
    consumer.assign([ClientPartition(name, 0, 0) for name in (topic, other)])
    for name in (topic, other):
        transactions.put(name, [b"a", b"b", b"c"])
    messages: list[Message] = []
    deadline = time.monotonic() + 60
    while len(messages) < 6:
        assert time.monotonic() < deadline, "the messages did not come"
        messages += [message for message in consumer.consume(6, 0.2) if message.error() is None]
    messages.sort(key=lambda message: (message.offset(), message.topic() != topic))
    runs = [(where.topic, [message.value() for message in run]) for where, run in consumed._stretches(messages)]
    assert runs == [(name, [value]) for value in (b"a", b"b", b"c") for name in (topic, other)]
    consumer.close()
    held.close()


def test_empty_ranges_send_no_request() -> None:
    nobody = RangeReader(KafkaSettings.parse({"bootstrap.servers": "127.0.0.1:9"}), stall_s=0)
    (batch,) = nobody.read([OffsetRange("t", 0, 5, 5)])
    assert rows(batch) == []
    assert nobody.read([]) == []
    nobody.close()


@IN_BOTH_WAYS
def test_reading_again_gives_the_same_checksum_and_other_bytes_another(
    settings: KafkaSettings, reader: RangeReader, topic: str, transactions: Transactions
) -> None:
    transactions.put(topic, [b"ab", b"", None])
    await_end(settings, topic, 0, 4)
    span = OffsetRange(topic, 0, 0, 4)
    (first,), (second,) = reader.read([span]), RangeReader(settings).read([span])
    assert first.checksum == second.checksum
    k, v, o, _ = first.messages
    others = [
        raw_batch(span, Messages.plain(k, pa.array([b"a", b"b", None], pa.binary()), o)),
        raw_batch(span, Messages.plain(k, pa.array([b"ab", None, b""], pa.binary()), o)),
        raw_batch(span, Messages.plain(v, k, o)),
        raw_batch(span, Messages.plain(k, v, pa.array([0, 1, 3]))),
        raw_batch(OffsetRange(topic, 0, 0, 5), Messages.plain(k, v, o)),
    ]
    assert len({batch.checksum for batch in [first, *others]}) == 6
    # what is read besides counts too
    headers = [None, [{"key": "a", "value": b"b"}], [{"key": "ab", "value": None}]]
    read: list[Any] = [
        [{"timestamp": 1, "timestamp_type": 0, "headers": each} for each in headers],
        [{"timestamp": 2, "timestamp_type": 0, "headers": each} for each in headers],
        [{"timestamp": 1, "timestamp_type": 1, "headers": each} for each in headers],
        [{"timestamp": 1, "timestamp_type": 0, "headers": each} for each in reversed(headers)],
        [{"timestamp": 1, "timestamp_type": 0, "headers": None} for _ in headers],
    ]
    extras = [pa.array(each, TYPES[Extras.HEADERS]) for each in read]
    extras.append(pa.array(read[0], TYPES[Extras.TIMESTAMPS]))
    assert len({raw_batch(span, Messages(k, v, o, each)).checksum for each in extras} | {first.checksum}) == 7
    for each in (batch := raw_batch(span, Messages(k, v, o, pa.concat_arrays(extras[:2])[3:]))), first:
        each.check()
    assert batch.checksum == raw_batch(span, Messages(k, v, o, extras[1])).checksum
    # a slice, whose buffers begin elsewhere, counts by its content
    longer = pa.array([b"before", b"ab", b"", None], pa.binary())
    assert raw_batch(span, Messages.plain(k, longer[1:], o)).checksum == first.checksum


@IN_BOTH_WAYS
def test_an_open_transaction_stops_a_reader_at_the_last_stable_offset(
    settings: KafkaSettings, topic: str, transactions: Transactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactions.put(topic, [b"a"])
    await_end(settings, topic, 0, 2)
    still = Transactions(settings).producer
    still.begin_transaction()
    still.produce(topic, b"open", partition=0)
    still.flush()
    monkeypatch.setattr(reader_module, "SHORT_LOG_SECONDS_MAX", 0.2)
    impatient = RangeReader(settings)
    assert rows(impatient.read([OffsetRange(topic, 0, 0, 2)])[0]) == [(0, b"a")]
    with pytest.raises(OffsetGone, match=r"partition 0: offset 3 .*\[0, 2\)"):
        impatient.read([OffsetRange(topic, 0, 0, 3)])
    still.commit_transaction()
    await_end(settings, topic, 0, 4)
    assert rows(impatient.read([OffsetRange(topic, 0, 0, 3)])[0]) == [(0, b"a"), (2, b"open")]


@IN_BOTH_WAYS
def test_expired_messages_are_an_error_that_names_them(
    settings: KafkaSettings, reader: RangeReader, topic: str, transactions: Transactions
) -> None:
    transactions.put(topic, [b"%d" % i for i in range(10)])
    await_end(settings, topic, 0, 11)
    admin = AdminClient(settings.admin_config())
    for deleted in admin.delete_records([ClientPartition(topic, 0, 6)]).values():
        deleted.result()
    with pytest.raises(OffsetGone, match=rf"{topic}' partition 0: offset 3 .*\[6, 11\).*retention") as caught:
        reader.read([OffsetRange(topic, 0, 3, 11)])
    assert (caught.value.begin, caught.value.end, caught.value.offset) == (6, 11, 3)
    assert rows(reader.read([OffsetRange(topic, 0, 6, 8)])[0]) == [(6, b"6"), (7, b"7")]


def test_a_topic_created_again_and_shorter_is_an_error(
    settings: KafkaSettings, topic: str, transactions: Transactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "SHORT_LOG_SECONDS_MAX", 0.2)
    transactions.put(topic, [b"old"] * 10)
    await_end(settings, topic, 0, 11)
    reader = RangeReader(settings)
    assert reader.read([OffsetRange(topic, 0, 0, 5)])[0].messages.length == 5
    reader.close()
    recreate(settings, topic)
    Transactions(settings).put(topic, [b"new"])
    await_end(settings, topic, 0, 2)
    for span in (OffsetRange(topic, 0, 5, 11), OffsetRange(topic, 0, 1, 11)):
        with pytest.raises(OffsetGone, match="recreated"):
            reader.read([span])
    reader.close()


def test_a_topic_that_is_not_there_is_named(settings: KafkaSettings, topic: str) -> None:
    impatient = {**dict(settings.options), "topic.metadata.propagation.max.ms": "1000"}
    reader = RangeReader(KafkaSettings.parse(impatient))
    with pytest.raises(UnknownTopic, match="nowhere"):
        reader.read([OffsetRange(topic + "nowhere", 0, 0, 1)])
    with pytest.raises(UnknownTopic, match="partition 9"):
        reader.read([OffsetRange(topic, 9, 0, 1)])
    reader.close()


@IN_BOTH_WAYS
@pytest.mark.parametrize("ahead", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_topic_that_was_read_before_may_be_deleted_while_others_are_read(
    settings: KafkaSettings, reader: RangeReader, topic: str, transactions: Transactions, ahead: bool
) -> None:
    """A changed project reads it no more. It has a place from the steps before, and the client says that it is gone."""
    admin, gone = AdminClient(settings.admin_config()), Topics(settings).ensure(topic + "gone", 2).name
    transactions.put(gone, [b"a"])
    transactions.put(topic, [b"x"])
    await_end(settings, gone, 0, 2)
    await_end(settings, topic, 0, 2)
    reader.read([OffsetRange(gone, 0, 0, 1), OffsetRange(topic, 0, 0, 1)], ahead=ahead)
    admin.delete_topics([gone], operation_timeout=30)[gone].result()
    deadline, at = time.monotonic() + 60, 2
    while any(where.topic == gone for where in reader._own_consumer().positions):
        assert time.monotonic() < deadline, "the client does not notice that the topic is gone"
        transactions.put(topic, [b"y"])
        await_end(settings, topic, 0, at + 2)
        reader.read([OffsetRange(topic, 0, at, at + 1)], ahead=ahead)
        at += 2
    with pytest.raises(UnknownTopic, match="gone"):
        reader.read([OffsetRange(gone, 0, 1, 2)])


def test_an_unreachable_broker_is_reported_before_the_deadline_with_the_place() -> None:
    nobody = RangeReader(KafkaSettings.parse({"bootstrap.servers": "127.0.0.1:9"}), stall_s=1)
    with pytest.raises(ReadDeadline, match=r"topic 't' partition 2: read up to offset 7 of 9.* 1 s: .*refused"):
        nobody.read([OffsetRange("t", 2, 7, 9)])


@pytest.mark.soak
def test_a_broker_killed_and_restarted_under_a_reader(tmp_path: Path) -> None:
    broker = LocalBroker(tmp_path).start(die_with_parent=True)
    try:
        settings = KafkaSettings.parse({"bootstrap.servers": broker.bootstrap_servers})
        topic = Topics(settings).ensure("in", 1).name
        Transactions(settings).put(topic, [b"%d" % i for i in range(1000)])
        await_end(settings, topic, 0, 1001)
        reader = RangeReader(settings)
        seen = rows(reader.read([OffsetRange(topic, 0, 0, 500)])[0])
        broker.kill()
        restart = threading.Thread(target=broker.start, kwargs={"die_with_parent": True})
        restart.start()
        fresh = RangeReader(KafkaSettings.parse({"bootstrap.servers": broker.bootstrap_servers, "client.id": "fresh"}))
        again = rows(fresh.read([OffsetRange(topic, 0, 250, 1001)])[0])  # it asks while no broker answers
        restart.join()
        Transactions(settings).put(topic, [b"later"])
        await_end(settings, topic, 0, 1003)
        seen += rows(reader.read([OffsetRange(topic, 0, 500, 1003)])[0])
        assert seen == [*((i, b"%d" % i) for i in range(1000)), (1001, b"later")]
        assert again == seen[250:1000]
        reader.close()
        fresh.close()
    finally:
        broker.stop()


def test_a_forked_process_reads_with_a_consumer_of_its_own(
    settings: KafkaSettings, reader: RangeReader, topic: str, transactions: Transactions
) -> None:
    transactions.put(topic, [b"a", b"b"])
    await_end(settings, topic, 0, 3)
    span = OffsetRange(topic, 0, 0, 3)
    (mine,) = reader.read([span])
    gc.collect()  # a client must not be destroyed in the child: it would wait for threads that do not exist there
    with multiprocessing.get_context("fork").Pool(1) as pool:
        (theirs,) = pool.apply_async(reader.read, ([span],)).get(timeout=120)
    assert theirs.checksum == mine.checksum
    assert reader.read([span])[0].checksum == mine.checksum


def test_threads_share_a_consumer_one_at_a_time(
    settings: KafkaSettings, reader: RangeReader, topic: str, transactions: Transactions
) -> None:
    for partition in range(3):
        transactions.put(topic, [b"%d" % partition] * 2000, partition=partition)
        await_end(settings, topic, partition, 2001)
    counts: dict[int, int] = {}

    def read(partition: int) -> None:
        counts[partition] = sum(
            reader.read([OffsetRange(topic, partition, at, at + 500)])[0].messages.length for at in range(0, 2000, 500)
        )

    threads = [threading.Thread(target=read, args=(partition,)) for partition in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == {0: 2000, 1: 2000, 2: 2000}


def recreate(settings: KafkaSettings, topic: str) -> None:
    admin, topics = AdminClient(settings.admin_config()), Topics(settings)
    admin.delete_topics([topic], operation_timeout=30)[topic].result()
    deadline = time.monotonic() + 60
    while topic in topics.names():
        assert time.monotonic() < deadline, "the topic was not deleted"
        time.sleep(0.05)
    topics.ensure(topic, 3)


@IN_BOTH_WAYS
def test_what_was_read_ahead_is_handed_out_once_and_a_fault_of_it_is_forgotten(
    settings: KafkaSettings,
    reader: RangeReader,
    topic: str,
    transactions: Transactions,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = [b"%d" % n for n in range(9)]
    transactions.put(topic, list(sent))  # 0 to 8, marker 9
    transactions.put(topic, [b"z"], commit=False)  # 10, marker 11
    transactions.put(topic, [b"last"])  # 12
    await_end(settings, topic, 0, 14)
    for fault in (False, True):
        (first,) = reader.read([OffsetRange(topic, 0, 0, 2)], ahead=True)
        held = reader._own_consumer()
        place = held.positions[TopicPartition(topic, 0)]
        if fault:
            with held.lock_for_reader():
                monkeypatch.setattr(held, "_take_in", failing)
            held.read_ahead(0)
            wait_for(partial(getattr, held, "read_ahead_failed"))
        else:
            wait_for(partial(lambda p: p.reached >= 13, place))
            assert place.ahead == 8
        (second,) = reader.read([OffsetRange(topic, 0, 2, 13)], ahead=True)
        found = [*rows(first), *rows(second)]
        assert [value for _, value in found] == [*sent, b"last"]
        assert held.closed == fault


class Rests(threading.Event):
    """The pump waits for this one where it has nothing to do: the second wait ends what the first one began."""

    def __init__(self) -> None:
        super().__init__()
        self.rested, self.waits = threading.Event(), 0

    def wait(self, timeout: float | None = None) -> bool:
        self.waits += 1
        self.rested.set()
        return super().wait(timeout)


@IN_BOTH_WAYS
def test_at_the_end_of_a_log_little_is_looked_for_ahead(
    settings: KafkaSettings, reader: RangeReader, topic: str, transactions: Transactions
) -> None:
    """A look costs the interpreter that runs the steps, so there are few of them where a few messages come at a time."""
    held, slept = reader._own_consumer(), list[float]()
    held._sleep = slept.append
    pump = held._asked = Rests()
    for number in range(2):
        transactions.put(topic, [b"a"] * 3)
        await_end(settings, topic, 0, 4 * (number + 1))
        reader.read([OffsetRange(topic, 0, 4 * number, 4 * number + 3)], ahead=True)
        wait_for(partial(lambda often: pump.waits >= often, number + 2))  # once before the first look
        assert slept == (number + 1) * list(consumer_module.AHEAD_PAUSES_S)


@IN_BOTH_WAYS
@pytest.mark.parametrize(
    ("most", "least", "read"), [(2_000, 1 << 20, 1), (1 << 20, 300, 5)], ids=["by all", "by the read"]
)
def test_what_is_read_ahead_is_bounded(
    settings: KafkaSettings,
    reader: RangeReader,
    topic: str,
    transactions: Transactions,
    monkeypatch: pytest.MonkeyPatch,
    *,
    most: int,
    least: int,
    read: int,
) -> None:
    """By a number of bytes, and by four times what was just read."""
    monkeypatch.setattr(consumer_module, "AHEAD_BYTES_MAX", most)
    monkeypatch.setattr(consumer_module, "AHEAD_BYTES_MIN", least)
    monkeypatch.setattr(consumer_module, "CONSUME_MESSAGES_MAX", 10)
    transactions.put(topic, [bytes(100)] * 500)
    await_end(settings, topic, 0, 501)
    held = reader._own_consumer()
    pump = held._asked = Rests()
    reader.read([OffsetRange(topic, 0, 0, read)], ahead=True)
    place = held.positions[TopicPartition(topic, 0)]

    def enough() -> bool:
        held.read_ahead(100 * read)  # it may have rested before the messages came
        return place.ahead_bytes >= 2_000

    wait_for(enough)
    with held.lock_for_reader():
        pump.rested.clear()
    held.read_ahead(100 * read)
    assert pump.rested.wait(60)
    most_of_read = max(2_000, consumer_module.AHEAD_READS * read * held.message_bytes)
    assert place.ahead_bytes < most_of_read + 2 * 10 * held.message_bytes, "more than one call beyond the bound"
    (rest,) = reader.read([OffsetRange(topic, 0, read, 501)])
    assert rest.messages.length == 500 - read


@IN_BOTH_WAYS
def test_a_partition_far_ahead_of_its_range_gives_up_its_place(
    settings: KafkaSettings,
    reader: RangeReader,
    topic: str,
    transactions: Transactions,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consumer_module, "SURPLUS_MESSAGES_MAX", 5)
    transactions.put(topic, [b"%d" % i for i in range(100)])
    await_end(settings, topic, 0, 101)
    assert reader.read([OffsetRange(topic, 0, 0, 10)])[0].messages.length == 10
    assert not reader._own_consumer().positions
    assert rows(reader.read([OffsetRange(topic, 0, 10, 12)])[0]) == [(10, b"10"), (11, b"11")]


# Bytes


def sizes_of(batches: list[RawBatch]) -> list[list[int]]:
    return [[len(value or b"") for value in batch.messages.values.to_pylist()] for batch in batches]


def read_within(
    reader: RangeReader, ranges: list[OffsetRange], bytes_max: int
) -> tuple[list[OffsetRange], list[RawBatch]]:
    """As a step is read: where it is too large, it is cut once."""
    try:
        return ranges, reader.read(ranges, bytes_max=bytes_max)
    except StepTooLarge as fault:
        cut = [OffsetRange(r.topic, r.partition, r.start, fault.ends.get(r.where, r.end)) for r in ranges]
    assert cut != ranges
    with pytest.MonkeyPatch.context() as patch:  # it is not cut again, and not fetched again
        patch.setattr(reader._own_consumer(), "receive", failing)
        return cut, reader.read(cut, bytes_max=bytes_max)


@IN_BOTH_WAYS
def test_ranges_with_more_bytes_than_the_bound_are_cut_by_what_is_in_them(
    settings: KafkaSettings, reader: RangeReader, topic: str, transactions: Transactions
) -> None:
    """What a small partition leaves goes to the large ones; nothing is lost, read twice or fetched twice; another reader cuts alike."""
    for partition, size, count in ((0, 1000, 40), (1, 10, 40), (2, 3000, 20)):
        for _ in range(2):  # markers lie between
            transactions.put(topic, [bytes(size)] * (count // 2), partition=partition)
        await_end(settings, topic, partition, count + 2)
    whole = [OffsetRange(topic, partition, 0, end) for partition, end in ((0, 42), (1, 42), (2, 22))]
    stories = []
    for calls in (1, 7, 10_000):
        reader.close()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(consumer_module, "CONSUME_MESSAGES_MIN", 1)
            patch.setattr(consumer_module, "CONSUME_MESSAGES_MAX", calls)
            ranges, story = whole, []
            while any(span.length for span in ranges):
                cut, batches = read_within(reader, ranges, 20_000)
                keys = sum(len(key) for batch in batches for key in batch.messages.keys.to_pylist())
                assert keys + sum(map(sum, sizes_of(batches))) <= 20_000
                story.append([(span.start, span.end) for span in cut])
                ranges = [OffsetRange(r.topic, r.partition, c.end, r.end) for r, c in zip(ranges, cut, strict=True)]
        stories.append(story)
    assert stories[0] == stories[1] == stories[2]
    assert len(stories[0]) > 4


@IN_BOTH_WAYS
def test_a_message_larger_than_the_bound_gets_through(
    settings: KafkaSettings, reader: RangeReader, topic: str, transactions: Transactions
) -> None:
    transactions.put(topic, [b"x" * 500, b"y", b"z" * 700])
    await_end(settings, topic, 0, 4)
    cut, batches = read_within(reader, [OffsetRange(topic, 0, 0, 4)], 100)
    assert (cut[0].end, sizes_of(batches)) == (1, [[500]])
    cut, batches = read_within(reader, [OffsetRange(topic, 0, 1, 4)], 100)
    assert (cut[0].end, sizes_of(batches)) == (2, [[1]])
    cut, batches = read_within(reader, [OffsetRange(topic, 0, 2, 4)], 100)
    assert sizes_of(batches) == [[700]]


def test_a_partition_that_is_large_enough_rests_while_others_are_waited_for(
    settings: KafkaSettings,
    reader: RangeReader,
    topic: str,
    transactions: Transactions,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its messages wait, and it delivers no more of them: a partition whose messages come late must not fill the memory with another's."""
    for module in (reader_module, consumer_module):
        monkeypatch.setattr(module, "SURPLUS_BYTES_MAX", 1_000)
    monkeypatch.setattr(consumer_module, "CONSUME_MESSAGES_MIN", 1)
    monkeypatch.setattr(consumer_module, "CONSUME_MESSAGES_MAX", 10)
    transactions.put(topic, [bytes(100)] * 1_000)
    transactions.put(topic, [bytes(100)] * 100, partition=1, commit=False)
    transactions.put(topic, [bytes(100)] * 100, partition=1)
    for partition, end in ((0, 1_001), (1, 202)):
        await_end(settings, topic, partition, end)
    most = 0
    receive = consumer_module.PositionedConsumer.receive

    def watched(self: Any, missing: int) -> None:
        nonlocal most
        receive(self, missing)
        most = max(most, sum(place.ahead_bytes for place in self.positions.values()))

    monkeypatch.setattr(consumer_module.PositionedConsumer, "receive", watched)
    ranges = [OffsetRange(topic, 0, 0, 1_001), OffsetRange(topic, 1, 0, 202)]
    cut, batches = read_within(reader, ranges, 10_000)
    assert [batch.messages.length for batch in batches] == [24, 24]  # 206 bytes each, with their keys
    assert [span.end for span in cut] == [24, 125]
    assert most <= 2 * (10_000 + 1_000 + 2 * 10 * 206)


def failing(messages: object) -> bool:
    raise RuntimeError("a fault while nobody waits")


def wait_for(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)
