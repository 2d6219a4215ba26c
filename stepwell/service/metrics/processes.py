"""The memory and the processor time of the service's processes on this host: the service, its JVM, and its workers.

They are looked at when somebody asks for metrics, and cost nothing otherwise. What runs on other hosts is not seen from here; there a
process exporter of the host sees it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import psutil

JVM_LOOK_SECONDS = 10.0
"""Between two searches for the JVM, which go over all processes of the host."""

Role = Literal["service", "worker", "jvm"]


@dataclass(frozen=True)
class ProcessUse:
    """What a process of the pipeline uses of its machine. `worker`: its number, or empty for another role. `memory_bytes`: of physical memory;
    forked workers share some, which counts in each."""

    role: Role
    worker: str
    memory_bytes: int
    cpu_s: float


class Processes:
    """Finds the processes of the service with this pid. One thread may use it at a time."""

    def __init__(self, pid: int, host: str) -> None:
        self._service, self._host = psutil.Process(pid), host
        self._jvm: psutil.Process | None = None
        self._look_again_at = 0.0
        self._workers: dict[int, psutil.Process] = {}

    def look(self, workers: Iterable[Mapping[str, Any]]) -> tuple[ProcessUse, ...]:
        """`workers`: those of the status. A process that has ended is left out."""
        here = {int(each["pid"]): str(each["worker"]) for each in workers if each["host"] == self._host}
        self._workers = {pid: found for pid in here if (found := self._worker(pid)) is not None}
        uses = [_use("service", "", self._service), _use("jvm", "", self._find_jvm())]
        uses += [_use("worker", here[pid], process) for pid, process in sorted(self._workers.items())]
        return tuple(use for use in uses if use is not None)

    def _worker(self, pid: int) -> psutil.Process | None:
        known = self._workers.get(pid)
        try:
            return known if known is not None else psutil.Process(pid)
        except psutil.Error:
            return None

    def _find_jvm(self) -> psutil.Process | None:
        is_known = self._jvm is not None and self._jvm.is_running()
        if not is_known and time.monotonic() >= self._look_again_at:
            self._look_again_at = time.monotonic() + JVM_LOOK_SECONDS
            try:
                children = self._service.children()
                self._jvm = next((child for child in children if child.name().startswith("java")), None)
            except psutil.Error:
                self._jvm = None
        return self._jvm


def _use(role: Role, worker: str, process: psutil.Process | None) -> ProcessUse | None:
    if process is None:
        return None
    try:
        with process.oneshot():
            times = process.cpu_times()
            return ProcessUse(role, worker, process.memory_info().rss, times.user + times.system)
    except psutil.Error:
        return None
