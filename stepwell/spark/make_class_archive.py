"""Makes the archive of the JVM's classes if it does not exist.

python -m stepwell.spark.make_class_archive      takes about 15 s and 150 MB, once per Python environment
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from pyspark import SparkContext

from stepwell.spark.class_archive import QUIET, archive
from stepwell.spark.session import make_session

EXIT_SECONDS_MAX = 120.0
"""The time for the JVM to write the archive and end. This takes 10 s on an idle machine."""

NO_IDLE_WORKER = {"spark.python.worker.reuse": "false"}
"""A Python worker that waits for its next task can print a traceback when the JVM ends."""


def make(place: Path) -> None:
    """Starts a session, runs a query and a Python task in it, and ends its JVM. On its way out the JVM writes the classes that it has loaded."""
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_suffix(f".{os.getpid()}")
    session = make_session("classes", NO_IDLE_WORKER, java_options=f'"-XX:ArchiveClassesAtExit={draft}" {QUIET}')
    session.range(9).groupBy("id").count().collect()
    session.sparkContext.parallelize([0], 1).map(str).collect()
    session.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends when its standard input closes
    gateway.proc.wait(EXIT_SECONDS_MAX)
    draft.rename(place)


def main() -> None:
    wanted = archive()
    if wanted is None:
        sys.exit("there is no Java: neither JAVA_HOME nor the path names one")
    if wanted.exists():
        return
    try:
        make(wanted)
    except (OSError, subprocess.TimeoutExpired) as fault:
        sys.stderr.write(
            f"This Java wrote no archive of classes ({fault}). Sessions work without it and start a little later.\n"
        )


if __name__ == "__main__":
    main()
