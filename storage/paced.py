"""A large file is written no faster than steps can bear, which share the disk with it.

A file of a gigabyte that is written at once, and synced in the end, keeps every other write waiting for seconds.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BYTES_PER_S_MAX = 64 << 20
"""A disk of a small machine writes 200 MB/s."""
CHUNK_BYTES = 4 << 20
"""Synced one by one, so that no queue of unwritten pages grows."""


@contextmanager
def paced(file: Path) -> Iterator[int]:
    """A descriptor for writing. What is written to it comes into a new file, which is durable when the body ends. Raises the
    OSError of the file.

    The descriptor is the end of a pipe, and the file is written by a thread. So a library that writes by itself can be slowed
    down. After a fault of the file the library finds the pipe closed."""
    source, sink = os.pipe()
    faults: list[OSError] = []
    thread = threading.Thread(target=_write, args=(source, file, faults), name="paced", daemon=True)
    thread.start()
    try:
        yield sink
    finally:
        os.close(sink)
        thread.join()
        if faults:
            raise faults[0]


def _write(source: int, file: Path, faults: list[OSError]) -> None:
    began, written = time.monotonic(), 0
    try:
        with os.fdopen(source, "rb", buffering=CHUNK_BYTES) as chunks, file.open("xb", buffering=0) as out:
            while chunk := chunks.read(CHUNK_BYTES):
                out.write(chunk)
                os.fdatasync(out.fileno())
                written += len(chunk)
                time.sleep(max(0.0, began + written / BYTES_PER_S_MAX - time.monotonic()))
            os.fsync(out.fileno())
    except OSError as fault:
        faults.append(fault)
