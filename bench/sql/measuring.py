"""Runs the forms of a suite over its feed, compares every state with Spark, and measures steps and batch runs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from bench.sql import comparing
from bench.sql.feeds import Feed, generated, make
from bench.sql.lowering import Form, forms
from bench.sql.running import CHECKPOINT_STEPS, Running
from bench.sql.suites import Suite
from engine.expressions.evaluate import ExpressionError

BATCH_RUNS = 3
"""Spark's batch run is measured so often, after one run that is not measured."""


@dataclass
class Measured:
    """One row of the table. Times are in ms: `step_ms` the median of the steps with a change of 1 %, `step_ms_max` the slowest of them,
    `batch_ms` the median of Spark's batch runs over the last state, `load_ms` all steps of the load. `rows`: of Spark's last answer.
    `equal` is None if the form does not lower, and `problem` says what differed or what was refused."""

    suite: str
    query: str
    lowers: bool
    equal: bool | None = None
    rows: int | None = None
    load_ms: float | None = None
    step_ms: float | None = None
    step_ms_max: float | None = None
    batch_ms: float | None = None
    ratio: float | None = None
    problem: str = ""


@dataclass(frozen=True)
class Options:
    """How the feed is cut. `scale` is the suite's scale factor."""

    scale: float
    loads: int = 4
    changes: int = 5
    workers: int = 1
    timed: bool = True


class SuiteRun:
    """A suite with its feed in `folder`, which keeps generated rows for the next run."""

    def __init__(self, suite: Suite, spark: SparkSession, folder: Path, work: Path, options: Options) -> None:
        self.suite, self.spark, self.options, self.work = suite, spark, options, work
        tables = generated(suite.name, options.scale, folder / f"{suite.name}-{options.scale}")
        self._frames: dict[int, dict[str, DataFrame]] = {}
        self.feed: Feed = make(tables, work / f"{suite.name}-states", options.loads, options.changes)

    def rows(self, names: Sequence[str] = ()) -> Iterator[Measured]:
        """One row a form, as soon as it is measured."""
        for form in list(forms(self.suite, self.spark, names)):
            yield self.measured(form)

    def measured(self, form: Form) -> Measured:
        row = Measured(form.suite, form.name, form.lowers)
        if form.circuit is None:
            row.problem = "; ".join(form.reasons)
            return row
        query = self.suite.queries[form.name]
        steps: list[float] = []
        try:
            with Running(form.circuit, self.work / f"{form.suite}-{form.name}", self.options.workers) as running:
                for number, change in enumerate(self.feed.changes):
                    steps.append(1e3 * running.step(change))
                    if running.steps % CHECKPOINT_STEPS == 0:
                        running.checkpoint()
                    if number >= self.feed.loads - 1:
                        row.problem = row.problem or self._compare(running, number, query, row)
        except ExpressionError as error:
            row.equal = self._raises(len(steps), query, error)
            row.problem = (
                f"step {len(steps)} raises {error.error_class}, and Spark {'too' if row.equal else 'does not'}"
            )
            return row
        except Exception as error:  # one form that fails is a row of the table, and the others still run
            row.equal, row.problem = False, f"{type(error).__name__}: {error}"
            return row
        row.equal = not row.problem
        changed = steps[self.feed.loads :]
        row.load_ms = round(sum(steps[: self.feed.loads]))
        row.step_ms, row.step_ms_max = round(statistics.median(changed), 1), round(max(changed), 1)
        if self.options.timed:
            row.batch_ms = round(statistics.median(self._batch_ms(query) for _ in range(BATCH_RUNS)), 1)
            row.ratio = round(row.step_ms / row.batch_ms, 3)
        return row

    def _compare(self, running: Running, number: int, query: str, row: Measured) -> str:
        self._show(number)
        expected = comparing.answer(query, self.spark)
        row.rows = expected.num_rows
        found = comparing.difference(running.content(), expected, query, self.spark.sql)
        return f"after step {number}: {found}" if found else ""

    def _raises(self, number: int, query: str, error: ExpressionError) -> bool:
        """Whether Spark raises the same error over the tables as they are after a step."""
        self._show(number)
        try:
            comparing.answer(query, self.spark)
        except PySparkException as raised:
            return bool(raised.getCondition() == error.error_class)
        return False

    def _batch_ms(self, query: str) -> float:
        began = time.perf_counter()
        comparing.answer(query, self.spark)
        return 1e3 * (time.perf_counter() - began)

    def _show(self, number: int) -> None:
        """Lets Spark's queries read the tables as they are after a step. A frame is made once, because Spark then looks into the file."""
        if number not in self._frames:
            files = self.feed.states[number].glob("*.parquet")
            self._frames[number] = {
                file.stem: self.spark.read.schema(self._schema(file)).parquet(str(file)) for file in files
            }
        for name, frame in self._frames[number].items():
            frame.createOrReplaceTempView(name)

    def _schema(self, file: Path) -> StructType:
        return cast(StructType, from_arrow_schema(pq.read_schema(file)))
