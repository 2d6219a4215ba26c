"""Debezium's envelope: {"before", "after", "op", ...}, alone or within {"schema", "payload"}.

With the schema, columns are read by their logical type's name: decimals in base64, days, milli-, micro- and
nanoseconds. Without it, a number in a TIMESTAMP column is refused: `from_json` would read it as seconds, but Debezium
may mean any of three units.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa

from base.text.dates import INT32_MAX
from base.text.timestamps import DAY_US, INT64_MAX
from io_kafka.formats import javatext
from io_kafka.formats.exact import Reader, RowReader, read_members, reader, shown
from io_kafka.formats.jackson import Malformed, Members, Node, Number, parse_object, rendered

# Microseconds = number * first // second, by logical type.
_INSTANTS = {
    "org.apache.kafka.connect.data.Timestamp": (1000, 1),
    "io.debezium.time.Timestamp": (1000, 1),
    "io.debezium.time.MicroTimestamp": (1, 1),
    "io.debezium.time.NanoTimestamp": (1, 1000),
    "org.apache.kafka.connect.data.Date": (DAY_US, 1),
    "io.debezium.time.Date": (DAY_US, 1),
}
_DATES = {"org.apache.kafka.connect.data.Date", "io.debezium.time.Date"}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"
# Digits of an unscaled number in base64; a longer one fits no DECIMAL.
DECIMAL_BYTES_MAX = 64

Types = dict[str, dict[str, Any]]  # a struct's fields in the wrapper's schema, by name


def member(node: Members, name: str) -> Node:
    """The value of the last member of that name; null if there is none."""
    return next((value for key, value in reversed(node) if key == name), None)


def unwrap(node: Members) -> tuple[Node, Types | None]:
    """The payload and the types of its fields, if the object is a schema wrapper; else the object itself."""
    names = {name for name, _ in node}
    if names != {"schema", "payload"}:
        return node, None
    schema = member(node, "schema")
    return member(node, "payload"), (_types(rendered(schema)) if isinstance(schema, Members) else None)


@lru_cache(maxsize=256)  # schemas in use at a time: one or two for each topic
def _types(schema: str) -> Types:
    return fields_of(json.loads(schema))


def fields_of(schema: Any) -> Types:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    if not isinstance(fields, list):
        raise Malformed("the wrapper's schema has no list of fields")
    return {f["field"]: f for f in fields if isinstance(f, dict) and isinstance(f.get("field"), str)}


def column_reader(column: str, kind: pa.DataType, types: Types | None, name: str) -> Reader:
    """Reads a column as the wrapper's schema types it; without one, as `from_json` does but for numbers as
    timestamps."""
    plain = reader(column, kind)
    declared = types.get(name, {}) if types is not None else {}
    logical, instant = declared.get("name"), pa.types.is_timestamp(kind)
    if not isinstance(logical, str):
        return _no_number(column, plain) if instant else plain
    if logical == _DECIMAL and pa.types.is_decimal(kind):
        scale = _declared_scale(column, declared)
        return _base64_decimal(column, kind, lambda node: (scale, node))
    if logical == _VARIABLE_DECIMAL and pa.types.is_decimal(kind):
        return _base64_decimal(column, kind, _own_scale)
    if logical in _DATES and pa.types.is_date(kind):
        return _scaled(column, 1, 1, INT32_MAX)
    if logical in _INSTANTS and instant:
        return _scaled(column, *_INSTANTS[logical], INT64_MAX)
    return _no_number(column, plain) if instant else plain


def _no_number(column: str, plain: Reader) -> Reader:
    def read(node: Node) -> Any:
        if isinstance(node, Number):
            raise Malformed(
                f"column {column}: {node.text} is a timestamp of unknown unit; send the schema with the payload"
            )
        return plain(node)

    return read


def _scaled(column: str, times: int, divided: int, highest: int) -> Reader:
    def read(node: Node) -> int | None:
        if node is None:
            return None
        if not isinstance(node, Number) or not node.integral:
            raise Malformed(f"column {column}: {shown(node)} is not a count since the epoch")
        value = int(node.text) * times // divided
        if not -highest - 1 <= value <= highest:
            raise Malformed(f"column {column}: {shown(node)} is out of range")
        return value

    return read


def _declared_scale(column: str, declared: dict[str, Any]) -> int:
    parameters = declared.get("parameters")
    scale = parameters.get("scale", "") if isinstance(parameters, dict) else ""
    if not re.fullmatch(r"-?[0-9]{1,3}", str(scale)):
        raise Malformed(f"column {column}: the wrapper's schema gives its decimal no scale")
    return int(scale)


def _own_scale(node: Node) -> tuple[int, Node]:
    scale = member(node, "scale") if isinstance(node, Members) else None
    if not isinstance(node, Members) or not isinstance(scale, Number) or not scale.integral:
        raise Malformed("a decimal of variable scale needs scale and value")
    return int(scale.text), member(node, "value")


def _base64_decimal(column: str, kind: pa.Decimal128Type, parts: Callable[[Node], tuple[int, Node]]) -> Reader:
    def read(node: Node) -> Decimal | None:
        if node is None:
            return None
        scale, text = parts(node)
        raw = javatext.binary_value(text) if isinstance(text, str) else None
        if raw is None or not 0 < len(raw) <= DECIMAL_BYTES_MAX:
            raise Malformed(f"column {column}: {shown(node)} is not a decimal in base64")
        unscaled = int.from_bytes(raw, "big", signed=True)
        value = javatext.decimal_value(f"{unscaled}e{-scale}", kind.precision, kind.scale)
        if value is None:
            raise Malformed(f"column {column}: {unscaled}e{-scale} does not fit {kind}")
        return value

    return read


def image_reader(place: str, kind: pa.StructType, types: Types | None) -> Reader:
    """Reads `before` or `after`."""
    names = [kind.field(i).name for i in range(kind.num_fields)]
    members = {n: column_reader(f"{place}.{n}", kind.field(n).type, types, n) for n in names}

    def read(node: Node) -> dict[str, Any] | None:
        if node is None:
            return None
        if not isinstance(node, Members):
            raise Malformed(f"{place}: {shown(node)} is not an object")
        return read_members(node, members)

    return read


class EnvelopeReader(RowReader):
    """Messages -> before, after, op. `schema` has those three columns."""

    def __init__(self, schema: pa.Schema) -> None:
        super().__init__(schema)
        self._plain = self._readers(None)
        self._typed: tuple[Types, dict[str, Reader]] | None = None

    def _readers(self, types: Types | None) -> dict[str, Reader]:
        # Connect's schema of the envelope nests those of its images.
        images = {
            place: image_reader(
                place,
                self.schema.field(place).type,
                fields_of(types[place]) if types is not None and place in types else None,
            )
            for place in ("before", "after")
        }
        return {**images, "op": reader("op", pa.string())}

    def read(self, message: bytes | None) -> dict[str, Any]:
        if not message or not message.strip(b" \t\r\n"):
            raise Malformed("empty")
        node, types = unwrap(parse_object(message))
        if not isinstance(node, Members):
            raise Malformed("the payload is not an object")
        readers = self._plain
        if types is not None:
            if self._typed is None or self._typed[0] is not types:
                self._typed = (types, self._readers(types))
            readers = self._typed[1]
        row = read_members(node, readers)
        if row["op"] is None:
            raise Malformed("no op: not a change in Debezium's envelope")
        return row
