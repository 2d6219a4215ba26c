"""Circuits and sources as JSON: what is written can be read back, and nothing else can."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, get_args

import pyarrow as pa
import pytest

from base import arrow_names
from base.text.patterns import Patterns
from engine.analysis.filling import Program
from engine.model.aggregates import Aggregate, ValuesCall
from engine.model.circuit import Circuit
from engine.model.ordered import Months, Window, WindowCall, WindowFrame
from engine.model.python_call import PythonCall, PythonFunction
from engine.model.rows import PythonMap, Source
from engine.run.plan_document import BadDocument, text_of, value_of
from engine.run.program_document import ProgramDocument, program_of
from engine.run.source_table import SourceTable
from io_kafka.formats.batches import TableFormat
from io_kafka.formats.encodings import (
    Avro,
    Csv,
    DescribedProtobuf,
    Encoding,
    JsonWithRegistry,
    PlainAvro,
    Protobuf,
    Text,
)
from io_kafka.formats.records import RecordFormat
from io_kafka.formats.spec import SourceFormat
from io_kafka.formats.text_limits import TextLimit
from io_kafka.offsets import TopicPartition
from io_kafka.registry.address import RegistryAddress
from tests.engine.every_kind import every_kind

NUMBERS = Source((), (pa.int64(),), "numbers")
REGISTRY = RegistryAddress("http://registry:8081", "user:secret")
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])


def circuit_text(circuit: Circuit) -> str:
    return text_of(circuit, Circuit)


def circuit_of(text: str) -> Circuit:
    return value_of(text, Circuit)


def test_every_kind_of_node_is_read_back() -> None:
    circuit = every_kind()
    text = circuit_text(circuit)
    assert circuit_of(text) == circuit
    assert circuit_text(circuit_of(text)) == text


@pytest.mark.parametrize("parameters", [(0.5, float("inf"), -0.0), (b"\x00\xff", "a", ""), ()])
def test_constants_of_functions_are_read_back(parameters: tuple[Any, ...]) -> None:
    call = ValuesCall("percentile_cont", 0, False, pa.float64(), None, parameters)
    circuit = Circuit((NUMBERS, Aggregate((0,), (pa.float64(),), (), (call,))))
    again = circuit_of(circuit_text(circuit)).nodes[1]
    assert isinstance(again, Aggregate) and isinstance(again.calls[0], ValuesCall)
    assert repr(again.calls[0].parameters) == repr(parameters)
    over = WindowCall("first_k", 0, WindowFrame("rows", None, 0), pa.float64(), parameters=parameters, field=1)
    circuit = Circuit((NUMBERS, Window((0,), (pa.int64(), pa.float64()), (), (), (over,))))
    window = circuit_of(circuit_text(circuit)).nodes[1]
    assert isinstance(window, Window) and repr(window.calls) == repr((over,))


@pytest.mark.parametrize("bound", [None, 3, -2.5, float("-inf"), Months(-14)])
def test_bounds_of_frames_keep_their_type(bound: float | Months | None) -> None:
    call = WindowCall("count", None, WindowFrame("range", bound, None), pa.int64())
    window = Window((0,), (pa.int64(), pa.int64()), (), (), (call,))
    again = circuit_of(circuit_text(Circuit((NUMBERS, window)))).nodes[1]
    assert isinstance(again, Window) and repr(again.calls[0].frame.low) == repr(bound)


def test_a_function_in_python_is_read_back_with_its_pickle() -> None:
    """Two functions are equal if their digests are, so the rest is compared by hand."""
    function = PythonFunction("digest", "f", "views.py:3", b"\x80\x04pickle")
    call = PythonCall((function,), "row", (0,), (), pa.int64(), (("spark.x", "1"),))
    circuit = Circuit((NUMBERS, PythonMap((0,), (pa.int64(), pa.int64()), (call,))))
    again = circuit_of(circuit_text(circuit)).nodes[1]
    assert isinstance(again, PythonMap)
    (found,) = again.calls[0].functions
    assert (found.name, found.place, found.pickled) == ("f", "views.py:3", b"\x80\x04pickle")


ENCODINGS: tuple[Encoding, ...] = (
    None,
    Avro(REGISTRY, '{"type": "record"}'),
    PlainAvro("{}"),
    Csv(";", "NULL"),
    Text(),
    Protobuf(REGISTRY, defaults=True),
    DescribedProtobuf(b"\x01\x02", "a.B", True),
    JsonWithRegistry(REGISTRY),
)


@dataclass(frozen=True)
class Sources:
    tables: tuple[SourceTable, ...]


def sources() -> tuple[SourceTable, ...]:
    formats = [
        SourceFormat(
            "in",
            SCHEMA,
            "upsert",
            ("id",),
            (("name", "topic"),),
            encoding,
            "long",
            (TextLimit(("name", "[]"), 3, True),),
            Patterns(date="dd.MM.yyyy"),
            "gone",
        )
        for encoding in ENCODINGS
    ]
    where = frozenset({TopicPartition("a", 1), TopicPartition("a", 0)})
    return (
        *(SourceTable(f"in{n}", ("a", "b"), form, where, None) for n, form in enumerate(formats)),
        SourceTable("log", (), RecordFormat("log", SCHEMA), None, "log-.*"),
        SourceTable("days", ("t",), TableFormat("days", SCHEMA)),
    )


def test_there_is_a_source_in_every_encoding() -> None:
    """One without a form in a plan document would be noticed when its pipeline starts."""
    assert {type(each) for each in ENCODINGS} == set(get_args(Encoding))


def test_every_source_is_read_back_without_the_password_of_its_registry() -> None:
    text = text_of(Sources(sources()), Sources)
    assert "secret" not in text
    again = value_of(text, Sources)
    assert text_of(again, Sources) == text
    assert [repr(table) for table in again.tables] == [repr(table) for table in sources()]


@pytest.mark.parametrize(
    "kind",
    [
        pa.decimal128(38, 10),
        pa.list_(
            pa.field("element", pa.struct([pa.field("a", pa.map_(pa.string(), pa.duration("ns"))), ("b", pa.null())]))
        ),
        pa.timestamp("us", "UTC"),
        pa.struct([]),
    ],
)
def test_types_are_read_back(kind: pa.DataType) -> None:
    plain = json.loads(json.dumps(arrow_names.to_plain(kind)))
    assert arrow_names.of_plain(plain).equals(kind, check_metadata=True)


@pytest.mark.parametrize("kind", [pa.uint8(), pa.large_string(), pa.timestamp("ns")])
def test_a_type_that_no_circuit_has_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(arrow_names.UnknownType, match="no plain form"):
        arrow_names.to_plain(kind)


def test_a_field_that_came_later_may_be_missing_and_then_has_its_default() -> None:
    text = circuit_text(Circuit((NUMBERS,))).replace('"padded":[],', "")
    assert circuit_of(text).nodes == (NUMBERS,)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Expecting value"),
        ("[]", "not a JSON object"),
        ('{"nodes": [{"kind": "Source"}]}', "inputs"),
        ('{"nodes": [{"kind": "Teleport", "inputs": []}]}', "Teleport"),
        (circuit_text(Circuit((NUMBERS,))).replace('"keyed"', '"new":1,"keyed"'), "new"),
        (circuit_text(Circuit((NUMBERS,))).replace('"int64"', '"int65"'), "int65"),
    ],
)
def test_what_is_no_circuit_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(BadDocument, match=why):
        circuit_of(text)


def test_a_program_whose_parts_do_not_fit_each_other_is_refused() -> None:
    circuit = Circuit((NUMBERS, Aggregate((0,), (pa.int64(),), (0,), ())))
    text = ProgramDocument.of(Program.of(circuit, (1, 2)), ()).text
    assert program_of(text).program.circuit == circuit
    assert '"group":[0]' in text
    with pytest.raises(BadDocument, match="fit each other"):
        program_of(text.replace('"group":[0]', '"group":[7]'))
