"""Where the machine is. See base/machine.py.

    OFF <---> WATCHING --asked--> ASKED --(seen in a sample)--> CHANGING --settled--> COOLING --rested--> WATCHING
                  ^  |              | refused                      ^                     |
                  |  |              v                              |                     |
                  |  +---------- (WATCHING)                        |                     |
                  |  +---- somebody else changes the layout -------+---------------------+

Bounds that are taken away lead to OFF from everywhere."""

from __future__ import annotations

from dataclasses import dataclass


class _On:
    """What may happen in each phase but OFF."""

    def bounded(self) -> Phase:
        """There are other bounds. What is under way goes on."""
        assert isinstance(self, On)
        return self

    def unbounded(self) -> Phase:
        return Off()


@dataclass(frozen=True)
class Off:
    """Users alone change the number of workers."""

    def bounded(self) -> Phase:
        return Watching()

    def unbounded(self) -> Phase:
        return self


@dataclass(frozen=True)
class Watching(_On):
    """The next sample may lead to a change."""

    def asked(self, origin: int, target: int) -> Phase:
        return RescaleAsked(origin, target)

    def changing(self) -> Phase:
        return ChangeUnderWay(None)


@dataclass(frozen=True)
class RescaleAsked(_On):
    """A change was asked for, and is not seen yet."""

    origin: int
    target: int

    def refused(self) -> Phase:
        return Watching()

    def changing(self) -> Phase:
        return ChangeUnderWay(self.target)

    def settled(self, until: float) -> Phase:
        return Cooling(until)


@dataclass(frozen=True)
class ChangeUnderWay(_On):
    """A change is under way. `target`: of one that the machine has asked for; None if somebody else has."""

    target: int | None

    def settled(self, until: float) -> Phase:
        return Cooling(until)


@dataclass(frozen=True)
class Cooling(_On):
    """A change has ended, and no other one is asked for before `until`, in seconds of samples."""

    until: float

    def rested(self) -> Phase:
        return Watching()

    def changing(self) -> Phase:
        return ChangeUnderWay(None)


On = Watching | RescaleAsked | ChangeUnderWay | Cooling
Phase = Off | On
