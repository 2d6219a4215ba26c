"""Spark's batch answer after each step of a case, by few jobs: the answers of all views after all steps are one union."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tests.fuzz import python_functions
from tests.fuzz.cases import RECORDS, Case, Source, View, contents, numbered, time_ms
from tests.fuzz.clock import at
from tests.fuzz.terms import Recursive, Unduplicated, frame, frame_or_sql, walk
from tests.fuzz.values import DDL, INTERVALS, arrow_column, seen
from tests.small_jobs import small


@dataclass(frozen=True)
class Raised:
    """Spark's error, in place of the rows. `condition`: the class of the error."""

    condition: str
    text: str


Rows = list[str]
Answers = dict[tuple[int, str], Rows | Raised]
"""By step and view. A row is JSON."""


class Batch:
    """A session whose jobs are tiny."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = small(spark)
        python_functions.register(self.spark)

    def answers(self, case: Case) -> Answers:
        frames = dict(self._frames(case))
        try:
            return self._collected(frames)
        except (PySparkException, Py4JJavaError):
            return self._one_by_one(frames)

    def _frames(self, case: Case) -> Iterator[tuple[tuple[int, str], DataFrame]]:
        tables = {source.name: self._versions(source, case) for source in case.sources}
        for step in case.compared:
            for source in case.sources:
                there = _opaque(tables[source.name].where(f"first <= {step} AND {step} < beyond"), self.schema(source))
                if source.read == "reader":
                    there.createOrReplaceTempView(source.records)
                    there = self.spark.sql(source.sql)
                there.createOrReplaceTempView(source.name)
            for view in case.views:
                made = self.frame(view, step, spread=True)
                if any(isinstance(node, Recursive) for node in walk(view.query)):
                    made = _run_once(made)
                made.createOrReplaceTempView(view.name)
                if not view.temporary:
                    text = F.to_json(F.struct("*"), {"ignoreNullFields": "false"})
                    yield (step, view.name), made.select(text.alias("row"))

    def frame(self, view: View, step: int, *, spread: bool = False) -> DataFrame:
        """With the time of the step. `spread`: all rows of which a view may hold any."""
        query = view.query
        if spread and isinstance(query, Unduplicated) and view.any_of is not None:
            rows: DataFrame = eval(at(frame_or_sql(query.query), step), {"spark": self.spark, "F": F})
            return rows
        if view.as_frame:
            made: DataFrame = eval(at(frame(query), step), {"spark": self.spark, "F": F})
            return made
        return self.spark.sql(at(query.sql, step))

    def schema(self, source: Source) -> Any:
        """The columns of the table in the JVM, or of the records. Of a CHAR or VARCHAR it is what Spark itself makes of one in a table."""
        jvm: Any = self.spark._jvm
        declared = getattr(jvm, "org.apache.spark.sql.types.StructType").fromDDL(
            RECORDS if source.read == "reader" else source.ddl
        )
        return getattr(jvm, "org.apache.spark.sql.catalyst.util.CharVarcharUtils").replaceCharVarcharWithStringInSchema(
            declared
        )

    def _versions(self, source: Source, case: Case) -> DataFrame:
        """Every row with the step from which on and the one before which it is there."""
        if source.read == "reader":
            return self._records(source, case)
        steps = contents(case)[source.name]
        rows: list[tuple[Any, ...]] = []
        for key in {key for step in steps for key in step}:
            counts = [step[key] for step in steps]
            for copy in range(max(counts)):
                there = [count > copy for count in counts]
                edges = [i for i, now in enumerate(there) if now != (i > 0 and there[i - 1])] + [len(there)]
                spans = zip(edges[::2], edges[1::2], strict=False)
                rows += [(*key[1], first, end) for first, end in spans]
        columns = list(zip(*rows, strict=True)) or [()] * (len(source.columns) + 2)
        arrays = [arrow_column(list(c), t) for c, t in zip(columns, source.types, strict=False)]
        arrays += [pa.array(c, pa.int32()) for c in columns[-2:]]
        names = [name for name, _, _ in source.columns]
        kinds = ["int" if seen(kind) in INTERVALS else seen(kind) for _, kind, _ in source.columns]
        nulls = ["" if nullable else " NOT NULL" for _, _, nullable in source.columns]
        ddl = ", ".join(f"{name} {kind}{null}" for name, kind, null in zip(names, kinds, nulls, strict=True))
        schema = StructType.fromDDL(f"{ddl}, first int, beyond int")
        table = pa.Table.from_arrays(arrays, [*names, "first", "beyond"])
        shown = [f"{_of_months(name, kind)} AS {name}" for name, kind, _ in source.columns]
        return self.spark.createDataFrame(table, schema).coalesce(1).selectExpr(*shown, "first", "beyond")

    def _records(self, source: Source, case: Case) -> DataFrame:
        rows = [
            (
                m.key(source),
                m.value(source),
                source.name,
                m.partition,
                offset,
                time_ms(offset) * 1000,
                0,
                step,
                len(case.steps),
            )
            for step, offset, m in numbered(case, source)
        ]
        schema = StructType.fromDDL(f"{RECORDS}, first int, beyond int")
        types = [pa.binary(), pa.binary(), pa.string(), pa.int32(), pa.int64(), DDL["timestamp"], *[pa.int32()] * 3]
        columns = list(zip(*rows, strict=True)) or [()] * len(types)
        arrays = [arrow_column(list(c), t) for c, t in zip(columns, types, strict=True)]
        return self.spark.createDataFrame(pa.Table.from_arrays(arrays, schema.names), schema).coalesce(1)

    def _collected(self, frames: Mapping[tuple[int, str], DataFrame]) -> Answers:
        whole: DataFrame | None = None
        for number, each in enumerate(frames.values()):
            numbered = each.select(F.lit(number).alias("n"), "row")
            whole = numbered if whole is None else whole.unionAll(numbered)
        found: defaultdict[int, Rows] = defaultdict(list)
        if whole is not None:
            for number, row in whole.collect():
                found[number].append(row)
        return {key: found[number] for number, key in enumerate(frames)}

    def _one_by_one(self, frames: Mapping[tuple[int, str], DataFrame]) -> Answers:
        found: Answers = {}
        for key, each in frames.items():
            try:
                found[key] = [row[0] for row in each.collect()]
            except (PySparkException, Py4JJavaError) as error:
                found[key] = Raised(condition_of(error), str(error).split("\n")[0])
        return found


def _of_months(name: str, kind: str) -> str:
    return f"CAST(make_ym_interval(0, {name}) AS {kind})" if kind in INTERVALS else name


def _opaque(rows: DataFrame, schema: Any) -> DataFrame:
    """The table of these rows, of which the optimiser sees as much as Stepwell's does: the types."""
    found = rows.drop("first", "beyond")._jdf
    java: Any = rows.sparkSession._jsparkSession
    return DataFrame(java.internalCreateDataFrame(found.queryExecution().toRdd(), schema, False), rows.sparkSession)


def _run_once(frame: DataFrame) -> DataFrame:
    """The rows of a recursion. Its query in the plans of views over it would run all of its jobs again, and Spark refuses it in another
    recursion. An error of its rows has to come later, with those of all views."""
    try:
        return _opaque(frame, frame._jdf.schema())
    except (PySparkException, Py4JJavaError):
        return frame


def condition_of(error: Exception) -> str:
    """The class of Spark's error, or the Java class."""
    if isinstance(error, PySparkException):
        return str(error.getCondition() or type(error).__name__)
    return str(error.java_exception.getClass().getName()) if isinstance(error, Py4JJavaError) else type(error).__name__


def raised(answers: Answers, steps: Sequence[int]) -> dict[str, tuple[int, Raised]]:
    """The views for which Spark raises, with the first step at which it does."""
    found: dict[str, tuple[int, Raised]] = {}
    for (step, view), answer in answers.items():
        if isinstance(answer, Raised) and step in steps:
            found.setdefault(view, (step, answer))
    return found
