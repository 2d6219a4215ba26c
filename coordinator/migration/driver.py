"""Drives a protocol for the engine: its machines decide, between the steps, which slots a change of the layout moves next.

To the engine, a slot is a key. At the boundary of a step no record is under way, so the machines get no records, and their channels live in this
process. What is left of a message with state is a **move**: the engine carries it out as a cut, and only then the message arrives.

A **round** is what the machines do at one boundary. It ends when nothing can go on but by the next round's word, and then no key is held, so a
step may begin: every worker has the slots that the machines say. `check` asserts that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from base.slots import SlotSet


@dataclass(frozen=True)
class Move:
    """The state of all these slots goes from one worker to the other."""

    slots: SlotSet
    source: int
    destination: int


class Migration(Protocol):
    """The machines of one change. `messages`: how many they have sent each other. `is_within_round`: no step may begin now."""

    messages: int

    @property
    def is_within_round(self) -> bool: ...

    @property
    def is_done(self) -> bool: ...

    def next(self, slots_max: int) -> Move | None:
        """The move that is due, the same one until `moved` is called. Without one, a round begins that moves up to `slots_max` slots of a
        source, if the protocol lets the caller choose that. None if all machines have ended."""

    def moved(self) -> None:
        """The move that is due has been carried out."""

    def check(self, owned: Mapping[int, SlotSet]) -> None:
        """Asserts that each worker owns the slots that it has by the protocol, and the machines' own invariants. Called between rounds."""
