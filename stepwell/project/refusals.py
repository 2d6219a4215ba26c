"""Refusals of what Spark knows and Stepwell does not run. Each of them says how to write it today.

This module also translates Spark's own errors while definitions are read and analysed. It keeps the first line, without
the plan that Spark prints below it, and adds view, file and line.
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from stepwell.catalyst.clock import CLOCK_CLASSES
from stepwell.catalyst.read import SESSION_METADATA, SESSION_WINDOW, column_metadata
from stepwell.catalyst.tree import TreeNode, parse, walk_all
from stepwell.errors import Location, ProjectError, UnsupportedError, raise_all

EXPECTATIONS_TODAY = (
    "Write the expectation as a WHERE condition of the view, and a second view with the opposite condition "
    "if the rows that fail it are of interest. CASE WHEN condition THEN x ELSE raise_error('...') END leaves the view without an answer "
    "while there is such a row."
)


def without_live(name: str) -> str:
    """What to do about a table that is read as `LIVE.name`."""
    return f"Leave LIVE. out: a table of the project is read by its name alone, so write {name}."


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
_KAFKA_TABLE = "Write CREATE STREAMING TABLE name (column TYPE, ...) USING kafka TBLPROPERTIES ('subscribe' = 'topic', 'format' = 'json')."
_PUBLISHED = "Write CREATE MATERIALIZED VIEW name TBLPROPERTIES ('topic' = 'topic', 'mode' = 'upsert', 'key' = 'column') AS SELECT ..."
_NO_COMMAND = "Leave it out: a definition is no command, and the file says what there is."
_NOT_IN_GRAMMAR = (
    (re.compile(r"\bAPPLY\s+AS\s+TRUNCATE\b", re.IGNORECASE), "APPLY AS TRUNCATE", _TRUNCATES),
    (re.compile(r"\bIGNORE\s+NULL\s+UPDATES\b", re.IGNORECASE), "IGNORE NULL UPDATES", _NULL_UPDATES),
    (re.compile(r"\bAPPLY\s+CHANGES\s+INTO\b", re.IGNORECASE), "APPLY CHANGES INTO", "Write CREATE FLOW name AS AUTO CDC INTO."),
    (re.compile(r"\bINSERT\s+INTO\s+ONCE\b", re.IGNORECASE), "INSERT INTO ONCE", _ONCE),
    (re.compile(r"\bCREATE\s+PRIVATE\b", re.IGNORECASE), "PRIVATE", "Write CREATE TEMPORARY VIEW."),
    (re.compile(r"\bCREATE\s+OR\s+REFRESH\b", re.IGNORECASE), "OR REFRESH", "Leave OR REFRESH out: a definition is no command."),
    (re.compile(r"\bCREATE\s+OR\s+REPLACE\s+(STREAMING|MATERIALIZED|FLOW)\b", re.IGNORECASE), "OR REPLACE", _NO_COMMAND),
    (re.compile(r"\bCREATE\s+(STREAMING\s+|INCREMENTAL\s+)?LIVE\s+(TABLE|VIEW)\b", re.IGNORECASE), "LIVE TABLE",
     "Write CREATE MATERIALIZED VIEW for a table that follows its query, and CREATE STREAMING TABLE for one that only gets new rows."),
    (re.compile(r"\bEMIT\s+(CHANGES|FINAL)\b|\bEMIT\s+ON\s+", re.IGNORECASE), "EMIT",
     "Leave it out: every view is kept up to date, and its topic gets each change. To put a window out once it has ended, read a stream with "
     "a watermark (docs/sql.md, Event time)."),
    (re.compile(r"\bWATERMARK\s+FOR\b", re.IGNORECASE), "WATERMARK FOR",
     "A watermark belongs to the query: FROM STREAM t WATERMARK ts DELAY OF INTERVAL 10 SECONDS."),
    (re.compile(r"\bNOT\s+ENFORCED\b", re.IGNORECASE), "a constraint that is not enforced",
     "Leave it out. The key of a table that holds the last row of each key is a property: 'mode' = 'upsert', 'key' = 'id'."),
    (re.compile(r"\bFOR\s+SYSTEM_TIME\s+AS\s+OF\b", re.IGNORECASE), "FOR SYSTEM_TIME AS OF",
     "Leave it out to join with the present rows. To join with those of a time, keep their history with AUTO CDC (STORED AS SCD TYPE 2)."),
    (re.compile(r"\bMATCH_RECOGNIZE\b", re.IGNORECASE), "MATCH_RECOGNIZE", "Write the pattern with lag() and lead() over the rows of a key."),
    (re.compile(r"\b(TUMBLE|HOP|CUMULATE|SESSION)\s*\(\s*(TABLE|DATA)\b|\bDESCRIPTOR\s*\(", re.IGNORECASE), "a window as a table function",
     "Group by window(ts, '1 hour'), window(ts, '1 hour', '10 minutes') or session_window(ts, '5 minutes')."),
    (re.compile(r"\bWINDOW\s+(TUMBLING|HOPPING|SESSION)\b", re.IGNORECASE), "a WINDOW clause of ksqlDB",
     "Group by window(ts, '1 hour'), window(ts, '1 hour', '10 minutes') or session_window(ts, '5 minutes')."),
    (re.compile(r"\bCREATE\s+(OR\s+REPLACE\s+)?(SOURCE\s+)?(STREAM|TABLE)\b[^;]*\bAS\s+SELECT\b", re.IGNORECASE), "CREATE TABLE AS SELECT",
     f"{_PUBLISHED} A query over new rows alone is a CREATE STREAMING TABLE."),
    (re.compile(r"\bCREATE\s+(OR\s+REPLACE\s+)?(SOURCE|STREAM|CONNECTION)\b", re.IGNORECASE), "CREATE SOURCE or STREAM", _KAFKA_TABLE),
    (re.compile(r"\bCREATE\s+(OR\s+REPLACE\s+)?TABLE\b", re.IGNORECASE), "CREATE TABLE", _KAFKA_TABLE),
    (re.compile(r"\bCREATE\s+SINK\b", re.IGNORECASE), "CREATE SINK", _PUBLISHED),
    (re.compile(r"^\s*CREATE\s+(OR\s+REPLACE\s+)?(TEMPORARY\s+)?FUNCTION\b", re.IGNORECASE | re.MULTILINE), "CREATE FUNCTION",
     "Write the expression in the query, or register a function in a Python file of the project: spark.udf.register(name, function)."),
    (re.compile(r"^\s*DECLARE\b", re.IGNORECASE | re.MULTILINE), "DECLARE",
     'Write the value into the query, or give it to spark.sql in a Python file: spark.sql("... :name ...", args={"name": 1}).'),
    (re.compile(r"^\s*EXECUTE\s+IMMEDIATE\b", re.IGNORECASE | re.MULTILINE), "EXECUTE IMMEDIATE",
     "Write the statement itself, or make its text in a Python file and give it to spark.sql."),
    (re.compile(r"^\s*BEGIN\b", re.IGNORECASE | re.MULTILINE), "a script (BEGIN ... END)",
     "Write each definition as a statement of its own. What decides or repeats stands in a Python file."),
)  # fmt: skip
"""Clauses of other engines, which Spark's parser does not know, and statements of Spark's that define nothing."""


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
    """Refuses columns that a declaration in Python fills by itself. In SQL the parser reports them."""
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
    if isinstance(error, ModuleNotFoundError):
        return _missing_module(error, location, view)
    if (elsewhere := _of_another_engine(error)) is not None:
        return UnsupportedError(
            f"{elsewhere} is not in pyspark.pipelines", _ELSEWHERE[elsewhere], view=view, location=location
        )
    if isinstance(error, PySparkException):
        return ProjectError(first_line(error), view=view, location=location)
    return ProjectError(f"{type(error).__name__}: {error}", view=view, location=location)


_MODULES = {
    "dlt": "Write `from pyspark import pipelines as dp`: @dlt.table is @dp.table for a stream and @dp.materialized_view otherwise, @dlt.view is "
    "@dp.temporary_view, and dlt.read(name) is spark.read.table(name).",
    "databricks": "Write it with pyspark alone, or put the package into the Python environment of Stepwell.",
    "dbutils": "Read settings with spark.conf.get(name), from configuration: in spark-pipeline.yml.",
    "pyflink": "Write the query with DataFrames of Spark or in SQL.",
}
"""Modules of other engines, and what to write instead."""


def _missing_module(error: ModuleNotFoundError, location: Location, view: str | None) -> ProjectError:
    name = str(error.name).partition(".")[0]
    if name in _MODULES:
        return UnsupportedError(f"{name} is a module of another engine", _MODULES[name], view=view, location=location)
    what_to_do = "Install its package in the Python environment of Stepwell, or put the module into the folder from which it is imported."
    return ProjectError(f"there is no module {error.name}", what_to_do, view=view, location=location)


def _of_another_engine(error: Exception) -> str | None:
    """The name of `_ELSEWHERE` that pyspark.pipelines did not know."""
    name = None
    if isinstance(error, AttributeError) and getattr(error.obj, "__name__", None) in ("pyspark.pipelines", "dlt"):
        name = error.name
    elif isinstance(error, TypeError) and (found := _UNKNOWN_PARAMETER.match(str(error))):
        name = found[1]
    return name if name in _ELSEWHERE else None


# Catalyst's expressions whose value depends on when, where or in which order they run, and their names in queries.
_IMPURE = {
    "CurrentTime": "current_time()", "CurrentBatchTimestamp": "current_timestamp()", "Rand": "rand()",
    "Randn": "randn()", "RandStr": "randstr()", "Uniform": "uniform()", "Uuid": "uuid()", "Shuffle": "shuffle()",
    "MonotonicallyIncreasingID": "monotonically_increasing_id()", "SparkPartitionID": "spark_partition_id()",
    "InputFileName": "input_file_name()", "InputFileBlockStart": "input_file_block_start()",
    "InputFileBlockLength": "input_file_block_length()",
}  # fmt: skip
_OF_THE_SESSION = {
    "CurrentUser": "current_user()", "SessionUser": "session_user()", "CurrentDatabase": "current_database()",
    "CurrentCatalog": "current_catalog()", "CurrentTimeZone": "current_timezone()", "SparkVersion": "version()",
}  # fmt: skip
_OF_THE_SESSION_TODAY = "A replay may run in another session, and must give the same answer. Write the value itself."
_IMPURE_TODAY = (
    "A replay after a crash must give the same answer. Take the time from a column of the message, "
    "and an id from its key or a hash of its columns."
)
_CLOCK_IN_STREAM = (
    "Read the clock in a materialized view, which is kept up to date as time passes. For the time at which a message was written, "
    "declare the metadata column of its timestamp."
)
_CLOCK_IN_VALUES = "Write SELECT now() AS x in place of VALUES (now()); several rows are queries joined by UNION ALL."
_USER_CODE = {
    "PythonUDTF": "a Python UDTF",
    "UnresolvedPolymorphicPythonUDTF": "a Python UDTF", "ScalaUDF": "a Java or Scala UDF",
    "ScalaUDAF": "a Java or Scala UDAF", "ScalaAggregator": "a Java or Scala aggregator",
    "MapInPandas": "mapInPandas", "MapInArrow": "mapInArrow", "FlatMapGroupsInPandas": "applyInPandas",
    "FlatMapCoGroupsInPandas": "cogroup().applyInPandas", "FlatMapGroupsInArrow": "applyInArrow",
    "FlatMapCoGroupsInArrow": "cogroup().applyInArrow", "PythonDataSource": "a Python data source",
}  # fmt: skip
_USER_CODE_TODAY = (
    "Write it with Spark's own functions and with Python functions of one row (@udf, @pandas_udf, @arrow_udf), or do it in a service between "
    "two topics."
)
_WINDOW_TODAY = "Group by the columns of PARTITION BY in a view of its own, and join the rows with it."
_SAMPLES = {"Sample": "TABLESAMPLE or sample()"}
_SAMPLE_TODAY = (
    "A replay after a crash must choose the same rows. Choose them by what they are: WHERE pmod(hash(id), 10) = 0 keeps the same tenth in "
    "every run."
)
_SESSION_TODAY = (
    "Group by session_window(ts, gap) and plain columns in a view of its own, and compute the rest in a view over it: size(x) of "
    "collect_set(a) AS x for a count(DISTINCT a), and a join by ts >= start AND ts < end for the session of each row."
)


_COLLATED = re.compile(r'"string collate \w+|"__COLLATIONS":')
"""In a plan's `toJSON`: the type of a column or value, or what the fields of a struct have beside the type "string"."""

COLLATE_TODAY = (
    "Texts are compared by their bytes (UTF8_BINARY). Compare, group and order by lower(x) or upper(x) where case does not matter, and by "
    "rtrim(x) where blanks at the end do not."
)
_CLASS = re.compile(r'"class":"org\.apache\.spark\.[\w.$]*?(\w+)\$?"')


def check_analysed(analysed: Any, text: str, view: str, location: Location, *, streaming: bool) -> None:
    """Refuses what can be recognised only in the analysed plan, because the optimised plan has literals or other nodes in its place.

    `analysed` is the JVM's plan, and `text` is its `toJSON`. `streaming`: of a streaming table or a sink. Raises UnsupportedError, or
    ProjectErrors for several errors."""
    kinds = set(_CLASS.findall(text))  # from the whole text, which includes what is nested in fields that no tree shows
    found: list[ProjectError] = []
    for table, what_to_do in (
        (_IMPURE, _IMPURE_TODAY),
        (_OF_THE_SESSION, _OF_THE_SESSION_TODAY),
        (_SAMPLES, _SAMPLE_TODAY),
        (_USER_CODE, _USER_CODE_TODAY),
    ):
        names = sorted({table[kind] for kind in kinds & table.keys()})
        found += [
            UnsupportedError(f"{name} is not supported", what_to_do, view=view, location=location) for name in names
        ]
    clocks = sorted({CLOCK_CLASSES[kind] for kind in kinds & CLOCK_CLASSES.keys()})
    for name in clocks if streaming else ():
        text_of = f"{name} in a streaming table or a sink is not supported"
        found.append(UnsupportedError(text_of, _CLOCK_IN_STREAM, view=view, location=location))
    if clocks and "ResolvedInlineTable" in kinds:
        found.append(
            UnsupportedError("the clock within VALUES is not supported", _CLOCK_IN_VALUES, view=view, location=location)
        )
    if "Collate" in kinds or _COLLATED.search(text):
        found.append(UnsupportedError("COLLATE is not supported", COLLATE_TODAY, view=view, location=location))
    if {"PythonUDF", "PythonUDAF"} & kinds:
        if "PythonUDAF" in kinds and _over_a_window(text):
            found.append(
                UnsupportedError(
                    "an aggregate function in Python over a window is not supported",
                    _WINDOW_TODAY,
                    view=view,
                    location=location,
                )
            )
        found += [
            UnsupportedError(
                f"the Python function {name} is marked as not deterministic",
                _IMPURE_TODAY,
                view=view,
                location=location,
            )
            for name in _not_deterministic(text)
        ]
    raise_all(found)


def _over_a_window(text: str) -> bool:
    windows = (node for node in walk_all(parse(text)) if node.kind == "WindowExpression")
    return any(part.kind == "PythonUDAF" for window in windows for part in window.walk())


def _not_deterministic(text: str) -> list[str]:
    """The names of the functions in Python that are not deterministic, in a plan's `toJSON`."""
    functions = (node for node in walk_all(parse(text)) if node.kind in ("PythonUDF", "PythonUDAF"))
    return sorted({str(node["name"]) for node in functions if not node["udfDeterministic"]})


def check_sessions(analysed: Any, text: str, optimised: Any, tree: TreeNode, *, view: str, location: Location) -> None:
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
