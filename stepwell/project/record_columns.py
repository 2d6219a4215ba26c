"""The columns of Spark's Kafka source: what a message's record is."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_HEADERS = StructField("headers", ArrayType(StructType([
    StructField("key", StringType()), StructField("value", BinaryType()),
])))  # fmt: skip
_COLUMNS = [
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
]


def record_schema(with_headers: bool) -> StructType:
    """The columns of Spark's Kafka source."""
    return StructType([*_COLUMNS, _HEADERS] if with_headers else list(_COLUMNS))
