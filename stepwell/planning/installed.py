"""What is installed, as far as plans depend on it: the versions, and the code of Stepwell itself."""

from __future__ import annotations

import functools
import platform
from importlib.metadata import version
from pathlib import Path

import xxhash

from base import fault

ROOMS = ("base", "coordinator", "engine", "faults", "io_kafka", "protocols", "stepwell", "storage")
_ROOMS_FOLDER = Path(fault.__file__).resolve().parents[1]
"""In the repository its root, and otherwise `stepwell` (setup.py)."""
FOLDERS = tuple(Path(__file__).resolve().parents[1] if room == "stepwell" else _ROOMS_FOLDER / room for room in ROOMS)
"""The folders of the rooms. Where they are within `stepwell`, that one has all files."""


def size_and_time(path: Path) -> bytes:
    status = path.stat()
    return f" {status.st_size} {status.st_mtime_ns}".encode()


@functools.cache
def installed_digest() -> str:
    """Returns a digest of the versions of Python and of the libraries that make plans, and of all files of Stepwell. Nothing of them changes
    while a process lives."""
    state = xxhash.xxh3_128()
    state.update(repr((platform.python_version(), version("pyspark"), version("pyarrow"))).encode())
    for path in sorted({path for folder in FOLDERS for path in folder.rglob("*.py")}):
        state.update(str(path).encode() + size_and_time(path))
    return state.hexdigest()
