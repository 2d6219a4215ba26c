"""Spark's functions of strings. Positions count code points, and upper and lower case follow Unicode's full mappings."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import AnyStr

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.functions.function import Failure, Function, row_function

STRING_CODE_POINTS_MAX = (1 << 31) - 1  # Java's limit: for a longer result Spark raises too
STRING_BYTES_MAX = (1 << 31) - 16  # of a string in UTF-8, in Java's arrays and in Arrow's; checked before it is built


def _case_function(name: str, ascii_only: Callable[[pa.Array], pa.Array], full: Callable[[str], str]) -> Function:
    def body(column: pa.ChunkedArray) -> pa.Array:
        array = column.combine_chunks()
        if pc.all(pc.string_is_ascii(array), min_count=0).as_py() is not False:
            return ascii_only(array)
        return pa.array([None if value is None else full(value) for value in array.to_pylist()], pa.string())

    return Function(name, ("VARCHAR",), "VARCHAR", body)


def _slice(text: str, position: int, length: int) -> str:
    start, end = _bounds(len(text), position, length)
    return text[start:end]


def _slice_bytes(data: bytes, position: int, length: int) -> bytes:
    start, end = _bounds(len(data), position, length)
    return data[start:end]


def _bounds(size: int, position: int, length: int) -> tuple[int, int]:
    """The start and end of a slice by Spark's rules. Positions 0 and 1 are the first, -1 is the last. The part of the length that is before the
    text counts."""
    start = position - 1 if position > 0 else size + position if position < 0 else 0
    end = min(start + length, STRING_CODE_POINTS_MAX)
    return max(start, 0), max(end, 0)


def _pad(text: AnyStr, length: int, pad: AnyStr, left: bool) -> AnyStr:
    if length <= len(text):
        return text[: max(length, 0)]
    if not pad:
        return text
    missing = length - len(text)
    _check_size(text, missing // len(pad) + 1, pad)
    filling = (pad * (missing // len(pad) + 1))[:missing]
    return filling + text if left else text + filling


def _fit(text: str, size: int) -> str:
    """The text of a column that is declared with at most `size` characters. Blanks at the end may be too many."""
    if text[size:].strip(" "):
        raise Failure("EXCEED_LIMIT_LENGTH", f"Exceeds char/varchar type length limitation: {size}.")
    return text[:size]


def _locate(what: str, text: str, start: int) -> int:
    if start < 1:
        return 0
    if not what:
        return 1
    return text.find(what, start - 1) + 1


def _substring_index(text: str, delimiter: str, count: int) -> str:
    if not delimiter or count == 0:
        return ""
    if count > 0:
        return delimiter.join(text.split(delimiter, count)[:count])
    position = len(text)
    for _ in range(-count):
        position = text.rfind(delimiter, 0, position + len(delimiter) - 1)
        if position < 0:
            return text
    return text[position + len(delimiter) :]


def _translate(text: str, source: str, target: str) -> str:
    table: dict[int, str | None] = {}
    for index, character in enumerate(source):
        table.setdefault(ord(character), target[index] if index < len(target) else None)
    return text.translate(table)


_WORD = re.compile(r"[^ ]+")


def _initcap(text: str) -> str:
    """The first letter of each word in title case, the others in lower case. Only spaces separate words."""
    return _WORD.sub(lambda match: match[0][:1].title() + match[0][1:].lower(), text)


def _repeat(text: str, times: int) -> str:
    _check_size("", times, text)
    return text * times


def _check_size(text: AnyStr, times: int, repeated: AnyStr) -> None:
    if _bytes(text) + _bytes(repeated) * times > STRING_BYTES_MAX:
        raise Failure("COLLECTION_SIZE_LIMIT_EXCEEDED", f"a string of {len(repeated)} characters {times} times")


def _bytes(value: str | bytes) -> int:
    return len(value.encode() if isinstance(value, str) else value)


def _overlay(text: str, replacement: str, position: int, length: int) -> str:
    count = length if length >= 0 else len(replacement)
    return _slice(text, 1, position - 1) + replacement + _slice(text, position + count, STRING_CODE_POINTS_MAX)


def _decode(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Failure("MALFORMED_CHARACTER_CODING", f"bytes that are not UTF-8: {data[:64]!r}") from error


def _decode_valid(column: pa.ChunkedArray) -> pa.Array:
    """Bytes as text. The values of messages come this way, and nearly all of them are UTF-8, so they are checked at once and not copied."""
    array = column.combine_chunks()
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(
            [None if data is None else data.decode("utf-8", "replace") for data in array.to_pylist()], pa.string()
        )


def _ascii(text: str) -> int:
    return ord(text[0]) if text else 0


def _chr(number: int) -> str:
    return "" if number < 0 else chr(number & 0xFF)


def _mime(data: bytes) -> str:
    """Base64 in lines of 76 characters, as Java's MIME encoder writes it."""
    encoded = base64.b64encode(data).decode()
    return "\r\n".join(encoded[at : at + 76] for at in range(0, len(encoded), 76))


FUNCTIONS = (
    _case_function("spark_upper", pc.ascii_upper, str.upper),
    _case_function("spark_lower", pc.ascii_lower, str.lower),
    row_function("spark_substring", "VARCHAR INTEGER INTEGER", "VARCHAR", _slice),
    row_function("spark_substring_bytes", "BLOB INTEGER INTEGER", "BLOB", _slice_bytes),
    row_function(
        "spark_lpad", "VARCHAR INTEGER VARCHAR", "VARCHAR", lambda text, length, pad: _pad(text, length, pad, True)
    ),
    row_function(
        "spark_rpad", "VARCHAR INTEGER VARCHAR", "VARCHAR", lambda text, length, pad: _pad(text, length, pad, False)
    ),
    row_function(
        "spark_lpad_bytes", "BLOB INTEGER BLOB", "BLOB", lambda data, length, pad: _pad(data, length, pad, True)
    ),
    row_function(
        "spark_rpad_bytes", "BLOB INTEGER BLOB", "BLOB", lambda data, length, pad: _pad(data, length, pad, False)
    ),
    row_function("spark_contains_bytes", "BLOB BLOB", "BOOLEAN", lambda data, part: part in data),
    row_function("spark_starts_with_bytes", "BLOB BLOB", "BOOLEAN", lambda data, part: data.startswith(part)),
    row_function("spark_ends_with_bytes", "BLOB BLOB", "BOOLEAN", lambda data, part: data.endswith(part)),
    row_function("spark_locate", "VARCHAR VARCHAR INTEGER", "INTEGER", _locate),
    row_function("spark_fit_char", "VARCHAR INTEGER", "VARCHAR", lambda text, size: _fit(text, size).ljust(size)),
    row_function("spark_fit_varchar", "VARCHAR INTEGER", "VARCHAR", _fit),
    row_function("spark_join", "VARCHAR[] VARCHAR", "VARCHAR", lambda texts, by: by.join(texts)),
    row_function("spark_reverse", "VARCHAR", "VARCHAR", lambda text: text[::-1]),
    row_function("spark_initcap", "VARCHAR", "VARCHAR", _initcap),
    row_function("spark_repeat", "VARCHAR INTEGER", "VARCHAR", _repeat),
    row_function("spark_substring_index", "VARCHAR VARCHAR INTEGER", "VARCHAR", _substring_index),
    row_function("spark_translate", "VARCHAR VARCHAR VARCHAR", "VARCHAR", _translate),
    row_function("spark_overlay", "VARCHAR VARCHAR INTEGER INTEGER", "VARCHAR", _overlay),
    row_function("spark_ascii", "VARCHAR", "INTEGER", _ascii),
    row_function("spark_chr", "BIGINT", "VARCHAR", _chr),
    row_function("spark_decode_strict", "BLOB", "VARCHAR", _decode),
    Function("spark_decode", ("BLOB",), "VARCHAR", _decode_valid),
    row_function(
        "spark_base64",
        "BLOB BOOLEAN",
        "VARCHAR",
        lambda data, lines: _mime(data) if lines else base64.b64encode(data).decode(),
    ),
    row_function(
        "spark_split_literal", "VARCHAR VARCHAR", "VARCHAR[]", lambda text, by: text.split(by) if by else [text]
    ),
)
