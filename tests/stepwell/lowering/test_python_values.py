"""Values on their way into functions in Python and out of them, of every type and by every form, beside Spark's own."""

from __future__ import annotations

import array
import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import Column, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from engine.model.python_call import PythonCall
from engine.model.rows import PythonMap
from engine.operators.python_map import _map
from engine.python.calls import results
from engine.python.errors import FunctionError
from engine.rows import zset
from stepwell.catalyst.types import arrow_schema
from stepwell.lowering.driver import lower
from tests.stepwell.lowering.projects import Workbench

UTC = datetime.UTC

TYPES = (
    *(
        "boolean",
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "float",
        "double",
        "decimal(5,2)",
        "decimal(38,10)",
        "string",
        "binary",
        "date",
    ),
    *(
        "timestamp",
        "timestamp_ntz",
        "interval day to second",
        "array<int>",
        "array<string>",
        "array<date>",
        "array<array<int>>",
    ),
    *("map<string,int>", "map<string,date>", "struct<a:int,b:string>", "struct<a:date,b:int>", "array<struct<a:int>>"),
)

RETURNED: list[Any] = [
    *(None, True, 0, 5, 300, 70000, -129, 2**31, 2**40, 2**63, -(2**63), 1.5, 1e300, float("nan"), float("-inf"), 1e7),
    *("x", "", "1", b"ab", bytearray(b"\xff"), Decimal("1.505"), Decimal("1E+3"), Decimal("99999.99"), Decimal("NaN")),
    *(
        [1, 2],
        [1, "a", None],
        (1, 2),
        {"a": 1},
        {1: 2},
        {},
        [],
        (),
        {"a": None},
        [[1], [2]],
        {1, 2},
        [True],
        [1.0],
        ["a"],
        {"a": "b"},
    ),
    *(
        array.array("i", [1, 2]),
        array.array("d", [1.5]),
        complex(1, 2),
        range(2),
        frozenset([1]),
        [Decimal("1.25"), 1.5, None, 2**70],
    ),
    *(datetime.date(2020, 1, 2), datetime.datetime(2020, 1, 2, 3, 4, 5, 6), datetime.datetime(2020, 1, 2, tzinfo=UTC)),
    *(
        datetime.timedelta(days=1, microseconds=5),
        datetime.time(1, 2),
        [datetime.date(2020, 1, 2)],
        {"k": datetime.date(1, 1, 1)},
    ),
    *(Row(a=1, b="x"), Row(b="x", a=1), np.int64(3), np.float64(2.5), np.array([1, 2])),
]
"""What functions return, whatever their type is."""

GIVEN: dict[str, list[Any]] = {
    "boolean": [None, True, False],
    "tinyint": [None, -128, 127],
    "bigint": [None, -(2**63), 2**63 - 1],
    "float": [None, 0.1, float("nan")],
    "double": [None, -0.0, float("inf")],
    "decimal(5,2)": [None, Decimal("-1.50"), Decimal("0.00")],
    "decimal(38,10)": [None, Decimal("0E-10"), Decimal("1234567890123456789012345678.0123456789")],
    "string": [None, "", "\U0001f600 ä"],
    "binary": [None, b"", b"\x00\xff"],
    "date": [None, datetime.date(1, 1, 1), datetime.date(9999, 12, 31)],
    "timestamp": [None, datetime.datetime(1900, 1, 1, 1, 2, 3, 4), datetime.datetime(2262, 4, 11)],
    "timestamp_ntz": [None, datetime.datetime(1900, 1, 1, 1, 2, 3, 4), datetime.datetime(2262, 4, 11)],
    "interval day to second": [None, datetime.timedelta(microseconds=-1), datetime.timedelta(days=400)],
    "array<int>": [None, [], [1, None]],
    "array<struct<d:date>>": [None, [None], [Row(d=datetime.date(2020, 1, 2))]],
    "map<string,decimal(5,2)>": [None, {}, {"a": Decimal("1.50"), "b": None}],
    "struct<a:int,b:array<timestamp>>": [None, Row(a=None, b=None), Row(a=1, b=[datetime.datetime(2020, 1, 2)])],
}
"""What functions are given."""


def table(columns: dict[str, list[Any]]) -> pa.Table:
    schema = arrow_schema(StructType.fromDDL(", ".join(f"c{n} {ddl}" for n, ddl in enumerate(columns))))

    def plain(value: Any) -> Any:
        if isinstance(value, Row):
            return value.asDict(recursive=True)
        if isinstance(value, list):
            return [plain(item) for item in value]
        return list(value.items()) if isinstance(value, dict) else value

    arrays = (
        pa.array([plain(v) for v in values], field.type) for values, field in zip(columns.values(), schema, strict=True)
    )
    return pa.table(list(arrays), names=schema.names)


def ours(spark: SparkSession, rows: pa.Table, ddl: str, columns: list[Column]) -> list[Any]:
    """The results of the functions of the columns: per node of the circuit, and in the order of its calls."""
    bench = Workbench(spark).source("t", ddl)
    circuit = lower(bench.view("v", lambda s: s.table("t").select(*columns)).project())
    found: list[Any] = []
    changes: list[pa.Table] = [zset.build(rows.columns, np.ones(rows.num_rows, np.int64))]
    for node in circuit.nodes[1:]:
        if isinstance(node, PythonMap):
            changes.append(_map(node, changes[node.inputs[0]]))
            continue
        width = len(node.types)
        below = changes[node.inputs[0]]
        if node.kind != "Map":
            break
        places = [projection.column for projection in node.projections]  # type: ignore[union-attr]
        assert None not in places and len(places) == width, node
        changes.append(zset.project(below, [place for place in places if place is not None]))
    found = changes[-1].columns[:-1]
    return [[_value(cell.as_py(), column.type) for cell in column] for column in found]


def _value(value: Any, type_: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(type_):
        return {key: _value(item, type_.item_type) for key, item in value}
    if pa.types.is_list(type_):
        return [_value(item, type_.value_type) for item in value]
    if pa.types.is_struct(type_):
        return {field.name: _value(value[field.name], field.type) for field in type_}
    return value.replace(tzinfo=None) if pa.types.is_timestamp(type_) else value


def _of_spark(value: Any) -> Any:
    if isinstance(value, Row):
        return {name: _of_spark(item) for name, item in value.asDict().items()}
    if isinstance(value, dict):
        return {key: _of_spark(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_of_spark(item) for item in value]
    return bytes(value) if isinstance(value, bytearray) else value


@pytest.mark.long
def test_a_result_becomes_what_spark_makes_of_it(spark: SparkSession) -> None:
    """For each type, every value that we accept, in one job of Spark. What we refuse is left out, because a job that fails takes a second."""
    spark = spark.newSession()
    spark.conf.set(
        "spark.sql.execution.arrow.maxRecordsPerBatch", "1"
    )  # a batch of several rows can refuse one that it accepts alone
    for use_arrow in (False, True):
        functions = [
            F.udf(lambda place: None if place is None else RETURNED[place], ddl, useArrow=use_arrow) for ddl in TYPES
        ]
        bench = Workbench(spark).source("t", "i int")
        circuit = lower(
            bench.view("v", lambda s, all_=functions: s.table("t").select(*(f("i") for f in all_))).project()
        )
        (node,) = (node for node in circuit.nodes if isinstance(node, PythonMap))
        made = [[_alone(call, place) for place in range(len(RETURNED))] for call in node.calls]
        columns = []
        for function, found in zip(functions, made, strict=True):
            accepted = [F.lit(place) for place, value in enumerate(found) if value is not FAILS]
            columns.append(function(F.when(F.col("i").isin(accepted), F.col("i"))).alias(f"r{len(columns)}"))
        frame = spark.createDataFrame([(place,) for place in range(len(RETURNED))], "i int").coalesce(1)
        answer = [[_of_spark(cell) for cell in row] for row in frame.select(*columns).collect()]
        for number, (ddl, found) in enumerate(zip(TYPES, made, strict=True)):
            mine = [None if value is FAILS else value for value in found]
            assert list(map(repr, mine)) == [repr(row[number]) for row in answer], (ddl, use_arrow)
        if not use_arrow:
            refused = [RETURNED[place] for place, value in enumerate(made[TYPES.index("bigint")]) if value is FAILS]
            assert all(
                isinstance(value, Row | np.generic | np.ndarray | range | datetime.datetime) for value in refused
            )
            assert len(refused) == 7


FAILS = object()


def _alone(call: PythonCall, place: int) -> Any:
    """The result of one row; FAILS also if Python has no object for it, which Spark could not show either."""
    try:
        (cell,) = results(call, pa.table({"c0": pa.array([place], pa.int32())}))
        return _value(cell.as_py(), call.type)
    except (FunctionError, OverflowError, ValueError):
        return FAILS


@pytest.mark.long
def test_a_function_is_given_what_spark_gives_it(spark: SparkSession) -> None:
    rows = table(GIVEN)
    ddl = ", ".join(f"c{number} {type_}" for number, type_ in enumerate(GIVEN))
    names = rows.column_names

    def shown(value: Any) -> str:
        return f"{type(value).__name__} {value!r}"

    def of_pandas(values: Any) -> pd.Series:
        if isinstance(values, pd.DataFrame):
            return pd.Series([f"{values.dtypes.to_dict()} {row!r}" for row in values.itertuples()])
        return pd.Series([f"{values.dtype} {value!r}" for value in values])

    def of_arrow(values: pa.Array) -> pa.Array:
        return pa.array([f"{values.type} {value!r}" for value in values.to_pylist()])

    frame = spark.createDataFrame(
        [tuple(values[row] for values in GIVEN.values()) for row in range(rows.num_rows)], ddl
    ).coalesce(1)
    functions = (
        F.udf(shown, "string", useArrow=False),
        F.udf(shown, "string", useArrow=True),
        F.pandas_udf(of_pandas, "string", F.PandasUDFType.SCALAR),
        F.arrow_udf(of_arrow, "string", F.ArrowUDFType.SCALAR),
    )
    for function in functions:
        columns = [function(name).alias(f"r{name}") for name in names]
        answer = frame.select(*columns).collect()
        found = ours(spark, rows, ddl, columns)[-len(names) :]
        for number, type_ in enumerate(GIVEN):
            assert found[number] == [row[number] for row in answer], (type_, function.evalType)
