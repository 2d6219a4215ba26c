"""The type of a function that takes any type, and its form for the types of one call."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pyarrow as pa

from engine.expressions.generic import Signature
from engine.expressions.types import buffer_type, relabel

GenericFunction = Callable[..., pa.Array]
"""Called with the signature and one Arrow array for each argument, which has exactly the argument's type. It returns an array of the result's
type. Nulls are in the arrays too."""


def body_of(function: GenericFunction, signature: Signature) -> Callable[..., pa.Array]:
    """The function as DuckDB calls it for this signature."""

    def body(*columns: pa.ChunkedArray) -> pa.Array:
        arrays = [_exactly(column, type_) for column, type_ in zip(columns, signature.arguments, strict=True)]
        result = function(signature, *arrays)
        return relabel(pa.chunked_array([result]), buffer_type(signature.result)).chunk(0)

    # DuckDB reads the number of parameters from the signature.
    body.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(f"a{i}", inspect.Parameter.POSITIONAL_OR_KEYWORD) for i in range(len(signature.arguments))]
    )
    return body


def _exactly(column: pa.Array | pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    """DuckDB's column as an array of the type that the circuit has."""
    chunked = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    return relabel(chunked.cast(buffer_type(type_)), type_).combine_chunks()
