"""Numbers and bytes as text: hexadecimal and other bases, base 64, character sets and URLs."""

from __future__ import annotations

import base64
import re
import urllib.parse

from engine.expressions.functions.function import Failure, null_on_error, row_function, value_text

UNSIGNED_END = 1 << 64
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _hex_of_number(number: int) -> str:
    return f"{number % UNSIGNED_END:X}"


def _bin(number: int) -> str:
    return f"{number % UNSIGNED_END:b}"


_HEXADECIMAL = re.compile(r"[0-9a-fA-F]*")


def _unhex(text: str) -> bytes | None:
    """Bytes of hexadecimal digits, of which the first byte may have one. Null for any other text."""
    if not _HEXADECIMAL.fullmatch(text):
        return None
    return bytes.fromhex(text if len(text) % 2 == 0 else "0" + text)


def _unhex_strict(text: str) -> bytes:
    data = _unhex(text)
    if data is None:
        raise Failure("CONVERSION_INVALID_INPUT", f"to_binary: {value_text(text)} is not hexadecimal.")
    return data


def _conv(text: str, source: int, target: int) -> str | None:
    """A number in another base. Digits are read up to the first character that is none. All is in 64 bits without a sign, and a negative target
    means that the result has a sign."""
    text = text.strip(" ")
    base = abs(target)
    if not (2 <= source <= 36 and 2 <= base <= 36) or not text:
        return None
    negative = text[0] == "-"
    number = 0
    for character in text[negative:]:
        digit = DIGITS.find(character.upper()) if character.isascii() else -1
        if not 0 <= digit < source:
            break
        number = number * source + digit
        if number >= UNSIGNED_END:
            raise Failure("ARITHMETIC_OVERFLOW", f"conv: {value_text(text)} in base {source} needs more than 64 bits.")
    signed = number - UNSIGNED_END if number >= UNSIGNED_END >> 1 else number
    if negative and target > 0:
        signed = -1 if signed < 0 else -signed
    if target < 0 and signed < 0:
        signed, negative = -signed, True
    written = _in_base(signed % UNSIGNED_END, base)
    return "-" + written if negative and target < 0 else written


def _in_base(number: int, base: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, base)
        digits = DIGITS[digit] + digits
    return digits or "0"


def _unbase64(text: str) -> bytes:
    """Decodes base 64 like Java's MIME decoder: other characters are left out, and padding ends the last group of four and the text."""
    digits, padding, rest = text.partition("=")
    digits = _NO_BASE64.sub("", digits)
    missing = -len(digits) % 4
    padded = missing == 1 or (missing == 2 and rest.startswith("="))
    if missing == 3 or (padding and (not padded or _NO_BASE64.sub("", rest))):
        raise Failure("CONVERSION_INVALID_INPUT", f"unbase64: {value_text(text)} is not base 64.")
    return base64.b64decode(digits + "=" * missing)


_NO_BASE64 = re.compile(r"[^A-Za-z0-9+/]")

# Spark's names -> Python's. Java's UTF-16 and UTF-32 are big-endian; a text that is encoded in UTF-16 begins with a mark of that.
_CHARSETS = {
    "US-ASCII": "ascii", "ISO-8859-1": "latin-1", "UTF-8": "utf-8", "UTF-16BE": "utf-16-be", "UTF-16LE": "utf-16-le",
    "UTF-16": "utf-16", "UTF-32": "utf-32-be",
}  # fmt: skip
_MARK = b"\xfe\xff"


def _encode(text: str, charset: str) -> bytes:
    name, mark = _codec(charset), b""
    if name == "utf-16":
        name, mark = "utf-16-be", _MARK if text else b""
    try:
        return mark + text.encode(name)
    except UnicodeEncodeError as error:
        raise Failure(
            "MALFORMED_CHARACTER_CODING", f"encode: {value_text(text)} has characters that {charset} lacks."
        ) from error


def _decode(data: bytes, charset: str) -> str:
    name = _codec(charset)
    if name == "utf-32-be" and data[:4] in (b"\0\0\xfe\xff", b"\xff\xfe\0\0"):
        name = "utf-32"  # which reads the mark
    if name == "utf-16" and data[:2] not in (b"\xff\xfe", _MARK):
        name = "utf-16-be"
    try:
        return data.decode(name)
    except UnicodeDecodeError as error:
        raise Failure("MALFORMED_CHARACTER_CODING", f"decode: {value_text(data)} is not {charset}.") from error


def _codec(charset: str) -> str:
    name = _CHARSETS.get(charset.upper())
    if name is None:
        raise Failure(
            "INVALID_PARAMETER_VALUE.CHARSET",
            f"{value_text(charset)} is none of the character sets {', '.join(_CHARSETS)}.",
        )
    return name


def _url_encode(text: str) -> str:
    return urllib.parse.quote_plus(text, safe="*-._").replace("~", "%7E")


_BROKEN_ESCAPE = re.compile("%(?![0-9a-fA-F]{2})")


def _url_decode(text: str) -> str:
    if _BROKEN_ESCAPE.search(text):
        raise Failure(
            "CANNOT_DECODE_URL",
            f"url_decode: {value_text(text)} has a % that is not followed by two hexadecimal digits.",
        )
    return urllib.parse.unquote_plus(text)


FUNCTIONS = (
    row_function("spark_hex_number", "BIGINT", "VARCHAR", _hex_of_number),
    row_function("spark_hex", "BLOB", "VARCHAR", lambda data: data.hex().upper()),
    row_function("spark_unhex", "VARCHAR", "BLOB", _unhex),
    row_function("spark_unhex_strict", "VARCHAR", "BLOB", _unhex_strict),
    row_function("spark_bin", "BIGINT", "VARCHAR", _bin),
    row_function("spark_conv", "VARCHAR INTEGER INTEGER", "VARCHAR", _conv),
    row_function("spark_unbase64", "VARCHAR", "BLOB", _unbase64),
    row_function("spark_encode", "VARCHAR VARCHAR", "BLOB", _encode),
    row_function("spark_decode_charset", "BLOB VARCHAR", "VARCHAR", _decode),
    row_function("spark_url_encode", "VARCHAR", "VARCHAR", _url_encode),
    row_function("spark_url_decode", "VARCHAR", "VARCHAR", _url_decode),
    row_function("spark_try_url_decode", "VARCHAR", "VARCHAR", null_on_error(_url_decode)),
)
