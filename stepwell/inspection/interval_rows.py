"""Arrow rows as a DataFrame. Two things stand between: Spark does not take the Arrow form of year-month intervals, so they go through numbers of
months; and it takes an empty batch for the end of the rows (`_without_empty_batches`)."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    LongType,
    MapType,
    StructField,
    StructType,
    YearMonthIntervalType,
)

from base.arrays import with_leaves
from base.text.months import is_months
from base.text.type_names import quote_for_spark

_MONTHS = YearMonthIntervalType(YearMonthIntervalType.MONTH, YearMonthIntervalType.MONTH)


def frame_of(session: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
    """The rows of `table` with the columns of `schema`."""
    table = _without_empty_batches(table)
    numbers = StructType(
        [StructField(f.name, _replace_intervals(f.dataType, LongType()), f.nullable) for f in schema.fields]
    )
    if all(number.dataType == field.dataType for number, field in zip(numbers, schema, strict=True)):
        return session.createDataFrame(table, schema)
    columns = [column.cast(_numbers(column.type)) for column in table.columns]
    frame = session.createDataFrame(pa.table(columns, names=table.column_names), numbers)
    columns_of = (F.col(quote_for_spark(field.name)) for field in schema.fields)
    return frame.select(
        *(
            # A number is cast to months first, because as a number of an INTERVAL YEAR it would count years.
            column.cast(_replace_intervals(field.dataType, _MONTHS)).cast(field.dataType).alias(field.name)
            for column, field in zip(columns_of, schema.fields, strict=True)
        )
    )


def _without_empty_batches(table: pa.Table) -> pa.Table:
    """Spark 4.3 reads a batch of an Arrow table until it has rows to give, and ends at one that has none: it loses all rows behind the part of a
    worker without any. Nor does it take a nested column without any part, so a table without rows has one."""
    batches = [batch for batch in table.to_batches() if batch.num_rows]
    return pa.Table.from_batches(batches, table.schema) if batches else table.schema.empty_table()


def _replace_intervals(type_: DataType, instead: DataType) -> DataType:
    """The type with another one in place of every year-month interval."""
    match type_:
        case YearMonthIntervalType():
            return instead
        case ArrayType():
            return ArrayType(_replace_intervals(type_.elementType, instead), type_.containsNull)
        case MapType():
            key, value = _replace_intervals(type_.keyType, instead), _replace_intervals(type_.valueType, instead)
            return MapType(key, value, type_.valueContainsNull)
        case StructType():
            fields = [
                StructField(f.name, _replace_intervals(f.dataType, instead), f.nullable, f.metadata)
                for f in type_.fields
            ]
            return StructType(fields)
        case _:
            return type_


def _numbers(type_: pa.DataType) -> pa.DataType:
    """The type with integers in place of every year-month interval."""
    return with_leaves(type_, lambda leaf: pa.int64() if is_months(leaf) else leaf)
