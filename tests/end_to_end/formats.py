"""Topics in other formats as the batch answer sees them: each message as the JSON that says the same."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro

from examples.batch import TopicMessage, batch_answer, compare, published
from tests.end_to_end.harness import Playground, Resolved
from tests.io_kafka.formats import protobuf_messages as p
from tests.schema_registry import SchemaRegistry

AsJson = Callable[[bytes], bytes | None]
"""A key or a value -> JSON; None if it is malformed, and NOTHING if it stands for none."""

NOTHING = b"null"


def spelt(value: Any) -> Any:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case datetime() | date():
            return value.isoformat()
        case Decimal():
            return str(value)
    raise TypeError(value)


def of_avro(registry: SchemaRegistry) -> AsJson:
    def as_json(message: bytes) -> bytes | None:
        number = int.from_bytes(message[1:5], "big")
        if message[:1] != b"\x00" or number not in registry.schemas:
            return None
        schema = fastavro.parse_schema(json.loads(registry.schemas[number]["schema"]))
        return json.dumps(fastavro.schemaless_reader(io.BytesIO(message[5:]), schema, None), default=spelt).encode()

    return as_json


def of_protobuf(registry: SchemaRegistry) -> AsJson:
    """Of messages whose schema has no other message in its path than the first."""

    def as_json(message: bytes) -> bytes:
        schema = registry.schemas[int.from_bytes(message[1:5], "big")]
        assert (schema["schemaType"], message[5]) == ("PROTOBUF", 0)
        found = p.of_google(p.message_class(schema["schema"]).FromString(message[6:]))
        return json.dumps(found, default=spelt).encode()

    return as_json


def of_connect(message: bytes) -> bytes | None:
    """What JsonConverter has wrapped, and plain messages beside it. It shares no code with the reader. Text with a time of day in it has the
    form 31.12.2024 23:59."""
    whole = json.loads(message)
    schema, payload = (whole["schema"], whole["payload"]) if "schema" in whole else (None, whole)
    try:
        return NOTHING if payload is None else json.dumps(_plain(schema, payload), default=spelt).encode()
    except ValueError:
        return None


def _plain(schema: Any, value: Any) -> Any:
    if schema is None and isinstance(value, dict):
        return {name: _plain(None, inner) for name, inner in value.items()}
    if schema is None or value is None:
        return _moment(value) if isinstance(value, str) else value
    if schema["type"] == "struct":
        fields = {field["field"]: field for field in schema["fields"]}
        return {name: _plain(fields[name], inner) for name, inner in value.items()}
    if schema["type"] == "array":
        return [_plain(schema["items"], inner) for inner in value]
    match schema.get("name", "").rpartition(".")[2]:
        case "Decimal":
            unscaled = int.from_bytes(base64.b64decode(value, validate=True), "big", signed=True)
            return Decimal(unscaled).scaleb(-int(schema["parameters"]["scale"]))
        case "Date":
            return date(1970, 1, 1) + timedelta(days=value)
        case "Timestamp":
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value)
        case "MicroTimestamp":
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
    return _moment(value) if isinstance(value, str) else value


def _moment(text: str) -> str:
    """Raises ValueError."""
    return datetime.strptime(text, "%d.%m.%Y %H:%M").isoformat() if ":" in text else text


def check(
    play: Playground, resolved: Resolved, values: dict[str, AsJson], keys: dict[str, AsJson], outputs: dict[str, AsJson]
) -> dict[str, int]:
    """Each of the views `outputs` is what Spark's batch answer says; its number of rows by view. `values`, `keys`: by topic, without the
    prefix; those that are not there are JSON."""

    def input_of(name: str, messages: Sequence[TopicMessage]) -> list[TopicMessage]:
        if name not in values:
            return list(messages)
        said = [m._replace(value=None if m.value is None else values[name](m.value)) for m in messages]
        good = [m for m, was in zip(said, messages, strict=True) if was.value is None or m.value is not None]
        good = [m._replace(value=None) if m.value == NOTHING else m for m in good]
        if name not in keys:
            return good
        return [m._replace(key=None if m.key is None else keys[name](m.key)) for m in good]

    names = {topic.removeprefix(play.prefix) for source in resolved.project.sources for topic in source.topics}
    inputs = {play.prefix + n: input_of(n, [m.as_input for m in play.read(n)]) for n in names}
    expected = batch_answer(resolved.project, inputs)
    rows: dict[str, int] = {}
    for view, output in zip(resolved.project.views, resolved.spec.outputs, strict=True):
        if view.name not in outputs:
            continue
        found = [m.as_input for m in play.read(output.topic, prefixed=False)]
        found = [m._replace(value=None if m.value is None else outputs[view.name](m.value)) for m in found]
        compared = compare(view.name, published(play.spark, view, found), expected[view.name])
        assert compared.equal, compared
        rows[view.name] = compared.rows
    return rows
