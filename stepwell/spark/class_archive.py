"""An archive of the classes that Spark's JVM loads (class data sharing): with it a session starts in two thirds of the time.

    python -m stepwell.spark.class_archive      makes it, if it is not there: some 15 s and 150 MB, once an environment

It lies in the Python environment, for it holds for one Java and one Spark. The JVM checks that itself, and does without an archive that
does not fit.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import xxhash
from pyspark import SparkContext

EXIT_SECONDS_MAX = 120.0
"""For the JVM to end, after it has written the archive: 10 s on a quiet machine."""

FOLDER = Path(sys.prefix) / "share" / "stepwell"

_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
"""It tells of every class that it leaves out."""


def archive() -> Path | None:
    """Where the archive for this Java and this Spark is, or would be; None where there is no Java."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "")
    if not java.is_file():
        return None
    java = java.resolve()
    known = f"{java} {java.stat().st_mtime_ns} {pyspark.__version__} {Path(pyspark.__file__).resolve()}"
    return FOLDER / f"classes-{xxhash.xxh3_64_hexdigest(known.encode())}.jsa"


def java_options() -> str:
    """For a JVM that uses the archive; empty where there is none."""
    found = archive()
    return f'"-XX:SharedArchiveFile={found}" -Xshare:auto {_QUIET}' if found is not None and found.exists() else ""


def make(place: Path) -> None:
    """Starts a session, plans and runs something in it, and ends its JVM, which writes what it has loaded."""
    from stepwell.spark.session import make_session

    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_suffix(f".{os.getpid()}")
    session = make_session("classes", java_options=f'"-XX:ArchiveClassesAtExit={draft}" {_QUIET}')
    session.range(9).groupBy("id").count().collect()
    session.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends when its pipe to us does
    gateway.proc.wait(EXIT_SECONDS_MAX)
    draft.rename(place)


if __name__ == "__main__":
    wanted = archive()
    if wanted is None:
        sys.exit("there is no Java: neither JAVA_HOME nor the path names one")
    if not wanted.exists():
        try:
            make(wanted)
        except (OSError, subprocess.TimeoutExpired) as fault:
            sys.stderr.write(
                f"no archive of classes: this Java wrote none ({fault}); sessions start without, a little later\n"
            )
