"""Where the archive of the classes that Spark's JVM loads is (class data sharing). With it a session starts in two thirds of the time.

It lies in the Python environment, because it is valid for one Java and one Spark. The JVM checks that itself, and ignores an archive that does
not fit. `make_class_archive.py` makes it.
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
"""Without it the JVM logs a line for each class that it leaves out."""


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
    return f'"-XX:SharedArchiveFile={found}" -Xshare:auto {QUIET}' if found is not None and found.exists() else ""
