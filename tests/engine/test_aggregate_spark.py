"""The integral of the incremental Aggregate is Spark's batch answer. It is exact except for sums and averages of doubles (1e-12)."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from engine.model.aggregates import Aggregate, AggregateCall, AggregateFunction
from engine.operators.aggregate import step_aggregate
from engine.operators.aggregate_errors import ResultOverflow
from engine.rows import zset
from engine.state.store import DictStore
from tests.engine.contexts import context_of

RELATIVE_ERROR_MAX = 1e-12  # Spark's sum of doubles depends on its partitions

NUMBERS: dict[pa.DataType, list[Any]] = {
    pa.int8(): [-128, 127, 0, 5],
    pa.int16(): [-32768, 32767, 7],
    pa.int32(): [-(2**31), 2**31 - 1, 3],
    pa.int64(): [-(2**50), 2**50, 1, -9],
    pa.float32(): [0.5, 1.1, 3e30, -0.0, 0.0],
    pa.float64(): [0.1, 0.2, 1e15, 1e-15, -0.0, 0.0, 5e-324],
    pa.decimal128(12, 2): [Decimal("0.01"), Decimal("-9999999999.99"), Decimal("3.33")],
    pa.decimal128(18, 0): [Decimal(10**18 - 1), Decimal(-7)],
    pa.decimal128(30, 10): [Decimal("0.0000000001"), Decimal("12345678901234567890.0123456789"), Decimal(-1)],
    pa.decimal128(38, 4): [Decimal("-0.0001"), Decimal(10**30), Decimal("1.5")],
    pa.duration("us"): [timedelta(microseconds=1), timedelta(days=-3), timedelta(hours=5, microseconds=2)],
}
OTHERS: dict[pa.DataType, list[Any]] = {
    pa.string(): ["", "a", "B", "é", "😀", "\uffff"],
    pa.binary(): [b"", b"\x00", b"\xff", b"\x7f"],
    pa.bool_(): [True, False],
    pa.date32(): [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)],
    pa.timestamp("us", "UTC"): [datetime(1960, 1, 1, 0, 0, 0, 1, UTC), datetime(2024, 2, 29, tzinfo=UTC)],
    pa.timestamp("us"): [datetime(1960, 1, 1), datetime(2262, 4, 12, 1, 2, 3, 4)],
}
TYPES = [pa.string(), pa.float64(), *NUMBERS, *OTHERS]
Row = tuple[Any, ...]


def random_rows(random_: random.Random, count: int) -> list[Row]:
    keys = ["a", "b", None], [0.0, -0.0, math.nan, None, 2.5]
    pools = [*NUMBERS.values(), *OTHERS.values()]
    return [
        (
            *(random_.choice(key) for key in keys),
            *(None if random_.random() < 0.2 else random_.choice(pool) for pool in pools),
        )
        for _ in range(count)
    ]


def table_of(rows: Sequence[Row], types: Sequence[pa.DataType]) -> pa.Table:
    columns = [pa.array([row[i] for row in rows], kind, from_pandas=False) for i, kind in enumerate(types)]
    return pa.Table.from_arrays(columns, [f"c{i}" for i in range(len(types))])


def spark_aggregate(
    spark: SparkSession, table: pa.Table, group: Sequence[int], calls: Sequence[tuple[AggregateFunction, int, bool]]
) -> pa.Table:
    columns = []
    for number, (function, argument, distinct) in enumerate(calls):
        expression = f"{function}({'DISTINCT ' if distinct else ''}c{argument})"
        columns.append(F.expr(expression).alias(f"r{number}"))
    frame = spark.createDataFrame(table)
    return frame.groupBy(*[f"c{i}" for i in group]).agg(*columns).toArrow()


def ours(node: Aggregate, types: Sequence[pa.DataType], steps: Sequence[Sequence[tuple[Row, int]]]) -> list[Row]:
    store = DictStore()
    outputs = []
    for number, step in enumerate(steps):
        table = table_of([row for row, _ in step], types)
        delta = zset.build(table.columns, np.array([weight for _, weight in step], np.int64))
        outputs.append(step_aggregate(node, [delta], context_of(node, store, number)))
    content = zset.consolidate(pa.concat_tables(outputs))
    assert (zset.weights_of(content) == 1).all()
    return rows_of(content.drop_columns([zset.WEIGHT]))


def rows_of(table: pa.Table) -> list[Row]:
    columns = [c.cast(pa.int64()) if pa.types.is_duration(c.type) else c for c in table.columns]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or a == b or math.isclose(a, b, rel_tol=RELATIVE_ERROR_MAX)
    return type(a) is type(b) and bool(a == b)


def assert_same(got: list[Row], expected: list[Row], keys: int) -> None:
    by_key = [
        sorted(rows, key=lambda row: repr([v + 0.0 if isinstance(v, float) else v for v in row[:keys]]))
        for rows in (got, expected)
    ]
    assert len(got) == len(expected)
    for mine, sparks in zip(*by_key, strict=True):
        for place, (a, b) in enumerate(zip(mine, sparks, strict=True)):
            assert same(a, b), f"column {place} of {mine[:keys]}: {a!r}, Spark has {b!r}"


@pytest.mark.long
@pytest.mark.parametrize("group", [(), (0,), (0, 1)], ids=str)
def test_after_retractions_the_content_is_sparks_batch_answer(spark: SparkSession, group: tuple[int, ...]) -> None:
    calls: list[tuple[AggregateFunction, int, bool]] = []
    for argument, kind in enumerate(TYPES):
        if argument in (0, 1):
            continue
        calls += [
            ("count", argument, False),
            ("count", argument, True),
            ("min", argument, False),
            ("max", argument, False),
        ]
        if kind in NUMBERS:
            calls += [
                ("sum", argument, False),
                ("avg", argument, False),
                ("sum", argument, True),
                ("avg", argument, True),
            ]
    random_ = random.Random(5)
    rows = random_rows(random_, 300)
    kept, gone = rows[:200], rows[200:]
    first = [(row, 1) for row in kept[:100] + gone]
    random_.shuffle(first)
    steps = [
        first,
        [(row, 1) for row in kept[100:]] + [(row, -1) for row in gone[:50]],
        [(row, -1) for row in gone[50:]],
    ]
    expected = spark_aggregate(spark, table_of(kept, TYPES), group, calls)
    types = expected.schema.types
    node = Aggregate(
        (0,),
        tuple(types),
        group,
        tuple(
            AggregateCall(function, argument, distinct, type_)
            for (function, argument, distinct), type_ in zip(calls, types[len(group) :], strict=True)
        ),
    )
    assert_same(ours(node, TYPES, steps), rows_of(expected), len(group))


def test_nan_and_infinities_add_up_as_in_spark(spark: SparkSession) -> None:
    types = [pa.string(), pa.float64()]
    groups = {
        "nan": [math.nan, 1.0], "inf": [math.inf, 1.0, math.inf], "both": [math.inf, -math.inf], "minus": [-math.inf, 5.0],
        "zero": [-0.0, -0.0], "all": [math.nan, math.inf, -math.inf],
    }  # fmt: skip
    rows = [(key, value) for key, values in groups.items() for value in values]
    calls: list[tuple[AggregateFunction, int, bool]] = [
        ("sum", 1, False), ("avg", 1, False), ("min", 1, False), ("max", 1, False), ("sum", 1, True), ("count", 1, True),
    ]  # fmt: skip
    expected = spark_aggregate(spark, table_of(rows, types), (0,), calls)
    typed = tuple(AggregateCall(f, a, d, t) for (f, a, d), t in zip(calls, expected.schema.types[1:], strict=True))
    node = Aggregate((0,), tuple(expected.schema.types), (0,), typed)
    extra = [("nan", math.inf), ("inf", math.nan), ("minus", math.inf)]
    steps = [[(row, 1) for row in rows + extra], [(row, -1) for row in extra]]
    assert_same(ours(node, types, steps), rows_of(expected), 1)


AVERAGES = {
    "a tie at the type's scale": (pa.decimal128(14, 2), [Decimal("0.01")] + [Decimal(0)] * 19999),
    "minus a tie": (pa.decimal128(14, 2), [Decimal("-0.01")] + [Decimal(0)] * 19999),
    "0.47 of the last digit": (pa.decimal128(38, 34), [Decimal("1E-34")] * 2 + [Decimal(0)] * 15),
    "thirds": (pa.decimal128(38, 10), [Decimal(10**22), Decimal(1), Decimal(0)]),
    "wide": (pa.decimal128(38, 33), [Decimal("9"), Decimal("8")]),
    "narrow scale left": (pa.decimal128(38, 37), [Decimal("0.1"), Decimal("0.2"), Decimal("0.7"), Decimal("0.1")]),
}


@pytest.mark.long
@pytest.mark.parametrize("name", AVERAGES)
def test_averages_of_decimals_round_as_sparks(spark: SparkSession, name: str) -> None:
    type_, values = AVERAGES[name]
    rows = [(value,) for value in values]
    expected = spark_aggregate(spark, table_of(rows, [type_]), (), [("avg", 0, False)])
    result = expected.schema.types[0]
    node = Aggregate((0,), (result,), (), (AggregateCall("avg", 0, False, result),))
    counted = Counter(rows)
    assert ours(node, [type_], [list(counted.items())]) == rows_of(expected)


OVERFLOWS: dict[str, tuple[AggregateFunction, pa.DataType, pa.DataType, list[Any]]] = {
    "sum of longs": ("sum", pa.int64(), pa.int64(), [2**63 - 1, 1]),
    "sum of longs below": ("sum", pa.int64(), pa.int64(), [-(2**63), -1]),
    "sum of decimals": ("sum", pa.decimal128(38, 0), pa.decimal128(38, 0), [Decimal(10**38 - 1), Decimal(1)]),
    "average of decimals": ("avg", pa.decimal128(38, 36), pa.decimal128(38, 38), [Decimal(99)]),
    "sum of intervals": (
        "sum", pa.duration("us"), pa.duration("us"), [timedelta(days=100_000_000), timedelta(days=100_000_000)],
    ),
    "average of intervals": (
        "avg", pa.duration("us"), pa.duration("us"), [timedelta(days=100_000_000), timedelta(days=100_000_000)],
    ),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", OVERFLOWS)
def test_a_result_that_overflows_in_spark_overflows_here(spark: SparkSession, name: str) -> None:
    function, type_, result, values = OVERFLOWS[name]
    table = table_of([(value,) for value in values], [type_])
    frame = spark.createDataFrame(table).agg(F.expr(f"{function}(c0)"))
    with pytest.raises(PySparkException):
        frame.toArrow()
    node = Aggregate((0,), (result,), (), (AggregateCall(function, 0, False, result),))
    with pytest.raises(ResultOverflow, match=function):
        ours(node, [type_], [[((value,), 1) for value in values]])
