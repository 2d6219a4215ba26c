"""Collects the results of a Spark job, and checks that none is missing.

PySpark reads the results of `collect` from a socket to the JVM, and treats a broken connection as their end. If the JVM is killed while it sends
them, the list is shorter. A step would then lose some of its output, or a fault would not be noticed. Every worker returns at least one item, so
a worker without any shows that the list is incomplete.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from engine.errors import TaskLost

Item = TypeVar("Item")


def collected(rdd: Any, workers: int, worker_of: Callable[[Item], int], what: str) -> list[Item]:
    """`rdd.collect()` of a job in which each worker returns at least one item. Raises TaskLost if a worker is missing. `what` names the job."""
    items: list[Item] = rdd.collect()
    missing = set(range(workers)) - {worker_of(item) for item in items}
    if missing:
        raise TaskLost(f"{what}: Spark returned no result of workers {sorted(missing)}; its JVM may have ended.")
    return items
