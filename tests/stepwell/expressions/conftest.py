from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.stepwell.expressions.harness import Oracle


@pytest.fixture(scope="session")
def oracle(spark: SparkSession) -> Oracle:
    return Oracle(spark)
