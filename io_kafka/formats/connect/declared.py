"""The types of columns, as users declared them."""

from __future__ import annotations

import pyarrow as pa

from base.text.months import is_months, type_text

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
}


def declared(kind: pa.DataType) -> str:
    """The type in Spark's words."""
    if kind in _NAMES:
        return _NAMES[kind]
    if is_months(kind):
        return type_text(kind)
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if pa.types.is_map(kind):
        return f"MAP<{declared(kind.key_type)}, {declared(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"ARRAY<{declared(kind.value_type)}>"
    fields = [kind.field(number) for number in range(kind.num_fields)]
    return f"STRUCT<{', '.join(f'{field.name}: {declared(field.type)}' for field in fields)}>"
