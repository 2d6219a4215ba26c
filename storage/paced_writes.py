"""A large file is written no faster than steps can bear, which share the disk with it.

A file of a gigabyte that is written at once, and synced in the end, keeps every other write waiting for seconds.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

BYTES_PER_S_MAX = 64 << 20
"""A disk of a small machine writes 200 MB/s."""
CHUNK_BYTES = 4 << 20
"""Synced one by one, so that no queue of unwritten pages grows."""
REST_FACTOR = 2.0
"""After each chunk the file rests at least so many times as long as the chunk took. So a slow disk, or one that several workers of a host write
to, is busy with such files for a third of the time at most."""


class Unwanted(Exception):
    """The file was given up: nobody wants it any more."""


@contextmanager
def write_paced(file: Path, is_wanted: Callable[[], bool]) -> Iterator[int]:
    """A descriptor for writing. What is written to it comes into a new file, which is durable when the body ends. Raises the
    OSError of the file, and Unwanted as soon as `is_wanted`, which is asked between two chunks, says no.

    The descriptor is the end of a pipe, and the file is written by a thread. So a library that writes by itself can be slowed
    down. After a fault of the file the library finds the pipe closed."""
    source, sink = os.pipe()
    faults: list[Exception] = []
    thread = threading.Thread(target=_write, args=(source, file, is_wanted, faults), name="paced", daemon=True)
    thread.start()
    try:
        yield sink
    finally:
        os.close(sink)
        thread.join()
        if faults:
            raise faults[0]


def _write(source: int, file: Path, is_wanted: Callable[[], bool], faults: list[Exception]) -> None:
    began, written = time.monotonic(), 0
    try:
        with os.fdopen(source, "rb", buffering=CHUNK_BYTES) as chunks, file.open("xb", buffering=0) as out:
            while chunk := chunks.read(CHUNK_BYTES):
                if not is_wanted():
                    raise Unwanted
                chunk_began = time.monotonic()
                out.write(chunk)
                os.fdatasync(out.fileno())
                written += len(chunk)
                now = time.monotonic()
                time.sleep(max(REST_FACTOR * (now - chunk_began), began + written / BYTES_PER_S_MAX - now))
            os.fsync(out.fileno())
    except (OSError, Unwanted) as fault:
        faults.append(fault)
