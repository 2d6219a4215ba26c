"""What a run costs: the CPU and memory of a tree of processes, and separately of the broker, sampled while it runs.

The CPU time of a tree at a moment is the sum, over its live processes, of their own time and of the time of children they have waited for. So a
process that started and ended between two samples is counted through its parent. Memory is the proportional share (PSS): a page shared
by ten forked workers counts once.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

CPU_SECONDS_BETWEEN = 0.1
MEMORY_SECONDS_BETWEEN = 2.0
"""Reading the PSS walks the page tables, which takes 10 to 30 ms for a JVM."""


KINDS = ("root", "jvm", "tasks")
"""Kinds of processes: the one that was started (in our case the coordinator, in Python), Java below it, and the rest (Python workers)."""


@dataclass
class Usage:
    """Samples over time: the wall clock in seconds since 1970, and CPU seconds since the tree started."""

    at: list[float] = field(default_factory=list)
    tree_cpu_s: list[float] = field(default_factory=list)
    broker_cpu_s: list[float] = field(default_factory=list)
    machine_idle_s: list[float] = field(default_factory=list)
    kinds_cpu_s: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    pss_mb_max: float = 0.0

    def between(self, begin: float, end: float) -> tuple[float, float]:
        """(tree, broker) CPU seconds spent between two moments."""
        return self._spent(self.tree_cpu_s, begin, end), self._spent(self.broker_cpu_s, begin, end)

    def kinds_between(self, begin: float, end: float) -> dict[str, float]:
        """The tree's CPU seconds by kind of process."""
        return {kind: self._spent(samples, begin, end) for kind, samples in self.kinds_cpu_s.items()}

    def others_cpu_s(self, begin: float, end: float) -> float:
        """CPU seconds of all other processes on the machine. They say how quiet it was."""
        busy = (psutil.cpu_count() or 1) * (end - begin) - self._spent(self.machine_idle_s, begin, end)
        return max(0.0, busy - sum(self.between(begin, end)))

    def _spent(self, samples: list[float], begin: float, end: float) -> float:
        if not samples:
            return 0.0
        return float(np.interp(end, self.at, samples) - np.interp(begin, self.at, samples))


class Watch:
    """Samples a tree while the body of `with` runs."""

    def __init__(self, root: int, broker: int) -> None:
        self.usage = Usage()
        self._root, self._broker = psutil.Process(root), psutil.Process(broker)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="measure", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        memory_at = 0.0
        while not self._over.wait(CPU_SECONDS_BETWEEN):
            tree = tree_of(self._root)
            if not tree:
                return
            usage = self.usage
            by_kind = dict.fromkeys(KINDS, 0.0)
            for process in tree:
                by_kind[self._kind_of(process)] += cpu_s(process)
            usage.at.append(time.time())
            usage.tree_cpu_s.append(_rising(usage.tree_cpu_s, sum(by_kind.values())))
            for kind, spent in by_kind.items():
                usage.kinds_cpu_s[kind].append(_rising(usage.kinds_cpu_s[kind], spent))
            usage.broker_cpu_s.append(cpu_s(self._broker))
            usage.machine_idle_s.append(psutil.cpu_times().idle)
            if time.monotonic() - memory_at > MEMORY_SECONDS_BETWEEN:
                memory_at = time.monotonic()
                usage.pss_mb_max = max(usage.pss_mb_max, sum(pss_bytes(p) for p in tree) / (1 << 20))

    def _kind_of(self, process: psutil.Process) -> str:
        if process.pid == self._root.pid:
            return "root"
        try:
            return "jvm" if process.name() == "java" else "tasks"
        except psutil.NoSuchProcess:
            return "tasks"


def _rising(samples: list[float], spent: float) -> float:
    """CPU time never goes back. It only seems to, between the end of a process and its parent's wait."""
    return max(spent, samples[-1]) if samples else spent


def tree_of(root: psutil.Process) -> list[psutil.Process]:
    """The process and all its descendants; empty if it has ended."""
    try:
        if root.status() == psutil.STATUS_ZOMBIE:
            return []
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def cpu_s(process: psutil.Process) -> float:
    """CPU seconds of the process and of the children that it has waited for."""
    try:
        times = process.cpu_times()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)


def pss_bytes(process: psutil.Process) -> int:
    try:
        for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def end_tree(root: psutil.Process) -> None:
    """Sends SIGTERM and then SIGKILL, to the processes of this tree only."""
    tree = tree_of(root)
    for process in tree:
        try:
            process.terminate()
        except psutil.NoSuchProcess:
            continue
    for process in psutil.wait_procs(tree, timeout=10)[1]:
        process.kill()


def folder_bytes(folder: Path) -> int:
    """The space that a folder occupies on the disk. A sparse file counts with what it holds."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file()) if folder.exists() else 0
