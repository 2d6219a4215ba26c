"""Year-month intervals: their types, and how Spark writes and reads them.

An interval is a number of months of 32 bits. Spark has three types of it, which differ in the text that `to_json` and CAST give. pyarrow cannot
make Arrow's own type of months, and its kernels do not know that type. So a number of months is kept in a duration, whose unit says which of the
three types it is and nothing else. (A day-time interval is the duration of microseconds, and really means them.)
"""

from __future__ import annotations

import re
from typing import cast

import pyarrow as pa

from base.limits import INT64_MAX
from base.text.trimming import SPARK_BLANK

YEAR_TO_MONTH = pa.duration("s")
MONTH = pa.duration("ms")
YEAR = pa.duration("ns")

MONTHS_OF_A_YEAR = 12
MONTHS_MIN, MONTHS_MAX = -(1 << 31), (1 << 31) - 1

_WORDS = {YEAR_TO_MONTH: "YEAR TO MONTH", MONTH: "MONTH", YEAR: "YEAR"}
# In IntervalUtils the class of a sign is [+|-]: a bar counts as a plus.
_NUMBER = r"(?P<inner>[+|-])?(?P<number>[0-9]+)"
_BOTH = _NUMBER + "-(?P<months>[0-9]+)"
_QUOTED = r"INTERVAL\s+(?P<outer>[+|-])?'{inner}'\s+{words}"
_FORMS = {
    type_: tuple(
        re.compile(form, re.IGNORECASE | re.ASCII)
        for form in (inner, _QUOTED.format(inner=inner, words=words.replace(" ", r"\s+")))
    )
    for type_, words, inner in (
        (YEAR_TO_MONTH, "YEAR TO MONTH", _BOTH),
        (MONTH, "MONTH", _NUMBER),
        (YEAR, "YEAR", _NUMBER),
    )
}


def is_months(type_: pa.DataType) -> bool:
    """Whether this is the type of a year-month interval."""
    return type_ in _WORDS


def months_text(months: int, type_: pa.DataType) -> str:
    """INTERVAL '1-2' YEAR TO MONTH."""
    if type_ == MONTH:
        return f"INTERVAL '{months}' MONTH"
    years, rest = divmod(abs(months), MONTHS_OF_A_YEAR)
    number = f"{'-' if months < 0 else ''}{years}" + (f"-{rest}" if type_ == YEAR_TO_MONTH else "")
    return f"INTERVAL '{number}' {_WORDS[type_]}"


def months_value(text: str, type_: pa.DataType) -> int | None:
    """The number of months that CAST reads from a text; None if it refuses the text."""
    match = next(filter(None, (form.fullmatch(text.strip(SPARK_BLANK)) for form in _FORMS[type_])), None)
    if match is None:
        return None
    groups = cast("dict[str, str | None]", match.groupdict())
    sign = -1 if (groups.get("outer") == "-") != (groups["inner"] == "-") else 1
    number = _within(match["number"], INT64_MAX)
    if number is None:
        return None
    if type_ == MONTH:
        return _months_in_range(sign * number)
    if type_ == YEAR:
        # Spark multiplies without a look at 64 bits, so there the product wraps; and it multiplies by the sign at the end, in 32 bits.
        years = _months_in_range((number * MONTHS_OF_A_YEAR + INT64_MAX + 1) % (2 * INT64_MAX + 2) - INT64_MAX - 1)
        return years if years is None or years == MONTHS_MIN else sign * years
    rest = _within(match["months"], MONTHS_OF_A_YEAR - 1)
    if rest is None or number > MONTHS_MAX // MONTHS_OF_A_YEAR:
        return None
    return _months_in_range(sign * (number * MONTHS_OF_A_YEAR + rest))


def _within(digits: str, most: int) -> int | None:
    """The number, if it is at most `most`. Python refuses to read thousands of digits."""
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) <= len(str(most)) and int(digits) <= most else None


def _months_in_range(months: int) -> int | None:
    return months if MONTHS_MIN <= months <= MONTHS_MAX else None
