"""The recorded load: one line of JSON for each sample, in a file of the pipeline's local folder, for `stepwell layout auto --dry-run` and for
the next run, which knows from it what a number of workers manages.

Guarantees: the file is bounded. A line is written at once, so a killed process leaves all lines but perhaps the last one whole, and a damaged
line costs that line. A file that cannot be written, or read, never ends a run."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from base.logger import Logger
from base.whole_file import write_whole
from coordinator.automatic.load import SAMPLE_SECONDS, LoadSample, StepClass

_log = Logger("coordinator.automatic.load_file")

LOAD_FILE = "load.jsonl"

LINES_MAX = 17_280
"""How many samples are kept: two days, so that a dry run sees what a day is like. A line has about 200 bytes, and the file 4 MB."""

LINES_SPARE = 1_728
"""By how many lines the file may exceed LINES_MAX before the oldest ones are left out. That is a tenth, and happens five times a day at most."""

GAP_SECONDS = 2 * SAMPLE_SECONDS
"""If more than that lies between two samples, beside the length of the second one, no run has sampled in between."""


@dataclass(frozen=True)
class RecordedLoad:
    """`samples`: (the end in seconds since 1970, the sample), in the order of the file. `damaged`: how many lines could not be read."""

    samples: tuple[tuple[float, LoadSample], ...]
    damaged: int = 0

    @property
    def gaps(self) -> tuple[float, ...]:
        """For how many seconds nobody has sampled before each sample; 0 where the samples follow each other, and before the first one."""
        between = (at - before - sample.seconds for (before, _), (at, sample) in pairwise(self.samples))
        return tuple(
            [0.0, *(seconds if abs(seconds) > GAP_SECONDS else 0.0 for seconds in between)][: len(self.samples)]
        )


def to_line(at: float, sample: LoadSample) -> str:
    """Without a line break. What is usual is left out."""
    said: dict[str, Any] = {
        "at": round(at, 3),
        "seconds": round(sample.seconds, 3),
        "busy_s": round(sample.busy_s, 3),
        "rows": sample.rows,
        "arrived": sample.arrived,
        "lag": sample.lag,
        "workers": sample.workers,
        "classes": {str(size): [c.steps, c.rows, round(c.busy_ms, 2)] for size, c in sample.classes.items()},
    }
    flags = {"is_changing": sample.is_changing, "is_disturbed": sample.is_disturbed}
    return json.dumps(said | {name: True for name, is_set in flags.items() if is_set}, separators=(",", ":"))


def of_line(line: str) -> tuple[float, LoadSample]:
    """Raises ValueError if the line is damaged."""
    try:
        said = json.loads(line)
        classes = {
            int(size): StepClass(int(n), int(rows), float(ms)) for size, (n, rows, ms) in said["classes"].items()
        }
        sample = LoadSample(
            seconds=float(said["seconds"]),
            busy_s=float(said["busy_s"]),
            rows=int(said["rows"]),
            arrived=int(said["arrived"]),
            lag=int(said["lag"]),
            workers=int(said["workers"]),
            classes=classes,
            is_changing=bool(said.get("is_changing", False)),
            is_disturbed=bool(said.get("is_disturbed", False)),
        )
        at = float(said["at"])
    except (KeyError, TypeError, AttributeError) as fault:
        raise ValueError(str(fault)) from fault
    counts = [sample.rows, sample.arrived, sample.lag, *(c.rows for c in classes.values())]
    if sample.seconds <= 0 or sample.workers < 1 or min(counts) < 0 or any(c.steps < 1 for c in classes.values()):
        raise ValueError("numbers that no sample has")
    return at, sample


def read_load(path: Path, last: int = LINES_MAX) -> RecordedLoad:
    """The last samples of the file; none if there is no file. Raises OSError if the file cannot be read."""
    samples: list[tuple[float, LoadSample]] = []
    damaged = 0
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return RecordedLoad(())
    for line in reversed(lines):
        if not line:
            continue
        if len(samples) == last:
            break
        try:
            samples.append(of_line(line.decode()))
        except ValueError:  # also of a line that is no text
            damaged += 1
    return RecordedLoad(tuple(reversed(samples)), damaged)


class LoadFile:
    """The one that writes it. `now`: seconds since 1970."""

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self.path, self.now = path, now
        self._lines: int | None = None  # None until the file was looked at
        self._has_failed = False

    def append(self, sample: LoadSample) -> None:
        """Adds the sample, which ends now. A file that cannot be written is reported once."""
        try:
            self._append(to_line(self.now(), sample))
            self._has_failed = False
        except OSError as fault:
            if not self._has_failed:
                _log.warning("the load could not be recorded", file=str(self.path), fault=str(fault))
            self._has_failed, self._lines = True, None

    def _append(self, line: str) -> None:
        is_new = self._lines is None
        if self._lines is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._lines = self.path.read_bytes().count(b"\n") if self.path.exists() else 0
        if self._lines >= LINES_MAX + LINES_SPARE:
            kept = self.path.read_bytes().split(b"\n")[-LINES_MAX - 1 :]
            write_whole(self.path, b"\n".join(kept))
            self._lines = LINES_MAX
        before = b"\n" if is_new else b""  # the process before may have been killed within a line
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(file, before + line.encode() + b"\n")
        finally:
            os.close(file)
        self._lines += 1 + len(before)
