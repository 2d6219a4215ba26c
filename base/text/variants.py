"""Spark's VARIANT as one text: a value of JSON, in which the kind of each number can be told.

Guarantees: each value has exactly one text, so equal texts are equal values. It is JSON without blanks, whose members are in Java's order of
strings, with three rules for numbers. A BIGINT has digits alone. A DECIMAL has a point and no exponent, and no zero at its end but one behind
the point, for Spark shows no others; one without a fraction that is no BIGINT has digits alone. A DOUBLE has an exponent, or is one of the words
NaN, Infinity and -Infinity. NULL within a variant is `null`. So Spark's `parse_json` makes the same value of such a text without these words.

In Python a value is None, a bool, an int (BIGINT, or a DECIMAL that is none), a Decimal, a float (DOUBLE), a str, a list or a dict.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, TypeAlias, cast

import pyarrow as pa

from base.limits import DECIMAL_DIGITS_MAX
from base.text.doubles import double_text

FIELD = "$variant"
VARIANT = pa.struct([pa.field(FIELD, pa.string())])
"""The Arrow form. No struct of a user's has a field of this name (stepwell/catalyst/types.py), and all that holds for structs holds for it."""


def has_variants(kind: pa.DataType) -> bool:
    """Whether a type is VARIANT, or has it within."""
    if kind == VARIANT:
        return True
    return pa.types.is_nested(kind) and any(has_variants(kind.field(index).type) for index in range(kind.num_fields))


Value: TypeAlias = "bool | int | Decimal | float | str | list[Value] | dict[str, Value] | None"

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
LONG_DIGITS_MAX = 19  # of 2^63: more are beyond it, and Python refuses to read thousands
_NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class Raw(str):
    """A part of a text that is written as it is."""


Parts: TypeAlias = "str | list[Any]"


def flat(root: Any, parts: Callable[[Any], Parts]) -> str:
    """The text of a nested value. `parts`: the text of a value, or its Raw parts and values within. It does not call itself, so that depth
    cannot exhaust the stack."""
    out: list[str] = []
    todo: list[Any] = [root]
    while todo:
        item = todo.pop()
        made = item if isinstance(item, Raw) else parts(item)
        if isinstance(made, str):
            out.append(made)
        else:
            todo += reversed(made)
    return "".join(out)


def members_parts(members: Iterable[tuple[str, Any]]) -> list[Any]:
    """The parts of an object, in the order of its members' names."""
    parts: list[Any] = [Raw("{")]
    for name, value in sorted(members, key=lambda member: java_order(member[0])):
        parts += (Raw(f"{',' if len(parts) > 1 else ''}{quote(name)}:"), value)
    return [*parts, Raw("}")]


def elements_parts(elements: Iterable[Any]) -> list[Any]:
    parts: list[Any] = [Raw("[")]
    for element in elements:
        parts += (Raw(","), element) if len(parts) > 1 else (element,)
    return [*parts, Raw("]")]


def java_order(name: str) -> bytes:
    """Orders as Java's String does: by units of UTF-16."""
    return name.encode("utf-16-be")


_CONTROL = re.compile(r"\\(?:u00([0-9a-f]{2})|.)")


def quote(text: str) -> str:
    """A string in JSON, as Jackson's generator of characters writes it."""
    quoted = encode_basestring(text)
    return upper_escapes(quoted) if "\\u" in quoted else quoted


def upper_escapes(text: str) -> str:
    """JSON with the escapes of control characters in capitals."""
    return _CONTROL.sub(lambda escape: f"\\u00{escape[1].upper()}" if escape[1] else escape[0], text)


def number_text(written: str) -> str:
    """The text of a number of JSON. As in Spark, it is a DECIMAL if it has no exponent and fits one, and is no BIGINT."""
    if "." not in written and "e" not in written and "E" not in written:
        if len(written) <= LONG_DIGITS_MAX + 1 and LONG_MIN <= int(written) <= LONG_MAX:
            return str(int(written))
    elif "e" in written or "E" in written:
        return double_number(float(written))
    whole, _, fraction = written.partition(".")
    digits = (whole.removeprefix("-") + fraction).lstrip("0")
    if len(digits) > DECIMAL_DIGITS_MAX or len(fraction) > DECIMAL_DIGITS_MAX:
        return double_number(float(written))
    return _decimal_number(whole, fraction)


def _decimal_number(whole: str, fraction: str) -> str:
    kept = fraction.rstrip("0")
    if not kept and not LONG_MIN <= int(whole) <= LONG_MAX:
        return whole
    return f"{whole}.{kept or '0'}" if kept or whole.strip("-0") else "0.0"


def double_number(value: float) -> str:
    if value - value != 0:
        return double_text(value)
    text = repr(value)
    return text if "e" in text else f"{text}e0"


def canonical_text(value: Value) -> str:
    return _scalar_text(value) if not isinstance(value, list | dict) else flat(value, _parts)


def _parts(value: Value) -> Parts:
    if isinstance(value, dict):
        return members_parts(value.items())
    return elements_parts(value) if isinstance(value, list) else _scalar_text(value)


def _scalar_text(value: Value) -> str:
    if isinstance(value, str):
        return quote(value)
    if value is None or isinstance(value, bool):
        return "null" if value is None else "true" if value else "false"
    if isinstance(value, Decimal):
        whole, _, fraction = f"{value:f}".partition(".")
        return _decimal_number(whole, fraction)
    return double_number(value) if isinstance(value, float) else str(value)


def _fraction(text: str) -> Decimal | float:
    return float(text) if "e" in text else Decimal(text)


_DECODER = json.JSONDecoder(parse_float=_fraction, parse_constant=_NOT_FINITE.__getitem__)
_TOKEN = re.compile(r'[\[\]{}:,]|"(?:[^"\\]|\\.)*"|[^\[\]{}:,"]+')


def value_of(text: str) -> Value:
    """The value of a text of this module."""
    try:
        return cast("Value", _DECODER.raw_decode(text)[0])
    except RecursionError:
        return _deep_value(text)


def _deep_value(text: str) -> Value:
    """Returns what `value_of` returns, without calling itself."""
    root: list[Value] = []
    open_: list[list[Value] | dict[str, Value]] = [root]
    name: str | None = None
    tokens = _TOKEN.findall(text)
    for index, token in enumerate(tokens):
        if token in "]}":
            open_.pop()
        elif token in ",:":
            continue
        elif isinstance(open_[-1], dict) and name is None and tokens[index + 1] == ":":
            name = json.loads(token)
        else:
            value: Value = [] if token == "[" else {} if token == "{" else _DECODER.decode(token)
            within = open_[-1]
            if isinstance(within, dict):
                within[cast("str", name)], name = value, None
            else:
                within.append(value)
            if isinstance(value, list | dict):
                open_.append(value)
    return root[0]


_SHOWN = re.compile(
    r'((?:"(?:[^"\\]++|\\.)*+"|[^"0-9NI-]++|-?[0-9]++(?![.e]))*+)(-?[0-9]+\.?[0-9]*(?:e[+-]?[0-9]+)?|NaN|-?Infinity)?'
)
"""What is shown as it is, and a number that is not."""
ANY_FRACTION = r"[0-9][.e]|NaN|Infinity"
"""A pattern that is in each text which differs from its value in JSON, and in some others."""


def json_text(text: str) -> str:
    """The value in JSON, as Spark's `to_json` writes it, of a text of this module."""
    return _SHOWN.sub(_part_of_json, text)


def _part_of_json(part: re.Match[str]) -> str:
    before, number = part[1], part[2]
    if number is None:
        return before
    if number in _NOT_FINITE:
        return f'{before}"{number}"'
    return before + (double_text(float(number)) if "e" in number else number.removesuffix(".0"))


def string_of(value: Value) -> str:
    """The value as CAST makes a STRING of it; not of None."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return double_text(value)
    return json_text(canonical_text(value))


Step: TypeAlias = "str | int"
_STEP = re.compile(r"""\.([^.\[]+)|\['([^']*)'\]|\["([^"]*)"\]|\[([0-9]+)\]""")
INDEX_MAX = 2**31 - 1


def path_steps(path: str) -> tuple[Step, ...] | None:
    """The names and indices of a path such as `$.a['b'][0]`; None if Spark takes it for none."""
    if not path.startswith("$"):
        return None
    at, steps = 1, list[Step]()
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None or (step[4] is not None and int(step[4]) > INDEX_MAX):
            return None
        steps.append(int(step[4]) if step[4] is not None else next(name for name in step.groups() if name is not None))
        at = step.end()
    return tuple(steps)


def at_path(value: Value, steps: Iterable[Step]) -> tuple[Value] | None:
    """What is at the end of the path; None if there is nothing."""
    for step in steps:
        if isinstance(step, str):
            if not isinstance(value, dict) or step not in value:
                return None
            value = value[step]
        else:
            if not isinstance(value, list) or step >= len(value):
                return None
            value = value[step]
    return (value,)
