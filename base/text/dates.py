"""The calendar, and dates as text.

A date is a number of days since 1970-01-01 in the proleptic Gregorian calendar, for any year. The algorithms of
`days` and `civil` are Howard Hinnant's (https://howardhinnant.github.io/date_algorithms.html).
"""

from __future__ import annotations

import re

from base.text.trimming import SPARK_BLANK

INT32_MAX = 2**31 - 1
CYCLE_DAYS = 146_097  # in 400 years, after which the calendar repeats
MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

# The grammar of Spark's stringToDate. A year has 4 to 7 digits; what follows a day after a blank or a T is ignored.
_DATE = re.compile(r"([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)


def days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 of a date that exists. Years begin in March here, so that the leap day is the last."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * CYCLE_DAYS + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def civil(day_number: int) -> tuple[int, int, int]:
    """Year, month and day; the inverse of `days`."""
    era, of_era = divmod(day_number + 719_468, CYCLE_DAYS)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + (3 if shifted < 10 else -9)
    return year + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


def is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def month_length(year: int, month: int) -> int:
    return 29 if month == 2 and is_leap(year) else MONTH_DAYS[month - 1]


def exists(year: int, month: int, day: int) -> bool:
    return 1 <= month <= 12 and day >= 1 and (day <= 28 or day <= month_length(year, month))


def date_days(text: str) -> int | None:
    """A DATE from text, as Spark's CAST reads it: days since 1970-01-01 that fit 32 bits.

    None if the text has another form, if there is no such date, or if its day number needs more than 32 bits."""
    match = _DATE.fullmatch(text.strip(SPARK_BLANK))
    if not match:
        return None
    year, month, day = int(match[1]), int(match[2] or 1), int(match[3] or 1)
    if not exists(year, month, day):
        return None
    number = days(year, month, day)
    return number if -INT32_MAX - 1 <= number <= INT32_MAX else None


def year_text(year: int, width: int = 4) -> str:
    """A year of at least `width` digits. More digits have a sign before them, and so has a year before 0."""
    if year < 0:
        return f"-{-year:0{width}d}"
    return f"{'+' if year >= 10**width else ''}{year:0{width}d}"


def date_text(day_number: int) -> str:
    """yyyy-MM-dd, for any year."""
    year, month, day = civil(day_number)
    return f"{year_text(year)}-{month:02d}-{day:02d}"
