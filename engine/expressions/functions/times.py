"""Datetime patterns (date_format, to_timestamp, from_unixtime) in UTC, and months_between.

Dates are days since 1970 and timestamps are microseconds since 1970, in the proleptic Gregorian calendar. CAST without a pattern is in
`written.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from base.text.dates import civil, days, exists, is_leap, month_length, year_text
from base.text.timestamps import DAY_US, INT64_MAX, SECOND_US
from engine.expressions.functions.function import Failure, each

FORMATS_KEPT_MAX = 256


# --- patterns of date_format, to_timestamp, from_unixtime ---------------------------------------------------------------

_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class UnsupportedFormat(Failure):
    def __init__(self, pattern: str, why: str) -> None:
        super().__init__("UNSUPPORTED_DATETIME_PATTERN", f"datetime pattern {pattern!r}: {why}")


@lru_cache(FORMATS_KEPT_MAX)
def tokens(pattern: str) -> tuple[tuple[str, int], ...]:
    """The parts of a pattern: (letter, count) for a field, (text, 0) for literal text."""
    found: list[tuple[str, int]] = []
    position = 0
    while position < len(pattern):
        c = pattern[position]
        if c == "'":
            if pattern.startswith("''", position):
                found.append(("'", 0))
                position += 2
                continue
            end = position + 1
            text = ""
            while True:
                close = pattern.find("'", end)
                if close < 0:
                    raise UnsupportedFormat(pattern, "a quote is not closed")
                text += pattern[end:close]
                if not pattern.startswith("''", close):
                    break
                text, end = text + "'", close + 2
            found.append((text, 0))
            position = close + 1
        elif c.isascii() and c.isalpha():
            count = 1
            while pattern.startswith(c, position + count):
                count += 1
            found.append((c, count))
            position += count
        elif c in "[]{}#":
            raise UnsupportedFormat(pattern, f"{c} is not supported")
        else:
            found.append((c, 0))
            position += 1
    return tuple(found)


def _field(letter: str, count: int, pattern: str) -> Callable[[int, int, int, int, int], str]:
    """A function that writes one field, given (year, month, day, days since 1970, microseconds of the day)."""
    number: dict[str, Callable[[int, int, int, int, int], int]] = {
        "d": lambda y, mo, d, n, us: d,
        "D": lambda y, mo, d, n, us: n - days(y, 1, 1) + 1,
        "H": lambda y, mo, d, n, us: us // 3_600_000_000,
        "k": lambda y, mo, d, n, us: us // 3_600_000_000 or 24,
        "K": lambda y, mo, d, n, us: us // 3_600_000_000 % 12,
        "h": lambda y, mo, d, n, us: us // 3_600_000_000 % 12 or 12,
        "m": lambda y, mo, d, n, us: us // 60_000_000 % 60,
        "s": lambda y, mo, d, n, us: us // SECOND_US % 60,
    }
    limit = 3 if letter == "D" else 2
    if letter in number and count <= limit:
        value = number[letter]
        return lambda y, mo, d, n, us: f"{value(y, mo, d, n, us):0{count}d}"
    if letter == "y" and count <= 6:
        if count == 2:
            return lambda y, mo, d, n, us: f"{y % 100:02d}"
        return lambda y, mo, d, n, us: year_text(y, count) if count > 1 else str(y)
    if letter in "ML" and count <= 4:
        names = {3: tuple(name[:3] for name in _MONTHS), 4: _MONTHS}.get(count)
        if names:
            return lambda y, mo, d, n, us: names[mo - 1]
        return lambda y, mo, d, n, us: f"{mo:0{count}d}"
    if letter == "E" and count <= 4:
        width = None if count == 4 else 3
        return lambda y, mo, d, n, us: _WEEKDAYS[(n + 3) % 7][:width]
    if letter == "S" and count <= 9:
        return lambda y, mo, d, n, us: f"{us % SECOND_US:06d}000"[:count]
    if letter == "a" and count == 1:
        return lambda y, mo, d, n, us: "PM" if us >= DAY_US // 2 else "AM"
    if letter in "qQ" and count <= 2:
        return lambda y, mo, d, n, us: f"{(mo + 2) // 3:0{count}d}"
    zones = {
        "X": "Z",
        "x": ("+00", "+0000", "+00:00")[min(count, 3) - 1],
        "Z": "+0000" if count < 4 else "GMT",
        "z": "UTC",
    }
    if letter in zones and count <= 3:
        return lambda y, mo, d, n, us: zones[letter]
    if letter == "V" and count == 2:
        return lambda y, mo, d, n, us: "UTC"
    raise UnsupportedFormat(pattern, f"{letter * count} is not supported")


@lru_cache(FORMATS_KEPT_MAX)
def formatter(pattern: str) -> Callable[[int], str]:
    """A function that writes microseconds since 1970 in a pattern. Raises `UnsupportedFormat`."""
    writers = [_field(text, count, pattern) if count else text for text, count in tokens(pattern)]

    def write(micros: int) -> str:
        number, us = divmod(micros, DAY_US)
        year, month, day = civil(number)
        return "".join(w if isinstance(w, str) else w(year, month, day, number, us) for w in writers)

    return write


# (letter, count) -> the regular expression of a field. A field that another field follows has as many digits as letters.
_READ = {
    ("y", 1): r"([+-]?[0-9]{1,7})", ("y", 2): "([0-9]{2})", ("y", 4): r"([0-9]{4}|[+-][0-9]{5,7}|-[0-9]{4})",
    ("M", 1): "([0-9]{1,2})", ("M", 2): "([0-9]{2})", ("M", 3): "(" + "|".join(name[:3] for name in _MONTHS) + ")",
    ("M", 4): "(" + "|".join(_MONTHS) + ")",
    ("d", 1): "([0-9]{1,2})", ("d", 2): "([0-9]{2})", ("D", 3): "([0-9]{3})",
    ("H", 1): "([0-9]{1,2})", ("H", 2): "([0-9]{2})", ("h", 1): "([0-9]{1,2})", ("h", 2): "([0-9]{2})",
    ("m", 1): "([0-9]{1,2})", ("m", 2): "([0-9]{2})",
    ("s", 1): "([0-9]{1,2})", ("s", 2): "([0-9]{2})", ("a", 1): "(AM|PM|am|pm|Am|Pm|aM|pM)",
    ("X", 1): r"(Z|[+-][0-9]{2}(?:[0-9]{2})?)", ("X", 2): r"(Z|[+-][0-9]{4})", ("X", 3): r"(Z|[+-][0-9]{2}:[0-9]{2})",
    ("x", 1): r"([+-][0-9]{2}(?:[0-9]{2})?)", ("x", 2): r"([+-][0-9]{4})", ("x", 3): r"([+-][0-9]{2}:[0-9]{2})", ("Z", 1): r"([+-][0-9]{4})",
    **{("S", n): f"([0-9]{{1,{n}}})" for n in range(1, 10)},
}  # fmt: skip


@lru_cache(FORMATS_KEPT_MAX)
def parser(pattern: str) -> Callable[[str], int]:
    """A function that reads text in a pattern as microseconds since 1970. Raises `UnsupportedFormat`."""
    expression, letters = "", []
    found = tokens(pattern)
    for index, (text, count) in enumerate(found):
        if not count:
            expression += re.escape(text)
            continue
        letter = {"L": "M"}.get(text, text)
        width = {("y", 3): 1, ("Z", 2): 1, ("Z", 3): 1}.get((letter, count), count)
        piece = _READ.get((letter, width))
        adjacent = index + 1 < len(found) and found[index + 1][1] > 0
        if piece is None or letter in letters:
            raise UnsupportedFormat(pattern, f"{text * count} is not supported in reading")
        if adjacent and letter == "y" and count == 4:
            piece = "([0-9]{4})"
        elif adjacent and letter == "S":
            piece = f"([0-9]{{{count}}})"
        expression += piece
        letters.append(letter)
    if "D" in letters and ("M" in letters or "d" in letters):
        raise UnsupportedFormat(pattern, "D beside M or d is not supported")
    if ("h" in letters) != ("a" in letters):
        raise UnsupportedFormat(pattern, "h needs a, and a needs h")
    two_digits = ("y", 2) in found
    compiled = re.compile(expression)

    def read(text: str) -> int:
        match = compiled.fullmatch(text)
        micros = None if match is None else _resolved(dict(zip(letters, match.groups(), strict=True)), two_digits)
        if micros is None:
            raise Failure("CANNOT_PARSE_TIMESTAMP", f"Text {text!r} could not be parsed with {pattern!r}.")
        return micros

    return read


def _resolved(fields: dict[str, str], two_digits: bool) -> int | None:
    """The microseconds since 1970 of the fields; None if there is no such date or time, or if they need more than 64 bits."""
    year = int(fields.get("y", 1970)) + (2000 if two_digits else 0)
    written = fields.get("M", "1")
    month = (
        int(written) if written.isdigit() else 1 + next(i for i, name in enumerate(_MONTHS) if name.startswith(written))
    )
    day = int(fields.get("d", 1))
    if not exists(year, month, day):
        return None
    number = days(year, month, day)
    if "D" in fields:
        of_year = int(fields["D"])
        if not 1 <= of_year <= 365 + is_leap(year):
            return None
        number = days(year, 1, 1) + of_year - 1
    hour, minute, second = int(fields.get("H", 0)), int(fields.get("m", 0)), int(fields.get("s", 0))
    if "h" in fields:
        twelfth = int(fields["h"])
        if not 1 <= twelfth <= 12:
            return None
        hour = twelfth % 12 + (12 if fields["a"].upper() == "PM" else 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    fraction = int(fields.get("S", "")[:6].ljust(6, "0"))
    zone = next((fields[letter] for letter in "XxZ" if letter in fields), "Z")
    offset = 0
    if zone != "Z":
        digits = zone[1:].replace(":", "").ljust(4, "0")
        offset = (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * (1 if zone[0] == "+" else -1)
    micros = (number * 86400 + hour * 3600 + minute * 60 + second - offset) * SECOND_US + fraction
    return micros if -INT64_MAX - 1 <= micros <= INT64_MAX else None


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


FUNCTIONS = (
    each("spark_date_format", "TIMESTAMP VARCHAR", "VARCHAR", lambda micros, pattern: formatter(pattern)(micros)),
    each("spark_parse_timestamp", "VARCHAR VARCHAR", "TIMESTAMP", lambda text, pattern: parser(pattern)(text)),
    each("spark_months_between", "TIMESTAMP TIMESTAMP BOOLEAN", "DOUBLE", _months_between),
)
