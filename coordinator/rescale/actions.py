"""What the machine of a rescale asks the shell for."""

from __future__ import annotations

from dataclasses import dataclass

from base.slots import SlotSet
from io_kafka.step_log.layout_records import HostsPart, MoveStrategy, Target


@dataclass(frozen=True)
class Aim:
    """What a rescale is to do: where it leads to, and how slots move there."""

    target: Target
    strategy: MoveStrategy

    @property
    def is_cold(self) -> bool:
        """Whether no step may run while it is made."""
        return self.strategy.mode == "cold"


@dataclass(frozen=True)
class Wish:
    """A rescale that is asked for and that the log does not have yet. `asked`, `hosts`: see LayoutIntent."""

    aim: Aim
    asked: int | None
    hosts: HostsPart | None = None


@dataclass(frozen=True)
class LogRescale:
    """Write the intent of the rescale into the log."""

    wish: Wish


@dataclass(frozen=True)
class AddWorkers:
    """Make the workers that are new, so that they stand before `step`, and connect all workers to each other."""

    new: tuple[int, ...]
    step: int


@dataclass(frozen=True)
class Cut:
    """Let some of these slots, the first ones, go from one worker to the other; all of them if `is_whole`."""

    slots: SlotSet
    source: int
    destination: int
    is_whole: bool


@dataclass(frozen=True)
class RemoveWorkers:
    """Let these workers, which own nothing and belong to no version that is needed, leave."""

    leaving: tuple[int, ...]


RescaleAction = LogRescale | AddWorkers | Cut | RemoveWorkers
