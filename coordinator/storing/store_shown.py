"""What users see of the checkpoint store."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from coordinator.storing.machine import PhaseShown


@dataclass(frozen=True)
class StoreShown:
    """`version` and `step`: of the last stored version; None if there is none. `lag_s`: for how many seconds a complete version has waited for
    the store. `phase`: of the upload. `uploaded_bytes`: by this run. `fault`: the last one, until a version is stored.
    `refusals`: how often the store has refused this run a right."""

    place: str
    version: int | None
    step: int | None
    lag_s: float
    phase: PhaseShown
    is_late: bool
    uploaded_bytes: int
    fault: str
    refusals: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
