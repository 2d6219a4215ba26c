"""Spark's functions of day-time intervals, which are numbers of microseconds: products and quotients that are rounded, and texts."""

from __future__ import annotations

import decimal
import math
from decimal import Decimal

from base.text.day_times import interval_text
from base.text.timestamps import INT64_MAX
from engine.expressions.functions.decimals import quotient
from engine.expressions.functions.function import Failure, Function, row_function, value_text

# Spark rounds a product of decimals to one digit more than a decimal has.
_PRODUCT = decimal.Context(prec=39, rounding=decimal.ROUND_HALF_UP, Emax=999999, Emin=-999999)


def _round(value: Decimal) -> int:
    """Half up, away from zero."""
    whole = int(value.to_integral_value(decimal.ROUND_HALF_UP))
    if not -INT64_MAX - 1 <= whole <= INT64_MAX:
        raise Failure("INTERVAL_ARITHMETIC_OVERFLOW", f"{value_text(value)} microseconds do not fit an interval.")
    return whole


def _round_double(value: float) -> int:
    if not math.isfinite(value):
        raise Failure("INTERVAL_ARITHMETIC_OVERFLOW", f"{value} microseconds are no interval.")
    return _round(Decimal(value))


def _times(us: int, factor: float) -> int:
    return _round_double(us * factor)


def _times_decimal(us: int, factor: str) -> int:
    return _round(_PRODUCT.multiply(Decimal(us), Decimal(factor)))


def _over(us: int, divisor: float) -> int:
    if divisor == 0:
        raise Failure("INTERVAL_DIVIDED_BY_ZERO", "Division by zero.")
    return _round_double(us / divisor)


def _over_decimal(us: int, divisor: str) -> int:
    exact = Decimal(divisor)
    if exact == 0:
        raise Failure("INTERVAL_DIVIDED_BY_ZERO", "Division by zero.")
    return _round(quotient(Decimal(us), exact))


FUNCTIONS: tuple[Function, ...] = (
    row_function("spark_interval_times", "BIGINT DOUBLE", "BIGINT", _times),
    row_function("spark_interval_times_decimal", "BIGINT VARCHAR", "BIGINT", _times_decimal),
    row_function("spark_interval_over", "BIGINT DOUBLE", "BIGINT", _over),
    row_function("spark_interval_over_decimal", "BIGINT VARCHAR", "BIGINT", _over_decimal),
    row_function("spark_write_day_time", "BIGINT", "VARCHAR", interval_text),
)
