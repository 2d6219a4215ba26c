"""Latency: the time from the append of a bid to the first moment at which a read_committed consumer has a result that includes it.

Bids are sent at a fixed rate, whatever the engine does (open loop), so a service that falls behind shows it. W2 counts the bids of each
auction, so the k-th bid of an auction is in the result when its count has reached k. The consumer records when each message arrived.
Nothing is asked of the engine, so all engines are measured in the same way.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition

from bench import generate
from bench.generate import PARTITIONS, Weights
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


FIRST_AUCTION = -1
"""The auction of the bid that shows that the engine reads."""


def first_bid() -> pa.Array:
    """One bid for an auction that no other bid has."""
    bid = next(generate.bids(generate.Shape(), 0, 1))
    return generate.as_json(bid.set_column(0, "auction", pa.array([FIRST_AUCTION])))


@dataclass
class Arrivals:
    """What the consumer saw: the time, the auction and its count."""

    at: list[float] = field(default_factory=list)
    auction: list[int] = field(default_factory=list)
    count: list[int] = field(default_factory=list)


def measure(bench: Bench, output: str, seconds: int, ready: Callable[[], None]) -> tuple[float, float, float]:
    """(p50 in ms, p99 in ms, share that never arrived) over `seconds` after the warm-up. `ready` blocks until the engine reads.

    The engine is running already and reads TOPIC from its end on."""
    arrivals, over = Arrivals(), threading.Event()
    thread = threading.Thread(target=_listen, args=(bench, output, arrivals, over), daemon=True)
    ready()
    thread.start()
    rows = LATENCY_ROWS_PER_S * (WARM_SECONDS + seconds)
    auction, sent_at = _send(bench, rows)
    deadline = time.monotonic() + LAST_SECONDS_MAX
    while time.monotonic() < deadline and not _complete(auction, arrivals):
        time.sleep(0.2)
    over.set()
    thread.join()
    first = LATENCY_ROWS_PER_S * WARM_SECONDS
    waited = readable_at(auction, arrivals)[first:] - sent_at[first:]
    came = waited[np.isfinite(waited)]
    p50, p99 = (1e3 * float(np.percentile(came, q)) for q in (50, 99))
    return p50, p99, 1 - len(came) / len(waited)


def _send(bench: Bench, rows: int) -> tuple[Weights, np.ndarray]:
    """Sends bids at the fixed rate. Returns the auction of each bid, and when it was due."""
    tables = list(generate.bids(bench.shape, 0, rows))
    auction = np.concatenate([t["auction"].to_numpy() for t in tables])
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
    return auction, sent_at


def _listen(bench: Bench, output: str, arrivals: Arrivals, over: threading.Event) -> None:
    consumer = Consumer(consumer_config(bench.servers))
    consumer.assign([ClientPartition(output, w.partition, 0) for w in bench.topics.partitions([output])])
    while not over.is_set():
        messages = consumer.consume(5_000, 0.01)
        now = time.time()
        for message in messages:
            found = _COUNT.search(message.value() or b"")
            if found:
                arrivals.at.append(now)
                arrivals.auction.append(int(found[1]))
                arrivals.count.append(int(found[2]))
    consumer.close()


def _complete(auction: Weights, arrivals: Arrivals) -> bool:
    seen: dict[int, int] = {}
    for name, count in zip(arrivals.auction, arrivals.count, strict=False):
        seen[name] = max(seen.get(name, 0), count)
    return sum(seen.values()) >= len(auction)


def readable_at(auction: Weights, arrivals: Arrivals) -> np.ndarray:
    """For each bid, the time at which the count of its auction had reached it; infinite if it never did."""
    result = np.full(len(auction), np.inf)
    places: dict[int, np.ndarray] = {}
    order = np.argsort(auction, kind="stable")
    names, starts = np.unique(auction[order], return_index=True)
    for name, rows in zip(names.tolist(), np.split(order, starts[1:]), strict=True):
        places[name] = rows
    reached: dict[int, int] = {}
    for at, name, count in zip(arrivals.at, arrivals.auction, arrivals.count, strict=True):
        done = reached.get(name, 0)
        if count > done:
            result[places[name][done:count]] = at
            reached[name] = count
    return result
