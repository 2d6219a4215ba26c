"""Every row of the table of expressions is compared with Spark somewhere in this folder."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stepwell.catalyst.read import read
from stepwell.lowering.expressions import HIGHER_ORDER, TABLE
from tests.stepwell.expressions import random_rows
from tests.stepwell.expressions.harness import Oracle

MARKS = {"JsonTuple", "KnownFloatingPointNormalized", "KnownNotNull", "NormalizeNaNAndZero"}
"""What Spark's optimiser puts around keys of groups and joins and around subqueries, and json_tuple, which makes rows: no expression has them.
tests/stepwell/lowering/test_against_spark.py compares plans with them."""


CASES_IN_A_PLAN = 60  # Spark's parser refuses a text that is too long


def _kinds(oracle: Oracle, cases: Sequence[str]) -> set[str]:
    """The classes of all cases, lowered as one plan: Spark takes half a second for that, and minutes for a plan per case."""
    columns = ", ".join(f"{sql} AS r{i}" for i, sql in enumerate(cases))
    plan = oracle.spark.sql(f"SELECT {columns} FROM edge")._jdf.queryExecution().optimizedPlan()
    return {part.kind for tree in read(plan)["projectList"] for part in tree.walk()}


@pytest.fixture(scope="module")
def seen(oracle: Oracle) -> set[str]:
    cases = random_rows.EXPRESSIONS
    windows = [sql for sql in cases if sql.startswith("window(")]  # Spark takes one of them in a query
    others = [sql for sql in cases if sql not in windows]
    parts = [others[at : at + CASES_IN_A_PLAN] for at in range(0, len(others), CASES_IN_A_PLAN)]
    return set().union(*(_kinds(oracle, part) for part in (*parts, *([sql] for sql in windows))))


def test_every_expression_is_compared_with_spark(seen: set[str]) -> None:
    """An expression without a case of its own would be trusted and never looked at."""
    missing = (TABLE.keys() | HIGHER_ORDER.keys()) - seen - MARKS
    assert not missing, f"no case in tests/stepwell/expressions has {', '.join(sorted(missing))}"
    assert not MARKS & seen, f"a case has {', '.join(sorted(MARKS & seen))}"
