# ruff: noqa: E501 (tables of cases read better in long lines)
"""The try_ functions: null instead of the operation's own error, and no other error is hidden."""

from __future__ import annotations

import pytest

from tests.sampling import sampled
from tests.stepwell.expressions.harness import Oracle

CASES = [
    *(f"try_cast({a} AS {t})" for a, t in (
        ("num", "int"), ("num", "double"), ("num", "decimal(5,2)"), ("num", "boolean"), ("num", "tinyint"), ("mom", "date"),
        ("mom", "timestamp"), ("mom", "timestamp_ntz"),
        ("l", "int"), ("d", "int"), ("d", "bigint"), ("i", "tinyint"), ("w", "decimal(5,2)"), ("m", "int"),
        ("10 div k", "string"), ("10 div k", "tinyint"), ("s", "int"))),
    *(f"try_{f}({a}, {b})" for f in ("add", "subtract", "multiply", "divide", "mod")
        for a, b in (("i", "j"), ("l", "l2"), ("d", "e"), ("w", "w2"), ("b", "b2"))),
    "try_add(i, 10 div k)", "try_divide(10 div k, i)", "try_divide(i, 10 div k)", "try_mod(10 div k, j)", "try_add(try_add(i, j), 10 div k)", "try_divide(try_cast(num AS double), k)",
    "try_subtract(m, m2)", "try_multiply(m, h)", "try_element_at(arr, 2)", "try_element_at(arr, k)", "try_element_at(arrs, cast(10 div k AS int))",
    "try_to_timestamp(mom)", "try_to_date(mom)", "try_to_timestamp(mom, 'yyyy-MM-dd')", "try_to_date(mom, 'yyyy-MM-dd')", "try_to_date(ts, 'yyyy')", "try_to_timestamp(nt, 'yyyy')", "try_to_timestamp(dt, 'yyyy')", "try_add(ts, interval '1' day)", "try_add(dt, interval '1' month)", "try_add(iv, iv2)", "try_add(ts, iv)", "try_multiply(iv, i)",
    "transform(arr, x -> try_divide(10, x))", "transform(arrs, x -> try_cast(x AS int))", "coalesce(try_cast(num AS int), -1)",
]  # fmt: skip


@pytest.mark.parametrize("sql", sampled(CASES, 3))
def test_try_function_is_sparks(oracle: Oracle, sql: str) -> None:
    oracle.check(sql)
