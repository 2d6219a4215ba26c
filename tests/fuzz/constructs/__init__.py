"""Every construct of a query that the fuzzer makes, one function each. `CONSTRUCTS` lists them.

To add a construct, write a function from a `Maker` to a `Made` in the module of its subject and add its line to the table. What Stepwell does
not run yet may be here: its refusals are counted, and the comparison with Spark begins when it runs.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.constructs import aggregates, changes, clock, joins, ordered, recursions, sets, single, subqueries
from tests.fuzz.constructs.maker import Made, Maker

__all__ = ["CONSTRUCTS", "Made", "Maker"]

CONSTRUCTS: dict[str, Callable[[Maker], Made]] = {
    "project": single.project,
    "distinct": single.distinct,
    "drop duplicates": single.drop_duplicates,
    "aggregate": aggregates.aggregate,
    "aggregate with DISTINCT and FILTER": aggregates.spread_aggregate,
    "aggregate of everything": aggregates.total,
    "expression over calls": aggregates.over_calls,
    "grouping sets": aggregates.grouping_sets,
    "pivot": aggregates.pivot,
    "window(ts)": aggregates.windowed,
    "session_window(ts)": aggregates.sessions,
    "inner join": joins.join_of("INNER"),
    "left join": joins.join_of("LEFT"),
    "right join": joins.join_of("RIGHT"),
    "full join": joins.join_of("FULL"),
    "semi join": joins.join_of("LEFT SEMI"),
    "anti join": joins.join_of("LEFT ANTI"),
    "cross join": joins.cross_join,
    "self-join": joins.self_join,
    "sums over a join": joins.sums_over_join,
    "three tables": joins.three_joined,
    "query read twice": joins.read_twice,
    "recursion": recursions.recursion,
    "values": joins.with_values,
    "constant rows": sets.constant,
    "union all": sets.set_operation("UNION ALL"),
    "union": sets.set_operation("UNION"),
    "intersect": sets.set_operation("INTERSECT"),
    "except": sets.set_operation("EXCEPT"),
    "intersect all": sets.set_operation("INTERSECT ALL"),
    "except all": sets.set_operation("EXCEPT ALL"),
    "in": subqueries.in_subquery,
    "exists": subqueries.exists,
    "scalar subquery": subqueries.scalar_subquery,
    "subquery anywhere": subqueries.anywhere,
    "lateral": subqueries.lateral,
    "first of a subquery": ordered.first_of_subquery,
    "lateral limit": ordered.lateral_limit,
    "order below": ordered.order_below,
    "limit": ordered.limit,
    "window function": ordered.window_function,
    "function over a frame": ordered.framed_window,
    "explode": single.explode,
    "other generators": single.generated,
    "unpivot": single.unpivot,
    "python function": single.python_function,
    "variant": single.variant,
    "auto cdc": changes.auto_cdc,
    "several flows": changes.several_flows,
    "temporal filter": clock.temporal_filter,
    "value of the clock": clock.of_clock,
}

_NOT_IN_FROM = ("drop duplicates", "order below", "auto cdc", "several flows")
INNER = (
    *(
        "project",
        "project",
        "union all",
        "union all",
        "union",
        "inner join",
        "aggregate",
        "distinct",
        "anti join",
        "except",
    )
    * 3,
    *(name for name in CONSTRUCTS if name not in _NOT_IN_FROM),
)
"""Of which the queries in FROM are made; the first ones more often."""
