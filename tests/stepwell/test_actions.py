# ruff: noqa: E501 (tables of cases read better in long lines)
"""What runs a query, writes or changes the session while definitions are read is refused with view, file and line; what only describes is free."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from stepwell.errors import ProjectErrors
from stepwell.planning.actions import _RUNNING
from stepwell.planning.resolver import resolve, resolve_with_errors
from tests.stepwell.folder import project

HEAD = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F
def topic(): return spark.read.format("kafka").option("subscribe", "t").load()
def table(): return spark.read.table("s")
def files(): return spark.read.schema("k STRING, n INT").json("DATA")
"""
SOURCE = "CREATE STREAMING TABLE s (k STRING, n INT) USING kafka TBLPROPERTIES ('subscribe' = 't');"

RUNNING = {
    "df.count()": "count runs a query.*F.count",
    "df.first()": "first runs a query.*limit",
    "df.head()": "head runs a query",
    "df.head(3)": "head runs a query",
    "df.take(1)": "take runs a query",
    "df.tail(1)": "tail runs a query",
    "df.collect()": "collect runs a query",
    "df.distinct().collect()": "collect runs a query",
    "df.toLocalIterator()": "toLocalIterator runs",
    "df.toPandas()": "toPandas runs",
    "df.toArrow()": "toArrow runs",
    "df.show()": "show runs a query.*stepwell query",
    "df.isEmpty()": "isEmpty runs a query.*EXISTS",
    "df.foreach(print)": "foreach runs",
    "df.foreachPartition(print)": "foreachPartition runs",
    "df.toJSON()": "toJSON runs",
    "df.rdd": "rdd runs",
    "df.rdd.map(len).collect()": "rdd runs",
    "df.stat.approxQuantile('n', [0.5], 0.1)": "approxQuantile runs.*percentile_approx",
    "df.approxQuantile('n', [0.5], 0.1)": "approxQuantile runs",
    "df.corr('n', 'n')": "corr runs",
    "df.stat.cov('n', 'n')": "cov runs",
    "df.crosstab('k', 'n')": "crosstab runs",
    "df.transpose()": "transpose runs",
    "df.pandas_api()": "pandas_api runs",
    "df.checkpoint()": "checkpoint runs",
    "df.localCheckpoint()": "localCheckpoint runs",
    "df.groupBy('k').pivot('n').count()": r"pivot\('n'\) without values runs a query.*\n.*Name the values",
    "df.groupBy('k').pivot('n', None).sum()": r"pivot\('n'\) without values",
    "[row.k for row in df.select('k').collect()]": "collect runs",
}  # fmt: skip
"""Over `df`, which is a table of the project, a topic, or files."""

ALWAYS = {
    "df.cache()": "cache keeps rows in Spark.*\n.*Leave it out",
    "df.persist()": "persist keeps rows",
    "df.unpersist()": "unpersist keeps rows",
    "df.write.saveAsTable('WRITTEN')": "write writes outside of the pipeline.*\n.*create_sink",
    "df.write.mode('append').parquet('OUT')": "write writes outside",
    "df.write.insertInto('WRITTEN')": "write writes outside",
    "df.writeTo('WRITTEN').create()": "writeTo writes outside",
    "df.writeStream.start('OUT')": "writeStream writes outside",
    "df.createOrReplaceTempView('x')": "createOrReplaceTempView changes the session.*\n.*@dp.temporary_view",
    "df.createTempView('x')": "createTempView changes",
    "df.createGlobalTempView('x')": "createGlobalTempView changes",
    "spark.sql('CREATE TABLE WRITTEN (a INT)')": "spark.sql runs CreateTable",
    "spark.sql('CREATE TABLE WRITTEN AS SELECT 1 AS a')": "spark.sql runs CreateTableAsSelect",
    "spark.sql('INSERT INTO WRITTEN SELECT 1')": "spark.sql runs InsertInto",
    "spark.sql('WITH q AS (SELECT 1) INSERT INTO WRITTEN SELECT * FROM q')": "spark.sql runs InsertInto",
    "spark.sql('FROM q INSERT INTO WRITTEN SELECT 1 INSERT INTO WRITTEN SELECT 2')": "spark.sql runs InsertInto",
    "spark.sql('INSERT INTO WRITTEN SELECT * FROM {d}', d=df)": "spark.sql runs InsertInto",
    "spark.sql(\"INSERT OVERWRITE DIRECTORY 'OUT' USING csv SELECT 1\")": "spark.sql runs InsertIntoDir",
    "spark.sql('DROP TABLE IF EXISTS WRITTEN')": "spark.sql runs DropTable",
    "spark.sql('MERGE INTO WRITTEN USING q ON a = b WHEN MATCHED THEN DELETE')": "spark.sql runs MergeIntoTable",
    "spark.sql('CREATE TEMPORARY VIEW x AS SELECT 1')": "spark.sql runs CreateViewCommand",
    "spark.sql('CACHE TABLE x')": "spark.sql runs CacheTable",
    "spark.sql('SET spark.sql.ansi.enabled = false')": "spark.sql runs SetCommand.*\n.*spark-pipeline.yml",
    "spark.sql('BEGIN SELECT 1; END')": "spark.sql runs CompoundBody",
    "spark.sql(\"EXECUTE IMMEDIATE 'DROP TABLE x'\")": "spark.sql runs UnresolvedExecuteImmediate",
    "spark.conf.set('spark.sql.ansi.enabled', 'false')": "set changes the session.*\n.*configuration:",
    "spark.catalog.createTable('WRITTEN', path='OUT')": "createTable changes what Spark has",
    "spark.catalog.setCurrentDatabase('x')": "setCurrentDatabase changes",
    "spark.catalog.dropTempView('s')": "dropTempView changes",
    "spark.stop()": "stop ends Spark",
    "spark.sparkContext.stop()": "stop ends Spark",
    "spark.sparkContext.parallelize([1]).saveAsTextFile('OUT')": "saveAsTextFile writes outside",
}  # fmt: skip


def names(texts: list[str], places: dict[str, str]) -> list[str]:
    for old, new in places.items():
        texts = [text.replace(old, new) for text in texts]
    return texts


def places(root: Path) -> dict[str, str]:
    (root / "data").mkdir()
    (root / "data" / "a.json").write_text('{"k": "a", "n": 1}\n{"k": "b", "n": 2}\n')
    return {"DATA": str(root / "data"), "OUT": str(root / "out"), "WRITTEN": "default.written_by_a_dry_run"}


@pytest.mark.parametrize(
    "over", ["table()", "topic().withColumnRenamed('key', 'k').withColumn('n', F.col('offset'))", "files()"]
)
def test_in_the_function_of_a_view_nothing_runs(tmp_path: Path, spark: SparkSession, over: str) -> None:
    cases = {**RUNNING, **ALWAYS} if over == "table()" else RUNNING
    views = [
        f"@dp.materialized_view\ndef v{i}():\n    df = {over}\n    found = {text}\n    return df\n"
        for i, text in enumerate(cases)
    ]
    head, *files = names([HEAD, *views], places(tmp_path))
    found = project(tmp_path, {"a.sql": SOURCE, **{f"{i:03}.py": head + text for i, text in enumerate(files)}})
    _, errors = resolve_with_errors(found, spark)
    texts = [str(error) for error in errors]
    assert len(texts) == len(cases), texts
    line = HEAD.count("\n") + 4
    for number, ((case, says), text) in enumerate(zip(cases.items(), texts, strict=True)):
        assert re.match(rf"transformations/{number:03}\.py:{line}: v{number}: ", text), (case, text)
        assert re.search(says, text, re.DOTALL), (case, text)
    assert not (tmp_path / "out").exists() and not spark.catalog.tableExists("default.written_by_a_dry_run")


@pytest.mark.parametrize("over", ["topic()", "files()"])
def test_beside_the_functions_runs_only_what_has_its_rows(tmp_path: Path, spark: SparkSession, over: str) -> None:
    """A table of the project cannot be read there at all."""
    cases = {"df.count()": "count runs", "df.rdd": "rdd runs", "df.groupBy('k').pivot('k')": "pivot.* without values"}
    cases = (cases if over == "topic()" else {}) | ALWAYS
    files = names(
        [
            f"{HEAD}df = {over}.selectExpr('CAST({'key' if over == 'topic()' else 'k'} AS STRING) AS k')\n{text}\n"
            for text in cases
        ],
        places(tmp_path),
    )
    with pytest.raises(ProjectErrors) as e:
        resolve_with_errors(project(tmp_path, {f"{i:03}.py": text for i, text in enumerate(files)}), spark)
    texts = [str(error) for error in e.value.errors]
    assert len(texts) == len(cases), texts
    for number, ((case, says), text) in enumerate(zip(cases.items(), texts, strict=True)):
        assert text.startswith(f"transformations/{number:03}.py:{HEAD.count(chr(10)) + 2}: "), (case, text)
        assert re.search(says, text, re.DOTALL), (case, text)
    assert not (tmp_path / "out").exists() and not spark.catalog.tableExists("default.written_by_a_dry_run")


@pytest.mark.long
def test_what_only_describes_and_what_has_its_rows_is_free(tmp_path: Path, spark: SparkSession) -> None:
    head, text = names([HEAD, """
names = [row.k for row in files().orderBy("k").collect()]
total = files().count() + spark.range(3).count()
assert names == ["a", "b"] and total == 5 and files().groupBy().pivot("k").count().columns == ["a", "b"]
assert spark.sql("SHOW TABLES").collect() is not None and spark.conf.get("spark.sql.ansi.enabled") == "true"
spark.udf.register("twice", lambda n: 2 * n, "int")

@dp.materialized_view
def v():
    df = table()
    assert df.columns == ["k", "n"] and df.schema.names and df.dtypes and not df.isStreaming
    df.printSchema()
    df.explain()
    counted = df.join(df.agg(F.count("*").alias("c")), how="cross").describe
    return spark.sql("SELECT k, c FROM (SELECT k, count(*) AS c FROM s GROUP BY k)")

@dp.materialized_view
def w(): return table().groupBy("k").pivot("n", [1, 2]).agg(F.sum("n"))

@dp.materialized_view
def x(): return files().join(table(), "k").select("k")
"""], places(tmp_path))  # fmt: skip
    found = resolve(project(tmp_path, {"a.sql": SOURCE, "b.py": head + text}), spark)
    assert [view.name for view in found.views] == ["v", "w", "x"] and len(found.tables) == 1
    assert spark.range(2).count() == 2, "the watch has ended"
    spark.range(1).createOrReplaceTempView("after")
    spark.catalog.dropTempView("after")


def test_a_helper_of_the_project_is_named_by_the_line_that_runs(tmp_path: Path, spark: SparkSession) -> None:
    found = project(tmp_path, {"a.sql": SOURCE, "b.py": """
        from pyspark import pipelines as dp
        def helper(df):
            return df.count()
        @dp.materialized_view
        def v():
            return spark.range(helper(spark.table("s")))
        """})  # fmt: skip
    _, errors = resolve_with_errors(found, spark)
    assert [str(error).split("\n")[0] for error in errors] == [
        "transformations/b.py:3: v: count runs a query, and there are no rows while a definition is read"
    ]


def test_every_method_that_is_watched_is_one_of_sparks() -> None:
    missing = [name for name in _RUNNING if not hasattr(DataFrame, name)]
    assert not missing
