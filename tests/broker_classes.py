"""The archive of the classes that a broker's JVM loads, for the tests: they start some sixty brokers, and with it a start takes half of the
processor time (2.3 s in place of 4.5 s, with the formatting of its folder).

python -m tests.broker_classes      makes the archive if there is none: once per Python environment, in 15 s
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import xxhash

from io_kafka.broker.jars import cache_folder
from io_kafka.broker.local import LocalBroker
from stepwell.spark.class_archive import FOLDER, QUIET

OPTIONS = "JDK_JAVA_OPTIONS"
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""What the second compiler and a collector of many threads would give comes too late for a JVM of a test run."""


def archive() -> Path | None:
    """Its place, whether it exists or not; None without Java. The JVM itself ignores an archive of other classes or of another Java."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if java is None:
        return None
    known = f"{Path(java).resolve()} {Path(java).stat().st_mtime_ns} {cache_folder()}"
    return FOLDER / f"broker-{xxhash.xxh3_64_hexdigest(known.encode())}.jsa"


def options() -> str:
    """For every JVM of a test run. Spark's names its own archive after these."""
    found = archive()
    if found is None or not found.exists():
        return SHORT_LIVED
    return f"{SHORT_LIVED} -XX:SharedArchiveFile={found} -Xshare:auto {QUIET}"


def make(place: Path) -> None:
    """On its way out, a broker's JVM writes the classes that it has loaded."""
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_suffix(f".{os.getpid()}")
    os.environ[OPTIONS] = f"{SHORT_LIVED} -XX:ArchiveClassesAtExit={draft} {QUIET}"
    with tempfile.TemporaryDirectory() as folder:
        LocalBroker(Path(folder)).start(die_with_parent=True).stop()
    draft.rename(place)


def main() -> None:
    wanted = archive()
    if wanted is None or wanted.exists():
        return
    try:
        make(wanted)
    except OSError as fault:
        sys.stderr.write(
            f"This Java wrote no archive of classes ({fault}). Brokers work without it and start a little later.\n"
        )


if __name__ == "__main__":
    main()
