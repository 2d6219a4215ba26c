"""A value as its schema has it -> a column's type, as Spark's CAST in ANSI mode, for a whole column at once.

A cast gives the values and says which of those that are not null have none in the column's type. There is no cast between two types if Spark has
none. Four casts are not Spark's, three of them because a message says more or less than a value of Spark's:

- A count of time (days, milliseconds, ...) is its own number in a column of numbers. Spark has no common rule there: it refuses DATE and
  TIMESTAMP_NTZ, and gives the seconds of a TIMESTAMP.
- A number without a logical type is no TIMESTAMP, because its unit is unknown. Spark would take seconds.
- ISO text with a zone is a moment: as TIMESTAMP_NTZ or DATE it is that of UTC. Spark would drop the zone of a text.
- A time of day is no TIMESTAMP. Spark would take the day on which it runs, and output must not depend on the clock.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, Int64s, fill
from base.limits import DECIMAL_DIGITS_MAX
from base.text import columns, dates, doubles, integers, timestamps
from base.text.columns import nulls_of
from base.text.day_times import interval_text
from base.text.decimals import big_decimal, to_scale
from base.text.months import MONTH, YEAR, is_months, months_value
from base.text.timestamps import DAY_US, INT64_MAX, SECOND_US
from base.text.trimming import JAVA_BLANK
from io_kafka.formats import javatext
from io_kafka.formats.connect.leaves import Leaf, Sense
from io_kafka.formats.connect.unscaled import as_decimals, number_of

Cast = Callable[[pa.Array], tuple[pa.Array, Bools]]
"""The raw values -> (the column, which values have no place in it). Those are null in the column."""

_DURATION = pa.duration("us")
_USUAL_YEARS_US = tuple(dates.days(year, 1, 1) * DAY_US for year in (1000, 10_000))
PLAIN_SCALE_MAX = 6
"""Up to this scale Arrow writes a decimal without an exponent."""
_DATE_IN_ZONE = re.compile(r"([+-]?[0-9]{4,}-[0-9]{2}-[0-9]{2})(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)")


def cast_of(leaf: Leaf, kind: pa.DataType) -> Cast | None:
    """None if nothing of the leaf's sense is a value of that type."""
    match leaf.sense:
        case Sense.BOOLEAN:
            return _from_boolean(kind)
        case Sense.INTEGER:
            return _from_integer(kind)
        case Sense.REAL:
            return _from_real(leaf.raw, kind)
        case Sense.STRING:
            return _from_string(kind)
        case Sense.BINARY:
            return _from_binary(kind)
        case Sense.DECIMAL:
            return _from_decimal(leaf.scale, kind)
        case Sense.DAYS | Sense.MOMENT | Sense.CLOCK | Sense.SPAN:
            return _from_count(leaf, kind)
        case Sense.ZONED:
            return _from_moment_text(kind)
        case Sense.ISO_DATE:
            return _from_date_text(kind)
        case _:
            assert_never(leaf.sense)


def cast_each(values: list[Any], kind: pa.DataType, one: Callable[[Any], Any]) -> tuple[pa.Array, Bools]:
    """One by one; `one` gives None for a value that has no place in the type."""
    found = [None if value is None else one(value) for value in values]
    failed = [made is None and value is not None for made, value in zip(found, values, strict=True)]
    return pa.array(found, kind), np.array(failed, np.bool_)


def decimals_to(kind: pa.DataType) -> Callable[[Decimal], Any] | None:
    """One exact number of any size as a value of the type."""
    if pa.types.is_decimal(kind):
        return lambda value: to_scale(value, kind.precision, kind.scale)
    if pa.types.is_integer(kind):
        low, high = -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
        return lambda value: whole if value.adjusted() < 20 and low <= (whole := int(value)) <= high else None
    if kind == pa.float64():
        return float
    if kind == pa.float32():
        return lambda value: doubles.single_value(str(value))
    if kind == pa.string():
        return lambda value: format(value, "f")
    return bool if kind == pa.bool_() else None


def _by_each(kind: pa.DataType, one: Callable[[Any], Any]) -> Cast:
    return lambda raw: cast_each(raw.to_pylist(), kind, one)


def _all(kind: pa.DataType) -> Cast:
    """Arrow's own cast, where no value fails."""
    return lambda raw: (raw.cast(kind), np.zeros(len(raw), np.bool_))


def _mask(numbers: np.ndarray, failed: Bools, raw: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Bools]:
    null = nulls_of(raw)
    failed = failed & ~null
    return pa.array(numbers, mask=null | failed).cast(kind), failed


def _from_boolean(kind: pa.DataType) -> Cast | None:
    if kind == pa.bool_() or kind == pa.string() or pa.types.is_integer(kind):
        return _all(kind)
    if pa.types.is_floating(kind):
        return lambda raw: _all(kind)(raw.cast(pa.int8()))
    return (
        _by_each(kind, lambda value: to_scale(Decimal(value), kind.precision, kind.scale))
        if _is_decimal(kind)
        else None
    )


def _is_decimal(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal128(kind))


def _from_integer(kind: pa.DataType) -> Cast | None:
    if pa.types.is_integer(kind):
        return lambda raw: _narrow(raw, kind)
    if pa.types.is_floating(kind):
        width = np.float32 if kind == pa.float32() else np.float64
        return lambda raw: _mask(_numbers(raw).astype(width), np.zeros(len(raw), np.bool_), raw, kind)
    if kind == pa.string():
        return _all(kind)
    if kind == pa.bool_():
        return lambda raw: (pc.not_equal(raw, 0), np.zeros(len(raw), np.bool_))
    if kind in (MONTH, YEAR):
        months = 12 if kind == YEAR else 1
        return _by_each(kind, lambda value: value * months if -(2**31) <= value * months < 2**31 else None)
    one = decimals_to(kind) if _is_decimal(kind) else None
    return None if one is None else _by_each(kind, lambda value: one(Decimal(value)))


def _numbers(raw: pa.Array) -> Int64s:
    return fill(raw.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _narrow(raw: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Bools]:
    if raw.type.bit_width <= kind.bit_width:
        return _all(kind)(raw)
    numbers, half = _numbers(raw), 1 << (kind.bit_width - 1)
    return _mask(numbers, (numbers < -half) | (numbers >= half), raw, kind)


def _from_real(raw: pa.DataType, kind: pa.DataType) -> Cast | None:
    if pa.types.is_floating(kind):
        return _from_real_to_real(kind)
    if pa.types.is_integer(kind):
        return _by_each(kind, partial(_truncate, bits=kind.bit_width))
    if kind == pa.string():
        return _by_each(kind, doubles.single_text if raw == pa.float32() else doubles.double_text)
    if kind == pa.bool_():
        return _by_each(kind, lambda value: value != 0)
    if not _is_decimal(kind):
        return None
    return _by_each(
        kind, lambda value: to_scale(Decimal(repr(value)), kind.precision, kind.scale) if math.isfinite(value) else None
    )


def _from_real_to_real(kind: pa.DataType) -> Cast:
    width = np.float32 if kind == pa.float32() else np.float64

    def read(raw: pa.Array) -> tuple[pa.Array, Bools]:
        with np.errstate(over="ignore"):
            numbers = fill(raw, 0.0).to_numpy(zero_copy_only=False).astype(width)
        return _mask(numbers, np.zeros(len(raw), np.bool_), raw, kind)

    return read


def _truncate(value: float, bits: int) -> int | None:
    """Toward zero. The floor and the ceiling must both fit, and 2^63 itself passes Spark's test and becomes the greatest BIGINT."""
    if not math.isfinite(value):
        return None
    high = (1 << (bits - 1)) - 1
    low = -high - 1
    if not (math.floor(value) <= float(high) and math.ceil(value) >= float(low)):
        return None
    return min(int(value), high)


def _from_string(kind: pa.DataType) -> Cast | None:
    """The rules of CAST for text, which are in base.text."""
    if kind in (pa.string(), pa.binary()):
        return _all(kind)
    if pa.types.is_date(kind):
        return lambda raw: _usually(raw, columns.dates, dates.date_days)
    if pa.types.is_timestamp(kind):
        one = timestamps.timestamp_us if kind.tz else partial(timestamps.timestamp_ntz_us, zone="ignored")
        return lambda raw: _usually(raw, lambda texts: columns.timestamps(texts, kind), one)
    reads: dict[pa.DataType, Callable[[str], Any]] = {
        pa.bool_(): integers.boolean_value,
        pa.float32(): doubles.single_value,
        pa.float64(): doubles.double_value,
        _DURATION: javatext.interval_us,
    }
    if pa.types.is_integer(kind):
        return _by_each(kind, partial(integers.integer_value, bits=kind.bit_width))
    if _is_decimal(kind):
        return _by_each(kind, partial(_decimal_text, kind=kind))
    if is_months(kind):
        return _by_each(kind, partial(months_value, type_=kind))
    return _by_each(kind, reads[kind]) if kind in reads else None


def _decimal_text(text: str, kind: pa.Decimal128Type) -> Decimal | None:
    value = big_decimal(text.strip(JAVA_BLANK))
    if value is None or (value and value.adjusted() >= DECIMAL_DIGITS_MAX):
        return None
    return to_scale(value, kind.precision, kind.scale)


def _usually(
    raw: pa.Array, whole: Callable[[pa.Array], tuple[pa.Array, Bools]], one: Callable[[str], int | None]
) -> tuple[pa.Array, Bools]:
    """The usual spellings at once, and the others one by one."""
    values, doubtful = whole(raw)
    if not doubtful.any():
        return values, doubtful
    mask = pa.array(doubtful)
    late, failed = cast_each(raw.filter(mask).to_pylist(), values.type, one)
    places = np.flatnonzero(doubtful)
    wrong = np.zeros(len(raw), np.bool_)
    wrong[places[failed]] = True
    number = pa.int32() if pa.types.is_date(values.type) else pa.int64()
    return pc.replace_with_mask(values.cast(number), mask, late.cast(number)).cast(values.type), wrong


def _from_moment_text(kind: pa.DataType) -> Cast | None:
    if pa.types.is_timestamp(kind):
        utc = pa.timestamp("us", "UTC")

        def moment(raw: pa.Array) -> tuple[pa.Array, Bools]:
            values, failed = _usually(raw, lambda texts: columns.timestamps(texts, utc), timestamps.timestamp_us)
            return values.cast(pa.int64()).cast(kind), failed

        return moment
    if pa.types.is_date(kind):
        return _by_each(kind, lambda text: None if (us := timestamps.timestamp_us(text)) is None else us // DAY_US)
    return _from_string(kind)


def _from_date_text(kind: pa.DataType) -> Cast | None:
    cast = _from_string(kind)
    if cast is None or not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return cast
    return lambda raw: cast(pa.array([_without_zone(text) for text in raw.to_pylist()], pa.string()))


def _without_zone(text: str | None) -> str | None:
    match = None if text is None else _DATE_IN_ZONE.fullmatch(text)
    return text if match is None else match[1]


def _from_binary(kind: pa.DataType) -> Cast | None:
    if kind == pa.binary():
        return _all(kind)
    return _text_of_bytes if kind == pa.string() else None


def _text_of_bytes(raw: pa.Array) -> tuple[pa.Array, Bools]:
    """Bytes that are no UTF-8 are no STRING: Spark would keep them, and no message could hold them."""
    try:
        return raw.cast(pa.string()), np.zeros(len(raw), np.bool_)
    except pa.ArrowInvalid:
        return cast_each(raw.to_pylist(), pa.string(), _utf8)


def _utf8(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _from_decimal(scale: int, kind: pa.DataType) -> Cast | None:
    one = decimals_to(kind)
    if one is None:
        return None
    quick = pa.types.is_decimal(kind) and 0 <= scale <= kind.scale
    if kind == pa.string() and 0 <= scale <= PLAIN_SCALE_MAX:
        return partial(_texts_of_decimals, scale)
    slowly = _by_each(kind, lambda value: None if (number := number_of(value, scale)) is None else one(number))

    def read(raw: pa.Array) -> tuple[pa.Array, Bools]:
        found = as_decimals(raw, scale, kind) if quick else None
        return slowly(raw) if found is None else (found, np.zeros(len(raw), np.bool_))

    return read


def _texts_of_decimals(scale: int, raw: pa.Array) -> tuple[pa.Array, Bools]:
    found = as_decimals(raw, scale, pa.decimal128(DECIMAL_DIGITS_MAX, scale))
    if found is not None:
        return found.cast(pa.string()), np.zeros(len(raw), np.bool_)
    values = raw.to_pylist()
    return cast_each(
        values, pa.string(), lambda value: None if (n := number_of(value, scale)) is None else format(n, "f")
    )


def from_numbers(kind: pa.DataType) -> Cast | None:
    """From a column of decimals."""
    one = decimals_to(kind)
    if one is None:
        return None
    slowly = _by_each(kind, one)

    def read(raw: pa.Array) -> tuple[pa.Array, Bools]:
        if pa.types.is_decimal(kind) and kind.scale >= raw.type.scale:
            try:
                found = raw.cast(kind)
                found.validate(full=True)
                return found, np.zeros(len(raw), np.bool_)
            except pa.ArrowInvalid:
                pass
        if kind == pa.string() and raw.type.scale <= PLAIN_SCALE_MAX:
            return _all(kind)(raw)
        return slowly(raw)

    return read


def _from_count(leaf: Leaf, kind: pa.DataType) -> Cast | None:
    """A count of days, or of time."""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or _is_decimal(kind):
        return _from_integer(kind)
    if leaf.sense in (Sense.DAYS, Sense.MOMENT):
        if pa.types.is_date(kind):
            return lambda raw: _days(leaf, raw)
        if pa.types.is_timestamp(kind):
            return lambda raw: _microseconds(leaf, raw, kind)
    elif kind == _DURATION:
        return lambda raw: _microseconds(leaf, raw, kind)
    return partial(_texts_of_counts, leaf) if kind == pa.string() else None


def _texts_of_counts(leaf: Leaf, raw: pa.Array) -> tuple[pa.Array, Bools]:
    """Arrow's own text of a date or a moment of usual years is Spark's, but for the zeros at the end."""
    if leaf.sense in (Sense.DAYS, Sense.MOMENT) and raw.null_count < len(raw):
        span = pc.min_max(raw)
        low, high = (span[name].as_py() * leaf.times // leaf.divided for name in ("min", "max"))
        if _USUAL_YEARS_US[0] <= low and high < _USUAL_YEARS_US[1]:
            return _usual_texts(leaf, raw), np.zeros(len(raw), np.bool_)
    return cast_each(raw.to_pylist(), pa.string(), partial(_count_text, leaf))


def _usual_texts(leaf: Leaf, raw: pa.Array) -> pa.Array:
    if leaf.sense is Sense.DAYS:
        return _days(leaf, raw)[0].cast(pa.string())
    texts = _microseconds(leaf, raw, pa.timestamp("us"))[0].cast(pa.string())
    return pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")


def _days(leaf: Leaf, raw: pa.Array) -> tuple[pa.Array, Bools]:
    numbers = _numbers(raw)
    if leaf.sense is not Sense.DAYS:
        numbers = numbers // (DAY_US * leaf.divided // leaf.times)
    failed = (numbers < -(2**31)) | (numbers >= 2**31)
    null = nulls_of(raw)
    days = pa.array(np.where(failed, 0, numbers).astype(np.int32), mask=null | failed).cast(pa.date32())
    return days, failed & ~null


def _microseconds(leaf: Leaf, raw: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Bools]:
    numbers = _numbers(raw)
    highest, lowest = INT64_MAX // leaf.times, -((INT64_MAX + 1) // leaf.times)
    failed = (numbers > highest) | (numbers < lowest)
    return _mask(np.where(failed, 0, numbers) * leaf.times // leaf.divided, failed, raw, kind)


def _count_text(leaf: Leaf, count: int) -> str | None:
    """Returns the text that CAST writes for a DATE, a TIMESTAMP, a TIME or an INTERVAL DAY TO SECOND. A time beyond a day, which MySQL has, is
    written as MySQL does."""
    us = count * leaf.times // leaf.divided
    if leaf.sense is Sense.DAYS:
        return dates.date_text(count) if -(2**31) <= count < 2**31 else None
    if not -INT64_MAX - 1 <= us <= INT64_MAX:
        return None
    if leaf.sense is Sense.MOMENT:
        return timestamps.timestamp_text(us)
    return interval_text(us) if leaf.sense is Sense.SPAN else _clock_text(us)


def _clock_text(us: int) -> str:
    seconds, fraction = divmod(abs(us), SECOND_US)
    after = f".{fraction:06d}".rstrip("0") if fraction else ""
    return f"{'-' if us < 0 else ''}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{after}"
