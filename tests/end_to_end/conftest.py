from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from storage.database import Database
from tests.conftest import Broker
from tests.end_to_end.harness import Playground
from tests.small_jobs import small


@pytest.fixture
def play(spark: SparkSession, broker: Broker, tmp_path: Path, topic_prefix: str) -> Iterator[Playground]:
    yield Playground(small(spark), broker.bootstrap_servers, tmp_path, topic_prefix)
    Database.close_all()  # a process has the address space for a hundred of them, and a test run makes more
