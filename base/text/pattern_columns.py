"""Whole columns of dates and timestamps in a datetime pattern (patterns.py): the usual patterns and values vectorised, all others one by one.

Guarantee: each text is that of `patterns.writer`, and each value that of `patterns.reader`, once for each distinct value that is not vectorised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, Int64s, UInt8s, fill
from base.text.columns import by_length, digits, nulls_of
from base.text.dates import days
from base.text.patterns import (
    MONTHS,
    PATTERNS_KEPT_MAX,
    WEEKDAYS,
    Kind,
    LiteralText,
    Part,
    PatternField,
    Patterns,
    Section,
    lacks,
    parts_of,
    reader,
    writer,
    zone_text,
)
from base.text.timestamps import DAY_US, HOUR_US, MINUTE_US, SECOND_US

FIRST_DAY, LAST_DAY = days(0, 1, 1), days(9999, 12, 31)
"""Years of four digits."""
LAYOUTS_MAX = 16
"""Forms of a text that are read vectorised: twice as many with each optional section and with a zone."""
YEAR_DIGITS = 4

_WIDTHS = {"M": 2, "d": 2, "H": 2, "m": 2, "s": 2}
_ZONES = {("X", 1): "+hhmm", ("X", 2): "+hhmm", ("X", 3): "+hh:mm", ("x", 1): "+hhmm", ("x", 2): "+hhmm", ("x", 3): "+hh:mm",
          **{("Z", n): "+hhmm" for n in (1, 2, 3)}}  # fmt: skip
_PAIRS = np.array([list(b"%02d" % number) for number in range(100)], np.uint8)
_CIVIL_NAMES = {
    ("M", 3): np.array([list(name[:3].encode()) for name in MONTHS], np.uint8),
    ("E", 3): np.array([list(name[:3].encode()) for name in WEEKDAYS], np.uint8),
}


def kind_of(type_: pa.DataType) -> Kind | None:
    """None if values of the type have no pattern."""
    if pa.types.is_date(type_):
        return "date"
    if pa.types.is_timestamp(type_):
        return "timestamp" if type_.tz else "timestamp_ntz"
    return None


def pattern_of(type_: pa.DataType, patterns: Patterns) -> str | None:
    """The pattern of the values of a type; None if it has none."""
    kind = kind_of(type_)
    return None if kind is None else patterns.of(kind)


# --- writing ------------------------------------------------------------------------------------------------------------


def pattern_texts(column: pa.Array, pattern: str) -> pa.Array:
    """Strings; null stays null. `column`: dates or timestamps."""
    kind = kind_of(column.type)
    assert kind is not None, f"{column.type} has no pattern"
    null = nulls_of(column)
    values = _numbers(column, kind)
    layout = _fixed_parts(pattern, kind)
    if layout is None:
        return _one_by_one(values, null, pattern, kind)
    number, of_day = (values, np.zeros(len(values), np.int64)) if kind == "date" else np.divmod(values, DAY_US)
    usual = (number >= FIRST_DAY) & (number <= LAST_DAY)
    texts = _by_layout(layout, np.where(usual, number, 0), of_day)
    if not usual.all():
        others = _one_by_one(values[~usual], null[~usual], pattern, kind)
        texts = pc.replace_with_mask(texts, pa.array(~usual), others)
    return pc.if_else(pa.array(null), pa.scalar(None, pa.string()), texts) if null.any() else texts


def _numbers(column: pa.Array, kind: Kind) -> Int64s:
    """Days or microseconds since 1970, 0 for null."""
    column = column.cast(pa.int32()).cast(pa.int64()) if kind == "date" else column.cast(pa.int64())
    return fill(column, 0).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _unit_us(kind: Kind) -> int:
    return DAY_US if kind == "date" else 1


def _one_by_one(values: Int64s, null: Bools, pattern: str, kind: Kind) -> pa.Array:
    write, unit = writer(pattern, kind), _unit_us(kind)
    distinct, places = np.unique(values, return_inverse=True)
    texts = pa.array([write(value * unit) for value in distinct.tolist()], pa.string())
    return texts.take(pa.array(places.reshape(-1), mask=null))


@lru_cache(PATTERNS_KEPT_MAX)
def _fixed_parts(pattern: str, kind: Kind) -> tuple[LiteralText | PatternField, ...] | None:
    """The parts of each text, if all of them always have one width."""
    parts = tuple(_flat(parts_of(pattern), kind))
    return parts if parts and all(_width(part) is not None for part in parts) else None


def _flat(parts: tuple[Part, ...], kind: Kind) -> Iterator[LiteralText | PatternField]:
    for part in parts:
        if not isinstance(part, Section):
            yield part
        elif not any(isinstance(inner, PatternField) and lacks(kind, inner.letter) for inner in part.parts):
            yield from _flat(part.parts, kind)


def _width(part: LiteralText | PatternField) -> int | None:
    if isinstance(part, LiteralText):
        return len(part.text.encode())
    letter, count = _plain(part)
    if letter == "y":
        return YEAR_DIGITS if count == YEAR_DIGITS else None
    if letter == "S":
        return count
    if (letter, count) in _CIVIL_NAMES:
        return 3
    if letter in _WIDTHS:
        return 2 if count == 2 else None
    zone = zone_text(letter, count)
    return None if zone is None else len(zone)


def _plain(field: PatternField) -> tuple[str, int]:
    letter = "M" if field.letter == "L" else field.letter
    return letter, 3 if letter == "E" and field.count < 3 else field.count


def _by_layout(layout: tuple[LiteralText | PatternField, ...], number: Int64s, of_day: Int64s) -> pa.Array:
    year, month, day = _civil(number)
    width = sum(_width(part) or 0 for part in layout)
    chars = np.empty((len(number), width), np.uint8)
    at = 0
    for part in layout:
        size = _width(part)
        assert size is not None, "so it was chosen"
        into = chars[:, at : at + size]
        at += size
        if isinstance(part, LiteralText):
            into[:] = np.frombuffer(part.text.encode(), np.uint8)
            continue
        letter, count = _plain(part)
        match letter, count:
            case "M", 3:
                into[:] = _CIVIL_NAMES["M", 3][month - 1]
            case "E", _:
                into[:] = _CIVIL_NAMES["E", 3][(number + 3) % 7]
            case "y", _:
                _put(into, year)
            case "M", _:
                _put(into, month)
            case "d", _:
                _put(into, day)
            case "H", _:
                _put(into, of_day // HOUR_US)
            case "m", _:
                _put(into, of_day // MINUTE_US % 60)
            case "s", _:
                _put(into, of_day // SECOND_US % 60)
            case "S", _:
                _put(into, of_day % SECOND_US * 1000 // 10 ** (9 - count))
            case _:
                into[:] = np.frombuffer((zone_text(letter, count) or "").encode(), np.uint8)
    offsets = (np.arange(len(number) + 1, dtype=np.int64) * width).astype(np.int32)
    return pa.Array.from_buffers(pa.string(), len(number), [None, pa.py_buffer(offsets), pa.py_buffer(chars)])


def _put(into: UInt8s, number: Int64s) -> None:
    for end in range(into.shape[1], 1, -2):
        rest = number // 100
        into[:, end - 2 : end] = _PAIRS[number - rest * 100]
        number = rest
    if into.shape[1] % 2:
        into[:, 0] = number % 10 + 48


def _civil(number: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """`dates.civil` of a column."""
    era, of_era = np.divmod(number + 719_468, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + np.where(shifted < 10, 3, -9)
    return year + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


# --- reading ------------------------------------------------------------------------------------------------------------


class _Place(NamedTuple):
    """Where a part of a text is: `letter` of a field, " " for a text that must be there, + for a zone's form."""

    letter: str
    at: int
    width: int
    text: bytes = b""


def pattern_values(strings: pa.Array, type_: pa.DataType, pattern: str) -> tuple[pa.Array, Bools]:
    """(dates or timestamps, the rows whose text is none in the pattern). A null gives NULL."""
    kind = kind_of(type_)
    assert kind is not None, f"{type_} has no pattern"
    null = nulls_of(strings)
    values, late = np.zeros(len(strings), np.int64), ~null
    layouts = _layouts(pattern, kind)
    if layouts:
        for length, rows, chars in by_length(strings, min(layouts), max(layouts)):
            if length in layouts:
                values[rows], late[rows] = _by_places(layouts[length], chars)
    values //= _unit_us(kind)
    wrong = np.zeros(len(strings), np.bool_)
    rows = np.flatnonzero(late)
    if len(rows):
        coded = strings.take(pa.array(rows)).dictionary_encode()
        found = list(map(one_in_pattern(type_, pattern), coded.dictionary.to_pylist()))
        indices = coded.indices.to_numpy(zero_copy_only=False)
        values[rows] = np.array([0 if value is None else value for value in found], np.int64)[indices]
        wrong[rows] = np.array([value is None for value in found], np.bool_)[indices]
    made = pa.array(values, pa.int64(), mask=null | wrong)
    return (made.cast(pa.int32()) if kind == "date" else made).cast(type_), wrong


def one_in_pattern(type_: pa.DataType, pattern: str) -> Callable[[str], int | None]:
    """Returns a function that reads one text: it gives a number of days or microseconds since 1970, or None. See `pattern_values`."""
    kind = kind_of(type_)
    assert kind is not None, f"{type_} has no pattern"
    read, unit = reader(pattern, kind), _unit_us(kind)

    def one(text: str) -> int | None:
        us = read(text) if text else None
        return None if us is None else us // unit

    return one


@lru_cache(PATTERNS_KEPT_MAX)
def _layouts(pattern: str, kind: Kind) -> dict[int, tuple[_Place, ...]]:
    """By the length of a text: where its parts are. A length that several forms of the pattern have is left out."""
    parts = parts_of(pattern)
    first = next((n for n, part in enumerate(parts) if isinstance(part, Section)), len(parts))
    sections = parts[first:]
    begins = [_begins(section) for section in sections]
    if None in begins or sum(len(b or "") for b in begins) != len(set("".join(b or "" for b in begins))):
        return {}
    forms: list[tuple[Part, ...]] = []
    for chosen in product((True, False), repeat=len(sections)) if 2 ** len(sections) <= LAYOUTS_MAX else ():
        inner = [section.parts for section, taken in zip(sections, chosen, strict=True) if taken]  # type: ignore[union-attr]
        forms.append((*parts[:first], *(part for each in inner for part in each)))
    found: dict[int, list[tuple[_Place, ...]]] = {}
    for form in forms:
        for zone in (False, True):
            places = _places(form, kind, zone)
            if places is None:
                return {}
            known = found.setdefault(places[-1].at + places[-1].width if places else 0, [])
            if places not in known:
                known.append(places)
    return {length: alike[0] for length, alike in found.items() if len(alike) == 1 and length}


def _begins(section: Part) -> str | None:
    """The characters with which what is in a section can begin, if these are none of a number or a word."""
    inner = section.parts[0] if isinstance(section, Section) and section.parts else None
    if isinstance(inner, LiteralText) and inner.text and not inner.text[0].isalnum():
        return inner.text[0]
    return "Z+-" if isinstance(inner, PatternField) and inner.letter in "Xx" else None


def _places(form: tuple[Part, ...], kind: Kind, zone: bool) -> tuple[_Place, ...] | None:
    """`zone`: whether a zone is Z. None if a part has no fixed width."""
    places: list[_Place] = []
    at = 0
    for part in form:
        if isinstance(part, Section):
            return None
        if isinstance(part, LiteralText):
            place = _Place(" ", at, len(part.text.encode()), part.text.encode())
        else:
            letter, count = _plain(part)
            of_zone = _ZONES.get((letter, count))
            if of_zone is not None and kind == "timestamp":
                is_z = zone and letter == "X"
                place = _Place(" ", at, 1, b"Z") if is_z else _Place(of_zone, at, len(of_zone))
            elif (letter == "y" and count == YEAR_DIGITS) or (letter in _WIDTHS and count == 2) or letter == "S":
                place = _Place(letter, at, count)
            else:
                return None
        places.append(place)
        at += place.width
    return tuple(places)


def _by_places(places: tuple[_Place, ...], chars: UInt8s) -> tuple[Int64s, Bools]:
    """(microseconds, the rows that are not so). `chars` is transposed: one row per character position."""
    count = chars.shape[1]
    wrong = np.zeros(count, np.bool_)
    fields = {"y": np.full(count, 1970), "M": np.ones(count, np.int64), "d": np.ones(count, np.int64)}
    offset = np.zeros(count, np.int64)
    for letter, at, width, text in places:
        if letter == " ":
            for place, char in enumerate(text):
                wrong |= chars[at + place] != char
        elif letter[0] == "+":
            offset = _offsets(chars, at, letter, wrong)
        elif letter == "S":
            fields["S"] = digits(chars, at, min(width, 6), wrong) * 10 ** max(0, 6 - width)
            for place in range(at + 6, at + width):
                wrong |= (chars[place] - np.uint8(48)) > 9
        else:
            fields[letter] = digits(chars, at, width, wrong)
    year, month, day = fields["y"], fields["M"], fields["d"]
    zero = np.zeros(count, np.int64)
    hour, minute, second = (fields.get(letter, zero) for letter in "Hms")
    wrong |= (month < 1) | (month > 12) | (day < 1) | (day > 28) & (day > _month_lengths(year, month))
    wrong |= (hour > 23) | (minute > 59) | (second > 59)
    of_day = (hour * 3600 + minute * 60 + second - offset) * SECOND_US + fields.get("S", zero)
    return _days(year, np.clip(month, 1, 12), day) * DAY_US + of_day, wrong


def _offsets(chars: UInt8s, at: int, form: str, wrong: Bools) -> Int64s:
    """Seconds east of UTC."""
    sign = chars[at]
    hours, minutes = digits(chars, at + 1, 2, wrong), digits(chars, at + len(form) - 2, 2, wrong)
    if ":" in form:
        wrong |= chars[at + 3] != ord(":")
    seconds = hours * 3600 + minutes * 60
    wrong |= ((sign != ord("+")) & (sign != ord("-"))) | (minutes > 59) | (seconds > 18 * 3600)
    return np.where(sign == ord("-"), -seconds, seconds).astype(np.int64)


def _month_lengths(year: Int64s, month: Int64s) -> Int64s:
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    lengths = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])[np.clip(month, 1, 12) - 1]
    return np.asarray(lengths + (leap & (month == 2)), np.int64)


def _days(year: Int64s, month: Int64s, day: Int64s) -> Int64s:
    """`dates.days` of columns."""
    year = year - (month <= 2)
    era, of_era = np.divmod(year, 400)
    of_year = (153 * (month + np.where(month > 2, -3, 9)) + 2) // 5 + day - 1
    result: Int64s = era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
    return result
