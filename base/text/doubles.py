"""Java's floating-point numbers as text: Double.parseDouble, Float.parseFloat, Double.toString, Float.toString.

A number is read to its own width, with one rounding. It is written with the fewest digits that read back as the same
number, as Java does from version 19 on (older versions sometimes add a digit).
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np

from base.text.trimming import JAVA_BLANK

# With possessive quantifiers, a long run of digits before a wrong character is scanned only once.
_DECIMAL = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[fFdD]?")
_HEXADECIMAL = re.compile(
    r"([+-]?)0[xX](?:([0-9a-fA-F]++)\.?|([0-9a-fA-F]*+)\.([0-9a-fA-F]++))[pP]([+-]?)([0-9]++)[fFdD]?"
)
_JAVAS_NAN = ("NaN", "+NaN", "-NaN")
# Spark looks for these, in any case, where Java refuses the text (Cast.processFloatingPointSpecialLiterals).
_SPARKS_WORDS = {
    "inf": math.inf,
    "+inf": math.inf,
    "infinity": math.inf,
    "+infinity": math.inf,
    "-inf": -math.inf,
    "-infinity": -math.inf,
    "nan": math.nan,
}
FIRST_BEYOND_FLOATS = 2.0**128


def double_value(text: str) -> float | None:
    """A DOUBLE from text, as CAST reads it; None if the text is no number."""
    number = text.strip(JAVA_BLANK)
    if _DECIMAL.fullmatch(number):
        return float(_digits_of(number))
    if _HEXADECIMAL.fullmatch(number):
        try:
            return float.fromhex(_digits_of(number))
        except OverflowError:
            return -math.inf if number.startswith("-") else math.inf
    return math.nan if number in _JAVAS_NAN else _SPARKS_WORDS.get(number.lower())


def single_value(text: str) -> float | None:
    """A FLOAT from text, as CAST reads it, rounded once: a text between two floats whose double lies exactly in the middle
    is compared with the middle in all its digits."""
    value = double_value(text)
    if value is None or not math.isfinite(value):
        return value
    with np.errstate(over="ignore", under="ignore"):
        near = np.float32(value)
        if float(near) == value:
            return value
        other = np.nextafter(near, np.float32(math.copysign(math.inf, value - float(near))))
    below, above = sorted((_finite(near), _finite(other)))
    middle = below + (above - below) / 2
    if value != middle:
        return float(near)
    exact = _exact(text.strip(JAVA_BLANK))
    # A tie goes to the even float, as numpy has rounded it.
    chosen = float(near) if exact == Fraction(middle) else below if exact < Fraction(middle) else above
    return math.copysign(math.inf, chosen) if abs(chosen) == FIRST_BEYOND_FLOATS else chosen


def _finite(number: np.float32) -> float:
    """What follows the greatest float counts as 2^128 in rounding, not as an infinity."""
    return float(number) if np.isfinite(number) else math.copysign(FIRST_BEYOND_FLOATS, number)


def _digits_of(number: str) -> str:
    """Without the suffix of Java's types. In a hexadecimal number it can only follow the exponent's decimal digits."""
    return number.rstrip("fFdD")


def _exact(number: str) -> Fraction:
    """The value of a text between the least and the greatest double: so its exponent is about as long as its digits."""
    match = _HEXADECIMAL.fullmatch(number)
    if match is None:
        return Fraction(Decimal(_digits_of(number)))
    sign, whole, before, after, exponent_sign, exponent = match.groups()
    digits = int((whole or "") + (before or "") + (after or ""), 16)
    power = int(exponent_sign + (exponent.lstrip("0") or "0")) - 4 * len(after or "")
    value = Fraction(digits) * Fraction(2) ** power
    return -value if sign == "-" else value


def double_text(value: float) -> str:
    """A DOUBLE as Double.toString writes it."""
    if value - value != 0:
        return _not_finite(value)
    return _javas_layout(repr(value), value)


def single_text(value: float) -> str:
    """A FLOAT as Float.toString writes it; `value` is a float's value in Python's type."""
    if value - value != 0:
        return _not_finite(value)
    return _javas_layout(str(np.float32(value)), value)


def _not_finite(value: float) -> str:
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _javas_layout(shortest: str, value: float) -> str:
    """The fewest digits of `value` in Java's layout: plain from 1e-3 up to 1e7, else d.dddE-n."""
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
