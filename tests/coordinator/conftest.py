from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.conftest import Broker
from tests.end_to_end.harness import Playground


@pytest.fixture
def play(spark: SparkSession, broker: Broker, tmp_path: Path, topic_prefix: str) -> Playground:
    return Playground(spark, broker.bootstrap_servers, tmp_path, topic_prefix)
