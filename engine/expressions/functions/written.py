"""Numbers and booleans written as text and read from it, as Java and Spark's ANSI casts do."""

from __future__ import annotations

import decimal
import math
import re
from decimal import Decimal

import numpy as np

from engine.expressions.functions.decimals import fit
from engine.expressions.functions.function import Failure, each

# Spark strips these from around a number, date or boolean: Java's whitespace and control characters of one byte.
BLANK = "".join(map(chr, range(0x21))) + "\x7f"
_INTEGER = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?")
_SPECIAL = {
    "inf": math.inf,
    "+inf": math.inf,
    "infinity": math.inf,
    "+infinity": math.inf,
    "-inf": -math.inf,
    "-infinity": -math.inf,
    "nan": math.nan,
}
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_TRUE, _FALSE = frozenset({"t", "true", "y", "yes", "1"}), frozenset({"f", "false", "n", "no", "0"})
_DIGITS_MAX = 38
_EXPONENT_DIGITS_MAX = 9  # a longer exponent is an overflow or a zero without being computed


def invalid(text: str, type_: str) -> Failure:
    return Failure("CAST_INVALID_INPUT", f"The value {text!r} cannot be cast to {type_} because it is malformed.")


def _integer(text: str, bits: int) -> int:
    trimmed = text.strip(BLANK)
    if not _INTEGER.fullmatch(trimmed) or len(trimmed) > 4000:
        raise invalid(text, f"INT{bits}")
    value = int(trimmed)
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise invalid(text, f"INT{bits}")
    return value


def _double(text: str) -> float:
    trimmed = text.strip(BLANK[:-1])
    if _FLOAT.fullmatch(trimmed):
        return float(trimmed.rstrip("fFdD"))
    if trimmed in ("NaN", "+NaN", "-NaN"):
        return math.nan
    special = _SPECIAL.get(trimmed.lower())
    if special is None:
        raise invalid(text, "DOUBLE")
    return special


def _single(text: str) -> float:
    """Rounded once: a double halfway between two floats is looked at again with all its digits."""
    value = _double(text)
    if not math.isfinite(value):
        return value
    with np.errstate(all="ignore"):
        single = np.float32(value)
    trimmed = text.strip(BLANK).rstrip("fFdD")
    exact = Decimal(trimmed)
    if exact != Decimal(value):
        for neighbour in (np.nextafter(single, np.float32(-np.inf)), np.nextafter(single, np.float32(np.inf))):
            if (
                np.isfinite(neighbour)
                and np.isfinite(single)
                and abs(Decimal(float(neighbour)) - exact) < abs(Decimal(float(single)) - exact)
            ):
                single = neighbour
    return float(single)


def _decimal(text: str, precision: int, scale: int) -> str:
    trimmed = text.strip(BLANK[:-1])
    if not _DECIMAL.fullmatch(trimmed):
        raise invalid(text, f"DECIMAL({precision},{scale})")
    value = Decimal(trimmed)
    if value and value.adjusted() >= _DIGITS_MAX:
        raise Failure(
            "NUMERIC_OUT_OF_SUPPORTED_RANGE",
            f"The value {text} cannot be interpreted as a numeric since it has more than 38 digits.",
        )
    return fit(value, precision, scale)


def _boolean(text: str) -> bool:
    word = text.strip(BLANK).lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise invalid(text, "BOOLEAN")


def _double_decimal(value: float, precision: int, scale: int) -> str | None:
    """The decimal that Java prints for the double; there is none for NaN and infinities."""
    if not math.isfinite(value):
        return None
    return fit(Decimal(repr(value)), precision, scale)


def _java(digits: str, exponent: int, negative: bool) -> str:
    """`0.digits * 10^exponent` as Java's Double.toString lays it out."""
    sign = "-" if negative else ""
    if -3 < exponent <= 7:
        if exponent <= 0:
            return f"{sign}0.{'0' * -exponent}{digits}"
        whole, fraction = digits[:exponent].ljust(exponent, "0"), digits[exponent:]
        return f"{sign}{whole}.{fraction or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent - 1}"


def _parts(shortest: str) -> tuple[str, int]:
    """Digits without zeros around them, and the exponent of 0.digits."""
    exact = decimal.Context(prec=800).create_decimal(shortest)
    _, digits, exponent = exact.as_tuple()
    text = "".join(map(str, digits))
    place = len(text) + int(exponent)
    leading = len(text) - len(text.lstrip("0"))
    return text.strip("0"), place - leading


def _double_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    negative = math.copysign(1.0, value) < 0
    if value == 0:
        return "-0.0" if negative else "0.0"
    size = abs(value)
    digits, exponent = _parts(repr(size))
    if len(digits) == 1:  # Java prints two digits at least: the second may carry the value closer
        two = f"{size:.1e}"
        if float(two) == size:
            digits, exponent = _parts(two)
    return _java(digits, exponent, negative)


def _single_text(value: float) -> str:
    if not math.isfinite(value) or value == 0:
        return _double_text(value)
    size = np.float32(abs(value))
    digits, exponent = _parts(np.format_float_scientific(size, unique=True, trim="-"))
    if len(digits) == 1:
        two = f"{float(size):.1e}"
        if np.float32(two) == size:
            digits, exponent = _parts(two)
    return _java(digits, exponent, value < 0)


FUNCTIONS = (
    each("spark_read_integer", "VARCHAR INTEGER", "BIGINT", _integer),
    each("spark_read_double", "VARCHAR", "DOUBLE", _double),
    each("spark_read_single", "VARCHAR", "FLOAT", _single),
    each("spark_read_decimal", "VARCHAR INTEGER INTEGER", "VARCHAR", _decimal),
    each("spark_read_boolean", "VARCHAR", "BOOLEAN", _boolean),
    each("spark_double_decimal", "DOUBLE INTEGER INTEGER", "VARCHAR", _double_decimal),
    each("spark_write_double", "DOUBLE", "VARCHAR", _double_text),
    each("spark_write_single", "FLOAT", "VARCHAR", _single_text),
)
