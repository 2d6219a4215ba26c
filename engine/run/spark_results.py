"""What comes back from a job, and whether that is all.

PySpark reads the results of `collect` from a socket to the JVM, and takes a broken connection for their end. A JVM that is killed while it sends
them would leave a shorter list, and with it a step without some of its output, or a fault that nobody hears of. Every worker answers, so
whoever is missing tells.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from engine.errors import TaskLost

Item = TypeVar("Item")


def collected(rdd: Any, workers: int, worker_of: Callable[[Item], int], what: str) -> list[Item]:
    """`rdd.collect()`, of a job to which each worker gives at least one item. Raises TaskLost."""
    items: list[Item] = rdd.collect()
    missing = set(range(workers)) - {worker_of(item) for item in items}
    if missing:
        raise TaskLost(f"{what}: Spark gave no result of workers {sorted(missing)}; its JVM may have ended.")
    return items
