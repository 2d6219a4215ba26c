"""Checks of the machine: Java, PySpark and disk space."""

from __future__ import annotations

import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from io_kafka.broker.jars import JAVA_VERSION_MIN, java_command, java_version
from io_kafka.clients import native
from io_kafka.errors import JarsUnavailable
from io_kafka.formats import native_json
from io_kafka.native_switch import SWITCH
from stepwell.doctor.check import Check
from stepwell.project.places import nearest_folder, unwritable_part

PYSPARK_MINOR = "4.3"
"""The API of the definitions changes between minor versions. This is the version that Stepwell supports."""

DISK_FREE_MIN = 1 << 30
DISK_FREE_SCARCE = 10 << 30
"""In bytes. A fold needs space for a second copy of what has changed. Below 1 GiB, a backlog of minutes can fill the disk."""


def machine_checks(storage: Path | None) -> list[Check]:
    checks = [java_check(), pyspark_check(), reading_check()]
    return checks if storage is None else [*checks, disk_check(storage)]


def java_check() -> Check:
    try:
        java = java_command()
        return Check("java", "OK", f"{java}: {java_version(java)}")
    except JarsUnavailable as fault:
        first, _, rest = str(fault).partition(". ")
        return Check("java", "FAIL", first, rest or f"Install Java {JAVA_VERSION_MIN} or later.")


def pyspark_check() -> Check:
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        return Check("pyspark", "FAIL", "not installed", f"pip install 'pyspark[pipelines]=={PYSPARK_MINOR}.*'")
    if found.split(".")[:2] != PYSPARK_MINOR.split("."):
        return Check("pyspark", "FAIL", found, f"pip install 'pyspark[pipelines]=={PYSPARK_MINOR}.*'")
    return Check("pyspark", "OK", found)


def reading_check() -> Check:
    """Checks for the C extensions. Everything works without them, but every message costs more time."""
    if (reason := native.why_not() or native_json.why_not()) is None:
        return Check("reading", "OK", "natively, without an object a message")
    what_to_do = (
        f"Install a C compiler, then Stepwell again; or unset {SWITCH}. Input is read all the same, with more CPU."
    )
    return Check("reading", "WARN", f"not natively: {reason}", what_to_do)


def disk_check(folder: Path, *, name: str = "disk", setting: str = "`storage:` of spark-pipeline.yml") -> Check:
    """`folder`: where `setting` says that something is written. It need not be there yet."""
    place = unwritable_part(folder)
    if place is not None:
        what_to_do = f"Correct its owner or its rights, or name another folder in {setting}."
        return Check(name, "FAIL", f"{place} cannot be written by this user", what_to_do)
    place = nearest_folder(folder)
    free = shutil.disk_usage(place).free
    found = f"{free / (1 << 30):.1f} GiB free in {place}"
    what_to_do = f"Make room, or move {setting} to a larger disk."
    if free < DISK_FREE_MIN:
        return Check(name, "FAIL", found, what_to_do)
    return Check(name, "WARN", found, what_to_do) if free < DISK_FREE_SCARCE else Check(name, "OK", found)
