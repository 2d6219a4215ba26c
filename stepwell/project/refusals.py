"""Refusals of what Spark knows and Stepwell does not run. Each of them says how to write it today.

This module also translates Spark's own errors while definitions are read and analysed. It keeps the first line, without
the plan that Spark prints below it, and adds view, file and line.
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.errors import PySparkException

from stepwell.catalyst.read import SESSION_METADATA, SESSION_WINDOW, column_metadata
from stepwell.catalyst.tree import TreeNode, parse, walk_all
from stepwell.errors import Location, ProjectError, UnsupportedError, raise_all

AUTO_CDC_TODAY = (
    "Let the source keep the last row of a key itself: CREATE STREAMING TABLE name (columns) USING kafka "
    "TBLPROPERTIES ('subscribe' = 'topic', 'mode' = 'upsert', 'key' = 'column'), "
    "or 'mode' = 'changelog' for a topic written by Debezium; a null message deletes."
)
EXPECTATIONS_TODAY = (
    "Write the expectation as a WHERE condition of the view, and a second view with the opposite condition "
    "if the rows that fail it are of interest."
)


def auto_cdc(target: str, location: Location) -> UnsupportedError:
    return UnsupportedError("AUTO CDC is not supported yet", AUTO_CDC_TODAY, view=target, location=location)


def expectation(location: Location, view: str | None = None) -> UnsupportedError:
    return UnsupportedError("expectations are not supported yet", EXPECTATIONS_TODAY, view=view, location=location)


def first_line(error: BaseException) -> str:
    """The message of an error of Spark's, without the plan, the SQL text and the stack below it."""
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return lines[0].split(" SQLSTATE:")[0].strip().replace("..", ".") if lines else type(error).__name__


def python_error(error: Exception, location: Location, view: str | None = None) -> ProjectError:
    """One of Stepwell's errors that says why a definition's Python code failed."""
    if isinstance(error, AttributeError) and getattr(error, "name", None) and str(error.name).startswith("expect"):
        return expectation(location, view)
    if isinstance(error, PySparkException):
        return ProjectError(first_line(error), view=view, location=location)
    return ProjectError(f"{type(error).__name__}: {error}", view=view, location=location)


# Catalyst's expressions whose value depends on when, where or in which order they run, and their names in queries.
_IMPURE = {
    "CurrentTimestamp": "current_timestamp()", "Now": "now()", "LocalTimestamp": "localtimestamp()",
    "CurrentDate": "current_date()", "CurrentTime": "current_time()", "CurrentTimeZone": "current_timezone()",
    "CurrentBatchTimestamp": "current_timestamp()", "CurrentUser": "current_user()", "SessionUser": "session_user()",
    "CurrentDatabase": "current_database()", "CurrentCatalog": "current_catalog()", "Rand": "rand()",
    "Randn": "randn()", "RandStr": "randstr()", "Uniform": "uniform()", "Uuid": "uuid()", "Shuffle": "shuffle()",
    "MonotonicallyIncreasingID": "monotonically_increasing_id()", "SparkPartitionID": "spark_partition_id()",
    "InputFileName": "input_file_name()", "InputFileBlockStart": "input_file_block_start()",
    "InputFileBlockLength": "input_file_block_length()", "SparkVersion": "version()",
}  # fmt: skip
_IMPURE_TODAY = (
    "A replay after a crash must give the same answer. Take the time from a column of the message, "
    "and an id from its key or a hash of its columns."
)
_USER_CODE = {
    "PythonUDF": "a Python UDF", "PythonUDAF": "a Python UDAF", "PythonUDTF": "a Python UDTF",
    "UnresolvedPolymorphicPythonUDTF": "a Python UDTF", "ScalaUDF": "a Java or Scala UDF",
    "ScalaUDAF": "a Java or Scala UDAF", "ScalaAggregator": "a Java or Scala aggregator",
    "MapInPandas": "mapInPandas", "MapInArrow": "mapInArrow", "FlatMapGroupsInPandas": "applyInPandas",
    "FlatMapCoGroupsInPandas": "cogroup().applyInPandas", "PythonDataSource": "a Python data source",
}  # fmt: skip
_USER_CODE_TODAY = "Write it with Spark's own functions, or do it in a service between two topics."
_SAMPLES = {"Sample": "TABLESAMPLE or sample()"}
_RECURSION = {"UnionLoop": "a recursive query (WITH RECURSIVE)"}
_RECURSION_TODAY = (
    "Write the query for a fixed depth, as a UNION ALL of one SELECT for each level; or compute the closure in a service "
    "between two topics."
)
_SESSION_TODAY = (
    "Group by session_window(ts, gap) and plain columns in a view of its own, and compute the rest in a view over it."
)


_CLASS = re.compile(r'"class":"org\.apache\.spark\.[\w.$]*?(\w+)\$?"')


def check_analysed(analysed: Any, text: str, view: str, location: Location) -> None:
    """Refuses what can be recognised only in the analysed plan, because the optimised plan has literals or other nodes in its place.

    `analysed` is the JVM's plan, and `text` is its `toJSON`. Raises UnsupportedError, or ProjectErrors for several errors."""
    kinds = set(_CLASS.findall(text))  # from the whole text, which includes what is nested in fields that no tree shows
    found: list[ProjectError] = []
    for table, what_to_do in (
        (_IMPURE, _IMPURE_TODAY),
        (_SAMPLES, _IMPURE_TODAY),
        (_USER_CODE, _USER_CODE_TODAY),
        (_RECURSION, _RECURSION_TODAY),
    ):
        names = sorted({table[kind] for kind in kinds & table.keys()})
        found += [
            UnsupportedError(f"{name} is not supported", what_to_do, view=view, location=location) for name in names
        ]
    raise_all(found)


def check_sessions(analysed: Any, text: str, optimised: Any, tree: TreeNode, view: str, location: Location) -> None:
    """Refuses a session window that is not merged. While Spark analyses a query, it replaces session_window(ts, gap) by a struct of each row's
    own start and end. It merges the sessions only in its physical plan, where an Aggregate groups by the column. `tree` is the optimised
    plan, and `text` is the `toJSON` of the analysed one.

    Every such column must have one Aggregate. Otherwise every row would be a session of its own, or sessions would be merged twice."""
    if f'"{SESSION_WINDOW}"' not in text:
        return
    written = _session_windows(analysed, parse(text))
    made = _session_windows(optimised, tree)
    merged = [node["sessionWindow"] for node in walk_all(tree) if node.get("sessionWindow") is not None]
    if len(merged) < len(written) or sorted(made) != sorted(merged):
        message = "session_window() in this form is not supported"
        raise UnsupportedError(message, _SESSION_TODAY, view=view, location=location)


def _session_windows(java: Any, tree: TreeNode) -> list[int]:
    """The expression ids of the structs that stand for session windows in the JVM's plan, whose tree is `tree`."""
    candidates = [
        node["exprId"]["id"]
        for node in walk_all(tree)
        if node.kind == "Alias" and node["name"] == SESSION_WINDOW and node.children[0].kind == "CreateNamedStruct"
    ]
    return [identifier for identifier in candidates if SESSION_METADATA in column_metadata(java, identifier)]
