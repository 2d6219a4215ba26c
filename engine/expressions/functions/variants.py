"""parse_json, variant_get, variant_explode, to_variant_object and casts of variants. base/text/variants.py says what a variant is.

A cast of a value follows Spark's `VariantGet.cast`: the kind that the value has is cast as in SQL, and a result of NULL is an error, or stays
NULL where the cast is tried. NULL within a variant is NULL in every type but VARIANT.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from base.text import dates, decimals, doubles, integers, timestamps
from base.text.timestamps import INT64_MAX, SECOND_US
from base.text.trimming import JAVA_BLANK
from base.text.type_names import sql_type
from base.text.variants import (
    FIELD,
    VARIANT,
    Step,
    Value,
    at_path,
    canonical_text,
    json_text,
    path_steps,
    string_of,
    value_of,
)
from engine.expressions.functions.function import Failure, value_text
from engine.expressions.functions.generic_function import GenericFunction
from engine.expressions.functions.written import DECIMAL_DIGITS_MAX
from engine.expressions.generic import Signature
from io_kafka.formats.jackson import Malformed
from io_kafka.formats.variant_parts import usual_parts
from io_kafka.formats.variant_texts import variant_text

TEXT_CHARACTERS_MAX = 1 << 24
"""Longer texts could come near the 128 MiB that a variant of Spark's has at most, where only its binary form says which are refused."""
KEPT_CHARACTERS_MAX = 1 << 22
"""The limit of texts whose values are kept: those of a batch, of which several expressions take parts. A value takes ten times the memory."""
PATHS_KEPT_MAX, CASTS_KEPT_MAX = 1024, 1024

_EXACT = decimal.Context(prec=2 * DECIMAL_DIGITS_MAX)

Cast = Callable[[Value], Any]

T = TypeVar("T")


class _KnownTexts(Generic[T]):
    """What a function gives for texts, until they are too many."""

    def __init__(self, of_text: Callable[[str], T]) -> None:
        self._of_text, self._known, self._characters = of_text, dict[str, T](), 0

    def of(self, text: str) -> T:
        if text in self._known:
            return self._known[text]
        made = self._of_text(text)
        self._characters += len(text)
        if self._characters > KEPT_CHARACTERS_MAX:
            self._known, self._characters = {}, len(text)
        self._known[text] = made
        return made


_texts, _values = _KnownTexts(variant_text), _KnownTexts(value_of)


def _parse_json(signature: Signature, texts: pa.Array) -> pa.Array:
    """Constants: `fail`, whether a malformed text is an error. Otherwise it gives NULL."""
    fail = signature.constants["fail"]
    return _variants([None if text is None else _text_of(text, fail) for text in texts.to_pylist()])


def _text_of(text: str, fail: bool) -> str | None:
    if len(text) > TEXT_CHARACTERS_MAX:
        raise Failure("VARIANT_SIZE_LIMIT", f"a text of {len(text)} characters: at most {TEXT_CHARACTERS_MAX} are read")
    try:
        return _texts.of(text)
    except Malformed as malformed:
        if not fail:
            return None
        raise Failure(
            "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION", f"no JSON for parse_json: {value_text(text)}: {malformed}"
        ) from malformed


def _variants(texts: list[str | None]) -> pa.Array:
    array = pa.array(texts, pa.string())
    return pa.StructArray.from_arrays([array], fields=list(VARIANT), mask=array.is_null())


def _get(signature: Signature, variants: pa.StructArray, paths: pa.Array | None = None) -> pa.Array:
    """Constants: `fail`, whether a value that cannot be cast is an error, and `path`, the steps of a constant path."""
    kind, cast = signature.result, _cast(signature.result, signature.constants["fail"])
    (column,) = variants.flatten()
    if paths is not None:
        both = zip(column.to_pylist(), paths.to_pylist(), strict=True)
        values = [None if text is None or path is None else _at(text, _steps(path), cast) for text, path in both]
        return _variants(values) if kind == VARIANT else pa.array(values, kind)
    steps = tuple(signature.constants["path"])
    found = usual_parts(column, steps, kind)
    if found is None:
        return _each(column, steps, cast, kind)
    usual, declined = found
    if not declined.any():
        return usual
    late = np.flatnonzero(declined)
    others = _each(column.take(pa.array(late)), steps, cast, kind)
    places = np.arange(len(column))
    places[late] = len(column) + np.arange(len(late))
    return pa.concat_arrays([usual, others]).take(pa.array(places))


def _each(texts: pa.Array, steps: tuple[Step, ...], cast: Cast, kind: pa.DataType) -> pa.Array:
    values = [None if text is None else _at(text, steps, cast) for text in texts.to_pylist()]
    return _variants(values) if kind == VARIANT else pa.array(values, kind)


@lru_cache(maxsize=PATHS_KEPT_MAX)
def _steps(path: str) -> tuple[Step, ...]:
    steps = path_steps(path)
    if steps is None:
        raise Failure(
            "INVALID_VARIANT_GET_PATH", f"{value_text(path)} is no path: write $ and then .name, ['name'] or [0]"
        )
    return steps


def _at(text: str, steps: tuple[Step, ...], cast: Cast) -> Any:
    found = at_path(_values.of(text), steps)
    return None if found is None else cast(found[0])


@lru_cache(maxsize=CASTS_KEPT_MAX)
def _cast(kind: pa.DataType, fail: bool) -> Cast:
    """What casts a value to the type. As a column's own value a variant is its text, and within another value it is a struct."""
    return canonical_text if kind == VARIANT else _cast_within(kind, fail)


def _cast_within(kind: pa.DataType, fail: bool) -> Cast:
    if kind == VARIANT:
        return lambda value: {FIELD: canonical_text(value)}
    convert = _container(kind, fail) or _scalar(kind)

    def cast(value: Value) -> Any:
        if value is None:
            return None
        made = convert(value)
        if made is None and fail:
            shown = value_text(json_text(canonical_text(value)))
            raise Failure(
                "INVALID_VARIANT_CAST", f"the variant {shown} cannot be cast to {sql_type(kind)}: use try_variant_get"
            )
        return made

    return cast


def _container(kind: pa.DataType, fail: bool) -> Cast | None:
    if pa.types.is_map(kind):
        item = _cast_within(kind.item_type, fail)
        return lambda value: [(name, item(v)) for name, v in value.items()] if isinstance(value, dict) else None
    if pa.types.is_list(kind):
        element = _cast_within(kind.value_type, fail)
        return lambda value: [element(v) for v in value] if isinstance(value, list) else None
    if pa.types.is_struct(kind):
        members = {field.name: _cast_within(field.type, fail) for field in kind}

        def of_object(value: Value) -> dict[str, Any] | None:
            if not isinstance(value, dict):
                return None
            return {name: members[name](v) for name, v in value.items() if name in members}

        return of_object
    return None


Scalars = Mapping[type, Callable[[Any], Any]]
"""By the class of a variant's value, what casts it. A class that is missing is not cast."""


def _scalar(kind: pa.DataType) -> Cast:
    scalars = _scalars(kind)

    def convert(value: Value) -> Any:
        of_class = scalars.get(type(value))
        return None if of_class is None else of_class(value)

    return convert


def _scalars(kind: pa.DataType) -> Scalars:
    if pa.types.is_integer(kind):
        return _integers(kind.bit_width)
    if pa.types.is_decimal(kind):
        return _decimals(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return _moments() if kind.tz else {str: lambda text: timestamps.timestamp_ntz_us(text, zone="ignored")}
    return _OTHERS[kind]


def _integers(bits: int) -> Scalars:
    top = 1 << (bits - 1)

    def in_range(value: int | Decimal) -> int | None:
        whole = int(value)
        return whole if -top <= whole < top else None

    def of_double(value: float) -> int | None:
        """The floor and the ceiling must both fit. 2^63 itself passes Spark's test, and saturates."""
        if not math.isfinite(value) or math.floor(value) > (top if bits == 64 else top - 1) or math.ceil(value) < -top:
            return None
        return min(int(value), top - 1)

    def of_text(text: str) -> int | None:
        return integers.integer_value(text, bits)

    return {bool: int, int: in_range, Decimal: in_range, float: of_double, str: of_text}


def _decimals(precision: int, scale: int) -> Scalars:
    def in_range(value: Decimal) -> Decimal | None:
        return decimals.to_scale(value, precision, scale)

    def of_text(text: str) -> Decimal | None:
        value = decimals.big_decimal(text.strip(JAVA_BLANK))
        return None if value is None or (value and value.adjusted() >= DECIMAL_DIGITS_MAX) else in_range(value)

    return {
        bool: lambda value: in_range(Decimal(value)),
        int: lambda value: in_range(Decimal(value)),
        Decimal: in_range,
        float: lambda value: in_range(Decimal(repr(value))) if math.isfinite(value) else None,
        str: of_text,
    }


def _moments() -> Scalars:
    """Numbers are seconds."""

    def in_range(us: int) -> int | None:
        return us if -INT64_MAX - 1 <= us <= INT64_MAX else None

    def of_double(seconds: float) -> int | None:
        us = seconds * SECOND_US
        return int(us) if math.isfinite(us) and abs(us) < INT64_MAX + 1 else None

    return {
        int: lambda seconds: in_range(seconds * SECOND_US),
        Decimal: lambda seconds: in_range(int(seconds.scaleb(6, _EXACT))),
        float: of_double,
        str: timestamps.timestamp_us,
    }


def _is_true(value: float | Decimal) -> bool:
    return value != 0


_OTHERS: Mapping[pa.DataType, Scalars] = {
    pa.string(): dict.fromkeys((bool, int, Decimal, float, str, list, dict), string_of),
    pa.binary(): {str: str.encode},
    pa.bool_(): {bool: bool, int: _is_true, Decimal: _is_true, float: _is_true, str: integers.boolean_value},
    pa.float64(): {bool: float, int: float, Decimal: float, float: float, str: doubles.double_value},
    pa.float32(): {
        bool: float,
        int: lambda value: doubles.single_value(str(value)),
        Decimal: lambda value: doubles.single_value(str(value)),
        float: float,
        str: doubles.single_value,
    },
    pa.date32(): {str: dates.date_days},
}


def _to_variant(signature: Signature, values: pa.Array) -> pa.Array:
    return _variants([None if value is None else canonical_text(value) for value in values.to_pylist()])


def _object(signature: Signature, values: pa.Array) -> pa.Array:
    """Makes variants of structs, maps and arrays. NULL within them is a JSON null."""
    plain = _plain(values.type)
    return _variants([None if value is None else canonical_text(plain(value)) for value in values.to_pylist()])


def _plain(kind: pa.DataType) -> Callable[[Any], Value]:
    """What makes a variant's value of a value of this type. NULL stays."""
    if pa.types.is_map(kind):
        item = _plain(kind.item_type)
        return lambda pairs: None if pairs is None else {name: item(value) for name, value in pairs}
    if pa.types.is_list(kind):
        element = _plain(kind.value_type)
        return lambda values: None if values is None else [element(value) for value in values]
    if kind == VARIANT:
        return lambda value: None if value is None else _values.of(value[FIELD])
    if pa.types.is_struct(kind):
        fields = [(field.name, _plain(field.type)) for field in kind]
        return lambda row: None if row is None else {name: plain(row[name]) for name, plain in fields}
    return lambda value: value


def _entries(signature: Signature, variants: pa.StructArray) -> pa.Array:
    """The rows of variant_explode: the members of an object in their order, or the elements of an array. Any other value has none."""
    (column,) = variants.flatten()
    rows = [None if text is None else _entries_of(_values.of(text)) for text in column.to_pylist()]
    return pa.array(rows, signature.result)


def _entries_of(value: Value) -> list[tuple[int, str | None, dict[str, str]]]:
    pairs: list[tuple[str | None, Value]] = []
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = [(None, element) for element in value]
    return [(position, name, {FIELD: canonical_text(each)}) for position, (name, each) in enumerate(pairs)]


GENERIC: Mapping[str, GenericFunction] = {
    "parse_json": _parse_json,
    "to_variant": _to_variant,
    "to_variant_object": _object,
    "variant_entries": _entries,
    "variant_get": _get,
}
