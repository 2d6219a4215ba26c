"""Functions that compare, check, mask, format or take apart texts."""

from __future__ import annotations

import pyarrow as pa

from engine.expressions.functions import Failure, patterns, printf
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.expressions.fragment import (
    Fragment,
    Rule,
    call,
    cast,
    derived,
    failure,
    generic,
    literal_value,
    strict,
    unsupported,
)  # fmt: skip

STRING, INT, BOOL = pa.string(), pa.int32(), pa.bool_()


def _of(function: str, type_: pa.DataType) -> Rule:
    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        return call(function, type_, *arguments)

    return strict(rule)


def _levenshtein(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    if len(arguments) == 2:
        return call("spark_levenshtein", INT, *arguments)
    return call("spark_levenshtein_within", INT, *arguments)


def _mask(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """A null among the replacements keeps the characters of its kind."""
    return call("spark_mask", STRING, *arguments)


def _space(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    return call("spark_repeat", STRING, "' '", arguments[0], raises=True)


def _elt(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    place, *values = arguments
    bad = failure("INVALID_ARRAY_INDEX", "elt: there is no argument at this place.")
    cases = " ".join(f"WHEN {number} THEN {value.sql}" for number, value in enumerate(values, 1))
    sql = f"CASE WHEN {place.sql} IS NOT NULL THEN CASE {place.sql} {cases} ELSE {bad} END END"
    return derived(cast(sql, values[0].type), values[0].type, *arguments, raises=True)


def _format_number(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    number, places = arguments
    if pa.types.is_string(places.type):
        raise unsupported(node, "a pattern", "give the number of digits after the point")
    if pa.types.is_floating(number.type):
        return call("spark_format_double", STRING, derived(f"{number.sql}::DOUBLE", pa.float64(), number), places)
    return derived(f"spark_format_decimal({number.sql}::VARCHAR, {places.sql})", STRING, number, places, raises=True)


def _format_string(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    written, *values = arguments
    text = literal_value(node, written, "the format")
    if text is None:
        return Fragment(cast("NULL", STRING), STRING)
    try:
        parts = printf.parts(text)
    except Failure as error:
        raise unsupported(node, str(error)) from error
    for part in parts:
        if isinstance(part, str):
            continue
        if part.argument >= len(values):
            raise unsupported(
                node, f"{text!r} shows {part.argument + 1} values, and {len(values)} are given", "give the others"
            )
        if not printf.fits(part, values[part.argument].type):
            raise unsupported(
                node, f"%{part.letter} of {values[part.argument].type}", "cast the value, or use %s and a STRING"
            )
    if not values:
        raise unsupported(node, "a format without values", "write it as a text")
    typed = [Fragment(cast("NULL", STRING), STRING) if pa.types.is_null(v.type) else v for v in values]
    return generic("format_string", STRING, *typed, constants=text)


def _regexp_instr(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    pattern = literal_value(node, arguments[1], "the pattern")
    try:
        if pattern is not None:
            patterns.translate(pattern)
    except Failure as error:
        raise unsupported(node, str(error), "write the pattern without it") from error
    # The value of the third operand counts for nothing, and its null for everything.
    found = call("spark_regexp_instr", INT, *arguments[:2])
    return derived(f"(CASE WHEN {arguments[2].sql} IS NOT NULL THEN {found.sql} END)", INT, *arguments)


def _str_to_map(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """str_to_map: both delimiters are patterns. It raises for a repeated key."""
    type_ = pa.map_(STRING, STRING)
    for delimiter in arguments[1:]:
        pattern = literal_value(node, delimiter, "a delimiter")
        try:
            if pattern is not None:
                patterns.translate(pattern)
        except Failure as error:
            raise unsupported(node, str(error), "write the delimiter without it") from error
    return generic("str_to_map", type_, *arguments, raises=True)


TABLE: dict[str, Rule] = {
    "Levenshtein": strict(_levenshtein),
    "SoundEx": _of("spark_soundex", STRING),
    "FindInSet": _of("spark_find_in_set", INT),
    "Mask": _mask,
    "StringSpace": _space,
    "Elt": _elt,
    "FormatNumber": strict(_format_number),
    "FormatString": _format_string,
    "RegExpInStr": strict(_regexp_instr),
    "StringToMap": strict(_str_to_map),
}
