"""A small step in the driver's own process: the same tasks in the same order, without a Spark job.

A job costs 40 to 50 ms of the JVM's CPU however small the step is. The tasks of a thousand rows cost a fifth of that. What a task does is a
function of the step's division and of the worker's state. So the output and the state have the same bytes wherever the task runs: a step may
run here the first time and in Spark when it is replayed, or the other way round.

The databases must be on this host. They are if Spark's master is local.
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
"""The tasks of a step with at least this many offsets run in threads. For a smaller step, handing them to threads costs more than it saves."""


class DriverStep:
    """Runs steps in this process, one at a time. The tasks of a large step run in one thread per worker: they spend most of their time in Arrow
    and numpy, which release the GIL."""

    def __init__(self, setup: TaskSetup) -> None:
        self._setup = setup
        self._reader = RangeReader(setup.kafka)
        self._is_holding = False  # whether the reader holds input that was measured for a step that runs in Spark
        self._threads = ThreadPoolExecutor(min(setup.placement.workers, os.cpu_count() or 1), "step")
        self._owners = setup.placement.partition_owners(setup.input_partitions)

    def run(self, given: StepInput) -> list[ExchangeMessage]:
        """The messages to the driver. A fault of a task is one of them. Raises StepTooLarge, and other faults of reading the input."""
        workers = range(self._setup.placement.workers)
        began = time.perf_counter()
        # All ranges are read in one call: one consumer has them all, and while it waits for one partition it fetches the others.
        side_by_side = sum(span.length for span in given.ranges) >= PARALLEL_ROWS_MIN
        batches = self._read(given, ahead=side_by_side)
        each: Callable[..., Iterable[Outbox]] = self._threads.map if side_by_side else map

        def source(worker: int) -> Outbox:
            return run_source(self._setup, given, worker, self._of_worker(given, worker, batches), began)

        def region(stage: int, worker: int, inbox: Sequence[ExchangeMessage]) -> Outbox:
            return run_region(self._setup, given, stage, worker, inbox)

        outboxes = list(each(source, workers))
        batches.clear()  # stage 0 has decoded them, and a later stage needs the memory
        for stage in range(1, self._setup.plan.stages):
            inboxes = [_inbox(outboxes, worker) for worker in workers]
            outboxes = list(each(partial(region, stage), workers, inboxes))
        return _inbox(outboxes, DRIVER)

    def measure(self, given: StepInput) -> None:
        """Raises StepTooLarge, with the offsets at which all ranges have to end, if the step has more than `bytes_max`. The input that was read
        stays in memory, because the step may run here next; `release` frees it."""
        self._is_holding = True
        self._read(given, ahead=False)

    def release(self) -> None:
        """Frees the input that `measure` has read."""
        if self._is_holding:
            self._reader.close()
            self._is_holding = False

    def _read(self, given: StepInput, *, ahead: bool) -> list[RawBatch]:
        return self._reader.read([s for s in given.ranges if s.length], ahead=ahead, bytes_max=given.bytes_max)

    def close(self) -> None:
        """Closes the databases too. A process that runs one pipeline after another has not enough address space for the databases of all."""
        self._threads.shutdown()
        self._reader.close()
        for folder, _ in self._setup.databases:
            Database.close(folder)

    def _of_worker(self, given: StepInput, worker: int, batches: Sequence[RawBatch]) -> list[RawBatch]:
        mine = of_worker(given.ranges, self._owners, worker, self._setup.placement.workers)
        return [batch for batch in batches if batch.range in mine]


def _inbox(outboxes: list[Outbox], target: int) -> list[ExchangeMessage]:
    return [outbox[target] for outbox in outboxes if target in outbox]
