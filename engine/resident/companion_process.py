"""The process of a companion (companions.py)."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from typing import BinaryIO

from base.standard_streams import forgive_standard_error
from engine.resident.companions import LENGTH_BYTES
from engine.resident.entry import end_process, live_here


def main() -> None:
    source = sys.stdin.buffer
    length = int.from_bytes(source.read(LENGTH_BYTES))
    assignment = pickle.loads(source.read(length))  # from the process that has started this one, and from nobody else
    threading.Thread(target=_end_with_task, args=(source,), daemon=True).start()
    live_here(assignment, _has_none)
    forgive_standard_error()
    sys.stderr.flush()
    os._exit(0)  # the other thread holds the standard input, which an ordinary end would wait for


def _end_with_task(source: BinaryIO) -> None:
    source.read()
    end_process("its task has ended")


def _has_none() -> None:
    raise AssertionError("a companion was asked for companions")


if __name__ == "__main__":
    main()
