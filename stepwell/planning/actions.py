"""What a definition in Python must not do while it is read: run queries, write, and change the session.

A definition describes a query. While it is read, the tables of the project and the topics have no rows yet, so `count()` would give 0 and
`pivot("id")` no columns, and the plan would hold these as constants for ever. A write would be done by `dry-run`. Spark refuses the same
(ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION, SESSION_MUTATION_IN_DECLARATIVE_PIPELINE, UNSUPPORTED_PIPELINE_SPARK_SQL_COMMAND).

Guarantees: in the function of a view nothing runs, whatever it is over. In the code of a file beside the functions, only what has its rows
already may run: files, tables of catalogs, and rows that the file makes itself, as in Spark's guide. Nothing is written anywhere. An error names
view, file and line. What only analyses, such as `schema` and `columns`, is free.

How it works: the methods of PySpark are watched while definitions are read, as kafka_reader.py does. A call counts if it comes from a file of
the project, directly or through a module that it uses.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from py4j.protocol import Py4JError
from pyspark import RDD, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.catalog import Catalog
from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql.conf import RuntimeConfig
from pyspark.sql.group import GroupedData

from stepwell.catalyst.scala import scala_items
from stepwell.errors import Location, ProjectError
from stepwell.planning.leaves import BOUNDARY_PREFIX, leaves_of
from stepwell.project.kafka_reader import calling_line

_AS_A_QUERY = "Write it as a part of the query, for example as an aggregate, a join or a subquery."
_ROWS = "Write it as a part of the query: a join or a subquery can use its rows."
_LOOK = "Run the pipeline, and look at the view with `stepwell query`."
_QUANTILE = "Write it as an aggregate of the query: percentile_approx, corr, covar_samp or count."
_RUNNING: Mapping[str, str] = {
    "count": "Write it as an aggregate of the query: df.agg(F.count('*')) is a table of one row, which can be joined.",
    "isEmpty": "Write it as a condition of the query: EXISTS, or a left semi or left anti join.",
    "first": "Write orderBy(...).limit(1), which is a table of one row and can be joined.",
    "head": "Write orderBy(...).limit(n), which is a table and can be joined.",
    "take": "Write orderBy(...).limit(n), which is a table and can be joined.",
    "tail": "Write orderBy(...).limit(n) in the opposite order, which is a table and can be joined.",
    "approxQuantile": _QUANTILE,
    "corr": _QUANTILE,
    "cov": _QUANTILE,
    "crosstab": _QUANTILE,
    "transpose": "Name the columns: select them, or use unpivot and pivot with a list of values.",
    "show": _LOOK,
    "checkpoint": "Leave it out: the state of every view is kept.",
    "localCheckpoint": "Leave it out: the state of every view is kept.",
    **dict.fromkeys(("collect", "toLocalIterator", "toPandas", "toArrow", "foreach", "foreachPartition", "toJSON"), _ROWS),
    "pandas_api": "Write it with DataFrames of Spark, or a function with @pandas_udf.",
}  # fmt: skip
"""Methods of a DataFrame that run it, and what to write instead. `rdd` and `plot` are properties."""

_KEPT = "Leave it out: a view that several others read is computed once, and its state is kept."
_PUBLISH = (
    'Publish the view: \'topic\' in its table_properties, or a sink: dp.create_sink(name, "kafka", {"topic": "..."}).'
)
_TEMPORARY = "Define it with @dp.temporary_view, which every query of the project can read by its name."
_IN_THE_PROJECT = "Put settings under configuration: in spark-pipeline.yml, or give spark_conf={...} to the decorator."
_CATALOG = "Do it before the pipeline is run, in a program of its own. A definition only reads tables."
_VIEWS = ("createTempView", "createOrReplaceTempView", "createGlobalTempView", "createOrReplaceGlobalTempView", "registerTempTable")  # fmt: skip
_OF_CATALOG = (
    "analyzeTable", "cacheTable", "clearCache", "createDatabase", "createExternalTable", "createTable", "dropDatabase", "dropGlobalTempView",
    "dropTable", "dropTempView", "dropView", "recoverPartitions", "refreshByPath", "refreshTable", "setCurrentCatalog", "setCurrentDatabase",
    "truncateTable", "uncacheTable",
)  # fmt: skip
_RDD_WRITES = tuple(name for name in vars(RDD) if name.startswith("saveAs"))
_RDD_RUNS = (
    "aggregate", "collect", "collectAsMap", "count", "countApprox", "countApproxDistinct", "countByKey", "countByValue",
    "first", "fold", "foreach", "foreachPartition", "histogram", "isEmpty", "lookup", "max", "mean", "min", "reduce",
    "reduceByKeyLocally", "stats", "stdev", "sum", "take", "takeOrdered", "takeSample", "toLocalIterator", "top",
    "treeAggregate", "treeReduce", "variance",
)  # fmt: skip

_READ_ONLY_COMMANDS = frozenset({
    "DescribeRelation", "ShowTables", "ShowTableProperties", "ShowNamespaces", "ShowColumns", "ShowFunctions", "ShowViews", "ShowCatalogs",
    "ShowCreateTable", "ExplainCommand",
})  # fmt: skip
"""Commands that Spark allows in definitions too, and EXPLAIN."""
_WRITING_NODES = frozenset({"InsertIntoStatement", "InsertIntoDir", "Call", "UnresolvedExecuteImmediate"})
"""Plans that are no commands before they are analysed."""
_PLACEHOLDER = re.compile(r"\{\w*\}")

_OWN = ("stepwell", "py4j")
_OWN_AND_PYSPARK = (*_OWN, "pyspark")


@dataclass(frozen=True)
class ProjectReading:
    """What is read now. `root`: the project's folder. `view_now`: the view whose function runs, or None. `in_function`: whether one runs."""

    root: Path
    view_now: Callable[[], str | None]
    in_function: Callable[[], bool]

    def place(self, callers: tuple[str, ...]) -> Location | None:
        """The line of the project from which the watched method was called; None for a call that is not the project's, because a module of one
        of the packages `callers` made it."""
        frame: FrameType = sys._getframe(2)  # the caller of the watched method
        if str(frame.f_globals.get("__name__")).partition(".")[0] in callers:
            return None
        return calling_line(self.root)

    def refuse(self, message: str, what_to_do: str, location: Location) -> ProjectError:
        return ProjectError(message, what_to_do, view=self.view_now(), location=location)


@contextlib.contextmanager
def refuse_actions(reading: ProjectReading) -> Iterator[None]:
    """While the body runs, definitions can neither run queries, nor write, nor change the session."""
    with contextlib.ExitStack() as watches:
        for owner, names, make in (
            (DataFrame, [*_RUNNING, "rdd", "plot"], _running),
            (DataFrame, ["cache", "persist", "unpersist"], _always(_KEPT, "keeps rows in Spark", _OWN)),
            (DataFrame, ["write", "writeStream", "writeTo", "mergeInto"], _always(_PUBLISH, "writes outside of the pipeline", _OWN)),
            (DataFrame, _VIEWS, _always(_TEMPORARY, "changes the session", _OWN_AND_PYSPARK)),
            (RuntimeConfig, ["set", "unset"], _always(_IN_THE_PROJECT, "changes the session", _OWN_AND_PYSPARK)),
            (Catalog, _OF_CATALOG, _always(_CATALOG, "changes what Spark has", _OWN_AND_PYSPARK)),
            (RDD, _RDD_WRITES, _always(_PUBLISH, "writes outside of the pipeline", _OWN_AND_PYSPARK)),
            (RDD, _RDD_RUNS, _running_rdd),
            (SparkSession, ["stop"], _always("Leave it out: the pipeline needs the session.", "ends Spark", _OWN_AND_PYSPARK)),
            (SparkContext, ["stop"], _always("Leave it out: the pipeline needs it.", "ends Spark", _OWN_AND_PYSPARK)),
            (GroupedData, ["pivot"], _pivot),
            (SparkSession, ["sql"], _sql),
        ):  # fmt: skip
            for name in names:
                watches.enter_context(_watch(owner, name, make, reading))
        yield


Make = Callable[[str, Callable[..., Any], ProjectReading], Callable[..., Any]]
"""From the name of a method, the method and what is read now to the method that is called meanwhile."""


@contextlib.contextmanager
def _watch(owner: Any, name: str, make: Make, reading: ProjectReading) -> Iterator[None]:
    own = vars(owner).get(name)
    found = next((vars(base)[name] for base in owner.__mro__ if name in vars(base)), None)
    if found is None:  # another version of Spark has no such method
        yield
        return
    if isinstance(found, property):
        setattr(owner, name, property(make(name, found.__get__, reading)))
    elif hasattr(found, "__get__") and not callable(found):  # an accessor, such as `plot`
        setattr(owner, name, property(make(name, lambda self: found.__get__(self, owner), reading)))
    else:
        setattr(owner, name, make(name, found, reading))
    try:
        yield
    finally:
        if own is None:
            delattr(owner, name)
        else:
            setattr(owner, name, own)


def _always(what_to_do: str, does: str, callers: tuple[str, ...]) -> Make:
    def make(name: str, before: Callable[..., Any], reading: ProjectReading) -> Callable[..., Any]:
        def wrapper(self: Any, *arguments: Any, **named: Any) -> Any:
            if (location := reading.place(callers)) is not None:
                raise reading.refuse(f"{name} {does}, and a definition only describes a query", what_to_do, location)
            return before(self, *arguments, **named)

        return wrapper

    return make


def _running(name: str, before: Callable[..., Any], reading: ProjectReading) -> Callable[..., Any]:
    def wrapper(self: Any, *arguments: Any, **named: Any) -> Any:
        location = reading.place(_OWN)
        if location is not None and (reading.in_function() or _has_no_rows_yet(self)):
            raise reading.refuse(_runs(name), _RUNNING.get(name, _AS_A_QUERY), location)
        return before(self, *arguments, **named)

    return wrapper


def _running_rdd(name: str, before: Callable[..., Any], reading: ProjectReading) -> Callable[..., Any]:
    def wrapper(self: Any, *arguments: Any, **named: Any) -> Any:
        location = reading.place(_OWN_AND_PYSPARK)
        if location is not None and reading.in_function():
            raise reading.refuse(_runs(name), _AS_A_QUERY, location)
        return before(self, *arguments, **named)

    return wrapper


def _pivot(name: str, before: Callable[..., Any], reading: ProjectReading) -> Callable[..., Any]:
    def wrapper(self: Any, pivot_col: str, values: Any = None) -> Any:
        location = None if values is not None else reading.place(_OWN)
        if location is not None and (reading.in_function() or _has_no_rows_yet(self._df)):
            raise reading.refuse(
                f"pivot({pivot_col!r}) without values runs a query to find them, and there are no rows while a definition is read",
                f"Name the values, which become the columns: pivot({pivot_col!r}, ['a', 'b']).",
                location,
            )
        return before(self, pivot_col, values)

    return wrapper


def _sql(name: str, before: Callable[..., Any], reading: ProjectReading) -> Callable[..., Any]:
    def wrapper(self: Any, sqlQuery: str, *arguments: Any, **named: Any) -> Any:
        location = reading.place(_OWN_AND_PYSPARK)
        if location is not None and (command := _command_in(self, sqlQuery)) is not None:
            raise reading.refuse(
                f"spark.sql runs {command}, and a definition only describes a query",
                f"Write a query. {_IN_THE_PROJECT if command == 'SetCommand' else _CATALOG}",
                location,
            )
        return before(self, sqlQuery, *arguments, **named)

    return wrapper


def _runs(name: str) -> str:
    return f"{name} runs a query, and there are no rows while a definition is read"


def _command_in(spark: Any, text: str) -> str | None:
    """Spark's name of a command in the text, unless it only reads. None also for a text that cannot be parsed: Spark reports why."""
    try:
        plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(_PLACEHOLDER.sub("x", text))
    except (PySparkException, Py4JError):
        return None
    command = spark._jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.plans.logical.Command")

    def writing_node(node: Any) -> str | None:
        kind = str(node.getClass().getSimpleName()).rstrip("$")
        if kind in _READ_ONLY_COMMANDS:
            return None
        if kind in _WRITING_NODES or command.isInstance(node):
            return kind
        children = node.children()
        return next(filter(None, (writing_node(child) for child in scala_items(children))), None)

    return writing_node(plan)


def _has_no_rows_yet(frame: Any) -> bool:
    """Whether a DataFrame reads a topic or a table of the project, for which an empty one stands, or a stream."""
    analysed = frame._jdf.queryExecution().analyzed()
    return bool(analysed.isStreaming()) or any(_is_stand_in(leaf) for leaf in leaves_of(analysed))


def _is_stand_in(leaf: Any) -> bool:
    if leaf.getClass().getSimpleName() != "LogicalRDD":
        return False
    return str(leaf.rdd().name()).startswith(BOUNDARY_PREFIX)
