"""Sums, differences, products and quotients of numbers, and where they overflow."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from engine.expressions.evaluate import evaluate
from engine.model.node import Expression
from stepwell.lowering.expressions import decimals
from stepwell.lowering.expressions.fragment import Fragment
from tests.sampling import sampled
from tests.stepwell.expressions.harness import Oracle

CASES = [
    *(f"{a} {op} {b}" for a, b in (("b", "b2"), ("sh", "sh2"), ("i", "j"), ("l", "l2"), ("f", "f2"), ("d", "e"), ("m", "m2")) for op in "+-*/%"),
    *(f"pmod({a}, {b})" for a, b in (("b", "b2"), ("sh", "sh2"), ("i", "j"), ("l", "l2"), ("f", "f2"), ("d", "e"), ("m", "m2"), ("w", "m"))),
    *(f"- {a}" for a in ("b", "sh", "i", "l", "f", "d", "m", "w", "iv")),
    *(f"{a} {op} {b}" for a, b in (("m", "w"), ("w", "w2"), ("w", "h"), ("h", "q"), ("i", "m"), ("m", "3")) for op in "+-*/%"),
    "i div j", "l div l2", "b div k", "m + 1", "i + 1", "i * 2L", "i & j", "l | l2", "i ^ j", "~ i", "~ b", "sh & sh2", "iv + iv2", "iv - iv2",
    "k / 2", "i + j * k", "(i + j) + (j * k)", "(i / j) + (j / k)",
    *(f"{a} div {b}" for a, b in (("m", "m2"), ("w", "w2"), ("w", "m"), ("w", "h"), ("h", "q"), ("h", "m"), ("q", "q"), ("q", "w"), ("i", "m"))),
    *(f"{a} div {b}" for a, b in (("m", "k"), ("l", "q"), ("h", "1"), ("m", "3"), ("m", "0.03"), ("m", "-2.5"), ("m", "0.0"))),
    "cast(q AS DECIMAL(25,20)) div m", "cast(m AS DECIMAL(28,20)) div q", "m div cast(q AS DECIMAL(30,28))",
    "m div (l div k)", "(m div m2) div k", "coalesce(m, m2 div q)", "l div -1L", "(-9223372036854775807L - 1) div l",
]  # fmt: skip


@pytest.mark.parametrize("sql", sampled(CASES, 3, ["m div m2", "h div q"]))
def test_arithmetic_is_sparks(oracle: Oracle, sql: str) -> None:
    oracle.check(sql)


@pytest.mark.parametrize("symbol", ["/", "%", "+", "-", "*", "div"])
def test_the_short_way_of_decimals_is_the_long_way(symbol: str) -> None:
    """DuckDB's 128 bits against Python's exact decimals, on many pairs of many types."""
    generator = np.random.default_rng(5)
    for _ in range(12):
        (p1, s1), (p2, s2) = ((p, int(generator.integers(0, p + 1))) for p in generator.integers(1, 13, 2).tolist())
        a, b = generator.integers(-(10**p1) + 1, 10**p1, 500), generator.integers(1, 10**p2, 500)
        columns = [[Decimal(int(v)).scaleb(-s) for v in values] for values, s in ((a, s1), (b, s2))]
        types = pa.decimal128(p1, s1), pa.decimal128(p2, s2)
        rows = pa.table({"c0": pa.array(columns[0], types[0]), "c1": pa.array(columns[1], types[1])})
        left, right = (Fragment(f"c{i}", type_, column=i) for i, type_ in enumerate(types))
        long_way = ""
        if symbol == "div":
            sql, type_ = decimals.whole_quotient(left, right), pa.int64()
            long_way = f"spark_decimal_div({left.sql}::VARCHAR, {right.sql}::VARCHAR, 38)"
        elif symbol in "/%":
            sql, type_ = (decimals.quotient if symbol == "/" else decimals.remainder)(left, right)
        else:
            fragment = decimals.operator(symbol, left, right)
            sql, type_ = fragment.sql, fragment.type
        long_way = long_way or decimals._long(symbol, left, right, type_)
        result = evaluate(None, (Expression(sql, type_), Expression(long_way, type_)), rows)
        assert result.column(0).equals(result.column(1)), (types, sql)
