"""What tasks report to the driver beside their output: how long the parts of a step took. Reports are never part of a digest."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RegionReport:
    """The times of one stage of one worker, in milliseconds. `compute_ms`: the operators with their traces. `state_ms`: to open the database's
    transaction and to commit it."""

    stage: int
    worker: int
    compute_ms: float
    state_ms: float

    def packed(self) -> bytes:
        return pickle.dumps(self)


def unpacked(data: bytes) -> Any:
    """A report, of whatever kind it is."""
    return pickle.loads(data)
