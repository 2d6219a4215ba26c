"""Time zones as Spark names them: offsets, Java's short names, and regions.

The rules of the regions come from the package `tzdata`, never from the machine's files: those differ between
machines, and then the same message would be another moment on another host. Java has rules of its own in the JVM. They
are the same data, but perhaps of another release: a region or a change of an offset that only the newer one knows is
read differently. Three kinds of names differ for good: `SystemV/...`, which only Java 17 and older know, is refused;
`EST`, `MST` and `HST` are offsets, as in Java before 24; `Factory` and `ROC` are refused, because Java does not know
them.
"""

from __future__ import annotations

import importlib.resources
import re
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from base.text.dates import CYCLE_DAYS, days

DAY_S = 86_400
OFFSET_S_MAX = 18 * 3600  # java.time.ZoneOffset has no larger ones
ZONES_KEPT_MAX = 1024  # more than tzdata has names, so none is read twice

_OFFSET = re.compile(r"([+-])([0-9]{1,2})(?::?([0-5][0-9])(?::?([0-5][0-9]))?)?")
# Spark completes +h:mm and +hh:m before it asks Java (SparkDateTimeUtils.getZoneId).
_ONE_HOUR_DIGIT = re.compile(r"([+-])(\d):", re.ASCII)
_ONE_MINUTE_DIGIT = re.compile(r"([+-])(\d\d):(\d)$", re.ASCII)

# java.time.ZoneId.SHORT_IDS of Java 17 and 21, which Spark passes to ZoneId.of.
SHORT_NAMES = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka", "CAT": "Africa/Harare",
    "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh", "EST": "-05:00", "MST": "-07:00", "HST": "-10:00",
}  # fmt: skip
_NOT_JAVAS = frozenset({"Factory", "ROC"})

# Python's datetime ends in the year 9999 and begins in 1. The rules repeat every 400 years, and before the year 1 a region
# has the local mean time that it has in that year.
_CYCLE_S = CYCLE_DAYS * DAY_S
_FIRST_S, _LAST_S = days(1, 1, 2) * DAY_S, days(9999, 12, 30) * DAY_S
_ORDINAL_OF_1970 = 719_163


def offset_s(zone: str, local_s: int) -> int | None:
    """Seconds east of UTC of `zone` at a local time (seconds since 1970-01-01T00:00 on its own clock).

    A local time that a change of the clock leaves out has the offset before the change, and one that occurs twice has
    the first one's, as in java.time.ZonedDateTime.of. None if Java knows no such zone."""
    found = _find(zone)
    return _region_s(found, local_s) if isinstance(found, ZoneInfo) else found


def offset_at_s(zone: str, utc_s: int) -> int | None:
    """Seconds east of UTC of `zone` at a moment (seconds since 1970-01-01T00:00 UTC). None if Java knows no such zone."""
    found = _find(zone)
    if not isinstance(found, ZoneInfo):
        return found
    local = _datetime(utc_s).replace(tzinfo=UTC).astimezone(found)
    return _seconds(local)


def _find(zone: str) -> ZoneInfo | int | None:
    """The rules of a region, or the seconds of an offset that never changes."""
    if zone in ("Z", "UTC", "GMT", "UT"):
        return 0
    zone = _ONE_HOUR_DIGIT.sub(r"\g<1>0\2:", zone, count=1)
    zone = _ONE_MINUTE_DIGIT.sub(r"\1\2:0\3", zone, count=1)
    zone = SHORT_NAMES.get(zone, zone)
    for prefix in ("UTC", "GMT", "UT", ""):
        if zone.startswith((prefix + "+", prefix + "-")):
            return _fixed_s(zone[len(prefix) :])
    return _rules(zone)


def _fixed_s(text: str) -> int | None:
    """java.time.ZoneOffset.of: +h, +hh, +hhmm, +hh:mm, +hhmmss, +hh:mm:ss."""
    match = _OFFSET.fullmatch(text)
    if not match or (len(match[2]) == 1 and match[3]) or (match[4] and text.count(":") == 1):
        return None
    seconds = int(match[2]) * 3600 + int(match[3] or 0) * 60 + int(match[4] or 0)
    if seconds > OFFSET_S_MAX:
        return None
    return -seconds if match[1] == "-" else seconds


def _region_s(rules: ZoneInfo, local_s: int) -> int:
    return _seconds(_datetime(local_s).replace(tzinfo=rules))


def _datetime(seconds: int) -> datetime:
    """The date and time, moved by whole cycles or to the year 1 if Python has none such."""
    if seconds > _LAST_S:
        seconds -= -(-(seconds - _LAST_S) // _CYCLE_S) * _CYCLE_S
    number, second = divmod(max(seconds, _FIRST_S), DAY_S)
    return datetime.fromordinal(number + _ORDINAL_OF_1970).replace(
        hour=second // 3600, minute=second // 60 % 60, second=second % 60
    )


def _seconds(local: datetime) -> int:
    offset = local.utcoffset()
    assert offset is not None, f"a zone without an offset: {local.tzinfo}"
    return round(offset.total_seconds())


@lru_cache(maxsize=1)
def region_names() -> frozenset[str]:
    """The names of tzdata that Java knows too; a text that is not among them never becomes the name of a file."""
    return frozenset(importlib.resources.files("tzdata").joinpath("zones").read_text().split()) - _NOT_JAVAS


@lru_cache(maxsize=ZONES_KEPT_MAX)
def _rules(name: str) -> ZoneInfo | None:
    if name not in region_names():
        return None
    with importlib.resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)
