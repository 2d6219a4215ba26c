"""The input of a campaign: a producer that goes on in the background, over uneven and empty partitions."""

from __future__ import annotations

import json
import random
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Producer

from tests.end_to_end.harness import READ_SECONDS_MAX, Playground, wait_until
from tests.io_kafka.formats import avro_messages as a
from tests.schema_registry import SchemaRegistry

PAUSE_SECONDS = 0.25
"""Between two bursts."""

PERSON = a.record(("customer", "string"), ("country", ["null", "string"]), name="Person")
PERSON_KEY = a.record(("customer", "string"), name="PersonKey")
CUSTOMERS = [f"c{i}" for i in range(13)]
IDS = 60
MALFORMED = 0.02
"""The share of the clicks."""


class Feed:
    """Draws messages from `chance` and sends them. `spread`: of each topic the partitions that get messages, some of them more often."""

    def __init__(self, play: Playground, registry: SchemaRegistry, chance: random.Random) -> None:
        self.play, self.registry, self.chance = play, registry, chance
        self.producer = Producer({"bootstrap.servers": play.servers, "linger.ms": 1})
        self.spread = {name: self._spread(count) for name, count in self._partitions().items()}
        self.malformed = 0
        self.minute = 0
        self.live: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)  # of the moves, by partition
        self.erring: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._going = threading.Event()
        self._stopping = threading.Event()
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._go_on, daemon=True, name="feed")

    def _partitions(self) -> Mapping[str, int]:
        names = ("orders", "clicks", "people", "moves", "sales")
        found = {**{name: self.chance.randint(1, 5) for name in names}, "ticks": 1}
        for name, count in found.items():
            self.play.topic(name, count)
        return found

    def _spread(self, count: int) -> list[int]:
        """At least one partition gets messages. One may get most of them, and one none."""
        used = [p for p in range(count) if self.chance.random() < 0.8] or [0]
        return [p for p in used for _ in range(self.chance.choice((1, 1, 4)))]

    # In the background

    def __enter__(self) -> Feed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._going.set()
        self._thread.join(READ_SECONDS_MAX)

    def _go_on(self) -> None:
        try:
            while not self._stopping.is_set():
                self._going.wait()
                with self._lock:
                    if self._going.is_set() and not self._stopping.is_set():
                        self.burst(1)
                self._stopping.wait(PAUSE_SECONDS)
        except BaseException as fault:
            self._fault = fault

    def go_on(self) -> None:
        self._going.set()

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Within it nothing is sent in the background, and all that was sent is in its topic."""
        was = self._going.is_set()
        self._going.clear()
        with self._lock:
            assert self.producer.flush(READ_SECONDS_MAX) == 0
            if self._fault is not None:
                raise self._fault
        yield
        if was:
            self._going.set()

    def also_to(self, name: str, partition: int) -> None:
        """The topic has got this partition. A producer that has sent to it before would learn of that after minutes."""
        with self.resting():
            self.producer = Producer({"bootstrap.servers": self.play.servers, "linger.ms": 1})
            wait_until(
                lambda: (
                    partition
                    in self.producer.list_topics(timeout=READ_SECONDS_MAX).topics[self.play.prefix + name].partitions
                )
            )
            self.spread[name].append(partition)

    # What is sent

    def burst(self, size: int) -> None:
        """About 12 messages for each unit of size."""
        for _ in range(size):
            for _ in range(self.chance.randint(1, 4)):
                self._order()
            for _ in range(self.chance.randint(1, 6)):
                self._click()
            for send in (self._person, self._move, self._move, self._sale, self._tick):
                if self.chance.random() < 0.6:
                    send()
        self.producer.poll(0)

    def _send(self, name: str, value: bytes | None, key: bytes | None, of: int | None) -> None:
        """`of`: the number of the key, whose messages are all in one partition."""
        places = self.spread[name]
        partition = self.chance.choice(places) if of is None else places[of % len(places)]
        self.producer.produce(self.play.prefix + name, value=value, key=key, partition=partition)

    def _order(self) -> None:
        number = self.chance.randrange(IDS)
        row = {"id": number, "customer": self.chance.choice(CUSTOMERS), "amount": self.chance.randrange(50)}
        row["note"] = self.chance.choice(["x", "y", None])
        value = None if self.chance.random() < 0.2 else json.dumps(row).encode()
        self._send("orders", value, json.dumps({"id": number}).encode(), number)

    def _click(self) -> None:
        if self.chance.random() < MALFORMED:
            self.malformed += 1
            self._send("clicks", b"no JSON %d" % self.malformed, None, None)
            return
        row = {
            "customer": self.chance.choice(CUSTOMERS),
            "page": f"p{self.chance.randrange(9)}",
            "n": self.chance.randrange(50),
        }
        self._send("clicks", json.dumps(row).encode(), None, None)

    def _person(self) -> None:
        number = self.chance.randrange(len(CUSTOMERS) - 3)  # some customers stay unknown
        row = {"customer": CUSTOMERS[number], "country": self.chance.choice(["A", "B", "C", None])}
        key = a.written(self.registry, PERSON_KEY, [{"customer": CUSTOMERS[number]}])[0]
        value = None if self.chance.random() < 0.25 else a.written(self.registry, PERSON, [row])[0]
        self._send("people", value, key, number)

    def _move(self) -> None:
        partition = self.chance.choice(self.spread["moves"])
        live = self.live[partition]
        row = {"customer": self.chance.choice(CUSTOMERS), "n": self.chance.randint(1, 9)}
        if live and self.chance.random() < 0.5:
            before = live.pop(self.chance.randrange(len(live)))
            if self.chance.random() < 0.5:
                self._change(partition, before, None, "d")
                return
            self._change(partition, before, row, "u")
        else:
            self._change(partition, None, row, "c")
        live.append(row)

    def _change(self, partition: int, before: Any, after: Any, op: str) -> None:
        value = json.dumps({"before": before, "after": after, "op": op}).encode()
        self.producer.produce(self.play.prefix + "moves", value=value, partition=partition)

    def _sale(self) -> None:
        row = {"customer": self.chance.choice(CUSTOMERS), "amount": self.chance.randrange(90)}
        value = b"{" if self.chance.random() < MALFORMED else json.dumps(row).encode()
        self._send("sales", value, None, None)

    def _tick(self) -> None:
        self.minute += self.chance.randint(0, 2)
        hour, minute = divmod(self.minute, 60)
        row = {"at": f"2026-01-{1 + hour // 24:02}T{hour % 24:02}:{minute:02}:00Z", "n": self.chance.randrange(9)}
        self._send("ticks", json.dumps(row).encode(), None, None)

    # Rows in error

    def err(self) -> None:
        """From now on a customer of its own has moves that add up to 0, by which views divide."""
        with self._lock:
            for n in (3, -3):
                row = {"customer": f"e{len(self.erring)}", "n": n}
                self._change(self.spread["moves"][0], None, row, "c")
                if n < 0:
                    self.erring.append(row)

    def correct(self) -> None:
        with self._lock:
            for row in self.erring:
                self._change(self.spread["moves"][0], row, None, "d")
            self.erring.clear()
