"""The one adapter to PySpark's worker (`pyspark.worker`), in which Spark itself calls the user's functions.

Guarantees: values are converted for a function, and its results for Spark, by Spark's own code, with the settings that Spark would use. The
module is not a public API of PySpark's, but its minor version is fixed, and `tests/engine/test_python_calls.py` and
`tests/stepwell/test_python_functions.py` compare every form of function with Spark.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from engine.model.python_call import PythonCall, PythonForm

FUNCTIONS_MAX = 1_000
"""Calls whose functions a process keeps unpickled. A project has fewer."""

BINARY_KEY = "spark.sql.execution.pyspark.binaryAsBytes"

Runner = Callable[[Iterator[Any]], Iterator[Any]]
"""From record batches to record batches of one column; for pickled rows, from tuples to results; for groups, from lists of record batches to a
record batch for each group."""

_EVAL_TYPES: Mapping[PythonForm, str] = {
    "pickled row": "SQL_BATCHED_UDF",
    "row": "SQL_ARROW_BATCHED_UDF",
    "pandas": "SQL_SCALAR_PANDAS_UDF",
    "pandas iterator": "SQL_SCALAR_PANDAS_ITER_UDF",
    "arrow": "SQL_SCALAR_ARROW_UDF",
    "arrow iterator": "SQL_SCALAR_ARROW_ITER_UDF",
    "pandas group": "SQL_GROUPED_AGG_PANDAS_UDF",
    "pandas group iterator": "SQL_GROUPED_AGG_PANDAS_ITER_UDF",
    "arrow group": "SQL_GROUPED_AGG_ARROW_UDF",
    "arrow group iterator": "SQL_GROUPED_AGG_ARROW_ITER_UDF",
}


@lru_cache(maxsize=FUNCTIONS_MAX)
def is_refusal(error: BaseException) -> bool:
    """Whether Spark refuses a result."""
    from pyspark.errors import PySparkException

    return isinstance(error, PySparkException)


def runner_of(call: PythonCall, types: tuple[pa.DataType, ...]) -> Runner:
    """What calls the functions on columns of these types, which are the call's arguments, or one column that stands for none. Raises what
    unpickling a function raises."""
    from pyspark import worker
    from pyspark.serializers import CPickleSerializer
    from pyspark.util import PythonEvalType
    from pyspark.worker_message import UDFInfo

    _live_in_utc()
    positional = (len(types) if call.arguments else 0) - len(call.keywords)
    info = UDFInfo(
        udfs=[memoryview(function.pickled) for function in call.functions],
        args=list(range(positional)),
        kwargs={name: positional + place for place, name in enumerate(call.keywords)},
        result_id=0,
    )
    eval_type = getattr(PythonEvalType, _EVAL_TYPES[call.form])
    input_type = worker.EvalConf({"input_type": _struct(types).json()})
    settings = worker.RunnerConf(dict(call.settings))
    function, _, _, _ = worker.read_udfs(CPickleSerializer(), [info], eval_type, settings, input_type)
    return lambda batches: function(0, batches)


def rows_of(columns: Sequence[pa.ChunkedArray], settings: Mapping[str, str]) -> Iterable[tuple[Any, ...]]:
    """The rows as tuples of the Python values that a function gets for them."""
    from pyspark.sql.conversion import ArrowTableToRowsConversion as Conversion

    as_bytes = settings.get(BINARY_KEY, "true") == "true"
    lists = []
    for column, field in zip(columns, _struct([column.type for column in columns]).fields, strict=True):
        convert = Conversion._create_converter(field.dataType, none_on_identity=True, binary_as_bytes=as_bytes)
        values = Conversion._to_pylist(column)
        lists.append(values if convert is None else [convert(value) for value in values])
    return zip(*lists, strict=True)


def _struct(types: Sequence[pa.DataType]) -> Any:
    """Spark's type of rows with these columns."""
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructType

    struct = StructType()
    for place, type_ in enumerate(types):
        struct = struct.add(f"_{place}", from_arrow_type(type_))
    return struct


def _live_in_utc() -> None:
    """A function gets a timestamp as a local time of its process. The zone of a machine must not decide an answer."""
    if os.environ.get("TZ") != "UTC":
        os.environ["TZ"] = "UTC"
        time.tzset()
