"""Scalars as Java and Spark spell and read them: doubles, dates, timestamps, decimals, intervals, base64.

One value a call: this is the exact, slow side. The vectorised side (`vector.py`) takes the usual spellings and
leaves the rest to this module, so here the grammar is whole. Each function that reads returns None for what Spark
refuses.

A timestamp without a date ("03:04:05") is refused where Spark takes today's: a step's output must not depend on the
clock.
"""

from __future__ import annotations

import base64
import re
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np

DAY_US = 86_400_000_000
INT64_MAX = 2**63 - 1
INT32_MAX = 2**31 - 1
ZONE_OFFSET_S_MAX = 18 * 3600
# More digits than a JSON number may have, so that quantize never rounds by precision.
_EXACT = Context(prec=2200, rounding=ROUND_HALF_UP)
# Spark trims what Java calls whitespace or an ISO control, a byte at a time.
_TRIMMED = "".join(map(chr, range(33))) + "\x7f"

_DATE = re.compile(r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TIMESTAMP = re.compile(
    r"([+-]?)([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?([^0-9].*)?)?)?)?)?)?",
    re.DOTALL,
)
_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d+))?")
_INTERVAL = re.compile(
    r"\s*(?:INTERVAL\s+([+-])?\s*')?([+-])?([0-9]+) ([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]{1,9}))?"
    r"(?:'\s+DAY\s+TO\s+SECOND)?\s*",
    re.IGNORECASE,
)
_ZONE_OFFSET = re.compile(r"([+-])([0-9]{1,2})(?::?([0-5][0-9])(?::?([0-5][0-9]))?)?")
_ZONE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9~/._+-]+")
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")

# java.time.ZoneId.SHORT_IDS, which Spark passes to ZoneId.of.
_SHORT_ZONES = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka", "CAT": "Africa/Harare",
    "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh", "EST": "-05:00", "MST": "-07:00", "HST": "-10:00",
}  # fmt: skip
# In the zone files of many systems, but not known to Java.
_NOT_JAVA_ZONES = {"Factory", "ROC", "localtime", "posixrules"}


def days_of(year: int, month: int, day: int) -> int | None:
    """Days since 1970-01-01 of a date of the proleptic Gregorian calendar, any year; None if there is no such
    date."""
    if not 1 <= month <= 12 or not 1 <= day <= _month_days(year, month):
        return None
    return civil_days(year, month, day)


def civil_days(year: int, month: int, day: int) -> int:
    """The count alone, for a month in 1..12; the year begins in March, so that the leap day comes last."""
    shifted = year - (month <= 2)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return shifted * 365 + shifted // 4 - shifted // 100 + shifted // 400 + of_year - 719_468


def _month_days(year: int, month: int) -> int:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if month == 2 and leap else (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]


def date_days(text: str) -> int | None:
    """A DATE from a string: Spark's cast, else the same without "GMT", else a count of days."""
    days = _cast_date(text)
    if days is None and "GMT" in text:
        days = _cast_date(text.replace("GMT", "", 1))
    if days is None and _INTEGER.fullmatch(text):
        count = int(text)
        if -INT32_MAX - 1 <= count <= INT32_MAX:
            days = _from_julian(count)
    return days if days is not None and -INT32_MAX - 1 <= days <= INT32_MAX else None


def _cast_date(text: str) -> int | None:
    match = _DATE.fullmatch(text.strip(_TRIMMED))
    if not match:
        return None
    sign, year, month, day = match.groups()
    days = days_of(int(sign + year), int(month or 1), int(day or 1))
    return days if days is not None and -INT32_MAX - 1 <= days <= INT32_MAX else None


def _from_julian(days: int) -> int:
    """A day count of the hybrid calendar (Julian before 1582-10-15) -> the Gregorian count of the same year, month,
    day."""
    if days >= civil_days(1582, 10, 15):
        return days
    # Julian civil date from the count; 1970-01-01 Gregorian is 1969-12-19 Julian, hence the other epoch.
    z = days + 719_470
    year, of_year = divmod(4 * z + 3, 1461)
    of_year //= 4
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return civil_days(year + (month <= 2), month, 1) + day - 1


def timestamp_us(text: str) -> int | None:
    """A TIMESTAMP from a string, in microseconds since the epoch; UTC where the string names no zone."""
    us = _cast_timestamp(text, zones=True)
    if us is None and "GMT" in text:
        us = _cast_timestamp(text.replace("GMT", "", 1), zones=True)
    return us


def timestamp_ntz_us(text: str) -> int | None:
    """A TIMESTAMP_NTZ from a string: a zone is refused."""
    return _cast_timestamp(text, zones=False)


def _cast_timestamp(text: str, zones: bool) -> int | None:
    match = _TIMESTAMP.fullmatch(text.strip(_TRIMMED))
    if not match:
        return None
    sign, year_text, month, day, hour, minute, second, fraction, zone = match.groups()
    year = int(sign + year_text)
    days = days_of(year, int(month or 1), int(day or 1))
    clock = (int(hour or 0), int(minute or 0), int(second or 0))
    if days is None or clock[0] > 23 or clock[1] > 59 or clock[2] > 59:
        return None
    local_s = days * 86_400 + clock[0] * 3600 + clock[1] * 60 + clock[2]
    offset_s: int | None = 0
    if zone is not None:
        if not zones:
            return None
        offset_s = _offset_s(zone.strip(_TRIMMED[:33]), local_s)
    if offset_s is None:
        return None
    us = (local_s - offset_s) * 1_000_000 + int((fraction or "").ljust(6, "0")[:6])
    return us if -INT64_MAX - 1 <= us <= INT64_MAX else None


def _offset_s(zone: str, local_s: int) -> int | None:
    """Seconds east of UTC of `zone` at a local time; None if Java knows no such zone."""
    zone = re.sub(r"([+-])(\d):", r"\g<1>0\2:", zone, count=1)
    zone = re.sub(r"([+-])(\d\d):(\d)$", r"\1\2:0\3", zone, count=1)
    zone = _SHORT_ZONES.get(zone, zone)
    if zone in ("Z", "UTC", "GMT", "UT"):
        return 0
    for prefix in ("UTC", "GMT", "UT", ""):
        if zone.startswith((prefix + "+", prefix + "-")):
            return _fixed_offset_s(zone[len(prefix) :])
    known = _zone(zone)
    if known is None:
        return None
    # Rules repeat every 400 years; Python's datetime ends at 9999 and begins at 1. Before 1 local mean time holds,
    # as in year 1.
    cycle_s = 146_097 * 86_400
    low, high = civil_days(1, 1, 2) * 86_400, civil_days(9999, 12, 30) * 86_400
    if local_s > high:
        local_s -= -(-(local_s - high) // cycle_s) * cycle_s
    local_s = max(local_s, low)
    days, second = divmod(local_s, 86_400)
    local = datetime.fromordinal(days + 719_163).replace(
        hour=second // 3600, minute=second // 60 % 60, second=second % 60
    )
    offset = local.replace(tzinfo=known).utcoffset()
    return None if offset is None else round(offset.total_seconds())


def _fixed_offset_s(text: str) -> int | None:
    match = _ZONE_OFFSET.fullmatch(text)
    if not match or (len(match[2]) == 1 and match[3]) or (match[4] and text.count(":") == 1):
        return None
    seconds = int(match[2]) * 3600 + int(match[3] or 0) * 60 + int(match[4] or 0)
    if seconds > ZONE_OFFSET_S_MAX:
        return None
    return -seconds if match[1] == "-" else seconds


@lru_cache(maxsize=1024)  # more zones than there are names in use; bounded, for names come from messages
def _zone(name: str) -> ZoneInfo | None:
    if not _ZONE_NAME.fullmatch(name) or name in _NOT_JAVA_ZONES or name.startswith(("posix/", "right/")):
        return None
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        return None


def decimal_value(text: str, precision: int, scale: int) -> Decimal | None:
    """A DECIMAL(precision, scale): rounded half up; None if it does not fit or is no number."""
    match = _DECIMAL.fullmatch(text)
    if not match or (match[1] and abs(int(match[1])) > INT32_MAX):
        return None
    value = _EXACT.create_decimal(text)
    if not value or value.adjusted() < -scale - 1:
        return Decimal(0).scaleb(-scale)
    if value.adjusted() >= precision - scale:
        return None
    value = value.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    return value if not value or value.adjusted() < precision - scale else None


def interval_us(text: str) -> int | None:
    """A day-time interval, spelt `INTERVAL '1 02:03:04.5' DAY TO SECOND` or just `1 02:03:04.5`."""
    match = _INTERVAL.fullmatch(text)
    if not match:
        return None
    outer, inner, days, hours, minutes, seconds, fraction = match.groups()
    if int(hours) > 23 or int(minutes) > 59 or int(seconds) > 59:
        return None
    us = int(days) * DAY_US + (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * 1_000_000
    us += int((fraction or "").ljust(6, "0")[:6])
    us = -us if (outer == "-") != (inner == "-") else us
    return us if -INT64_MAX - 1 <= us <= INT64_MAX else None


def binary_value(text: str) -> bytes | None:
    """Base64 with its padding; whitespace is taken between groups of four, as Jackson does."""
    groups = re.findall(r"[\x00-\x20]*([^\x00-\x20]{4})", text)
    if re.sub(r"[\x00-\x20]*[^\x00-\x20]{4}", "", text).strip(_TRIMMED[:33]):
        return None
    if not all(len(group) == 4 and _BASE64.fullmatch(group) for group in groups):
        return None
    return b"".join(map(base64.b64decode, groups))


def double_text(value: float) -> str:
    """Java's Double.toString: the shortest digits that read back (JDK 19 and later), in Java's layout."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return java_layout(repr(value), value)


def java_layout(shortest: str, value: float) -> str:
    """The shortest digits of `value` -> Java's layout: plain within [1e-3, 1e7), else d.dddE±n."""
    sign = "-" if shortest.startswith("-") else ""
    mantissa, _, exponent = shortest.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if not digits:
        return sign + "0.0"
    if len(digits) == 1:
        # Java writes two digits at least, and of those the nearest: 4.9E-324 where the shortest is 5e-324.
        two = f"{abs(value):.1e}"
        digits, point = (two[0] + two[2]).rstrip("0"), int(two[4:]) + 1
    if -3 < point <= 7:
        padded = "0" * max(0, 1 - point) + digits.ljust(point, "0")
        cut = max(point, 1)
        return f"{sign}{padded[:cut]}.{padded[cut:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def json_double(value: float) -> str:
    """A DOUBLE as JSON: what is not finite is quoted."""
    text = double_text(value)
    return text if text[-1].isdigit() else f'"{text}"'


def json_float(value: float) -> str:
    """A FLOAT as JSON; `value` is a float32 in Python's clothes."""
    if value - value != 0:
        return json_double(value)
    return java_layout(str(np.float32(value)), value)


def date_text(days: int) -> str:
    """A DATE of any year: four digits at least, + before more than four."""
    cycles, rest = divmod(days - civil_days(2000, 1, 1), 146_097)
    of_cycle = date.fromordinal(date(2000, 1, 1).toordinal() + rest)
    year = of_cycle.year + 400 * cycles
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{of_cycle.month:02d}-{of_cycle.day:02d}"


def timestamp_text(ms: int) -> str:
    """A timestamp of any year, to the millisecond, without a zone."""
    days, of_day = divmod(ms, 86_400_000)
    seconds, fraction = divmod(of_day, 1000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:03d}"
    return f"{date_text(days)}T{clock}"


def interval_text(us: int) -> str:
    """INTERVAL '1 02:03:04.5' DAY TO SECOND."""
    days, rest = divmod(abs(us), DAY_US)
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    decimals = f".{fraction:06d}".rstrip("0") if fraction else ""
    return f"INTERVAL '{'-' if us < 0 else ''}{days} {clock}{decimals}' DAY TO SECOND"
