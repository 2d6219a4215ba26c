"""Numbers and bytes as text: bases, character sets, URLs. Spark's optimiser makes a call of a Java method of some of them (`JAVA_METHODS`)."""

from __future__ import annotations

import pyarrow as pa

from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.expressions.fragment import (
    Fragment,
    Rule,
    call,
    calls,
    derive,
    literal_pattern,
    literal_value,
    strict,
    unsupported_expression,
)

STRING, BINARY, BOOL, INT = pa.string(), pa.binary(), pa.bool_(), pa.int32()


def _hex(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    operand = arguments[0]
    if pa.types.is_integer(operand.type):
        return call("spark_hex_number", STRING, operand)
    data = f"encode({operand.sql})" if pa.types.is_string(operand.type) else operand.sql
    return derive(f"spark_hex({data})", STRING, operand)


def _is_utf8(charset: Fragment) -> bool:
    return charset.literal and str(charset.value).lower() == "utf-8"


def _encode(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    value, charset = arguments[:2]
    if _is_utf8(charset):
        return call("encode", BINARY, value)
    return call("spark_encode", BINARY, value, charset, raises=True)


def _decode(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    value, charset = arguments[:2]
    if _is_utf8(charset):
        return call("spark_decode_strict", STRING, value, raises=True)
    return call("spark_decode_charset", STRING, value, charset, raises=True)


def _base64(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    return call("spark_base64", STRING, *arguments[:2])


def _url_decode(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    fails = literal_value(node, arguments[1], "whether it fails")
    return call("spark_url_decode" if fails else "spark_try_url_decode", STRING, arguments[0], raises=bool(fails))


def _unhex(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    fails = bool(node["failOnError"])
    return call("spark_unhex_strict" if fails else "spark_unhex", BINARY, *arguments, raises=fails)


def _unbase64(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    if node["failOnError"]:
        raise unsupported_expression(node, "to_binary of base 64", "use unbase64")
    return call("spark_unbase64", BINARY, *arguments, raises=True)


JAVA_METHODS: dict[tuple[str, str], Rule] = {
    ("Base64", "encode"): strict(_base64),
    ("Encode", "encode"): strict(_encode),
    ("StringDecode", "decode"): strict(_decode),
    ("UrlCodec", "encode"): strict(calls("spark_url_encode", STRING)),
    ("UrlCodec", "decode"): strict(_url_decode),
    ("ByteArrayMethods", "contains"): strict(calls("spark_contains_bytes", BOOL)),
    ("ByteArrayMethods", "startsWith"): strict(calls("spark_starts_with_bytes", BOOL)),
    ("ByteArrayMethods", "endsWith"): strict(calls("spark_ends_with_bytes", BOOL)),
    ("ByteArray", "lpad"): strict(calls("spark_lpad_bytes", BINARY)),
    ("ByteArray", "rpad"): strict(calls("spark_rpad_bytes", BINARY)),
    ("ExpressionImplUtils", "isLuhnNumber"): strict(calls("spark_luhn", BOOL)),
    ("JsonExpressionUtils", "lengthOfJsonArray"): strict(calls("spark_json_array_length", INT)),
    ("JsonExpressionUtils", "jsonObjectKeys"): strict(
        calls("spark_json_object_keys", pa.list_(pa.field("element", STRING)))
    ),
}
"""(class, method) -> the rule."""


def _parse_url(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    tried = "" if node["failOnError"] else "try_"
    value = "_value" if len(arguments) == 3 else ""  # of a key of the query
    if value:
        literal_pattern(node, arguments[2], "the key")  # a pattern that is wrong is an error, also of try_parse_url
    return call(f"spark_{tried}parse_url{value}", STRING, *arguments, raises=not tried)


TABLE: dict[str, Rule] = {
    "ParseUrl": strict(_parse_url),
    "Hex": _hex,
    "Unhex": strict(_unhex),
    "Bin": strict(calls("spark_bin", STRING)),
    "Conv": strict(calls("spark_conv", STRING, raises=True)),
    "UnBase64": strict(_unbase64),
}
