"""A step as one Spark job: a stage of the plan is a stage of the job, an exchange is Spark's shuffle.

    parallelize(workers) -> source task -> partitionBy(worker) -> region task -> partitionBy(worker) -> ... -> collect

Elements are (target worker, Parcel): whole Arrow blobs, never rows, and never a DataFrame (planning one costs more than a step).
Task i of every stage acts for worker i; tasks.py says what it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from engine.growth import append_only_inputs
from engine.parcels import Parcel
from engine.tasks import StepInput, TaskSetup, read_and_run_source, run_region


class SparkStep:
    """Runs steps on a SparkContext. One at a time."""

    def __init__(self, context: Any, setup: TaskSetup) -> None:
        assert setup.append_only == append_only_inputs(setup.plan.circuit)
        self._setup = setup
        self._shared = context.broadcast(setup)
        workers = setup.placement.workers
        self._seeds = context.parallelize(range(workers), workers)

    def run(self, given: StepInput) -> list[Parcel]:
        """The parcels for the driver, faults among them."""
        workers = self._setup.placement.workers
        rdd = self._seeds.mapPartitionsWithIndex(partial(source_task, self._shared, given))
        for stage in range(1, self._setup.plan.stages):
            routed = rdd.partitionBy(workers, int)
            rdd = routed.mapPartitionsWithIndex(partial(region_task, self._shared, given, stage))
        return [parcel for _, parcel in rdd.collect()]

    def close(self) -> None:
        self._shared.destroy()


def source_task(shared: Any, given: StepInput, worker: int, _: Iterable[int]) -> Iterator[tuple[int, Parcel]]:
    return iter(read_and_run_source(shared.value, given, worker).items())


def region_task(
    shared: Any, given: StepInput, stage: int, worker: int, routed: Iterable[tuple[int, Parcel]]
) -> Iterator[tuple[int, Parcel]]:
    return iter(run_region(shared.value, given, stage, worker, [parcel for _, parcel in routed]).items())
