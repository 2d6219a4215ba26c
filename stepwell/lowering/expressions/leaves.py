"""Literals. Columns are resolved by `emit` itself."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa

from base.text.variants import FIELD, VARIANT
from engine.expressions.types import duck_type, quote_name
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import expression_type
from stepwell.lowering.expressions.fragment import Fragment, Rule, cast, text, unsupported_expression

_EPOCH = datetime.date(1970, 1, 1)


def _literal(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    type_ = expression_type(node["dataType"])
    written = node["value"]
    if written is None:
        return Fragment(f"CAST(NULL AS {duck_type(type_)})", type_, literal=True)
    value = _value(node, type_, written)
    return Fragment(literal_sql(value, type_), type_, literal=True, value=value)


def _value(node: TreeNode, type_: pa.DataType, written: Any) -> Any:
    """The Python value of Spark's text. Dates are days; timestamps and intervals are microseconds."""
    if pa.types.is_boolean(type_):
        return str(written) == "true"
    if pa.types.is_integer(type_) or pa.types.is_duration(type_):
        return int(written)
    if pa.types.is_floating(type_):
        return float(written)
    if pa.types.is_decimal(type_):
        return decimal.Decimal(written)
    if pa.types.is_string(type_) or (type_ == VARIANT and isinstance(written, str)):
        return str(written)
    if pa.types.is_date(type_):
        return written if isinstance(written, int) else (datetime.date.fromisoformat(written) - _EPOCH).days
    if pa.types.is_timestamp(type_):
        return written if isinstance(written, int) else _micros(written)
    if pa.types.is_binary(type_) and isinstance(written, bytes):
        return written
    raise unsupported_expression(
        node, f"a literal of type {node['dataType']}", "build it from columns and simple literals"
    )


def _micros(written: str) -> int:
    moment = datetime.datetime.fromisoformat(written)
    return (moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)


def literal_sql(value: Any, type_: pa.DataType) -> str:
    if pa.types.is_string(type_):
        return text(value)
    if type_ == VARIANT:
        return cast(f"struct_pack({quote_name(FIELD)} := {text(value)})", type_)
    if pa.types.is_binary(type_):
        return f"unhex('{value.hex()}')"
    if pa.types.is_date(type_):
        return f"(DATE '1970-01-01' + CAST({value} AS INTEGER))"
    if pa.types.is_timestamp(type_):
        return f"make_timestamp(CAST({value} AS BIGINT))"
    if pa.types.is_floating(type_):
        return cast(f"'{value!r}'", type_)
    if pa.types.is_decimal(type_):
        return cast(f"'{value:f}'", type_)
    return cast(str(value).lower(), type_)


TABLE: dict[str, Rule] = {"Literal": _literal}
