"""How files and tables of catalogs in definitions become sources: what is one source, what is whole, and what is refused."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.model.rows import Source
from engine.rows import zset
from stepwell.catalyst.tree import walk_all
from stepwell.errors import ProjectError, UnsupportedError
from stepwell.inspection.dry_run import describe
from stepwell.lowering.driver import lower
from stepwell.planning.batch_tables import rows_reader
from stepwell.planning.pipeline import plan_project
from stepwell.planning.plans import ResolvedProject
from stepwell.planning.resolver import resolve
from stepwell.project.loading import load_project
from tests.engine.in_process import InProcess
from tests.engine.test_filling import contents_of
from tests.stepwell.folder import SPEC, write

IMPORTS = "from pyspark import pipelines as dp\nfrom pyspark.sql import functions as F\n"


@pytest.fixture
def database(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    name = f"db_{abs(hash(tmp_path))}"
    spark.sql(f"CREATE DATABASE {name} LOCATION '{tmp_path}/warehouse'")
    yield name
    spark.sql(f"DROP DATABASE {name} CASCADE")


def resolved(folder: Path, spark: SparkSession, files: dict[str, str], spec: str = SPEC) -> ResolvedProject:
    texts = {name: IMPORTS * name.endswith(".py") + text.replace("DATA", str(folder)) for name, text in files.items()}
    return resolve(load_project(write(folder, texts, spec)), spark)


def make_files(folder: Path, spark: SparkSession) -> None:
    rows = spark.range(3).selectExpr("id", "CAST(id AS STRING) AS text", "named_struct('a', id, 'b', id) AS part")
    rows.write.partitionBy("text").parquet(str(folder / "files"))
    (folder / "plain.csv").write_text("id,text\n1,a\n")
    (folder / "no_columns.json").write_text("{}\n{}\n")


def test_the_optimiser_does_not_look_into_a_table(tmp_path: Path, spark: SparkSession) -> None:
    """Neither filters of partitions nor nested columns, nor anything in a subquery. All of them read one source, which is whole."""
    make_files(tmp_path, spark)
    text = """
@dp.materialized_view
def v(): return spark.read.parquet("DATA/files").where("text = '1' AND id > 0").select("part.a")
@dp.table
def w(): return spark.readStream.schema("id BIGINT, part STRUCT<a: BIGINT, b: BIGINT>, text STRING").parquet("DATA/files")
"""
    sql = "CREATE MATERIALIZED VIEW u AS SELECT (SELECT max(id) FROM parquet.`DATA/files`) AS m FROM parquet.`DATA/files` WHERE text IN ('2');"
    project = resolved(tmp_path, spark, {"a.py": text, "b.sql": sql})
    of_views = {view.name: set(view.reads) for view in project.views}
    assert of_views["v"] == of_views["u"] and len(of_views["v"]) == 1, of_views
    (handle,) = of_views["v"]
    source = project.tables[handle].spec
    assert handle.startswith(f"parquet file:{tmp_path}/files #") and source.schema.names == ["id", "part", "text"]
    assert source.topics[0].startswith("stepwell.test.table.") and len(source.topics[0]) < 100
    assert "InMemoryRelation" in [node.kind for view in project.views for node in walk_all(view.flows[0].tree)]
    shown = describe(project).text()
    assert f"parquet file:{tmp_path}/files is read once, when the pipeline gets it" in shown
    lower(project)


@pytest.mark.long
def test_what_is_read_alike_is_one_source(tmp_path: Path, spark: SparkSession) -> None:
    make_files(tmp_path, spark)
    readers = [
        'spark.read.csv("DATA/plain.csv", header=True)',
        'spark.read.format("csv").option("header", "true").load("DATA/plain.csv")',
        'spark.read.option("header", True).option("fs.some.key", "secret").csv("DATA/plain.csv")',
        'spark.read.csv("DATA/plain.csv")',
        'spark.read.csv("DATA/plain.csv", header=True, schema="id INT, text STRING")',
        'spark.read.csv("DATA/plain.csv", header=True).select("*", "_metadata.file_name")',
    ]
    text = "".join(f"@dp.materialized_view\ndef v{n}(): return {reader}\n" for n, reader in enumerate(readers))
    project = resolved(tmp_path, spark, {"a.py": text})
    handles = [view.reads[0] for view in sorted(project.views, key=lambda view: view.name)]
    assert handles[0] == handles[1] == handles[2] and len(set(handles)) == 4
    assert not any("secret" in handle for handle in handles)


def test_columns_may_get_other_names(tmp_path: Path, spark: SparkSession) -> None:
    """Spark takes a projection that only renames for the table below it, and puts one leaf in the place of both."""
    make_files(tmp_path, spark)
    csv = "csv.`DATA/plain.csv`"
    queries = (
        f"SELECT _c0 AS id, _c1 AS text FROM {csv}",
        f"SELECT a._c0 AS x, b.q FROM {csv} a JOIN (SELECT _c0 AS id, _c1 AS q FROM {csv}) b ON a._c0 = b.id",
        f"SELECT * FROM (SELECT _c0 AS a, _c1 AS b FROM {csv}) UNION ALL SELECT * FROM {csv}",
    )
    sql = "".join(f"CREATE MATERIALIZED VIEW v{n} AS {query};\n" for n, query in enumerate(queries))
    project = resolved(tmp_path, spark, {"a.sql": sql})
    assert len(project.tables) == 1
    for view in project.views:
        assert view.reads and set(view.reads) == project.tables.keys()
    lower(project)


def test_it_is_known_whether_files_are_other_ones(tmp_path: Path, spark: SparkSession) -> None:
    """Their paths, sizes and times decide, and not when somebody has read them."""
    folder = tmp_path / "csv"
    folder.mkdir()
    one, two = folder / "one.csv", folder / "two; length=7.csv"
    files = {"a.sql": f"CREATE MATERIALIZED VIEW v AS SELECT * FROM csv.`{folder}`;"}

    def seen() -> str:
        project = resolved(tmp_path / "project", spark, files)
        (source,) = (source for source in project.sources if source.format == "table")
        assert source.files
        (planned,) = plan_project(project, lower(project)).inputs
        assert planned.files == source.files and planned == replace(planned, files="")
        return source.files

    one.write_text("x\n")
    first = seen()
    one.read_text()
    os.utime(one, ns=(7, one.stat().st_mtime_ns))
    assert seen() == first
    digests = {first}
    for change in (
        lambda: one.write_text("yy\n"),
        lambda: two.write_text("x\n"),
        lambda: os.utime(two, (5, 5)),
        lambda: one.unlink(),
    ):
        change()
        digests.add(seen())
    assert len(digests) == 5


def test_a_table_of_the_catalog_has_the_files_that_are_there_now(
    tmp_path: Path, spark: SparkSession, database: str
) -> None:
    """A session keeps which files a table has, and somebody else has written more. Each planning has a session of its own."""
    folder = tmp_path / "kinds"
    folder.mkdir()
    spark.sql(f"CREATE TABLE {database}.kinds (k STRING) USING csv LOCATION '{folder}'")
    files = {"a.sql": f"CREATE MATERIALIZED VIEW v AS SELECT * FROM {database}.kinds;"}
    for count in (1, 2, 3):
        (folder / f"{count}.csv").write_text("x\n")
        project = resolved(tmp_path / "project", spark, files)
        (handle,) = project.tables
        assert sum(batch.num_rows for batch in rows_reader(project.tables)(handle)) == count


@pytest.mark.long
def test_a_name_that_the_project_defines_is_the_projects(tmp_path: Path, spark: SparkSession, database: str) -> None:
    """Also if the catalog has a table or a view of that name, as Spark's own pipelines leave them. Other names are looked up in the catalog."""
    for name in ("mine", "theirs"):
        spark.sql(f"CREATE TABLE {database}.{name} USING parquet AS SELECT 1 AS x")
    spark.sql(f"CREATE VIEW {database}.seen AS SELECT * FROM {database}.theirs")
    text = """
@dp.materialized_view
def a_reader(): return spark.table("mine").union(spark.read.table("theirs")).union(spark.table("seen"))
@dp.table
def stream(): return spark.readStream.table("mine")
"""
    sql = """CREATE MATERIALIZED VIEW z AS SELECT x FROM mine;
CREATE MATERIALIZED VIEW mine AS SELECT 2 AS x;
CREATE TEMPORARY VIEW seen AS SELECT 3 AS x;"""
    spec = SPEC + f"catalog: spark_catalog\ndatabase: {database}\n"
    project = resolved(tmp_path, spark, {"a.py": text, "b.sql": sql}, spec)
    theirs = f"table spark_catalog.{database}.theirs"
    reads = {view.name: set(view.reads) for view in project.views}
    assert reads["a_reader"] == {"mine", theirs} and reads["stream"] == {"mine"}
    assert [source.handle for source in project.sources] == [theirs]
    again = sql.replace("FROM mine", f"FROM {database}.mine")
    with pytest.raises(ProjectError, match=r"b\.sql:1: z: mine cannot be read here\n.*write mine without catalog"):
        resolved(tmp_path, spark, {"a.py": text, "b.sql": again}, spec)


def test_a_catalog_that_spark_does_not_have_is_noted(tmp_path: Path, spark: SparkSession) -> None:
    spec = SPEC + "catalog: my_catalog\ndatabase: my_db\n"
    project = resolved(tmp_path, spark, {"a.sql": "CREATE MATERIALIZED VIEW v AS SELECT 1 AS x"}, spec)
    notes = project.notes[""]
    assert len(notes) == 2 and "catalog my_catalog has no effect, because Spark does not have it" in notes[0]
    assert "database my_db has no effect" in notes[1]


REFUSED = {
    'spark.readStream.format("rate").load()': "reads a stream that Stepwell does not read (rate",
    'spark.read.jdbc("jdbc:derby:memory:x;create=true", "(SELECT 1 AS x FROM sysibm.sysdummy1) t")': "does not read (JDBCRelation)",
    'spark.read.format("iceberg").load("DATA/x")': "DATA_SOURCE_NOT_FOUND",
    'spark.read.parquet("DATA/nothing")': "PATH_NOT_FOUND",
    'spark.read.json("DATA/plain.csv", schema="id VARIANT")': "column id of json",
    'spark.read.schema("id INT, y INTERVAL MONTH").parquet("DATA/files")': "has the type INTERVAL MONTH, which is not supported in a table that",
    'spark.read.schema("l ARRAY<STRUCT<y: INTERVAL YEAR>>").parquet("DATA/files")': "column l of parquet",
    'spark.read.json("DATA/no_columns.json")': "no_columns.json has no columns",
    'spark.readStream.schema("id INT").parquet("DATA/files").select("id", "_metadata.file_size")': "the query reads _metadata of a stream",
    'spark.table("no_catalog.db.t")': "no_catalog.db.t is not defined in this project, and Spark has no catalog no_catalog",
}


@pytest.mark.parametrize("reader", REFUSED)
def test_what_is_refused_names_file_and_line(tmp_path: Path, spark: SparkSession, reader: str) -> None:
    make_files(tmp_path, spark)
    spark._jvm.java.lang.System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))
    with pytest.raises(ProjectError) as caught:
        resolved(tmp_path, spark, {"a.py": f"@dp.table\ndef v():\n    return {reader}\n"})
    assert str(caught.value).startswith("transformations/a.py:") and REFUSED[reader] in str(caught.value)


def test_a_view_that_is_no_stream_reads_none(tmp_path: Path, spark: SparkSession) -> None:
    make_files(tmp_path, spark)
    text = '@dp.materialized_view\ndef v(): return spark.readStream.text("DATA/plain.csv")'
    with pytest.raises(ProjectError, match="are read as a stream, and this is not a streaming flow") as caught:
        resolved(tmp_path, spark, {"a.py": text})
    assert not isinstance(caught.value, UnsupportedError)


READS_METADATA = "SELECT id, _metadata.file_name LIKE '%parquet' AS m FROM mine"


@pytest.mark.parametrize(
    "queries",
    [
        {"a": "SELECT * FROM mine", "b": READS_METADATA},
        {"a": READS_METADATA, "b": "SELECT * FROM mine"},
        {"a": f"SELECT x.text, y.m FROM mine x JOIN ({READS_METADATA}) y ON x.id = y.id"},
    ],
    ids=["behind it", "before it", "in one view"],
)
def test_a_table_of_a_catalog_may_be_read_with_its_metadata_and_without(
    tmp_path: Path, spark: SparkSession, database: str, queries: dict[str, str]
) -> None:
    spark.sql(f"CREATE TABLE {database}.mine USING parquet AS SELECT id, CAST(id AS STRING) AS text FROM range(3)")
    views = {name: query.replace("mine", f"{database}.mine") for name, query in queries.items()}
    assert_answered(tmp_path, spark, views)


def test_a_char_of_a_table_of_a_catalog_is_padded(tmp_path: Path, spark: SparkSession, database: str) -> None:
    spark.sql(f"CREATE TABLE {database}.mine (c CHAR(4), v VARCHAR(3), n INT) USING parquet LOCATION '{tmp_path}/mine'")
    rows = "VALUES ('a', 'bb', 1), ('a   ', 'b ', 2), ('höhe', NULL, 3), (NULL, '', 4), ('🙂', 'x', 5), ('longer', 'x', 6) AS t(c, v, n)"
    spark.sql(f"SELECT * FROM {rows}").write.mode("append").parquet(str(tmp_path / "mine"))
    columns = "n, c, length(c) AS long, c = 'a' AS is_a, v, length(v) AS v_long"
    views = {
        "plain": f"SELECT {columns} FROM {database}.mine",
        "pairs": f"SELECT x.n, y.n AS m FROM {database}.mine x JOIN {database}.mine y ON x.c = y.c",
        "groups": f"SELECT c, count(*) AS rows FROM {database}.mine GROUP BY c",
    }
    assert_answered(tmp_path, spark, views)


def assert_answered(folder: Path, spark: SparkSession, views: dict[str, str]) -> None:
    """Runs one step that reads the tables, and compares each view with what Spark answers."""
    text = "".join(f"CREATE MATERIALIZED VIEW {name} AS {query};\n" for name, query in views.items())
    project = resolved(folder / "project", spark, {"views.sql": text})
    circuit, read = lower(project), rows_reader(project.tables)
    given = {}
    for node in circuit.nodes:
        if isinstance(node, Source):
            rows = pa.Table.from_batches(read(node.handle))
            columns = [rows.column(place).cast(kind) for place, kind in enumerate(node.types)]
            given[node.handle] = zset.build(columns, np.ones(rows.num_rows, np.int64))
    machine = InProcess(circuit, 2)
    machine.step(given)
    assert contents_of(machine) == {
        name: Counter(tuple(row) for row in spark.sql(query).collect()) for name, query in views.items()
    }
