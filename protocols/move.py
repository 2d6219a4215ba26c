"""What a planner lets the engine do."""

from __future__ import annotations

from dataclasses import dataclass

from base.slots import SlotSet


@dataclass(frozen=True)
class Move:
    """The state of all these slots goes from one worker to the other."""

    slots: SlotSet
    source: int
    destination: int
