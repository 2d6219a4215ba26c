"""Properties of tables and sinks: what they mean, and every combination that is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from stepwell.errors import Location, ProjectError
from stepwell.project.elements import Definitions, FlowDefinition, OutputDefinition, PythonQuery
from stepwell.project.settings import load_settings
from stepwell.project.tables import OutputSpec, SourceSpec, check_stored_by, output_notes, output_spec, source_spec

PLACE = Location("transformations/a.sql", 3)
SETTINGS = load_settings({"kafka.sasl.mechanism": "PLAIN"})


def columns(ddl: str) -> StructType:
    return StructType.fromDDL(ddl)


def source(
    spark: SparkSession,
    properties: dict[str, str],
    ddl: str | None = "k STRING NOT NULL, v DOUBLE, n INT",
    provider: str | None = "kafka",
    flows: tuple[FlowDefinition, ...] = (),
) -> SourceSpec:
    schema = columns(ddl) if ddl else None
    table = OutputDefinition("table", "t", PLACE, schema=schema, format=provider, properties=properties)
    return source_spec(table, Definitions((table,), flows, spark), SETTINGS)


def published(properties: dict[str, str], **more: Any) -> OutputSpec | None:
    view = OutputDefinition(more.pop("kind", "materialized_view"), "v", PLACE, properties=properties, **more)
    return output_spec(view, columns("k STRING, v DOUBLE, n INT, m ARRAY<INT>"), SETTINGS)


def test_a_source_with_defaults(spark: SparkSession) -> None:
    spec = source(spark, {"subscribe": "topic"})
    assert (spec.handle, spec.topics, spec.mode, spec.key, spec.format) == ("t", ("topic",), "append", (), "json")
    assert (spec.starting_offsets, spec.on_error, spec.dead_letter_topic) == ("earliest", "fail", None)
    assert [column.nullable for column in spec.schema] == [False, True, True]


def test_a_source_with_everything(spark: SparkSession) -> None:
    spec = source(
        spark,
        {"subscribe": "x", "mode": "UPSERT", "key": "K, n", "StartingOffsets": '{"x": {"0": 5, "1": -2}}',
         "on.error": "dead-letter", "dead.letter.topic": "bad", "format": "json", "kafka.sasl.mechanism": "PLAIN"},
    )  # fmt: skip
    assert (spec.mode, spec.key, spec.on_error, spec.dead_letter_topic) == ("upsert", ("k", "n"), "dead-letter", "bad")
    assert spec.starting_offsets == '{"x": {"0": 5, "1": -2}}'


def test_what_debezium_needs_to_be_told(spark: SparkSession) -> None:
    plain = source(spark, {"subscribe": "x", "mode": "changelog"})
    assert (plain.truncate, plain.unavailable) == ("fail", "__debezium_unavailable_value")
    told = {"mode": "changelog", "key": "k", "TRUNCATE": "Apply", "Unavailable.value.placeholder": "hex:FF"}
    found = source(spark, {"subscribe": "x", **told})
    assert (found.truncate, found.unavailable) == ("apply", "hex:FF")
    without = source(
        spark, {"subscribe": "x", "mode": "changelog", "truncate": "ignore", "unavailable.value.placeholder": ""}
    )
    assert (without.truncate, without.unavailable) == ("ignore", "")


def test_a_changelog_may_have_a_key_and_dead_letters_have_a_default_topic(spark: SparkSession) -> None:
    assert source(spark, {"subscribe": "x", "mode": "changelog"}).key == ()
    assert source(spark, {"subscribe": "x", "mode": "changelog", "key": "k"}).key == ("k",)
    assert source(spark, {"subscribe": "x", "on.error": "dead-letter"}).dead_letter_topic == "x.dead-letter"


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"topic": "y"}, "subscribe .* and topic"),
        ({"mode": "upsert"}, "mode upsert needs a key"),
        ({"mode": "append", "key": "k"}, "mode append has no key"),
        ({"mode": "merge"}, "append, upsert, changelog"),
        ({"mode": "upsert", "key": "kk"}, "key kk is not a column\n.*Did you mean k"),
        ({"mode": "upsert", "key": "v"}, "DOUBLE"),
        ({"mode": "upsert", "key": "k, K"}, "twice"),
        ({"format": "xml"}, "format = xml"),
        ({"starting.offsets": "latest"}, "starting.offsets is not a property of a source\n.*startingOffsets"),
        ({"startingOffsets": "yesterday"}, "-2 earliest"),
        ({"startingOffsets": '{"other": {"0": 1}}'}, "-2 earliest"),
        ({"startingOffsets": '{"x": {"0": -3}}'}, "-2 earliest"),
        (
            {"startingOffsets": '{"x": {"0": 3}, "other": {"0": 1}, "and": {}}'},
            "startingOffsets names and, other, and the table reads x\n.*Name the topic",
        ),
        ({"on.error": "ignore"}, "fail, skip, dead-letter"),
        ({"dead.letter.topic": "d"}, "on.error is not dead-letter"),
        ({"metadata.offset": "m"}, "metadata.offset = m is not a column"),
        ({"metadata.offset": "n"}, "the column has the type int\n.*n BIGINT"),
        ({"metadata.partition": "n", "metadata.timestampType": "N"}, "the column is partition already"),
        ({"metadata.partition": "n", "mode": "upsert", "key": "n"}, "the column is in the key"),
        (
            {"metadata.partition": "n", "mode": "changelog"},
            "metadata.partition is for tables in which a message is a row.*\n.*'key'",
        ),
        ({"metadata.value": "k"}, "metadata.value is not a property"),
        ({"truncate": "yes", "mode": "changelog"}, "truncate = yes is not known\n.*fail, apply, ignore"),
        ({"truncate": "apply", "mode": "changelog"}, "truncate = apply needs a key.*\n.*'key' = "),
        (
            {"truncate": "apply", "mode": "upsert", "key": "k"},
            "truncate is for Debezium's envelope.*upsert\n.*'mode' = 'changelog'",
        ),
        ({"truncate": "fail"}, "truncate is for Debezium's envelope"),
        (
            {"unavailable.value.placeholder": "x"},
            "unavailable.value.placeholder is for tables that follow a database's rows",
        ),
        (
            {"unavailable.value.placeholder": "hex:0g", "mode": "changelog"},
            "is no text for a placeholder.*\n.*two digits for each byte",
        ),
        ({"unavailable.value.placeholder": "hex:", "mode": "changelog"}, "an empty text can be a value of its own"),
        ({"subscribe": "a,b"}, "not one topic"),
        ({"subscribe": " "}, "not one topic"),
        ({"subscribePattern": "a.*"}, "Name one topic"),
        ({"kafka.bootstrap.servers": "elsewhere:9092"}, "under configuration:"),
        ({"partitions": "3"}, "partitions is not a property of a source"),
    ],
)
def test_wrong_sources(spark: SparkSession, properties: dict[str, str], says: str) -> None:
    with pytest.raises(ProjectError) as raised:
        source(spark, {"subscribe": "x", **properties})
    assert raised.match(says)
    assert (raised.value.view, raised.value.location) == ("t", PLACE)


@pytest.mark.parametrize(
    ("ddl", "says"),
    [
        (None, "needs its columns"),
        ("a INT, A STRING", "two columns are called A"),
        ("a STRUCT<v: INT, V: INT>", "column a has a struct with fields v and V"),
        (
            "a ARRAY<MAP<STRING, STRUCT<b: STRUCT<v: INT, w: INT, V: INT>>>>",
            "column a has a struct with fields v and V",
        ),
        ("a MAP<INT, INT>", "map<int,int>"),
        ("a STRUCT<b: ARRAY<MAP<DATE, INT>>>", "map<date,int>"),
        ("a MAP<STRING, INTERVAL DAY TO SECOND>", "interval day to second"),
        ("a ARRAY<MAP<VARCHAR(3), INT>>", r"varchar\(3\),int>>\n.*The keys of a map are of type STRING"),
        ("a INTERVAL DAY TO SECOND", "interval day to second"),
        ("a STRING COLLATE UNICODE_CI", "collate"),
        ("a STRUCT<b: ARRAY<STRUCT<c: STRING COLLATE UNICODE_CI>>>", "collate"),
    ],
)
def test_wrong_columns(spark: SparkSession, ddl: str | None, says: str) -> None:
    with pytest.raises(ProjectError, match=says):
        source(spark, {"subscribe": "x"}, ddl)


def test_all_atomic_types_structs_and_arrays_are_columns(spark: SparkSession) -> None:
    ddl = (
        "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h DECIMAL(38, 10), i STRING, j BINARY, "
        "k DATE, l TIMESTAMP, m TIMESTAMP_NTZ, n STRUCT<x: INT, y: ARRAY<STRUCT<z: DATE>>>, o ARRAY<STRING>, p INTERVAL YEAR TO MONTH, "
        "q MAP<STRING, ARRAY<MAP<STRING, CHAR(2)>>>"
    )
    assert len(source(spark, {"subscribe": "x"}, ddl).schema) == 17


def test_a_source_needs_using_kafka_and_takes_no_flow(spark: SparkSession) -> None:
    with pytest.raises(ProjectError, match="needs USING kafka"):
        source(spark, {"subscribe": "x"}, provider=None)
    flow = FlowDefinition(
        name="f", target="T", query=PythonQuery(lambda: spark.range(1)), location=Location("transformations/b.sql", 9)
    )
    with pytest.raises(ProjectError, match=r"a source takes no flow: flow f \(transformations/b.sql:9\)"):
        source(spark, {"subscribe": "x"}, flows=(flow,))


def test_outputs(spark: SparkSession) -> None:
    spec = published({"topic": "o", "mode": "upsert", "key": "K", "partitions": "3"})
    assert spec is not None
    assert (spec.handle, spec.topic, spec.mode, spec.key, spec.partitions) == ("v", "o", "upsert", ("k",), 3)
    assert published({}) is None
    assert published({"key": "k"}) is None
    sink = published({"topic": "o", "kafka.bootstrap.servers": "127.0.0.1:9092"}, kind="sink", format="kafka")
    assert sink is not None
    assert (sink.mode, sink.partitions) == ("append", None)


def test_what_only_says_how_files_are_stored_is_accepted_and_noted(spark: SparkSession) -> None:
    assert published({"quality": "gold", "delta.enableChangeDataFeed": "true", "key": "k"}, format="delta") is None
    spec = published({"topic": "o", "pipelines.reset.allowed": "false"}, format="parquet")
    assert spec is not None and spec.topic == "o"
    view = OutputDefinition(
        "table", "v", PLACE, format="delta", properties={"quality": "gold", "topic": "o"}, stored_by=("K",)
    )
    notes = output_notes(view)
    assert len(notes) == 2 and "format delta" in notes[0] and notes[1].startswith("the table properties quality have")
    check_stored_by(view, columns("k STRING"))
    with pytest.raises(ProjectError, match="stored by K, which is not a column"):
        check_stored_by(view, columns("j STRING"))


@pytest.mark.parametrize(
    ("properties", "more", "says"),
    [
        ({"subscribe": "x"}, {}, "cannot subscribe"),
        ({"modus": "upsert"}, {}, "modus is not a property"),
        ({"kay": "k"}, {}, "kay is not a property"),
        ({"quality": "gold", "topic": "o"}, {"kind": "sink", "format": "kafka"}, "quality is not a property"),
        ({"topic": "o", "mode": "upsert"}, {}, "mode upsert needs a key"),
        ({"topic": "o", "mode": "update"}, {}, "append, upsert, changelog"),
        ({"topic": "o", "key": "m"}, {}, "array<int>"),
        ({"topic": "o", "key": "x"}, {}, "key x is not a column"),
        ({"topic": "o", "partitions": "0"}, {}, "from 1 to 10000"),
        ({"topic": "o", "startingOffsets": "latest"}, {}, "startingOffsets is not a property of an output"),
        ({"topc": "o"}, {}, "topc is not a property.*\n.*Did you mean topic"),
        ({"mode": "upsert"}, {}, "Add 'topic'"),
        ({}, {"format": "kafka"}, "subscribe .a source. or topic"),
        ({}, {"format": "jdbc"}, "USING jdbc is not supported"),
        ({}, {"kind": "sink", "format": "kafka"}, "a Kafka sink needs a topic"),
        ({"path": "/x"}, {"kind": "sink", "format": "parquet"}, "a sink of format parquet"),
    ],
)
def test_wrong_outputs(spark: SparkSession, properties: dict[str, str], more: dict[str, Any], says: str) -> None:
    with pytest.raises(ProjectError) as raised:
        published(properties, **more)
    assert raised.match(says)
    assert (raised.value.view, raised.value.location) == ("v", PLACE)


def test_columns_of_the_record(spark: SparkSession) -> None:
    found = source(
        spark,
        {"subscribe": "x", "metadata.timestamp": "AT", "METADATA.TOPIC": "t", "mode": "changelog", "key": "k"},
        "k INT, at TIMESTAMP NOT NULL, t STRING",
    )
    assert found.metadata == (("at", "timestamp"), ("t", "topic"))
    for ddl, says in (
        ("at TIMESTAMP", "no column is taken from"),
        ("a INT, at TIMESTAMP_NTZ", "has the type timestamp_ntz"),
    ):
        with pytest.raises(ProjectError, match=says):
            source(spark, {"subscribe": "x", "metadata.timestamp": "at"}, ddl)
    with pytest.raises(ProjectError, match="NOT NULL, and a message may have none"):
        source(spark, {"subscribe": "x", "metadata.key": "k"}, "a INT, k BINARY NOT NULL")
