"""Where the machine is. See base/machine.py.

    OFF <---> WATCHING --asked--> ASKED --(seen in a sample)--> CHANGING --settled--> COOLING --rested--> WATCHING
                  ^  |              | refused                      ^                     |
                  |  |              v                              |                     |
                  |  +---------- (WATCHING)                        |                     |
                  |  +---- users change the layout ---------------+---------------------+

Bounds that are taken away lead to OFF from everywhere."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AutoPhase:
    """What may happen in each phase."""

    def bounded(self) -> Phase:
        """There are other bounds. What is under way goes on."""
        assert isinstance(self, On)
        return self

    def unbounded(self) -> Phase:
        return Off()


@dataclass(frozen=True)
class NothingChanging(AutoPhase):
    """What the phases have in which no change was seen yet."""

    def changing(self) -> Phase:
        """A change is seen. Here it is one that the machine has not asked for."""
        return ChangeUnderWay(None)


@dataclass(frozen=True)
class Off(AutoPhase):
    """Users alone change the number of workers."""

    def bounded(self) -> Phase:
        return Watching()

    def unbounded(self) -> Phase:
        return self


@dataclass(frozen=True)
class Watching(NothingChanging):
    """The next sample may lead to a change."""

    def asked(self, origin: int, target: int) -> Phase:
        return RescaleAsked(origin, target)


@dataclass(frozen=True)
class RescaleAsked(NothingChanging):
    """A change was asked for, and is not seen yet."""

    origin: int
    target: int

    def refused(self) -> Phase:
        return Watching()

    def changing(self) -> Phase:
        return ChangeUnderWay(self.target)


@dataclass(frozen=True)
class ChangeUnderWay(AutoPhase):
    """A change is under way. `target`: of one that the machine has asked for; None if a user has."""

    target: int | None

    def settled(self, until: float) -> Phase:
        return Cooling(until)


@dataclass(frozen=True)
class Cooling(NothingChanging):
    """A change has ended, and no other one is asked for before `until`, in seconds of samples."""

    until: float

    def rested(self) -> Phase:
        return Watching()


On = Watching | RescaleAsked | ChangeUnderWay | Cooling
Phase = Off | On
