"""Three brokers: nothing that was acknowledged is lost when one of them is killed, and it comes back alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, TopicDescription

from io_kafka.broker.group import BrokerGroup
from io_kafka.broker.properties import GROUP_SIZES, NodePorts, quorum, replication
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.step_log_reader import StepLogReader, ensure_step_log
from io_kafka.clients.topics import Topics
from io_kafka.errors import LocalBrokerFault
from io_kafka.offsets import TopicPartition as OurPartition
from stepwell.dev_cluster.cluster import DevCluster

EVENT_SECONDS_MAX = 120.0
PARTITIONS = 6


@pytest.fixture
def kafka(cluster: DevCluster) -> Iterator[BrokerGroup]:
    yield cluster.kafka
    cluster.up(die_with_parent=True)


def topics_of(kafka: BrokerGroup) -> Topics:
    return Topics(KafkaSettings.parse({"bootstrap.servers": kafka.bootstrap_servers}))


class Writer:
    """Commits one transaction after another, each with a message for every partition."""

    def __init__(self, servers: str, topic: str) -> None:
        self._topic, self.committed = topic, 0
        # The client's own log lines about the dead broker would hide the test's.
        self._producer = Producer(
            {"bootstrap.servers": servers, "transactional.id": topic, "acks": "all", "log_level": 0}
        )
        self._producer.init_transactions(EVENT_SECONDS_MAX)

    def commit(self) -> None:
        deadline = time.monotonic() + EVENT_SECONDS_MAX
        self._begin()
        while True:
            try:
                self._producer.commit_transaction(10)
                self.committed += 1
                return
            except KafkaException as error:
                assert time.monotonic() < deadline, error
                if error.args[0].txn_requires_abort():
                    self._producer.abort_transaction()
                    self._begin()
                else:
                    assert error.args[0].retriable(), error

    def _begin(self) -> None:
        self._producer.begin_transaction()
        for partition in range(PARTITIONS):
            self._producer.produce(self._topic, str(self.committed).encode(), partition=partition)


def committed_messages(servers: str, topic: str, count: int) -> list[list[int]]:
    """The messages of each partition, until there are `count` in all."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": topic,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: list[list[int]] = [[] for _ in range(PARTITIONS)]
    deadline = time.monotonic() + EVENT_SECONDS_MAX
    while sum(map(len, found)) < count and time.monotonic() < deadline:
        for message in consumer.consume(count, timeout=0.2):
            if message.error() is None:
                found[message.partition()].append(int(message.value()))
    consumer.close()
    return found


def described(servers: str, topic: str) -> TopicDescription:
    """The topic as the brokers see it. A broker may not know the new leaders yet, so it is asked again."""
    admin, deadline = AdminClient({"bootstrap.servers": servers, "log_level": 0}), time.monotonic() + EVENT_SECONDS_MAX
    while True:
        try:
            return admin.describe_topics(TopicCollection([topic]))[topic].result(EVENT_SECONDS_MAX)
        except KafkaException as error:
            assert time.monotonic() < deadline, error
            time.sleep(0.1)


def leaders(servers: str, topic: str) -> list[int | None]:
    """The node that leads each partition."""
    return [None if part.leader is None else part.leader.id for part in described(servers, topic).partitions]


def in_sync(servers: str, topic: str) -> list[set[int]]:
    """The nodes whose replicas of each partition are in sync."""
    return [{node.id for node in part.isr} for part in described(servers, topic).partitions]


def wait_until(event: Callable[[], bool]) -> None:
    deadline = time.monotonic() + EVENT_SECONDS_MAX
    while not event():
        assert time.monotonic() < deadline, "the event does not come"
        time.sleep(0.1)


@pytest.mark.long
def test_transactions_go_on_while_a_broker_is_killed_and_comes_back(kafka: BrokerGroup, topic_prefix: str) -> None:
    topic, servers = topic_prefix + "kills", kafka.bootstrap_servers
    made = topics_of(kafka).ensure(topic, PARTITIONS)
    assert made.config["min.insync.replicas"] == "2"
    writer = Writer(servers, topic)
    for _ in range(20):
        writer.commit()
    before = leaders(servers, topic)
    assert set(before) == {1, 2, 3}
    victim = before[0]
    assert victim is not None
    kafka.kill_node(victim)
    for _ in range(20):
        writer.commit()
    after = leaders(servers, topic)
    assert set(after) == {1, 2, 3} - {victim}, "the others lead its partitions"
    assert [new for new, old in zip(after, before, strict=True) if old != victim] == [
        old for old in before if old != victim
    ]
    kafka.start_node(victim, die_with_parent=True)
    wait_until(lambda: in_sync(servers, topic) == [{1, 2, 3}] * PARTITIONS)
    for _ in range(20):
        writer.commit()
    found = committed_messages(servers, topic, 60 * PARTITIONS)
    assert found == [list(range(60))] * PARTITIONS, "each message once, in order, in every partition"


@pytest.mark.soak
def test_the_successor_of_a_killed_leader_is_found(kafka: BrokerGroup, topic_prefix: str) -> None:
    """By a client that has asked the old leader before, and by one that begins while the brokers still name the old one."""
    settings, log = KafkaSettings.parse({"bootstrap.servers": kafka.bootstrap_servers}), topic_prefix + "log"
    topics = Topics(settings)
    ensure_step_log(topics, log)
    assert topics.end_offsets([log]) == {OurPartition(log, 0): 0}
    victim = leaders(kafka.bootstrap_servers, log)[0]
    assert victim is not None
    kafka.kill_node(victim)
    assert StepLogReader(settings, log).read().steps == 0
    assert topics.end_offsets([log]) == {OurPartition(log, 0): 0}
    assert topics.describe([log])[log].partitions == 1


@pytest.mark.long
def test_any_process_finds_the_group_and_its_size(kafka: BrokerGroup) -> None:
    found = BrokerGroup.of(kafka.folder)
    assert found is not None
    assert (found.size, found.bootstrap_servers, found.pids) == (3, kafka.bootstrap_servers, kafka.pids)
    with pytest.raises(LocalBrokerFault, match=r"runs in .* already.*dev cluster down"):
        found.start()


@pytest.mark.long
def test_the_settings_of_a_group_keep_a_majority() -> None:
    ports = {number: NodePorts(10 + number, 20 + number) for number in (1, 2, 3)}
    for size in GROUP_SIZES:
        factors = replication(size)
        assert int(factors["min.insync.replicas"]) * 2 > size, "two groups of acknowledging replicas always meet"
        assert {value for name, value in factors.items() if name.endswith("replication.factor")} == {str(size)}
    assert quorum("h", ports) == {"controller.quorum.voters": "1@h:21,2@h:22,3@h:23"}
