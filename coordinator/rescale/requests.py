"""What users ask of the layout while the service runs, and the refusal of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from base.fault import ExitCode, Fault
from engine.model.layout import Policy
from io_kafka.step_log.layout_records import MoveStrategy


class RescaleRefused(Fault):
    """A request that concerns the layout cannot be met now. Nothing was changed."""

    exit_code = ExitCode.STATE


class LayoutIsAsAsked(RescaleRefused):
    """The layout is the one that a request asks for, so nothing has to be done."""

    @classmethod
    def of(cls, workers: int) -> LayoutIsAsAsked:
        have = "1 worker" if workers == 1 else f"{workers} workers"
        return cls(f"the layout has {have} already; nothing was changed.", "`stepwell layout show` shows them.")


@dataclass(frozen=True)
class RescaleRequest:
    """Rescale to so many workers. `policy`: None keeps that of the layout."""

    workers: int
    strategy: MoveStrategy
    policy: Policy | None = None


@dataclass(frozen=True)
class ReplaceRequest:
    """Move everything that the workers of `host` have to new workers, on host `to`, or on any other one if that is None. A host is named as in
    Register.is_on."""

    host: str
    to: str | None = None


@dataclass(frozen=True)
class PauseRequest:
    """Stop the cuts of the rescale under way, or continue them. Steps go on."""

    is_paused: bool


@dataclass(frozen=True)
class TurnRequest:
    """Give the rescale under way another end: `reverse` moves everything back, `abort` leaves the slots where they are."""

    reason: Literal["reverse", "abort"]


LayoutRequest = RescaleRequest | ReplaceRequest | PauseRequest | TurnRequest
