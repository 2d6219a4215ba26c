"""Datetime patterns (date_format, to_timestamp, from_unixtime) in UTC, and differences in months.

Timestamps are microseconds since 1970, in the proleptic Gregorian calendar. The patterns are those of messages (base/text/patterns.py). CAST
without a pattern is in `text_casts.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from base.text import patterns
from base.text.dates import civil, month_length
from base.text.timestamps import DAY_US, SECOND_US
from engine.expressions.functions.function import Failure, row_function


class UnsupportedFormat(Failure):
    def __init__(self, pattern: str, why: str) -> None:
        super().__init__("UNSUPPORTED_DATETIME_PATTERN", f"datetime pattern {pattern!r}: {why}")


def formatter(pattern: str) -> Callable[[int], str]:
    """A function that writes microseconds since 1970 in a pattern. Raises `UnsupportedFormat`."""
    try:
        return patterns.writer(pattern, "timestamp")
    except patterns.BadPattern as bad:
        raise UnsupportedFormat(pattern, str(bad)) from None


def parser(pattern: str) -> patterns.ReadOne:
    """A function that reads text in a pattern as microseconds since 1970. Raises `UnsupportedFormat`."""
    try:
        return patterns.reader(pattern, "timestamp")
    except patterns.BadPattern as bad:
        raise UnsupportedFormat(pattern, str(bad)) from None


def _parse(text: str, pattern: str) -> int:
    micros = parser(pattern)(text)
    if micros is None:
        raise Failure("CANNOT_PARSE_TIMESTAMP", f"Text {text!r} could not be parsed with {pattern!r}.")
    return micros


def _months_between(later: int, earlier: int, rounded: bool) -> float:
    """The whole months if the days of the month are equal or both the last of theirs. Otherwise with a fraction, in months of 31 days."""
    later_day, later_us = divmod(later, DAY_US)
    earlier_day, earlier_us = divmod(earlier, DAY_US)
    (year_a, month_a, day_a), (year_b, month_b, day_b) = civil(later_day), civil(earlier_day)
    months = float((year_a - year_b) * 12 + month_a - month_b)
    last = day_a == month_length(year_a, month_a) and day_b == month_length(year_b, month_b)
    if day_a == day_b or last:
        return months
    seconds = (day_a - day_b) * 86400 + later_us // SECOND_US - earlier_us // SECOND_US
    difference = months + seconds / (31 * 86400)
    if not rounded:
        return difference
    scaled = difference * 1e8
    whole = int(scaled // 1)
    return (whole + (scaled - whole >= 0.5)) / 1e8


def _whole_months(start: int, end: int) -> int:
    """How many months have passed whole, negative if the end is earlier. A month is whole when its day and time of day are reached, as in
    ChronoUnit.MONTHS of Java."""
    (start_day, start_us), (end_day, end_us) = divmod(start, DAY_US), divmod(end, DAY_US)
    if end_day > start_day and end_us < start_us:
        end_day -= 1
    elif end_day < start_day and end_us > start_us:
        end_day += 1
    (year_a, month_a, day_a), (year_b, month_b, day_b) = civil(start_day), civil(end_day)
    months = (year_b - year_a) * 12 + month_b - month_a
    if months > 0 and day_b < day_a:
        return months - 1
    return months + 1 if months < 0 and day_b > day_a else months


FUNCTIONS = (
    row_function(
        "spark_date_format", "TIMESTAMP VARCHAR", "VARCHAR", lambda micros, pattern: formatter(pattern)(micros)
    ),
    row_function("spark_parse_timestamp", "VARCHAR VARCHAR", "TIMESTAMP", _parse),
    row_function("spark_months_between", "TIMESTAMP TIMESTAMP BOOLEAN", "DOUBLE", _months_between),
    row_function("spark_whole_months", "TIMESTAMP TIMESTAMP", "BIGINT", _whole_months),
)
