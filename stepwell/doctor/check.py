"""The result of one check of `stepwell doctor`: what was found, and how to fix it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["OK", "WARN", "FAIL"]


@dataclass(frozen=True)
class Check:
    """WARN: the pipeline runs, but may stop. FAIL: the pipeline does not run, or loses data. Only these two have a `what_to_do`. `commands`:
    what it says to call, each as one line for a shell."""

    name: str
    level: Level
    found: str
    what_to_do: str = ""
    commands: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert (self.level == "OK") == (not self.what_to_do), f"{self.name}: {self.level} {self.what_to_do!r}"
