"""The process from which Spark's Python workers are forked (`spark.python.daemon.module`).

It differs from PySpark's own in two things, both of which a step of a few milliseconds feels: the heavy modules are imported before the fork and
frozen out of the garbage collector's sight, and there is no full collection after every task (about 30 ms; the automatic
one stays on). Nothing that starts a thread or opens a connection may be imported here: neither survives a fork.
"""

from __future__ import annotations

import gc
from types import SimpleNamespace

from pyspark import daemon

import engine.run.spark_step  # noqa: F401  what every task needs, imported once


def main() -> None:
    daemon.gc = SimpleNamespace(collect=lambda: 0)
    gc.collect()
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
