"""Calls of functions in Python as a circuit has them, made without Spark's JVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import xxhash
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.pandas.types import from_arrow_type

from engine.model.python_call import PythonCall, PythonForm, PythonFunction

SETTINGS = (
    ("spark.sql.execution.pandas.convertToArrowArraySafely", "true"),
    ("spark.sql.session.timeZone", "UTC"),
)


def python_call(
    form: PythonForm,
    function: Callable[..., Any],
    type_: pa.DataType,
    *arguments: int,
    keywords: tuple[str, ...] = (),
    digest: str = "",
) -> PythonCall:
    """With its own pickle's hash as digest, if none is given."""
    code = function.__code__
    pickled = CloudPickleSerializer().dumps((function, from_arrow_type(type_)))
    made = PythonFunction(
        digest or xxhash.xxh3_128_hexdigest(pickled), function.__name__, f"functions.py:{code.co_firstlineno}", pickled
    )
    return PythonCall((made,), form, arguments, keywords, type_, SETTINGS)
