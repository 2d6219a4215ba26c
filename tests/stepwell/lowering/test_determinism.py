"""The same project gives the same circuit in every session: state belongs to a circuit, and must be recognised as its
own."""

from __future__ import annotations

from pyspark.sql import SparkSession

from engine.model.circuit import Circuit
from stepwell.lowering.driver import lower
from tests.stepwell.lowering.projects import Query, Workbench
from tests.stepwell.lowering.texts import circuit_text

QUERIES: dict[str, Query] = {
    "several count distinct": "SELECT a, count(DISTINCT b), count(DISTINCT s), count(DISTINCT ts) FROM t GROUP BY a",
    "count distinct, filtered": (
        "SELECT s, count(*) FILTER (WHERE b > 1), count(DISTINCT b) FILTER (WHERE a > 0), count(DISTINCT a), "
        "max(ts), sum(b), avg(b) FROM t GROUP BY s"
    ),
    "cube": "SELECT a, b, s, count(*), sum(a) FROM t GROUP BY CUBE (a, b, s)",
    "three joins": (
        "SELECT x.s, count(*) FROM t x JOIN u ON x.a = u.a AND x.s = u.s AND x.b > u.c JOIN t y ON y.b = u.c AND y.a = x.b "
        "GROUP BY x.s"
    ),
    "null checks": "SELECT a FROM t WHERE a + b > 1 AND b * a < 5 AND s = 'x' AND ts > timestamp'2020-01-01 00:00:00'",
    "except": "SELECT a, s, b FROM t EXCEPT SELECT a, s, c FROM u",
    "in": "SELECT a, b FROM t WHERE a IN (SELECT a FROM u) OR b IN (SELECT c FROM u)",
    "long in": "SELECT a FROM t WHERE a IN (9, 4, 1, 8, 2, 7, 6, 5, 3, 11, 22, 33, 44)",
    "transitive": "SELECT t.a FROM t JOIN u ON t.a = u.a WHERE t.a = u.c AND t.b = u.c AND u.a > 3",
    "dropped": lambda spark: spark.table("t").dropDuplicates(["a", "s"]),
}
# Spark's hash order over expression ids changes from one session to the next; so many are tried.
SESSIONS = 6
IDS_BETWEEN_SESSIONS = 7


def test_another_session_gives_the_same_circuit(spark: SparkSession) -> None:
    """All queries are views of one project, because a session costs more than most of them."""

    def lowered() -> Circuit:
        bench = Workbench(spark).tables("t", "u")
        for number, query in enumerate(QUERIES.values()):
            bench.view(f"v{number}", query)
        return lower(bench.project())

    circuits = []
    for _ in range(SESSIONS):
        spark.range(1).selectExpr(*["id AS x"] * IDS_BETWEEN_SESSIONS)
        circuits.append(lowered())
    first = circuit_text(circuits[0])
    assert [circuit_text(circuit) for circuit in circuits] == [first] * SESSIONS
    assert len({circuit.fingerprint for circuit in circuits}) == 1
