"""Decides where a step runs: a small one in the driver's process, a large one as a Spark job. The bytes are the same."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import replace
from typing import Any

from base.version import VersionId
from engine.run import database_jobs
from engine.run.database_jobs import Folded
from engine.run.driver_step import DriverStep
from engine.run.exchange import ExchangeMessage, error_of, first_error
from engine.run.spark_step import SparkStep
from engine.run.tasks import StepInput, TaskSetup
from io_kafka.errors import StepTooLarge

DRIVER_WORKERS_MAX = 16
"""Of a pipeline whose steps may run in the driver. One process has address space for about a hundred memory maps of a terabyte, and a worker's
database uses up to three."""

FOLD_NICENESS = 10
"""The nice value of a fold's thread. On a core that both want, it gets a tenth of the time of a step's thread; it gets all time that steps
leave."""


class StepRunner:
    """`driver_rows_max`: the largest number of offsets of a step that runs in the driver; 0 if none does. It is ignored unless Spark's executors
    are on this host, because the databases are where the executors are."""

    def __init__(self, context: Any, setup: TaskSetup, driver_rows_max: int) -> None:
        is_local = str(context.master).startswith("local")
        here = is_local and setup.placement.workers <= DRIVER_WORKERS_MAX
        self._context, self._setup = context, setup
        self._rows_max = driver_rows_max if here else 0
        self._in_driver = DriverStep(setup)
        self._in_spark = SparkStep(context, setup)

    def run(self, given: StepInput) -> list[ExchangeMessage]:
        """The messages to the driver. Raises the fault that a task reported: an EngineError, a KafkaFault or a StorageError. Raises StepTooLarge
        before any state is changed."""
        rows = sum(span.length for span in given.ranges)
        if rows <= self._rows_max:
            return _without_error(self._in_driver.run(given))
        self._in_driver.release()
        try:
            return _without_error(self._in_spark.run(given))
        except StepTooLarge:
            # A task knows only its own ranges and its share of the bound, so the step as a whole may be within it. Here all ranges are measured
            # together, as those of a small step are.
            self._in_driver.measure(given)
            self._in_driver.release()
            return _without_error(self._in_spark.run(replace(given, bytes_max=None)))

    def freeze(self, version: VersionId) -> None:
        """Sets every worker's changes since the last version aside as `version`, at a boundary. Steps wait for it, and a Spark job takes ten
        times as long as the freeze itself. So it is done in the driver if steps may run there."""
        if self._rows_max == 0:
            database_jobs.freeze_all(self._context, self._setup, version)
        else:
            for worker in range(self._setup.placement.workers):
                database_jobs.freeze(self._setup, version, worker)

    def fold(self) -> dict[int, Folded]:
        """Makes the frozen changes durable, in a thread beside the steps. If every step runs in the driver, the fold does too: one worker after
        the other, at a lower priority than the steps. Spark's tasks would have the same priority as the steps."""
        if self._rows_max < sys.maxsize:
            return database_jobs.fold_all(self._context, self._setup)
        _lower_priority()
        return {worker: database_jobs.fold(self._setup, worker) for worker in range(self._setup.placement.workers)}

    def close(self) -> None:
        self._in_driver.close()
        self._in_spark.close()


def _without_error(messages: list[ExchangeMessage]) -> list[ExchangeMessage]:
    failed = first_error(messages)
    if failed is not None:
        raise error_of(failed)
    return messages


def _lower_priority() -> None:
    """Of this thread. Only on Linux has a thread its own priority."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), FOLD_NICENESS)
