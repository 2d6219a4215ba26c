"""Decimals as text: the grammar of java.math.BigDecimal, and rounding to a DECIMAL(precision, scale)."""

from __future__ import annotations

import decimal
import re
import unicodedata
from decimal import Decimal
from functools import lru_cache

from base.text.dates import INT32_MAX

EXPONENT_DIGITS_MAX = 10  # 2^31 - 1 has as many: an exponent of more is refused without being computed

# With possessive quantifiers, a long run of digits before a wrong character is scanned only once.
_DECIMAL = re.compile(r"[+-]?(?:[0-9]++(?:\.([0-9]*+))?|\.([0-9]++))(?:[eE]([+-]?)([0-9]++))?")
_LAST_CHAR_OF_16_BITS = "\uffff"
# Wide enough for every value of a DECIMAL with one digit more; the rounded value has no more digits.
_EXACT = decimal.Context(prec=160, rounding=decimal.ROUND_HALF_UP, Emax=999_999, Emin=-999_999)


def big_decimal(text: str) -> Decimal | None:
    """The exact value of a text that Java's `new BigDecimal(text)` takes; None for any other.

    Java takes the decimal digits of every script whose characters have 16 bits. The exponent and the scale (the number of
    digits after the point less the exponent) must be integers of 32 bits, even if the number is zero. The value can be far
    larger or smaller than what a DECIMAL holds."""
    if not text.isascii():
        text = "".join(map(_ascii_digit, text))
    match = _DECIMAL.fullmatch(text)
    if not match:
        return None
    if match[4] is not None:
        digits = match[4].lstrip("0") or "0"
        if len(digits) > EXPONENT_DIGITS_MAX:
            return None
        exponent = int(match[3] + digits)
        scale = len(match[1] or match[2] or "") - exponent
        if max(exponent, scale) > INT32_MAX or min(exponent, scale) < -INT32_MAX - 1:
            return None
    return Decimal(text)


def _ascii_digit(char: str) -> str:
    return str(unicodedata.decimal(char)) if char <= _LAST_CHAR_OF_16_BITS and char.isdecimal() else char


def to_scale(value: Decimal, precision: int, scale: int) -> Decimal | None:
    """The value rounded half up to `scale` digits after the point; None if that needs more digits than `precision`."""
    adjusted = value.adjusted()
    if not value or adjusted < -scale - 1:
        return Decimal(0).scaleb(-scale)
    if adjusted >= precision - scale:
        return None
    rounded = value.quantize(_unit(scale), context=_EXACT)
    return rounded if not rounded or rounded.adjusted() < precision - scale else None


@lru_cache(maxsize=64)  # more than there are scales
def _unit(scale: int) -> Decimal:
    return Decimal((0, (1,), -scale))
