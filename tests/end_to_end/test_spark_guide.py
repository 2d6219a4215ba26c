"""The idioms of Spark's guide to declarative pipelines, and the project that `spark-pipelines init` makes, run as they are written: no topic is
named, and the views are asked with SQL.

The tables that the guide reads are in a catalog `samples`, here one over a database in memory. Spark itself cannot read such a catalog as a
stream, so streams read tables of Spark's own catalog. The guide's flows in SQL insert without BY NAME, which Spark refuses too: here they have
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.pipelines import init_cli
from pyspark.sql import SparkSession

from examples.batch import batch_answer, compare
from stepwell.inspection.query import query
from stepwell.lowering.driver import lower
from stepwell.planning.pipeline import pipeline_spec, plan_project
from stepwell.planning.resolver import resolve
from stepwell.project.loading import load_project
from tests.end_to_end.harness import Playground, Resolved
from tests.end_to_end.threads import threads

PYTHON = {
    "a_view_over_a_table_of_a_catalog": """
from pyspark import pipelines as dp
from pyspark.sql import DataFrame

@dp.materialized_view
def trips_as_they_are() -> DataFrame:
    return spark.table("samples.taxis.trips")

@dp.materialized_view(name="trips_renamed")
def another() -> DataFrame:
    return spark.read.table("samples.taxis.trips")
""",
    "a_temporary_view": """
from pyspark import pipelines as dp
from pyspark.sql import DataFrame

@dp.temporary_view
def inlined() -> DataFrame:
    return spark.table("samples.taxis.trips")
""",
    "a_streaming_table": """
from pyspark import pipelines as dp
from pyspark.sql import DataFrame

@dp.table
def streamed() -> DataFrame:
    return spark.readStream.table("spark_catalog.DATABASE.trips")

@dp.table
def streamed_files() -> DataFrame:
    return spark.readStream.format("json").schema("number INT, city STRING").load("DATA/sales")
""",
    "a_topic": """
from pyspark import pipelines as dp
from pyspark.sql import DataFrame

@dp.table
def ingested() -> DataFrame:
    return (
        spark.readStream
        .format("kafka")
        .option("kafka.bootstrap.servers", "SERVERS")
        .option("subscribe", "@orders")
        .option("startingOffsets", "earliest")
        .load()
    )
""",
    "files": """
from pyspark import pipelines as dp
from pyspark.sql import DataFrame

@dp.materialized_view
def sales() -> DataFrame:
    return spark.read.format("json").load("DATA/sales")
""",
    "tables_of_the_pipeline": """
from pyspark import pipelines as dp
from pyspark.sql import DataFrame
from pyspark.sql.functions import col, from_json

@dp.materialized_view
def orders() -> DataFrame:
    parsed = from_json(col("value").cast("string"), "customer_id STRING, order_number INT, order_datetime TIMESTAMP")
    return spark.table("ingested").select(parsed.alias("order")).select("order.*")

@dp.materialized_view
def customers() -> DataFrame:
    return (
        spark.read
        .format("csv")
        .option("header", True)
        .load("DATA/customers")
    )

@dp.materialized_view
def customer_orders() -> DataFrame:
    return (
        spark.table("orders")
        .join(spark.table("customers"), "customer_id")
        .select("customer_id", "order_number", "state", col("order_datetime").cast("date").alias("order_date"))
    )

@dp.materialized_view
def daily_orders() -> DataFrame:
    return (
        spark.table("customer_orders")
        .groupBy("state", "order_date")
        .count()
        .withColumnRenamed("count", "order_count")
    )
""",
    "tables_in_a_loop": """
from pyspark import pipelines as dp
from pyspark.sql import DataFrame
from pyspark.sql.functions import collect_list, col

@dp.temporary_view()
def nations() -> DataFrame:
    nation = spark.table("samples.world.nation")
    region = spark.table("samples.world.region")
    return (
        nation
        .join(region, nation.n_region == region.r_key)
        .select(col("n_name").alias("nation"), col("r_name").alias("region"))
    )

regions = spark.table("samples.world.region").select(collect_list("r_name")).collect()[0][0]

for region in regions:
    @dp.table(name=f"{region.lower().replace(' ', '_')}_nations")
    def nations_of_region(region_filter=region) -> DataFrame:
        return spark.table("nations").filter(f"region = '{region_filter}'")
""",
    "several_flows": """
from pyspark import pipelines as dp
from pyspark.sql import DataFrame

dp.create_streaming_table("both_coasts")

@dp.append_flow(target = "both_coasts")
def append_west() -> DataFrame:
    return spark.readStream.table("DATABASE.west")

@dp.append_flow(target = "both_coasts")
def append_east() -> DataFrame:
    return spark.readStream.table("DATABASE.east")

dp.create_sink("published", "kafka", {"topic": "@published"})

@dp.append_flow(target = "published")
def publish() -> DataFrame:
    return spark.readStream.table("both_coasts")
""",
}

SQL = {
    "views": """
CREATE MATERIALIZED VIEW sql_view
AS SELECT * FROM samples.taxis.trips;

CREATE TEMPORARY VIEW sql_inlined
AS SELECT * FROM samples.taxis.trips;

CREATE STREAMING TABLE sql_streamed
AS SELECT * FROM STREAM spark_catalog.DATABASE.trips;
""",
    "tables_of_the_pipeline": """
CREATE STREAMING TABLE sql_trips
AS SELECT * FROM STREAM sql_streamed;

CREATE MATERIALIZED VIEW sql_customers
AS SELECT * FROM csv.`DATA/customers`;

CREATE MATERIALIZED VIEW sql_daily
AS SELECT o.zip, date(timestamp(int(o.fare))) AS day, count(*) AS trips
FROM sql_trips o
INNER JOIN sql_inlined c
ON o.zip = c.zip
GROUP BY o.zip, day;
""",
    "several_flows": """
CREATE STREAMING TABLE sql_both;

CREATE FLOW sql_west
AS INSERT INTO sql_both BY NAME
SELECT * FROM STREAM(DATABASE.west);

CREATE FLOW sql_east
AS INSERT INTO sql_both BY NAME
SELECT * FROM STREAM(DATABASE.east);
""",
}

CATALOG = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
DRIVER = "org.apache.derby.iapi.jdbc.AutoloadedDriver"


class Guide:
    """The tables that the guide reads, under names of this test's own."""

    def __init__(self, play: Playground) -> None:
        self.play, self.data = play, play.folder / "data"
        self.database = play.prefix.strip("-") + "_db"
        url = f"jdbc:derby:memory:{self.database};create=true"
        self.conf = {
            "spark.sql.catalog.samples": CATALOG,
            "spark.sql.catalog.samples.url": url,
            "spark.sql.catalog.samples.driver": DRIVER,
            "spark.sql.catalog.samples.pushDownPredicate": "false",  # this database compares no texts
            "spark.sql.shuffle.partitions": "2",
        }

    def make(self) -> None:
        spark = self.play.spark.newSession()
        spark._jvm.java.lang.System.setProperty("derby.stream.error.file", str(self.play.folder / "derby.log"))
        for key, value in self.conf.items():
            spark.conf.set(key, value)
        for statement in (
            "CREATE NAMESPACE samples.taxis",
            "CREATE NAMESPACE samples.world",
            "CREATE TABLE samples.taxis.trips (fare DOUBLE, zip INT)",
            "INSERT INTO samples.taxis.trips VALUES (1.5, 3), (86400.0, 3), (7.25, NULL)",
            "CREATE TABLE samples.world.region (r_key INT, r_name STRING)",
            "INSERT INTO samples.world.region VALUES (1, 'ASIA'), (2, 'MIDDLE EAST')",
            "CREATE TABLE samples.world.nation (n_name STRING, n_region INT)",
            "INSERT INTO samples.world.nation VALUES ('JAPAN', 1), ('INDIA', 1), ('OMAN', 2), ('PERU', 3)",
            f"CREATE DATABASE {self.database} LOCATION '{self.play.folder}/warehouse'",
            f"CREATE TABLE {self.database}.trips USING parquet AS SELECT * FROM samples.taxis.trips",
            f"CREATE TABLE {self.database}.west USING parquet AS SELECT 1 AS id, 'LA' AS city",
            f"CREATE TABLE {self.database}.east USING orc AS SELECT 2 AS id, 'NY' AS city",
        ):
            spark.sql(statement)
        (self.data / "customers").mkdir(parents=True)
        (self.data / "customers" / "a.csv").write_text("customer_id,state\n1,CA\n2,NY\n3,\n")
        (self.data / "sales").mkdir()
        (self.data / "sales" / "a.json").write_text('{"number": 1, "city": "LA"}\n{"number": 2}\n')

    def drop(self) -> None:
        self.play.spark.sql(f"DROP DATABASE IF EXISTS {self.database} CASCADE")

    def filled(self, text: str) -> str:
        text = text.replace("DATABASE", self.database).replace("DATA", str(self.data))
        return text.replace("SERVERS", self.play.servers).replace("@dp.", "@@dp.")


@pytest.fixture
def guide(play: Playground) -> Iterator[Guide]:
    made = Guide(play)
    made.make()
    yield made
    made.drop()


@pytest.mark.soak
def test_the_idioms_of_sparks_guide_run_as_they_are_written(play: Playground, guide: Guide) -> None:
    play.topic("orders", 2)
    orders = [
        {"customer_id": str(n % 4), "order_number": n, "order_datetime": f"2024-01-0{n % 3 + 1}T10:00:00Z"}
        for n in range(9)
    ]
    play.send("orders", orders[:5])
    play.send("orders", orders[5:], 1)
    files = {f"{name}.py": guide.filled(text) for name, text in PYTHON.items()}
    files |= {f"{name}.sql": guide.filled(text) for name, text in SQL.items()}
    resolved = play.resolve(files, guide.conf)
    play.run(resolved, threads())
    rows = check_kept(play, resolved)
    assert rows.pop("published") == 2 and len(rows) == 19 and 0 not in rows.values(), rows
    assert rows["middle_east_nations"] == 1 and rows["asia_nations"] == rows["both_coasts"] == rows["sql_both"] == 2


def check_kept(play: Playground, resolved: Resolved) -> dict[str, int]:
    """Every view that is kept is Spark's batch answer, and every other one is published so; the number of rows by view."""
    sources = {topic for source in resolved.project.sources for topic in source.topics}
    expected = batch_answer(resolved.project, {t: [m.as_input for m in play.read(t, prefixed=False)] for t in sources})
    circuit, found = resolved.spec.circuit, {}
    for view in resolved.project.views:
        if view.output is None:
            answer = query(resolved.project, circuit, f"SELECT * FROM {view.name}")
            compared = compare(view.name, answer.rows, expected[view.name])
            assert compared.equal, str(compared)
            found[view.name] = compared.rows
    return found | play.check(resolved)


@pytest.mark.long
def test_the_project_that_spark_makes_runs_as_it_is(
    spark: SparkSession, play: Playground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the broker's address is added, by the environment."""
    monkeypatch.chdir(play.folder)
    monkeypatch.setenv("STEPWELL_KAFKA_BOOTSTRAP_SERVERS", play.servers)
    name = play.prefix + "made_by_spark"
    init_cli.init(name)
    project = resolve(load_project(Path(name) / "spark-pipeline.yml"), spark)
    resolved = Resolved(project, pipeline_spec(project.project, plan_project(project, lower(project))))
    play.run(resolved, threads())
    assert check_kept(play, resolved) == {"example_python_materialized_view": 10, "example_sql_materialized_view": 5}
