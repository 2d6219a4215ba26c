"""Which parts of a column may be null, below the column itself.

Messages are checked against NOT NULL of a column, and not against that of a field of a struct, an element of a list or a value of a map. Spark
believes what a schema says: it leaves out `s.a IS NULL` where `s.a` cannot be null. So no part of a source's columns is NOT NULL to the queries
that read it, and a part of a view's columns is so only if it follows from all of the view's queries.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType


def nullable_within(schema: StructType) -> StructType:
    """Returns the same columns, with every part of them nullable."""
    fields = schema.fields
    return StructType([StructField(f.name, _nullable(f.dataType), f.nullable, f.metadata) for f in fields])


def column_of_all(column: StructField, flows: Iterable[StructType]) -> StructField:
    """The column of a view that these flows fill: it and its parts are nullable if they are so in it or in any of the flows, which have it by
    its name in any case."""
    name = column.name.lower()
    same = [other for flow in flows for other in flow.fields if other.name.lower() == name]
    kind = reduce(nullable_in_either, (other.dataType for other in same), column.dataType)
    return StructField(column.name, kind, column.nullable or any(other.nullable for other in same), column.metadata)


def nullable_in_either(one: DataType, other: DataType) -> DataType:
    """Returns the first type, with the parts nullable that are so in one of the two. They differ in nothing else that counts."""
    match one, other:
        case ArrayType(), ArrayType():
            element = nullable_in_either(one.elementType, other.elementType)
            return ArrayType(element, one.containsNull or other.containsNull)
        case MapType(), MapType():
            key = nullable_in_either(one.keyType, other.keyType)
            value = nullable_in_either(one.valueType, other.valueType)
            return MapType(key, value, one.valueContainsNull or other.valueContainsNull)
        case StructType(), StructType():
            fields = zip(one.fields, other.fields, strict=True)
            return StructType([_field_in_either(mine, its) for mine, its in fields])
        case _:
            return one


def _field_in_either(one: StructField, other: StructField) -> StructField:
    type_ = nullable_in_either(one.dataType, other.dataType)
    return StructField(one.name, type_, one.nullable or other.nullable, one.metadata)


def _nullable(type_: DataType) -> DataType:
    return type_.toNullable() if isinstance(type_, ArrayType | MapType | StructType) else type_
