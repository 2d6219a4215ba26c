"""A variant that Spark has computed while it planned, as `parse_json('{"a": 1}')` becomes a literal."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from py4j.java_gateway import get_field
from pyspark import SparkContext

from base.text.variants import Value, canonical_text


class _OtherKind(Exception):
    """A value has a kind that no JSON has, such as a date."""


def variant_literal(java: Any) -> str | bytes:
    """The text (base/text/variants.py) of a JVM's `VariantVal`. If a value within has a kind that JSON has not, it is the binary form, which no
    rule takes."""
    value, metadata = java.getValue(), java.getMetadata()
    jvm = SparkContext._active_spark_context._jvm
    try:
        return canonical_text(_value(getattr(jvm, "org.apache.spark.types.variant.Variant")(value, metadata)))
    except _OtherKind:
        return bytes(value)


def _value(java: Any) -> Value:
    kind = java.getType().toString()
    match kind:
        case "NULL":
            return None
        case "OBJECT":
            members = (java.getFieldAtIndex(index) for index in range(java.objectSize()))
            return {get_field(member, "key"): _value(get_field(member, "value")) for member in members}
        case "ARRAY":
            return [_value(java.getElementAtIndex(index)) for index in range(java.arraySize())]
        case "BOOLEAN":
            return bool(java.getBoolean())
        case "LONG":
            return int(java.getLong())
        case "STRING":
            return str(java.getString())
        case "DOUBLE":
            return float(java.getDouble())
        case "DECIMAL":
            return Decimal(java.getDecimal().toPlainString() if hasattr(java.getDecimal(), "toPlainString") else java.getDecimal())
    raise _OtherKind(kind)
