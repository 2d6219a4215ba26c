"""Functions that compare, check, mask, format or take apart texts."""

from __future__ import annotations

import pyarrow as pa

from base.text.type_names import sql_type
from engine.expressions.functions import Failure, printf
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.expressions.fragment import (
    Fragment,
    Rule,
    call,
    calls,
    cast,
    derive,
    failure,
    generic,
    literal_pattern,
    literal_value,
    strict,
    unsupported_expression,
)  # fmt: skip

STRING, INT = pa.string(), pa.int32()


def _levenshtein(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    within = "_within" if len(arguments) == 3 else ""  # of a bound
    return call(f"spark_levenshtein{within}", INT, *arguments)


def _space(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    return call("spark_repeat", STRING, "' '", arguments[0], raises=True)


def _elt(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    place, *values = arguments
    bad = failure("INVALID_ARRAY_INDEX", "elt: there is no argument at this place.")
    cases = " ".join(f"WHEN {number} THEN {value.sql}" for number, value in enumerate(values, 1))
    sql = f"CASE WHEN {place.sql} IS NOT NULL THEN CASE {place.sql} {cases} ELSE {bad} END END"
    return derive(cast(sql, values[0].type), values[0].type, *arguments, raises=True)


def _format_number(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    number, places = arguments
    if pa.types.is_string(places.type):
        raise unsupported_expression(node, "a pattern", "give the number of digits after the point")
    if pa.types.is_floating(number.type):
        return call("spark_format_double", STRING, derive(f"{number.sql}::DOUBLE", pa.float64(), number), places)
    return derive(f"spark_format_decimal({number.sql}::VARCHAR, {places.sql})", STRING, number, places, raises=True)


def _format_string(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    written, *values = arguments
    text = literal_value(node, written, "the format")
    if text is None:
        return Fragment(cast("NULL", STRING), STRING)
    try:
        parts = printf.parts(text)
    except Failure as error:
        raise unsupported_expression(node, str(error)) from error
    for part in parts:
        if isinstance(part, str):
            continue
        if part.argument >= len(values):
            raise unsupported_expression(
                node, f"{text!r} shows {part.argument + 1} values, and {len(values)} are given", "give the others"
            )
        if not printf.fits(part, values[part.argument].type):
            raise unsupported_expression(
                node,
                f"%{part.letter} of {sql_type(values[part.argument].type)}",
                "cast the value, or use %s and a STRING",
            )
    if not values:
        raise unsupported_expression(node, "a format without values", "write it as a text")
    typed = [Fragment(cast("NULL", STRING), STRING) if pa.types.is_null(v.type) else v for v in values]
    return generic("format_string", STRING, *typed, constants=text)


def _str_to_map(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """str_to_map: both delimiters are patterns. It raises for a repeated key."""
    type_ = pa.map_(STRING, STRING)
    for delimiter in arguments[1:]:
        literal_pattern(node, delimiter, "the delimiter")
    return generic("str_to_map", type_, *arguments, raises=True)


TABLE: dict[str, Rule] = {
    "Levenshtein": strict(_levenshtein),
    "SoundEx": strict(calls("spark_soundex", STRING)),
    "FindInSet": strict(calls("spark_find_in_set", INT)),
    "Mask": calls("spark_mask", STRING),  # a null among the replacements keeps the characters of its kind
    "StringSpace": _space,
    "Elt": _elt,
    "FormatNumber": strict(_format_number),
    "FormatString": _format_string,
    "StringToMap": strict(_str_to_map),
}
