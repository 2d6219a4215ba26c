"""The schemas of outputs that are written as Avro are registered when a run starts.

The subjects are those of the registry's TopicNameStrategy: `TOPIC-value` and `TOPIC-key`. A schema follows from the columns of the output, and
a registry gives the same id for the same schema of a subject. So a replay writes the same bytes. If a registry was emptied and gives another id,
the replay differs, and stops.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import structlog

from coordinator.specification import PipelineSpec
from engine.model.circuit import Circuit, Output
from io_kafka.formats.avro.declare import key_schema, value_schema
from io_kafka.formats.encodings import AvroIds
from io_kafka.formats.spec import OutputFormat
from io_kafka.registry.client import registry_at

_log = structlog.get_logger("coordinator.schemas")


def registered(spec: PipelineSpec) -> Mapping[str, AvroIds]:
    """The ids of the schemas of the outputs that are written as Avro, by handle. Raises RegistryUnreachable and RegistryRefused."""
    found: dict[str, AvroIds] = {}
    for output in spec.outputs:
        if output.registry is None:
            continue
        registry, form = registry_at(output.registry), form_of(spec.circuit, output.handle)
        value = registry.register(f"{output.topic}-value", value_schema(form))
        of_key = key_schema(form)
        key = None if of_key is None else registry.register(f"{output.topic}-key", of_key)
        found[output.handle] = AvroIds(value, key)
        _log.info("schemas are registered", output=output.handle, value=value, key=key)
    return found


def form_of(circuit: Circuit, handle: str) -> OutputFormat:
    """The columns of an output."""
    node = next(node for node in circuit.nodes if isinstance(node, Output) and node.handle == handle)
    types = circuit.nodes[node.inputs[0]].types
    schema = pa.schema([pa.field(name, kind) for name, kind in zip(node.names, types, strict=True)])
    return OutputFormat(handle, schema, node.mode, tuple(node.names[column] for column in node.key))
