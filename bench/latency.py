"""Latency: the time from the append of a bid to the first moment at which a read_committed consumer has a result that includes it.

Bids are sent at a fixed rate, whatever the engine does (open loop), so a service that falls behind shows it. A bid is told in the output by a
key and a number: W2 counts the bids of each auction, so the k-th bid of an auction is in the result when its count has reached k. W1 writes each
bid that passes its filter, so it is there when the k-th row of its auction, bidder and millisecond is. The consumer records when each message
arrived. Nothing is asked of the engine, so all engines are measured in the same way.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition

from base.arrays import Bools
from bench import generate
from bench.generate import PARTITIONS
from bench.topics import Bench, consumer_config, producer_config, send
from bench.workloads import LATENCY_ROWS_PER_S

SEND_SECONDS_BETWEEN = 0.005
"""100 bids at a time, at 20,000 bids per second."""

WARM_SECONDS = 20
"""Bids are sent for this long before the measurement begins, because the JVM compiles at first."""

LAST_SECONDS_MAX = 30
"""How long the consumer waits for results after the last bid. A result that is missing then counts as never arrived."""

TOPIC = "bids_live"

_COUNT = re.compile(rb'"auction":(\d+),"bids":(\d+)')
_ROW = re.compile(rb'"auction":(\d+),"bidder":(\d+),.*"date_time":"([^"]{10})[T ]([^"]{12})')

FIRST_AUCTION, FIRST_PRICE = -3, generate.PRICE_MAX
"""The auction of the bid that shows that the engine reads. W1 lets it pass, and no pattern above takes its result for that of another bid."""


def first_bid() -> pa.Array:
    """One bid for an auction that no other bid has."""
    bid = next(generate.bids(generate.Shape(), 0, 1))
    bid = bid.set_column(bid.column_names.index("price"), "price", pa.array([FIRST_PRICE]))
    return generate.as_json(bid.set_column(0, "auction", pa.array([FIRST_AUCTION])))


Key = bytes


@dataclass
class Arrivals:
    """What the consumer saw: the time, and the bids that are in the output by then: the first `count` of a key."""

    at: list[float] = field(default_factory=list)
    key: list[Key] = field(default_factory=list)
    count: list[int] = field(default_factory=list)

    def add(self, at: float, key: Key, count: int) -> None:
        self.at.append(at)
        self.key.append(key)
        self.count.append(count)


class Traced(Protocol):
    """How the bids of a workload are found in its output."""

    def keys(self, bids: pa.Table) -> tuple[list[Key], Bools]:
        """(the key of each bid, whether it must come to the output)."""

    def take(self, value: bytes, at: float, arrivals: Arrivals) -> None:
        """A message of the output has arrived."""


class Counts:
    """W2: the count of an auction."""

    def keys(self, bids: pa.Table) -> tuple[list[Key], Bools]:
        return [str(auction).encode() for auction in bids["auction"].to_pylist()], np.ones(bids.num_rows, np.bool_)

    def take(self, value: bytes, at: float, arrivals: Arrivals) -> None:
        if found := _COUNT.search(value):
            arrivals.add(at, found[1], int(found[2]))


class Rows:
    """W1: the rows themselves."""

    def __init__(self) -> None:
        self._seen: Counter[Key] = Counter()

    def keys(self, bids: pa.Table) -> tuple[list[Key], Bools]:
        moment = bids["date_time"].cast(pa.timestamp("ms")).cast(pa.string())
        parts = zip(bids["auction"].to_pylist(), bids["bidder"].to_pylist(), moment.to_pylist(), strict=True)
        passes = (bids["price"].to_numpy() > 5_000) & (bids["auction"].to_numpy() % 3 == 0)
        return [f"{auction},{bidder},{at}".encode() for auction, bidder, at in parts], passes

    def take(self, value: bytes, at: float, arrivals: Arrivals) -> None:
        if found := _ROW.search(value):
            key = b"%s,%s,%s %s" % found.groups()
            self._seen[key] += 1
            arrivals.add(at, key, self._seen[key])


TRACED: dict[str, Callable[[], Traced]] = {"W1": Rows, "W2": Counts}
"""By workload."""


def measure(
    bench: Bench, workload: str, output: str, seconds: int, ready: Callable[[], None]
) -> tuple[float, float, float]:
    """(p50 in ms, p99 in ms, share that never arrived) over `seconds` after the warm-up. `ready` blocks until the engine reads.

    The engine is running already and reads TOPIC from its end on."""
    traced, arrivals, over = TRACED[workload](), Arrivals(), threading.Event()
    thread = threading.Thread(target=_listen, args=(bench, output, traced, arrivals, over), daemon=True)
    ready()
    thread.start()
    keys, must_come, sent_at = _send(bench, traced, LATENCY_ROWS_PER_S * (WARM_SECONDS + seconds))
    expected = [keys[i] for i in np.flatnonzero(must_come)]
    deadline = time.monotonic() + LAST_SECONDS_MAX
    while time.monotonic() < deadline and not _complete(expected, arrivals):
        time.sleep(0.2)
    over.set()
    thread.join()
    measured = np.flatnonzero(must_come & (np.arange(len(keys)) >= LATENCY_ROWS_PER_S * WARM_SECONDS))
    readable = np.full(len(keys), np.inf)
    readable[must_come] = readable_at(expected, arrivals)
    waited = readable[measured] - sent_at[measured]
    came = waited[np.isfinite(waited)]
    p50, p99 = (1e3 * float(np.percentile(came, q)) for q in (50, 99))
    return p50, p99, 1 - len(came) / len(waited)


def _send(bench: Bench, traced: Traced, rows: int) -> tuple[list[Key], Bools, np.ndarray]:
    """Sends bids at the fixed rate. Returns their keys, whether they must come to the output, and when they were due."""
    tables = list(generate.bids(bench.shape, 0, rows))
    keys, must_come = traced.keys(pa.concat_tables(tables))
    values = [generate.as_json(t) for t in tables]
    config = {**producer_config(bench.servers), "linger.ms": 1}
    producer = Producer(config)
    sent_at = np.empty(rows)
    burst = round(LATENCY_ROWS_PER_S * SEND_SECONDS_BETWEEN)
    began, number = time.time(), 0
    for chunk in values:
        for at in range(0, len(chunk), burst):
            due = began + number / LATENCY_ROWS_PER_S
            if (early := due - time.time()) > 0:
                time.sleep(early)
            part = chunk.slice(at, burst)
            # The time at which it was due, not at which it was sent: a sender that the machine delays must not make the engine look faster.
            sent_at[number : number + len(part)] = due
            send(producer, TOPIC, PARTITIONS, None, part)
            producer.poll(0)
            number += len(part)
    producer.flush(LAST_SECONDS_MAX)
    return keys, must_come, sent_at


def _listen(bench: Bench, output: str, traced: Traced, arrivals: Arrivals, over: threading.Event) -> None:
    consumer = Consumer(consumer_config(bench.servers))
    consumer.assign([ClientPartition(output, w.partition, 0) for w in bench.topics.partitions([output])])
    while not over.is_set():
        messages = consumer.consume(5_000, 0.01)
        now = time.time()
        for message in messages:
            traced.take(message.value() or b"", now, arrivals)
    consumer.close()


def _complete(keys: Sequence[Key], arrivals: Arrivals) -> bool:
    seen: dict[Key, int] = {}
    for key, count in zip(arrivals.key, arrivals.count, strict=False):
        seen[key] = max(seen.get(key, 0), count)
    return sum(seen.values()) >= len(keys)


def readable_at(keys: Sequence[Key], arrivals: Arrivals) -> np.ndarray:
    """For each bid that must come to the output, the time at which the count of its key had reached it; infinite if it never did."""
    result = np.full(len(keys), np.inf)
    places: dict[Key, list[int]] = {}
    for row, key in enumerate(keys):
        places.setdefault(key, []).append(row)
    reached: dict[Key, int] = {}
    for at, key, count in zip(arrivals.at, arrivals.key, arrivals.count, strict=True):
        done = reached.get(key, 0)
        if count > done:
            result[places[key][done:count]] = at
            reached[key] = count
    return result
