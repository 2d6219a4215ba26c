"""Datetime patterns as Spark has them: a part of those of Java's DateTimeFormatter, in UTC, in English, and resolved strictly.

A pattern writes and reads dates (days since 1970), timestamps, and timestamps without a zone (microseconds since 1970). What is supported is
exactly Spark's; every other pattern raises BadPattern, which says why.

Java's parser does not go back: a field takes as many digits as it may, and an optional section that could be read is kept. So the regular
expressions here are possessive. Letters of a text are read in either case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, assert_never, get_args

from base.text.dates import INT32_MAX, civil, days, exists, is_leap, year_text
from base.text.timestamps import DAY_US, HOUR_US, INT64_MAX, MINUTE_US, SECOND_US

PATTERNS_KEPT_MAX = 256
FRACTION_DIGITS = 6
"""How many digits the fraction of a second has in microseconds."""

Kind = Literal["date", "timestamp", "timestamp_ntz"]

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"
)  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_OF_TIMES, _OF_ZONES = frozenset("HhKkmsSa"), frozenset("XxZzV")
_OFFSET_SECONDS_MAX = 18 * 3600


class BadPattern(ValueError):
    """A pattern that is none, or that is not supported. The text says why."""


@dataclass(frozen=True)
class Patterns:
    """The patterns of the texts of dates and timestamps, by Spark's names. None: as `from_json` and `to_json` have them by default."""

    date: str | None = None
    timestamp: str | None = None
    timestamp_ntz: str | None = None

    def of(self, kind: Kind) -> str | None:
        match kind:
            case "date":
                return self.date
            case "timestamp":
                return self.timestamp
            case "timestamp_ntz":
                return self.timestamp_ntz
            case _:
                assert_never(kind)

    @property
    def exact(self) -> Patterns:
        """Only those that tell all values apart."""
        given = [(self.of(kind), kind) for kind in KINDS]
        return Patterns(*(each if each is not None and tells_all_apart(each, kind) else None for each, kind in given))


KINDS: tuple[Kind, ...] = get_args(Kind)
NO_PATTERNS = Patterns()


@dataclass(frozen=True)
class LiteralText:
    text: str


@dataclass(frozen=True)
class PatternField:
    letter: str
    count: int


@dataclass(frozen=True)
class Section:
    """An optional part of a pattern, in square brackets: it is written where the value has all its fields, and read where the text has it."""

    parts: tuple[Part, ...]


Part = LiteralText | PatternField | Section


@lru_cache(PATTERNS_KEPT_MAX)
def parts_of(pattern: str) -> tuple[Part, ...]:
    """Raises BadPattern."""
    open_: list[list[Part]] = [[]]
    position = 0
    while position < len(pattern):
        c = pattern[position]
        position += 1
        if c == "'":
            text, position = _text_in_quotes(pattern, position)
            open_[-1].append(LiteralText(text))
        elif c.isascii() and c.isalpha():
            count = 1
            while pattern.startswith(c, position):
                count, position = count + 1, position + 1
            open_[-1].append(PatternField(c, count))
        elif c == "[":
            open_.append([])
        elif c == "]":
            if len(open_) == 1:
                raise BadPattern("] closes no section")
            _close(open_)
        elif c in "{}#":
            raise BadPattern(f"{c} is not supported")
        else:
            open_[-1].append(LiteralText(c))
    while len(open_) > 1:  # Java takes a section that is not closed
        _close(open_)
    return tuple(open_[0])


def _close(open_: list[list[Part]]) -> None:
    section = Section(tuple(open_.pop()))
    open_[-1].append(section)


def _text_in_quotes(pattern: str, position: int) -> tuple[str, int]:
    """(the text in quotes that begins here, the place behind it). Two quotes are one."""
    text = ""
    if pattern.startswith("'", position):
        return "'", position + 1
    while True:
        close = pattern.find("'", position)
        if close < 0:
            raise BadPattern("a quote is not closed")
        text += pattern[position:close]
        if not pattern.startswith("''", close):
            return text, close + 1
        text, position = text + "'", close + 2


# --- writing ------------------------------------------------------------------------------------------------------------

_Write = Callable[[int, int, int, int, int], str | None]
"""(year, month, day, days since 1970, microseconds of the day) -> text. None: the value does not have the field."""


def _field(letter: str, count: int) -> _Write:
    number: dict[str, Callable[[int, int, int, int, int], int]] = {
        "d": lambda y, mo, d, n, us: d,
        "D": lambda y, mo, d, n, us: n - days(y, 1, 1) + 1,
        "H": lambda y, mo, d, n, us: us // HOUR_US,
        "k": lambda y, mo, d, n, us: us // HOUR_US or 24,
        "K": lambda y, mo, d, n, us: us // HOUR_US % 12,
        "h": lambda y, mo, d, n, us: us // HOUR_US % 12 or 12,
        "m": lambda y, mo, d, n, us: us // MINUTE_US % 60,
        "s": lambda y, mo, d, n, us: us // SECOND_US % 60,
    }
    limit = 3 if letter == "D" else 2
    if letter in number and count <= limit:
        value = number[letter]
        return lambda y, mo, d, n, us: f"{value(y, mo, d, n, us):0{count}d}"
    if letter == "y" and count <= 6:
        if count == 2:
            return lambda y, mo, d, n, us: f"{abs(y) % 100:02d}"
        if count < 4:
            return lambda y, mo, d, n, us: f"{'-' if y < 0 else ''}{abs(y):0{count}d}"
        return lambda y, mo, d, n, us: year_text(y, count)
    if letter in "ML" and count <= 4:
        names = {3: tuple(name[:3] for name in MONTHS), 4: MONTHS}.get(count)
        if names:
            return lambda y, mo, d, n, us: names[mo - 1]
        return lambda y, mo, d, n, us: f"{mo:0{count}d}"
    if letter == "E" and count <= 4:
        width = None if count == 4 else 3
        return lambda y, mo, d, n, us: WEEKDAYS[(n + 3) % 7][:width]
    if letter == "S" and count <= 9:
        return lambda y, mo, d, n, us: f"{us % SECOND_US:06d}000"[:count]
    if letter == "a" and count == 1:
        return lambda y, mo, d, n, us: "PM" if us >= DAY_US // 2 else "AM"
    if letter in "qQ" and count <= 2:
        return lambda y, mo, d, n, us: f"{(mo + 2) // 3:0{count}d}"
    zone = zone_text(letter, count)
    if zone is not None:
        return lambda y, mo, d, n, us: zone
    raise BadPattern(f"{letter * count} is not supported")


def zone_text(letter: str, count: int) -> str | None:
    """UTC in a pattern's field; None if it is no such field."""
    if letter == "V":
        return "UTC" if count == 2 else None
    zones = {
        "X": "Z",
        "x": ("+00", "+0000", "+00:00")[min(count, 3) - 1],
        "Z": "+0000",
        "z": "UTC",
    }
    return zones.get(letter) if count <= 3 else None


def lacks(kind: Kind, letter: str) -> bool:
    """Whether values of the kind do not have the field."""
    return (letter in _OF_TIMES and kind == "date") or (letter in _OF_ZONES and kind != "timestamp")


@lru_cache(PATTERNS_KEPT_MAX)
def writer(pattern: str, kind: Kind) -> Callable[[int], str]:
    """A function that writes microseconds since 1970 (of a date: of its midnight). Raises BadPattern."""
    write = _sequence(parts_of(pattern), kind)

    def whole(micros: int) -> str:
        number, us = divmod(micros, DAY_US)
        year, month, day = civil(number)
        text = write(year, month, day, number, us)
        assert text is not None, "each field outside of a section is there"
        return text

    return whole


def _sequence(parts: tuple[Part, ...], kind: Kind, optional: bool = False) -> _Write:
    writers: list[str | _Write] = []
    whole = True
    for part in parts:
        match part:
            case LiteralText(text):
                writers.append(text)
            case Section(inner):
                writers.append(_section(_sequence(inner, kind, optional=True)))
            case PatternField(letter, count):
                write = _field(letter, count)
                if lacks(kind, letter):
                    if not optional:
                        raise BadPattern(f"a {kind} has no {letter * count}")
                    whole = False
                writers.append(write)
            case _:
                assert_never(part)
    if not whole:
        return lambda y, mo, d, n, us: None

    def write_all(y: int, mo: int, d: int, n: int, us: int) -> str | None:
        texts = [w if isinstance(w, str) else w(y, mo, d, n, us) for w in writers]
        return "".join(text for text in texts if text is not None)

    return write_all


def _section(write: _Write) -> _Write:
    return lambda y, mo, d, n, us: write(y, mo, d, n, us) or ""


# --- reading ------------------------------------------------------------------------------------------------------------

_NUMBER = "([0-9]{1,19}+)"
_READ = {
    ("M", 1): _NUMBER, ("M", 2): "([0-9]{2})", ("M", 3): "((?i:" + "|".join(name[:3] for name in MONTHS) + "))",
    ("M", 4): "((?i:" + "|".join(MONTHS) + "))",
    ("d", 1): _NUMBER, ("d", 2): "([0-9]{2})", ("D", 3): "([0-9]{3})",
    ("H", 1): _NUMBER, ("H", 2): "([0-9]{2})", ("h", 1): _NUMBER, ("h", 2): "([0-9]{2})",
    ("m", 1): _NUMBER, ("m", 2): "([0-9]{2})", ("s", 1): _NUMBER, ("s", 2): "([0-9]{2})", ("a", 1): "((?i:AM|PM))",
    ("X", 1): r"([Zz]|[+-][0-9]{2}(?:[0-9]{2})?+)", ("X", 2): r"([Zz]|[+-][0-9]{4})", ("X", 3): r"([Zz]|[+-][0-9]{2}:[0-9]{2})",
    ("x", 1): r"([+-][0-9]{2}(?:[0-9]{2})?+)", ("x", 2): r"([+-][0-9]{4})", ("x", 3): r"([+-][0-9]{2}:[0-9]{2})",
    **{("Z", n): r"([+-][0-9]{4})" for n in (1, 2, 3)},
    ("y", 1): r"(-?[0-9]{1,19}+)", ("y", 2): "([0-9]{2})", ("y", 3): r"(-?[0-9]{3,19}+)",
    **{("y", n): rf"([0-9]{{{n}}}|\+[0-9]{{{n + 1},19}}|-[0-9]{{{n},19}})" for n in (4, 5, 6)},
    **{("S", n): f"([0-9]{{1,{n}}}+)" for n in range(1, 10)},
}  # fmt: skip
_DIGITS = frozenset("yMdDHhmsS")
_FIXED_DIGITS = frozenset({("M", 2), ("d", 2), ("D", 3), ("H", 2), ("h", 2), ("m", 2), ("s", 2), ("y", 2)})

ReadOne = Callable[[str], int | None]
"""A text -> microseconds since 1970, of a date those of its midnight; None if it is none in the pattern."""


@lru_cache(PATTERNS_KEPT_MAX)
def reader(pattern: str, kind: Kind) -> ReadOne:
    """Raises BadPattern."""
    parts = parts_of(pattern)
    fields = [part for part, _ in _fields(parts)]
    letters = ["M" if field.letter == "L" else field.letter for field in fields]
    _check_read(pattern, parts, letters)
    compiled = re.compile(_expression(parts), re.DOTALL)
    two_digits = PatternField("y", 2) in fields

    def read(text: str) -> int | None:
        match = compiled.fullmatch(text)
        if match is None:
            return None
        found = {letter: each for letter, each in zip(letters, match.groups(), strict=True) if each is not None}
        return _resolve(found, two_digits, kind)

    return read


def _fields(parts: tuple[Part, ...], optional: bool = False) -> Iterator[tuple[PatternField, bool]]:
    """All fields, and whether they are within a section."""
    for part in parts:
        match part:
            case PatternField():
                yield part, optional
            case Section(inner):
                yield from _fields(inner, True)
            case LiteralText():
                pass
            case _:
                assert_never(part)


def _check_read(pattern: str, parts: tuple[Part, ...], letters: list[str]) -> None:
    for letter in letters:
        if letters.count(letter) > 1:
            raise BadPattern(f"{letter} is there twice, which is not supported in reading")
    if "D" in letters and ("M" in letters or "d" in letters):
        raise BadPattern("D beside M or d is not supported in reading")
    if ("h" in letters) != ("a" in letters) or ("h" in letters and "H" in letters):
        raise BadPattern("h needs a, and a needs h, without H")
    if sum(letter in _OF_ZONES for letter in letters) > 1:
        raise BadPattern("two fields of a zone are not supported in reading")
    if any(optional and field.letter in "ha" for field, optional in _fields(parts)):
        raise BadPattern("h and a in an optional section are not supported in reading")
    if "S" in letters and "S" in "".join(re.findall(r"'([^']*)'", pattern)):
        raise BadPattern("an S in quotes beside S is not supported in reading")


def _expression(parts: tuple[Part, ...]) -> str:
    expression, run = "", list[PatternField]()  # the fields of digits that follow each other directly
    for place, part in enumerate(parts):
        match part:
            case LiteralText(text):
                expression += "".join(_literal(c) for c in text)
                run = []
            case Section(inner):
                _check_section(inner, run)
                expression += f"(?:{_expression(inner)})?+"
                run = [*run, PatternField("S", 1)] if run else []
            case PatternField(letter, count):
                letter = "M" if letter == "L" else letter
                piece = _READ.get((letter, count))
                if piece is None:
                    raise BadPattern(f"{part.letter * count} is not supported in reading")
                if letter in _DIGITS and not (letter == "M" and count > 2):
                    _check_run(run, part, parts[place + 1 :])
                    run = [*run, part]
                else:
                    run = []
                expression += piece
            case _:
                assert_never(part)
    return expression


def _check_run(run: list[PatternField], field: PatternField, rest: tuple[Part, ...]) -> None:
    """Java divides the digits of fields that follow each other by their widths, which is done here for the usual ones only."""
    if not run:
        return
    widths_known = all((each.letter, each.count) in _FIXED_DIGITS for each in run[1:])
    first_known = (run[0].letter, run[0].count) in _FIXED_DIGITS or (run[0].letter == "y" and run[0].count >= 4)
    fraction = field.letter == "S" and run[0].letter != "y"
    if not (widths_known and first_known and (fraction or (field.letter, field.count) in _FIXED_DIGITS)):
        raise BadPattern(
            f"{field.letter * field.count} directly behind {run[-1].letter * run[-1].count} is not supported in reading"
        )


def _check_section(inner: tuple[Part, ...], run: list[PatternField]) -> None:
    if inner and isinstance(inner[0], PatternField) and inner[0].letter in _DIGITS and run:
        raise BadPattern("digits of an optional section directly behind other digits are not supported in reading")
    if inner and isinstance(inner[0], Section):
        raise BadPattern("a section that begins with a section is not supported in reading")


def _literal(c: str) -> str:
    if c.isascii() and c.isalpha():
        return f"[{c.lower()}{c.upper()}]"
    if c.isdigit():
        raise BadPattern("a digit as a text is not supported in reading")
    return re.escape(c)


def _resolve(fields: dict[str, str], two_digits: bool, kind: Kind) -> int | None:
    """The microseconds since 1970 of the fields; None if there is no such date or time, or if they need more bits than the kind has."""
    year = int(fields.get("y", 1970)) + (2000 if two_digits and "y" in fields else 0)
    if fields.get("y", "").startswith("-") and year == 0:
        return None
    written = fields.get("M", "1")
    month = int(written) if written.isdigit() else _month_of(written)
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
    offset = _offset_s(next((fields[letter] for letter in "XxZ" if letter in fields), "Z"))
    if offset is None:
        return None
    if kind == "date":
        return number * DAY_US if -INT32_MAX - 1 <= number <= INT32_MAX else None
    if kind == "timestamp_ntz" and any(letter in fields for letter in "XxZ"):
        return None  # as from_json has it
    fraction = int(fields.get("S", "")[:FRACTION_DIGITS].ljust(FRACTION_DIGITS, "0"))
    micros = (number * 86400 + hour * 3600 + minute * 60 + second - offset) * SECOND_US + fraction
    return micros if -INT64_MAX - 1 <= micros <= INT64_MAX else None


def _month_of(name: str) -> int:
    return 1 + next(i for i, each in enumerate(MONTHS) if each.lower().startswith(name.lower()))


def _offset_s(zone: str) -> int | None:
    if zone in "Zz":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    minutes = int(digits[2:])
    offset = int(digits[:2]) * 3600 + minutes * 60
    if minutes > 59 or offset > _OFFSET_SECONDS_MAX:
        return None
    return offset if zone[0] == "+" else -offset


# --- what a pattern can say ---------------------------------------------------------------------------------------------


@lru_cache(PATTERNS_KEPT_MAX)
def tells_all_apart(pattern: str, kind: Kind) -> bool:
    """Whether two different values always have different texts."""
    try:
        reader(pattern, kind)
        writer(pattern, kind)
    except BadPattern:
        return False
    written = {f.letter: f.count for f, _ in _fields(parts_of(pattern)) if not lacks(kind, f.letter)}
    letters = written.keys()
    of_day = (
        "y" in letters and written["y"] != 2 and (({"d"} <= letters and bool(letters & {"M", "L"})) or "D" in letters)
    )
    of_time = {"m", "s", "S"} <= letters and bool(letters & {"H", "h"}) and written["S"] >= FRACTION_DIGITS
    return of_day and (kind == "date" or of_time)
