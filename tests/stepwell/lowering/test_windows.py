"""How windows are lowered, and what dry-run says about them. test_against_spark.py compares their answers with Spark's."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession

from engine.model.circuit import Circuit, Node
from engine.model.rows import Source
from engine.operators import window
from io_kafka.step_log.digest import canonical
from stepwell.lowering.driver import lower, lower_with_errors
from tests.engine.in_process import InProcess
from tests.engine.zsets import to_table
from tests.stepwell.lowering.projects import Workbench, output
from tests.stepwell.lowering.test_against_spark import QUERIES, STEPS, TABLES, history

TIED, ONE = "rows that tie in the ORDER BY of", "a window without PARTITION BY"
WHOLE = "sum(b) OVER (PARTITION BY a)"


def _bench(spark: SparkSession, columns: str) -> Workbench:
    bench = Workbench(spark).tables("t").source("k", "a bigint, b bigint, s string", "upsert", ("a", "b"))
    return bench.view("v", f"SELECT a, b, {columns}")


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ("row_number() OVER (PARTITION BY a ORDER BY b) AS x FROM t", [f"{TIED} row_number OVER"]),
        ("lag(s) OVER (ORDER BY b) AS x FROM t", [ONE, f"{TIED} lag or lead OVER"]),
        ("sum(b) OVER (PARTITION BY a ORDER BY s ROWS 2 PRECEDING) AS x FROM t", [f"{TIED} sum OVER"]),
        ("first(s) OVER (PARTITION BY a ORDER BY b) AS x FROM t", [f"{TIED} first_value OVER"]),
        ("rank() OVER (PARTITION BY a ORDER BY b) AS x, sum(b) OVER (PARTITION BY a ORDER BY b) AS y FROM t", []),
        (f"{WHOLE} AS x, count(*) OVER () AS y FROM t", [ONE]),
        ("row_number() OVER (PARTITION BY a ORDER BY b) AS x FROM k", []),  # its key leaves no ties
        ("row_number() OVER (PARTITION BY a ORDER BY s) AS x FROM k", [f"{TIED} row_number OVER"]),
        ("s FROM t QUALIFY row_number() OVER (PARTITION BY a ORDER BY b) = 1", [f"{TIED} row_number OVER"]),
        ("s FROM k QUALIFY row_number() OVER (PARTITION BY a ORDER BY b) = 1", []),
    ],
)
def test_dry_run_says_what_sparks_order_of_ties_decides_and_what_meets_on_one_worker(
    spark: SparkSession, columns: str, says: list[str]
) -> None:
    notes = lower_with_errors(_bench(spark, columns).project()).notes["v"]
    assert len(notes) == len(says), notes
    for note, text in zip(sorted(notes), sorted(says), strict=True):
        assert note.startswith(text)


@pytest.mark.long
@pytest.mark.parametrize(
    ("columns", "kinds"),
    [
        (f"{WHOLE} AS x FROM t", {"Aggregate": 1, "Join": 1}),
        (f"{WHOLE} AS x, max(s) OVER (PARTITION BY a) AS y FROM t", {"Aggregate": 1, "Join": 1}),
        (f"{WHOLE} AS x, avg(b) OVER (PARTITION BY s) AS y FROM t", {"Aggregate": 2, "Join": 2}),
        ("sum(b) OVER w AS x, rank() OVER w AS y FROM t WINDOW w AS (PARTITION BY a ORDER BY b)", {"Window": 1}),
        (
            "rank() OVER (PARTITION BY a ORDER BY b) AS x, sum(b) OVER (PARTITION BY a ORDER BY b ROWS BETWEEN UNBOUNDED PRECEDING AND "
            "UNBOUNDED FOLLOWING) AS y FROM t",
            {"Window": 1},
        ),
        ("s FROM t QUALIFY row_number() OVER (PARTITION BY a ORDER BY b) = 1", {"TopK": 1}),
        ("s FROM t QUALIFY row_number() OVER (PARTITION BY a ORDER BY b) < 2", {"TopK": 1}),
        ("s FROM t QUALIFY rank() OVER (PARTITION BY a ORDER BY b) = 1", {"TopK": 1, "SemiJoin": 1}),
        ("s FROM t QUALIFY row_number() OVER (PARTITION BY a ORDER BY b) <= 2", {"TopK": 1, "Window": 1}),
        (
            "rank() OVER (PARTITION BY a ORDER BY b) AS x, rank() OVER (PARTITION BY s ORDER BY b) AS y FROM t",
            {"Window": 2},
        ),
    ],
)
def test_partitions_are_not_read_for_their_aggregates_nor_for_their_first_rows(
    spark: SparkSession, columns: str, kinds: dict[str, int]
) -> None:
    nodes: tuple[Node, ...] = lower(_bench(spark, columns).project()).nodes
    found = [node.kind for node in nodes if node.kind not in ("Source", "LastByKey", "Map", "View")]
    assert {kind: found.count(kind) for kind in found} == kinds


OVER = (
    "whole partitions",
    "rows of the first ranks, by doubles and without partitions",
    "the first rows of a partition, with ties",
    "windows by doubles and by nothing",
)


def _circuit(spark: SparkSession, query: str) -> Circuit:
    bench = Workbench(spark)
    for table, ddl in TABLES.items():
        bench.source(table, ddl, "changelog")
    return lower(bench.view("v", query, output=output("v", "changelog")).project())


@pytest.mark.parametrize("name", OVER)
def test_the_number_of_workers_does_not_show(spark: SparkSession, name: str) -> None:
    """Rows that tie included: each of them has the same number on any number of workers."""
    query = QUERIES[name]
    assert isinstance(query, str)
    circuit = _circuit(spark, query)
    histories = {table: list(history(random.Random(f"{name}{table}"))) for table in TABLES}

    def outputs(workers: int) -> list[dict[str, list[dict[str, Any]]]]:
        machine = InProcess(circuit, workers, {"v": 2})
        types = {node.handle: node.types for node in circuit.nodes if isinstance(node, Source)}
        steps = [{t: to_table(histories[t][i], types[t]) for t in types} for i in range(STEPS)]
        return [{h: canonical(rows).to_pylist() for h, rows in machine.step(given).items()} for given in steps]

    alone = outputs(1)
    assert any(step["v"] for step in alone)
    for workers in (2, 5):
        assert outputs(workers) == alone, workers


@pytest.mark.parametrize("function", ["row_number", "rank", "dense_rank"])
def test_a_step_costs_the_first_rows_of_a_partition_and_not_the_partition(
    spark: SparkSession, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Window gets the rows that enter or leave the first three, and reads no more than those three and these."""
    query = f"SELECT a, b FROM t QUALIFY {function}() OVER (PARTITION BY a ORDER BY b) <= 3"
    circuit = _circuit(spark, query)
    machine, read = InProcess(circuit, 1, {"v": 1}), list[int]()
    real = window.sort_rows
    monkeypatch.setattr(window, "sort_rows", lambda *given: read.append(len(given[1])) or real(*given))
    types = next(node.types for node in circuit.nodes if isinstance(node, Source) and node.handle == "t")
    machine.step({"t": to_table(Counter({(a, b, None, None): 1 for a in range(3) for b in range(0, 2000, 2)}), types)})
    machine.step({"t": to_table(Counter({(1, 1, None, None): 1}), types)})
    machine.step({"t": to_table(Counter({(1, 0, None, None): -1, (2, 999, None, None): 1}), types)})
    assert read == [9, 4, 4], "three rows of three partitions; then one more of one partition, and one less"
