"""Definitions -> plans: boundaries, order, both forms of a table, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.pipelines import init_cli
from pyspark.sql import SparkSession

from stepwell.catalyst.read import read
from stepwell.catalyst.tree import TreeNode, walk_all
from stepwell.errors import OwnMistake, ProjectError, ProjectErrors, UnsupportedError
from stepwell.inspection.dry_run import describe
from stepwell.planning import plans
from stepwell.planning.plans import FlowPlan, ResolvedProject, ResolvedView
from stepwell.planning.resolver import resolve, resolve_with_errors
from stepwell.project.loading import load_project
from tests.stepwell.folder import project

SOURCES = """
CREATE STREAMING TABLE flights (carrier STRING NOT NULL, dest STRING, delay DOUBLE, at TIMESTAMP)
  USING kafka TBLPROPERTIES ('subscribe' = 'flights');
CREATE STREAMING TABLE airlines (carrier STRING NOT NULL, name STRING)
  USING kafka TBLPROPERTIES ('subscribe' = 'airlines', 'mode' = 'upsert', 'key' = 'carrier');
"""


def resolved(root: Path, spark: SparkSession, files: dict[str, str]) -> ResolvedProject:
    return resolve(project(root, {"sources.sql": SOURCES, **files}), spark)


def view(found: ResolvedProject, name: str) -> ResolvedView:
    return next(v for v in found.views if v.name == name)


def one(root: Path, spark: SparkSession, query: str) -> ResolvedView:
    return view(resolved(root, spark, {"v.sql": f"CREATE MATERIALIZED VIEW v AS {query}"}), "v")


def refused(root: Path, spark: SparkSession, files: dict[str, str]) -> tuple[ProjectError, ...]:
    with pytest.raises(ProjectErrors) as raised:
        resolved(root, spark, files)
    return raised.value.errors


def classes(flow: FlowPlan) -> list[str]:
    return [node.kind for node in flow.tree.walk()]


def test_the_project_that_spark_pipelines_makes(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    init_cli.init("starter")
    found = resolve(load_project(start=tmp_path / "starter"), spark)
    assert [(v.name, v.reads) for v in found.views] == [
        ("example_python_materialized_view", ()),
        ("example_sql_materialized_view", ("example_python_materialized_view",)),
    ]
    assert found.views[0].flows[0].tree.kind == "Range"
    assert [v.schema.simpleString() for v in found.views] == ["struct<id:bigint>"] * 2
    assert found.project.storage == tmp_path / "starter" / "pipeline-storage"


def test_files_in_any_order_come_out_in_dependency_order(tmp_path: Path, spark: SparkSession) -> None:
    found = resolved(
        tmp_path,
        spark,
        {
            "a.sql": "CREATE MATERIALIZED VIEW a TBLPROPERTIES ('topic' = 'a') AS SELECT * FROM B WHERE n > 1",
            "b.py": """
                from pyspark import pipelines as dp
                @dp.materialized_view
                def b():
                    return spark.sql("SELECT carrier, count(*) AS n FROM c JOIN Airlines USING (carrier) GROUP BY carrier")
            """,
            "c.sql": "CREATE TEMPORARY VIEW c AS SELECT carrier FROM flights WHERE delay > 60",
        },
    )
    assert [(v.name, v.reads) for v in found.views] == [("b", ("flights", "airlines")), ("a", ("b",))]
    assert sorted(s.handle for s in found.sources) == ["airlines", "flights"]
    a, b = view(found, "a"), view(found, "b")
    assert a.output is not None
    assert a.output.topic == "a"
    assert b.output is None
    assert str(b.location) == "transformations/b.py:2"
    assert "Filter" in classes(b.flows[0])  # the temporary view is inlined
    assert classes(a.flows[0]) == ["Filter", "LogicalRDD"]  # the materialized one is a boundary


def test_leaves_name_their_sources_through_self_joins_and_subqueries(tmp_path: Path, spark: SparkSession) -> None:
    found = one(
        tmp_path,
        spark,
        """SELECT x.dest, a.name FROM flights x JOIN flights y ON x.carrier = y.dest JOIN airlines a ON a.carrier = y.carrier
           WHERE x.delay > (SELECT avg(delay) FROM flights) AND y.dest > (SELECT min(name) FROM airlines)""",
    )
    flow = found.flows[0]
    rdds = [node for node in walk_all(flow.tree) if node.kind == "LogicalRDD"]
    assert tuple(node["rdd"] for node in rdds) == flow.leaves
    assert set(flow.leaves) == {"airlines", "flights"}
    assert flow.leaves.count("flights") >= 3
    for node in rdds:  # a wrong pairing would show in the columns
        assert ("name" in [column["name"] for column in node["output"]]) == (node["rdd"] == "airlines")
    assert found.reads == ("flights", "airlines")


def test_leaves_are_in_the_order_of_the_json(tmp_path: Path, spark: SparkSession) -> None:
    flow = one(
        tmp_path,
        spark,
        "SELECT carrier FROM flights UNION ALL SELECT name FROM airlines UNION ALL SELECT dest FROM flights",
    ).flows[0]
    assert flow.leaves == ("flights", "airlines", "flights")
    assert classes(flow).count("LogicalRDD") == 3


def test_rows_written_in_a_definition_come_with_the_plan(tmp_path: Path, spark: SparkSession) -> None:
    flow = one(
        tmp_path, spark, "SELECT * FROM VALUES (1, 'a', DATE '2013-01-01'), (2, NULL, NULL) AS t(i, s, d)"
    ).flows[0]
    (leaf,) = [node for node in walk_all(flow.tree) if node.kind == "LocalRelation"]
    assert [str(type_) for type_ in leaf["data"].schema.types] == ["int32", "string", "date32[day]"]
    assert leaf["data"].column("c0").to_pylist() == [1, 2]
    assert leaf["data"].column("c1").to_pylist() == ["a", None]


def test_rows_without_columns_keep_their_number(tmp_path: Path, spark: SparkSession) -> None:
    flow = one(tmp_path, spark, "SELECT count(*) FROM VALUES (1), (2), (3)").flows[0]
    (leaf,) = [node for node in walk_all(flow.tree) if node.kind == "LocalRelation"]
    assert (leaf["output"], leaf["data"].num_rows) == ([], 3)


def test_flows_of_streaming_tables_read_streams(tmp_path: Path, spark: SparkSession) -> None:
    found = resolved(
        tmp_path,
        spark,
        {
            "s.sql": """
                CREATE STREAMING TABLE late AS SELECT carrier, dest FROM STREAM(flights) WHERE delay > 60;
                CREATE MATERIALIZED VIEW per_dest AS SELECT dest, count(*) AS n FROM late GROUP BY dest;
            """,
            "p.py": """
                from pyspark import pipelines as dp
                dp.create_sink("out", "kafka", {"topic": "out"})
                @dp.append_flow(target="out")
                def to_out():
                    return spark.readStream.table("late").join(spark.read.table("airlines"), "carrier")
                @dp.temporary_view
                def unread():
                    return spark.readStream.table("late")
            """,
        },
    )
    assert {v.name: v.reads for v in found.views} == {
        "late": ("flights",), "out": ("late", "airlines"), "per_dest": ("late",),
    }  # fmt: skip
    assert view(found, "out").kind == "sink"
    streams = {v.name: list(v.flows[0].tree.walk())[-1]["isStreaming"] for v in found.views}
    assert streams == {"late": True, "out": True, "per_dest": False}


def test_sql_may_have_subqueries_over_streams_and_python_is_told(tmp_path: Path, spark: SparkSession) -> None:
    query = "SELECT dest FROM STREAM(flights) WHERE carrier IN (SELECT carrier FROM airlines)"
    found = resolved(tmp_path / "sql", spark, {"s.sql": f"CREATE STREAMING TABLE t AS {query}"})
    assert "Join" in classes(view(found, "t").flows[0])
    assert view(found, "t").reads == ("flights", "airlines")
    python = f'from pyspark import pipelines as dp\n@dp.table\ndef t():\n    return spark.sql("{query}")'
    with pytest.raises(UnsupportedError, match=r"p\.py:4: t: .*subquery over a stream\n.*left_semi"):
        resolved(tmp_path / "python", spark, {"p.py": python})
    wrong = query.replace("dest FROM", "nothing FROM")
    with pytest.raises(ProjectError, match=r"nothing|something else"):
        resolved(tmp_path / "wrong", spark, {"s.sql": f"CREATE STREAMING TABLE t AS {wrong}"})


def test_append_flows_are_matched_by_name(tmp_path: Path, spark: SparkSession) -> None:
    text = """
        CREATE STREAMING TABLE both;
        CREATE FLOW f AS INSERT INTO both BY NAME SELECT carrier, dest AS place FROM STREAM(flights);
        CREATE FLOW g AS INSERT INTO both BY NAME SELECT name AS Place, carrier FROM STREAM(airlines);
    """
    both = view(resolved(tmp_path / "a", spark, {"s.sql": text}), "both")
    assert both.schema.simpleString() == "struct<carrier:string,place:string>"
    assert [column.nullable for column in both.schema] == [False, True]
    assert [flow.name for flow in both.flows] == ["f", "g"]
    output = both.flows[1].tree["projectList"]
    assert [column["name"].lower() for column in output] == ["carrier", "place"]
    for change, says in (
        ("name AS Elsewhere", "matched by name"),
        ("1 AS Place", r"CAST\(place AS string\)"),
    ):
        with pytest.raises(ProjectError, match=says):
            resolved(tmp_path / says[:3], spark, {"s.sql": text.replace("name AS Place", change)})


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ("(dest STRING, n BIGINT)", None),
        ("(n BIGINT, dest STRING)", None),
        ("(dest STRING, n INT)", "n is bigint in a flow and int in the view"),
        ("(dest STRING, m BIGINT)", "matched by name"),
        ("(dest STRING NOT NULL, n BIGINT)", "dest is declared NOT NULL"),
    ],
)
def test_declared_columns(tmp_path: Path, spark: SparkSession, declared: str, says: str | None) -> None:
    text = f"CREATE MATERIALIZED VIEW v {declared} AS SELECT dest, count(*) AS n FROM flights GROUP BY dest"
    if says is None:
        schema = view(resolved(tmp_path, spark, {"v.sql": text}), "v").schema
        assert f"({', '.join(f'{c.name} {c.dataType.simpleString().upper()}' for c in schema)})" == declared
    else:
        with pytest.raises(ProjectError, match=says):
            resolved(tmp_path, spark, {"v.sql": text})


IMPURE = [
    "rand()", "randn(3)", "uuid()",
    "current_user()", "monotonically_increasing_id()", "input_file_name()", "spark_partition_id()",
    "shuffle(array(1, 2))", "current_timezone()", "current_database()", "user()", "version()",
    "(SELECT max(x) FROM (SELECT rand() AS x FROM airlines))",
]  # fmt: skip


def test_what_cannot_be_replayed_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    views = [f"CREATE MATERIALIZED VIEW v{i} AS SELECT {text} AS x FROM flights;" for i, text in enumerate(IMPURE)]
    errors = refused(tmp_path, spark, {"v.sql": "\n".join(views)})
    assert [error.view for error in errors] == [f"v{i}" for i in range(len(IMPURE))]
    for i, error in enumerate(errors):
        assert isinstance(error, UnsupportedError), IMPURE[i]
        assert re.match(rf"transformations/v\.sql:{i + 1}: v{i}: .* is not supported\n.*replay", str(error)), IMPURE[i]
        is_of_the_session = IMPURE[i].startswith("current_") or IMPURE[i] in ("user()", "version()")
        assert ("Write the value itself" in error.what_to_do) == is_of_the_session, IMPURE[i]


PYTHON = [
    (
        "spark.table('flights').select(F.pandas_udf(lambda s: 1, 'int', F.PandasUDFType.GROUPED_AGG)('delay').over(Window.partitionBy('dest')))",
        r"an aggregate function in Python over a window is not supported\n.*PARTITION BY",
    ),
    ("spark.table('flights').mapInPandas(lambda batches: batches, 'dest string')", r"mapInPandas is not supported"),
    (
        "spark.table('flights').groupBy('dest').applyInPandas(lambda df: df, 'dest string')",
        r"applyInPandas is not supported",
    ),
    (
        "spark.table('flights').groupBy('dest').applyInArrow(lambda table: table, 'dest string')",
        r"applyInArrow is not supported",
    ),
    (
        "spark.table('flights').groupBy('dest').cogroup(spark.table('flights').groupBy('dest'))"
        ".applyInArrow(lambda left, right: left, 'dest string')",
        r"cogroup\(\)\.applyInArrow is not supported",
    ),
    ("spark.table('flights').sample(0.5)", r"sample\(\) is not supported"),
    ("spark.sparkContext.parallelize([(1, 'a')]).toDF(['i', 's'])", r"rows of an RDD.*\n.*createDataFrame"),
    (
        "spark.readStream.format('kafka').option('subscribe', 'x').load()",
        r"a topic is read as a stream, and this is not",
    ),
    ("spark.readStream.format('rate').load()", r"read as a stream, and this"),
    ("spark.readStream.text(__file__)", r"read as a stream, and this"),
    ("spark.read.text('/no/such/file')", r"PATH_NOT_FOUND.*/no/such/file"),
    ("spark.read.format('delta').load('/tmp')", r"DATA_SOURCE_NOT_FOUND.*delta"),
    ("spark.readStream.table('flights')", r"read as a stream, and this"),
    ("spark.table('flihgts')", r"flihgts is not defined in this project\n.*Did you mean flights"),
    ("spark.table('flights').select('nothing')", r"UNRESOLVED_COLUMN.*nothing"),
    ("spark.table('flights').crossJoin(spark.table('airlines'))", r"two columns are called carrier"),
    ("1 / 0", r"ZeroDivisionError"),
    ("None", r"the function returns nothing"),
]


def test_refused_in_python(tmp_path: Path, spark: SparkSession) -> None:
    text = "from pyspark import pipelines as dp\nfrom pyspark.sql import Window, functions as F\n"
    for i, (query, _) in enumerate(PYTHON):
        text += f"@dp.materialized_view\ndef v{i}(): return {query}\n"
    errors = refused(tmp_path, spark, {"p.py": text})
    assert [error.view for error in errors] == [f"v{i}" for i in range(len(PYTHON))]
    for i, ((query, says), error) in enumerate(zip(PYTHON, errors, strict=True)):
        assert re.search(says, str(error)), (query, str(error))
        assert error.location is not None
        assert error.location.file == "transformations/p.py"
        assert error.location.line in (3 + 2 * i, 4 + 2 * i), query


SQL = [
    ("CREATE MATERIALIZED VIEW v0 AS SELECT * FROM flihgts", r"flihgts is not defined.*\n.*Did you mean flights"),
    ("CREATE MATERIALIZED VIEW v1 AS SELECT nope FROM flights", r"UNRESOLVED_COLUMN"),
    ("CREATE MATERIALIZED VIEW v2 AS SELECT * FROM STREAM(flights)", r"as a stream"),
    ("CREATE STREAMING TABLE v3", r"this streaming table has no flow and is not a source"),
    ("CREATE MATERIALIZED VIEW v4 TBLPROPERTIES ('key' = 'y') AS SELECT 1 AS x", r"key y is not a column"),
    (
        "CREATE MATERIALIZED VIEW v5 AS SELECT from_json('ab', 'x INT', map('mode', 'FAILFAST')) AS j FROM flights",
        r"MALFORMED_RECORD_IN_PARSING.*\n.*Spark itself fails to plan",
    ),
    ("SET spark.sql.session.timeZone = Asia/Tokyo; CREATE MATERIALIZED VIEW v6 AS SELECT 1 AS x", r"UTC only"),
]


def test_refused_in_sql(tmp_path: Path, spark: SparkSession) -> None:
    errors = refused(tmp_path, spark, {"v.sql": ";\n".join(text for text, _ in SQL)})
    assert [error.view for error in errors] == [f"v{i}" for i in range(len(SQL))]
    for i, ((text, says), error) in enumerate(zip(SQL, errors, strict=True)):
        assert re.search(says, str(error)), text
        assert str(error.location) == f"transformations/v.sql:{i + 1}"


def test_a_cycle_is_named(tmp_path: Path, spark: SparkSession) -> None:
    files = {
        "a.sql": "CREATE MATERIALIZED VIEW a AS SELECT * FROM b",
        "b.sql": "\nCREATE TEMPORARY VIEW b AS SELECT * FROM c",
        "c.sql": "\n\nCREATE MATERIALIZED VIEW c AS SELECT * FROM a",
    }
    with pytest.raises(ProjectError, match=r"c\.sql:3: c: a cycle: a -> b -> c -> a"):
        resolved(tmp_path, spark, files)
    with pytest.raises(ProjectError, match=r"a cycle: x -> x"):
        resolved(tmp_path / "x", spark, {"x.sql": "CREATE MATERIALIZED VIEW x AS SELECT * FROM x"})


def test_every_error_is_told_once(tmp_path: Path, spark: SparkSession) -> None:
    text = """
        CREATE MATERIALIZED VIEW reads_bad AS SELECT * FROM bad;
        CREATE MATERIALIZED VIEW bad AS SELECT rand() AS x;
        CREATE TEMPORARY VIEW lost AS SELECT * FROM nowhere;
        CREATE MATERIALIZED VIEW good AS SELECT 1 AS x;
    """
    assert [error.view for error in refused(tmp_path, spark, {"v.sql": text})] == ["bad", "lost"]


def test_what_no_one_foresaw_is_an_error_of_its_view(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
        CREATE MATERIALIZED VIEW good AS SELECT 1 AS x;
        CREATE MATERIALIZED VIEW impure AS SELECT rand() AS x, uuid() AS y;
        CREATE MATERIALIZED VIEW odd AS SELECT 7 AS x;
        CREATE MATERIALIZED VIEW reads_odd AS SELECT * FROM odd;
    """
    known = plans.mark_leaves

    def fail(*given: Any, view: str, **named: Any) -> list[str]:
        assert view != "odd", "nobody foresaw this"
        return known(*given, view=view, **named)

    monkeypatch.setattr(plans, "mark_leaves", fail)
    found, errors = resolve_with_errors(project(tmp_path, {"v.sql": text}), spark)
    assert [v.name for v in found.views] == ["good"]
    assert [(type(error), error.view) for error in errors] == [
        (UnsupportedError, "impure"),
        (UnsupportedError, "impure"),
        (OwnMistake, "odd"),
    ]
    assert re.search(r"v\.sql:\d: odd: .*a bug in Stepwell: AssertionError: nobody foresaw this", str(errors[2]))
    shown = describe(found, None, errors)
    assert shown.errors == tuple(map(str, errors)) and not shown.fingerprint
    assert all(str(error).splitlines()[0] in shown.text() for error in errors)


def test_fields_that_sparks_json_leaves_out_are_read(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT x, count(DISTINCT y) AS m, count(DISTINCT z) AS n FROM "
        "(SELECT id + 1 AS x, id AS y, id * 2 AS z, array(id) AS w FROM range(9)) LATERAL VIEW explode(w) AS v GROUP BY x % 3, x"
    )
    plan = frame._jdf.queryExecution().optimizedPlan()
    nodes = {node.kind: node for node in walk_all(read(plan))}
    assert '"projections":null' in plan.toJSON().replace(" ", "")
    copies = nodes["Expand"]["projections"]
    assert [len(copy) for copy in copies] == [len(nodes["Expand"]["output"])] * 2
    assert all(isinstance(tree, TreeNode) for copy in copies for tree in copy)
    assert all(isinstance(index, int) for index in nodes["Generate"]["unrequiredChildIndex"])


def test_two_projects_of_one_process_do_not_see_each_other(tmp_path: Path, spark: SparkSession) -> None:
    one(tmp_path / "a", spark, "SELECT dest FROM flights")
    with pytest.raises(ProjectError, match="flights is not defined"):
        resolve(project(tmp_path / "b", {"v.sql": "CREATE MATERIALIZED VIEW v AS SELECT * FROM flights"}), spark)
    assert not spark.catalog.tableExists("flights")


def test_set_is_undone_after_its_flow(tmp_path: Path, spark: SparkSession) -> None:
    text = """
        CREATE MATERIALIZED VIEW plain AS SELECT TIMESTAMP '2013-01-01 00:00:00' AS x FROM flights;
        SET spark.sql.timestampType = TIMESTAMP_NTZ;
        SET spark.sql.shuffle.partitions = 7;
        CREATE MATERIALIZED VIEW local AS SELECT TIMESTAMP '2013-01-01 00:00:00' AS x FROM flights;
    """
    found = resolved(tmp_path, spark, {"v.sql": text})
    kinds = {name: view(found, name).schema["x"].dataType.simpleString() for name in ("plain", "local")}
    assert kinds == {"plain": "timestamp", "local": "timestamp_ntz"}
    assert found.spark.conf.get("spark.sql.timestampType") == "TIMESTAMP_LTZ"
    assert any("shuffle.partitions = 7 has no effect" in note for note in found.notes["local"])
    assert "plain" not in found.notes


def test_what_has_no_effect_is_shown(tmp_path: Path, spark: SparkSession) -> None:
    text = """
        USE somewhere;
        CREATE STREAMING TABLE t PARTITIONED BY (carrier) AS SELECT carrier FROM STREAM flights;
        CREATE VIEW catalogued AS SELECT carrier FROM flights;
        CREATE MATERIALIZED VIEW m USING delta AS SELECT carrier FROM catalogued;
    """
    python = """
        from pyspark import pipelines as dp
        @dp.materialized_view(spark_conf={"spark.executor.memory": "4g"})
        def p(): return spark.table("m")
    """
    shown = describe(resolved(tmp_path, spark, {"v.sql": text, "v.py": python}))
    assert not shown.errors
    for note in (
        "note: transformations/v.sql:1: USE and SET CATALOG have no effect",
        "note: catalogued: CREATE VIEW makes no view in a catalog",
        "note: PARTITIONED BY or CLUSTER BY carrier has no effect",
        "note: format delta has no effect",
        "note: spark.executor.memory = 4g has no effect",
    ):
        assert note in shown.text(), shown.text()
    for clause, says in (
        ("PARTITIONED BY (nothing)", "stored by nothing, which is not a column"),
        ("USING jdbc", "USING jdbc is not supported"),
    ):
        wrong = text.replace("PARTITIONED BY (carrier)", clause)
        with pytest.raises(ProjectError, match=says):
            resolved(tmp_path / clause[:5], spark, {"v.sql": wrong})
