"""Random values for the columns of `edges`, and every expression that the tests compare with Spark.

Values lean towards what engines disagree on: ends of the ranges, texts that are nearly numbers or dates, characters of
several bytes."""

from __future__ import annotations

import re
import string
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.base.text import corpus
from tests.stepwell.expressions import (
    edges,
    test_arithmetic,
    test_arrays,
    test_casts,
    test_dates,
    test_encodings,
    test_intervals,
    test_json,
    test_logic,
    test_maps,
    test_mathematics,
    test_strings,
    test_text_measures,
    test_try_functions,
    test_variants,
)

_WIDE = Context(prec=60)
ROWS_MAX = 12  # of one example: more rows find no more per second, for Spark's side is row by row
DAY_US = 86_400_000_000
_DAYS_OF_YEARS_1_TO_9999 = (-719_162, 2_932_896)

_MODULES = (
    test_dates,
    test_arithmetic,
    test_arrays,
    test_casts,
    test_encodings,
    test_intervals,
    test_json,
    test_logic,
    test_maps,
    test_mathematics,
    test_strings,
    test_text_measures,
    test_try_functions,
    test_variants,
)
EXPRESSIONS: tuple[str, ...] = tuple(dict.fromkeys(sql for module in _MODULES for sql in module.CASES))

_ALPHABET = st.sampled_from(
    string.ascii_letters + string.digits + string.punctuation + " \t\n\x00\x7f\u00a0éßİıΣς日\u0301\u0661😀𝟎"
)
_STRINGS = (
    st.text(_ALPHABET, max_size=12)
    | st.text(max_size=8)
    | st.sampled_from([v for v in edges._STRINGS if v is not None])
)


def _mutated(texts: list[str], alphabet: str) -> st.SearchStrategy[str]:
    """A text of the corpus, or one with a character put in, left out or replaced."""

    def changed(parts: tuple[str, int, str, int]) -> str:
        text, at, piece, gone = parts
        at %= len(text) + 1
        return text[:at] + piece + text[at + gone :]

    # Spark computes ten to such an exponent, which takes minutes; the corpus has the ends of their range.
    short = [text for text in texts if len(text) < 100 and not re.search(r"[eEpP][+-]?[0-9]{4}", text)]
    pieces = st.text(st.sampled_from(alphabet), max_size=2)
    return st.sampled_from(short) | st.tuples(
        st.sampled_from(short), st.integers(0, 60), pieces, st.integers(0, 2)
    ).map(changed).filter(lambda text: not re.search(r"[eEpP][+-]?[0-9]{6}", text))


def _integers(bits: int) -> st.SearchStrategy[int]:
    top = 1 << (bits - 1)
    return st.integers(-20, 20) | st.integers(-top, top - 1) | st.sampled_from([-top, top - 1, -top + 1])


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    top = 10**precision - 1
    return (st.integers(-300, 300) | st.integers(-top, top)).map(
        lambda unscaled: Decimal(unscaled).scaleb(-scale, _WIDE)
    )


_DAYS = st.integers(-40_000, 40_000) | st.integers(*_DAYS_OF_YEARS_1_TO_9999)
_MICROS = st.builds(lambda day, us: day * DAY_US + us, _DAYS, st.integers(0, DAY_US - 1) | st.just(0))

_OF_NAME: dict[str, st.SearchStrategy[Any]] = {
    "num": _mutated(corpus.NUMBERS, "0123456789+-.eExXpPdDfF \t,_\u0661"),
    "mom": _mutated(corpus.MOMENTS, "0123456789-: T+Z./GMTUC\t"),
    "u": st.text(_ALPHABET, max_size=3) | _STRINGS,
    "k": st.integers(-50, 50),
}


def values_of(name: str, kind: pa.DataType) -> st.SearchStrategy[Any]:
    return st.none() | _present(name, kind)


def _present(name: str, kind: pa.DataType) -> st.SearchStrategy[Any]:
    if name in _OF_NAME:
        return _OF_NAME[name]
    if pa.types.is_integer(kind):
        return _integers(kind.bit_width)
    if pa.types.is_floating(kind):
        width = kind.bit_width
        near = st.integers(-(10**9), 10**9).map(lambda n: float(n) / 100 if width == 64 else float(n % 4096) / 4)
        return near | st.floats(width=64 if width == 64 else 32)
    if pa.types.is_decimal(kind):
        return _decimals(kind.precision, kind.scale)
    if pa.types.is_string(kind):
        return _STRINGS
    if pa.types.is_binary(kind):
        return st.binary(max_size=8) | st.text(max_size=4).map(str.encode)
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_date(kind):
        return _DAYS
    if pa.types.is_timestamp(kind):
        return _MICROS
    if pa.types.is_duration(kind):
        return _integers(64) | _MICROS
    if pa.types.is_map(kind):
        keys = _present("", kind.key_type)
        return st.dictionaries(keys, values_of("", kind.item_type), max_size=4).map(
            lambda entries: list(entries.items())
        )
    if pa.types.is_list(kind):
        return st.lists(values_of("", kind.value_type), max_size=4)
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({field.name: values_of("", field.type) for field in kind})
    raise AssertionError(f"no random values of {kind}")


@st.composite
def examples(draw: st.DrawFn) -> tuple[str, pa.Table]:
    """An expression and a table of the edge table's columns; those that the expression does not name are null."""
    sql = draw(st.sampled_from(EXPRESSIONS))
    named = set(re.findall(r"\w+", sql))
    count = draw(st.integers(1, ROWS_MAX))
    columns = {}
    for name, (kind, _, _) in edges.COLUMNS.items():
        raw = pa.int32() if pa.types.is_date(kind) else pa.int64() if pa.types.is_temporal(kind) else kind
        cells = [draw(values_of(name, kind)) for _ in range(count)] if name in named else [None] * count
        columns[name] = pa.array(cells, raw).cast(kind)
    return sql, pa.table(columns)
