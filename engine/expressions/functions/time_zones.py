"""Clock times of time zones, and timestamps that are made of parts. Timestamps are microseconds since 1970 (UTC, or without a zone)."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

from base.text.dates import days, exists
from base.text.timestamps import DAY_US, SECOND_US
from base.text.zones import offset_at_s, offset_s
from engine.expressions.functions.function import Failure, row_function, value_text

MINUTE_S, HOUR_S = 60, 3600
DIGITS_MAX = 60  # of a decimal (38) and of the factor


def _offset_us(zone: str, offset: int | None) -> int:
    if offset is None:
        raise Failure(
            "INVALID_TIMEZONE",
            f"There is no time zone {value_text(zone)}. Write a region, such as Europe/Paris, or an offset, such as +02:00.",
        )
    return offset * SECOND_US


def _from_utc(us: int, zone: str) -> int:
    """What a clock in the zone shows at a moment."""
    return _fitting(us + _offset_us(zone, offset_at_s(zone, us // SECOND_US)))


def _to_utc(us: int, zone: str) -> int:
    """The moment at which a clock in the zone shows this time."""
    return _fitting(us - _offset_us(zone, offset_s(zone, us // SECOND_US)))


def _fitting(us: int) -> int:
    if not -(1 << 63) <= us < 1 << 63:
        raise Failure("DATETIME_OVERFLOW", "The timestamp is beyond the last one.")
    return us


def _make_time(*fields: int) -> int:
    """The time of year, month, day, hour, minute, and second in microseconds."""
    year, month, day, hour, minute, second_us = fields
    whole, part = divmod(second_us, SECOND_US)
    minute_more = whole == MINUTE_S and part == 0  # Spark, as PostgreSQL, takes the second 60 for the next minute
    if whole == MINUTE_S and part:
        raise Failure("INVALID_FRACTION_OF_SECOND", f"The second is {second_us / SECOND_US}; it may be 60 at most.")
    of_day = 0 <= hour < 24 and 0 <= minute < 60 and (0 <= whole < MINUTE_S or minute_more)
    if not (of_day and exists(year, month, day)):
        raise Failure(
            "DATETIME_FIELD_OUT_OF_BOUNDS",
            f"There is no time {year}-{month}-{day} {hour}:{minute}:{second_us / SECOND_US}.",
        )
    return _fitting(days(year, month, day) * DAY_US + (hour * HOUR_S + minute * MINUTE_S) * SECOND_US + second_us)


def _of_decimal(text: str, unit_us: int) -> int:
    with localcontext(prec=DIGITS_MAX):
        us = Decimal(text) * unit_us
    if us != int(us):
        raise Failure("DATETIME_OVERFLOW", f"{text} seconds are no whole number of microseconds.")
    return _fitting(int(us))


def _of_double(seconds: float, unit_us: int) -> int | None:
    """Returns so many seconds in microseconds, as Java casts a double to a long: what is too large becomes the end of the range. None if
    `seconds` is not finite."""
    if not math.isfinite(seconds):
        return None
    us = seconds * unit_us
    return int(us) if abs(us) < 2.0**63 else (1 << 63) - 1 if us > 0 else -(1 << 63)


FUNCTIONS = (
    row_function("spark_seconds_of_decimal", "VARCHAR BIGINT", "TIMESTAMP", _of_decimal),
    row_function("spark_seconds_of_double", "DOUBLE BIGINT", "TIMESTAMP", _of_double),
    row_function("spark_from_utc", "TIMESTAMP VARCHAR", "TIMESTAMP", _from_utc),
    row_function("spark_to_utc", "TIMESTAMP VARCHAR", "TIMESTAMP", _to_utc),
    row_function("spark_make_time", "INTEGER INTEGER INTEGER INTEGER INTEGER BIGINT", "TIMESTAMP", _make_time),
)
