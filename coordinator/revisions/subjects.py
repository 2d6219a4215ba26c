"""The schemas that a registry has of an output, and the subjects under which it has them."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from base.options import OutputFormatName
from engine.model.circuit import Circuit, Output
from io_kafka.formats.descriptor import FromRegistry
from io_kafka.formats.spec import OutputFormat
from io_kafka.formats.table import FORMATS


class Subject(NamedTuple):
    """A schema and the subject under which it is registered. `kind`: that of the schema, as registries name it."""

    name: str
    text: str
    kind: str


def subjects_of(topic: str, form: OutputFormat, name: OutputFormatName) -> list[Subject]:
    """Returns the subject of values, and that of keys if they have the format of values. There is none for a format without schemas. Raises
    FormatError."""
    made = FORMATS[name].writes.encoding_from
    if not isinstance(made, FromRegistry):
        return []
    found = [Subject(f"{topic}-value", made.value(form), made.kind)]
    if form.key and form.key_format in (None, name):
        found.append(Subject(f"{topic}-key", made.key(form), made.kind))
    return found


def form_of(circuit: Circuit, node: Output) -> OutputFormat:
    """The columns of an output."""
    types = circuit.nodes[node.inputs[0]].types
    schema = pa.schema([pa.field(name, kind) for name, kind in zip(node.names, types, strict=True)])
    key = tuple(node.names[column] for column in node.key)
    return OutputFormat(node.handle, schema, node.mode, key, key_format=node.written.key_format)
