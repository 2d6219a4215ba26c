"""One cluster for all tests of this folder: three brokers, a Spark master and two workers. A test that kills a process starts it again.

It ends behind the folder, because three idle brokers use a fifteenth of a core."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell.dev_cluster.cluster import DevCluster


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    made = DevCluster(Path(tmp_path_factory.mktemp("cluster")), brokers=3, workers=2)
    try:
        yield made.up(die_with_parent=True)
    finally:
        made.down()
