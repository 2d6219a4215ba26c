"""Queries over kept views give what Spark's batch answer gives, as of one checkpoint of all workers."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import IO

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.serializers import ArrowCollectSerializer
from pyspark.sql.types import StructType

from base.term import Term
from base.text.months import MONTH
from base.text.variants import FIELD, VARIANT
from base.version import VersionId
from coordinator.goal import Goal
from coordinator.pipeline import Pipeline
from coordinator.requests import Requests
from coordinator.starting.errors import CircuitChanged
from coordinator.starting.workers.circuit_file import read_owner
from coordinator.status import StatusBoard
from engine.model.circuit import Circuit
from engine.resident.spark_launcher import spark_cluster
from examples.batch import TopicMessage, batch_answer, compare
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics
from stepwell.inspection import query as queries
from stepwell.inspection import view_contents
from stepwell.inspection.interval_rows import frame_of
from stepwell.inspection.query import query
from stepwell.inspection.query_errors import NoState, QueryError
from stepwell.inspection.query_rows import collect_rows
from stepwell.lowering.driver import lower
from stepwell.planning.pipeline import pipeline_spec, plan_project
from stepwell.planning.plans import ResolvedProject
from stepwell.planning.resolver import resolve
from stepwell.project.loading import load_project
from storage.database import Database
from storage.errors import NoDatabase
from tests.conftest import Broker
from tests.stepwell.folder import SPEC, write

SQL = """
CREATE STREAMING TABLE bids (item STRING, price DECIMAL(10, 2), at TIMESTAMP, tags ARRAY<STRING>, raw BINARY)
  USING kafka TBLPROPERTIES ('subscribe' = '@bids', 'format' = 'json');
CREATE MATERIALIZED VIEW all_bids AS SELECT * FROM bids;
CREATE MATERIALIZED VIEW best AS SELECT item, max(price) AS price, count(*) AS n FROM bids GROUP BY item;
CREATE MATERIALIZED VIEW together AS SELECT count(*) AS n, avg(price) AS mean FROM bids;
CREATE MATERIALIZED VIEW passed_on TBLPROPERTIES ('topic' = '@passed', 'mode' = 'append') AS SELECT item FROM bids;
"""


class Auction:
    def __init__(self, spark: SparkSession, broker: Broker, folder: Path, prefix: str, sql: str = SQL) -> None:
        flags = {"kafka.bootstrap.servers": broker.bootstrap_servers, "stepwell.workers": "2"}
        spec = write(folder, {"a.sql": sql.replace("@", prefix)}, SPEC.replace("name: test", f"name: {prefix}"))
        self.topic, self.servers, self.spark = f"{prefix}bids", broker.bootstrap_servers, spark
        self.messages: list[TopicMessage] = []
        self.project: ResolvedProject = resolve(load_project(spec, flags), spark)
        self.circuit: Circuit = lower(self.project)
        Topics(KafkaSettings.parse({"bootstrap.servers": self.servers})).ensure(self.topic, 1)

    def send(self, *rows: dict[str, object]) -> None:
        producer = Producer({"bootstrap.servers": self.servers})
        for row in rows:
            value = json.dumps(row).encode()
            producer.produce(self.topic, value)
            self.messages.append(TopicMessage(0, len(self.messages), None, value))
        producer.flush()

    def run(self) -> None:
        spec = pipeline_spec(self.project.project, plan_project(self.project, self.circuit))
        Pipeline(spec, spark_cluster(self.spark.sparkContext, spec.name), Requests(), StatusBoard(spec.name)).run(
            goal=Goal.READ_AVAILABLE
        )


@pytest.fixture
def auction(spark: SparkSession, broker: Broker, tmp_path: Path, topic_prefix: str) -> Auction:
    return Auction(spark, broker, tmp_path, topic_prefix)


ROW: dict[str, object] = {
    "item": "vase",
    "price": "12.50",
    "at": "2026-01-02T03:04:05.678Z",
    "tags": ["a", None],
    "raw": "AAE=",
}


def test_content_is_the_batch_answer_and_names_its_step(auction: Auction) -> None:
    with pytest.raises(NoState, match="there is no state"):
        query(auction.project, auction.circuit, "SELECT * FROM best")
    auction.send(*[ROW] * 3, *({"item": f"i{n}", "price": n} for n in range(50)), {})
    auction.run()
    auction.send({"item": "vase", "price": 99})
    auction.run()
    expected = batch_answer(auction.project, {auction.topic: auction.messages})
    for view in ("all_bids", "best", "together"):
        answer = query(auction.project, auction.circuit, f"SELECT * FROM {view.upper()}")
        assert answer.step == 1
        assert compare(view, answer.rows, expected[view]).equal
    joined = "WITH b AS (SELECT * FROM best) SELECT sum(n) AS n FROM b WHERE item IN (SELECT item FROM all_bids)"
    assert query(auction.project, auction.circuit, joined).rows.collect() == [(54,)]


NUMBERED = """
CREATE STREAMING TABLE `1src` (item STRING, price INT)
  USING kafka TBLPROPERTIES ('subscribe' = '@bids', 'format' = 'json');
CREATE TEMPORARY VIEW `odd name` AS SELECT item, price FROM `1src` WHERE price > 2;
CREATE MATERIALIZED VIEW `2024` AS SELECT item, sum(price) AS price FROM `odd name` GROUP BY item;
CREATE MATERIALIZED VIEW `1e5` AS SELECT max(price) AS price, count(*) AS n FROM `2024`;
CREATE MATERIALIZED VIEW `7passed` TBLPROPERTIES ('topic' = '@passed', 'mode' = 'append') AS SELECT item FROM `1src`;
"""


def test_names_that_need_backticks_are_read_and_asked(
    spark: SparkSession, broker: Broker, tmp_path: Path, topic_prefix: str
) -> None:
    auction = Auction(spark, broker, tmp_path, topic_prefix, NUMBERED)
    auction.send(*({"item": f"i{n % 3}", "price": n} for n in range(20)))
    auction.run()
    expected = batch_answer(auction.project, {auction.topic: auction.messages})
    for view in ("2024", "1e5"):
        try:
            answer = query(auction.project, auction.circuit, f"SELECT * FROM `{view}`")
        except AnalysisException as refused:
            pytest.fail(f"{view} cannot be asked: {refused}")
        assert compare(view, answer.rows, expected[view]).equal
    for name, advised in (
        ("1src", "all_1src AS SELECT * FROM `1src`"),
        ("7passed", "`7passed_kept` AS SELECT * FROM `7passed`"),
    ):
        with pytest.raises(QueryError, match=re.escape(f"CREATE MATERIALIZED VIEW {advised}.")):
            query(auction.project, auction.circuit, f"SELECT * FROM `{name}`")


@pytest.mark.long
def test_what_cannot_be_asked_says_what_to_do(auction: Auction) -> None:
    auction.run()
    for sql, message in {
        "SELECT * FROM passed_on": "passed_on is not kept: it is published in mode append",
        "SELECT * FROM bids": "bids is a source",
        "SELECT * FROM bestt": "Did you mean best",
        "SELECT nothing FROM best": "best has item, price, n",
        "SELEC 1": "PARSE_SYNTAX_ERROR",
        "CREATE TABLE x (a INT) USING parquet": "only a query",
        "DROP VIEW best": "only a query",
        "INSERT INTO best VALUES ('a', 1, 2)": "only a query",
    }.items():
        with pytest.raises(QueryError, match=message):
            query(auction.project, auction.circuit, sql)
    Database.close_all()
    databases = auction.project.project.databases
    shutil.rmtree(databases.databases / databases.names()[0])
    with pytest.raises(NoDatabase):
        query(auction.project, auction.circuit, "SELECT * FROM best")
    shutil.rmtree(databases.databases)
    with pytest.raises(NoState, match=r"(?s)the last run ended before it had made one.*`stepwell run` makes the state"):
        query(auction.project, auction.circuit, "SELECT * FROM best")
    databases.databases.mkdir()
    for lost in (auction.project.project.databases.databases, auction.project.project.state_folder):
        shutil.rmtree(lost)
        with pytest.raises(NoState, match=r"(?s)does not read the checkpoint store, file:///there.*`stepwell run`"):
            query(with_store(auction.project), auction.circuit, "SELECT * FROM best")


def with_store(resolved: ResolvedProject) -> ResolvedProject:
    """The same project, after somebody has set stepwell.store."""
    project = resolved.project
    stepwell = project.settings.stepwell.model_copy(update={"store": "file:///there"})
    return replace(resolved, project=replace(project, settings=replace(project.settings, stepwell=stepwell)))


def test_a_query_over_little_is_not_compiled(auction: Auction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the project says so."""
    auction.run()
    keys = ("spark.sql.codegen.wholeStage", "spark.sql.shuffle.partitions")

    def chosen(resolved: ResolvedProject) -> list[str | None]:
        conf = query(resolved, auction.circuit, "SELECT item, count(*) FROM best GROUP BY 1").rows.sparkSession.conf
        return [conf.get(key) for key in keys]

    resolved = auction.project
    settings = replace(resolved.project.settings, spark={keys[1]: "7"})
    as_before = [auction.spark.conf.get(key) for key in keys]
    assert chosen(resolved) == ["false", "1"] != as_before
    assert chosen(replace(resolved, project=replace(resolved.project, settings=settings))) == ["false", as_before[1]]
    monkeypatch.setattr(queries, "FEW_BYTES_MAX", -1)
    assert chosen(resolved) == as_before


@pytest.mark.long
def test_state_of_another_circuit_is_not_read(
    auction: Auction, spark: SparkSession, broker: Broker, tmp_path: Path, topic_prefix: str
) -> None:
    auction.run()
    changed = Auction(spark, broker, tmp_path, topic_prefix, SQL.replace("max(price)", "min(price)"))
    with pytest.raises(CircuitChanged, match="view best"):
        query(changed.project, changed.circuit, "SELECT * FROM best")


def checkpointed(database: Database, version: VersionId) -> None:
    database.freeze(version)
    database.fold()


@pytest.mark.long
def test_workers_at_different_versions_are_waited_for(auction: Auction, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fold that one worker has done and the other has not."""
    auction.send(ROW, {"item": "cup", "price": 1})
    auction.run()
    folder = auction.project.project.state_folder
    owner = read_owner(folder)
    assert owner is not None and len(owner.databases) == 2
    folder_of_databases = auction.project.project.databases
    [(_, first), (_, second)] = databases = [(f, Database.versions(f)) for f in sorted((folder / "workers").iterdir())]
    assert first == second
    last = first[-1]
    later = VersionId(last.version + 1, last.step, "later")
    opened = [
        Database.open(path, last, epoch=Term(9, 0).number, identity=Database.identity_of(path)) for path, _ in databases
    ]
    checkpointed(opened[0], later)
    monkeypatch.setattr(view_contents, "FOLD_SECONDS_MAX", 0.2)
    with pytest.raises(NoState, match="different checkpoints"):
        view_contents.read_contents(folder, folder_of_databases, auction.circuit, owner.numbers, ["best"])
    monkeypatch.setattr(view_contents, "FOLD_SECONDS_MAX", 60.0)
    looked = threading.Event()
    read_views = view_contents.read_views

    def watched(*arguments: object, **named: object) -> object:
        looked.set()
        return read_views(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(view_contents, "read_views", watched)
    folding = threading.Thread(target=lambda: (looked.wait(), checkpointed(opened[1], later)))
    folding.start()
    version, (best,) = view_contents.read_contents(
        folder, folder_of_databases, auction.circuit, owner.numbers, ["best"]
    )
    folding.join()
    assert version == later and best.num_rows == 2


@pytest.mark.parametrize("rows", [(1, 0, 1), (0, 0, 2), (2, 0, 0, 3, 0), (0, 1), (0, 0), ()], ids=str)
def test_the_rows_of_all_workers_are_asked_wherever_they_are(spark: SparkSession, rows: tuple[int, ...]) -> None:
    """Spark ends a table at a part without rows."""
    schema = StructType.fromDDL(
        "n BIGINT, i INTERVAL MONTH, a ARRAY<BIGINT>, s STRUCT<x: BIGINT>, m MAP<BIGINT, BIGINT>"
    )
    number = pa.int64()
    nested = {"a": pa.list_(number), "s": pa.struct([("x", number)]), "m": pa.map_(number, number)}
    types = pa.schema([("n", number), ("i", MONTH), *nested.items()])

    def part(worker: int, count: int) -> pa.Table:
        numbers = range(10 * worker, 10 * worker + count)
        values = {"a": [[n] for n in numbers], "s": [{"x": n} for n in numbers], "m": [[(n, n)] for n in numbers]}
        return pa.table({"n": numbers, "i": pa.array(numbers, number).cast(MONTH), **values}, types)

    table = pa.concat_tables([types.empty_table(), *(part(*each) for each in enumerate(rows))])
    for columns in (["n"], ["n", "i"], ["n", *nested], ["n", "i", *nested]):
        frame = frame_of(spark, table.select(columns), StructType([schema[name] for name in columns]))
        assert sorted(row["n"] for row in frame.select("n").collect()) == table.column("n").to_pylist()


def test_a_variant_is_one_in_a_query(spark: SparkSession) -> None:
    """Spark sees the kinds of its numbers, also within arrays, maps and structs."""
    texts = ["null", '{"a":1.0,"b":[1,1e+300,NaN]}', "99999999999999999999999999999999999999", "-Infinity", '"x"', None]
    cells = [None if text is None else {FIELD: text} for text in texts]
    nested = [
        None,
        {"l": [None, cells[1]], "m": [("k", cells[2])]},
        {"l": None, "m": []},
        {},
        {"l": [cells[3]]},
        {"l": []},
    ]
    within = pa.struct([("l", pa.list_(pa.field("element", VARIANT))), ("m", pa.map_(pa.string(), VARIANT))])
    table = pa.table({"v": pa.array(cells, VARIANT), "s": pa.array(nested, within)})
    schema = StructType.fromDDL("v VARIANT, s STRUCT<l: ARRAY<VARIANT>, m: MAP<STRING, VARIANT>>")
    frame = frame_of(spark, table, schema)
    assert frame.schema == schema
    found = frame.selectExpr("schema_of_variant(v)", "v:a::int", "to_json(v)", "to_json(s)").collect()
    assert [tuple(row) for row in found] == [
        ("VOID", None, "null", None),
        ("OBJECT<a: DECIMAL(1,0), b: ARRAY<DOUBLE>>", 1, '{"a":1,"b":[1,1.0E300,"NaN"]}',
         '{"l":[null,{"a":1,"b":[1,1.0E300,"NaN"]}],"m":{"k":99999999999999999999999999999999999999}}'),
        ("DECIMAL(38,0)", None, "99999999999999999999999999999999999999", '{"m":{}}'),
        ("DOUBLE", None, '"-Infinity"', "{}"),
        ("STRING", None, '"x"', '{"l":["-Infinity"]}'),
        (None, None, None, '{"l":[]}'),
    ]  # fmt: skip
    assert [row[0] for row in collect_rows(frame.select("v"), 10, as_json=False)][1] == '{"a":1,"b":[1,1.0E300,"NaN"]}'


@pytest.mark.long
@pytest.mark.parametrize("as_json", [False, True])
def test_an_answer_that_breaks_off_is_no_answer(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    """Wherever it does: what came would pass for fewer rows."""
    rows = spark.range(3, numPartitions=2)
    load, lengths, kept_bytes = ArrowCollectSerializer.load_stream, list[int](), [1 << 20]

    def load_stream(self: ArrowCollectSerializer, stream: IO[bytes]) -> Iterator[pa.RecordBatch]:
        sent = stream.read()
        lengths.append(len(sent))
        return load(self, BytesIO(sent[: kept_bytes[0]]))

    monkeypatch.setattr(ArrowCollectSerializer, "load_stream", load_stream)
    assert len(collect_rows(rows, 10, as_json=as_json)) == 3
    for cut in {*range(0, lengths[0], lengths[0] // 12), *range(lengths[0] - 20, lengths[0], 4)}:
        kept_bytes[0] = cut
        with pytest.raises(QueryError, match="broke off"):
            collect_rows(rows, 10, as_json=as_json)
