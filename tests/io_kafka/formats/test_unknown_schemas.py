"""Which ids of schemas count as unknown: what the registry says in a first run, and what was recorded of it in a replay, in all formats that
have ids."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from io_kafka.errors import SchemaGone
from io_kafka.formats.encodings import JsonWithRegistry, WithRegistry
from io_kafka.formats.spec import Decoded, SourceFormat
from io_kafka.registry import client
from io_kafka.registry.unknown import UnknownSchemas, join_unknown, judge_by
from tests.io_kafka.formats import avro_messages as a
from tests.io_kafka.formats import protobuf_messages as p
from tests.io_kafka.formats.connect_table import row_schema
from tests.io_kafka.formats.decoding import decode
from tests.schema_registry import SchemaRegistry, schema_registry

COLUMNS = pa.schema([("id", pa.int64())])
PROTO = 'syntax = "proto3"; message {name} {{ int64 id = 1; }}'


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    """An empty one, which the client of this process does not know yet."""
    with schema_registry() as found:
        yield found


def written_in_avro(registry: SchemaRegistry, name: str) -> bytes:
    return a.written(registry, a.record(("id", "long"), name=name), [{"id": 7}])[0]


def written_in_protobuf(registry: SchemaRegistry, name: str) -> bytes:
    text = PROTO.format(name=name)
    return p.framed(registry.add("t-value", text, "PROTOBUF"), p.classes(text)(name)(id=7).SerializeToString())


def written_in_json(registry: SchemaRegistry, name: str) -> bytes:
    schema = {**row_schema(id={"type": "integer", "connect.type": "int64"}), "title": name}
    return a.framed(registry.add("t-value", schema, "JSON"), json.dumps({"id": 7}).encode())


@dataclass
class Reader:
    """The messages of one format, and a way to read them."""

    registry: SchemaRegistry
    encoding: WithRegistry
    write: Callable[[SchemaRegistry, str], bytes]
    forgotten: dict[int, dict[str, object]] = field(default_factory=dict)

    def message(self, name: str) -> tuple[int, bytes]:
        """(the id of a schema of this name, a message with the row 7)."""
        message = self.write(self.registry, name)
        return int.from_bytes(message[1:5], "big"), message

    def forget(self, number: int) -> None:
        """The registry has lost this schema."""
        self.forgotten[number] = self.registry.schemas.pop(number)

    def remember(self) -> None:
        """The registry has all schemas again."""
        self.registry.schemas.update(self.forgotten)

    def read(self, *values: bytes) -> Decoded:
        places = pa.array([0] * len(values), pa.int32()), pa.array(range(len(values)), pa.int64())
        keys = pa.nulls(len(values), pa.binary())
        source = SourceFormat("t", COLUMNS, "append", encoding=self.encoding, key_format="none")
        return decode(source, keys, pa.array(values, pa.binary()), *places)


@pytest.fixture(params=["avro", "protobuf", "json"])
def reader(request: pytest.FixtureRequest, registry: SchemaRegistry) -> Reader:
    address = a.encoding(registry).registry
    ways: dict[str, tuple[WithRegistry, Callable[[SchemaRegistry, str], bytes]]] = {
        "avro": (a.encoding(registry), written_in_avro),
        "protobuf": (p.encoding(registry), written_in_protobuf),
        "json": (JsonWithRegistry(address), written_in_json),
    }
    return Reader(registry, *ways[request.param])


def ids(decoded: Decoded) -> list[int]:
    return decoded.rows.column(0).to_pylist()


def test_a_first_run_tells_which_schemas_are_unknown(reader: Reader) -> None:
    (_, good), (number, bad) = reader.message("One"), reader.message("Two")
    reader.forget(number)
    with judge_by(None) as unknown:
        found = reader.read(good, bad, good)
    assert unknown == {number}
    assert (ids(found), [each.offset for each in found.rejected]) == ([7, 7], [1])
    with judge_by(None) as unknown:
        reader.read(good)
    assert unknown == set(), "nothing of one step counts in another one"


def test_a_replay_takes_for_unknown_what_was_unknown(reader: Reader) -> None:
    """Also if the process has read messages with the schema meanwhile."""
    number, message = reader.message("One")
    reader.forget(number)
    with judge_by(None):
        first = reader.read(message)
    reader.remember()
    client.registry_at.cache_clear()
    assert ids(reader.read(message)) == [7]
    with judge_by(frozenset({number})) as unknown:
        again = reader.read(message)
    assert (ids(again), again.rejected, unknown) == ([], first.rejected, {number})
    assert ids(reader.read(message)) == [7], "which holds for that step alone"


def test_a_replay_does_not_take_for_malformed_what_was_read(reader: Reader) -> None:
    number, message = reader.message("One")
    reader.forget(number)
    with (
        judge_by(frozenset()),
        pytest.raises(SchemaGone, match=f"looking up schema id {number}: it does not have it, and had it") as caught,
    ):
        reader.read(message)
    assert caught.value.number == number
    with judge_by(None):
        assert reader.read(message).rejected
    reader.remember()
    with judge_by(frozenset()) as unknown:
        assert ids(reader.read(message)) == [7], "a replay asks again, although the process has found the id unknown"
    assert unknown == set()


def test_partitions_in_which_the_same_ids_are_unknown_are_recorded_together() -> None:
    found = [
        UnknownSchemas("b", "t", (5, 7), (1,)),
        UnknownSchemas("a", "t", (3,), (1, 2)),
        UnknownSchemas("b", "t", (6, 7), (1,)),
        UnknownSchemas("b", "u", (5,), (1,)),
    ]
    assert join_unknown(found) == (found[1], UnknownSchemas("b", "t", (5, 6, 7), (1,)), found[3])
    assert join_unknown(reversed(found)) == join_unknown(found)
