"""A step as one Spark job: a stage of the plan is a stage of the job, and an exchange is Spark's shuffle.

    parallelize(workers) -> source task -> partitionBy(worker) -> region task -> partitionBy(worker) -> ... -> collect

The elements of the RDDs are (target worker, ExchangeMessage), so a row is never an element. They are not DataFrames, because planning one costs
more than a step. Task i of every stage acts for worker i; tasks.py defines what it does.

PySpark treats a broken connection as the end of a task's input. If the JVM cannot fetch the rest of a shuffle, or is killed, the Python task
continues with the part that has arrived. Spark discards its result, but a commit to the database would stay. So every worker sends one message
to every worker, even if it is empty, and a task with state begins only when it has one from each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from engine.analysis.retraction import append_only_inputs
from engine.run.exchange import ExchangeMessage
from engine.run.region import Outbox
from engine.run.spark_results import collected
from engine.run.tasks import StepInput, TaskSetup, read_and_run_source, run_region


class SparkStep:
    """Runs steps on a SparkContext, one at a time."""

    def __init__(self, context: Any, setup: TaskSetup) -> None:
        assert setup.append_only == append_only_inputs(setup.plan.circuit)
        self._setup = setup
        self._shared = context.broadcast(setup)
        workers = setup.placement.workers
        self._seeds = context.parallelize(range(workers), workers)

    def run(self, given: StepInput) -> list[ExchangeMessage]:
        """The messages to the driver. A fault of a task is one of them. Raises TaskLost."""
        workers = self._setup.placement.workers
        rdd = self._seeds.mapPartitionsWithIndex(partial(source_task, self._shared, given))
        for stage in range(1, self._setup.plan.stages):
            routed = rdd.partitionBy(workers, int)
            rdd = routed.mapPartitionsWithIndex(partial(region_task, self._shared, given, stage))
        sent: list[tuple[int, ExchangeMessage]] = collected(
            rdd, workers, lambda item: item[1].source, f"step {given.step}"
        )
        return [message for _, message in sent]

    def close(self) -> None:
        self._shared.destroy()


class InputBrokenOff(Exception):
    """A part of a task's input is missing. Spark discards this run of the task and runs it again."""


def source_task(shared: Any, given: StepInput, worker: int, _: Iterable[int]) -> Iterator[tuple[int, ExchangeMessage]]:
    return _sent(shared.value, 0, worker, read_and_run_source(shared.value, given, worker))


def region_task(
    shared: Any, given: StepInput, stage: int, worker: int, routed: Iterable[tuple[int, ExchangeMessage]]
) -> Iterator[tuple[int, ExchangeMessage]]:
    setup: TaskSetup = shared.value
    inbox = [message for _, message in routed]
    missing = set(range(setup.placement.workers)) - {message.source for message in inbox}
    if missing:
        raise InputBrokenOff(
            f"step {given.step}, stage {stage}, worker {worker}: no message from workers {sorted(missing)} arrived; nothing was changed."
        )
    return _sent(setup, stage, worker, run_region(setup, given, stage, worker, inbox))


def _sent(setup: TaskSetup, stage: int, worker: int, outbox: Outbox) -> Iterator[tuple[int, ExchangeMessage]]:
    """One message for every task of the next stage. The last stage sends only what the outbox holds for the driver."""
    if stage == setup.plan.stages - 1:
        return iter(outbox.items())
    return ((target, outbox.get(target, ExchangeMessage(worker))) for target in range(setup.placement.workers))
