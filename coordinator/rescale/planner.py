"""What a protocol is asked that decides which slots a live rescale moves together, where it does not move them in batches.

The command that runs the pipeline names the protocols that it has (`Planners`). The coordinator knows none of them.

A **round** is what a planner lets move at one boundary of a step. It takes one cut or several, and no step may begin before its last one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from base.slots import SlotSet
from coordinator.rescale.slot_moves import Owned


class Move(Protocol):
    """The state of all these slots goes from one worker to the other."""

    @property
    def slots(self) -> SlotSet: ...

    @property
    def source(self) -> int: ...

    @property
    def destination(self) -> int: ...


class Planner(Protocol):
    """The planner of one rescale, which leads from the owners at its beginning to those of one target. `messages`: how many its machines have
    sent each other."""

    messages: int

    def next(self, slots_max: int) -> Move | None:
        """The move that is due, the same one until `note_move` is called. Without one, a round begins that moves up to `slots_max` slots of a
        source, if the protocol lets the caller choose that. None if all has moved."""

    def note_move(self, owned: Owned) -> bool:
        """The move that is due has been carried out, and these are the owners now. Returns whether the round goes on. At its end it asserts
        that the workers own what they have by the protocol, and the invariants of its machines."""


NewPlanner = Callable[[Owned, Owned, int], Planner]
"""Makes a planner from the owners now, those of the target (both have all workers), and how many slots of a source one round may move."""

Planners = Mapping[str, NewPlanner]
"""By the protocol's name in LayoutIntent."""

NO_PLANNERS: Planners = MappingProxyType({})
"""The planners of a pipeline that moves slots in batches only."""
