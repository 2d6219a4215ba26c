"""A Spark context that runs jobs as Spark does, and as badly: the project's own SparkStep and database_jobs run on it.

A task may be lost before, within or after its work, or see its input break off, and is then run again; a stage may run again though it was done;
a task that was given up may go on beside its replacement, and after its coordinator is gone. Each attempt is a process of its own, as Spark's
Python workers are.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, Protocol

from engine.run.spark_step import InputBrokenOff
from py4j.protocol import Py4JError

from tests.simulator.scheduler import Killed, Process, Strand

ATTEMPTS_MAX = 4  # Spark's default for a task
ZOMBIE_POINTS_MAX = 20  # about what a task comes by
BESIDE_SECONDS_MAX = 30.0

Work = Callable[[int, Iterable[Any]], Iterable[Any]]


class Cluster(Protocol):
    """What jobs ask of their world."""

    rng: random.Random

    def point(self, place: str) -> None: ...
    def fate(self, place: str, fates: Sequence[str]) -> str | None: ...
    def count(self, kind: str) -> None: ...
    def tell(self, what: str) -> None: ...
    def start_task(self, name: str) -> Process: ...
    def act(self, process: Process, work: Callable[[], Any]) -> Any: ...
    def spawn(self, name: str, process: Process, work: Callable[[], None]) -> Strand: ...
    def wait_for(self, until: Callable[[], bool], seconds: float) -> bool: ...
    def kill(self, process: Process, why: str) -> None: ...
    def wake_later(self, process: Process) -> None: ...


class Lost(Exception):
    """An attempt that gave no result."""


class Context:
    """As much of a SparkContext as the project uses. `master` says that executors are on the coordinator's host."""

    master = "local[2]"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def broadcast(self, value: Any) -> Any:
        return SimpleNamespace(value=value, destroy=lambda: None)

    def parallelize(self, items: Iterable[Any], partitions: int) -> Job:
        given = list(items)
        assert len(given) == partitions
        return Job(self._cluster, [[item] for item in given], ())


def _run(work: Work, index: int, given: Sequence[Any]) -> list[Any]:
    return list(work(index, iter(given)))


@dataclass(frozen=True)
class Job:
    """An RDD: `stages` of one function each, with an exchange between any two."""

    cluster: Cluster
    seeds: list[list[Any]]
    stages: tuple[Work, ...]
    exchanged: bool = True

    def mapPartitionsWithIndex(self, work: Work) -> Job:
        assert self.exchanged, "two functions in one stage"
        return replace(self, stages=(*self.stages, work), exchanged=False)

    def partitionBy(self, partitions: int, target: Callable[[Any], int]) -> Job:
        assert partitions == len(self.seeds) and target is int
        return replace(self, exchanged=True)

    def collect(self) -> list[Any]:
        cluster = self.cluster
        cluster.point("job")
        inputs, outputs, before = self.seeds, list[list[Any]](), list[list[Any]]()
        for number, work in enumerate(self.stages):
            if number:
                inputs, before = self._exchange(outputs), inputs
            outputs = self._stage(number, work, inputs)
            if number and cluster.fate("stage", ("run again",)):
                inputs = self._exchange(self._stage(number - 1, self.stages[number - 1], before))
                outputs = self._stage(number, work, inputs)
        results = [item for output in outputs for item in output]
        # As where the JVM is killed while it sends them, but that this one lives on.
        return (
            results[: cluster.rng.randrange(len(results))] if cluster.fate("job", ("results broken off",)) else results
        )

    def _stage(self, number: int, work: Work, inputs: Sequence[Sequence[Any]]) -> list[list[Any]]:
        results: dict[int, list[Any]] = {}
        order = list(range(len(inputs)))
        self.cluster.rng.shuffle(order)
        for index in order:
            results[index] = self._task(number, index, work, inputs[index])
        return [results[index] for index in range(len(inputs))]

    def _task(self, stage: int, index: int, work: Work, given: Sequence[Any]) -> list[Any]:
        for attempt in range(ATTEMPTS_MAX):
            try:
                return self._attempt(f"task {stage}.{index}.{attempt}", partial(_run, work, index), given)
            except Lost:
                self.cluster.count("task run again")
        raise Py4JError(f"a task of stage {stage} failed {ATTEMPTS_MAX} times")

    def _attempt(self, name: str, run: Callable[[Sequence[Any]], list[Any]], given: Sequence[Any]) -> list[Any]:
        cluster = self.cluster
        process = cluster.start_task(name)
        fate = cluster.fate(
            "task", ("lost before", "lost after", "lost within", "broken off", "zombie", "zombie", "zombie", "beside")
        )
        work = partial(run, given)
        if fate is None:
            return self._within(process, work)
        if fate == "lost before":
            raise Lost
        if fate == "lost after":
            self._within(process, work)
            raise Lost
        if fate == "broken off":
            # What PySpark gives to a task whose input the JVM cannot fetch to its end; nobody waits for the result.
            with suppress(InputBrokenOff):
                self._within(process, partial(run, given[: cluster.rng.randrange(len(given))]))
            raise Lost
        return self._beside(name, process, work, fate)

    def _within(self, process: Process, work: Callable[[], list[Any]]) -> list[Any]:
        """In the coordinator's own strand: faster, and the same as long as both live."""
        try:
            result: list[Any] = self.cluster.act(process, work)
            return result
        except Killed as killed:
            if killed.process is not process:
                raise
            raise Lost from None
        finally:
            process.alive = False

    def _beside(self, name: str, process: Process, work: Callable[[], list[Any]], fate: str) -> list[Any]:
        """In a strand of its own, which outlives the coordinator if that one dies."""
        cluster, results = self.cluster, list[list[Any]]()
        faults: list[Exception] = []

        def run() -> None:
            try:
                results.append(work())
            except Exception as fault:
                faults.append(fault)  # what comes after its coordinator gave it up is nobody's

        strand = cluster.spawn(name, process, run)
        if fate == "beside":
            cluster.wait_for(lambda: strand.done, BESIDE_SECONDS_MAX)
        else:
            process.stops_in = cluster.rng.randrange(ZOMBIE_POINTS_MAX)
            cluster.wait_for(lambda: strand.done or process.stopped, BESIDE_SECONDS_MAX)
        if not strand.done:
            if fate != "zombie":
                cluster.kill(process, "lost")
            else:
                cluster.wake_later(process)
            raise Lost
        if faults:
            raise faults[0]  # what the project does not send as an exchange message is a defect
        if not results:
            raise Lost
        return results[0]

    def _exchange(self, outputs: Sequence[Iterable[tuple[int, Any]]]) -> list[list[Any]]:
        """Every partition's items, whoever made them, in any order."""
        inputs: list[list[Any]] = [[] for _ in outputs]
        for output in outputs:
            for target, item in output:
                inputs[target].append((target, item))
        for items in inputs:
            self.cluster.rng.shuffle(items)
        return inputs
