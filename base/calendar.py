"""The proleptic Gregorian calendar over whole arrays. Days and months are counted from the first of 1970, and may be negative."""

from __future__ import annotations

import numpy as np

from base.arrays import Int64s


def month_of(days: Int64s) -> Int64s:
    """The month in which each day lies."""
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def first_day(months: Int64s) -> Int64s:
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def add_months(days: Int64s, months: int) -> Int64s:
    """The day with the same number in its month, so many months later. In a month that is too short for it, the last day."""
    month = month_of(days)
    number = days - first_day(month)
    first, after = first_day(month + months), first_day(month + months + 1)
    return np.minimum(first + number, after - 1)
