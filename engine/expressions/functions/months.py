"""Spark's functions of year-month intervals, which are numbers of months of 32 bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, localcontext

import pyarrow as pa

from base.text.months import MONTH, MONTHS_MAX, MONTHS_MIN, YEAR, YEAR_TO_MONTH, months_text, months_value
from engine.expressions.functions.function import Failure, Function, row_function, value_text

DIGITS_MAX = 400  # a double has at most 309 digits before the point, and what is left of it beside 10 more is exact


def _round(value: Decimal) -> int:
    """Half up, away from zero."""
    whole = int(value.to_integral_value(ROUND_HALF_UP))
    if not MONTHS_MIN <= whole <= MONTHS_MAX:
        raise Failure("INTERVAL_ARITHMETIC_OVERFLOW", f"{value_text(value)} months do not fit an interval.")
    return whole


def _number(value: float | str) -> Decimal:
    if isinstance(value, float) and not math.isfinite(value):
        raise Failure("INTERVAL_ARITHMETIC_OVERFLOW", f"An interval cannot be multiplied by or divided by {value}.")
    return Decimal(value)


def _times(months: int, factor: float | str) -> int:
    # A product of doubles is rounded to a double before it becomes a number of months, as in Spark.
    if isinstance(factor, float):
        return _round(_number(months * factor))
    with localcontext(prec=DIGITS_MAX):
        return _round(months * _number(factor))


def _over(months: int, divisor: float | str) -> int:
    if float(divisor) == 0:
        raise Failure("INTERVAL_DIVIDED_BY_ZERO", "Division by zero.")
    if isinstance(divisor, float):
        return _round(_number(months / divisor))
    with localcontext(prec=DIGITS_MAX):
        return _round(months / _number(divisor))


def _reader(type_: pa.DataType, name: str) -> Callable[[str], int]:
    def read(text: str) -> int:
        months = months_value(text, type_)
        if months is None:
            raise Failure("INVALID_INTERVAL_FORMAT", f"{value_text(text)} is not an INTERVAL {name.upper()}.")
        return months

    return read


NAMES = {YEAR_TO_MONTH: "year_to_month", MONTH: "month", YEAR: "year"}
"""The parts of the functions' names, for each type."""

FUNCTIONS: tuple[Function, ...] = (
    row_function("spark_months_times", "BIGINT DOUBLE", "BIGINT", _times),
    row_function("spark_months_times_decimal", "BIGINT VARCHAR", "BIGINT", _times),
    row_function("spark_months_over", "BIGINT DOUBLE", "BIGINT", _over),
    row_function("spark_months_over_decimal", "BIGINT VARCHAR", "BIGINT", _over),
    *(
        row_function(f"spark_write_{name}", "BIGINT", "VARCHAR", lambda months, type_=type_: months_text(months, type_))
        for type_, name in NAMES.items()
    ),
    *(row_function(f"spark_read_{name}", "VARCHAR", "BIGINT", _reader(type_, name)) for type_, name in NAMES.items()),
)
