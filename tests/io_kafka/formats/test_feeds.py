# ruff: noqa: E501 (messages of other tools: more readable in long lines)
"""What other tools write into topics: which messages are rows, which delete rows, and which are no rows of the table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from base.options import Mode
from io_kafka.formats.encodings import PlainAvro
from io_kafka.formats.names import Ambiguous, fields_of
from io_kafka.formats.spec import Decoded, SourceFormat
from tests.io_kafka.formats import avro_messages, protobuf_messages
from tests.io_kafka.formats import connect_table as t
from tests.io_kafka.formats.decoding import decode
from tests.schema_registry import SchemaRegistry, schema_registry

ROW = pa.schema([("id", pa.int64()), ("name", pa.string()), ("price", pa.float64())])
KEY = b'{"id":1}'


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as found:
        yield found


def octets(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else json.dumps(value).encode()


def decoded(
    schema: pa.Schema, values: Sequence[Any], mode: Mode = "append", *, keys: Sequence[Any] | None = None, **more: Any
) -> Decoded:
    key = () if mode == "append" else more.pop("key", ("id",))
    count = len(values)
    return decode(
        SourceFormat("t", schema, mode, key, **more),
        pa.array([octets(key) for key in keys or [None] * count], pa.binary()),
        pa.array([octets(value) for value in values], pa.binary()),
        pa.array([3] * count, pa.int32()),
        pa.array(range(count), pa.int64()),
    )


def rows(found: Decoded) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in found.rows.to_pylist()]


def reasons(found: Decoded) -> dict[int, str]:
    return {rejected.offset: rejected.reason for rejected in found.rejected}


DATA = {"id": 1, "name": "x", "price": 5.15}
OTHER_TOOLS = {
    "Maxwell": {"database": "shop", "table": "p", "type": "insert", "ts": 1477053217, "xid": 23396, "commit": True, "data": DATA},
    "Canal": {
        "data": [{"id": "1", "name": "x", "price": "5.15"}], "database": "shop", "es": 1589373560000, "id": 9, "isDdl": False, "mysqlType": {"id": "int"},
        "old": [{"price": "5.18"}], "pkNames": ["id"], "sql": "", "sqlType": {"id": 4}, "table": "p", "ts": 1589373560798, "type": "UPDATE",
    },
    "TiCDC": {"version": 1, "database": "shop", "table": "p", "tableID": 1, "type": "INSERT", "commitTs": 4, "buildTs": 5, "schemaVersion": 6, "data": DATA, "old": None},
    "GoldenGate": {"table": "S.P", "op_type": "I", "op_ts": "2020-05-13 13:39:35.766000", "current_ts": "2020-05-13 13:40:00", "pos": "0001", "after": DATA},
    "CloudEvent": {"specversion": "1.0", "id": 7, "source": "/shop", "type": "com.example.p", "datacontenttype": "application/json", "data": DATA},
    "MongoDB": {
        "_id": {"_data": "8263"}, "operationType": "insert", "clusterTime": {"$timestamp": {"t": 1, "i": 1}}, "fullDocument": DATA | {"_id": "x"},
        "ns": {"db": "shop", "coll": "p"}, "documentKey": {"_id": "x"},
    },
    "its data": {"data": DATA, "metadata": {"timestamp": "2019-10-31T22:53:59.721201Z", "record-type": "data", "operation": "insert", "table-name": "p"}},
    "its message.data": {"magic": "atMSG", "type": "DT", "headers": None, "message": {"data": DATA, "beforeData": None, "headers": {"operation": "INSERT"}}},
    "its after": {"after": DATA, "updated": "1532377312562986715.0000000000"},
    "its payload": {"payload": DATA},
    "its rows[]": {"rows": [DATA]},
}  # fmt: skip


@pytest.mark.parametrize("tool", OTHER_TOOLS)
def test_a_message_around_a_row_is_no_row_of_nulls(tool: str) -> None:
    """Also if the table has columns of the names by which the tool speaks of its message, such as `id`."""
    message = OTHER_TOOLS[tool]
    row = {"id": 2, "name": None, "price": None}
    for mode in ("append", "upsert"):
        found = decoded(ROW, [message, row], mode, keys=[KEY, b"2"])  # type: ignore[arg-type]
        assert tool in reasons(found)[0] and "none of the table's columns" in reasons(found)[0]
        assert "docs/formats.md, Changes of other tools" in reasons(found)[0]
        assert [each[:3] for each in rows(found)] == [(2, None, None)]
    declared = pa.schema([(name, pa.string()) for name in message])
    assert len(rows(decoded(declared, [message]))) == 1, "who declares the message as it is reads it"


@pytest.mark.parametrize("tool", ["Maxwell", "Canal", "TiCDC", "GoldenGate", "CloudEvent", "MongoDB"])
def test_a_changelog_names_the_tool_whose_changes_it_does_not_read(tool: str) -> None:
    found = decoded(ROW, [OTHER_TOOLS[tool], {"op": None, "after": DATA}], "changelog", keys=[KEY] * 2)
    no_op = "no op: not a change in Debezium's envelope"
    assert reasons(found)[0].startswith(f"{no_op}; th") and tool in reasons(found)[0]
    assert reasons(found)[1] == no_op


def test_columns_of_the_names_that_an_envelope_has_are_no_rows_either() -> None:
    """The identity of MongoDB's change, and the `op` of Debezium's."""
    of_mongo = pa.schema([("_id", pa.string()), ("name", pa.string()), ("price", pa.float64())])
    found = decoded(of_mongo, [OTHER_TOOLS["MongoDB"], {"_id": "y", "name": None}])
    assert "publish.full.document.only" in reasons(found)[0] and rows(found) == [("y", None, None, 1)]
    with_op = pa.schema([("id", pa.int64()), ("name", pa.string()), ("op", pa.string())])
    changes = [
        {"before": {"id": 1}, "after": None, "op": "d"},
        {"before": None, "after": {"id": 1, "name": "x"}, "op": "c"},
    ]
    found = decoded(with_op, [*changes, {"id": 2, "op": "c"}], "upsert", keys=[b"1", b"1", b"2"])
    assert all("'mode' = 'changelog'" in reasons(found)[at] for at in (0, 1)) and rows(found)[0][:3] == (2, None, "c")
    as_it_is = pa.schema([("op", pa.string()), ("after", pa.string())])
    assert decoded(as_it_is, changes).rows.num_rows == 2


def test_messages_without_any_column_are_rows_of_null_as_spark_has_them() -> None:
    beats = [{}, {"type": "heartbeat"}, {"type": "heartbeat", "node": {"id": 3}}, {"id": None, "of": DATA}]
    assert rows(decoded(ROW, beats)) == [(None, None, None, 1)] * 4


def test_names_in_another_case_are_named() -> None:
    """`from_json` would find none of them. One that is found is enough for a row."""
    found = decoded(ROW, [{"ID": 1, "NAME": "x", "Other": 1}, {"id": 1, "NAME": "x"}])
    assert reasons(found) == {
        0: "it has ID, NAME, Other, and none of the table's columns; names have the message's case: declare ID, NAME"
    }
    assert rows(found) == [(1, None, None, 1)]
    for key in ((), ("id",)):
        change = {"before": None, "after": {"ID": 1, "NAME": "x"}, "op": "c"}
        of_change = decoded(ROW, [change], "changelog", keys=[KEY], key=key)
        assert reasons(of_change)[0].startswith("its after has ID, NAME, and none of the table's columns")


IMAGE = {"ID": 1, "Name": "x", "deep": {"A": 2}}
DEEP = pa.schema([("id", pa.int64()), ("name", pa.string()), ("deep", pa.struct([("a", pa.int64())]))])


def connect_struct() -> Any:
    deep = {"type": "struct", "optional": True, "fields": [{"type": "int64", "optional": True, "field": "A"}]}
    return t.row_schema(ID={"type": "int64"}, Name={"type": "string"}, deep=deep)


def test_a_schema_names_fields_in_any_case(registry: SchemaRegistry) -> None:
    """So find Spark's own readers of Avro and Protobuf the fields of their schemas."""
    record = avro_messages.record(
        ("ID", "long"), ("Name", "string"), ("deep", avro_messages.record(("A", "long"), name="Deep"))
    )
    proto = (
        'syntax = "proto3"; message Row { int64 ID = 1; string Name = 2; Deep deep = 3; message Deep { int64 A = 1; } }'
    )
    number = registry.add("proto-value", proto, "PROTOBUF")
    made = protobuf_messages.classes(proto)("Row")(ID=1, Name="x", deep={"A": 2}).SerializeToString()
    for message, more in (
        (t.wrapped(connect_struct(), IMAGE), {}),
        (avro_messages.written(registry, record, [IMAGE])[0], {"encoding": avro_messages.encoding(registry)}),
        (protobuf_messages.framed(number, made), {"encoding": protobuf_messages.encoding(registry)}),
    ):
        assert rows(decoded(DEEP, [message], **more)) == [(1, "x", {"a": 2}, 1)]
    key = t.wrapped({"type": "struct", "fields": [{"type": "int64", "field": "ID"}]}, {"ID": 1})
    assert rows(decoded(DEEP, [None], "upsert", keys=[key])) == [(1, None, None, True, 3, 0)]


def test_a_field_of_the_columns_own_name_goes_before_one_in_another_case() -> None:
    assert fields_of(["id", "ID", "b"], ["ID", "B", "c"]) == {"ID": "ID", "b": "B"}
    assert fields_of(["id"], ["ID", "id", "Id"]) == {"id": "id"}
    with pytest.raises(Ambiguous, match="column id: the fields ID and Id have its name in another case"):
        fields_of(["id"], ["ID", "Id"])


def test_two_fields_in_other_cases_are_malformed(registry: SchemaRegistry) -> None:
    twice = avro_messages.record(("ID", "long"), ("Id", "long"), ("name", "string"))
    avro = avro_messages.written(registry, twice, [{"ID": 1, "Id": 2, "name": "x"}])
    wrapped = t.wrapped(t.row_schema(ID={"type": "int64"}, Id={"type": "int64"}), {"ID": 1, "Id": 2})
    for message, more in ((avro[0], {"encoding": avro_messages.encoding(registry)}), (wrapped, {})):
        assert "the fields ID and Id have its name in another case" in reasons(decoded(ROW, [message], **more))[0]


FLAGGED = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string(), nullable=False)])


def test_a_deletion_that_is_a_row_deletes_its_key(registry: SchemaRegistry) -> None:
    """As `delete.tombstone.handling.mode` = `rewrite` of ExtractNewRecordState writes it, and in MongoDB's connector with a boolean and no
    column. In Avro and JSON, with a schema and without one."""
    row, gone = {"id": 1, "name": "x", "__deleted": "false"}, {"id": 1, "name": "x", "__deleted": "true"}
    typed = t.row_schema(id={"type": "int64"}, name={"type": "string"}, __deleted={"type": "string"})
    of_mongo = t.row_schema(__deleted={"type": "boolean"})
    text, boolean = (
        avro_messages.record(
            ("id", "long"), ("name", ["null", "string"]), ("__deleted", ["null", kind]), name=f"R{kind}"
        )
        for kind in ("string", "boolean")
    )
    avro = {"encoding": avro_messages.encoding(registry)}
    feeds: list[tuple[list[Any], dict[str, Any]]] = [
        ([row, gone], {}),
        ([row | {"__deleted": False}, {"__deleted": True}], {}),
        ([t.wrapped(typed, row), t.wrapped(typed, gone)], {}),
        ([row, t.wrapped(of_mongo, {"__deleted": True})], {}),
        (avro_messages.written(registry, text, [row, gone | {"name": None}], "text"), avro),
        (
            avro_messages.written(
                registry, boolean, [row | {"__deleted": False}, gone | {"__deleted": True}], "boolean"
            ),
            avro,
        ),
    ]
    for values, more in feeds:
        found = decoded(FLAGGED, values, "upsert", keys=[KEY] * 2, **more)
        assert (rows(found), reasons(found)) == ([(1, "x", False, 3, 0), (1, None, True, 3, 1)], {})
    without_key = decoded(FLAGGED, [gone], "upsert")
    assert rows(without_key) == [(1, None, True, 3, 0)], "the row has the key's columns too"


def test_a_flag_that_is_neither_text_nor_boolean_is_named(registry: SchemaRegistry) -> None:
    schema = avro_messages.record(("id", "long"), ("name", "string"), ("__deleted", "int"))
    message = avro_messages.written(registry, schema, [{"id": 1, "name": "x", "__deleted": 1}], "int")[0]
    for value, encoding in (
        (message, avro_messages.encoding(registry)),
        (message[5:], PlainAvro(json.dumps(schema))),
    ):
        more = {"encoding": encoding, "keys": [KEY]}
        why = "column __deleted: the writer's type is int, which is not read as STRING; declare INT"
        assert reasons(decoded(FLAGGED, [value], "upsert", **more))[0].endswith(why)
        declared = FLAGGED.append(pa.field("__deleted", pa.int32()))
        assert rows(decoded(declared, [value], "upsert", **more)) == [(1, "x", 1, False, 3, 0)]


def test_a_table_that_declares_the_flag_has_deleted_rows() -> None:
    declared = FLAGGED.append(pa.field("__deleted", pa.string()))
    gone = {"id": 1, "name": "x", "__deleted": "true"}
    assert rows(decoded(declared, [gone], "upsert", keys=[KEY])) == [(1, "x", "true", False, 3, 0)]
    assert rows(decoded(FLAGGED, [gone])) == [(1, "x", 1)], "in mode append a message is a row of its own"


def change(op: str, before: Any, after: Any) -> Any:
    return {"before": before, "after": after, "op": op}


def test_an_update_that_changes_the_key_deletes_the_former_row() -> None:
    before, after = {"id": 1, "name": "a", "price": 1.0}, {"id": 2, "name": "b", "price": 1.0}
    values = [
        change("u", before, after),
        change("u", before, before),
        change("u", None, after),
        change("c", before, after),
    ]
    for keys in ([None] * 4, [b"2", b"1", b"2", b"2"]):
        found = decoded(ROW, values, "changelog", keys=keys)
        assert rows(found) == [
            (1, None, None, True, ~3, 0),
            (2, "b", 1.0, False, 3, 0),
            (1, "a", 1.0, False, 3, 1),
            (2, "b", 1.0, False, 3, 2),
            (2, "b", 1.0, False, 3, 3),
        ]
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("v", pa.int64())])
    partly = change("u", {"a": 1, "b": None}, {"a": 2, "b": 1, "v": 3})
    found = decoded(schema, [partly], "changelog", key=("a", "b"))
    assert rows(found) == [(2, 1, 3, False, 3, 0)], "PostgreSQL sends only a part of the former key"


def test_a_row_that_moves_without_a_value_is_malformed() -> None:
    """The row that has the value goes away with the former key."""
    after = {"id": 2, "name": "__debezium_unavailable_value"}
    found = decoded(ROW, [change("u", {"id": 1, "name": "a"}, after)], "changelog")
    assert rows(found) == [] and "column name: the database has not sent its value" in reasons(found)[0]
    assert "the update changes the key" in reasons(found)[0]


def test_a_message_that_names_no_key_is_malformed_and_no_row_of_null() -> None:
    """All such messages would be one row. A NULL in the key that was sent is one."""
    values = [{"name": "x"}, {"id": None, "name": "x"}, {"name": "x"}]
    for mode, sent in (("upsert", values), ("changelog", [change("c", None, value) for value in values])):
        found = decoded(ROW, sent, mode, keys=[None, None, b'{"id":null}'])  # type: ignore[arg-type]
        assert rows(found) == [(None, "x", None, False, 3, 2)]
        assert [reason.split(",")[0] for reason in reasons(found).values()] == ["it has no key"] * 2
        unread = decoded(ROW, sent[:1], mode, key_format="none")  # type: ignore[arg-type]
        assert rows(unread) == [(None, "x", None, False, 3, 0)], "the project says that there are no keys"


def test_keys_that_are_no_text_are_malformed() -> None:
    """Different bytes would become the same text. The default of `key.format` is for keys in JSON and for texts."""
    schema = pa.schema([("k", pa.string()), ("v", pa.int64())])
    keys = [b"\x91\xff" * 8, b"\x91\xfe" * 8, b'{"k":"\xff"}', b"\0\0\0\x07", "é".encode(), b"a\nb"]
    found = decoded(schema, [{"v": 1}] * len(keys), "upsert", keys=keys, key=("k",))
    assert [row[0] for row in rows(found)] == ["é", "a\nb"]
    assert all("are no text; set 'key.format'" in reason for reason in reasons(found).values())


def test_a_typed_key_may_have_a_null_but_not_lack_a_column() -> None:
    schema = {"type": "struct", "optional": False, "fields": [{"type": "int64", "optional": True, "field": "id"}]}
    other = {"type": "struct", "optional": False, "fields": [{"type": "int64", "optional": True, "field": "pk"}]}
    keys = [t.wrapped(schema, {"id": None}), t.wrapped(other, {"pk": 1})]
    found = decoded(ROW, [{"name": "x"}] * 2, "upsert", keys=keys)
    assert rows(found) == [(None, "x", None, False, 3, 0)]
    assert reasons(found) == {1: "key: column id is missing; its schema has pk"}


def test_documents_of_mongodb_are_named() -> None:
    text = '{"_id": {"$oid": "5f"}, "name": "x"}'
    json_text = {"type": "string", "optional": True, "name": "io.debezium.data.Json"}
    envelope = t.row_schema(before=json_text, after=json_text, op={"type": "string"})
    for message in (change("c", None, text), t.wrapped(envelope, change("c", None, text))):
        assert "use ExtractNewDocumentState" in reasons(decoded(ROW, [message], "changelog", keys=[KEY]))[0]
