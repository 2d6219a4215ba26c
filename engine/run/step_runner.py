"""Where a step runs: a small one in the driver's process, a large one as a Spark job. The bytes are the same."""

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
"""One process has room for some hundred maps of a terabyte of address space, and a worker's database takes up to three."""

FOLD_NICENESS = 10
"""Of a fold's thread: it gets a tenth of what a step gets of a core that both want, and all that steps leave."""


class StepRunner:
    """`driver_rows_max`: the most offsets of a step that runs in the driver; 0 for none. It counts only where Spark's executors are on
    this host, for the databases are beside them."""

    def __init__(self, context: Any, setup: TaskSetup, driver_rows_max: int) -> None:
        is_local = str(context.master).startswith("local")
        here = is_local and setup.placement.workers <= DRIVER_WORKERS_MAX
        self._context, self._setup = context, setup
        self._rows_max = driver_rows_max if here else 0
        self._in_driver = DriverStep(setup)
        self._in_spark = SparkStep(context, setup)

    def run(self, given: StepInput) -> list[ExchangeMessage]:
        """The messages for the driver. Raises what a task reported: EngineError, KafkaFault, StorageError; and StepTooLarge, then nothing
        of the step has changed any state."""
        rows = sum(span.length for span in given.ranges)
        if rows <= self._rows_max:
            return _without_error(self._in_driver.run(given))
        self._in_driver.let_go()
        try:
            return _without_error(self._in_spark.run(given))
        except StepTooLarge:
            # A task knows its own ranges only, and its part of the bound; all of them together are measured here, as a small step's are.
            self._in_driver.measure(given)
            self._in_driver.let_go()
            return _without_error(self._in_spark.run(replace(given, bytes_max=None)))

    def freeze(self, version: VersionId) -> None:
        """At a boundary: sets every worker's changes aside as `version`. Steps wait for it, and a job takes ten times as long as what it
        does: so it is done here where steps may run here."""
        if self._rows_max == 0:
            database_jobs.freeze_all(self._context, self._setup, version)
        else:
            for worker in range(self._setup.placement.workers):
                database_jobs.freeze(self._setup, version, worker)

    def fold(self) -> dict[int, Folded]:
        """Makes the frozen changes durable, in a thread beside the steps. Where every step runs here, so does the fold, one worker after the
        other and with less claim to a core than the steps have: tasks of Spark would compete with them as equals."""
        if self._rows_max < sys.maxsize:
            return database_jobs.fold_all(self._context, self._setup)
        _give_way()
        return {worker: database_jobs.fold(self._setup, worker) for worker in range(self._setup.placement.workers)}

    def close(self) -> None:
        self._in_driver.close()
        self._in_spark.close()


def _without_error(messages: list[ExchangeMessage]) -> list[ExchangeMessage]:
    failed = first_error(messages)
    if failed is not None:
        raise error_of(failed)
    return messages


def _give_way() -> None:
    if sys.platform == "linux":  # where a thread has a priority of its own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), FOLD_NICENESS)
