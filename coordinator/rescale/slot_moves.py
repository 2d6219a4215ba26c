"""Which slots have to go from one worker to another: decisions without I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from base.slots import NO_SLOTS, SlotSet, drop_empty

Owned = Mapping[int, SlotSet]
"""The slots of each worker, also of those without any."""

SlotMoves = Mapping[tuple[int, int], SlotSet]
"""The slots that go from a source to a destination."""


class Portion(NamedTuple):
    """Slots that are copied and then moved together, by one cut."""

    slots: SlotSet
    source: int
    destination: int


def slot_moves(owned: Owned, target: Owned) -> dict[tuple[int, int], SlotSet]:
    """The slots that have to go from one worker to another, by (source, destination)."""
    found: dict[tuple[int, int], SlotSet] = {}
    for source, slots in owned.items():
        for destination, wanted in target.items():
            if source != destination and (moving := slots.intersection(wanted)) != NO_SLOTS:
                found[source, destination] = moving
    return found


def slots_of(moves: SlotMoves) -> SlotSet:
    """All slots that go anywhere."""
    return SlotSet.of(span for slots in moves.values() for span in slots.ranges)


def slots_to_leave(owned: Owned, target: Owned) -> dict[int, SlotSet]:
    """The slots that each worker has to give away, of those that have to."""
    return drop_empty({worker: slots.minus(target.get(worker, NO_SLOTS)) for worker, slots in owned.items()})


def missing_members(members: Collection[int], owned: Owned) -> tuple[int, ...]:
    """The members that are not there yet."""
    return tuple(member for member in members if member not in owned)
