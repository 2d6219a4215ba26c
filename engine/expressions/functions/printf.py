"""format_string and printf: Java's Formatter for numbers, texts and truth values."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa

from base.text.doubles import double_text, single_text
from engine.expressions.functions.function import Failure
from engine.expressions.functions.generic_function import GenericFunction
from engine.expressions.generic import Signature

_SPECIFIER = re.compile(r"%(?:(\d+)\$)?([-#+ 0,(<]*)(\d{1,9})?(?:\.(\d{1,9}))?(t?[a-zA-Z%])")
_OF_TEXTS, _OF_INTEGERS, _OF_DOUBLES, _OF_ANY = "sS", "doxX", "feE", "bB"
_FLAGS = {
    **dict.fromkeys(_OF_TEXTS + _OF_ANY, frozenset("-")), **dict.fromkeys("oxX", frozenset("-0")), **dict.fromkeys("eE", frozenset("-+ 0(")),
    **dict.fromkeys("df", frozenset("-+ 0,(")),
}  # fmt: skip
"""The flags that Java accepts for each letter."""
CHARACTERS_MAX = 10_000  # of one value, so that a format cannot fill the memory
FORMATS_KEPT_MAX = 256
PRECISION_DEFAULT = 6
_EXACT = Context(prec=CHARACTERS_MAX + 1200)


class Specifier(NamedTuple):
    """What one place in the format shows: `argument` is its place, from 0. `width` and `precision` are -1 without."""

    argument: int
    flags: str
    width: int
    precision: int
    letter: str


class UnsupportedPart(Failure):
    def __init__(self, part: str, why: str) -> None:
        super().__init__("INVALID_PARAMETER_VALUE", f"the part {part!r} of a format: {why}")


@lru_cache(FORMATS_KEPT_MAX)
def parts(text: str) -> tuple[str | Specifier, ...]:
    """The texts and specifiers of a format. Raises UnsupportedPart."""
    found: list[str | Specifier] = []
    position = following = 0
    while position < len(text):
        at = text.find("%", position)
        if at < 0:
            found.append(text[position:])
            break
        found.append(text[position:at])
        match = _SPECIFIER.match(text, at)
        if match is None:
            raise UnsupportedPart(text[at : at + 8], "it is no specifier")
        position = match.end()
        index, flags, width, precision, letter = match.groups()
        if letter in ("%", "n"):
            if match[0] not in ("%%", "%n"):
                raise UnsupportedPart(match[0], "write %% or %n")
            found.append("%" if letter == "%" else "\n")
            continue
        if letter not in _FLAGS or index == "0":
            raise UnsupportedPart(match[0], "use %s, %d, %x, %o, %f, %e or %b")
        given = set(flags)
        if (
            len(given) < len(flags)
            or not given <= _FLAGS[letter]
            or (given & {"-", "0"} and width is None)
            or given >= {"-", "0"}
            or given >= {"+", " "}
        ):
            raise UnsupportedPart(match[0], "these flags do not go with it")
        if precision is not None and letter in _OF_INTEGERS:
            raise UnsupportedPart(match[0], "an integer has no precision")
        if max(int(width or 0), int(precision or 0)) > CHARACTERS_MAX:
            raise UnsupportedPart(match[0], f"a width or a precision is {CHARACTERS_MAX} at most")
        if index is None:
            following += 1
        place = following - 1 if index is None else int(index) - 1
        found.append(Specifier(place, flags, int(width or -1), -1 if precision is None else int(precision), letter))
    return tuple(part for part in found if part != "")


_PLAIN = (pa.types.is_string, pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)


def fits(specifier: Specifier, kind: pa.DataType) -> bool:
    """Whether the specifier shows values of this type."""
    if pa.types.is_null(kind) or specifier.letter in _OF_ANY:
        return True
    if specifier.letter in _OF_INTEGERS:
        return bool(pa.types.is_integer(kind))
    if specifier.letter in _OF_DOUBLES:
        return bool(pa.types.is_floating(kind))
    return any(check(kind) for check in _PLAIN)


def _format(specifier: Specifier, value: Any, kind: pa.DataType) -> str:
    letter, flags = specifier.letter.lower(), specifier.flags
    if letter == "b":
        text = _cut("false" if value is None or value is False else "true", specifier)
    elif value is None:
        text = _cut("null", specifier)
    elif letter == "s":
        text = _cut(_text(value, kind), specifier)
    elif letter in "ox":
        number = value % (1 << kind.bit_width)
        text = f"{number:{letter}}"
        text = text.rjust(specifier.width, "0") if "0" in flags else text
    elif letter == "d":
        text = _with_sign(f"{abs(value):,d}" if "," in flags else str(abs(value)), value < 0, specifier)
    elif math.isnan(value):
        text = "NaN"
    elif math.isinf(value):
        text = _with_sign("Infinity", value < 0, specifier._replace(flags=flags.replace("0", "")))
    else:
        text = _with_sign(_digits(value, specifier), math.copysign(1.0, value) < 0, specifier)
    text = text.upper() if specifier.letter.isupper() else text
    blanks = " " * (specifier.width - _units(text))
    return text + blanks if "-" in flags else blanks + text


def _cut(text: str, specifier: Specifier) -> str:
    """The first characters of 16 bits, as Java counts. Half a character is a question mark."""
    if not 0 <= specifier.precision < _units(text):
        return text
    return text.encode("utf-16-le")[: 2 * specifier.precision].decode("utf-16-le", "replace").replace("\ufffd", "?")


def _units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def _text(value: Any, kind: pa.DataType) -> str:
    if pa.types.is_boolean(kind):
        return str(value).lower()
    if pa.types.is_float32(kind):
        return single_text(value)
    return double_text(value) if pa.types.is_floating(kind) else str(value)


def _digits(value: float, specifier: Specifier) -> str:
    """The size in fixed or scientific notation. Java widens a float, and rounds half up what it would print."""
    exact = Decimal(repr(value)).copy_abs()
    places = PRECISION_DEFAULT if specifier.precision < 0 else specifier.precision
    if specifier.letter == "f":
        rounded = exact.quantize(Decimal((0, (1,), -places)), rounding=ROUND_HALF_UP, context=_EXACT)
        return f"{rounded:,f}" if "," in specifier.flags else f"{rounded:f}"
    exponent = exact.adjusted() if exact else 0
    mantissa = exact.scaleb(-exponent).quantize(Decimal((0, (1,), -places)), rounding=ROUND_HALF_UP, context=_EXACT)
    if mantissa >= 10:
        mantissa, exponent = mantissa.scaleb(-1).quantize(Decimal((0, (1,), -places))), exponent + 1
    return f"{mantissa:f}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _with_sign(size: str, negative: bool, specifier: Specifier) -> str:
    flags = specifier.flags
    before, after = "", ""
    if negative:
        before, after = ("(", ")") if "(" in flags else ("-", "")
    elif "+" in flags or " " in flags:
        before = "+" if "+" in flags else " "
    if "0" in flags:
        size = size.rjust(specifier.width - len(before) - len(after), "0")
    return before + size + after


def _format_string(signature: Signature, *columns: pa.Array) -> pa.Array:
    """Constants: the format."""
    found = parts(signature.constants)
    kinds = signature.arguments
    count = len(columns[0])
    values = [column.to_pylist() for column in columns]
    pieces = [
        [part] * count
        if isinstance(part, str)
        else [_format(part, value, kinds[part.argument]) for value in values[part.argument]]
        for part in found
    ]
    return pa.array(["".join(row) for row in zip(*pieces, strict=True)] if pieces else [""] * count, pa.string())


GENERIC: Mapping[str, GenericFunction] = {"format_string": _format_string}
