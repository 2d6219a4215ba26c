# ruff: noqa: E501 (tables of cases read better in long lines)
"""Functions of numbers, and of the parts of nested values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.expressions.evaluate import evaluate
from engine.model.node import Expression
from tests.sampling import sampled
from tests.stepwell.expressions.harness import Oracle

CASES = [
    *(f"abs({c})" for c in ("b", "sh", "i", "l", "f", "d", "m", "w")),
    *(f"{r}({c}, {n})" for r in ("round", "bround") for c in ("d", "f", "m", "w", "i", "l") for n in (2, 0, -1)),
    "round(d)", "round(d, 5)", "round(m)", "round(b, -2)", "round(h, -3)", "round(q, 4)", "bround(m, 1)", "round(l, -18)",
    *(f"{r}({c})" for r in ("floor", "ceil") for c in ("d", "f", "m", "w", "i", "l", "h", "q")),
    "floor(m, 1)", "ceil(m, -1)", "ceil(w, 3)", "sqrt(d)", "sqrt(i)", "pow(d, e)", "pow(i, 2)", "power(d, 0.5)", "exp(d)", "exp(f)", "ln(d)", "log(d)", "log(2, d)", "log(d, e)", "log10(d)", "log2(d)",
    "sign(d)", "signum(i)", "signum(f)", "greatest(i, j, k)", "greatest(d, e)", "least(d, e, f)", "least(s, u)", "greatest(m, m2)", "least(dt, dt2)", "greatest(ts, ts2)", "least(o, p)",
    "shiftleft(i, j)", "shiftright(i, j)", "shiftrightunsigned(i, j)", "l << 3", "l >> k", "shiftrightunsigned(l, k)", "shiftleft(l, 63)",
    *(f"{f}({c})" for f in ("sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh",
        "acosh", "atanh", "cbrt", "expm1", "log1p", "rint", "degrees", "radians") for c in ("d", "f")),
    "atan2(d, e)", "hypot(d, e)", "sin(i)", "2 * asin(sqrt(pow(sin(radians(e - d) / 2), 2)))", "factorial(k)", "bit_count(i)", "bit_count(l)", "bit_count(b)", "bit_count(o)", "getbit(l, k)", "getbit(b, 3)", "getbit(i, 31)", "positive(m)", "+d",
    "width_bucket(d, 0, 10, 5)", "width_bucket(d, e, 100, 7)", "width_bucket(i, 10, -10, k)", "width_bucket(e, d, 0.0, l)",
    "st.a", "st.b", "arr[0]", "arr[k]", "get(arr, k)", "element_at(arr, 1)", "element_at(arr, -1)", "element_at(arr, k)", "try_element_at(arr, k)", "size(arr)", "cardinality(arrs)", "array_size(arr)",
    "named_struct('a', i, 'b', s)", "struct(i, s)", "struct(ts, dt, m)", "array(i, j)", "array(s, u)", "array(ts, ts2)", "array(1, NULL)", "named_struct('x', 1, 'y', array('a'))", "array_contains(arr, i)", "array_contains(arr, 1)",
    "array_contains(arrs, s)", "array_max(arr)", "array_min(arr)", "reverse(arr)", "st = named_struct('a', 1, 'b', 'x')", "arr = array(1, 2, 3)", "st IS NULL", "struct(iv, ts).iv",
    "CASE WHEN size(arr) > 0 THEN arr[0] END", "CASE WHEN size(arr) > 2 AND arr[2] > 1 THEN arr[2] END", "if(st.a = 1, st.b, 'none')",
]  # fmt: skip


@pytest.mark.parametrize("sql", sampled(CASES, 3))
def test_function_is_sparks(oracle: Oracle, sql: str) -> None:
    oracle.check(sql)


# Spark's expression over x and y, ours over c0 and c1, and how many units in the last place they may differ in.
OVER_MANY_VALUES = [
    ("exp(y)", "spark_exp(c1)", 0), ("ln(abs(x))", "spark_log(abs(c0))", 0), ("log10(abs(x))", "spark_log10(abs(c0))", 0),
    ("pow(x, y)", "spark_pow(c0, c1)", 0),
    *((f"{name}(x)", f"spark_{name}(c0)", 0) for name in ("asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "cbrt", "expm1")),
    *((f"{name}(y)", f"spark_{name}(c1)", 0) for name in ("sinh", "cosh", "tanh", "asinh", "acosh", "cbrt", "expm1")),
    ("atan2(x, y)", "spark_atan2(c0, c1)", 0), ("hypot(x, y)", "spark_hypot(c0, c1)", 0),
    ("hypot(x, x * y)", "spark_hypot(c0, c0 * c1)", 0), ("log1p(abs(y))", "spark_log1p(abs(c1))", 0),
    *((f"{name}({x})", f"spark_{name}({c})", 1) for name in ("sin", "cos", "tan") for x, c in (("x", "c0"), ("y", "c1"))),
]  # fmt: skip


def test_functions_of_doubles_are_javas_over_many_values(spark: SparkSession) -> None:
    """Bit by bit against StrictMath, on values of every magnitude, in one query."""
    generator = np.random.default_rng(7)
    bits = generator.integers(-(1 << 63), (1 << 63) - 1, 4000, dtype=np.int64).view(np.float64)
    x = np.concatenate([bits, generator.normal(0, 20, 4000), generator.uniform(-1, 1, 4000)])
    y = np.concatenate(
        [generator.normal(0, 3, 4000), generator.integers(-20, 20, 4000).astype(float), generator.normal(0, 1e3, 4000)]
    )
    rows = pa.table({"c0": pa.array(x), "c1": pa.array(y)})
    frame = spark.createDataFrame(rows.rename_columns(["x", "y"]))
    theirs = frame.selectExpr(*(f"{sql} AS r{at}" for at, (sql, _, _) in enumerate(OVER_MANY_VALUES))).toArrow()
    for index, (sql, written, units) in enumerate(OVER_MANY_VALUES):
        ours = evaluate(None, (Expression(written, pa.float64()),), rows).column(0).to_numpy()
        expected = theirs.column(index).to_numpy()
        apart = np.abs(ours.view(np.int64) - expected.view(np.int64))
        different = (apart > units) & ~(np.isnan(ours) & np.isnan(expected))
        assert not different.any(), (
            sql,
            x[different][:5],
            y[different][:5],
            ours[different][:5],
            expected[different][:5],
        )
