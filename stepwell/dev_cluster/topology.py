"""The shape of the cluster for trying things: which hosts it has, and what each may use. Plain data.

`docker/compose.yaml` has the same shape in containers; tests/cluster/test_compose.py compares them.
"""

from __future__ import annotations

from io_kafka.broker.properties import GROUP_SIZES

KAFKA_FOLDER, SPARK_FOLDER = "kafka", "spark"
"""The folders of the cluster's parts, in its own folder."""

MASTER_HOST = "127.0.0.1"

BROKERS_DEFAULT = max(GROUP_SIZES)

WORKERS_DEFAULT = 2

WORKERS_MAX = 8
"""Each takes a gigabyte or more, and a machine that is shared by more hosts than this shows nothing new."""

WORKER_CORES = 2
"""Task slots of a host. A pipeline's worker takes one for the whole run. The other one is there for a worker whose host was lost, and for
queries."""

WORKER_MEMORY_MB = 1024
"""The memory of a host for executors. Spark's default for an executor is exactly that."""

DAEMON_HEAP_MB = 256
"""The heap of the master's JVM and of each worker's own JVM. They keep no data."""

PYTHON_MB = 400
"""What the Python process of a small pipeline's worker takes."""

SCALA_VERSION = "2.13"
"""The version of Scala of PySpark's jars. A Spark worker asks for it in SPARK_SCALA_VERSION, or looks for folders of a build, which PySpark does
not have."""


def worker_host(number: int) -> str:
    """The address of the Spark worker `number`, from 1: 127.0.0.2 and so on, so that each looks like a host of its own."""
    assert 1 <= number <= WORKERS_MAX
    return f"127.0.0.{number + 1}"


def memory_mb(workers: int) -> int:
    """About what the Spark processes of a cluster take while a small pipeline runs on it."""
    return DAEMON_HEAP_MB + workers * (DAEMON_HEAP_MB + WORKER_MEMORY_MB + PYTHON_MB)
