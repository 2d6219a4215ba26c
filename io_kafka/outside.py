"""Everything nondeterministic that a run uses, as one object: Kafka's clients, clock, random numbers, process id, threads.

Guarantee: all other code of the coordinator that decides, and of the clients of Kafka, is a function of its arguments. So a test can run many
coordinators in one process, with a simulated clock and broker: it passes another `Outside` with its `KafkaSettings`. What only measures for
people (coordinator/measures.py) reads the clock itself.

`Outside` is part of the settings because all code that talks to Kafka has these, in the coordinator and in a task.
"""

from __future__ import annotations

import gc
import os
import random
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from base.memory import give_back_freed_memory
from io_kafka.client_log import CLIENT_LOG

COLLECT_OBJECTS = 50_000
"""New objects between two collections of the youngest generation. Python's default of 700 leads to 14 collections in one call that reads
messages."""

BACKGROUND_NICENESS = 10
"""The nice value of a thread that gives way. On a core that both want, it gets a tenth of the time of another thread; it gets all time that
others leave."""


class Thread(Protocol):
    """A thread that was started."""

    def is_alive(self) -> bool: ...

    def join(self, timeout: float) -> None: ...


@dataclass(frozen=True)
class Outside:
    """Times are in seconds. `monotonic` never goes back. `wall_clock` gives the seconds since 1970-01-01 UTC, and may jump.
    `random` returns 0 <= r < 1, and `new_id` returns a globally unique text.

    `thread_clock` returns a function that gives the CPU seconds of the calling thread, to any thread while that one lives.
    `lower_priority` makes the calling thread give way to others.
    `freeze_memory` excludes all objects that exist now from cyclic garbage collection, and `release_memory` includes them again.
    `give_back_memory` returns freed memory to the system."""

    producer: Callable[[Mapping[str, Any]], Producer]
    consumer: Callable[[Mapping[str, Any]], Consumer]
    admin: Callable[[Mapping[str, Any]], AdminClient]
    monotonic: Callable[[], float]
    wall_clock: Callable[[], float]
    sleep: Callable[[float], None]
    random: Callable[[], float]
    new_id: Callable[[], str]
    pid: Callable[[], int]
    hostname: Callable[[], str]
    start_thread: Callable[[str, Callable[[], None]], Thread]
    thread_clock: Callable[[], Callable[[], float]]
    lower_priority: Callable[[], None]
    freeze_memory: Callable[[], None]
    release_memory: Callable[[], None]
    give_back_memory: Callable[[], None]


def _producer(config: Mapping[str, Any]) -> Producer:
    return Producer(dict(config), logger=CLIENT_LOG)


def _consumer(config: Mapping[str, Any]) -> Consumer:
    return Consumer(dict(config), logger=CLIENT_LOG)


def _admin(config: Mapping[str, Any]) -> AdminClient:
    return AdminClient(dict(config), logger=CLIENT_LOG)


def _random() -> float:
    """A plain function, because `random.random` is bound to a generator, whose state would be sent to every task."""
    return random.random()


def _new_id() -> str:
    return uuid.uuid4().hex


def _start_thread(name: str, work: Callable[[], None]) -> Thread:
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread


def _thread_clock() -> Callable[[], float]:
    """Where the system has no clock for a single thread, that of the whole process takes its place."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.process_time
    clock = time.pthread_getcpuclockid(threading.get_ident())
    return lambda: time.clock_gettime(clock)


def _lower_priority() -> None:
    """Only on Linux has a thread its own priority."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), BACKGROUND_NICENESS)


def _freeze_memory() -> None:
    """Objects that exist now live as long as the run, so the collector need not visit them again. Collections become rare, because a batch of
    messages is thousands of objects that are freed without the collector, and steps make few cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_OBJECTS)


REAL = Outside(
    producer=_producer,
    consumer=_consumer,
    admin=_admin,
    monotonic=time.monotonic,
    wall_clock=time.time,
    sleep=time.sleep,
    random=_random,
    new_id=_new_id,
    pid=os.getpid,
    hostname=socket.gethostname,
    start_thread=_start_thread,
    thread_clock=_thread_clock,
    lower_priority=_lower_priority,
    freeze_memory=_freeze_memory,
    release_memory=gc.unfreeze,
    give_back_memory=give_back_freed_memory,
)
"""The real clients and the real machine. Its fields are named functions, so that it can be sent to a task."""
