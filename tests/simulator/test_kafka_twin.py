"""The simulated broker beside the real one: the same calls, one after another, and all that a client can see must be the same.

What is compared after every call: its outcome, and for an error its code and flags; the high watermark and the last stable offset of every
partition; what a read_committed consumer gets, with offsets, and where it is told that a partition ends.

A script flushes what it sends before it goes on: a client speaks to the broker of a new partition by itself, soon after `produce`, and whether
it had the time to cannot be told.

What cannot be provoked through a client stays the simulator's word: a request that arrives late, a marker that takes its time, a timeout.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics
from tests.conftest import Broker
from tests.simulator import broker as simulated
from tests.simulator import clients

PARTITIONS = 2
SETTLED_SECONDS_MAX = 20.0
"""For markers to arrive, after a commit was acknowledged; it takes milliseconds."""
CALL_SECONDS_MAX = 30.0

Call = tuple[Any, ...]
Seen = tuple[Any, ...]
Error = tuple[str, bool, bool, bool]

# A producer is named by its transactional.id and a number: a2 is the second one of id a.
SCRIPTS: dict[str, list[Call]] = {
    "a commit over two partitions, and one after it": [
        ("init", "a1"), ("begin", "a1"), ("send", "a1", 0, 2), ("send", "a1", 1, 1), ("flush", "a1"), ("commit", "a1"),
        ("begin", "a1"), ("send", "a1", 0, 1), ("commit", "a1"),
    ],
    "aborted records occupy offsets": [
        ("init", "a1"), ("begin", "a1"), ("send", "a1", 0, 3), ("flush", "a1"), ("abort", "a1"), ("plain", 0, 1),
        ("begin", "a1"), ("send", "a1", 0, 1), ("commit", "a1"),
    ],
    "an open transaction holds back what comes after it": [
        ("init", "a1"), ("plain", 0, 1), ("begin", "a1"), ("send", "a1", 0, 1), ("flush", "a1"), ("plain", 0, 2), ("plain", 1, 1),
        ("commit", "a1"),
    ],
    "of two open transactions the earlier holds back": [
        ("init", "a1"), ("init", "b1"), ("begin", "a1"), ("begin", "b1"), ("send", "a1", 0, 1), ("flush", "a1"),
        ("send", "b1", 0, 1), ("flush", "b1"), ("commit", "b1"), ("plain", 0, 1), ("abort", "a1"),
    ],
    "init ends what another producer of the id left open": [
        ("init", "a1"), ("begin", "a1"), ("send", "a1", 0, 1), ("send", "a1", 1, 2), ("flush", "a1"), ("init", "a2"),
        ("begin", "a2"), ("send", "a2", 0, 1), ("commit", "a2"),
    ],
    "a fenced producer cannot commit": [
        ("init", "a1"), ("begin", "a1"), ("send", "a1", 0, 1), ("flush", "a1"), ("init", "a2"), ("commit", "a1"),
        ("begin", "a1"), ("begin", "a2"), ("send", "a2", 0, 1), ("commit", "a2"),
    ],
    "a fenced producer cannot send": [
        ("init", "a1"), ("begin", "a1"), ("init", "a2"), ("send", "a1", 0, 1), ("flush", "a1"), ("commit", "a1"),
    ],
    "a fenced producer does not end its successor's transaction": [
        ("init", "a1"), ("begin", "a1"), ("send", "a1", 0, 1), ("flush", "a1"), ("init", "a2"), ("begin", "a2"), ("send", "a2", 0, 1),
        ("flush", "a2"), ("commit", "a1"), ("send", "a2", 1, 1), ("commit", "a2"),
    ],
    "nothing was sent, so nothing is committed": [
        ("init", "a1"), ("begin", "a1"), ("commit", "a1"), ("begin", "a1"), ("abort", "a1"), ("init", "a2"),
    ],
    "calls at the wrong time": [
        ("begin", "a1"), ("init", "a1"), ("commit", "a1"), ("send", "a1", 0, 1), ("abort", "a1"), ("begin", "a1"), ("begin", "a1"),
        ("send", "a1", 0, 1), ("commit", "a1"),
    ],
    "what was committed before an init stays": [
        ("init", "a1"), ("begin", "a1"), ("send", "a1", 0, 2), ("commit", "a1"), ("init", "a2"), ("init", "a3"), ("begin", "a2"),
        ("send", "a2", 0, 1), ("flush", "a2"),
    ],
}  # fmt: skip


class Side:
    """One of the two brokers, and the calls of a script on it."""

    def __init__(self, topic: str, producer: Callable[[str], Any], consumer: Callable[[], Any]) -> None:
        self.topic = topic
        self._new_producer, self._new_consumer = producer, consumer
        self._producers: dict[str, Any] = {}
        self._sent = 0
        self._delivered: list[str] = []

    def call(self, call: Call) -> Seen:
        """What came of it: "ok" or an error, and what was told of deliveries."""
        name, *arguments = call
        self._delivered = []
        try:
            result = getattr(self, f"_{name}")(*arguments)
            outcome: Seen = ("ok", result)
        except KafkaException as error:
            outcome = error_of(error)
        except SystemError as error:  # as confluent_kafka wraps what `flush` meets
            assert isinstance(error.__cause__, KafkaException)
            outcome = error_of(error.__cause__)
        return outcome

    def committed(self) -> list[Any]:
        """By partition: (offset, value) of every committed message, and the end that a consumer is told."""
        found: list[Any] = []
        for number in range(PARTITIONS):
            with closing(self._new_consumer()) as consumer:
                consumer.assign([ClientPartition(self.topic, number, 0)])
                messages, end = [], None
                deadline = time.monotonic() + CALL_SECONDS_MAX
                while end is None:
                    assert time.monotonic() < deadline
                    message = consumer.poll(0.5)
                    if message is None:
                        continue
                    if message.error() is None:
                        messages.append((message.offset(), message.value()))
                    else:
                        assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                        end = message.offset()
                found.append((messages, end))
        return found

    def _init(self, name: str) -> None:
        if name not in self._producers:
            self._producers[name] = self._new_producer(name[0])
        self._producers[name].init_transactions(CALL_SECONDS_MAX)

    def _begin(self, name: str) -> None:
        if name not in self._producers:
            self._producers[name] = self._new_producer(name[0])
        self._producers[name].begin_transaction()

    def _send(self, name: str, partition: int, count: int) -> None:
        for _ in range(count):
            self._sent += 1
            self._producers[name].produce(self.topic, value=b"%d" % self._sent, partition=partition)

    def _flush(self, name: str) -> int:
        return int(self._producers[name].flush(CALL_SECONDS_MAX))

    def _commit(self, name: str) -> None:
        self._producers[name].commit_transaction(CALL_SECONDS_MAX)

    def _abort(self, name: str) -> None:
        self._producers[name].abort_transaction(CALL_SECONDS_MAX)


class RealSide(Side):
    def __init__(self, servers: str, prefix: str) -> None:
        settings = KafkaSettings.parse({"bootstrap.servers": servers})
        self._admin = AdminClient({"bootstrap.servers": servers})
        topic = f"{prefix}twin"
        Topics(settings).ensure(topic, PARTITIONS)
        # Messages are sent at a flush or a commit, as in the simulator, and not before.
        config = {"fetch.wait.max.ms": 5, "linger.ms": 20_000}

        def producer(identifier: str) -> Producer:
            return Producer({**settings.producer_config(f"{prefix}{identifier}"), "linger.ms": config["linger.ms"]})

        def consumer() -> Consumer:
            return Consumer({**settings.consumer_config(), "fetch.wait.max.ms": config["fetch.wait.max.ms"]})

        super().__init__(topic, producer, consumer)
        self._plain_producer = Producer({"bootstrap.servers": servers})

    def _plain(self, partition: int, count: int) -> None:
        for _ in range(count):
            self._sent += 1
            self._plain_producer.produce(self.topic, value=b"%d" % self._sent, partition=partition)
        assert self._plain_producer.flush(CALL_SECONDS_MAX) == 0

    def ends(self) -> list[tuple[int, int]]:
        """(last stable offset, high watermark) by partition."""
        places = [ClientPartition(self.topic, number) for number in range(PARTITIONS)]

        def latest(level: IsolationLevel) -> list[int]:
            asked = self._admin.list_offsets({place: OffsetSpec.latest() for place in places}, isolation_level=level)
            return [int(asked[place].result(CALL_SECONDS_MAX).offset) for place in places]

        return list(zip(latest(IsolationLevel.READ_COMMITTED), latest(IsolationLevel.READ_UNCOMMITTED), strict=True))


class SimulatedSide(Side):
    def __init__(self) -> None:
        self.broker = simulated.Broker()
        self.broker.create("twin", PARTITIONS)
        net: Any = SimpleNamespace(
            broker=self.broker, rng=random.Random(0), now=0.0, point=nothing, pass_time=nothing, tell=nothing,
            fate=nothing, writer=nothing,
        )  # fmt: skip
        config = {"isolation.level": "read_committed", "enable.partition.eof": True}
        super().__init__(
            "twin",
            lambda name: clients.Producer(net, {"transactional.id": name}),
            lambda: clients.Consumer(net, config),
        )

    def call(self, call: Call) -> Seen:
        outcome = super().call(call)
        while undone := self.broker.undone():
            self.broker.finish(undone[0])
        return outcome

    def _plain(self, partition: int, count: int) -> None:
        for _ in range(count):
            self._sent += 1
            self.broker.append(("twin", partition), None, b"%d" % self._sent)

    def ends(self) -> list[tuple[int, int]]:
        return [(p.stable, p.end) for p in self.broker.topics["twin"].partitions]


def nothing(*_: object) -> None:
    return None


def error_of(error: KafkaException) -> Seen:
    cause = error.args[0]
    return cause.name(), cause.fatal(), cause.retriable(), cause.txn_requires_abort()


def compare(real: RealSide, twin: SimulatedSide, script: Sequence[Call]) -> Iterator[tuple[Call, Seen]]:
    """Plays the script on both; gives each call with its outcome."""
    for number, call in enumerate(script):
        expected, found = real.call(call), twin.call(call)
        assert found == expected, (
            f"call {number}, {call}: the simulator says {found}, the broker {expected}, after {script[:number]}"
        )
        deadline = time.monotonic() + SETTLED_SECONDS_MAX
        while real.ends() != twin.ends() and time.monotonic() < deadline:
            pass
        assert twin.ends() == real.ends(), f"ends (stable, high) after call {number}, {call}, of {script}"
        yield call, expected
    assert twin.committed() == real.committed()


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_recorded_script_shows_the_same_on_both(name: str, broker: Broker, topic_prefix: str) -> None:
    outcomes = dict(compare(RealSide(broker.bootstrap_servers, topic_prefix), SimulatedSide(), SCRIPTS[name]))
    assert outcomes


def any_script(rng: random.Random, calls: int) -> list[Call]:
    """Mostly sensible calls of four producers of two ids, and now and then one at the wrong time."""
    names = ["a1", "a2", "b1", "b2"]
    script: list[Call] = [("init", "a1"), ("init", "b1")]
    known, begun = {"a1", "b1"}, set[str]()
    while len(script) < calls:
        name = rng.choice(names)
        if name not in known:
            script.append(("init", name))
            known.add(name)
        elif name not in begun:
            script.append(("begin", name))
            begun.add(name)
        else:
            what = rng.choice(("send", "send", "send", "flush", "commit", "abort"))
            if what == "send":
                script.append((what, name, rng.randrange(PARTITIONS), rng.randint(1, 3)))
            script.append(("flush", name) if what == "send" else (what, name))
            if what in ("commit", "abort"):
                begun.discard(name)
        if rng.random() < 0.15:
            script.append(("plain", rng.randrange(PARTITIONS), 1))
    return script


@pytest.mark.parametrize("seed", range(6))
def test_a_random_script_shows_the_same_on_both(seed: int, broker: Broker, topic_prefix: str) -> None:
    script = any_script(random.Random(seed), 30)
    assert len(list(compare(RealSide(broker.bootstrap_servers, topic_prefix), SimulatedSide(), script))) == len(script)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(6, 106))
def test_more_random_scripts_show_the_same_on_both(seed: int, broker: Broker, topic_prefix: str) -> None:
    script = any_script(random.Random(seed), 60)
    assert len(list(compare(RealSide(broker.bootstrap_servers, topic_prefix), SimulatedSide(), script))) == len(script)
