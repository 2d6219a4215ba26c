"""A small step in the driver's own process: the same tasks in the same order, without a Spark job.

A job costs 40 to 50 ms of the JVM's CPU however small the step is; the tasks of a thousand rows cost a fifth of that. What a task
does is a function of the step's division and of the worker's state, so where it runs shows in no byte of the output or of the state:
a step may run here the first time and in Spark when it is replayed, or the other way round.

The databases must be on this host, which they are where Spark's master is local.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from engine.run.exchange import DRIVER, ExchangeMessage
from engine.run.region import Outbox
from engine.run.sources import of_worker
from engine.run.tasks import StepInput, TaskSetup, run_region, run_source
from io_kafka.clients.raw import RawBatch
from io_kafka.clients.reader import RangeReader
from storage.database import Database

PARALLEL_ROWS_MIN = 5_000
"""Of a step whose tasks run side by side: for a smaller one the hand-over between threads costs more than it saves."""


class DriverStep:
    """Runs steps in this process. One at a time; a large step's tasks in a thread a worker, for most of their time is in Arrow and numpy,
    which let other threads run."""

    def __init__(self, setup: TaskSetup) -> None:
        self._setup = setup
        self._reader = RangeReader(setup.kafka)
        self._is_holding = False  # what was measured for a step that runs elsewhere
        self._threads = ThreadPoolExecutor(min(setup.placement.workers, os.cpu_count() or 1), "step")
        self._owners = setup.placement.partition_owners(setup.input_partitions)

    def run(self, given: StepInput) -> list[ExchangeMessage]:
        """The messages to the driver. A fault of a task is one of them. Raises StepTooLarge, and other faults of reading."""
        workers = range(self._setup.placement.workers)
        began = time.perf_counter()
        # All ranges in one call: one consumer has them all, and while it waits for one partition the others run ahead.
        side_by_side = sum(span.length for span in given.ranges) >= PARALLEL_ROWS_MIN
        batches = self._read(given, ahead=side_by_side)
        each: Callable[..., Iterable[Outbox]] = self._threads.map if side_by_side else map

        def source(worker: int) -> Outbox:
            return run_source(self._setup, given, worker, self._of_worker(given, worker, batches), began)

        def region(stage: int, worker: int, inbox: Sequence[ExchangeMessage]) -> Outbox:
            return run_region(self._setup, given, stage, worker, inbox)

        outboxes = list(each(source, workers))
        batches.clear()  # they are decoded: a later stage needs the memory
        for stage in range(1, self._setup.plan.stages):
            inboxes = [_inbox(outboxes, worker) for worker in workers]
            outboxes = list(each(partial(region, stage), workers, inboxes))
        return _inbox(outboxes, DRIVER)

    def measure(self, given: StepInput) -> None:
        """Raises StepTooLarge, with where all ranges have to end, if the step has more than `bytes_max`. What was read stays here, for the
        step may run here next; `let_go` gives the memory back."""
        self._is_holding = True
        self._read(given, ahead=False)

    def let_go(self) -> None:
        if self._is_holding:
            self._reader.close()
            self._is_holding = False

    def _read(self, given: StepInput, *, ahead: bool) -> list[RawBatch]:
        return self._reader.read([s for s in given.ranges if s.length], ahead=ahead, bytes_max=given.bytes_max)

    def close(self) -> None:
        """A process that runs one pipeline after another has not the address space for all their databases."""
        self._threads.shutdown()
        self._reader.close()
        for folder, _ in self._setup.databases:
            Database.close(folder)

    def _of_worker(self, given: StepInput, worker: int, batches: Sequence[RawBatch]) -> list[RawBatch]:
        mine = of_worker(given.ranges, self._owners, worker, self._setup.placement.workers)
        return [batch for batch in batches if batch.range in mine]


def _inbox(outboxes: list[Outbox], target: int) -> list[ExchangeMessage]:
    return [outbox[target] for outbox in outboxes if target in outbox]
