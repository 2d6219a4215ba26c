"""The place of the archive of the classes that Spark's JVM loads (class data sharing). With it a session starts in two thirds of the time.

The archive is in the Python environment, because it is valid for one version of Java and one of Spark. The JVM itself checks this, and
ignores an archive that does not fit. `make_class_archive.py` makes the archive.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pyspark
import xxhash

FOLDER = Path(sys.prefix) / "share" / "stepwell"

QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
"""Without these options the JVM logs a line for each class that it leaves out."""


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
    return f'"-XX:SharedArchiveFile={found}" -Xshare:auto {QUIET}' if found is not None and found.exists() else ""
