"""Standard output and standard error of a process that must not end because nobody can take what it says.

A disk with the log is full, or whoever read the other end of a pipe is gone. By default the next line then raises OSError in whatever thread
writes it. A service would end, or end with another exit code than that of its fault.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any, TextIO, cast


class Forgiving:
    """Writes to a stream of text, and loses what that cannot take. In all else it is the stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):  # the disk is full, the reader is gone, or the stream is closed
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):  # as above
            self._stream.flush()


def forgive_standard_error() -> None:
    """From now on what is written to standard error may be lost, and nothing fails."""
    sys.stderr = _forgiving(sys.stderr)


def forgive_standard_output() -> None:
    """From now on what is written to standard output may be lost, and nothing fails. It is for a process whose output is no answer."""
    sys.stdout = _forgiving(sys.stdout)


def _forgiving(stream: TextIO) -> TextIO:
    return stream if isinstance(stream, Forgiving) or stream is None else cast("TextIO", Forgiving(stream))
