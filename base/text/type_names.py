"""The types of columns as SQL writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

import pyarrow as pa

from base.text.months import MONTH, YEAR, YEAR_TO_MONTH
from base.text.variants import VARIANT

_NAMES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
    pa.timestamp("us", "UTC"): "TIMESTAMP",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
    pa.duration("us"): "INTERVAL DAY TO SECOND",
    YEAR_TO_MONTH: "INTERVAL YEAR TO MONTH",
    YEAR: "INTERVAL YEAR",
    MONTH: "INTERVAL MONTH",
    pa.null(): "VOID",
    VARIANT: "VARIANT",
}
ELEMENT = "[]"
"""The step of a path into an array, and to the values of a map, whose keys have no limits. A step into a struct is a field's name."""

NOTHING_DECLARED: Mapping[tuple[str, ...], str] = MappingProxyType({})

_WORD = re.compile(r"\w+")


def sql_type(
    kind: pa.DataType, declared: Mapping[tuple[str, ...], str] = NOTHING_DECLARED, path: tuple[str, ...] = ()
) -> str:
    """`STRUCT<id: BIGINT, tags: ARRAY<STRING>>`. Two types have the same text only if they are the same. `declared`: what stands in the place of
    a part's type, by the path to it, which begins with `path`. It is for CHAR(n) and VARCHAR(n), whose values are strings."""
    if path in declared:
        return declared[path]
    if kind in _NAMES:
        return _NAMES[kind]
    if pa.types.is_decimal128(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"ARRAY<{sql_type(kind.value_type, declared, (*path, ELEMENT))}>"
    if pa.types.is_map(kind):
        return f"MAP<{sql_type(kind.key_type)}, {sql_type(kind.item_type, declared, (*path, ELEMENT))}>"
    if pa.types.is_struct(kind):
        fields = (kind.field(index) for index in range(kind.num_fields))
        parts = (
            f"{_quoted_if_needed(field.name)}: {sql_type(field.type, declared, (*path, field.name))}"
            for field in fields
        )
        return f"STRUCT<{', '.join(parts)}>"
    return str(kind)


def quote_for_spark(name: str) -> str:
    """A name as Spark's parser reads it, whatever characters it has."""
    return f"`{name.replace('`', '``')}`"


def _quoted_if_needed(name: str) -> str:
    return name if _WORD.fullmatch(name) else quote_for_spark(name)
