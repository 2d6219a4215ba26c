"""The process from which Spark's Python workers are forked (`spark.python.daemon.module`).

It differs from PySpark's own in two things. The heavy modules are imported before the fork, and
`gc.freeze` keeps the garbage collector from visiting them. There is no full collection after every task, which would take about 30 ms;
the automatic collection stays on.

Nothing that starts a thread or opens a connection may be imported here, because neither survives a fork.
"""

from __future__ import annotations

import gc
from types import SimpleNamespace

from pyspark import daemon

import engine.resident.entry  # noqa: F401  every worker needs it, so it is imported once, before the fork


def main() -> None:
    daemon.gc = SimpleNamespace(collect=lambda: 0)
    gc.collect()
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
