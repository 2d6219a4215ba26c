"""What Spark makes of a value that a function has returned by way of a pickle: its JVM takes values of a few Java classes for each type, and
null for all others (`EvaluatePython.makeFromJava`).

Guarantees: `converter` gives Spark's value for every value, or raises WrongResult. It raises where Spark does, and where Spark's value depends
on the order of a hash table or on the address of an object.
"""

from __future__ import annotations

import array
import datetime
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Any

import pyarrow as pa

from base.text.doubles import double_text
from engine.python.errors import WrongResult

Convert = Callable[[Any], Any]

_KNOWN = frozenset(
    {
        *(bool, int, float, str, bytes, bytearray, Decimal, list, tuple, dict, set, frozenset, array.array),
        *(complex, datetime.date, datetime.datetime, datetime.time, datetime.timedelta),
    }
)
"""The classes of which Spark's JVM reads pickles. It fails on those of any other class, such as numpy's."""

_LONG_MAX = (1 << 63) - 1
_DIGITS_MAX = 400  # of a double as a decimal: more than enough for any quantize


def converter(type_: pa.DataType) -> Convert:
    """From a value that a function returned, in Spark's internal form (a date is a number of days), to one from which Arrow makes `type_`."""
    inner = _converter(type_)

    def convert(value: Any) -> Any:
        if value is None:
            return None
        if type(value) not in _KNOWN or getattr(value, "tzinfo", None) is not None:
            kind = type(value)
            raise WrongResult(
                f"a value of the class {kind.__module__}.{kind.__qualname__}, which Spark cannot read: convert it to a "
                "plain value of Python, for example with .item() or int()"
            )
        return inner(_not_a_number(value) if type(value) is Decimal and not value.is_finite() else value)

    return convert


def _not_a_number(value: Decimal) -> float:
    """The JVM reads the decimal NaN as a double, and fails on the infinities."""
    if value.is_nan() and not value.is_snan():
        return float("nan")
    raise WrongResult(f"{value}, which is no number")


def _converter(type_: pa.DataType) -> Convert:
    if pa.types.is_boolean(type_):
        return lambda value: value if type(value) is bool else None
    if pa.types.is_integer(type_):
        return _integer(type_.bit_width)
    if pa.types.is_date(type_):
        return _within(32)
    if pa.types.is_timestamp(type_) or pa.types.is_duration(type_):
        return _within(64)
    if pa.types.is_floating(type_):
        return lambda value: value if type(value) is float else None
    if pa.types.is_decimal(type_):
        return _decimal(type_.precision, type_.scale)
    if pa.types.is_string(type_):
        return _java_text
    if pa.types.is_binary(type_):
        return _binary
    if pa.types.is_map(type_):
        return _map(converter(type_.key_type), converter(type_.item_type))
    if pa.types.is_list(type_):
        return _list(converter(type_.value_type))
    assert pa.types.is_struct(type_), f"{type_} is no type of a circuit"
    return _struct([field.name for field in type_], [converter(field.type) for field in type_])


def _integer(bits: int) -> Convert:
    """Returns a conversion to integers of so many bits, like Java's narrowing conversion from a long: the low bits count."""
    half, whole = 1 << (bits - 1), 1 << bits

    def convert(value: Any) -> Any:
        if type(value) is not int or not -_LONG_MAX - 1 <= value <= _LONG_MAX:
            return None
        return (value + half) % whole - half

    return convert


def _within(bits: int) -> Convert:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return lambda value: value if type(value) is int and low <= value <= high else None


def _decimal(precision: int, scale: int) -> Convert:
    unit = Decimal(1).scaleb(-scale)

    def convert(value: Any) -> Any:
        if type(value) is not Decimal:
            return None
        with localcontext(prec=_DIGITS_MAX):
            try:
                rounded = value.quantize(unit, ROUND_HALF_UP)
            except InvalidOperation:
                raise WrongResult(f"{value}, which is too large for DECIMAL({precision},{scale})") from None
        if rounded and rounded.adjusted() >= precision - scale:
            raise WrongResult(f"{value}, which does not fit DECIMAL({precision},{scale})")
        return rounded

    return convert


def _java_text(value: Any) -> str:
    """Java's toString of the object that the value becomes."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | Decimal():
            return str(value)
        case float():
            return double_text(value)
        case list():
            return f"[{', '.join('null' if item is None else _java_text(item) for item in value)}]"
    raise WrongResult(
        f"a {type(value).__name__} for STRING, which Spark would write as Java's object: return a str, for example json.dumps(x)"
    )


def _binary(value: Any) -> bytes | None:
    match value:
        case bytes() | bytearray():
            return bytes(value)
        case str():
            return value.encode()
    return None


def _list(element: Convert) -> Convert:
    def convert(value: Any) -> Any:
        match value:
            case list() | tuple() | array.array():
                return [element(item) for item in value]
            case bytes() | bytearray():
                return [element(item) for item in array.array("b", bytes(value))]  # Java's bytes have a sign
        return None

    return convert


def _map(key: Convert, item: Convert) -> Convert:
    def convert(value: Any) -> Any:
        if type(value) is not dict:
            return None
        pairs = [(key(name), item(content)) for name, content in value.items()]
        if any(name is None for name, _ in pairs):
            raise WrongResult("a map with a key that is null, or not of the key's type")
        return pairs

    return convert


def _struct(names: list[str], fields: list[Convert]) -> Convert:
    def convert(value: Any) -> Any:
        if type(value) is not tuple:
            return None
        if len(value) != len(fields):
            raise WrongResult(f"{len(value)} values for a struct of {len(fields)} fields")
        return {name: field(item) for name, field, item in zip(names, fields, value, strict=True)}

    return convert
