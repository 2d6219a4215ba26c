# ruff: noqa: E501 (tables of cases read better in long lines)
"""Casts between types, with the texts of numbers."""

from __future__ import annotations

import numpy as np
import pytest

from engine.expressions.evaluate import evaluate
from tests.sampling import sampled
from tests.stepwell.expressions.harness import Oracle, same

INTEGERS, FLOATS, DECIMALS = ("b", "sh", "i", "l"), ("f", "d"), ("m", "w", "h", "q")
NUMBERS = (
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal(10,2)",
    "decimal(38,10)",
    "decimal(5,5)",
    "decimal(3,0)",
    "boolean",
    "string",
)
CASES = [
    *(f"cast({c} as {t})" for c in (*INTEGERS, *FLOATS, *DECIMALS) for t in NUMBERS if (c, t) != ("f", "string")),
    *(f"cast(num as {t})" for t in (*NUMBERS, "binary") if t != "string"),
    *(f"cast(o as {t})" for t in ("tinyint", "int", "bigint", "float", "double", "decimal(5,2)", "string")),
    *(f"cast(mom as {t})" for t in ("date", "timestamp", "timestamp_ntz")),
    "cast(num as date)", "cast(num as timestamp)",
    *(f"cast(dt as {t})" for t in ("string", "timestamp", "timestamp_ntz")),
    *(f"cast(ts as {t})" for t in ("string", "date", "timestamp_ntz", "bigint", "int", "double", "float")),
    *(f"cast(nt as {t})" for t in ("string", "date", "timestamp")),
    "cast(n as timestamp)", "cast(l as timestamp)", "cast(i as timestamp)", "cast(b as timestamp)",
    "cast(s as binary)", "cast(x as string)", "cast(cast(s as binary) as string)", "cast(d as timestamp)", "cast(cast(e as decimal(30,10)) as string)",
"cast(cast(i as double) / 7 as string)", "cast(cast(l as float) as string)", "cast(d as decimal(20,3))",
    # The fields of a struct are cast by their places.
    "cast(named_struct('x', i, 'y', s) AS STRUCT<p: BIGINT, q: STRING>)", "cast(st AS STRUCT<b: DOUBLE, c: STRING>)", "cast((i, num) AS STRUCT<a: TINYINT, b: INT>)",
    "cast(array((i, array((k, m)))) AS ARRAY<STRUCT<q: STRING, w: ARRAY<STRUCT<y: DOUBLE, z: STRING>>>>)", "cast(map('k', (i, s)) AS MAP<STRING, STRUCT<y: BIGINT, x: STRING>>)",
    "cast(map('k', map('l', array(i))) AS MAP<STRING, MAP<STRING, ARRAY<BIGINT>>>)", "cast(if(o, (i, (j, k)), NULL) AS STRUCT<a: BIGINT, b: STRUCT<c: STRING, d: INT>>)",
    "CASE WHEN num RLIKE '^[0-9]$' THEN cast(num as int) END",
]  # fmt: skip


@pytest.mark.parametrize("sql", sampled(CASES, 3))
def test_cast_is_sparks(oracle: Oracle, sql: str) -> None:
    oracle.check(sql)


def test_floats_are_written_with_the_fewest_digits_that_tell_them_apart(oracle: Oracle) -> None:
    """As Java does from version 19 on. Java 17, where Spark may run, sometimes prints a digit more: the same float."""
    ours = oracle.lower("cast(f as string)").fragment.expression
    written = evaluate(None, (ours,), oracle.input).column(0).to_pylist()
    values = oracle.table.column("f").to_pylist()
    for text, value in zip(written, values, strict=True):
        assert (text is None) == (value is None)
        if text is not None and value is not None:
            assert same(float(np.float32(text)), value, 0)
    assert written[7] == "1.4E-45" and written[11] == "1.6777216E7"
