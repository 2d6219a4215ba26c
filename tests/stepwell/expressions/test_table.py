"""Every row of the table of expressions is compared with Spark somewhere in this folder."""

from __future__ import annotations

from stepwell.lowering.expressions import TABLE
from tests.stepwell.expressions import (
    test_arithmetic,
    test_casts,
    test_dates,
    test_logic,
    test_mathematics,
    test_strings,
)
from tests.stepwell.expressions.harness import Oracle

MODULES = (test_arithmetic, test_casts, test_dates, test_logic, test_mathematics, test_strings)

ONLY_IN_WHOLE_PLANS: dict[str, str] = {}
"""Classes that no SQL text over one table gives, and the test that compares them."""


def test_every_expression_is_compared_with_spark(oracle: Oracle) -> None:
    """An expression without a case of its own would be trusted and never looked at."""
    seen: set[str] = set()
    for module in MODULES:
        for sql in module.CASES:
            _, tree, _ = oracle.lower(sql.replace("''", "\\'") if "''" in sql else sql)
            seen |= {node.kind for node in tree.walk()}
    assert TABLE.keys() - seen - ONLY_IN_WHOLE_PLANS.keys() == set()
    assert not ONLY_IN_WHOLE_PLANS.keys() & seen
