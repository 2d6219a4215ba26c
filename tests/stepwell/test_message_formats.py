"""Formats of messages in a table's properties: what they mean, and every combination that is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from base.text.patterns import Patterns
from io_kafka.formats.encodings import Avro, Csv, DescribedProtobuf, JsonWithRegistry, PlainAvro, Protobuf, Text
from io_kafka.formats.spec import SourceFormat
from io_kafka.formats.table import FORMATS
from io_kafka.registry.address import RegistryAddress
from stepwell.errors import ProjectError
from stepwell.lowering.driver import lower
from stepwell.planning.pipeline import pipeline_spec, plan_project
from stepwell.planning.resolver import resolve
from stepwell.project.elements import Definitions, OutputDefinition
from stepwell.project.format_properties import PROPERTIES
from stepwell.project.message_formats import OF_SOURCES
from stepwell.project.output_formats import OF_OUTPUTS, FormatOfOutput
from stepwell.project.settings import load_settings
from stepwell.project.tables import OutputSpec, SourceSpec, output_spec, source_spec
from tests.io_kafka.formats import protobuf_messages as p
from tests.stepwell.folder import SPEC, project
from tests.stepwell.test_tables import PLACE

URL = "http://127.0.0.1:8081"
WITH_URL, WITHOUT_URL = load_settings({"stepwell.registry.url": URL + "/"}), load_settings({})
RECORD = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "int", "default": 7}]}'


def source(
    spark: SparkSession,
    properties: dict[str, str],
    root: Path | None = None,
    has_url: bool = True,
    ddl: str = "k STRING NOT NULL, v DOUBLE, n INT, l BIGINT, deep STRUCT<a: INT>",
) -> SourceSpec:
    schema = StructType.fromDDL(ddl)
    table = OutputDefinition(
        "table", "t", PLACE, schema=schema, format="kafka", properties={"subscribe": "x"} | properties
    )
    return source_spec(table, Definitions((table,), (), spark), WITH_URL if has_url else WITHOUT_URL, root)


def published(properties: dict[str, str], ddl: str = "k STRING, n INT", has_url: bool = True) -> OutputSpec:
    view = OutputDefinition("materialized_view", "v", PLACE, properties={"topic": "x"} | properties)
    found = output_spec(view, StructType.fromDDL(ddl), WITH_URL if has_url else WITHOUT_URL)
    assert found is not None
    return found


def test_a_source_in_avro(spark: SparkSession, tmp_path: Path) -> None:
    plain = source(spark, {"format": "AVRO"})
    assert (plain.encoding, plain.key_format) == (Avro(RegistryAddress(URL)), "avro")
    own = source(spark, {"format": "avro", "schema.registry.url": "https://other/"}, has_url=False)
    assert own.encoding == Avro(RegistryAddress("https://other"))
    (tmp_path / "r.avsc").write_text(RECORD)
    for given in (RECORD, "r.avsc"):
        assert source(spark, {"format": "avro", "avro.schema": given}, tmp_path).encoding == Avro(
            RegistryAddress(URL), RECORD
        )
    keyed = {"format": "avro", "mode": "upsert", "key": "k"}
    assert source(spark, keyed | {"key.format": "String"}).key_format == "string"
    assert source(spark, {"mode": "upsert", "key": "l", "key.format": "long"}).key_format == "long"


def test_a_source_in_protobuf(spark: SparkSession) -> None:
    found = source(spark, {"format": "protobuf", "mode": "upsert", "key": "k"})
    assert (found.encoding, found.key_format) == (Protobuf(RegistryAddress(URL), False), "protobuf")
    zeros = source(spark, {"format": "protobuf", "emit.default.values": "TRUE"})
    assert zeros.encoding == Protobuf(RegistryAddress(URL), True)


def test_a_source_in_json_with_a_registry(spark: SparkSession) -> None:
    for given in ({}, {"format": "json"}, {"format": "JSON", "schema.registry.url": URL}):
        assert source(spark, given).encoding == JsonWithRegistry(RegistryAddress(URL))
    own = source(spark, {"format": "json", "schema.registry.url": "https://other/"}, has_url=False)
    assert (own.encoding, own.key_format) == (JsonWithRegistry(RegistryAddress("https://other")), "json")
    assert source(spark, {"format": "json"}, has_url=False).encoding is None
    with pytest.raises(ProjectError, match="is not the URL of a registry"):
        source(spark, {"format": "json", "schema.registry.url": "localhost:8081"})
    with pytest.raises(ProjectError, match=r"schema\.registry\.url means nothing for format json"):
        published({"format": "json", "schema.registry.url": URL})


def test_a_source_in_avro_without_a_registry(spark: SparkSession) -> None:
    given = {"format": "avro", "avro.framing": "none", "avro.schema": RECORD}
    found = source(spark, given | {"mode": "upsert", "key": "n"}, has_url=False, ddl="n INT, other STRING")
    assert (found.encoding, found.key_format) == (PlainAvro(RECORD), "json")
    for properties, expected in (
        ({"format": "avro", "avro.framing": "none"}, r"avro\.framing = none needs avro\.schema and no schema"),
        (given | {"schema.registry.url": URL}, r"avro\.framing = none needs avro\.schema and no schema"),
        (given | {"avro.framing": "confluent"}, r"avro\.framing = confluent is not known\n  It is registry or none"),
        (given, "column n: the writer's type is int, which is not read as STRING"),
        ({"avro.framing": "none"}, r"avro\.framing means nothing for format json"),
    ):
        with pytest.raises(ProjectError, match=expected):
            source(spark, properties, ddl="n STRING")
    with pytest.raises(ProjectError, match=r"key\.format = avro needs a schema registry"):
        source(spark, given | {"mode": "upsert", "key": "n", "key.format": "avro"}, ddl="n INT")


def test_a_source_in_protobuf_without_a_registry(spark: SparkSession, tmp_path: Path) -> None:
    descriptor = p.descriptors('syntax = "proto3"; package a; message M { string k = 1; int64 n = 2; }')
    (tmp_path / "m.desc").write_bytes(descriptor)
    given = {"format": "protobuf", "protobuf.descriptor": "m.desc", "protobuf.message": "M"}
    keyed = {"mode": "upsert", "key": "k"}
    found = source(spark, given | keyed, tmp_path, has_url=False, ddl="k STRING, n BIGINT")
    assert (found.encoding, found.key_format) == (DescribedProtobuf(descriptor, "M"), "json")
    for more, ddl, expected in (
        ({"protobuf.descriptor": "x"}, "k STRING", "protobuf.descriptor: there is no file x"),
        ({"protobuf.message": "X"}, "k STRING", "protobuf.descriptor = m.desc: it has no message X; it has a.M"),
        ({}, "k STRING, n STRING", "column n: the field's type is int64, which is not read as STRING"),
        ({"schema.registry.url": URL}, "k STRING", "schema.registry.url and protobuf.descriptor exclude each other"),
        (keyed | {"key.format": "protobuf"}, "k STRING", "key.format = protobuf needs a schema registry"),
    ):
        with pytest.raises(ProjectError, match=expected):
            source(spark, given | more, tmp_path, ddl=ddl)
    with pytest.raises(ProjectError, match=r"protobuf\.descriptor and protobuf\.message belong together"):
        source(spark, {"format": "protobuf", "protobuf.message": "M"}, tmp_path)


def test_sources_in_csv_and_text(spark: SparkSession) -> None:
    assert source(spark, {"format": "csv"}, ddl="k STRING").encoding == Csv()
    tabs = {"format": "csv", "csv.sep": "\\t", "csv.nullValue": "NA"}
    assert source(spark, tabs, ddl="k STRING").encoding == Csv("\t", "NA")
    lines = {"format": "text", "metadata.partition": "n"}
    assert source(spark, lines, ddl="value STRING, n INT").encoding == Text()
    assert source(spark, lines | {"mode": "upsert", "key": "k"}, ddl="value BINARY, n INT, k STRING").encoding == Text()


def test_every_format_has_its_properties_in_the_table_of_the_project() -> None:
    assert PROPERTIES.keys() == FORMATS.keys()
    known = {*OF_SOURCES, *OF_OUTPUTS}
    assert {own for each in PROPERTIES.values() for own in each.own} == known - {"format", "key.format"}


def test_an_output_in_avro() -> None:
    found = published({"format": "avro"})
    assert (found.written.name, found.written.registry) == ("avro", RegistryAddress(URL))
    assert (published({}).written, published({"format": "json"}).written) == (FormatOfOutput(), FormatOfOutput())


def test_outputs_in_other_formats() -> None:
    address = RegistryAddress(URL)
    assert published({"format": "Protobuf"}).written == FormatOfOutput("protobuf", address)
    keyed = {"mode": "upsert", "key": "k", "key.format": "string"}
    assert published({"format": "protobuf"} | keyed).written == FormatOfOutput("protobuf", address, "string")
    assert published(keyed).written == FormatOfOutput(key_format="string")
    assert published({"format": "avro"} | keyed | {"key.format": "avro"}).written == FormatOfOutput("avro", address)
    tabs = {"format": "csv", "csv.sep": "\\t", "csv.nullValue": "NA"}
    assert published(tabs).written == FormatOfOutput("csv", options=(("csv.sep", "\t"), ("csv.nullValue", "NA")))
    text = {"format": "text", "mode": "upsert", "key": "n", "key.format": "int"}
    assert published(text).written == FormatOfOutput("text", key_format="int")


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"format": "xml"}, "format = xml is not known\n  It is one of json, avro, protobuf, csv, text"),
        ({"schema.registry.url": URL}, "schema.registry.url means nothing for format json"),
        ({"avro.schema": RECORD}, "avro.schema means nothing for format json"),
        ({"format": "avro", "schema.registry.url": "localhost:8081"}, "is not the URL of a registry"),
        (
            {"format": "avro", "schema.registry.url": "http://me:pw@host"},
            "has a user in it\n  User and password belong",
        ),
        ({"format": "avro", "avro.schema": "missing.avsc"}, "avro.schema: there is no file missing.avsc"),
        ({"format": "avro", "avro.schema": "{}"}, "avro.schema: it is no schema of Avro"),
        ({"format": "avro", "avro.schema": '{"type": "int"}'}, "avro.schema: it is int, and no record"),
        ({"format": "avro", "avro.schema": RECORD.replace('"n"', '"z"')}, "its field z is not a column of the table"),
        ({"csv.sep": ";"}, "csv.sep means nothing for format json\n  It belongs to format csv"),
        ({"format": "protobuf", "emit.default.values": "1"}, "emit.default.values = 1 is neither true nor false"),
        ({"format": "avro", "emit.default.values": "true"}, "emit.default.values means nothing for format avro"),
        (
            {"format": "protobuf", "mode": "upsert", "key": "k", "key.format": "avro"},
            "key.format = avro needs format = avro",
        ),
        ({"format": "csv"}, "column deep has the type struct<a:int>, which CSV does not have"),
        ({"format": "csv", "csv.header": "true"}, "csv.header is not a property of a source"),
        ({"format": "csv", "csv.sep": '"'}, "separates no fields"),
        ({"format": "text"}, "format text is for one STRING or BINARY column"),
        ({"format": "text", "mode": "changelog"}, "format text has no changelog"),
        ({"key.format": "string"}, "key.format means nothing for a table without a key"),
        ({"mode": "upsert", "key": "k", "key.format": "text"}, "key.format = text is not known"),
        ({"mode": "upsert", "key": "k", "key.format": "avro"}, "key.format = avro needs format = avro"),
        ({"mode": "upsert", "key": "n", "key.format": "long"}, "is one column of type BIGINT, and the key is n INT"),
        ({"mode": "upsert", "key": "k, n", "key.format": "string"}, "and the key is k STRING, n INT"),
    ],
)
def test_what_is_wrong_with_a_source(
    spark: SparkSession, tmp_path: Path, properties: dict[str, str], expected: str
) -> None:
    with pytest.raises(ProjectError) as caught:
        source(spark, properties, tmp_path)
    assert expected in str(caught.value) and "a.sql:3" in str(caught.value)


def test_what_is_wrong_with_an_output() -> None:
    with pytest.raises(ProjectError, match=r"messages in avro need a schema registry\n.*stepwell\.registry\.url"):
        published({"format": "avro"}, has_url=False)
    with pytest.raises(ProjectError, match="'a b' is no name in Avro"):
        published({"format": "avro"}, "`a b` INT")
    with pytest.raises(ProjectError, match="messages in protobuf need a schema registry"):
        published({"format": "protobuf"}, has_url=False)


@pytest.mark.parametrize(
    ("properties", "ddl", "expected"),
    [
        ({"format": "protobuf"}, "`a b` INT", "'a b' is no name in Protobuf"),
        ({"format": "protobuf"}, "a ARRAY<ARRAY<INT>>", "column a has a list or a map directly within another one"),
        ({"format": "csv"}, "a STRUCT<x: INT>", "column a has the type struct<x:int>, which CSV does not have"),
        ({"format": "csv"}, "a BINARY", "column a has the type binary, which CSV does not have"),
        ({"format": "csv", "mode": "changelog"}, "a INT", "format csv has no changelog"),
        ({"format": "csv", "csv.sep": '"'}, "a INT", "separates no fields"),
        ({"format": "csv", "csv.nullValue": "a,b"}, "a INT", "csv.nullValue = 'a,b' would not be read as one field"),
        ({"format": "csv", "csv.nullValue": '"'}, "a INT", "csv.nullValue = '\"' would not be read as one field"),
        (
            {"format": "csv", "csv.sep": "||", "csv.nullValue": "|"},
            "a INT",
            "csv.nullValue = '|' would not be read as one field",
        ),
        ({"format": "csv", "schema.registry.url": URL}, "a INT", "schema.registry.url means nothing for format csv"),
        ({"format": "text"}, "a INT", "format text is for one STRING or BINARY column"),
        (
            {"format": "text", "mode": "upsert", "key": "a"},
            "a STRING, b STRING, c STRING",
            "one STRING or BINARY column",
        ),
        ({"key.format": "string"}, "a INT", "key.format means nothing for a table without a key"),
        (
            {"key.format": "none", "mode": "upsert", "key": "a"},
            "a INT",
            "It is one of json, avro, protobuf, string, long, int",
        ),
        ({"key.format": "avro", "mode": "upsert", "key": "a"}, "a INT", "key.format = avro needs format = avro"),
        (
            {"key.format": "long", "mode": "upsert", "key": "a"},
            "a INT",
            "is one column of type BIGINT, and the key is a INT",
        ),
        (
            {"key.format": "string", "mode": "upsert", "key": "a, b"},
            "a STRING, b STRING",
            "the key is a STRING, b STRING",
        ),
        ({"emit.default.values": "true"}, "a INT", "emit.default.values is not a property of an output"),
    ],
)
def test_what_no_output_can_be(properties: dict[str, str], ddl: str, expected: str) -> None:
    with pytest.raises(ProjectError) as caught:
        published(properties, ddl)
    assert expected in str(caught.value) and "a.sql:3" in str(caught.value)


AVRO = """
CREATE STREAMING TABLE t (id BIGINT) USING kafka TBLPROPERTIES ('subscribe' = 'in', 'format' = 'avro');
CREATE MATERIALIZED VIEW v TBLPROPERTIES ('topic' = 'out', 'format' = 'FORMAT') AS SELECT id FROM t;
"""


MORE = ("csv', 'csv.sep' = ';", "avro', 'key' = 'id", "avro', 'key' = 'id', 'key.format' = 'long")
"""What stands for FORMAT, with properties behind it."""

CONFIGURED = f"{SPEC}configuration:\n  stepwell.registry.url: {URL}\n"


@pytest.mark.parametrize("format_", [name for name in FORMATS if name != "json"])
@pytest.mark.parametrize("ddl", ["id BIGINT, v VARIANT", "id BIGINT, v ARRAY<STRUCT<a: MAP<STRING, VARIANT>>>"])
def test_a_variant_is_in_json_alone(spark: SparkSession, format_: str, ddl: str) -> None:
    says = rf"column v has the type .*variant.*, and format {format_} has no VARIANT"
    with pytest.raises(ProjectError, match=says):
        source(spark, {"format": format_}, ddl=ddl)
    with pytest.raises(ProjectError, match=says):
        published({"format": format_}, ddl)


def test_a_variant_is_in_no_key(spark: SparkSession) -> None:
    with pytest.raises(ProjectError, match="key v has the type variant"):
        source(spark, {"mode": "upsert", "key": "v"}, ddl="v VARIANT, id BIGINT")
    with pytest.raises(ProjectError, match="key v has the type variant"):
        published({"mode": "upsert", "key": "v"}, "v VARIANT, id BIGINT")
    assert source(spark, {"mode": "upsert", "key": "id"}, ddl="v VARIANT, id BIGINT").key == ("id",)


def test_a_password_is_in_no_kept_plan(spark: SparkSession, tmp_path: Path) -> None:
    conf = CONFIGURED + "  stepwell.registry.auth: me:secret\n"
    resolved = resolve(project(tmp_path, {"a.sql": AVRO.replace("FORMAT", "avro")}, conf), spark)
    plan = plan_project(resolved, lower(resolved))
    assert "secret" not in repr(plan) and plan.outputs[0].registry == RegistryAddress(URL)
    spec = pipeline_spec(resolved.project, plan)
    form, output = spec.inputs[0].table.format, spec.outputs[0]
    assert isinstance(form, SourceFormat) and form.encoding is not None and output.registry is not None
    assert form.encoding.registry.auth == output.registry.auth == "me:secret" and "secret" not in repr(
        spec.inputs
    ) + repr(spec.outputs)


def test_another_format_is_another_circuit(spark: SparkSession, tmp_path: Path) -> None:
    """Because a topic has messages in one format."""
    prints = {}
    for name in ("avro", "json", "protobuf", "csv", *MORE):
        prints[name] = lower(resolve(project(tmp_path, {"a.sql": AVRO.replace("FORMAT", name)}, CONFIGURED), spark))
    assert len({circuit.fingerprint for circuit in prints.values()}) == len(prints)
    assert '"format"' in prints["avro"].to_json() and '"format"' not in prints["json"].to_json()


PATTERNS = {
    "dateFormat": "dd.MM.yyyy",
    "TimestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyyMMdd HHmmss",
}
CHOSEN = Patterns("dd.MM.yyyy", "yyyy-MM-dd HH:mm:ss.SSSSSSXXX", "yyyyMMdd HHmmss")


def test_patterns_of_dates_and_timestamps(spark: SparkSession) -> None:
    assert source(spark, PATTERNS).patterns == CHOSEN == published(PATTERNS).written.patterns
    assert source(spark, PATTERNS | {"format": "csv"}, ddl="k STRING").patterns == CHOSEN


@pytest.mark.parametrize(
    ("name", "pattern", "of_source", "of_output"),
    [
        ("timestampFormat", "yyyy-MM-dd'T", "a quote is not closed", "a quote is not closed"),
        ("timestampFormat", "", "the pattern is empty", "the pattern is empty"),
        ("timestampFormat", "YYYY-MM-dd", "YYYY is not supported in reading", "YYYY is not supported"),
        ("timestampFormat", "yyyy-MM-dd HH:mm:ss.n", "n is not supported in reading", "n is not supported"),
        ("timestampFormat", "yyyy-MM-dd VV", "VV is not supported in reading", None),
        ("timestampFormat", "EEE yyyy-MM-dd", "EEE is not supported in reading", None),
        ("timestampFormat", "yyyyMMddHHmmssSSS", "SSS directly behind ss", None),
        ("timestampFormat", "yyyy-MM-dd hh:mm", "h needs a", None),
        ("timestampFormat", "yyyy]", "] closes no section", "] closes no section"),
        ("dateFormat", "yyyy-MM-dd HH:mm", None, "a date has no HH"),
        ("dateFormat", "yyyy-MM-dd[ HH:mm]", None, None),
        ("timestampNTZFormat", "yyyy-MM-dd HH:mm:ssXXX", None, "a timestamp_ntz has no XXX"),
    ],
)
def test_patterns_that_are_not_supported_are_refused_with_the_property(
    spark: SparkSession, name: str, pattern: str, of_source: str | None, of_output: str | None
) -> None:
    for why, made in (
        (of_source, lambda: source(spark, {name: pattern})),
        (of_output, lambda: published({name: pattern})),
    ):
        if why is None:
            made()
            continue
        with pytest.raises(ProjectError, match=re.escape(f"{name} = {pattern}: {why}")) as raised:
            made()
        assert raised.value.location == PLACE


def test_patterns_belong_to_json_and_csv(spark: SparkSession) -> None:
    with pytest.raises(ProjectError, match=r"dateFormat means nothing for format avro\n.*json and csv"):
        source(spark, {"format": "avro", "dateFormat": "yyyy"})
    with pytest.raises(ProjectError, match="timestampFormat means nothing for format protobuf"):
        published({"format": "protobuf", "timestampFormat": "yyyy"})
