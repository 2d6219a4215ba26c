"""Spark's rules for values as text that only the JSON reader and writer use. The common rules are in `base.text`.

This is the exact, slow side, with one value per call. The vectorised side (`base.text.columns`, `vector.py`) handles the
usual spellings and leaves the rest to this module. Each function that reads returns None for what `from_json` refuses. It reads
some texts that CAST refuses, or the other way round; `docs/sql.md` lists them.
"""

from __future__ import annotations

import base64
import re
from decimal import Decimal

from base.text import dates, timestamps
from base.text.dates import INT32_MAX, days
from base.text.decimals import big_decimal, to_scale
from base.text.doubles import double_text, single_text
from base.text.timestamps import DAY_US, INT64_MAX
from base.text.trimming import JAVA_BLANK, SPARK_BLANK

INT_DIGITS_MAX = 10  # of 2^31: more are an overflow, and Python refuses to read thousands
# from_json divides by the power of ten with as many zeros. Java's BigInteger has no larger one, and raises. (A text's own digits
# count there too; they are too few to matter beside half a billion.)
DIGITS_DROPPED_MAX = 536_870_919

_INTEGER = re.compile(r"([+-]?)(\d++)")
_LAST_CHAR_OF_16_BITS = "\uffff"
# In IntervalUtils the class of a sign is [+|-]: a bar counts as a plus.
_INTERVAL_VALUE = r"([+|-])?([0-9]{1,9}) ([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]{1,9}))?"
_INTERVAL = re.compile(
    rf"(?:INTERVAL\s+(?P<outer>[+|-])?(?P<quote>'))?{_INTERVAL_VALUE}(?(quote)'\s+DAY\s+TO\s+SECOND)",
    re.IGNORECASE | re.ASCII,
)
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")


def date_days(text: str) -> int | None:
    """A DATE from a string: as CAST reads it, else the same without any "GMT", else a count of days."""
    number = dates.date_days(text)
    if number is None and "GMT" in text:
        number = dates.date_days(text.replace("GMT", ""))
    return _counted_days(text) if number is None else number


def _counted_days(text: str) -> int | None:
    """An integer of 32 bits as java.lang.Integer.parseInt reads it, with the digits of any script: days since 1970-01-01 in the
    hybrid calendar."""
    match = _INTEGER.fullmatch(text)
    if not match or max(text) > _LAST_CHAR_OF_16_BITS:
        return None
    digits = match[2].lstrip("0") or "0"
    if len(digits) > INT_DIGITS_MAX:
        return None
    count = int(match[1] + digits)
    if not -INT32_MAX - 1 <= count <= INT32_MAX:
        return None
    number = _from_julian(count)
    return number if -INT32_MAX - 1 <= number <= INT32_MAX else None


def _from_julian(count: int) -> int:
    """A day count of the hybrid calendar (Julian before 1582-10-15) -> the Gregorian count of the same year, month,
    day."""
    if count >= days(1582, 10, 15):
        return count
    # Julian civil date from the count; 1970-01-01 Gregorian is 1969-12-19 Julian, hence the other epoch.
    z = count + 719_470
    year, of_year = divmod(4 * z + 3, 1461)
    of_year //= 4
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return days(year + (month <= 2), month, 1) + day - 1


def timestamp_us(text: str) -> int | None:
    """A TIMESTAMP from a string: as CAST reads it, else the same without any "GMT"."""
    us = timestamps.timestamp_us(text)
    if us is None and "GMT" in text:
        us = timestamps.timestamp_us(text.replace("GMT", ""))
    return us


def timestamp_ntz_us(text: str) -> int | None:
    """A TIMESTAMP_NTZ from a string: a zone is refused."""
    return timestamps.timestamp_ntz_us(text, zone="refused")


def decimal_value(text: str, precision: int, scale: int) -> Decimal | None:
    """A DECIMAL(precision, scale): rounded half up; None if it does not fit or is no number. Blanks are not removed."""
    value = big_decimal(text)
    if value is None or (value and -value.adjusted() - scale > DIGITS_DROPPED_MAX):
        return None
    return to_scale(value, precision, scale)


def interval_us(text: str) -> int | None:
    """A day-time interval, spelt `INTERVAL '1 02:03:04.5' DAY TO SECOND` or just `1 02:03:04.5`."""
    match = _INTERVAL.fullmatch(text.strip(SPARK_BLANK))
    if not match:
        return None
    inner, number, hours, minutes, seconds, fraction = match.groups()[2:]
    if int(hours) > 23 or int(minutes) > 59 or int(seconds) > 59:
        return None
    us = int(number) * DAY_US + (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * 1_000_000
    us += int((fraction or "").ljust(6, "0")[:6])
    us = -us if (match["outer"] == "-") != (inner == "-") else us
    return us if -INT64_MAX - 1 <= us <= INT64_MAX else None


def binary_value(text: str) -> bytes | None:
    """Base64 with its padding; whitespace is taken between groups of four, as Jackson does."""
    groups = re.findall(r"[\x00-\x20]*+([^\x00-\x20]{4})", text)
    if re.sub(r"[\x00-\x20]*+[^\x00-\x20]{4}", "", text).strip(JAVA_BLANK):
        return None
    if not all(len(group) == 4 and _BASE64.fullmatch(group) for group in groups):
        return None
    return b"".join(map(base64.b64decode, groups))


def json_double(value: float) -> str:
    """A DOUBLE as JSON; what is not finite is quoted."""
    return _quoted_unless_finite(double_text(value))


def json_float(value: float) -> str:
    """A FLOAT as JSON; `value` is a float's value in Python's type."""
    return _quoted_unless_finite(single_text(value))


def _quoted_unless_finite(text: str) -> str:
    return text if text[-1].isdigit() else f'"{text}"'
