"""Whole columns of text -> dates and timestamps: the usual spellings vectorised, and all others marked as doubtful.

Each function returns (values, doubtful). `doubtful` marks the rows whose value is not known here. For these the caller
uses `dates.date_days` or `timestamps`, one by one.

Guarantee: a row that is not doubtful has the same value as with those functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, Int64s, UInt8s
from base.text.dates import MONTH_DAYS
from base.text.timestamps import DAY_US

DATE_CHARS = 10
SECONDS_CHARS = 19  # YYYY-MM-DD HH:MM:SS
FRACTION_CHARS_MAX = SECONDS_CHARS + 1 + 9
_POWERS = 10 ** np.arange(6, dtype=np.int64)[::-1]
_MONTH_DAYS = np.array([0, *MONTH_DAYS] + [0] * 87, dtype=np.int64)
_DAYS_BEFORE_MONTH = np.array(
    [0, 306, 337, *np.cumsum([0, 31, 30, 31, 30, 31, 31, 30, 31, 30])] + [0] * 87, dtype=np.int64
)


def bytes_of(strings: pa.Array) -> tuple[UInt8s, npt.NDArray[np.int32]]:
    """The data of a string or binary array, and the offsets of its rows (one more than rows)."""
    _, offsets, data = strings.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[strings.offset : strings.offset + len(strings) + 1]
    return np.frombuffer(data, dtype=np.uint8) if data is not None else np.zeros(0, np.uint8), ends


def nulls_of(array: pa.Array) -> Bools:
    if array.null_count == 0:
        return np.zeros(len(array), dtype=np.bool_)
    return np.asarray(pc.is_null(array).to_numpy(zero_copy_only=False), dtype=np.bool_)


def digits(chars: UInt8s, first: int, count: int, wrong: Bools) -> Int64s:
    """The number in columns first .. first+count; `chars` is transposed: one row per character position."""
    number = np.zeros(chars.shape[1], dtype=np.int32)
    for place in range(first, first + count):
        digit = chars[place] - np.uint8(48)
        wrong |= digit > 9
        number = number * 10 + digit
    return number.astype(np.int64)


def _days(chars: UInt8s, wrong: Bools) -> Int64s:
    year, month, day = digits(chars, 0, 4, wrong), digits(chars, 5, 2, wrong), digits(chars, 8, 2, wrong)
    wrong |= (chars[4] != 45) | (chars[7] != 45)
    np.minimum(month, 99, out=month)
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    wrong |= (day < 1) | (day > _MONTH_DAYS[month] + (leap & (month == 2)))
    shifted = year - (month <= 2)
    since = shifted * 365 + shifted // 4 - shifted // 100 + shifted // 400
    return since + _DAYS_BEFORE_MONTH[month] + day - 1 - 719_468


def by_length(strings: pa.Array, shortest: int, longest: int) -> list[tuple[int, Any, UInt8s]]:
    """Rows grouped by length: (length, indices of the rows, their characters, transposed). Nulls and texts that are too short or too long are
    left out."""
    data, ends = bytes_of(strings)
    lengths = np.diff(ends)
    lengths = np.where(nulls_of(strings), 0, lengths)
    groups: list[tuple[int, Any, UInt8s]] = []
    for length in np.flatnonzero(np.bincount(np.minimum(lengths, longest + 1), minlength=1)[: longest + 1]):
        if length < shortest:
            continue
        if len(lengths) and (lengths == length).all():
            chars = data[ends[0] : ends[-1]].reshape(len(lengths), length)
            groups.append((int(length), slice(None), np.ascontiguousarray(chars.T)))
        else:
            rows = np.flatnonzero(lengths == length)
            places = ends[:-1][rows] + np.arange(length, dtype=np.int64)[:, None]
            groups.append((int(length), rows, data[places]))
    return groups


def dates(strings: pa.Array) -> tuple[pa.Array, Bools]:
    """Dates from YYYY-MM-DD, alone or followed by a blank or T and any text."""
    null = nulls_of(strings)
    days, doubtful = np.zeros(len(strings), dtype=np.int32), ~null
    for length, rows, chars in by_length(strings, DATE_CHARS, FRACTION_CHARS_MAX + 1):
        wrong = np.zeros(chars.shape[1], dtype=np.bool_)
        days[rows] = _days(chars, wrong)
        if length > DATE_CHARS:
            wrong |= (chars[DATE_CHARS] != 32) & (chars[DATE_CHARS] != 84)
        doubtful[rows] = wrong
    return pa.array(days, pa.int32(), mask=null | doubtful).cast(pa.date32()), doubtful


def timestamps(strings: pa.Array, kind: pa.TimestampType) -> tuple[pa.Array, Bools]:
    """Timestamps from YYYY-MM-DD, also with [ T]HH:MM:SS, up to nine digits of a fraction, and Z if the type has a zone."""
    null = nulls_of(strings)
    values, doubtful = np.zeros(len(strings), dtype=np.int64), ~null
    for length, rows, chars in by_length(strings, DATE_CHARS, FRACTION_CHARS_MAX + 1):
        wrong = np.zeros(chars.shape[1], dtype=np.bool_)
        us = _days(chars, wrong) * DAY_US
        if length >= SECONDS_CHARS:
            zoned = chars[-1] == 90
            if kind.tz is None:
                wrong |= zoned
            us += _clock_us(chars, length, zoned, wrong)
        elif length != DATE_CHARS:
            continue
        values[rows] = us
        doubtful[rows] = wrong
    return pa.array(values, pa.int64(), mask=null | doubtful).cast(kind), doubtful


def _clock_us(chars: UInt8s, length: int, zoned: Bools, wrong: Bools) -> Int64s:
    hour, minute, second = (digits(chars, first, 2, wrong) for first in (11, 14, 17))
    wrong |= ((chars[10] != 32) & (chars[10] != 84)) | (chars[13] != 58) | (chars[16] != 58)
    wrong |= (hour > 23) | (minute > 59) | (second > 59)
    us = (hour * 3600 + minute * 60 + second) * 1_000_000
    if length == SECONDS_CHARS:
        wrong |= zoned
    elif length == SECONDS_CHARS + 1:
        wrong |= ~zoned
    else:
        wrong |= chars[SECONDS_CHARS] != 46
        # With Z the fraction is one character shorter; a Z in place of a digit counts as the 0 that it stands before.
        padded = chars[SECONDS_CHARS + 1 :].copy()
        padded[-1][zoned] = 48
        fraction = digits(padded, 0, len(padded), wrong) if len(padded) <= 6 else digits(padded[:6], 0, 6, wrong)
        for place in range(6, len(padded)):
            wrong |= (padded[place] - np.uint8(48)) > 9
        us += fraction * (_POWERS[len(padded) - 1] if len(padded) <= 6 else 1)
    return us
