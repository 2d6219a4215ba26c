"""Refusals of what Spark knows and Stepwell does not run. Each of them says how to write it today.

This module also translates Spark's own errors while definitions are read and analysed. It keeps the first line, without
the plan that Spark prints below it, and adds view, file and line.
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from stepwell.catalyst.read import SESSION_METADATA, SESSION_WINDOW, column_metadata
from stepwell.catalyst.tree import TreeNode, parse, walk_all
from stepwell.errors import Location, ProjectError, UnsupportedError, raise_all

EXPECTATIONS_TODAY = (
    "Write the expectation as a WHERE condition of the view, and a second view with the opposite condition "
    "if the rows that fail it are of interest. To stop at such a row, write CASE WHEN condition THEN x ELSE raise_error('...') END."
)


def expectation(location: Location, view: str | None = None) -> UnsupportedError:
    return UnsupportedError("expectations are not supported yet", EXPECTATIONS_TODAY, view=view, location=location)


_TRUNCATES = "Let the source send a delete for every key instead."
_NULL_UPDATES = "Write the table as a materialized view: SELECT key, max_by(x, seq) FILTER (WHERE x IS NOT NULL) AS x FROM changes GROUP BY key."
_ONCE = "Leave it out: a flow over a table holds the rows that the table has, and they are read once in any case."
_SNAPSHOTS = (
    "Send the differences between snapshots to a topic, and declare it as a table with 'mode' = 'upsert' and a key."
)
_ELSEWHERE = {
    "apply_as_truncates": _TRUNCATES,
    "ignore_null_updates": _NULL_UPDATES,
    "ignore_null_updates_column_list": _NULL_UPDATES,
    "ignore_null_updates_except_column_list": _NULL_UPDATES,
    "once": _ONCE,
    "private": "Write @dp.temporary_view; nothing outside the pipeline sees any view but through its topic.",
    "path": "Leave it out: Stepwell writes no files.",
    "cluster_by_auto": "Leave it out: Stepwell writes no files.",
    "row_filter": "Write it as a WHERE condition of the view.",
    "refresh_policy": "Leave it out: every view is kept up to date step by step.",
    "view": "It is called @dp.temporary_view.",
    "create_view": "It is called @dp.temporary_view.",
    "create_table": "It is called dp.create_streaming_table.",
    "create_streaming_live_table": "It is called dp.create_streaming_table.",
    "apply_changes": "It is called dp.create_auto_cdc_flow.",
    "create_auto_cdc_from_snapshot_flow": _SNAPSHOTS,
    "apply_changes_from_snapshot": _SNAPSHOTS,
    "foreach_batch_sink": 'Write to a topic: dp.create_sink(name, "kafka", {"topic": "..."}).',
    "read": "Write spark.read.table(name).",
    "read_stream": "Write spark.readStream.table(name).",
}
"""Names of functions and parameters that other engines' modules have, and Spark's has not, with what to write instead."""

_UNKNOWN_PARAMETER = re.compile(
    r"(?:table|materialized_view|temporary_view|append_flow|create_streaming_table|create_sink|create_auto_cdc_flow)\(\) "
    r"got an unexpected keyword argument '(\w+)'"
)
_NOT_IN_GRAMMAR = (
    (re.compile(r"\bAPPLY\s+AS\s+TRUNCATE\b", re.IGNORECASE), "APPLY AS TRUNCATE", _TRUNCATES),
    (re.compile(r"\bIGNORE\s+NULL\s+UPDATES\b", re.IGNORECASE), "IGNORE NULL UPDATES", _NULL_UPDATES),
    (re.compile(r"\bAPPLY\s+CHANGES\s+INTO\b", re.IGNORECASE), "APPLY CHANGES INTO", "Write CREATE FLOW name AS AUTO CDC INTO."),
    (re.compile(r"\bINSERT\s+INTO\s+ONCE\b", re.IGNORECASE), "INSERT INTO ONCE", _ONCE),
    (re.compile(r"\bCREATE\s+PRIVATE\b", re.IGNORECASE), "PRIVATE", "Write CREATE TEMPORARY VIEW."),
    (re.compile(r"\bCREATE\s+OR\s+REFRESH\b", re.IGNORECASE), "OR REFRESH", "Leave OR REFRESH out: a definition is no command."),
)  # fmt: skip
"""Clauses that Spark's parser does not know, and users of other engines write."""


def unknown_clause(statement: str, location: Location) -> UnsupportedError | None:
    """The refusal of a statement that Spark cannot parse because of a clause of another engine. None if it has none of these."""
    if re.search(r"\bCONSTRAINT\s+\S+\s+EXPECT\b|\bEXPECT\s*\(", statement, re.IGNORECASE):
        return expectation(location)
    for pattern, name, what_to_do in _NOT_IN_GRAMMAR:
        if pattern.search(statement):
            return UnsupportedError(f"{name} is not supported", what_to_do, location=location)
    return None


_DEFAULT_KEYS, _GENERATED_KEYS = ("CURRENT_DEFAULT", "EXISTS_DEFAULT"), ("GENERATION_EXPRESSION",)


def check_declared(schema: StructType, view: str, location: Location) -> None:
    """Refuses columns that a declaration in Python fills by itself. In SQL the parser tells of them."""
    for column in schema.fields:
        for keys, what in ((_DEFAULT_KEYS, "DEFAULT"), (_GENERATED_KEYS, "GENERATED ALWAYS AS")):
            if any(key in column.metadata for key in keys):
                raise filled_column(column.name, what, view, location)


def filled_column(column: str, what: str, view: str, location: Location) -> UnsupportedError:
    return UnsupportedError(
        f"column {column} has {what}", "Compute it in a view over this table.", view=view, location=location
    )


def first_line(error: BaseException) -> str:
    """The message of an error of Spark's, without the plan, the SQL text and the stack below it."""
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return lines[0].split(" SQLSTATE:")[0].strip().replace("..", ".") if lines else type(error).__name__


def python_error(error: Exception, location: Location, view: str | None = None) -> ProjectError:
    """One of Stepwell's errors that says why a definition's Python code failed."""
    if isinstance(error, AttributeError) and getattr(error, "name", None) and str(error.name).startswith("expect"):
        return expectation(location, view)
    if (elsewhere := _of_another_engine(error)) is not None:
        return UnsupportedError(
            f"{elsewhere} is not in pyspark.pipelines", _ELSEWHERE[elsewhere], view=view, location=location
        )
    if isinstance(error, PySparkException):
        return ProjectError(first_line(error), view=view, location=location)
    return ProjectError(f"{type(error).__name__}: {error}", view=view, location=location)


def _of_another_engine(error: Exception) -> str | None:
    """The name of `_ELSEWHERE` that pyspark.pipelines did not know."""
    name = None
    if isinstance(error, AttributeError) and getattr(error.obj, "__name__", None) == "pyspark.pipelines":
        name = error.name
    elif isinstance(error, TypeError) and (found := _UNKNOWN_PARAMETER.match(str(error))):
        name = found[1]
    return name if name in _ELSEWHERE else None


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
