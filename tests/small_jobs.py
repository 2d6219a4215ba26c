"""How Spark answers over a few rows in half of the processor time.

To generate Java for a plan and to compile it takes longer than to run the plan over ten rows, and so does a shuffle. So where a test compares
tables, Spark interprets its plans in one partition: `small(spark)` is a session in which it does, and SETTINGS are for a project's file.
Over a frame of one partition (`coalesce(1)`) Spark needs no shuffle at all. Nor is it worth planning a stage again when the one before it has
ended, or laying out the plan of each job for a page that nobody reads: both took a fifth of the time of a comparison.

A test that compares functions of Spark's must not use this: its interpreter differs from its generated code for a few of them
(tests/stepwell/expressions/harness.py), and users' queries run generated code.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

SETTINGS: Mapping[str, str] = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.leafNodeDefaultParallelism": "1",
}


def small(spark: SparkSession) -> SparkSession:
    """A new session."""
    session = spark.newSession()
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    return session
