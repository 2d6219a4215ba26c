"""The place of the archive of the classes that Spark's JVM loads (class data sharing). With it a session starts in two thirds of the time.

The archive is in the Python environment, because it is valid for one version of Java and one of Spark. The JVM itself checks this, and
ignores an archive that does not fit. `make_class_archive.py` makes the archive: when Stepwell is set up, or after the first command that needed
it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import xxhash

MAKER = f"{__package__}.make_class_archive"
BESIDE = "--beside"
"""The argument with which it takes the time that nobody else wants, and leaves the work to one that is at it."""

FOLDER = Path(sys.prefix) / "share" / "stepwell"

QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
"""Without these options the JVM logs a line for each class that it leaves out."""

IN_PLACE = "-XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"
"""Maps the archive where its pointers lead. Java itself takes a random address instead and writes to every page to correct them, so each JVM has
95 MB for itself that it could share with others or give back to the system. If the place is taken, Java does that anyway."""


def archive() -> Path | None:
    """The path of the archive for this Java and this Spark, whether it exists or not; None if there is no Java."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "")
    if not java.is_file():
        return None
    java = java.resolve()
    known = f"{java} {java.stat().st_mtime_ns} {pyspark.__version__} {Path(pyspark.__file__).resolve()}"
    return FOLDER / f"classes-{xxhash.xxh3_64_hexdigest(known.encode())}.jsa"


def java_options() -> str:
    """The options for a JVM that uses the archive; empty if there is no archive."""
    found = archive()
    return (
        f'"-XX:SharedArchiveFile={found}" -Xshare:auto {IN_PLACE} {QUIET}'
        if found is not None and found.exists()
        else ""
    )


def make_if_missing() -> None:
    """Has the archive made by a process of its own, which goes on after this one. Does nothing where the environment is not ours."""
    wanted = archive()
    if wanted is None or wanted.exists():
        return
    place = next(folder for folder in (FOLDER, *FOLDER.parents) if folder.exists())
    if os.access(place, os.W_OK):
        subprocess.Popen(
            [sys.executable, "-m", MAKER, BESIDE],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the command
        )
