"""The layout and its change, as a service shows them in `Status.layout`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from io_kafka.step_log.layout_records import CutProtocol, RescaleMode


@dataclass(frozen=True)
class ChangeNumber:
    """Which change it is. `workers`: to how many it leads. `protocol`, `messages`: by which protocol slots move that says which ones move
    together, and how many messages it has cost; None in batches."""

    number: int
    mode: RescaleMode
    workers: int
    protocol: CutProtocol | None = None
    messages: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class ChangeShown:
    """A change that is wanted or under way. `state`: what it is at, in a word. `cut_bytes_max`: the bound of the next cut; None before the
    change is recorded. `numbers`: of what is done and what is left (progress.py)."""

    change: ChangeNumber
    state: str
    is_paused: bool
    slots_left: int
    cut_bytes_max: int | None
    numbers: Mapping[str, object]

    def to_json(self) -> dict[str, Any]:
        return {
            **self.change.to_json(),
            "state": self.state,
            "is_paused": self.is_paused,
            "slots_left": self.slots_left,
            "cut_bytes_max": self.cut_bytes_max,
            **self.numbers,
        }


@dataclass(frozen=True)
class ChangeSettled:
    """The change that this run has seen settled last. `numbers`: of what was done."""

    change: ChangeNumber
    outcome: str
    numbers: Mapping[str, object]

    def to_json(self) -> dict[str, Any]:
        return {**self.change.to_json(), "outcome": self.outcome, **self.numbers}


@dataclass(frozen=True)
class MemberShown:
    """A worker. `slots`: how many it owns."""

    birth: str
    slots: int


@dataclass(frozen=True)
class RateShown:
    """How fast the last change of its mode has moved, and how long no step could begin."""

    bytes_per_s: int
    pause_ms: float


@dataclass(frozen=True, kw_only=True)
class LayoutShown:
    """`outcome`: of the last change. `members`: the workers by number, in order. `measured`: by mode."""

    number: int
    outcome: str
    shards: int
    policy: str
    members: Mapping[int, MemberShown]
    change: ChangeShown | None
    last_change: ChangeSettled | None
    measured: Mapping[RescaleMode, RateShown]

    def to_json(self) -> dict[str, Any]:
        """Without what there is none of."""
        shown: dict[str, Any] = {
            "number": self.number,
            "outcome": self.outcome,
            "shards": self.shards,
            "policy": self.policy,
            "members": {str(worker): asdict(member) for worker, member in self.members.items()},
        }
        if self.change is not None:
            shown["change"] = self.change.to_json()
        if self.last_change is not None:
            shown["last_change"] = self.last_change.to_json()
        if self.measured:
            shown["measured"] = {mode: asdict(rate) for mode, rate in self.measured.items()}
        return shown
