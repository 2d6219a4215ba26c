"""Everybody else's producers: the input grows, in transactions and without, and some of them abort or stay open."""

from __future__ import annotations

import random
from typing import Protocol

from tests.simulator import circuit
from tests.simulator.broker import Broker, Outcome, Partition, Refused, Row

PARTITIONS, PARTITIONS_MAX = 2, 4


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
        self._rows: list[tuple[str, int]] = []

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
        where = circuit.INPUT, self._world.rng.randrange(len(self._world.broker.topics[circuit.INPUT].partitions))
        if self._world.faults and self._world.rng.random() < 0.3:
            self._send_in_transaction(where)
            return
        for _ in range(self._world.rng.choice((1, 1, 4))):
            self._world.broker.append(where, None, self._message())
        self._world.tell(f"input: {where[1]} ends at {self._world.broker.partition(where).end}")

    def grow(self) -> None:
        partitions = self._world.broker.topics[circuit.INPUT].partitions
        if len(partitions) < PARTITIONS_MAX:
            partitions.append(Partition())
            self._world.count("input topic grown")
            self._world.tell(f"input: {len(partitions)} partitions")

    def _message(self) -> bytes:
        """Of a new row, or of one taken back."""
        self._sent += 1
        if self._rows and self._world.rng.random() < 0.4:
            key, number = self._rows.pop(self._world.rng.randrange(len(self._rows)))
            return circuit.message_of((key, number, -1))
        self._rows.append((self._world.rng.choice(self._keys), self._world.rng.randint(-9, 99)))
        return circuit.message_of((*self._rows[-1], 1))

    def _send_in_transaction(self, where: tuple[str, int]) -> None:
        if not self._open or self._world.rng.random() < 0.3:
            self._foreign += 1
            name = f"foreign{self._foreign}"
            self._open.append((name, self._world.broker.init(name)[1]))
        name, epoch = self._world.rng.choice(self._open)
        rows: list[Row] = [(None, self._message(), ()) for _ in range(self._world.rng.choice((1, 2)))]
        try:
            self._world.broker.produce(name, epoch, where, rows, now=self._world.now)
        except Refused:
            self._open.remove((name, epoch))
            return
        self._world.count("a foreign transaction holds the division back")
        self._world.tell(f"input: {name} writes to {where[1]} in a transaction")

    def _end_foreign(self) -> None:
        name, epoch = self._open.pop(self._world.rng.randrange(len(self._open)))
        outcome: Outcome = self._world.rng.choice(("commit", "abort"))
        try:
            self._world.broker.end(name, epoch, outcome)
        except Refused:
            return
        self._world.count(f"foreign {outcome}")
        self._world.tell(f"input: {name}: {outcome}")
        if not self._world.faults:
            self._world.broker.finish(self._world.broker.producers[name].transaction)
