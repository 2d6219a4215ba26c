"""Whole columns -> JSON fragments, byte for byte as Spark's `to_json` writes them in UTC.

Doubles have the shortest digits that read back, as Java writes them from version 19 on (older ones add a digit to a few values):
the same rows give the same bytes under every Java. Values outside of what Arrow prints as Spark does (years before 1 or
after 9999, doubles in scientific notation, intervals) are spelt by `base.text`, once for each distinct value.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from functools import lru_cache, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, as_lists, fill
from base.text.columns import bytes_of, nulls_of
from base.text.dates import date_text
from base.text.day_times import interval_text
from base.text.months import is_months, months_text
from base.text.pattern_columns import pattern_of, pattern_texts
from base.text.patterns import NO_PATTERNS, Patterns
from base.text.timestamps import timestamp_text_of_ms
from base.text.variants import ANY_FRACTION, VARIANT, json_text
from io_kafka.formats import javatext

# Arrow and Spark print years of four digits alike.
FIRST_DAY = (date(1, 1, 1) - date(1970, 1, 1)).days
LAST_DAY = (date(9999, 12, 31) - date(1970, 1, 1)).days
DAY_MS = 86_400_000
PLAIN_MIN, PLAIN_MAX = 1e-3, 1e7  # Java writes doubles plainly from the first, below the second
_ALPHABET = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_ESCAPES = {char: json.dumps(chr(char))[1:-1] for char in (*range(32), ord('"'), ord("\\"))}
_ESCAPES = {char: text[:2] + text[2:].upper() for char, text in _ESCAPES.items()}


def fragment(column: pa.Array, *, micros: bool = False, patterns: Patterns = NO_PATTERNS) -> pa.Array:
    """One JSON text per row, `null` for null. `micros`: see `record`. `patterns`: of dates and timestamps, at every depth."""
    return fill(_texts(column, patterns, micros), "null")


def record(
    names: list[str], columns: list[pa.Array], *, micros: bool = False, patterns: Patterns = NO_PATTERNS
) -> pa.Array:
    """One JSON object per row: {"name":fragment,...}. `micros`: a timestamp in a column of its own that is no whole number of milliseconds
    has six digits, unlike in `to_json`, so that different rows have different texts. A pattern goes before that."""
    if not names:
        raise ValueError("a record needs a column")
    parts: list[pa.Array | str] = []
    for index, (name, column) in enumerate(zip(names, columns, strict=True)):
        parts += [f"{',' if index else '{'}{_quote_name(name)}:", fragment(column, micros=micros, patterns=patterns)]
    return pc.binary_join_element_wise(*parts, "}", "")


def texts(column: pa.Array, nulls: bool = True, patterns: Patterns = NO_PATTERNS) -> pa.Array:
    """One JSON text per row; null stays null. Without `nulls`, members of objects that are null are left out, as `to_json` does by default."""
    return _texts(column, patterns) if nulls else _texts_without_nulls(column, patterns)


def _texts_without_nulls(column: pa.Array, patterns: Patterns) -> pa.Array:
    kind = column.type
    if kind == VARIANT:
        return _variants(column)
    if pa.types.is_map(kind):
        return _maps(column, lambda items: fill(_texts_without_nulls(items, patterns), "null"))
    if pa.types.is_list(kind):
        return _lists(column, lambda items: fill(_texts_without_nulls(items, patterns), "null"))
    if not pa.types.is_struct(kind):
        return _texts(column, patterns)
    if not kind.num_fields:
        return _with_nulls(pa.array(["{}"] * len(column), pa.string()), nulls_of(column))
    # Arrow's join that skips nulls leaves out a row that has nothing else.
    members = [
        fill(
            pc.binary_join_element_wise(
                f",{_quote_name(kind.field(i).name)}:", _texts_without_nulls(child, patterns), ""
            ),
            "",
        )
        for i, child in enumerate(column.flatten())
    ]
    joined = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*members, ""), 1)  # without the first comma
    return _with_nulls(pc.binary_join_element_wise("{", joined, "}", ""), nulls_of(column))


@lru_cache(maxsize=1024)  # names of columns in use; a step of 1,000 rows spent 3 % of its time on them
def _quote_name(name: str) -> str:
    return str(_quote(pa.array([name]))[0].as_py())


def _texts(column: pa.Array, patterns: Patterns, micros: bool = False) -> pa.Array:
    """One JSON text per row; null stays null."""
    kind = column.type
    if kind == VARIANT:
        return _variants(column)
    if pa.types.is_struct(kind):
        names = [kind.field(i).name for i in range(kind.num_fields)]
        texts = (
            record(names, column.flatten(), patterns=patterns) if names else pa.array(["{}"] * len(column), pa.string())
        )
        return _with_nulls(texts, nulls_of(column))
    if pa.types.is_map(kind):
        return _maps(column, partial(fragment, patterns=patterns))
    if pa.types.is_list(kind):
        return _lists(column, partial(fragment, patterns=patterns))
    if pa.types.is_floating(kind):
        return _floats(column)
    if pa.types.is_string(kind):
        return _quote(column)
    if pa.types.is_binary(kind):
        return pc.binary_join_element_wise('"', _base64(column), '"', "")
    pattern = pattern_of(kind, patterns)
    if pattern is not None:
        return _quote(pattern_texts(column, pattern))
    if pa.types.is_date(kind):
        return pc.binary_join_element_wise('"', _dates(column), '"', "")
    if pa.types.is_timestamp(kind):
        return pc.binary_join_element_wise('"', _timestamps(column, micros), 'Z"' if kind.tz else '"', "")
    if is_months(kind):
        spelt = partial(months_text, type_=kind)
        return pc.binary_join_element_wise('"', _each(column.view(pa.int64()), spelt), '"', "")
    if pa.types.is_duration(kind):
        return pc.binary_join_element_wise('"', _each(column.cast(pa.int64()), interval_text), '"', "")
    return column.cast(pa.string())


def _with_nulls(texts: pa.Array, null: Bools) -> pa.Array:
    return pc.if_else(pa.array(~null), texts, pa.scalar(None, pa.string())) if null.any() else texts


def _each(column: pa.Array, spelt: Callable[..., str]) -> pa.Array:
    """The text of each value by `spelt`, which is called once per distinct value."""
    coded = column.dictionary_encode()
    return pa.array([spelt(value) for value in coded.dictionary.to_pylist()], pa.string()).take(coded.indices)


def _where(usual: Bools, column: pa.Array, vectorised: pa.Array, spelt: Callable[..., str]) -> pa.Array:
    """The vectorised text in the rows where it is right, and that of `spelt` in the others."""
    if usual.all():
        return vectorised
    return pc.replace_with_mask(vectorised, pa.array(~usual), _each(column.filter(pa.array(~usual)), spelt))


def _maps(column: pa.MapArray, of_items: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Objects of the entries, in their order. A value that is null is written in every case."""

    def members(items: pa.Array) -> pa.Array:
        keys, values = items.flatten()
        return pc.binary_join_element_wise(_quote(keys), of_items(values), ":")

    lists = _lists(as_lists(column), members)
    return pc.binary_join_element_wise("{", pc.utf8_slice_codeunits(lists, 1, -1), "}", "")


def _lists(column: pa.ListArray, of_items: Callable[[pa.Array], pa.Array]) -> pa.Array:
    lengths = fill(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(column) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), of_items(column.flatten())), ",")
    return _with_nulls(pc.binary_join_element_wise("[", joined, "]", ""), nulls_of(column))


def _variants(column: pa.StructArray) -> pa.Array:
    (texts,) = column.flatten()
    unusual = fill(pc.match_substring_regex(texts, ANY_FRACTION), False)
    if not pc.any(unusual).as_py():
        return texts
    return pc.replace_with_mask(texts, unusual, _each(texts.filter(unusual), json_text))


def _floats(column: pa.Array) -> pa.Array:
    values = fill(column, 1.0).to_numpy(zero_copy_only=False)
    size = np.abs(values)
    usual = (size >= PLAIN_MIN) & (size < PLAIN_MAX)
    plain = column.cast(pa.string())
    whole = pa.array(usual & (values == np.floor(values)))
    plain = pc.if_else(pc.and_(whole, pc.invert(fill(pc.ends_with(plain, ".0"), False))), _with_fraction(plain), plain)
    spelt = javatext.json_float if column.type == pa.float32() else javatext.json_double
    # Distinct bits, not distinct values: 0.0 and -0.0 have different texts.
    return _where(usual, column, plain, spelt)


def _with_fraction(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(texts, ".0", "")


def _quote(strings: pa.Array) -> pa.Array:
    data, ends = bytes_of(strings)
    present = np.flatnonzero(np.bincount(data[ends[0] : ends[-1]], minlength=256))
    if ord("\\") in present:
        strings = pc.replace_substring(strings, "\\", "\\\\")
    for char in present:
        if int(char) in _ESCAPES and char != ord("\\"):
            strings = pc.replace_substring(strings, chr(char), _ESCAPES[int(char)])
    return pc.binary_join_element_wise('"', strings, '"', "")


def _dates(column: pa.Array) -> pa.Array:
    days = column.cast(pa.int32())
    values = fill(days, 0).to_numpy(zero_copy_only=False)
    usual = (values >= FIRST_DAY) & (values <= LAST_DAY)
    inside = pc.if_else(pa.array(usual), days, pa.scalar(0, pa.int32())).cast(pa.date32())
    return _where(usual, days, inside.cast(pa.string()), date_text)


def _timestamps(column: pa.Array, micros: bool) -> pa.Array:
    """To milliseconds, rounded down, as Spark's default pattern has it. `micros`: with the rest of the digits if they are not zero."""
    us = column.cast(pa.timestamp("us")).cast(pa.int64())
    ms, rest = np.divmod(fill(us, 0).to_numpy(zero_copy_only=False), 1000)
    usual = (ms >= FIRST_DAY * DAY_MS) & (ms < (LAST_DAY + 1) * DAY_MS)
    inside = pa.array(np.where(usual, ms, 0), pa.int64(), mask=nulls_of(us)).cast(pa.timestamp("ms"))
    texts = pc.binary_replace_slice(inside.cast(pa.string()).cast(pa.binary()), 10, 11, b"T").cast(pa.string())
    texts = _where(usual, pa.array(ms, mask=nulls_of(us)), texts, timestamp_text_of_ms)
    if not micros or not rest.any():
        return texts
    digits = _each(pa.array(rest), "{:03d}".format)
    return pc.if_else(pa.array(rest == 0), texts, pc.binary_join_element_wise(texts, digits, ""))


def _base64(column: pa.Array) -> pa.Array:
    data, ends = bytes_of(column)
    null = nulls_of(column)
    if null.any():
        column = fill(column, b"")
        data, ends = bytes_of(column)
    lengths = np.diff(ends).astype(np.int64)
    groups = -(-lengths // 3)
    starts = np.concatenate([[0], np.cumsum(groups)])
    padded = np.zeros(int(starts[-1]) * 3, dtype=np.uint8)
    padded[np.repeat(starts[:-1] * 3 - ends[:-1], lengths) + np.arange(ends[0], ends[-1])] = data[ends[0] : ends[-1]]
    three = padded.reshape(-1, 3)
    six = np.empty((len(three), 4), dtype=np.uint8)
    six[:, 0] = three[:, 0] >> 2
    six[:, 1] = (three[:, 0] & 3) << 4 | three[:, 1] >> 4
    six[:, 2] = (three[:, 1] & 15) << 2 | three[:, 2] >> 6
    six[:, 3] = three[:, 2] & 63
    chars = _ALPHABET[six]
    last = starts[1:] - 1
    chars[last[lengths % 3 != 0], 3] = ord("=")
    chars[last[lengths % 3 == 1], 2] = ord("=")
    offsets = pa.py_buffer((starts * 4).astype(np.int32).tobytes())
    texts = pa.Array.from_buffers(pa.string(), len(lengths), [None, offsets, pa.py_buffer(chars.tobytes())])
    return _with_nulls(texts, null)
