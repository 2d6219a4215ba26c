# ruff: noqa: E501 (tables of cases read better in long lines)
"""What users of other engines write, and what runs nowhere here, is refused with what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from coordinator.status import StatusBoard
from stepwell.commands.run import end_text, stands_still, under_way_lines
from stepwell.errors import ProjectError
from stepwell.lowering.driver import lower
from stepwell.planning.resolver import resolve, resolve_with_errors
from stepwell.project.definitions import load_definitions, quiet_spark
from tests.stepwell.folder import project

SOURCE = "CREATE STREAMING TABLE s (k STRING, n INT, ts TIMESTAMP) USING kafka TBLPROPERTIES ('subscribe' = 't');\n"

SQL = {
    "CREATE OR REFRESH STREAMING TABLE t AS SELECT 1": "OR REFRESH is not supported.*Leave OR REFRESH out",
    "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 1": "OR REPLACE is not supported",
    "CREATE LIVE TABLE v AS SELECT 1": "LIVE TABLE is not supported.*CREATE MATERIALIZED VIEW",
    "CREATE STREAMING LIVE TABLE v AS SELECT 1": "LIVE TABLE is not supported.*CREATE STREAMING TABLE",
    "APPLY CHANGES INTO t FROM STREAM s KEYS (k) SEQUENCE BY n": "APPLY CHANGES INTO is not supported.*AUTO CDC INTO",
    "CREATE MATERIALIZED VIEW v AS SELECT k FROM s EMIT CHANGES": "EMIT is not supported.*kept up to date",
    "CREATE STREAM x (k VARCHAR) WITH (kafka_topic = 't', value_format = 'JSON')": "CREATE SOURCE or STREAM.*USING kafka",
    "CREATE TABLE x AS SELECT k, count(*) FROM s GROUP BY k EMIT CHANGES": "EMIT is not supported",
    "CREATE TABLE x AS SELECT k, count(*) AS n FROM s GROUP BY k": "CREATE TABLE AS SELECT is not supported.*CREATE MATERIALIZED VIEW",
    "CREATE TABLE x (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'kafka')": "WATERMARK FOR is not supported.*WATERMARK ts DELAY OF",
    "CREATE TABLE x (k STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'upsert-kafka')": "a constraint that is not enforced.*'mode' = 'upsert'",
    "CREATE TABLE x (k STRING) WITH ('connector' = 'kafka')": "CREATE TABLE is not supported.*USING kafka",
    "CREATE TABLE x (k STRING)": "CREATE TABLE is not supported.*USING kafka",
    "CREATE SOURCE x FROM KAFKA CONNECTION c (TOPIC 't') FORMAT JSON ENVELOPE UPSERT": "CREATE SOURCE or STREAM.*USING kafka",
    "CREATE SINK x FROM v INTO KAFKA CONNECTION c (TOPIC 't')": "CREATE SINK is not supported.*'topic'",
    "CREATE MATERIALIZED VIEW v AS SELECT k FROM s WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY k": "a WINDOW clause of ksqlDB is not supported.*window\\(ts",
    "CREATE MATERIALIZED VIEW v AS SELECT k FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' HOUR))": "a window as a table function is not supported",
    "CREATE MATERIALIZED VIEW v AS SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k PATTERN (a b) DEFINE a AS n > 1)": "MATCH_RECOGNIZE is not supported.*lag",
    "CREATE TEMPORARY FUNCTION twice(a INT) RETURNS INT RETURN a * 2": "CREATE FUNCTION is not supported.*spark.udf.register",
    "DECLARE VARIABLE n INT DEFAULT 1": "DECLARE is not supported.*args=",
    "EXECUTE IMMEDIATE 'SELECT 1'": "EXECUTE IMMEDIATE is not supported.*spark.sql",
    "BEGIN SELECT 1; END": "a script .* is not supported.*a Python file",
    "DROP TABLE x": "DropTable is not a definition",
}  # fmt: skip


@pytest.mark.parametrize("text", SQL)
def test_clauses_of_other_engines(tmp_path: Path, spark: SparkSession, text: str) -> None:
    with pytest.raises(ProjectError, match=rf"(?s)a\.sql:2: {SQL[text]}"), quiet_spark():
        load_definitions(project(tmp_path, {"a.sql": f"SET a = 1;\n{text};\n"}), spark)


PYTHON = {
    "import dlt": "dlt is a module of another engine.*from pyspark import pipelines as dp",
    "from dlt import table": "dlt is a module of another engine",
    "from databricks.sdk import x": "databricks is a module of another engine",
    "import nowhere_to_be_found": "there is no module nowhere_to_be_found.*Install its package",
}


@pytest.mark.parametrize("text", PYTHON)
def test_modules_of_other_engines(tmp_path: Path, spark: SparkSession, text: str) -> None:
    with pytest.raises(ProjectError, match=rf"(?s)a\.py:2: {PYTHON[text]}"), quiet_spark():
        load_definitions(project(tmp_path, {"a.py": f"x = 1\n{text}\n"}), spark)


VIEWS = {
    "SELECT k FROM LIVE.s": r"LIVE\.s is not defined.*Leave LIVE\. out.*write s",
    "SELECT k COLLATE UNICODE_CI AS k FROM s": r"COLLATE is not supported.*lower\(x\)",
    "SELECT n FROM s WHERE k COLLATE UTF8_LCASE = 'a'": "COLLATE is not supported",
    "SELECT CAST(k AS STRING COLLATE UTF8_LCASE) AS k FROM s": "COLLATE is not supported",
    "SELECT CAST(struct(k) AS STRUCT<f: STRING COLLATE UTF8_LCASE>) AS k FROM s": "COLLATE is not supported",
    "SELECT from_json(k, 'a STRING COLLATE UTF8_LCASE').a AS k, count(*) AS n FROM s GROUP BY 1": "COLLATE is not supported",
    "SELECT from_json(k, 'ARRAY<STRUCT<a: ARRAY<STRING COLLATE UNICODE>>>') AS k FROM s": "COLLATE is not supported",
    "SELECT size(from_json(k, 'a MAP<STRING, STRING COLLATE UNICODE>').a) AS k FROM s": "COLLATE is not supported",
}
FUNCTIONS = {
    "return None": "the function returns nothing.*End it with",
    "import pandas; return pandas.DataFrame({'a': [1]})": r"the function returns a pandas\.\S*DataFrame.*A table of pandas",
    "import pyarrow; return pyarrow.table({'a': [1]})": r"the function returns a pyarrow\.\S*Table.*A table of pyarrow",
    "return [1]": "the function returns a list.*DataFrame of Spark",
    "return 7": "the function returns an int",
    "return 'SELECT 1'": "the function returns a str",
}


def test_queries_and_results_that_run_nowhere_here(tmp_path: Path, spark: SparkSession) -> None:
    sql = "".join(f"CREATE MATERIALIZED VIEW v{i} AS {text};\n" for i, text in enumerate(VIEWS))
    python = "from pyspark import pipelines as dp\n" + "".join(
        f"@dp.materialized_view\ndef f{i}():\n    {text}\n" for i, text in enumerate(FUNCTIONS)
    )
    _, errors = resolve_with_errors(project(tmp_path, {"a.sql": SOURCE + sql, "b.py": python}), spark)
    found = {error.view: str(error) for error in errors}
    assert len(found) == len(VIEWS) + len(FUNCTIONS), found
    for i, says in enumerate(VIEWS.values()):
        assert_says(found[f"v{i}"], rf"a\.sql:{i + 2}: v{i}: {says}")
    for i, says in enumerate(FUNCTIONS.values()):
        assert_says(found[f"f{i}"], rf"b\.py:{3 * i + 2}: f{i}: {says}")


def test_a_column_with_a_collation(tmp_path: Path, spark: SparkSession) -> None:
    text = SOURCE.replace("k STRING", "k STRING COLLATE UNICODE_CI")
    with pytest.raises(ProjectError, match=r"(?s)a\.sql:1: s: column k has the type string collate.*lower\(x\)"):
        resolve(project(tmp_path, {"a.sql": text}), spark)


def test_a_map_as_a_key_is_named_and_what_is_advised_runs(tmp_path: Path, spark: SparkSession) -> None:
    inner = "WITH x AS (SELECT k, map(k, n) AS m FROM s) "
    text = f"{SOURCE}CREATE MATERIALIZED VIEW v AS {inner}SELECT m, count(*) AS c FROM x GROUP BY m;"
    with pytest.raises(ProjectError, match=r"(?s)a\.sql:2: v: GROUP BY a MAP is not supported.*map_keys"):
        lower(resolve(project(tmp_path, {"a.sql": text}), spark))
    advised = "array_sort(transform(map_keys(m), k -> concat_ws('=', k, m[k])))"
    found = project(
        tmp_path / "fine",
        {
            "a.sql": f"{SOURCE}CREATE MATERIALIZED VIEW v AS {inner}SELECT {advised} AS e, count(*) AS c FROM x GROUP BY 1;"
        },
    )
    assert lower(resolve(found, spark)).nodes


def assert_says(text: str, pattern: str) -> None:
    with pytest.raises(ProjectError, match=f"(?s){pattern}"):
        raise ProjectError(text)


def test_the_last_line_of_a_run_says_what_was_left_out() -> None:
    status = {"phase": "stopped", "checkpoint_step": 7, "rows": 12345, "skipped": {}, "late": {}}
    assert end_text(status) == "stopped before step 7, at a checkpoint; 12,345 rows read in this run"
    status |= {"skipped": {"orders": 1200, "b": 0, "a": 3}, "late": {"v": 2}}
    assert end_text(status).endswith(
        "read in this run; messages left out, by source: a: 3, orders: 1,200; late rows left out, by view: v: 2"
    )


def test_the_last_line_of_a_run_that_has_begun_nothing_names_no_checkpoint() -> None:
    """A signal before the claim: the status has the defaults, and the state may be at any step."""
    status = StatusBoard("p").show()
    assert end_text(status) == "stopped before anything was begun"


def test_the_last_lines_of_a_run_say_what_is_left_of_a_transition() -> None:
    """`run --available-now --apply` ends with the exit code of `apply` then."""
    assert under_way_lines({"transition": None}) == [] and not stands_still({"transition": None})
    shown = {"number": 2, "is_paused": False, "filled": 0.5, "seconds_left": None, "held_because": "H", "error": ""}
    for phase, is_paused, told, waits in (
        (
            "held",
            False,
            ["revision 1 -> 2: held: H", "with it, and while that runs:", "`stepwell revision switch`"],
            True,
        ),
        ("detached", False, ["revision 1 -> 2: detached", "`stepwell revision resume`"], True),
        ("filling", True, ["revision 1 -> 2: paused", "`stepwell revision resume`"], True),
        ("filling", False, ["revision 1 -> 2: being filled, 50 % filled", "goes on with it."], False),
        ("preparing", False, ["the change in the files is not applied"], False),
    ):
        status = {"transition": {**shown, "phase": phase, "is_paused": is_paused}}
        text = "\n".join(under_way_lines(status))
        assert all(part in text for part in told), text
        assert stands_still(status) == waits, phase
