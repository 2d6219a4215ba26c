"""What a run asks of the operating system, of chance and of the network, as one object.

Everything else in the coordinator and at the edge to Kafka is a function of its arguments. A test that runs many coordinators in one
process, with a clock and a broker of its own, passes another `Outside` with its `KafkaSettings` and replaces no names in modules. It
travels with the settings because everything that speaks to Kafka has them, in the coordinator as in a task.
"""

from __future__ import annotations

import gc
import logging
import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

# What librdkafka says, for whoever configures logging; silent otherwise, for our exceptions carry the reason.
CLIENT_LOG = logging.getLogger("io_kafka.librdkafka")
CLIENT_LOG.addHandler(logging.NullHandler())

COLLECT_OBJECTS = 50_000
"""New objects between two collections of the youngest. Python's own 700 makes 14 rounds for one call that reads messages."""


class Thread(Protocol):
    """A thread that runs already."""

    def is_alive(self) -> bool: ...

    def join(self, timeout: float) -> None: ...


@dataclass(frozen=True)
class Outside:
    """Times are in seconds. `monotonic` never goes back, `random` gives 0 <= r < 1, and `new_id` gives a text that is unique everywhere.

    `settle_memory` takes what lives by now out of the cyclic collector's sight, and `release_memory` puts it back."""

    producer: Callable[[Mapping[str, Any]], Producer]
    consumer: Callable[[Mapping[str, Any]], Consumer]
    admin: Callable[[Mapping[str, Any]], AdminClient]
    monotonic: Callable[[], float]
    sleep: Callable[[float], None]
    random: Callable[[], float]
    new_id: Callable[[], str]
    pid: Callable[[], int]
    hostname: Callable[[], str]
    start_thread: Callable[[str, Callable[[], None]], Thread]
    settle_memory: Callable[[], None]
    release_memory: Callable[[], None]


def _producer(config: Mapping[str, Any]) -> Producer:
    return Producer(dict(config), logger=CLIENT_LOG)


def _consumer(config: Mapping[str, Any]) -> Consumer:
    return Consumer(dict(config), logger=CLIENT_LOG)


def _admin(config: Mapping[str, Any]) -> AdminClient:
    return AdminClient(dict(config), logger=CLIENT_LOG)


def _random() -> float:
    """`random.random` itself is bound to a generator, whose state would be sent to every task."""
    return random.random()


def _new_id() -> str:
    return uuid.uuid4().hex


def _start_thread(name: str, work: Callable[[], None]) -> Thread:
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread


def _settle_memory() -> None:
    """What lives by now lives as long as the run: the collector need not look at it again. And a batch of messages is thousands of
    objects that die at once: collections are for cycles, of which steps make few."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_OBJECTS)


REAL = Outside(
    producer=_producer,
    consumer=_consumer,
    admin=_admin,
    monotonic=time.monotonic,
    sleep=time.sleep,
    random=_random,
    new_id=_new_id,
    pid=os.getpid,
    hostname=socket.gethostname,
    start_thread=_start_thread,
    settle_memory=_settle_memory,
    release_memory=gc.unfreeze,
)
"""The machine that the process runs on. Its fields are named functions, so that it can be sent to a task."""
