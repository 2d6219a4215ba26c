"""Every row of the table of expressions is compared with Spark somewhere in this folder."""

from __future__ import annotations

import pytest

from stepwell.lowering.expressions import HIGHER_ORDER, TABLE
from tests.stepwell.expressions import random_rows
from tests.stepwell.expressions.harness import Oracle

MARKS = {
    "AtLeastNNonNulls",
    "JsonTuple",
    "KnownFloatingPointNormalized",
    "KnownNotNull",
    "NormalizeNaNAndZero",
    "VariantExplode",
}
"""What Spark's optimiser puts around keys of groups and joins and around subqueries, what dropna makes, and json_tuple and
variant_explode, which make rows: no expression has them.
tests/stepwell/lowering/test_against_spark.py compares plans with them."""


@pytest.fixture(scope="module")
def seen(oracle: Oracle) -> set[str]:
    """The classes of all cases."""
    oracle.plan(random_rows.EXPRESSIONS)
    return {part.kind for sql in random_rows.EXPRESSIONS for part in oracle.lower(sql).tree.walk()}


def test_every_expression_is_compared_with_spark(seen: set[str]) -> None:
    """An expression without a case of its own would be trusted and never looked at."""
    missing = (TABLE.keys() | HIGHER_ORDER.keys()) - seen - MARKS
    assert not missing, f"no case in tests/stepwell/expressions has {', '.join(sorted(missing))}"
    assert not MARKS & seen, f"a case has {', '.join(sorted(MARKS & seen))}"
