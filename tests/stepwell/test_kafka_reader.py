"""spark.readStream.format("kafka") in definitions: which source it is, and what is refused, with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from base.secrets import hidden
from stepwell.errors import Location, ProjectError, ProjectErrors, UnsupportedError
from stepwell.lowering.driver import lower
from stepwell.lowering.driver import lower_with_errors as lowered
from stepwell.planning.pipeline import plan_project
from stepwell.planning.plans import ResolvedProject
from stepwell.planning.resolver import resolve
from stepwell.project.kafka_options import LoadPlace, reader_spec
from stepwell.project.settings import load_settings
from stepwell.project.tables import SourceSpec
from tests.stepwell.folder import SPEC, project

BROKERS = SPEC + "configuration:\n  kafka.bootstrap.servers: 'host1:1,host2:2'\n"
HEAD = "from pyspark import pipelines as dp\nfrom pyspark.sql import SparkSession\nfrom pyspark.sql.functions import col, from_json\n"
PLACE = LoadPlace(Location("transformations/a.py", 7), "v")
SETTINGS = load_settings({"kafka.bootstrap.servers": "host1:1,host2:2", "kafka.sasl.mechanism": "PLAIN"})
SERVERS = {"kafka.bootstrap.servers": "host1:1,host2:2"}


def resolved(root: Path, spark: SparkSession, text: str, sql: str = "") -> ResolvedProject:
    return resolve(project(root, {"a.py": HEAD + text, **({"b.sql": sql} if sql else {})}, BROKERS), spark)


def spec(streaming: bool = True, **options: str) -> SourceSpec:
    return reader_spec({name.replace("__", "."): value for name, value in options.items()}, streaming, PLACE, SETTINGS)


READS = """
@dp.table
def plain():
    return (
        spark.readStream
        .format("kafka")
        .option("kafka.bootstrap.servers", "host2:2, host1:1")
        .option("subscribe", "orders")
        .load()
    )

@dp.temporary_view
def texts():
    reader = SparkSession.active().readStream.format("KAFKA").options(SUBSCRIBE="orders", includeHeaders=False)
    return reader.load().selectExpr("CAST(key AS STRING)", "CAST(value AS STRING) AS text")

@dp.table
def parsed():
    return spark.readStream.table("texts").select(from_json(col("text"), "id INT, n DOUBLE").alias("row")).select("row.*")

@dp.materialized_view
def counted():
    frame = spark.read.load(format="kafka", subscribe="returns, refunds", includeHeaders=True)
    return frame.groupBy("topic", "partition").count()

everything = spark.read.format("kafka").option("subscribe", "returns,refunds").option("includeHeaders", "true").load()

@dp.materialized_view
def whole(): return everything

dp.create_streaming_table("both")

@dp.append_flow(target="both")
def one(): return spark.readStream.format("kafka").option("subscribe", "a").option("startingOffsets", "earliest").load()

@dp.append_flow(target="both")
def other(): return spark.readStream.format("kafka").option("subscribe", "b").load()
"""


def test_readers_are_sources(tmp_path: Path, spark: SparkSession) -> None:
    """In every kind of definition, before any and at the file's top level; equal readers are one source."""
    found = resolved(tmp_path, spark, READS)
    reads = {view.name: view.reads for view in found.views}
    assert reads == {
        "plain": ("kafka(orders)",),
        "parsed": ("kafka(orders)",),
        "counted": ("kafka(refunds, returns; headers)",),
        "whole": ("kafka(refunds, returns; headers)",),
        "both": ("kafka(a)", "kafka(b)"),
    }
    schema = {view.name: view.schema.simpleString() for view in found.views}
    plain = "key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int"
    assert schema["plain"] == f"struct<{plain}>"
    assert schema["whole"] == f"struct<{plain},headers:array<struct<key:string,value:binary>>>"
    assert schema["parsed"] == "struct<id:int,n:double>"
    assert [(s.handle, s.topics, s.starting_offsets) for s in found.sources] == [
        ("kafka(a)", ("a",), "earliest"),
        ("kafka(b)", ("b",), "latest"),
        ("kafka(orders)", ("orders",), "latest"),
        ("kafka(refunds, returns; headers)", ("refunds", "returns"), "earliest"),
    ]
    circuit = lower(found)
    plan = plan_project(found, circuit)
    assert sorted(source.table.handle for source in plan.inputs) == [s.handle for s in found.sources]
    notes = lowered(found).notes
    assert any("startingOffsets = earliest reads what is there already" in note for note in notes["plain"])
    assert not notes["counted"]


def test_options_that_have_no_effect_are_noted() -> None:
    found = spec(subscribe="a", maxOffsetsPerTrigger="10", kafka__group__id="g", startingOffsets="EARLIEST",
                 kafka__isolation__level="read_committed", failOnDataLoss="true", endingOffsets="latest", **SERVERS)  # fmt: skip
    assert found.notes == (
        "maxOffsetsPerTrigger = 10 has no effect: the settings stepwell.step.rows.max and stepwell.step.bytes.max bound a step",
        "kafka.group.id = g has no effect: Stepwell's reader joins no consumer group",
    )
    assert found.starting_offsets == "earliest"


def test_the_address_in_sparks_guides_is_the_default_broker() -> None:
    guide = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}
    assert reader_spec(guide, True, PLACE, load_settings({})).topics == ("orders",)


def test_offsets_by_topic_and_partition() -> None:
    found = spec(subscribe="b, a", startingOffsets='{"b": {"1": -1, "0": 7}, "a": {"0": "-2"}}')
    assert (found.topics, found.starting_offsets) == (("a", "b"), '{"a": {"0": -2}, "b": {"0": 7, "1": -1}}')


def test_a_start_at_a_timestamp_goes_before_offsets() -> None:
    assert spec(subscribe="a", startingTimestamp="17", startingOffsets="latest").starting_offsets == "since 17"
    found = spec(False, subscribePattern="a.*", startingTimestamp="17", startingOffsetsByTimestampStrategy="LATEST")
    assert (found.starting_offsets, found.handle, found.topics) == ("since 17 or latest", "kafka(pattern a.*)", ())


def test_partitions_by_number() -> None:
    found = spec(assign='{"b": [1, 0], "a": [3]}', startingOffsets="earliest")
    assert (found.handle, found.topics) == ("kafka(a/3, b/0, b/1)", ("a", "b"))
    assert found.partitions == (("a", 3), ("b", 0), ("b", 1))


@pytest.mark.parametrize("pattern", ["topic.*", r"a\.b", "(in|out)-[0-9]+", r"[^a-c_]\d{2,3}?", r"(?:\w+)\-x"])
def test_patterns_that_java_and_python_read_alike(pattern: str) -> None:
    assert spec(subscribePattern=pattern).pattern == pattern


REFUSED = [
    ({"subscribe": "a", "startingTimestamp": "yesterday"}, r"startingTimestamp = yesterday is not known\n.*milliseconds"),
    ({"subscribe": "a", "startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "first"}, "It is error or latest"),
    ({"subscribe": "a", "startingOffsetsByTimestamp": "{}"}, r"startingOffsetsByTimestamp is not supported\n.*startingTimestamp"),
    ({"assign": '{"a": 1}'}, r'names no partitions\n.*\{"orders": \[0, 1\]\}'),
    ({"assign": '{"a": [-1]}'}, "names no partitions"),
    ({"subscribePattern": r"\p{Alpha}"}, r"subscribePattern = .* is not supported\n.*Java and Python"),
    ({"subscribePattern": "(a"}, "is not supported"),
    ({"subscribePattern": "(?i)a"}, "is not supported"),
    ({"subscribePattern": "[a-z&&b]"}, "is not supported"),
    ({}, r"a Kafka reader needs one of subscribe, subscribePattern, assign, and it has none\n.*subscribe"),
    ({"subscribe": "a", "assign": "{}"}, "it has subscribe and assign"),
    ({"subscribe": "a,,b"}, "names no topic"),
    ({"subscribe": "a", "startingOffsets": "yesterday"}, r'startingOffsets = yesterday is not known\n.*\{"a": \{"0": 23, "1": -2\}\}'),
    ({"subscribe": "a", "startingOffsets": '{"a": {"0": -3}}'}, "is not known"),
    ({"subscribe": "a,b", "startingOffsets": '{"a": {"0": 3}}'}, r"startingOffsets names a, and the reader reads a, b"),
    ({"subscribe": "a", "startingOffset": "latest"}, r"startingOffset is not an option of the Kafka source\n.*startingOffsets"),
    ({"subscribe": "a", "includeHeaders": "yes"}, "includeHeaders = yes is neither true nor false"),
    ({"subscribe": "a", "failOnDataLoss": "false"}, r"failOnDataLoss = false is not supported.*replayed\n.*--full-refresh"),
    ({"subscribe": "a", "endingOffsets": '{"a": {"0": 5}}'}, r"endingOffsets = .* is not supported\n.*WHERE"),
    ({"subscribe": "a", "endingTimestamp": "5"}, "option endingTimestamp is not supported"),
    ({"subscribe": "a", "kafka.bootstrap.servers": "elsewhere:1"},
     r"kafka.bootstrap.servers = elsewhere:1 is not the pipeline's broker, which is host1:1,host2:2\n.*spark-pipeline.yml.*one broker"),
    ({"subscribe": "a", "kafka.sasl.mechanism": "GSSAPI"}, r"differs from the pipeline's own, which is PLAIN\n.*spark-pipeline.yml"),
    ({"subscribe": "a", "kafka.max.poll.records": "5"}, r"differs from the pipeline's own, which is not set\n.*leave it out"),
    ({"subscribe": "a", "kafka.isolation.level": "read_uncommitted"}, "differs from the pipeline's own"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "says"), REFUSED)
def test_refused_options(options: dict[str, str], says: str) -> None:
    with pytest.raises(ProjectError, match=says) as raised:
        reader_spec(options, True, PLACE, SETTINGS)
    assert str(raised.value).startswith("transformations/a.py:7: v: ")


def test_neither_password_is_in_the_text_of_two_that_differ() -> None:
    settings = load_settings({"kafka.sasl.password": "hush of the pipeline", "kafka.bootstrap.servers": "host1:1"})
    with pytest.raises(
        ProjectError, match=r"kafka.sasl.password = \*\*\* differs from the pipeline's own, which is \*\*\*"
    ) as raised:
        reader_spec({"subscribe": "a", "kafka.sasl.password": "hush of the reader"}, True, PLACE, settings)
    assert "hush" not in str(raised.value)
    assert "hush" not in hidden("it said 'hush of the reader'"), "what a definition names is not known to be secret"


def test_a_batch_does_not_begin_at_the_end() -> None:
    assert spec(False, subscribe="a").starting_offsets == "earliest"
    with pytest.raises(ProjectError, match=r"startingOffsets = latest would read nothing\n.*spark.readStream"):
        spec(False, subscribe="a", startingOffsets="latest")


WRONG = """
@dp.materialized_view
def streamed():
    return spark.readStream.format("kafka").option("subscribe", "a").load()

@dp.table
def typed():
    return spark.readStream.format("kafka").schema("id INT").option("subscribe", "a").load()

@dp.table
def first():
    return spark.readStream.format("kafka").option("subscribe", "b").load()

@dp.table
def second():
    return (
        spark.readStream.format("kafka")
        .option("subscribe", "b")
        .option("startingOffsets", "earliest")
        .load()
    )

@dp.table
def beside_a_table():
    return spark.readStream.format("kafka").option("subscribe", "c").option("includeHeaders", "true").load()
"""
TABLE = "CREATE STREAMING TABLE t (id INT) USING kafka TBLPROPERTIES ('subscribe' = 'c');"


def test_errors_have_file_and_line(tmp_path: Path, spark: SparkSession) -> None:
    with pytest.raises(ProjectErrors) as raised:
        resolved(tmp_path, spark, WRONG, TABLE)
    found = [str(error) for error in raised.value.errors]
    assert len(found) == 4, found
    assert found[0].startswith(
        "transformations/a.py:7: streamed: a topic is read as a stream, and this is not a streaming flow"
    )
    assert found[1].startswith("transformations/a.py:11: typed: a reader of Kafka takes no schema")
    assert "second: topic b is read from earliest here, and from latest at transformations/a.py:15" in found[2]
    assert found[2].startswith("transformations/a.py:2")
    assert "topic c is read from earliest here, and from latest at transformations/a.py:2" in found[3]


def test_an_error_at_the_top_level_of_a_file(tmp_path: Path, spark: SparkSession) -> None:
    with pytest.raises(UnsupportedError, match=r"^transformations/a\.py:5: option endingTimestamp is not supported"):
        resolved(
            tmp_path, spark, "\nx = spark.readStream.format('kafka').options(subscribe='a', endingTimestamp=5).load()"
        )


def test_other_readers_are_sparks_own(tmp_path: Path, spark: SparkSession) -> None:
    with pytest.raises(UnsupportedError, match=r"a stream that Stepwell does not read \(rate"):
        resolved(tmp_path, spark, "@dp.table\ndef v(): return spark.readStream.format('rate').load()")
    assert spark.read.format("range_of_nothing")  # and nothing of a reader is changed afterwards
    assert spark.read.format.__qualname__ == "DataFrameReader.format"
