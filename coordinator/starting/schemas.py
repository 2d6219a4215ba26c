"""The schemas of outputs that are written as Avro or Protobuf are registered when a run starts.

The subjects are those of the registry's TopicNameStrategy: `TOPIC-value` and `TOPIC-key`. A schema follows from the columns of the output, and
a registry gives the same id for the same schema of a subject. So a replay writes the same bytes. If a registry was emptied and gives another id,
the replay differs, and stops.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, assert_never

import pyarrow as pa
import structlog

from base.options import OutputFormatName
from coordinator.specification import PipelineSpec
from engine.model.circuit import Circuit, Output
from io_kafka.formats.avro import declare as avro
from io_kafka.formats.encodings import AvroIds, ProtobufIds, SchemaIds
from io_kafka.formats.protobuf import declare as protobuf
from io_kafka.formats.spec import OutputFormat
from io_kafka.registry.client import registry_at

_log = structlog.get_logger("coordinator.starting.schemas")


class Subject(NamedTuple):
    """A schema and the subject under which it is registered. `kind`: AVRO or PROTOBUF."""

    name: str
    text: str
    kind: str


def registered(spec: PipelineSpec) -> Mapping[str, SchemaIds]:
    """The ids of the schemas of the outputs that have some, by handle. Raises RegistryUnreachable and RegistryRefused."""
    found: dict[str, SchemaIds] = {}
    for output in spec.outputs:
        if output.registry is None:
            continue
        registry, node = registry_at(output.registry), _node_of(spec.circuit, output.handle)
        subjects = subjects_of(output.topic, form_of(spec.circuit, node), node.format)
        value, *keys = [registry.register(subject.name, subject.text, subject.kind) for subject in subjects]
        key = keys[0] if keys else None
        found[output.handle] = AvroIds(value, key) if node.format == "avro" else ProtobufIds(value, key)
        _log.info("schemas are registered", output=output.handle, value=value, key=key)
    return found


def subjects_of(topic: str, form: OutputFormat, name: OutputFormatName) -> list[Subject]:
    """That of values, and that of keys if they have the format of values. None for a format without schemas. Raises FormatError."""
    match name:
        case "avro":
            value, key, kind = avro.value_schema, avro.key_schema, "AVRO"
        case "protobuf":
            value, key, kind = protobuf.value_schema, protobuf.key_schema, "PROTOBUF"
        case "json" | "csv" | "text":
            return []
        case _:
            assert_never(name)
    found = [Subject(f"{topic}-value", value(form), kind)]
    if form.key and form.key_format in (None, name):
        found.append(Subject(f"{topic}-key", key(form), kind))
    return found


def _node_of(circuit: Circuit, handle: str) -> Output:
    return next(node for node in circuit.nodes if isinstance(node, Output) and node.handle == handle)


def form_of(circuit: Circuit, node: Output) -> OutputFormat:
    """The columns of an output."""
    types = circuit.nodes[node.inputs[0]].types
    schema = pa.schema([pa.field(name, kind) for name, kind in zip(node.names, types, strict=True)])
    key = tuple(node.names[column] for column in node.key)
    return OutputFormat(node.handle, schema, node.mode, key, key_format=node.key_format)
