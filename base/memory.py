"""What a process does with memory that it has freed.

A step allocates some tens of arrays of megabytes and frees them again. By default glibc returns such memory to the system at once, and Arrow's
allocator after some milliseconds. Then each step asks for new pages, which the system has to clear. That took a sixth of the processor time
of a step of 100,000 rows (decision 0137). So processes that run steps keep freed memory, and give it back when they rest.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable

ARROW_VARIABLE = "MIMALLOC_PURGE_DELAY"
"""After how many milliseconds Arrow's allocator gives free pages back. It is read when Arrow is loaded."""

ARROW_MS = 1000
"""Longer than most steps take, so that the next step finds the pages of the one before it."""

MAPPED_BYTES_MIN = 32 << 20
"""An allocation of so many bytes has a mapping of its own, which is returned when it is freed. The most that every glibc accepts."""

FREE_BYTES_MAX = 128 << 20
"""How many free bytes glibc keeps at the end of the heap: about what a step of 320,000 rows has allocated at one time."""

REST_SECONDS = 30.0
"""After so long without work a process gives back what it has kept. A pipeline that gets a row every few seconds keeps it."""

_GLIBC_VARIABLES = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of mallopt, in <malloc.h>


def keep_freed_memory() -> None:
    """Called before Arrow is loaded. Variables with which the user has said something else are obeyed. Does nothing where the C library has no
    such settings."""
    os.environ.setdefault(ARROW_VARIABLE, str(ARROW_MS))
    mallopt = _of_c_library("mallopt")
    if mallopt is not None and not any(name in os.environ for name in _GLIBC_VARIABLES):
        mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES_MIN)
        mallopt(_M_TRIM_THRESHOLD, FREE_BYTES_MAX)


def give_back_freed_memory() -> None:
    """Returns what this process has freed to the system. Arrow's allocator returns what the calling thread has freed."""
    if (pyarrow := sys.modules.get("pyarrow")) is not None:
        pyarrow.default_memory_pool().release_unused()
    trim = _of_c_library("malloc_trim")
    if trim is not None:
        trim(ctypes.c_size_t(0))


def _of_c_library(name: str) -> Callable[..., object] | None:
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None


class Rest:
    """Calls `give_back` once in each rest. Its owner says when it works and when it waits. Times are seconds of a monotonic clock."""

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back = give_back
        self._since: float | None = None
        self._is_done = False

    def work(self) -> None:
        """There is something to do."""
        self._since, self._is_done = None, False

    def wait(self, now: float) -> None:
        """There is nothing to do at this moment."""
        if self._since is None:
            self._since = now
        if not self._is_done and now - self._since >= REST_SECONDS:
            self._is_done = True
            self._give_back()
