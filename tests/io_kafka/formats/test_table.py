"""The table of formats: an omission is an error at import."""

from __future__ import annotations

import pickle
from dataclasses import MISSING, dataclass, fields, replace
from typing import get_args

import pyarrow as pa
import pytest

from base.options import OutputFormatName, OutputKeyFormat
from base.text.patterns import NO_PATTERNS, Patterns
from io_kafka.formats.descriptor import Format, FromOptions, FromRegistry, Reading, Writing
from io_kafka.formats.encode import encode
from io_kafka.formats.encodings import AvroIds, Csv, Encoding, OutputEncoding, ProtobufIds, SchemaIds, Text
from io_kafka.formats.spec import OutputFormat, SourceFormat, Unwritable
from io_kafka.formats.table import (
    FORMATS,
    by_name,
    check_registries,
    format_of,
    ids_of,
    name_of,
    reading_of,
    writing_of,
)
from io_kafka.formats.written import Written
from io_kafka.registry.address import RegistryAddress
from tests.io_kafka.formats import avro_messages as a

ALL = tuple(FORMATS.values())


@pytest.mark.parametrize("kind", [Format, Reading, Writing, FromOptions, FromRegistry])
def test_no_field_of_a_descriptor_has_a_default(kind: type) -> None:
    assert all(each.default is MISSING and each.default_factory is MISSING for each in fields(kind))


@pytest.mark.parametrize(
    "formats",
    [
        ALL[:-1],
        (*ALL, ALL[0]),
        (replace(ALL[0], reads=ALL[0].reads[:1]), *ALL[1:]),
        (replace(ALL[0], reads=(*ALL[0].reads, replace(ALL[0].reads[0], encoding=dict))), *ALL[1:]),
        (replace(ALL[0], writes=ALL[1].writes), *ALL[1:]),
        (replace(ALL[0], name="other"), *ALL[1:]),  # type: ignore[arg-type]
    ],
)
def test_a_format_or_an_encoding_without_one_descriptor_is_refused(formats: tuple[Format, ...]) -> None:
    with pytest.raises(TypeError, match=r"descriptors in io_kafka/formats/table\.py, wanted 1"):
        by_name(formats)


def test_an_encoding_with_a_registry_has_to_derive_from_the_class_that_says_so() -> None:
    @dataclass(frozen=True)
    class Thrift:
        registry: RegistryAddress

    check_registries(get_args(Encoding))
    with pytest.raises(TypeError, match=r"Thrift'> has a registry, so it has to derive from WithRegistry"):
        check_registries([*get_args(Encoding), Thrift])


def test_the_ids_of_schemas_say_their_format_by_its_name() -> None:
    with_schemas = [each for each in ALL if isinstance(each.writes.encoding_from, FromRegistry)]
    assert {name_of(ids_of(each.name, 1, None)) for each in with_schemas} == {each.name for each in with_schemas}
    assert {type(ids_of(each.name, 1, None)) for each in with_schemas} == set(SchemaIds.__subclasses__())
    with pytest.raises(AssertionError, match="csv has no schemas"):
        ids_of("csv", 1, None)


def test_what_has_an_encoding_finds_its_descriptor_after_pickling() -> None:
    source = pickle.loads(pickle.dumps(SourceFormat("t", a.EVERY_TYPE)))
    output = pickle.loads(pickle.dumps(OutputFormat("v", a.EVERY_TYPE)))
    assert format_of(source.encoding) is FORMATS["json"]
    assert reading_of(source.encoding) is FORMATS["json"].reads[0]
    assert writing_of(output.encoding) is FORMATS["json"].writes


LISTS, MAPS = pa.list_(pa.int64()), pa.map_(pa.string(), pa.string())
ODD = {
    "n": pa.array([None, 2**63 - 1], pa.int64()),
    "x": pa.array([float("nan"), None], pa.float64()),
    "s": pa.array([None, ""], pa.string()),
    "d": pa.array([2**31 - 1, -(2**31)], pa.int32()).cast(pa.date32()),
    "t": pa.array([2**63 - 1, None], pa.int64()).cast(pa.timestamp("us")),
}
NESTED = {"l": pa.array([[None], None], LISTS), "m": pa.array([[("a", None)], None], MAPS)}
ROWS: dict[str, tuple[OutputEncoding, dict[str, pa.Array]]] = {
    "json": (None, ODD | NESTED),
    "avro": (AvroIds(1, 2), ODD | NESTED),
    "protobuf": (ProtobufIds(1, 2), ODD | NESTED),
    "csv": (Csv(), {"s": ODD["s"]}),
    "text": (Text(), {"s": ODD["s"], "id": pa.array([1, 2], pa.int64())}),
}
"""The rows that each format is least likely to have a message for."""


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_says_whether_every_row_has_a_message(name: OutputFormatName) -> None:
    encoding, columns = ROWS[name]
    form, table = FORMATS[name], pa.table(columns)
    outputs = [OutputFormat("v", table.schema, encoding=encoding)]
    if "id" in columns:
        outputs = [OutputFormat("v", table.schema, "upsert", ("id",), encoding)]
        table = table.append_column("deleted", pa.array([False, False]))
    if form.has_changelog:
        image = pa.StructArray.from_arrays(list(columns.values()), list(columns))
        outputs.append(OutputFormat("v", table.schema, "changelog", (), encoding))
        changes = pa.table({"before": image, "after": image.take(pa.array([1, 0]))})
    for output in outputs:
        rows = changes if output.mode == "changelog" else table
        if form.writes.says_every_row:
            assert encode(output, rows).num_rows == 2
        else:
            with pytest.raises(Unwritable):
                encode(output, rows)


@pytest.mark.parametrize("key_format", get_args(OutputKeyFormat))
def test_a_key_format_without_a_null_has_no_message_for_some_rows(key_format: OutputKeyFormat) -> None:
    encoding = {"avro": AvroIds(1, 2), "protobuf": ProtobufIds(1, 2)}.get(key_format)
    kind = pa.string() if key_format == "string" else pa.int32() if key_format == "int" else pa.int64()
    rows = pa.table({"k": pa.array([None], kind), "deleted": [False]})
    output = OutputFormat("v", pa.schema([("k", kind)]), "upsert", ("k",), encoding, key_format)
    try:
        has_message = encode(output, rows).column("key").null_count == 0
    except Unwritable:
        has_message = False
    assert Written("json", key_format, (), NO_PATTERNS).says_every_row == has_message


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_says_whether_its_datetimes_are_texts(name: OutputFormatName) -> None:
    """A pattern changes what is written then, and only then."""
    table = pa.table({"s": ["a"]} if name == "text" else {"t": pa.array([0], pa.timestamp("us"))})
    written = [
        encode(OutputFormat("v", table.schema, "append", (), ROWS[name][0], patterns=patterns), table)
        for patterns in (NO_PATTERNS, Patterns(None, None, "yyyy"))
    ]
    assert (written[0] != written[1]) == FORMATS[name].datetimes_are_texts


@pytest.mark.parametrize("form", ALL)
def test_a_format_asks_its_registry_for_the_kind_of_schemas_that_it_registers(form: Format) -> None:
    encoding_from = form.writes.encoding_from
    kinds = {way.schemas for way in form.reads} - {None}
    assert kinds == ({encoding_from.kind} if isinstance(encoding_from, FromRegistry) else set())
