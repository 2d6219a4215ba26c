from __future__ import annotations

import pytest

from tests.stepwell.expressions.harness import Oracle

CASES = [
    *(f"{a} {op} {b}" for a, b in (("b", "b2"), ("sh", "sh2"), ("i", "j"), ("l", "l2"), ("f", "f2"), ("d", "e"), ("m", "m2")) for op in "+-*/%"),
    *(f"pmod({a}, {b})" for a, b in (("b", "b2"), ("sh", "sh2"), ("i", "j"), ("l", "l2"), ("f", "f2"), ("d", "e"), ("m", "m2"), ("w", "m"))),
    *(f"- {a}" for a in ("b", "sh", "i", "l", "f", "d", "m", "w", "iv")),
    *(f"{a} {op} {b}" for a, b in (("m", "w"), ("w", "w2"), ("w", "h"), ("h", "q"), ("i", "m"), ("m", "3")) for op in "+-*/%"),
    "i div j", "l div l2", "b div k", "m + 1", "i + 1", "i * 2L", "i & j", "l | l2", "i ^ j", "~ i", "~ b", "sh & sh2", "iv + iv2", "iv - iv2",
    "k / 2", "i + j * k", "(i + j) + (j * k)", "(i / j) + (j / k)",
]  # fmt: skip


@pytest.mark.parametrize("sql", CASES)
def test_arithmetic_is_sparks(oracle: Oracle, sql: str) -> None:
    oracle.check(sql)
