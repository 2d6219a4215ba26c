"""ORDER BY is left out where it means nothing, and never where a LIMIT reads it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from pyspark.sql import SparkSession

from engine.model.ordered import SortKey, TopK
from engine.model.rows import Map, Source
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import arrow_schema
from stepwell.lowering.builder import CircuitBuilder
from stepwell.lowering.context import Lowering, Rule
from stepwell.lowering.rules import RULES, transparent
from stepwell.lowering.rules.order import LIMITS
from tests.stepwell.lowering.projects import Workbench

CARELESS: Mapping[str, Rule] = {**RULES, **dict.fromkeys(LIMITS, transparent.lower)}
"""Rules of a LIMIT that somebody might write: they lower what is below, as most rules do."""


def _lowered(spark: SparkSession, query: str, rules: Mapping[str, Rule]) -> Lowering:
    bench = Workbench(spark).tables("t", "u").view("v", query)
    flow = bench.project().views[0].flows[0]
    context = Lowering(flow.tree, flow.analysed, CircuitBuilder(), rules, lambda leaf: _source(context, leaf, bench))
    context.lower_whole(context.plan)
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
    with pytest.raises(AssertionError, match="leaves out the order"):
        _lowered(spark, query, CARELESS)


def test_an_order_alone_is_noted_and_one_below_a_limit_is_used(spark: SparkSession) -> None:
    alone = _lowered(spark, "SELECT a FROM t ORDER BY b", RULES)
    assert not alone.refusals
    assert any("ORDER BY without LIMIT" in note for note in alone.notes)
    used = _lowered(spark, "SELECT a, count(*) AS n FROM (SELECT a FROM t ORDER BY b LIMIT 3) GROUP BY a", RULES)
    assert not used.refusals
    assert used.notes == ["LIMIT and OFFSET: all rows meet on one worker"]


@pytest.mark.parametrize(
    ("query", "order", "offset", "count"),
    [
        ("SELECT a FROM t ORDER BY b LIMIT 3", ["b up first"], 0, 3),
        ("SELECT a + 1 AS x FROM (SELECT a, b FROM t ORDER BY b DESC, s) LIMIT 3", ["b down last", "s up first"], 0, 3),
        ("SELECT a AS z FROM t ORDER BY a NULLS LAST LIMIT 10 OFFSET 5", ["a up last"], 5, 10),
        ("SELECT a, b FROM t ORDER BY b DESC NULLS FIRST OFFSET 5", ["b down first"], 5, None),
        ("SELECT a FROM u WHERE a IN (SELECT a FROM t ORDER BY b LIMIT 3)", ["b up first"], 0, 3),
        ("SELECT a FROM t ORDER BY 1 + 1, a LIMIT 2", ["a up first"], 0, 2),
        ("SELECT a FROM t LIMIT 2", [], 0, 2),
        ("SELECT a FROM (SELECT a, b FROM t ORDER BY a) WHERE b > 2 LIMIT 2", ["a up first"], 0, 2),
    ],
)
def test_a_limit_has_the_order_of_the_sort_below_it(
    spark: SparkSession, query: str, order: list[str], offset: int, count: int | None
) -> None:
    context = _lowered(spark, query, RULES)
    assert not context.refusals
    (index,) = (i for i, node in enumerate(context.builder.nodes) if isinstance(node, TopK))
    node = context.builder.nodes[index]
    assert isinstance(node, TopK)
    assert (node.partition, node.offset, node.count) == ((), offset, count)
    found = [_named(context.builder, index, key) for key in node.order]
    assert found == order
    assert any("without ORDER BY" in note for note in context.notes) == (not order)


def _named(builder: CircuitBuilder, index: int, key: SortKey) -> str:
    """A sort key with the name that its column has in t."""
    column, node = key.column, builder.nodes[builder.nodes[index].inputs[0]]
    while isinstance(node, Map):
        found = node.projections[column].column
        assert found is not None
        column, node = found, builder.nodes[node.inputs[0]]
    directions = "up" if key.ascending else "down", "first" if key.nulls_first else "last"
    return " ".join(("absd"[column], *directions))


def test_a_limit_above_a_limit_has_its_order(spark: SparkSession) -> None:
    query = "SELECT a FROM (SELECT a, b FROM t ORDER BY b LIMIT 10) WHERE a > 0 LIMIT 3"
    nodes = _lowered(spark, query, RULES).builder.nodes
    assert [(node.count, len(node.order)) for node in nodes if isinstance(node, TopK)] == [(10, 1), (3, 1)]


def test_an_order_that_would_have_to_pass_a_node_that_makes_rows_is_refused(spark: SparkSession) -> None:
    query = "SELECT x FROM (SELECT arr FROM t ORDER BY b) LATERAL VIEW explode(arr) AS x LIMIT 3"
    refusals = _lowered(spark, query, RULES).refusals
    assert any("a Generate stands between an ORDER BY and the LIMIT" in refusal.text for refusal in refusals)
