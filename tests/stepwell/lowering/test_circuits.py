"""What typical queries become: the whole circuit as text."""

from __future__ import annotations

from textwrap import dedent

from pyspark.sql import SparkSession

from stepwell.lowering.driver import lower, lower_with_errors
from tests.stepwell.lowering.projects import Workbench, output
from tests.stepwell.lowering.texts import circuit_text


def _bench(spark: SparkSession) -> Workbench:
    bench = Workbench(spark)
    bench.source("flights", "carrier string, dest string, delay bigint, ts timestamp")
    return bench.source("airlines", "carrier string, name string", "upsert", ("carrier",))


def _text(bench: Workbench) -> str:
    return circuit_text(lower(bench.project()))


def _expect(bench: Workbench, expected: str) -> None:
    assert _text(bench) == dedent(expected).strip()


def test_a_filter_and_a_projection_are_one_map_and_an_append_output_is_not_kept(spark: SparkSession) -> None:
    query = "SELECT dest, carrier FROM flights WHERE dest IS NOT NULL"
    _expect(
        _bench(spark).view("late", query, output=output("late", "append")),
        """
        0: Source flights
        1: Map(0) c1, c0 where (c1 IS NOT NULL)
        2: View(1) late[dest, carrier]
        3: Output(2) late append
        """,
    )


def test_a_keyed_source_is_a_table_and_a_join_carries_only_sums_of_what_is_read(spark: SparkSession) -> None:
    query = (
        "SELECT carrier, name, count(*) AS n, avg(delay) AS m FROM flights JOIN airlines USING (carrier) GROUP BY 1, 2"
    )
    _expect(
        _bench(spark).view("delays", query, output=output("delays", "upsert", ("carrier",))),
        """
        0: Source flights
        1: Source airlines keyed
        2: LastByKey(1) by c0
        3: Map(0) c0, c2 where (c0 IS NOT NULL)
        4: Map(2) c0, c1 where (c0 IS NOT NULL)
        5: PartialAggregate(3) by c0: count(*), avg(c1)
        6: JoinPartials(5, 4) on c0 = c0
        7: FinalAggregate(6) by c0, c6: count(*), avg(s0)
        8: View(7) delays[carrier, name, n, m] kept by c0
        9: Output(8) delays upsert by c0
        """,
    )


def test_what_two_views_share_is_there_once(spark: SparkSession) -> None:
    shared = "SELECT carrier FROM flights WHERE carrier IS NOT NULL"
    _expect(
        _bench(spark).view("one", shared).view("two", f"SELECT DISTINCT carrier FROM ({shared})"),
        """
        0: Source flights
        1: Map(0) c0 where (c0 IS NOT NULL)
        2: View(1) one[carrier] kept
        3: Distinct(1)
        4: View(3) two[carrier] kept
        """,
    )


def test_a_view_reads_the_boundary_of_another_whatever_their_names(spark: SparkSession) -> None:
    _expect(
        _bench(spark).view("z", "SELECT carrier FROM flights").view("a", "SELECT count(*) AS n FROM z"),
        """
        0: Source flights
        1: Map(0) c0
        2: View(1) z[carrier] kept
        3: Map(2)
        4: Aggregate(3) count(*)
        5: View(4) a[n] derived
        """,
    )


def test_flows_of_one_table_are_united(spark: SparkSession) -> None:
    _expect(
        _bench(spark).view("names", "SELECT carrier FROM flights", "SELECT dest FROM flights"),
        """
        0: Source flights
        1: Map(0) c0
        2: Map(0) c1
        3: Union(1, 2)
        4: View(3) names[carrier] kept
        """,
    )


def test_not_in_is_null_aware_only_with_one_column_and_nothing_else(spark: SparkSession) -> None:
    query = "SELECT carrier FROM flights WHERE carrier NOT IN (SELECT name FROM airlines)"
    assert "SemiJoin(3, 4) anti null-aware on c0 = c0" in _text(_bench(spark).view("v", query))
    correlated = query[:-1] + " WHERE airlines.carrier = flights.dest)"
    assert "null-aware" not in _text(_bench(spark).view("v", correlated))


def test_a_join_without_an_equality_is_noted(spark: SparkSession) -> None:
    lowered = lower_with_errors(
        _bench(spark).view("v", "SELECT delay, name FROM flights CROSS JOIN airlines").project()
    )
    assert lowered.notes["v"] == ["a join without an equality between its sides: all its rows meet on one worker"]


def test_drop_duplicates_plain_and_streaming(spark: SparkSession) -> None:
    for streaming in (False, True):
        bench = Workbench(spark, streaming).source("flights", "carrier string, dest string, ts timestamp")
        bench.view("v", lambda s: s.table("flights").withWatermark("ts", "1 hour").dropDuplicates(["carrier"]))
        text = "Deduplicate" if not streaming else "TimedDeduplicate"
        assert f": {text}(" in _text(bench)


def test_an_order_means_nothing_and_is_noted(spark: SparkSession) -> None:
    lowered = lower_with_errors(_bench(spark).view("v", "SELECT carrier FROM flights ORDER BY carrier").project())
    assert not lowered.errors
    assert "ORDER BY without LIMIT" in lowered.notes["v"][0]
