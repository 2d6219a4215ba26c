"""Everybody else's producers: the inputs grow, in transactions and without, and some of them abort or stay open. What is old may expire."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping
from typing import Protocol

from tests.simulator import circuit
from tests.simulator.broker import Broker, Outcome, Partition, Refused, Row, Where

PARTITIONS, PARTITIONS_MAX = 2, 4

OTHER_CHANCE = 0.25
"""Of a message of the topic that only some projects read."""

TIMES = ("of the world", "all alike", "in disorder")
"""The timestamps of a world's messages. The last ones are those of producers whose clocks differ."""


class Surroundings(Protocol):
    """The world, as they see it."""

    rng: random.Random
    broker: Broker
    faults: bool

    @property
    def now(self) -> float: ...
    def count(self, kind: str) -> None: ...
    def tell(self, what: str) -> None: ...


class Producers:
    """`messages_max`: all of them together. `keys`: those of the rows."""

    def __init__(self, world: Surroundings, messages_max: int, keys: str) -> None:
        self._world, self._messages_max, self._keys = world, messages_max, keys
        self._foreign = self._sent = 0
        self._open: list[tuple[str, int]] = []
        self._rows: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        """By topic: what can be taken back there."""
        self._times = world.rng.choice(TIMES)

    def finish(self) -> None:
        """The rest of the messages, and an end to every transaction."""
        while self._sent < self._messages_max:
            self.send()
        while self._open:
            self._end_foreign()

    def send(self) -> None:
        """A message, or a transaction of somebody else, begins, grows or ends."""
        if self._open and self._world.rng.random() < 0.4:
            self._end_foreign()
            return
        if self._sent >= self._messages_max:
            return
        topic = circuit.OTHER if self._world.rng.random() < OTHER_CHANCE else circuit.INPUT
        where = topic, self._world.rng.randrange(len(self._world.broker.topics[topic].partitions))
        if self._world.faults and self._world.rng.random() < 0.3:
            self._send_in_transaction(where)
            return
        for _ in range(self._world.rng.choice((1, 1, 4))):
            self._world.broker.append(where, None, self._message(topic), self._time_ms())
        self._world.tell(f"{topic}: {where[1]} ends at {self._world.broker.partition(where).end}")

    def grow(self) -> None:
        topic = circuit.OTHER if self._world.rng.random() < OTHER_CHANCE else circuit.INPUT
        partitions = self._world.broker.topics[topic].partitions
        if len(partitions) < PARTITIONS_MAX:
            partitions.append(Partition())
            self._world.count(f"{topic} topic grown")
            self._world.tell(f"{topic}: {len(partitions)} partitions")

    def expire(self, until: Mapping[Where, int]) -> None:
        """The oldest messages of a partition are gone. `until`: up to where they may be, of the partitions of which some may."""
        may = sorted(where for where, end in until.items() if self._world.broker.partition(where).begin < end)
        if may:
            where = self._world.rng.choice(may)
            partition = self._world.broker.partition(where)
            partition.begin = self._world.rng.randint(partition.begin + 1, until[where])
            self._world.count("input expired")
            self._world.tell(f"{where[0]}: {where[1]} begins at {partition.begin}")

    def _time_ms(self) -> int:
        now = int(1e3 * self._world.now)
        if self._times == "all alike":
            return 0
        return now if self._times == "of the world" else self._world.rng.randrange(now + 1)

    def _message(self, topic: str) -> bytes:
        """Of a new row, or of one taken back."""
        self._sent += 1
        rows = self._rows[topic]
        if rows and self._world.rng.random() < 0.4:
            key, number = rows.pop(self._world.rng.randrange(len(rows)))
            return circuit.message_of((key, number, -1))
        rows.append((self._world.rng.choice(self._keys), self._world.rng.randint(-9, 99)))
        return circuit.message_of((*rows[-1], 1))

    def _send_in_transaction(self, where: Where) -> None:
        if not self._open or self._world.rng.random() < 0.3:
            self._foreign += 1
            name = f"foreign{self._foreign}"
            self._open.append((name, self._world.broker.init(name)[1]))
        name, epoch = self._world.rng.choice(self._open)
        rows: list[Row] = [(None, self._message(where[0]), ()) for _ in range(self._world.rng.choice((1, 2)))]
        try:
            self._world.broker.produce(name, epoch, where, rows, now=self._world.now, time_ms=self._time_ms())
        except Refused:
            self._open.remove((name, epoch))
            return
        self._world.count("a foreign transaction holds the division back")
        self._world.tell(f"{where[0]}: {name} writes to {where[1]} in a transaction")

    def _end_foreign(self) -> None:
        name, epoch = self._open.pop(self._world.rng.randrange(len(self._open)))
        outcome: Outcome = self._world.rng.choice(("commit", "abort"))
        try:
            self._world.broker.end(name, epoch, outcome)
        except Refused:
            return
        self._world.count(f"foreign {outcome}")
        self._world.tell(f"{name}: {outcome}")
        if not self._world.faults:
            self._world.broker.finish(self._world.broker.producers[name].transaction)
