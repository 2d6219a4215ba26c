"""CAST between text and numbers, booleans, dates and timestamps, in Spark's ANSI mode.

The rules are in `base.text`. This module adds the errors that Spark raises for a text that a rule refuses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools
from base.limits import DECIMAL_DIGITS_MAX
from base.text import columns, dates, decimals, doubles, integers, timestamps
from base.text.trimming import JAVA_BLANK
from engine.expressions.functions.decimals import fit
from engine.expressions.functions.function import ARROW, Failure, Function, row_function, value_text

_UTC, _LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")


def _invalid(text: str, type_: str) -> Failure:
    return Failure(
        "CAST_INVALID_INPUT", f"The value {value_text(text)} cannot be cast to {type_} because it is malformed."
    )


def _or_invalid(read: Callable[[str], Any], type_: str) -> Callable[[str], Any]:
    """`read`, with Spark's error if it returns None."""

    def read_valid(text: str) -> Any:
        value = read(text)
        if value is None:
            raise _invalid(text, type_)
        return value

    return read_valid


def _integer(text: str, bits: int) -> int:
    value = integers.integer_value(text, bits)
    if value is None:
        raise _invalid(text, f"INT{bits}")
    return value


def _decimal(text: str, precision: int, scale: int) -> str:
    value = decimals.big_decimal(text.strip(JAVA_BLANK))
    if value is None:
        raise _invalid(text, f"DECIMAL({precision},{scale})")
    if value and value.adjusted() >= DECIMAL_DIGITS_MAX:
        raise Failure(
            "NUMERIC_OUT_OF_SUPPORTED_RANGE",
            f"The value {value_text(text)} cannot be interpreted as a numeric since it has more than 38 digits.",
        )
    return fit(value, precision, scale)


def _timestamp(text: str) -> int:
    us = timestamps.timestamp_us(text)
    if us is not None:
        return us
    if timestamps.is_time_of_day(text):
        raise Failure(
            "CAST_INVALID_INPUT", f"{value_text(text)} is a time without a date: its day would depend on the clock."
        )
    raise _invalid(text, "TIMESTAMP")


def _local(text: str) -> int | None:
    return timestamps.timestamp_ntz_us(text, zone="ignored")


def _usually(
    name: str,
    type_: str,
    whole: Callable[[pa.Array], tuple[pa.Array, Bools]],
    one: Callable[[str], Any],
) -> Function:
    """A function that reads a column of text: usual spellings by `whole` at once, the others one by one by `one`."""
    carrier = {"DATE": pa.int32(), "TIMESTAMP": pa.int64()}[type_]

    def body(texts: pa.ChunkedArray) -> pa.Array:
        array = texts.combine_chunks().cast(pa.string())
        values, doubtful = whole(array)
        values = values.cast(carrier)
        if doubtful.any():
            mask = pa.array(doubtful)
            late = pa.array([one(text) for text in array.filter(mask).to_pylist()], carrier)
            values = pc.replace_with_mask(values, mask, late)
        return values.cast(ARROW[type_])

    return Function(name, ("VARCHAR",), type_, body)


def _double_decimal(value: float, precision: int, scale: int) -> str | None:
    """The decimal that Java prints for the double; null for NaN and infinities."""
    if not math.isfinite(value):
        return None
    return fit(Decimal(repr(value)), precision, scale)


FUNCTIONS = (
    row_function("spark_read_integer", "VARCHAR INTEGER", "BIGINT", _integer),
    row_function("spark_read_double", "VARCHAR", "DOUBLE", _or_invalid(doubles.double_value, "DOUBLE")),
    row_function("spark_read_single", "VARCHAR", "FLOAT", _or_invalid(doubles.single_value, "FLOAT")),
    row_function("spark_read_decimal", "VARCHAR INTEGER INTEGER", "VARCHAR", _decimal),
    row_function("spark_read_boolean", "VARCHAR", "BOOLEAN", _or_invalid(integers.boolean_value, "BOOLEAN")),
    _usually("spark_read_date", "DATE", columns.dates, _or_invalid(dates.date_days, "DATE")),
    _usually("spark_read_timestamp", "TIMESTAMP", lambda texts: columns.timestamps(texts, _UTC), _timestamp),
    _usually(
        "spark_read_local",
        "TIMESTAMP",
        lambda texts: columns.timestamps(texts, _LOCAL),
        _or_invalid(_local, "TIMESTAMP_NTZ"),
    ),
    row_function("spark_double_decimal", "DOUBLE INTEGER INTEGER", "VARCHAR", _double_decimal),
    row_function("spark_write_double", "DOUBLE", "VARCHAR", doubles.double_text),
    row_function("spark_write_single", "FLOAT", "VARCHAR", doubles.single_text),
    row_function("spark_write_date", "DATE", "VARCHAR", dates.date_text),
    row_function("spark_write_timestamp", "TIMESTAMP", "VARCHAR", timestamps.timestamp_text),
)
