"""Facts about topics, from a real broker."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from io_kafka.clients.broker_requests import BrokerRequests
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics
from io_kafka.errors import BrokerUnreachable, NoLeader, UnknownTopic
from io_kafka.offsets import TopicPartition
from tests.conftest import Broker


@pytest.fixture
def topics(settings: KafkaSettings) -> Topics:
    return Topics(settings)


def producer(settings: KafkaSettings) -> Producer:
    made = Producer(settings.producer_config(f"test-{uuid.uuid4().hex}"))
    made.init_transactions()
    return made


def eventually(ask: Callable[[], object], expected: object) -> None:
    """A commit is acknowledged before its markers are in the partitions."""
    tries: Retrying = Retrying(
        retry=retry_if_exception_type(AssertionError), wait=wait_fixed(0.05), stop=stop_after_delay(60), reraise=True
    )

    def equal() -> None:
        assert ask() == expected

    tries(equal)


def delete_and_create(settings: KafkaSettings, topics: Topics, name: str, partitions: int) -> None:
    admin = AdminClient(settings.admin_config())  # a name of its own: it must outlive the answer
    admin.delete_topics([name], operation_timeout=30)[name].result()
    deadline = time.monotonic() + 30
    while name in topics.names():
        assert time.monotonic() < deadline, "the topic was not deleted"
    topics.ensure(name, partitions)


def test_a_missing_topic_is_created_and_one_that_is_there_left_as_it_is(topics: Topics, topic_prefix: str) -> None:
    name = topic_prefix + "out"
    made = topics.ensure(name, 3, {"cleanup.policy": "compact", "min.insync.replicas": "1"})
    assert (made.name, made.partitions, made.config["cleanup.policy"]) == (name, 3, "compact")
    assert topics.existing([name, name + "-none"]) == {name} and topics.existing([]) == set()
    assert made.compacted
    assert topics.ensure(name, 7, {"cleanup.policy": "delete"}) == made
    assert topics.describe([name]) == {name: made}
    assert name in topics.names()


def test_an_unknown_topic_is_named(topics: Topics, topic_prefix: str) -> None:
    known = topics.ensure(topic_prefix + "known", 1).name
    for ask in (topics.describe, topics.end_offsets, topics.begin_offsets):
        with pytest.raises(UnknownTopic, match=f"{topic_prefix}missing.*Create it"):
            ask([known, topic_prefix + "missing"])
    with pytest.raises(UnknownTopic, match=rf"{known}' partition 5"):
        topics.end_offsets_of([TopicPartition(known, 5)])


def test_no_topics_send_no_request(topics: Topics) -> None:
    assert (topics.describe([]), topics.end_offsets([]), topics.partitions([])) == ({}, {}, [])


def test_the_end_is_the_last_stable_offset(settings: KafkaSettings, topics: Topics, topic_prefix: str) -> None:
    name = topics.ensure(topic_prefix + "in", 2).name
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    done, still = producer(settings), producer(settings)
    done.begin_transaction()
    done.produce(name, b"committed", partition=0)
    done.commit_transaction()
    eventually(lambda: topics.end_offsets_of([first]), {first: 2})
    still.begin_transaction()
    still.produce(name, b"open", partition=0)
    still.flush()
    done.begin_transaction()
    done.produce(name, b"behind the open one", partition=0)
    done.produce(name, b"alone", partition=1)
    done.commit_transaction()
    assert topics.end_offsets([name])[first] <= 2  # at no moment beyond the open message
    # a message and its marker; what follows waits for the open transaction
    eventually(lambda: topics.end_offsets([name]), {first: 2, second: 2})
    still.abort_transaction()
    # ... the open message, a message, its marker, the abort's marker
    eventually(lambda: topics.end_offsets_of([first]), {first: 6})
    assert topics.begin_offsets([name]) == {first: 0, second: 0}


def test_a_recreated_topic_has_another_id(settings: KafkaSettings, topics: Topics, topic_prefix: str) -> None:
    name = topic_prefix + "again"
    recorded = topics.ensure(name, 1)
    assert topics.describe([name])[name].topic_id == recorded.topic_id
    delete_and_create(settings, topics, name, 1)
    assert topics.describe([name])[name].topic_id != recorded.topic_id


def test_topics_are_deleted_and_one_that_is_gone_is_no_error(topics: Topics, topic_prefix: str) -> None:
    one, other, kept = (f"{topic_prefix}{name}" for name in ("one", "other", "kept"))
    for name in (one, kept):
        topics.ensure(name, 2)
    topics.delete([one, other])
    assert not {one, other} & topics.names() and kept in topics.names()
    topics.delete([one])
    topics.delete([])


def test_an_unreachable_broker_is_reported_with_its_address() -> None:
    nobody = Topics(KafkaSettings.parse({"bootstrap.servers": "127.0.0.1:9"}), timeout_s=1)
    for ask in (lambda: nobody.describe(["t"]), nobody.names, lambda: nobody.end_offsets_of([TopicPartition("t", 0)])):
        with pytest.raises(BrokerUnreachable, match=r"127\.0\.0\.1:9 .*kafka\.bootstrap\.servers.*stepwell dev up"):
            ask()


def test_a_request_with_a_transient_error_is_repeated(broker: Broker) -> None:
    """A leader elected a moment ago has an epoch that this client does not know yet."""
    requests = BrokerRequests(KafkaSettings.parse({"bootstrap.servers": broker.bootstrap_servers}))
    answers = [KafkaException(KafkaError(KafkaError.UNKNOWN_LEADER_EPOCH)), "answer"]

    def request(admin: AdminClient, seconds: float) -> dict[str, Future[str]]:
        future: Future[str] = Future()
        answer = answers.pop(0)
        future.set_exception(answer) if isinstance(answer, Exception) else future.set_result(answer)
        return {"topic": future}

    assert requests.ask("asking", request, str) == {"topic": "answer"}


class Restarting:
    """An admin client whose broker comes back: one answer a call."""

    def __init__(self, *answers: int | KafkaError) -> None:
        self.answers = list(answers)

    def poll(self, timeout: float) -> int:
        return 0

    def list_offsets(self, asked: dict[ClientPartition, object], **_: object) -> dict[ClientPartition, Future[object]]:
        futures = {}
        answer = self.answers.pop(0)
        for partition in asked:
            futures[partition] = future = Future[object]()
            if isinstance(answer, KafkaError):
                future.set_exception(KafkaException(answer))
            else:
                future.set_result(SimpleNamespace(offset=answer))
        return futures


def test_a_request_to_a_restarting_broker_is_repeated(broker: Broker, topic_prefix: str) -> None:
    """For a moment it leads no partition, and then it answers without an offset. Neither means lost messages."""
    settings = KafkaSettings.parse({"bootstrap.servers": broker.bootstrap_servers})
    topics = Topics(settings)
    topics.ensure(topic_prefix + "in", 1)
    place = TopicPartition(topic_prefix + "in", 0)
    real = topics._requests.admin
    catching_up = KafkaError(KafkaError.OFFSET_NOT_AVAILABLE)
    for answers in ((KafkaError(KafkaError._NOENT), catching_up, -1001, -1, 7), (7,)):
        topics._requests.admin = restarting = Restarting(*answers)  # type: ignore[assignment]
        restarting.describe_topics = real.describe_topics  # type: ignore[attr-defined]
        assert topics.end_offsets_of([place]) == {place: 7}
    impatient = Topics(settings, timeout_s=0.3)
    impatient._requests.admin = Restarting(*[-1001] * 100)  # type: ignore[assignment]
    with pytest.raises(NoLeader, match="in' partition 0 has no leader while reading the end offsets"):
        impatient.end_offsets_of([place])


def test_a_client_that_knows_a_former_leader_epoch_is_replaced(broker: Broker, topic_prefix: str) -> None:
    """As after a broker's restart: it would ask with that epoch again and again."""
    topics = Topics(KafkaSettings.parse({"bootstrap.servers": broker.bootstrap_servers}))
    topics.ensure(topic_prefix + "in", 1)
    old = Restarting(*[KafkaError(KafkaError.FENCED_LEADER_EPOCH)] * 10)
    topics._requests.admin = old  # type: ignore[assignment]
    place = TopicPartition(topic_prefix + "in", 0)
    assert topics.end_offsets_of([place]) == {place: 0}
    assert len(old.answers) == 9


def test_a_client_that_gets_no_answer_is_replaced(broker: Broker, topic_prefix: str) -> None:
    """As after the loss of the broker that it knows as leader: it would wait for that broker and not look for its successor."""
    topics = Topics(KafkaSettings.parse({"bootstrap.servers": broker.bootstrap_servers}))
    topics.ensure(topic_prefix + "in", 1)
    topics._requests.admin = Restarting(*[KafkaError(KafkaError._TIMED_OUT)] * 1000)  # type: ignore[assignment]
    place = TopicPartition(topic_prefix + "in", 0)
    assert topics.end_offsets_of([place]) == {place: 0}


def test_the_first_offset_since_a_timestamp(settings: KafkaSettings, topics: Topics, topic_prefix: str) -> None:
    """Messages whose timestamps do not ascend, and a partition without any."""
    name = topics.ensure(topic_prefix + "in", 2).name
    plain = Producer({"bootstrap.servers": settings.bootstrap_servers})
    first = round(1e3 * time.time())  # the broker soon deletes messages whose timestamps are older than its retention
    for moment in (first, first + 2, first + 1):
        plain.produce(name, b"x", partition=0, timestamp=moment)
    plain.flush()
    places = [TopicPartition(name, 0), TopicPartition(name, 1)]
    eventually(lambda: topics.end_offsets([name])[places[0]], 3)
    found = [list(topics.offsets_since(places, first + after).values()) for after in (-1, 0, 1, 2, 3)]
    assert found == [[0, None], [0, None], [1, None], [1, None], [None, None]]
    assert topics.offsets_since([], 0) == {}
