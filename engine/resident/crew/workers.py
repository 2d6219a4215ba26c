"""The workers that are bound, with their placement: what all orders of a crew go through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.model.placement import Placement
from engine.resident.messages import A, BackgroundOrder, Notice, Order
from engine.resident.roster import Roster


@dataclass(frozen=True)
class DiskUse:
    """What a worker has said last of its state and of the disk under it, in bytes. `host`: names the folder of its host."""

    host: str
    state_bytes: int
    free_bytes: int


class Workers:
    """What the parts of a crew share: the roster, and what is true of all workers together. `placement`: None until the workers have joined
    each other. `disk_use`: by worker, since its database was opened, and since each checkpoint."""

    def __init__(self, roster: Roster) -> None:
        self.roster = roster
        self.placement: Placement | None = None
        self.disk_use: dict[int, DiskUse] = {}
        self.program = ""
        """The name of the program's document that all workers have adopted; empty if they run what they were started with."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the workers, ascending: those that have joined each other, and before that those that are bound."""
        return self.placement.workers if self.placement is not None else tuple(sorted(self.roster.members))

    def ask(self, order: Order[A]) -> dict[int, A]:
        """Gives all workers the order, and waits for their answers. Raises the fault of the lowest worker that had one."""
        return self.roster.ask_each(dict.fromkeys(self.numbers, order))

    def send(self, order: Order[Any] | Notice) -> None:
        for number in self.numbers:
            self.roster.send(number, order)

    def poll_answers(self, kind: type[BackgroundOrder[A]]) -> dict[int, A] | None:
        """The answers to the orders that `Roster.begin` has given; None until all workers have answered. Raises the fault of a worker as soon as
        it is there, without waiting for the others, and TaskLost if a worker was lost."""
        self.roster.poll(0.0)
        self.roster.raise_failures(kind)
        answers = self.roster.poll_answers(kind)
        return None if answers is None else {number: answer for number, (answer, _) in answers.items()}

    def poll_each(self, kind: type[BackgroundOrder[A]]) -> dict[int, A]:
        """The answers to the orders that `Roster.begin` has given which are there and were not taken yet. Raises as `poll_answers`."""
        self.roster.poll(0.0)
        self.roster.raise_failures(kind)
        return {number: answer for number, (answer, _) in self.roster.poll_each(kind).items()}

    def note_disk_use(self, number: int, state_bytes: int, free_bytes: int) -> None:
        self.disk_use[number] = DiskUse(self.roster.members[number].registered.folder_name, state_bytes, free_bytes)
