"""What all tests share: one broker per run, and one Spark session per worker of it."""

from __future__ import annotations

import gc
import logging
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import structlog
from pyspark.sql import SparkSession

from io_kafka.broker.local import LocalBroker
from stepwell.spark.session import make_session
from tests import broker_classes
from tests.examples import examples
from tests.rooms import ROOMS
from tests.scheduling import Scheduler
from tests.shared_broker import SharedBroker, address

gc.disable()  # until all files are imported, because nothing of them is garbage

GARBAGE_OBJECTS = 50_000
"""New objects between two collections, which take a tenth of the suite's processor time at Python's 700. So many have some megabytes."""

os.environ.setdefault(broker_classes.OPTIONS, broker_classes.options())

BOOTSTRAP = "STEPWELL_TEST_BOOTSTRAP"
"""Names a broker of the user's."""

# A user's settings are in force in every project, and would be in those of the tests.
for name in [name for name in os.environ if name.startswith("STEPWELL_") and name != BOOTSTRAP]:
    del os.environ[name]

# The time that an example takes says how busy the machine is, and nothing of the code.
hypothesis.settings.register_profile("stepwell", deadline=None, max_examples=examples(100))
hypothesis.settings.load_profile("stepwell")


SHARED = pytest.StashKey[SharedBroker]()
FOLDER = "broker folder"
"""Of what a worker is told by the process that gives it work."""


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduler:
    return Scheduler(config, log, config.stash[SHARED].begin if SHARED in config.stash else None)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Is called for each worker before it starts, in the process that gives them work."""
    if BOOTSTRAP not in os.environ:
        stash = node.config.stash
        if SHARED not in stash:
            stash[SHARED] = SharedBroker()
        node.workerinput[FOLDER] = str(stash[SHARED].folder)


def pytest_unconfigure(config: pytest.Config) -> None:
    if SHARED in config.stash:
        config.stash[SHARED].end()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """From the ground up: a broken room is told before those that stand on it; and storage's tests fork hundreds of times, which takes twice
    as long once this process has Spark and a gigabyte."""
    items.sort(key=lambda item: _floor(item.path))  # stable: within a room the order stays


def pytest_collection_finish() -> None:
    """What the files have made stays until the end, so no later collection has to look at a million objects."""
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS)
    gc.enable()


@cache
def _floor(path: Path) -> int:
    room = path.relative_to(Path(__file__).parent).parts[0]
    return ROOMS.index(room) if room in ROOMS else len(ROOMS)


@pytest.fixture(autouse=True)
def logs_as_usual() -> Iterator[None]:
    """A command that runs in the process of the tests says how all of it logs. The next test has structlog's own settings again."""
    yield
    if structlog.is_configured():
        structlog.reset_defaults()
        root = logging.getLogger()
        root.setLevel(logging.WARNING)
        for handler in [each for each in root.handlers if type(each).__module__.startswith("stepwell.")]:
            root.removeHandler(handler)


@dataclass(frozen=True)
class Broker:
    bootstrap_servers: str


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One real broker per run. A test that stops or kills a broker starts its own."""
    named = os.environ.get(BOOTSTRAP)
    workerinput = getattr(request.config, "workerinput", {})
    if named:
        yield Broker(named)
    elif FOLDER in workerinput:
        yield Broker(address(Path(workerinput[FOLDER])))
    else:
        local = LocalBroker(Path(tmp_path_factory.mktemp("broker"))).start(die_with_parent=True)
        yield Broker(local.bootstrap_servers)
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
