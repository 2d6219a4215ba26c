"""Messages in CSV -> rows of a schema, as Spark's `from_csv` reads them in its mode FAILFAST with its default options.

A message is one record. A line break in it is a character like any other, as in Spark. Fields are separated by `sep`. A field that begins with a
quote ends with one, and within it a quote or a backslash stands behind a backslash. There are as many fields as columns. A field that is
`null_value`, or is empty without quotes, is NULL.

In one way it is stricter than Spark: a field that begins with a quote, and has none at its end or anything but blanks behind it, is malformed.
Spark takes such a field with its quotes for the value. A byte order mark is a character like any other; Spark leaves it out in the first text
that a task reads, and in no other.

The usual messages, without any quote, are split together. The others are split one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, Int64s, fill
from base.text import doubles
from base.text.columns import dates, nulls_of, timestamps
from base.text.dates import date_days
from base.text.pattern_columns import pattern_of, pattern_values
from base.text.patterns import NO_PATTERNS, Patterns
from io_kafka.formats import javatext
from io_kafka.formats.cursor import Cursor
from io_kafka.formats.encodings import Csv
from io_kafka.formats.parse import Parsed
from io_kafka.formats.without_faults import without_faults

QUOTE, ESCAPE = '"', "\\"
VALUE_CHARACTERS_SHOWN = 60

_INTEGER = re.compile(r"[+-]?\d{1,4000}")  # Python reads no more digits
_LAST_OF_16_BITS = "\uffff"
_USUAL_DOUBLE = r"^-?[0-9]{1,15}(?:\.[0-9]{1,15})?$"
_WORDS_OF_CAST = re.compile(r"[+-]?(?:inf|infinity|nan)", re.IGNORECASE)
_WORDS = {"NaN": np.nan, "Inf": np.inf, "-Inf": -np.inf}
_JAVAS_WORDS = re.compile(r"[+-]?(?:NaN|Infinity)")

Convert = Callable[[pa.Array], tuple[pa.Array, Bools]]
"""Strings, of which none is null -> (values, which are none of the type)."""


def parse_csv(values: pa.Array, schema: pa.Schema, encoding: Csv, patterns: Patterns = NO_PATTERNS) -> Parsed:
    """`values`: binary; a null is an empty message."""
    faults: dict[int, str] = {}
    texts = _texts(values, faults)
    fields = _fields(texts, encoding, len(schema), faults)
    columns = [_column(of_column, field, patterns, faults) for of_column, field in zip(fields, schema, strict=True)]
    return without_faults(columns, schema, faults)


def parse_text(values: pa.Array, schema: pa.Schema, keys: tuple[str, ...]) -> Parsed:
    """The whole value is the one column that is not in the key: its text, or its bytes if the column is BINARY. A null is NULL."""
    faults: dict[int, str] = {}
    columns = []
    for field in schema:
        if field.name in keys:
            columns.append(pa.nulls(len(values), field.type))
        elif pa.types.is_binary(field.type):
            columns.append(values)
        else:
            columns.append(_valid_texts(values, faults))
    return without_faults(columns, schema, faults)


def _valid_texts(values: pa.Array, faults: dict[int, str]) -> pa.Array:
    """Strings; null where the value is. Bytes that are not UTF-8 are a fault."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        cursor, rows = Cursor(fill(values, b"")), np.arange(len(values))
        texts = cursor.texts(rows, cursor.slices(rows, cursor.end - cursor.at))
        faults.update(cursor.faults)
        return pc.if_else(pa.array(nulls_of(values)), pa.scalar(None, pa.string()), texts)


def _texts(values: pa.Array, faults: dict[int, str]) -> pa.Array:
    texts = fill(_valid_texts(values, faults), "")
    for row in np.flatnonzero(pc.equal(texts, "").to_numpy(zero_copy_only=False)).tolist():
        faults.setdefault(row, "empty")
    return texts


def _fields(texts: pa.Array, encoding: Csv, count: int, faults: dict[int, str]) -> list[pa.Array]:
    """The fields of all messages by column: strings, null for NULL and where there is a fault."""
    odd = pc.match_substring(texts, QUOTE)
    usual = np.flatnonzero(~odd.to_numpy(zero_copy_only=False))
    parts = pc.split_pattern(texts.take(pa.array(usual)), encoding.sep)
    lengths = pc.list_value_length(parts).to_numpy(zero_copy_only=False)
    for row in usual[lengths != count].tolist():
        faults.setdefault(row, f"it does not have {count} fields, one for each column")
    good = usual[lengths == count]
    flat = parts.filter(pa.array(lengths == count)).flatten()
    split = [_null_if(flat.take(pa.array(np.arange(len(good)) * count + n)), encoding.null_value) for n in range(count)]
    others, late = _split_slowly(texts, np.setdiff1d(np.arange(len(texts)), usual), encoding, count, faults)
    if not len(late) and len(good) == len(texts):
        return split
    place = np.zeros(len(texts), np.int64)
    missing = np.ones(len(texts), np.bool_)
    at = np.concatenate([good, late])
    place[at], missing[at] = np.arange(len(at)), False
    where = pa.array(place, mask=missing)
    return [pa.concat_arrays([one, other]).take(where) for one, other in zip(split, others, strict=True)]


def _null_if(fields: pa.Array, null_value: str) -> pa.Array:
    """Without quotes, an empty field is NULL too."""
    is_null = pc.is_in(fields, pa.array(["", null_value]))
    return pc.if_else(is_null, pa.scalar(None, pa.string()), fields)


def _split_slowly(
    texts: pa.Array, rows: Int64s, encoding: Csv, count: int, faults: dict[int, str]
) -> tuple[list[pa.Array], Int64s]:
    """(the fields by column, the messages that they belong to)."""
    found: list[list[str | None]] = []
    good: list[int] = []
    for row, text in zip(rows.tolist(), texts.take(pa.array(rows)).to_pylist(), strict=True):
        fields = split_one(text, encoding)
        if fields is None:
            faults.setdefault(row, "a field that begins with a quote does not end with one")
        elif len(fields) != count:
            faults.setdefault(row, f"it does not have {count} fields, one for each column")
        else:
            found.append(fields)
            good.append(row)
    return [pa.array([fields[n] for fields in found], pa.string()) for n in range(count)], np.array(good, np.int64)


def split_one(text: str, encoding: Csv) -> list[str | None] | None:
    """The fields of one message; None if a quoted field does not end as it should."""
    fields: list[str | None] = []
    at, quoted = 0, _quoted_field(encoding.sep)
    while True:
        if text.startswith(QUOTE, at):
            match = quoted.match(text, at)
            if match is None:
                return None
            value, end = _ESCAPED.sub(r"\1", match[1]), match.end()
            fields.append(None if value == encoding.null_value else value)
        else:
            end = text.find(encoding.sep, at)
            end = len(text) if end < 0 else end
            value = text[at:end]
            fields.append(None if value in ("", encoding.null_value) else value)
        if end == len(text):
            return fields
        at = end + len(encoding.sep)


_ESCAPED = re.compile(r'\\(["\\])')


@lru_cache(maxsize=64)  # separators in use
def _quoted_field(sep: str) -> re.Pattern[str]:
    return re.compile(rf'"((?:[^"\\]|\\.)*)"[\x00-\x20]*?(?={re.escape(sep)}|\Z)', re.DOTALL)


def _column(fields: pa.Array, field: pa.Field, patterns: Patterns, faults: dict[int, str]) -> pa.Array:
    present = np.flatnonzero(~nulls_of(fields))
    texts = fields.take(pa.array(present)) if len(present) < len(fields) else fields
    pattern = pattern_of(field.type, patterns)
    values, wrong = converter(field.type)(texts) if pattern is None else pattern_values(texts, field.type, pattern)
    for row in np.flatnonzero(wrong).tolist():
        shown = texts[row].as_py()[:VALUE_CHARACTERS_SHOWN]
        what = field.type if pattern is None else f"{field.type} in the form {pattern}"
        faults.setdefault(int(present[row]), f"column {field.name}: {shown!r} is not {what}")
    if len(present) == len(fields):
        return values
    place = np.zeros(len(fields), np.int64)
    place[present] = np.arange(len(present))
    return values.take(pa.array(place, mask=nulls_of(fields)))


def converter(kind: pa.DataType) -> Convert:
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return lambda texts: (texts.cast(kind), np.zeros(len(texts), np.bool_))
    if pa.types.is_integer(kind):
        bits = kind.bit_width
        return lambda texts: _quickly(
            texts, kind, lambda t: _usual_integers(t, bits), lambda text: _integer(text, bits)
        )
    if pa.types.is_floating(kind):
        read = doubles.single_value if kind == pa.float32() else doubles.double_value
        return lambda texts: _quickly(texts, kind, _usual_doubles, lambda text: _double(text, read))
    if pa.types.is_boolean(kind):
        return lambda texts: _quickly(texts, kind, _none_usual, lambda text: _BOOLEANS.get(text.lower()))
    if pa.types.is_decimal(kind):
        of_text = javatext.decimal_value
        return lambda texts: _quickly(
            texts, kind, _none_usual, lambda text: of_text(text.replace(",", ""), kind.precision, kind.scale)
        )
    if pa.types.is_date(kind):
        return lambda texts: _quickly(texts, kind, dates, _date)
    assert pa.types.is_timestamp(kind), f"the project was checked: {kind}"
    of_moment = javatext.timestamp_us if kind.tz else javatext.timestamp_ntz_us
    return lambda texts: _quickly(texts, kind, lambda column: timestamps(column, kind), of_moment)


_BOOLEANS = {"true": True, "false": False}


def _quickly(
    texts: pa.Array,
    kind: pa.DataType,
    usual: Callable[[pa.Array], tuple[pa.Array, Bools]],
    slowly: Callable[[str], object],
) -> tuple[pa.Array, Bools]:
    """The usual spellings together, and each of the others by `slowly`, once for each distinct text."""
    values, doubtful = usual(texts)
    values = values.cast(kind) if values.type != kind else values
    late = np.flatnonzero(doubtful)
    wrong = np.zeros(len(texts), np.bool_)
    if not len(late):
        return values, wrong
    coded = texts.take(pa.array(late)).dictionary_encode()
    found = [slowly(text) for text in coded.dictionary.to_pylist()]
    others = pa.array(found, kind).take(coded.indices)
    wrong[late] = nulls_of(others)
    return pc.replace_with_mask(values, pa.array(doubtful), others), wrong


def _none_usual(texts: pa.Array) -> tuple[pa.Array, Bools]:
    return pa.nulls(len(texts)), np.ones(len(texts), np.bool_)


def _matching(texts: pa.Array, pattern: str) -> Bools:
    return np.array(pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False), np.bool_)


_DIGITS_OF_ALL = {8: 2, 16: 4, 32: 9, 64: 18}
"""How many digits a number may have that fits so many bits whatever the digits are."""


def _usual_integers(texts: pa.Array, bits: int) -> tuple[pa.Array, Bools]:
    usual = _matching(texts, f"^-?(?:0|[1-9][0-9]{{0,{_DIGITS_OF_ALL[bits] - 1}}})$")
    return pc.if_else(pa.array(usual), texts, "0").cast(pa.int64()), ~usual


def _integer(text: str, bits: int) -> int | None:
    """Reads a number like Java's parseInt. A plus is allowed, blanks are not, and digits may be of any script that needs 16 bits."""
    if not _INTEGER.fullmatch(text) or max(text) > _LAST_OF_16_BITS:
        return None
    value = int(text)
    return value if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else None


def _usual_doubles(texts: pa.Array) -> tuple[pa.Array, Bools]:
    usual = _matching(texts, _USUAL_DOUBLE)
    return pc.if_else(pa.array(usual), texts, "0").cast(pa.float64()), ~usual


def _double(text: str, read: Callable[[str], float | None]) -> float | None:
    """Spark's three words, then Java's parser; the words of CAST are none here."""
    if text in _WORDS:
        return _WORDS[text]
    bare = text.strip()
    if _WORDS_OF_CAST.fullmatch(bare) and not _JAVAS_WORDS.fullmatch(bare):
        return None
    return read(text)


def _date(text: str) -> int | None:
    days = date_days(text)
    return date_days(text.replace("GMT", "")) if days is None and "GMT" in text else days
