"""Settings of Spark that a project may not change."""

from __future__ import annotations

# One time zone everywhere: functions that depend on it would otherwise differ from one machine to the next.
TIME_ZONE_KEY = "spark.sql.session.timeZone"
# What a project may not change, because steps would be slower or wrong. It is in force in every session of the process.
FIXED_SQL = {
    TIME_ZONE_KEY: "UTC",
    # It sums small decimals as unscaled longs and averages them as doubles; our sums are exact without that.
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.DecimalAggregates",
    # Plans over sources marked streaming are only resolved here, never run by Structured Streaming.
    "spark.sql.streaming.unsupportedOperationCheck": "false",
}
