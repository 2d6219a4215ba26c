"""Arrow rows as a DataFrame. Three things stand between: Spark does not take the Arrow form of year-month intervals, so they go through numbers
of months; nor that of variants, so they go through JSON; and it takes an empty batch for the end of the rows (`_without_empty_batches`)."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
    YearMonthIntervalType,
)

from base.arrays import with_leaves
from base.text.months import is_months
from base.text.type_names import quote_for_spark
from base.text.variants import FIELD

_TEXT_OF_VARIANT = StructType([StructField(FIELD, StringType())])
_MONTHS = YearMonthIntervalType(YearMonthIntervalType.MONTH, YearMonthIntervalType.MONTH)


def frame_of(session: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
    """The rows of `table` with the columns of `schema`."""
    table = _without_empty_batches(table)
    numbers = StructType(
        [StructField(f.name, _with_other_types(f.dataType, LongType()), f.nullable) for f in schema.fields]
    )
    if all(number.dataType == field.dataType for number, field in zip(numbers, schema, strict=True)):
        return session.createDataFrame(table, schema)
    columns = [column.cast(_numbers(column.type)) for column in table.columns]
    frame = session.createDataFrame(pa.table(columns, names=table.column_names), numbers)
    columns_of = (F.col(quote_for_spark(field.name)) for field in schema.fields)
    return frame.select(
        *(
            _original(column, field.dataType).alias(field.name)
            for column, field in zip(columns_of, schema.fields, strict=True)
        )
    )


def _original(column: Column, type_: DataType) -> Column:
    """The column of `frame_of` in its own type. A struct that is NULL stays NULL."""
    if _with_other_types(type_, LongType()) == type_:
        return column
    match type_:
        case VariantType():
            # from_json reads the words NaN and Infinity, which parse_json refuses.
            whole = F.concat(F.lit('{"v":'), column.getField(FIELD), F.lit("}"))
            return F.from_json(whole, "v VARIANT").getField("v")
        case ArrayType():
            return F.transform(column, lambda element: _original(element, type_.elementType))
        case MapType():
            return F.transform_values(column, lambda _, value: _original(value, type_.valueType))
        case StructType():
            fields = (_original(column.getField(f.name), f.dataType).alias(f.name) for f in type_.fields)
            return F.when(column.isNotNull(), F.struct(*fields))
        case _:
            # A number is cast to months first, because as a number of an INTERVAL YEAR it would count years.
            return column.cast(_MONTHS).cast(type_)


def _without_empty_batches(table: pa.Table) -> pa.Table:
    """Spark 4.3 reads a batch of an Arrow table until it has rows to give, and ends at one that has none: it loses all rows behind the part of a
    worker without any. Nor does it take a nested column without any part, so a table without rows has one."""
    batches = [batch for batch in table.to_batches() if batch.num_rows]
    return pa.Table.from_batches(batches, table.schema) if batches else table.schema.empty_table()


def _with_other_types(type_: DataType, instead: DataType) -> DataType:
    """The type with another one in place of every year-month interval, and structs of texts in place of variants."""
    match type_:
        case YearMonthIntervalType():
            return instead
        case VariantType():
            return _TEXT_OF_VARIANT
        case ArrayType():
            return ArrayType(_with_other_types(type_.elementType, instead), type_.containsNull)
        case MapType():
            key, value = _with_other_types(type_.keyType, instead), _with_other_types(type_.valueType, instead)
            return MapType(key, value, type_.valueContainsNull)
        case StructType():
            fields = [
                StructField(f.name, _with_other_types(f.dataType, instead), f.nullable, f.metadata)
                for f in type_.fields
            ]
            return StructType(fields)
        case _:
            return type_


def _numbers(type_: pa.DataType) -> pa.DataType:
    """The type with integers in place of every year-month interval."""
    return with_leaves(type_, lambda leaf: pa.int64() if is_months(leaf) else leaf)
