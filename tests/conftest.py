"""What all tests share: one Spark session and one broker per worker of a run."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from pyspark.sql import SparkSession

from io_kafka.broker.local import LocalBroker
from stepwell.spark.session import make_session
from tests import broker_classes
from tests.examples import examples
from tests.rooms import ROOMS
from tests.scheduling import Scheduler

os.environ.setdefault(broker_classes.OPTIONS, broker_classes.options())

# A user's settings are in force in every project, and would be in those of the tests.
for name in [name for name in os.environ if name.startswith("STEPWELL_") and name != "STEPWELL_TEST_BOOTSTRAP"]:
    del os.environ[name]

# The time that an example takes says how busy the machine is, and nothing of the code.
hypothesis.settings.register_profile("stepwell", deadline=None, max_examples=examples(100))
hypothesis.settings.load_profile("stepwell")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduler:
    return Scheduler(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """From the ground up: a broken room is told before those that stand on it; and storage's tests fork hundreds of times, which takes twice
    as long once this process has Spark and a gigabyte."""
    items.sort(key=lambda item: _floor(item.path))  # stable: within a room the order stays


def _floor(path: Path) -> int:
    room = path.relative_to(Path(__file__).parent).parts[0]
    return ROOMS.index(room) if room in ROOMS else len(ROOMS)


@dataclass(frozen=True)
class Broker:
    """`local` is None where STEPWELL_TEST_BOOTSTRAP names a broker of the user's."""

    bootstrap_servers: str
    local: LocalBroker | None


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One real broker per worker. A test that stops or kills a broker starts its own."""
    named = os.environ.get("STEPWELL_TEST_BOOTSTRAP")
    if named:
        yield Broker(named, None)
        return
    local = LocalBroker(Path(tmp_path_factory.mktemp("broker"))).start(die_with_parent=True)
    yield Broker(local.bootstrap_servers, local)
    local.stop()


@pytest.fixture
def topic_prefix() -> str:
    """Begins the name of every topic of one test, so that tests share a broker and nothing else."""
    return f"t{uuid.uuid4().hex[:12]}-"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that a service has, with its daemon: one for plans and for real steps."""
    session = make_session("stepwell-tests", {"spark.sql.shuffle.partitions": "2"})
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
