"""Companions of a task: processes that it starts on its host, each of which becomes a worker too.

A run needs a task slot for each worker. If a host is lost and no other slot is free, the tasks that are left start companions in place of the
missing ones, and the run can go on. A change of the layout then leads to as many workers as there are slots
(coordinator/starting/workers/shrinking.py).

    task    -> a process, whose standard input gets the assignment and stays open
    process -> registers as a task does; ends when it is stopped, when its coordinator is gone, or when that input ends

So no companion outlives its task, whatever ends that. The task ends after its companions, because with it Spark may end its executor.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

LENGTH_BYTES = 8
"""Before the assignment: how many bytes it has."""

STDERR = 2
"""Both streams of a companion go where Spark collects what its task writes."""


class Companions:
    """The companions of one task. `pack` gives their assignment, pickled."""

    def __init__(self, pack: Callable[[], bytes]) -> None:
        self._pack = pack
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Starts one more. It returns before the process has registered."""
        process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.companion_process"],
            stdin=subprocess.PIPE,
            stdout=STDERR,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert process.stdin is not None
        self._processes.append(process)
        packed = self._pack()
        process.stdin.write(len(packed).to_bytes(LENGTH_BYTES) + packed)
        process.stdin.flush()

    def wait(self) -> None:
        """Until all have ended."""
        for process in self._processes:
            process.wait()
