"""Co-moments from exact sums, beside fractions, over values that no rounded sum survives."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.arrays import Float64s, Int64s
from engine.accumulators import co_moments, doubles
from tests.examples import examples

VALUES = st.sampled_from(
    [0.0, -0.0, 1.5, 0.1, 1e9, 1e9 + 1, 1e15, 1e15 + 1, 1e200, 2e200, -1e300, 1.7976931348623157e308, 1e-5, -7.25, 1e-100]
)  # fmt: skip
ROWS = st.lists(st.tuples(VALUES, VALUES, st.integers(1, 3)), min_size=1, max_size=6)


def computed(x: Float64s, y: Float64s, weights: Int64s) -> float:
    groups = np.zeros(len(x), np.int64)
    sums = [doubles.explode(column, weights, groups) for column in (x, y)]
    products = co_moments.explode_products(x, y, weights, groups)
    return float(co_moments.co_moments(weights.sum(keepdims=True), *sums, *products)[0])


def exact(x: Float64s, y: Float64s, weights: Int64s) -> float:
    rows = [(Fraction(a), Fraction(b), w) for a, b, w in zip(x.tolist(), y.tolist(), weights.tolist(), strict=True)]
    count = int(weights.sum())
    product = sum((a * b * w for a, b, w in rows), Fraction(0))
    result = (
        product - sum((a * w for a, _, w in rows), Fraction(0)) * sum((b * w for _, b, w in rows), Fraction(0)) / count
    )
    try:
        return float(result)
    except OverflowError:
        return math.inf if result > 0 else -math.inf


@settings(max_examples=examples(200), deadline=None)
@given(ROWS)
def test_a_co_moment_is_exact_up_to_its_rounding(rows: list[tuple[float, float, int]]) -> None:
    x, y = (np.array([row[i] for row in rows]) for i in range(2))
    weights = np.array([row[2] for row in rows])
    for a, b in ((x, x), (x, y)):
        assert computed(a, b, weights) == pytest.approx(exact(a, b, weights), rel=1e-15, abs=1e-300)


def test_rows_and_their_retractions_leave_nothing() -> None:
    x = np.array([1e200, 1e15, 0.1, 3e-9])
    ones, groups = np.ones(4, np.int64), np.zeros(4, np.int64)
    for there, back in zip(
        co_moments.explode_products(x, x[::-1], ones, groups),
        co_moments.explode_products(x, x[::-1], -ones, groups),
        strict=True,
    ):
        assert len(doubles.merge(there, back).groups) == 0
