"""Every expression over random rows: Spark's value, or an error where Spark has one, and never a bug in Stepwell."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from pyspark.sql import SparkSession

from tests.stepwell.expressions import random_rows
from tests.stepwell.expressions.harness import Oracle

EXAMPLES_IN_THE_SUITE = 40  # a tenth to half a second each: Spark evaluates row by row


def _compare(spark: SparkSession, examples: int) -> None:
    # Not shrunk: an example has few rows, and each try would cost as much as the first.
    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(random_rows.examples())
    def each(example: tuple[str, pa.Table]) -> None:
        sql, table = example
        Oracle(spark, table).check(sql)

    each()


def test_random_rows_have_sparks_answers(spark: SparkSession) -> None:
    _compare(spark, EXAMPLES_IN_THE_SUITE)


@pytest.mark.soak
def test_many_random_rows_have_sparks_answers(spark: SparkSession) -> None:
    _compare(spark, 10_000)
