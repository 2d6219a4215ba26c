"""The one broker of a whole test run. The process that gives work to the workers of pytest-xdist starts it, and they wait for its address.

A broker uses 2 % of a core while nothing happens, and its JVM has to compile what tests ask of it. So one for all workers costs less than one
for each. It ends with the process that started it, however that ends.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from pathlib import Path

from base.whole_file import write_whole
from io_kafka.broker.local import LocalBroker

ADDRESS, FAULT = "address", "fault"

WAIT_SECONDS_MAX = 240.0
"""Twice of what a broker may take to start."""


class _LongLived(LocalBroker):
    """It answers for half an hour, so the second compiler, which other JVMs of a test run do without, gives back more than it takes."""

    def _java(self) -> list[str]:
        return [*super()._java(), "-XX:TieredStopAtLevel=4"]


class SharedBroker:
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="stepwell-broker-"))
        self._broker = _LongLived(self.folder / "broker")
        self._starting: threading.Thread | None = None

    def begin(self) -> None:
        """Returns at once, because the workers have files that need no broker."""
        self._starting = threading.Thread(target=self._start, name="shared broker")
        self._starting.start()

    def end(self) -> None:
        if self._starting is not None:
            self._starting.join()
            self._broker.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self) -> None:
        try:
            self._broker.start(die_with_parent=True)
        except BaseException as fault:
            write_whole(self.folder / FAULT, str(fault))
            raise
        write_whole(self.folder / ADDRESS, self._broker.bootstrap_servers)


def address(folder: Path) -> str:
    """What a worker calls: waits until the broker answers."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not (folder / ADDRESS).exists():
        assert not (folder / FAULT).exists(), (folder / FAULT).read_text()
        assert time.monotonic() < deadline, f"the broker of {folder} did not start within {WAIT_SECONDS_MAX:.0f} s"
        time.sleep(0.05)
    return (folder / ADDRESS).read_text()
