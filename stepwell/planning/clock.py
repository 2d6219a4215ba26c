"""How queries see the clock. Spark puts the time of the planning in place of now() while it optimises a query. So each function of the clock is
replaced before that: by a scalar subquery over a boundary of one row (leaves.py), which the optimiser cannot look into. In every other respect
the query is planned as with any subquery; lowering makes a node that reads the clock of this one (stepwell/lowering/clock.py).

The time zone of the session is UTC, so the day of now() is current_date().
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType, TimestampType

from stepwell.catalyst.clock import CLOCK, CLOCK_CLASSES
from stepwell.catalyst.scala import scala_items
from stepwell.planning.leaves import boundary

_SEEN_AS = "stepwell_current_timestamp"
"""The view by which the boundary is read while the replacements are made."""

CLOCK_IN_UNKNOWN_PLACE = (
    "the clock cannot be read in this place",
    "Read it in WHERE or SELECT of a view below, and that column here.",
)

_TIME = f"(SELECT now FROM {_SEEN_AS})"
_REPLACED = {
    "current_timestamp()": _TIME,
    "now()": _TIME,
    "current_date()": f"CAST({_TIME} AS DATE)",
    "localtimestamp()": f"CAST({_TIME} AS TIMESTAMP_NTZ)",
}


def reads_clock(classes: Collection[str]) -> bool:
    """`classes`: those of an analysed plan."""
    return not CLOCK_CLASSES.keys().isdisjoint(classes)


def has_clock(plan: Any, spark: SparkSession) -> bool:
    """Whether a function of the clock is left anywhere in the JVM's plan. Its text would not do: it also has what was written in place of what
    Spark computes, as of BETWEEN."""
    patterns: Any = getattr(spark._jvm, "org.apache.spark.sql.catalyst.trees.TreePattern$").__getattr__("MODULE$")
    return bool(plan.containsPattern(patterns.CURRENT_LIKE()))


def with_clock_as_subquery(analysed: Any, spark: SparkSession) -> Any:
    """The JVM's plan, in which subqueries are in the place of the functions of the clock. A map of Scala is a partial function, so nothing of
    ours has to run in the JVM."""
    boundary(CLOCK, StructType().add("now", TimestampType(), False), False, spark).createOrReplaceTempView(_SEEN_AS)
    try:
        before, after = _expressions(_REPLACED.keys(), spark), _expressions(_REPLACED.values(), spark)
    finally:
        spark.catalog.dropTempView(_SEEN_AS)
    replacements: Any = getattr(spark._jvm, "scala.collection.immutable.Map$").__getattr__("MODULE$").empty()
    for old, new in zip(before, after, strict=True):
        replacements = replacements.updated(old, new)
    return analysed.transformAllExpressionsWithSubqueries(replacements)


def _expressions(texts: Collection[str], spark: SparkSession) -> list[Any]:
    """These expressions, analysed."""
    analysed: Any = spark.sql(f"SELECT {', '.join(texts)}")._jdf.queryExecution().analyzed()
    return [item.child() for item in scala_items(analysed.projectList())]
