"""Strings, binary values and patterns. Positions count code points, as in Spark."""

from __future__ import annotations

import pyarrow as pa

from engine.expressions.functions import Failure, patterns
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.expressions import variants
from stepwell.lowering.expressions.encodings import JAVA_METHODS
from stepwell.lowering.expressions.fragment import (
    Fragment,
    Rule,
    call,
    cast,
    derive,
    literal_pattern,
    literal_value,
    strict,
    text,
    unsupported_expression,
)  # fmt: skip
from stepwell.lowering.expressions.nested import joined_texts

STRING, INT, BOOL, BINARY = pa.string(), pa.int32(), pa.bool_(), pa.binary()
STRINGS = pa.list_(pa.field("element", STRING))


def _of(function: str, type_: pa.DataType, raises: bool = False) -> Rule:
    """The rule of a function of strings that takes Spark's arguments in Spark's order."""

    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        if any(pa.types.is_binary(argument.type) for argument in arguments):
            raise unsupported_expression(node, "binary", "cast to STRING")
        return derive(
            cast(f"{function}({', '.join(a.sql for a in arguments)})", type_), type_, *arguments, raises=raises
        )

    return strict(rule)


def _length(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    function = "octet_length" if pa.types.is_binary(arguments[0].type) else "length"
    return derive(cast(f"{function}({arguments[0].sql})", INT), INT, *arguments)


def _octets(factor: int) -> Rule:
    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        size = "octet_length" if pa.types.is_binary(arguments[0].type) else "strlen"
        return derive(cast(f"{size}({arguments[0].sql}) * {factor}", INT), INT, *arguments)

    return rule


def _trim(function: str) -> Rule:
    """The rule of a trim. It removes spaces, or the given characters, but no other white space."""

    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        characters = arguments[1].sql if len(arguments) > 1 else "' '"
        return derive(f"{function}({arguments[0].sql}, {characters})", STRING, *arguments)

    return strict(rule)


def _substring(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    value, position, length = arguments
    if pa.types.is_binary(value.type):
        return call("spark_substring_bytes", BINARY, *arguments)
    if position.literal and length.literal and (position.value or 0) >= 1 and (length.value or -1) >= 0:
        return derive(f"substring({value.sql}, {position.value}, {length.value})", STRING, value)
    return call("spark_substring", STRING, *arguments)


def _concat(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """concat: null if any part is null."""
    if not arguments:
        return Fragment("''", STRING, literal=True, value="")
    type_ = arguments[0].type
    if pa.types.is_list(type_):
        present = " AND ".join(f"{a.sql} IS NOT NULL" for a in arguments)
        joined = arguments[0].sql
        for other in arguments[1:]:
            joined = f"list_concat({joined}, {other.sql})"
        return derive(cast(f"CASE WHEN {present} THEN {joined} END", type_), type_, *arguments)
    return derive("(" + " || ".join(a.sql for a in arguments) + ")", type_, *arguments)


def _concat_ws(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """concat_ws: it skips nulls, also those inside arrays. If the separator is null, the result is null."""
    separator, *parts = arguments
    if not any(pa.types.is_list(part.type) for part in parts):
        return derive(
            f"concat_ws({', '.join(a.sql for a in arguments)})"
            if parts
            else f"(CASE WHEN {separator.sql} IS NOT NULL THEN '' END)",
            STRING,
            *arguments,
        )
    whole = "[]::VARCHAR[]"
    for part in parts:
        whole = f"list_concat({whole}, {part.sql if pa.types.is_list(part.type) else f'[{part.sql}]'})"
    joined = joined_texts(f"list_filter({whole}, lambda x: x IS NOT NULL)", separator)
    return derive(f"(CASE WHEN {separator.sql} IS NOT NULL THEN {joined} END)", STRING, *arguments)


def _replace(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    return derive(f"replace({', '.join(a.sql for a in arguments)})", STRING, *arguments)


def _instr(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    value, what = arguments
    return call("spark_locate", INT, what, value, "1")


def _locate(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """locate: if the start is null, the result is 0, which means not found."""
    what, value, start = arguments
    if start.literal and start.value is not None:
        return call("spark_locate", INT, *arguments)
    return derive(
        f"(CASE WHEN {start.sql} IS NULL THEN 0 ELSE spark_locate({what.sql}, {value.sql}, {start.sql}) END)",
        INT,
        *arguments,
    )


def _reverse(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    operand = arguments[0]
    if pa.types.is_list(operand.type):
        return derive(f"list_reverse({operand.sql})", operand.type, operand)
    return call("spark_reverse", STRING, operand)


def _regular(function: str, type_: pa.DataType) -> Rule:
    """The rule of a function whose second argument is a Java pattern. A constant pattern is translated here, so that `dry-run` can refuse it."""

    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        literal_pattern(node, arguments[1], "the pattern")
        try:
            if function == "spark_regexp_replace" and arguments[2].literal and arguments[2].value is not None:
                patterns.replacement(arguments[2].value)
        except Failure as error:
            raise unsupported_expression(node, str(error), "write the pattern without it") from error
        sql = cast(f"{function}({', '.join(a.sql for a in arguments)})", type_)
        raises = not all(a.literal for a in arguments[1:]) or "extract" in function
        return derive(sql, type_, *arguments, raises=raises)

    return strict(rule)


def _like(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    value, pattern = arguments
    escape = node.get("escapeChar") or "\\"
    if not pattern.literal:
        return call("spark_like", BOOL, value, pattern, text(escape), raises=True)
    if pattern.value is None:
        return Fragment(cast("NULL", BOOL), BOOL)
    try:
        patterns.like_pattern(pattern.value, escape)
    except Failure as error:
        raise unsupported_expression(node, str(error), "correct the pattern") from error
    return derive(f"({value.sql} LIKE {pattern.sql} ESCAPE {text(escape)})", BOOL, value)


def _like_many(combine: str, negated: bool) -> Rule:
    """The rule of LIKE ALL or LIKE ANY with constant patterns."""

    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        if node.get("patterns") is None:
            raise unsupported_expression(node, "its patterns are not known")
        tests = []
        for pattern in node["patterns"]:
            if pattern is None:
                tests.append(cast("NULL", BOOL))
                continue
            literal = Fragment(text(pattern), STRING, literal=True, value=pattern)
            tests.append(f"({'NOT ' if negated else ''}{_like(node, (arguments[0], literal)).sql})")
        return derive("(" + f" {combine} ".join(tests) + ")", BOOL, *arguments)

    return rule


def _static(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """A call of a static Java method that the optimiser has put in, recognised by class and name."""
    method = str(node["staticObject"]).rsplit(".", 1)[-1].rstrip("$"), node["functionName"]
    if method not in _METHODS:
        raise unsupported_expression(node, ".".join(method))
    return _METHODS[method](node, arguments)


def _fit(compares: str, function: str) -> Rule:
    """What Spark does to a text that it writes into a CHAR(n) or VARCHAR(n). `compares`: how the length of one that stays as it is compares with
    n; `function`: for the others."""

    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        operand, size = arguments
        characters = literal_value(node, size, "the length")
        fits = f"length({operand.sql}) {compares} {characters}"
        sql = f"(CASE WHEN {fits} THEN {operand.sql} ELSE {function}({operand.sql}, {characters}) END)"
        return derive(sql, STRING, operand, raises=True)

    return rule


def _pad(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """What Spark reads of a text in a file whose table has it as CHAR(n). A longer one stays as it is."""
    operand, size = arguments
    characters = literal_value(node, size, "the length")
    blanks = f"repeat(' ', greatest({characters} - length({operand.sql}), 0))"
    return derive(f"({operand.sql} || {blanks})", STRING, operand)


_METHODS: dict[tuple[str, str], Rule] = {
    **JAVA_METHODS,
    **variants.JAVA_METHODS,
    ("CharVarcharCodegenUtils", "charTypeWriteSideCheck"): _fit("=", "spark_fit_char"),
    ("CharVarcharCodegenUtils", "varcharTypeWriteSideCheck"): _fit("<=", "spark_fit_varchar"),
    ("CharVarcharCodegenUtils", "readSidePadding"): _pad,
}


TABLE: dict[str, Rule] = {
    "Upper": _of("spark_upper", STRING),
    "Lower": _of("spark_lower", STRING),
    "Length": _length,
    "OctetLength": _octets(1),
    "BitLength": _octets(8),
    "StringTrim": _trim("trim"),
    "StringTrimLeft": _trim("ltrim"),
    "StringTrimRight": _trim("rtrim"),
    "Substring": strict(_substring),
    "Concat": strict(_concat),
    "ConcatWs": _concat_ws,
    "StringReplace": strict(_replace),
    "StringSplitSQL": _of("spark_split_literal", STRINGS),
    "StringLPad": _of("spark_lpad", STRING),
    "StringRPad": _of("spark_rpad", STRING),
    "StartsWith": _of("starts_with", BOOL),
    "EndsWith": _of("ends_with", BOOL),
    "Contains": _of("contains", BOOL),
    "StringInstr": strict(_instr),
    "StringLocate": _locate,
    "Reverse": _reverse,
    "InitCap": _of("spark_initcap", STRING),
    "StringRepeat": _of("spark_repeat", STRING, raises=True),
    "SubstringIndex": _of("spark_substring_index", STRING),
    "StringTranslate": _of("spark_translate", STRING),
    "Overlay": _of("spark_overlay", STRING),
    "Ascii": _of("spark_ascii", INT),
    "Chr": _of("spark_chr", STRING),
    "Like": strict(_like),
    "LikeAll": _like_many("AND", False),
    "NotLikeAll": _like_many("AND", True),
    "LikeAny": _like_many("OR", False),
    "NotLikeAny": _like_many("OR", True),
    "RLike": _regular("spark_rlike", BOOL),
    "RegExpExtract": _regular("spark_regexp_extract", STRING),
    "RegExpExtractAll": _regular("spark_regexp_extract_all", STRINGS),
    "RegExpInStr": _regular("spark_regexp_instr", INT),
    "RegExpReplace": _regular("spark_regexp_replace", STRING),
    "StringSplit": _regular("spark_split", STRINGS),
    "StaticInvoke": _static,
}
