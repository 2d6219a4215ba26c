"""Functions over Arrow arrays that DuckDB lacks or computes differently from Spark. There is one module per topic.

Guarantees: the functions are deterministic, and raise `Failure` with Spark's error class. DuckDB calls a function only for the rows that reach
it, so a CASE around it guards it as in Spark. A function that has a vectorised form uses it. The others, on text and exact decimals, run in
Python row by row (0.3 to 2 us per row).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps

import duckdb
import pyarrow as pa

from engine.expressions.functions import (
    arrays,
    day_times,
    decimals,
    encodings,
    floats,
    hashes,
    json_texts,
    months,
    patterns,
    printf,
    sequences,
    strings,
    text_casts,
    text_measures,
    time_zones,
    times,
    trigonometry,
    urls,
    variants,
)  # fmt: skip
from engine.expressions.functions.function import Failure, Function
from engine.expressions.functions.generic_function import GenericFunction, body_of
from engine.expressions.generic import duck_name, functions_named
from engine.expressions.types import duck_type

__all__ = ["FUNCTIONS", "GENERIC", "Failure", "Function", "register"]

FUNCTIONS: tuple[Function, ...] = (
    *decimals.FUNCTIONS,
    *floats.FUNCTIONS,
    *trigonometry.FUNCTIONS,
    *strings.FUNCTIONS,
    *patterns.FUNCTIONS,
    *times.FUNCTIONS,
    *text_casts.FUNCTIONS,
    *months.FUNCTIONS,
    *day_times.FUNCTIONS,
    *json_texts.FUNCTIONS,
    *hashes.FUNCTIONS,
    *encodings.FUNCTIONS,
    *text_measures.FUNCTIONS,
    *urls.FUNCTIONS,
    *time_zones.FUNCTIONS,
)

GENERIC: Mapping[str, GenericFunction] = {
    **json_texts.GENERIC,
    **arrays.GENERIC,
    **hashes.GENERIC,
    **printf.GENERIC,
    **sequences.GENERIC,
    **text_measures.GENERIC,
    **variants.GENERIC,
}
"""The functions that take any type (see engine/expressions/generic.py), by name."""


_BY_NAME = {function.name: function for function in FUNCTIONS}
_NAMED = re.compile(r"\bspark_\w+")


IMPLEMENTATION_VERSIONS: Mapping[str, int] = {}
"""By name, the number of times that the results of a function have changed. State that was computed with other results is then not kept
(engine/analysis/identity.py). A function that is missing here has never changed."""


def versions_in(sql: str, versions: Mapping[str, int]) -> dict[str, int]:
    """The versions of the functions that the SQL names, as far as `versions` has them: IMPLEMENTATION_VERSIONS, or those of another release."""
    if not versions:
        return {}  # a start asks for each expression of a circuit
    named = {*_NAMED.findall(sql), *(signature.function for _, signature in functions_named(sql))}
    return {name: versions[name] for name in sorted(named & versions.keys())}


def register(connection: duckdb.DuckDBPyConnection, sql: str, known: set[str]) -> None:
    """Makes the functions known that the SQL names, unless they are in `known`, to which they are added. To make all of them known takes some
    20 ms, and a pipeline uses few."""
    for name in set(_NAMED.findall(sql)) & _BY_NAME.keys() - known:
        function = _BY_NAME[name]
        _create(connection, name, function.body, function.arguments, function.result)
        known.add(name)
    for name, signature in functions_named(sql):
        if name not in known:
            body = body_of(GENERIC[signature.function], signature)
            arguments = [duck_type(argument) for argument in signature.arguments]
            _create(connection, duck_name(name), body, arguments, duck_type(signature.result))
            known.add(name)


class _Noticed(threading.local):
    """What the functions of this thread have met. `lack`: one had no memory."""

    lack: MemoryError | None = None


_noticed = _Noticed()


@contextmanager
def no_lack_of_memory() -> Iterator[None]:
    """Raises the MemoryError of a function, which TRY would take for an error of a row."""
    _noticed.lack = None
    yield
    if _noticed.lack is not None:
        raise _noticed.lack


def _noticing(body: Callable[..., pa.Array]) -> Callable[..., pa.Array]:
    @wraps(body)
    def call(*arguments: pa.Array) -> pa.Array:
        try:
            return body(*arguments)
        except MemoryError as lack:
            _noticed.lack = lack
            raise

    return call


def _create(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    body: Callable[..., pa.Array],
    arguments: Sequence[str],
    result: str,
) -> None:
    connection.create_function(
        name,
        _noticing(body),
        [duckdb.sqltype(argument) for argument in arguments],
        duckdb.sqltype(result),
        type="arrow",
        null_handling="special",
    )
