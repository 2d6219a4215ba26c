"""Python and SQL files -> definitions; refusals with file and line; pyspark's API as it was when this was written."""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
import sys
from pathlib import Path

import pytest
from pyspark import pipelines as dp
from pyspark.errors import AnalysisException, ArithmeticException
from pyspark.pipelines import flow, graph_element_registry, output
from pyspark.sql import SparkSession

from stepwell.errors import Location, ProjectError, ProjectErrors
from stepwell.project.definitions import Definitions, load_definitions, quiet_spark
from stepwell.project.elements import SqlQuery
from tests.stepwell.folder import SPEC, project

MIXED = {
    "a.sql": """
        -- a comment; with a semicolon
        CREATE STREAMING TABLE flights (carrier STRING NOT NULL, price DECIMAL(10, 2) COMMENT 'in euro')
          USING kafka TBLPROPERTIES ('subscribe' = 'flights');

        CREATE MATERIALIZED VIEW delays COMMENT 'late; ones' TBLPROPERTIES ('topic' = 'delays') AS
          WITH q AS (SELECT ';' AS x) SELECT * FROM flights, q;
        SET spark.sql.caseSensitive = false;
        CREATE TEMPORARY VIEW named (a, b) AS SELECT carrier, price FROM flights;
        CREATE STREAMING TABLE copy AS SELECT * FROM STREAM(flights);
        CREATE STREAMING TABLE many;
        CREATE FLOW first AS INSERT INTO many BY NAME SELECT * FROM STREAM(flights);
    """,
    "b.py": """
        from pyspark import pipelines as dp

        dp.create_streaming_table("events", schema="id INT NOT NULL, at TIMESTAMP", format="kafka",
                                  table_properties={"subscribe": "events"})
        dp.create_sink("out", "kafka", {"topic": "out"})

        @dp.append_flow(target="out", spark_conf={"spark.x": "1"})
        def to_out():
            return spark.readStream.table("events")

        @dp.materialized_view(comment="hi")
        def mv():
            return spark.table("events")

        @dp.temporary_view
        def tv():
            return spark.table("events")

        @dp.table(name="renamed", table_properties={"topic": "t"})
        def tb():
            return spark.readStream.table("events")
    """,
}


def load(root: Path, spark: SparkSession, files: dict[str, str]) -> Definitions:
    with quiet_spark():
        return load_definitions(project(root, files), spark)


def test_what_files_define(tmp_path: Path, spark: SparkSession) -> None:
    found = load(tmp_path, spark, MIXED)
    assert [(o.name, o.kind, o.location.line) for o in found.outputs] == [
        ("flights", "table", 2),
        ("delays", "materialized_view", 5),
        ("named", "temporary_view", 8),
        ("copy", "table", 9),
        ("many", "table", 10),
        ("events", "table", 3),
        ("out", "sink", 5),
        ("mv", "materialized_view", 11),
        ("tv", "temporary_view", 15),
        ("renamed", "table", 19),
    ]
    assert [(f.name, f.target, f.location.line) for f in found.flows] == [
        ("delays", "delays", 5),
        ("named", "named", 8),
        ("copy", "copy", 9),
        ("first", "many", 11),
        ("to_out", "out", 7),
        ("mv", "mv", 11),
        ("tv", "tv", 15),
        ("renamed", "renamed", 19),
    ]
    by_name = {o.name: o for o in found.outputs}
    flights, delays, events, out = (by_name[name] for name in ("flights", "delays", "events", "out"))
    assert flights.location == Location("transformations/a.sql", 2)
    assert out.location == Location("transformations/b.py", 5)
    assert flights.schema is not None
    assert flights.schema.simpleString() == "struct<carrier:string,price:decimal(10,2)>"
    assert [column.nullable for column in flights.schema] == [False, True]
    assert (flights.format, flights.properties) == ("kafka", {"subscribe": "flights"})
    assert (delays.comment, delays.properties, delays.schema) == ("late; ones", {"topic": "delays"}, None)
    assert events.schema is not None
    assert [(c.name, c.nullable) for c in events.schema] == [("id", False), ("at", True)]
    assert (out.format, out.properties) == ("kafka", {"topic": "out"})


def test_set_is_in_force_for_the_flows_below_it(tmp_path: Path, spark: SparkSession) -> None:
    flows = {flow.name: flow for flow in load(tmp_path, spark, MIXED).flows}
    assert flows["delays"].spark_conf == {}
    assert flows["named"].spark_conf == {"spark.sql.caseSensitive": "false"}
    assert flows["to_out"].spark_conf == {"spark.x": "1"}
    assert isinstance(flows["named"].query, SqlQuery)
    assert flows["named"].query.columns == ("a", "b")


PYTHON = "from pyspark import pipelines as dp\n"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT 1 AS a;\n"


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"a.sql": VIEW, "b.sql": VIEW.replace(" v ", " V ")}, r"b\.sql:1: V: V is defined at .*a\.sql:1 already"),
        ({"a.sql": "CREATE STREAMING TABLE a.b.c;"}, r"call it c"),
        ({"a.sql": VIEW + "CREATE FLOW f AS INSERT INTO w BY NAME SELECT 1;"}, r"a\.sql:2: w: flow f .*\n.*Known targets: v"),
        ({"a.sql": VIEW + "CREATE FLOW f AS INSERT INTO v BY NAME SELECT 1;"}, r"which has its own query"),
        ({"a.sql": "CREATE STREAMING TABLE t;\nCREATE FLOW f AS INSERT INTO t SELECT 1;"}, r"a\.sql:2: t: .*BY NAME"),
        ({"a.sql": "CREATE STREAMING TABLE t;" + "CREATE FLOW f AS INSERT INTO t BY NAME SELECT 1;\n" * 2}, "named f"),
        ({"a.sql": VIEW + "\n\nCREATE MATERIALIZED\n VIEV w AS SELECT 1;"}, r"a\.sql:5: .*VIEV"),
        ({"a.sql": VIEW + "SELECT (1;\n" + VIEW}, r"a\.sql:2: "),
        ({"a.sql": "\nSELECT 1;"}, r"a\.sql:2: Project is not a definition"),
        ({"a.sql": "CREATE GLOBAL TEMPORARY VIEW v AS SELECT 1;"}, r"a\.sql:1: v: .*\n.*CREATE TEMPORARY VIEW v"),
        ({"a.sql": "DROP TABLE x;"}, "is not a definition"),
        ({"a.sql": "CREATE STREAMING TABLE t (a INT DEFAULT 1);"}, "DEFAULT"),
        ({"a.sql": "CREATE STREAMING TABLE t (a INT, CONSTRAINT p PRIMARY KEY (a));"}, r"a\.sql:1: .*constraints"),
        ({"a.sql": "\nCREATE MATERIALIZED VIEW v (CONSTRAINT a EXPECT (x > 1)) AS SELECT 1"}, r"a\.sql:2: expectations.*\n.*WHERE"),
        ({"a.py": "from pyspark import pipelines as dp\n@dp.expect('x', 'a > 1')\ndef v(): ..."}, r"a\.py:2: expectations"),
        ({"a.py": "x = 1\ny = 1 / 0"}, r"a\.py:2: ZeroDivisionError"),
        ({"a.py": "x = 1\ny = ("}, r"a\.py:2: SyntaxError"),
        ({"a.py": "from pyspark import pipelines as dp\ndp.create_streaming_table('t', schema='a INTT')"}, r"a\.py:2: t: schema"),
        ({"notes.md": "hello"}, r"notes\.md: is neither"),
        ({}, r"no definitions"),
    ],
)  # fmt: skip
def test_refused_with_file_and_line(tmp_path: Path, spark: SparkSession, files: dict[str, str], says: str) -> None:
    with pytest.raises(ProjectError) as raised:
        load(tmp_path, spark, files)
    assert raised.match(says)
    assert raised.value.location is not None


def test_all_files_are_read_before_the_errors_are_told(tmp_path: Path, spark: SparkSession) -> None:
    with pytest.raises(ProjectErrors) as raised:
        load(tmp_path, spark, {"a.sql": "SELEC 1;", "b.py": "1 / 0"})
    assert [str(error.location) for error in raised.value.errors] == [
        "transformations/a.sql:1",
        "transformations/b.py:1",
    ]


def test_definitions_run_in_the_project_folder_with_their_own_active_session(
    tmp_path: Path, spark: SparkSession
) -> None:
    here = Path.cwd()
    text = """
        from pathlib import Path
        from pyspark.sql import SparkSession
        assert Path("spark-pipeline.yml").exists()
        assert SparkSession.active()._jsparkSession.equals(spark._jsparkSession)
        spark.range(1).createOrReplaceTempView("leaked")
        assert spark.conf.get("my.parameter") == "7"
    """
    files = {"a.py": text, "b.sql": VIEW}
    load_definitions(project(tmp_path, files, SPEC + "configuration:\n  my.parameter: 7\n"), spark)
    assert Path.cwd() == here
    assert not spark.catalog.tableExists("leaked")


def test_a_file_that_was_edited_within_a_second_is_read_again(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python takes its byte code for that of the file, because size and second are the same."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    text = """
        from pyspark import pipelines as dp
        dp.create_streaming_table("{name}", schema="id INT", format="kafka", table_properties={{"subscribe": "events"}})
    """
    for name in ("one", "two"):
        asked = project(tmp_path, {"a.py": text.format(name=name)})
        os.utime(tmp_path / "transformations" / "a.py", (1_700_000_000, 1_700_000_000))
        with quiet_spark():
            found = load_definitions(asked, spark)
        assert [output.name for output in found.outputs] == [name]
    assert not list(tmp_path.rglob("*.pyc")), "nothing is left in the user's folder"


def test_a_wrong_setting_of_sparks_is_told(tmp_path: Path, spark: SparkSession) -> None:
    spec = SPEC + "configuration:\n  spark.sql.ansi.enabled: perhaps\n"
    with pytest.raises(ProjectError, match=r"spark\.sql\.ansi\.enabled = perhaps"):
        load_definitions(project(tmp_path, {"a.sql": VIEW}, spec), spark)


def parameters(function: object) -> str:
    return " ".join(inspect.signature(function).parameters)  # type: ignore[arg-type]


def names(kind: type) -> str:
    return " ".join(field.name for field in dataclasses.fields(kind))


def test_pysparks_definitions_api_is_the_one_we_adapt() -> None:
    """If this fails after an upgrade: read what changed, adapt `definitions` and `sql_files`, then renew it here."""
    table = "query_function name comment spark_conf table_properties partition_cols cluster_by schema format"
    assert sorted(dp.__all__) == [
        "append_flow", "create_auto_cdc_flow", "create_sink", "create_streaming_table", "materialized_view", "table",
        "temporary_view",
    ]  # fmt: skip
    assert parameters(dp.table) == parameters(dp.materialized_view) == table
    assert parameters(dp.temporary_view) == "query_function name comment spark_conf"
    assert parameters(dp.append_flow) == "target name spark_conf"
    assert parameters(dp.create_sink) == "name format options"
    assert parameters(dp.create_streaming_table) == (
        "name comment table_properties partition_cols cluster_by schema format"
    )
    location = "name comment source_code_location"
    assert names(output.TemporaryView) == location
    assert names(output.Sink) == location + " format options"
    stored = location + " table_properties partition_cols cluster_by schema format"
    assert names(output.MaterializedView) == names(output.StreamingTable) == stored
    assert names(flow.Flow) == "name target spark_conf source_code_location func"
    assert sorted(graph_element_registry.GraphElementRegistry.__abstractmethods__) == [
        "register_auto_cdc_flow", "register_flow", "register_output", "register_sql",
    ]  # fmt: skip


def test_spark_can_still_log_its_errors_after_being_quiet(spark: SparkSession) -> None:
    """A logger of the wrong class would turn Spark's own error into a TypeError, from then on."""
    with quiet_spark():
        pass
    with pytest.raises(ArithmeticException):
        spark.sql("SELECT 1 / id FROM range(1)").collect()


@pytest.mark.parametrize(
    "name", ["2024", "1e5", "_", "SELECT", "x_1", "my-src", "odd name", "größe", "日本", "٣", "a$b", "straße"]
)
@pytest.mark.parametrize(
    "definition",
    [
        "CREATE MATERIALIZED VIEW `{}` AS SELECT 1 AS a;",
        "CREATE STREAMING TABLE `{}` (a INT) USING kafka TBLPROPERTIES ('subscribe' = 'a');",
        "@dp.materialized_view(name='{}')\ndef v(): return spark.range(1)",
        "@dp.materialized_view(name='`{}`')\ndef v(): return spark.range(1)",
        "dp.create_streaming_table('{}')",
    ],
)
def test_a_table_has_a_name_that_sparks_catalog_takes(
    tmp_path: Path, spark: SparkSession, name: str, definition: str
) -> None:
    """Spark itself is asked. What it refuses is refused where it is defined."""
    is_python = not definition.startswith("CREATE")
    text = ("from pyspark import pipelines as dp\n" if is_python else "\n") + definition.format(name)
    file = "a.py" if is_python else "a.sql"
    if is_allowed(name, tmp_path, spark):
        assert [output.name for output in load(tmp_path, spark, {file: text}).outputs] == [name]
    else:
        with pytest.raises(ProjectError, match=rf"(?s){file}:2: {re.escape(name)}: .*is no name of a.*As in Spark's"):
            load(tmp_path, spark, {file: text})


def is_allowed(name: str, folder: Path, spark: SparkSession) -> bool:
    with quiet_spark():
        try:
            spark.sql(f"CREATE TABLE `{name}` (a INT) USING csv LOCATION '{folder}/table'")
        except AnalysisException as refused:
            assert refused.getCondition() == "INVALID_SCHEMA_OR_RELATION_NAME", refused
            return False
    spark.sql(f"DROP TABLE `{name}`")
    return True


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"a.sql": "CREATE STREAMING TABLE `my-src`;"}, r"Call it my_src"),
        ({"a.py": PYTHON + "dp.create_sink('a`b', 'kafka', {'topic': 'o'})"}, r"a\.py:2: a`b: .*has a backtick in it"),
        ({"a.sql": "CREATE TEMPORARY VIEW `a``b` AS SELECT 1;"}, r"a\.sql:1: a`b: .*has a backtick in it"),
        ({"a.py": PYTHON + "dp.create_sink('', 'kafka', {'topic': 'o'})"}, r"a\.py:2: the name of a sink is empty"),
    ],
)  # fmt: skip
def test_names_that_are_refused(tmp_path: Path, spark: SparkSession, files: dict[str, str], says: str) -> None:
    with pytest.raises(ProjectError, match=says):
        load(tmp_path, spark, files)


def test_flows_and_targets_in_python_may_stand_in_backticks(tmp_path: Path, spark: SparkSession) -> None:
    text = (
        PYTHON
        + """
dp.create_streaming_table("`2024`")
dp.create_auto_cdc_flow(target="`2024`", source="`1src`", keys=["k"], sequence_by="n")
dp.create_sink("my-sink", "kafka", {"topic": "o"})
@dp.append_flow(target="`my-sink`", name="`my flow`")
def f(): return spark.readStream.table("`1src`")
"""
    )
    found = load(tmp_path, spark, {"a.py": text})
    assert [output.name for output in found.outputs] == ["2024", "my-sink"]
    assert [(flow.name, flow.target) for flow in found.flows] == [("2024", "2024"), ("my flow", "my-sink")]
