"""One thing that was looked at: how it is, and how to mend it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["OK", "WARN", "FAIL"]


@dataclass(frozen=True)
class Check:
    """WARN: it runs, and may not go on running. FAIL: it does not run, or loses. Only those have a `mend`."""

    name: str
    level: Level
    found: str
    mend: str = ""

    def __post_init__(self) -> None:
        assert (self.level == "OK") == (not self.mend), f"{self.name}: {self.level} {self.mend!r}"
