"""Spark's types of the results of aggregate functions, from the type of the aggregated value."""

from __future__ import annotations

import pyarrow as pa

from base.limits import DECIMAL_DIGITS_MAX
from base.text.months import YEAR_TO_MONTH, is_months

SUM_DIGITS_MORE = 10
"""A sum of decimals has ten more digits than they have."""
AVERAGE_SCALE_MORE = 4
"""An average of decimals has four more digits after the point."""


def count(value: pa.DataType) -> pa.DataType:
    return pa.int64()


def double(value: pa.DataType) -> pa.DataType:
    return pa.float64()


def type_of_value(value: pa.DataType) -> pa.DataType:
    return value


def list_of(value: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", value))


def total(value: pa.DataType) -> pa.DataType | None:
    """Returns the type of the sum of such values; None if sum does not take them."""
    if pa.types.is_decimal(value):
        return pa.decimal128(min(value.precision + SUM_DIGITS_MORE, DECIMAL_DIGITS_MAX), value.scale)
    if pa.types.is_integer(value):
        return pa.int64()
    return pa.float64() if pa.types.is_floating(value) else _interval(value)


def average(value: pa.DataType) -> pa.DataType | None:
    """Returns the type of the average of such values; None if avg does not take them."""
    if pa.types.is_decimal(value):
        precision, scale = value.precision + AVERAGE_SCALE_MORE, value.scale + AVERAGE_SCALE_MORE
        return pa.decimal128(min(precision, DECIMAL_DIGITS_MAX), min(scale, DECIMAL_DIGITS_MAX))
    if is_months(value):
        return YEAR_TO_MONTH
    return pa.float64() if pa.types.is_integer(value) or pa.types.is_floating(value) else _interval(value)


def _interval(value: pa.DataType) -> pa.DataType | None:
    return value if pa.types.is_null(value) or pa.types.is_duration(value) else None
