"""The settings of Spark that a project may not change."""

from __future__ import annotations

# There is one time zone everywhere. Otherwise functions that depend on it would differ between machines.
TIME_ZONE_KEY = "spark.sql.session.timeZone"
# A project may not change these, because steps would be slower or wrong. They apply to every session of the process.
FIXED_SQL = {
    TIME_ZONE_KEY: "UTC",
    # The excluded rule sums small decimals as unscaled longs and averages them as doubles. Stepwell's sums are exact without it.
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.DecimalAggregates",
    # Plans over sources marked as streaming are only analysed. Structured Streaming never runs them.
    "spark.sql.streaming.unsupportedOperationCheck": "false",
}
