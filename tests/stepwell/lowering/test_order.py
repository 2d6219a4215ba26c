"""ORDER BY is left out where it means nothing, and never where a LIMIT reads it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from pyspark.sql import SparkSession

from engine.model.circuit import Source
from stepwell.catalyst.analysed import Analysed
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import arrow_schema
from stepwell.lowering.builder import CircuitBuilder
from stepwell.lowering.context import Lowering, Rule
from stepwell.lowering.rules import RULES, transparent
from stepwell.lowering.rules.transparent import LIMITS
from tests.stepwell.lowering.projects import Workbench

CARELESS: Mapping[str, Rule] = {**RULES, **dict.fromkeys(LIMITS, transparent.lower)}
"""Rules of a LIMIT that somebody might write: they lower what is below, as most rules do."""


def _lowered(spark: SparkSession, query: str, rules: Mapping[str, Rule]) -> Lowering:
    bench = Workbench(spark).tables("t", "u").view("v", query)
    flow = bench.project().views[0].flows[0]
    analysed = Analysed.read(flow.analysed_json)
    context = Lowering(flow.tree, analysed, CircuitBuilder(), rules, lambda leaf: _source(context, leaf, bench))
    context.lower(flow.tree)
    return context


def _source(context: Lowering, leaf: TreeNode, bench: Workbench) -> int:
    (spec,) = (source for source in bench.sources if source.handle == leaf["rdd"])
    return context.builder.add(Source((), tuple(arrow_schema(spec.schema).types), spec.handle))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM t ORDER BY b LIMIT 3",
        "SELECT a + 1 AS x FROM (SELECT a, b FROM t ORDER BY b, s) LIMIT 3",
        "SELECT a FROM t ORDER BY b LIMIT 10 OFFSET 5",
        "SELECT a FROM t ORDER BY b OFFSET 5",
        "SELECT a FROM u WHERE a IN (SELECT a FROM t ORDER BY b LIMIT 3)",
    ],
)
def test_a_rule_of_a_limit_that_lowers_the_sort_is_an_error(spark: SparkSession, query: str) -> None:
    with pytest.raises(AssertionError, match="leaves the order out"):
        _lowered(spark, query, CARELESS)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM t ORDER BY b",
        "SELECT a, count(*) AS n FROM (SELECT a FROM t ORDER BY b LIMIT 3) GROUP BY a",
    ],
)
def test_today_a_limit_is_refused_and_an_order_alone_is_noted(spark: SparkSession, query: str) -> None:
    context = _lowered(spark, query, RULES)
    assert [refusal.node for refusal in context.refusals] == (["GlobalLimit"] if "LIMIT" in query else [])
    assert "ORDER BY without LIMIT" in context.notes[0]
