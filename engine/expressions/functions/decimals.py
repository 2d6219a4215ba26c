"""Exact decimal arithmetic and rounding. The values are texts, and Python's decimals compute with a context that is wide enough to be exact."""

from __future__ import annotations

import decimal
from decimal import Decimal

from base.text.decimals import to_scale
from engine.expressions.functions.function import Failure, row_function, value_text

# The widest exact value: a product of two decimals of 38 digits, or a sum whose operands' scales differ by 38.
_EXACT = decimal.Context(prec=160, rounding=decimal.ROUND_HALF_UP, Emax=999999, Emin=-999999)
_QUOTIENT_SCALE = 39  # Spark rounds a quotient to one digit more than a decimal has, then to the result's scale


def fit(value: Decimal, precision: int, scale: int) -> str:
    """The value rounded half up to the scale, as text. A value with too many digits raises, as in Spark's ANSI mode."""
    fitted = to_scale(value, precision, scale) if value.is_finite() else None
    if fitted is None:
        raise Failure(
            "NUMERIC_VALUE_OUT_OF_RANGE",
            f"{value_text(str(value))} cannot be represented as Decimal({precision}, {scale}).",
        )
    return f"{fitted:f}"


def quotient(a: Decimal, b: Decimal) -> Decimal:
    """a / b rounded half up to `_QUOTIENT_SCALE` digits after the point."""
    (_, _, a_exponent), (_, _, b_exponent) = a.as_tuple(), b.as_tuple()
    shift = _QUOTIENT_SCALE + int(a_exponent) - int(b_exponent)
    top, bottom = abs(int(a.scaleb(-int(a_exponent), _EXACT))), abs(int(b.scaleb(-int(b_exponent), _EXACT)))
    if shift >= 0:
        top *= 10**shift
    else:
        bottom *= 10**-shift
    rounded = (2 * top + bottom) // (2 * bottom)
    return Decimal((int((a < 0) != (b < 0)), tuple(map(int, str(rounded))), -_QUOTIENT_SCALE))


def _pmod(a: Decimal, b: Decimal) -> Decimal:
    rest = _EXACT.remainder(a, b)
    return _EXACT.remainder(_EXACT.add(rest, b), b) if rest < 0 else rest


# Scala's unary minus rounds to the 34 digits of its default context. So Spark's does too for wide decimals.
_SCALA = decimal.Context(prec=34, rounding=decimal.ROUND_HALF_EVEN, Emax=999999, Emin=-999999)


def _negative(a: Decimal, b: Decimal) -> Decimal:
    return _SCALA.minus(a)


_OPERATORS = {
    "negative": _negative,
    "+": _EXACT.add,
    "-": _EXACT.subtract,
    "*": _EXACT.multiply,
    "/": quotient,
    "%": _EXACT.remainder,
    "pmod": _pmod,
}


def _operate(operator: str, a: str, b: str, precision: int, scale: int) -> str:
    return fit(_OPERATORS[operator](Decimal(a), Decimal(b)), precision, scale)


def _round(value: str, digits: int, mode: str, precision: int, scale: int) -> str:
    """The value rounded to `digits` after the point, or before it if negative, then rounded to the type."""
    exact = Decimal(value).quantize(Decimal((0, (1,), -digits)), rounding=mode, context=_EXACT)
    return fit(_EXACT.add(exact, Decimal(0)), precision, scale)


def _whole_quotient(a: str, b: str, precision: int) -> int:
    """The whole part of the quotient, as a decimal of so many digits. Of a longer one than BIGINT has, Spark keeps the last 64 bits."""
    whole = int(fit(_EXACT.divide_int(Decimal(a), Decimal(b)), precision, 0))
    return (whole + (1 << 63)) % (1 << 64) - (1 << 63)


FUNCTIONS = (
    row_function("spark_decimal_div", "VARCHAR VARCHAR INTEGER", "BIGINT", _whole_quotient),
    row_function("spark_decimal", "VARCHAR VARCHAR VARCHAR INTEGER INTEGER", "VARCHAR", _operate),
    row_function("spark_round_decimal", "VARCHAR INTEGER VARCHAR INTEGER INTEGER", "VARCHAR", _round),
)
