"""Timestamps as text, in a session whose time zone is UTC.

A timestamp is a number of microseconds since 1970-01-01T00:00Z that fits 64 bits. One without a zone (TIMESTAMP_NTZ) is
the same number of its local time. A time of day without a date ("03:04:05") is refused, where Spark takes today's date:
the output of a step must not depend on the clock.
"""

from __future__ import annotations

import re
from typing import Literal

from base.text.dates import date_text, days, exists
from base.text.trimming import JAVA_BLANK, SPARK_BLANK
from base.text.zones import DAY_S, offset_s

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US
DAY_US = DAY_S * SECOND_US
INT64_MAX = 2**63 - 1

# The grammar of Spark's parseTimestampString. A year has 4 to 6 digits; minutes, seconds and a fraction may be missing, and
# a zone is possible only after seconds.
_TIMESTAMP = re.compile(
    r"([+-]?[0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?([^0-9].*)?)?)?)?)?)?",
    re.DOTALL,
)
_TIME_OF_DAY = re.compile(r"T[0-9]{1,2}|[0-9]{1,2}:[0-9]{1,2}", re.DOTALL)


def timestamp_us(text: str) -> int | None:
    """A TIMESTAMP from text; UTC where the text names no zone."""
    return _read(text, "used")


def timestamp_ntz_us(text: str, zone: Literal["ignored", "refused"]) -> int | None:
    """A TIMESTAMP_NTZ from text. CAST ignores a zone, which must exist all the same; the JSON reader refuses one."""
    return _read(text, zone)


def is_time_of_day(text: str) -> bool:
    """Whether the text begins as a time without a date, which only Stepwell refuses."""
    return _TIME_OF_DAY.match(text.strip(SPARK_BLANK)) is not None


def _read(text: str, zone: Literal["used", "ignored", "refused"]) -> int | None:
    match = _TIMESTAMP.fullmatch(text.strip(SPARK_BLANK))
    if not match:
        return None
    (
        year_digits,
        month_digits,
        day_digits,
        hour_digits,
        minute_digits,
        second_digits,
        fraction,
        named,
    ) = match.groups()
    year, month, day = int(year_digits), int(month_digits or 1), int(day_digits or 1)
    hour, minute, second = int(hour_digits or 0), int(minute_digits or 0), int(second_digits or 0)
    if not exists(year, month, day) or hour > 23 or minute > 59 or second > 59:
        return None
    local_s = days(year, month, day) * DAY_S + hour * 3600 + minute * 60 + second
    if named is not None:
        if zone == "refused":
            return None
        if named != "Z":  # `offset_s` knows it too, but the call takes a tenth of the time of the whole function
            offset = offset_s(named.strip(JAVA_BLANK), local_s)
            if offset is None:
                return None
            local_s -= offset if zone == "used" else 0
    us = local_s * SECOND_US + (int(fraction[:6].ljust(6, "0")) if fraction else 0)
    return us if -INT64_MAX - 1 <= us <= INT64_MAX else None


def timestamp_text(us: int) -> str:
    """yyyy-MM-dd HH:mm:ss with as many digits of a fraction as needed, as CAST writes it."""
    seconds, fraction = divmod(us, SECOND_US)
    after = f".{fraction:06d}".rstrip("0") if fraction else ""
    return f"{_to_the_second(seconds, ' ')}{after}"


def timestamp_text_of_ms(ms: int) -> str:
    """yyyy-MM-ddTHH:mm:ss.SSS, as `to_json` writes it."""
    seconds, fraction = divmod(ms, 1000)
    return f"{_to_the_second(seconds, 'T')}.{fraction:03d}"


def _to_the_second(seconds: int, between: str) -> str:
    number, of_day = divmod(seconds, DAY_S)
    return f"{date_text(number)}{between}{of_day // 3600:02d}:{of_day // 60 % 60:02d}:{of_day % 60:02d}"
