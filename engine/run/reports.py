"""What tasks tell the driver beside their output: how long the parts of a step took. Never part of a digest."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RegionReport:
    """One stage of one worker, in milliseconds: operators with their traces; opening and committing the database."""

    stage: int
    worker: int
    compute_ms: float
    state_ms: float

    def packed(self) -> bytes:
        return pickle.dumps(self)


def unpacked(data: bytes) -> Any:
    """A report, of whatever kind it is."""
    return pickle.loads(data)
