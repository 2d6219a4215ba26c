"""The process from which Spark's Python workers are forked (`spark.python.daemon.module`).

It differs from PySpark's own in four things. PySpark is imported from where it is installed and not from its zipped copy. The heavy modules are
imported before the fork, and `gc.freeze` keeps the garbage collector from visiting them. There is no full collection after every task, which
would take about 30 ms; the automatic collection stays on. Workers keep freed memory (base/memory.py).

Nothing that starts a thread or opens a connection may be imported here, because neither survives a fork.
"""

from __future__ import annotations

import gc
import importlib
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

from base.memory import keep_freed_memory
from engine.resident.preload import PLACE_VARIABLE, PRELOAD, hand_over, wait_for_streams

FIRST_IMPORTED = ("pyspark.worker", "pyspark.daemon", f"{__package__}.entry")
"""What every worker needs: the modules that Spark runs in a fork and before it, and the one that a worker's task names."""


def without_zipped_copies(path: Sequence[str]) -> list[str]:
    """The search path of modules without the archives of an installed PySpark. Spark puts them first, and an import from an archive compiles
    each module again, which takes a second. An archive of another Spark stays, for it may be of another version."""
    return [entry for entry in path if not _is_zipped_copy(Path(entry), path)]


def _is_zipped_copy(entry: Path, path: Sequence[str]) -> bool:
    """Whether the archive `X/pyspark/python/lib/NAME-VERSION.zip` is in the path beside X, in which NAME is installed."""
    if entry.suffix != ".zip" or entry.parts[-4:-1] != ("pyspark", "python", "lib"):
        return False
    installed = entry.parents[3]
    return str(installed) in path and (installed / entry.stem.split("-")[0] / "__init__.py").is_file()


def main() -> None:
    if sys.argv[1:2] == [PRELOAD]:
        listener = socket.socket(fileno=int(sys.argv[2]))
        load()
        connection = wait_for_streams(listener)
        if connection is not None:
            with connection:
                serve()
        return
    folder = os.environ.pop(PLACE_VARIABLE, None)
    if folder is not None and hand_over(folder, sys.argv[1:]):
        return
    load()
    serve()


def load() -> None:
    sys.path[:] = without_zipped_copies(sys.path)
    keep_freed_memory()
    for name in FIRST_IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def serve() -> None:
    """Forks workers for Spark, as its standard input asks for them."""
    from pyspark import daemon  # from where `load` has found it

    daemon.gc = SimpleNamespace(collect=lambda: 0)
    daemon.manager()


if __name__ == "__main__":
    main()
