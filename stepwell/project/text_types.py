"""CHAR(n) and VARCHAR(n), as Spark's tables have them.

In Spark they are types of a table's columns, and never of a value: a query sees a STRING whose column says in its metadata what it was declared
as. Spark's analyser reads that to pad the other side of a comparison. What is written into such a column is checked, and CHAR(n) is
padded with blanks to n characters. Spark itself makes the expression for that (`fit_frame`); for the messages of a source it is
`io_kafka/formats/text_limits.py`. A cast to CHAR(n) or VARCHAR(n) is a cast to STRING, in Spark too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import (
    ArrayType,
    CharType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

from base.text.type_names import ELEMENT, quote_for_spark
from io_kafka.formats.text_limits import TextLimit

DECLARED_KEY = "__CHAR_VARCHAR_TYPE_STRING"
"""Spark's own key, in the metadata of a STRING column (CharVarcharUtils)."""


def as_strings(schema: StructType) -> StructType:
    """The schema as queries see it: with STRING in place of CHAR and VARCHAR, and the declared type in the column's metadata."""
    seen = StructType()
    for field in schema.fields:
        plain = _plain(field.dataType)
        declared = {} if plain == field.dataType else {DECLARED_KEY: _text(field.dataType)}
        seen = seen.add(field.name, plain, field.nullable, {**(field.metadata or {}), **declared})
    return seen


def declared_type(field: StructField) -> str | None:
    """The declared type of a column of `as_strings`, or of a query that passes such a column on; None if it has no CHAR or VARCHAR."""
    return (field.metadata or {}).get(DECLARED_KEY)


def limits_of(schema: StructType) -> tuple[TextLimit, ...]:
    """Every CHAR and VARCHAR in the declared columns of a source."""
    return tuple(limit for field in schema.fields for limit in _limits(field.dataType, (field.name,)))


def has_limited_key(type_: DataType) -> bool:
    """Whether a map in the type has keys of CHAR or VARCHAR. To cut or pad them could make two keys one."""
    match type_:
        case ArrayType():
            return has_limited_key(type_.elementType)
        case MapType():
            return isinstance(type_.keyType, CharType | VarcharType) or has_limited_key(type_.valueType)
        case StructType():
            return any(has_limited_key(field.dataType) for field in type_.fields)
        case _:
            return False


def fit_frame(frame: DataFrame, declared: Mapping[str, str]) -> DataFrame:
    """The rows as they are in a table whose columns are declared so: Spark's own check of their lengths, and padding. `declared`: a type's
    text by column name."""
    jvm: Any = frame.sparkSession._jvm
    utilities = getattr(jvm, "org.apache.spark.sql.catalyst.util.CharVarcharUtils")
    parser = getattr(jvm, "org.apache.spark.sql.catalyst.parser.CatalystSqlParser$")
    parser = getattr(parser, "MODULE$")
    expressions = getattr(jvm, "org.apache.spark.sql.classic.ExpressionUtils")
    output = frame._jdf.queryExecution().analyzed().output()
    columns: list[Column] = []
    for position, name in enumerate(frame.columns):
        attribute = output.apply(position)
        if name in declared:
            attribute = utilities.stringLengthCheck(attribute, parser.parseDataType(declared[name]))
        column = Column(expressions.column(attribute))
        columns.append(column.alias(name, metadata={DECLARED_KEY: declared[name]}) if name in declared else column)
    return frame.select(*columns)


def _plain(type_: DataType) -> DataType:
    match type_:
        case CharType() | VarcharType():
            return StringType()
        case ArrayType():
            return ArrayType(_plain(type_.elementType), type_.containsNull)
        case MapType():
            return MapType(_plain(type_.keyType), _plain(type_.valueType), type_.valueContainsNull)
        case StructType():
            fields = type_.fields
            return StructType([StructField(f.name, _plain(f.dataType), f.nullable, f.metadata) for f in fields])
        case _:
            return type_


def _text(type_: DataType) -> str:
    """The type as Spark's parser reads it. Unlike `simpleString`, the names of fields are quoted."""
    match type_:
        case ArrayType():
            return f"array<{_text(type_.elementType)}>"
        case MapType():
            return f"map<{_text(type_.keyType)},{_text(type_.valueType)}>"
        case StructType():
            fields = (f"{quote_for_spark(field.name)}:{_text(field.dataType)}" for field in type_.fields)
            return f"struct<{','.join(fields)}>"
        case _:
            return str(type_.simpleString())


def _limits(type_: DataType, path: tuple[str, ...]) -> Iterator[TextLimit]:
    match type_:
        case CharType() | VarcharType():
            yield TextLimit(path, type_.length, isinstance(type_, CharType))
        case ArrayType():
            yield from _limits(type_.elementType, (*path, ELEMENT))
        case MapType():
            yield from _limits(type_.valueType, (*path, ELEMENT))
        case StructType():
            for field in type_.fields:
                yield from _limits(field.dataType, (*path, field.name))
        case _:
            pass
