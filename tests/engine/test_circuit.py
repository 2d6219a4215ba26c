"""The JSON form of a circuit. State belongs to it, so it may not change by accident."""

from __future__ import annotations

import json
import pickle
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pytest

from base.options import OutputFormatName, OutputKeyFormat
from base.text.patterns import NO_PATTERNS, Patterns
from engine.model.circuit import Circuit, Node, Output, ProjectNode, View, plain_fields
from engine.model.node import NodeBase
from engine.model.ordered import Months, Window, WindowCall, WindowFrame
from engine.model.rows import Source
from io_kafka.formats.table import options_of_outputs
from io_kafka.formats.written import Written
from tests.engine.every_kind import every_kind

PINNED = Path(__file__).parent / "every_kind.jsonl"
"""One line per node. If this changes, existing state belongs to another circuit, and every start is refused."""


def test_the_json_form_of_every_kind_of_node_never_changes() -> None:
    written = [json.dumps(node, sort_keys=True) for node in json.loads(every_kind().to_json())]
    assert written == PINNED.read_text().splitlines()


def test_every_kind_of_node_is_in_the_circuit_that_is_pinned() -> None:
    assert {type(node) for node in every_kind().nodes} == set(get_args(ProjectNode))


def test_every_node_class_is_in_the_union() -> None:
    """mypy checks a `match` over nodes against `Node`, so it would not notice a class that is not in the union."""
    assert set(NodeBase.__subclasses__()) == set(get_args(Node))


def test_sources_views_and_outputs_are_found_by_their_names() -> None:
    circuit = every_kind()
    named = {
        (type(node), getattr(node, "name", getattr(node, "handle", ""))): i for i, node in enumerate(circuit.nodes)
    }
    assert circuit.sources == {name: index for (kind, name), index in named.items() if kind is Source}
    assert circuit.views == {name: index for (kind, name), index in named.items() if kind is View}
    assert circuit.outputs == {name: index for (kind, name), index in named.items() if kind is Output}
    assert circuit.sources and circuit.views and circuit.outputs
    views = circuit.nodes_of(View)
    assert [*views] == [*circuit.views.values()] and [view.name for view in views.values()] == [*circuit.views]


def written(
    format_: OutputFormatName, key: OutputKeyFormat | None = None, patterns: Patterns = NO_PATTERNS, **options: str
) -> Written:
    return Written(format_, key, tuple((f"csv.{name}", value) for name, value in options.items()), patterns)


@pytest.mark.parametrize(
    ("output", "added"),
    [
        (
            written("csv", "string", Patterns("yyyy", "yyyy-MM", "yyyy-MM-dd"), sep=";", nullValue="N"),
            {
                "format": "csv", "key_format": "string", "csv_separator": ";", "csv_null": "N", "date_format": "yyyy",
                "timestamp_format": "yyyy-MM", "timestamp_ntz_format": "yyyy-MM-dd",
            },
        ),
        (written("csv"), {"format": "csv"}),
        (written("csv", nullValue="NA"), {"format": "csv", "csv_null": "NA"}),
        (written("avro"), {"format": "avro"}),
        (written("avro", "json"), {"format": "avro", "key_format": "json"}),
        (written("protobuf", "long"), {"format": "protobuf", "key_format": "long"}),
        (written("text", "int"), {"format": "text", "key_format": "int"}),
        (written("json", None, Patterns("dd", None, "ss")), {"date_format": "dd", "timestamp_ntz_format": "ss"}),
        (written("json"), {}),
    ],
)  # fmt: skip
def test_how_an_output_is_written_stands_beside_its_fields(output: Written, added: dict[str, str]) -> None:
    """As the JSON form was when each of these was a field of the node."""
    types = (pa.string(), pa.int32())
    node = Output((0,), (), "v", "append", ("a", "b"), (0,), pickle.loads(pickle.dumps(output)))
    (found,) = json.loads(Circuit((node,)).to_json())
    own = {
        "handle": "v",
        "inputs": [0],
        "key": [0],
        "kind": "Output",
        "mode": "append",
        "names": ["a", "b"],
        "types": [],
    }
    assert found == own | added
    node.check([types])


def test_no_option_of_a_format_hides_a_field_or_another_option() -> None:
    own = {field.name for field in fields(Output)} | {"kind", "format", "key_format"}
    recorded = [option.recorded for option in options_of_outputs()]
    assert len({*recorded}) == len(recorded) and not own & {*recorded}


def test_an_option_that_the_format_does_not_have_is_not_ignored() -> None:
    """A project's output would be written without it, and the circuit would not record it."""
    formats: tuple[OutputFormatName, ...] = ("csv", "avro")
    for format_ in formats:
        with pytest.raises(AssertionError, match=rf"format {format_} has no option csv\.header"):
            written(format_, header="true")


def test_bounds_at_a_distance_of_months_are_in_the_json_form() -> None:
    def counted(bound: int | Months) -> Window:
        call = WindowCall("count", None, WindowFrame("range", bound, 0), pa.int64())
        return Window((0,), (pa.date32(), pa.int64()), (), (), (call,))

    assert plain_fields(counted(Months(-14)))["calls"][0]["frame"]["low"] == {"count": -14}
    assert len({Circuit((counted(bound),)).fingerprint for bound in (Months(-14), Months(-2), -14)}) == 3
