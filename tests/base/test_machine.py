"""A machine accepts the events of its present phase, and no others."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from base.machine import InvalidTransition, Machine


@dataclass(frozen=True)
class Lit:
    """What both phases have in which a lamp is lit."""

    def dimmed(self) -> Dark:
        return Dark()


@dataclass(frozen=True)
class Bright(Lit):
    def turned(self, by: int) -> Bright | Dim:
        return Dim() if by < 0 else self


@dataclass(frozen=True)
class Dim(Lit):
    flashed: bool = False

    def dimmed(self) -> Dark:
        return Dark(was_dim=True)


@dataclass(frozen=True)
class Dark:
    was_dim: bool = False

    def turned(self, by: int) -> Bright:
        return Bright()

    def flashed(self) -> Bright:
        return Bright()


def lamp(phase: Bright | Dim | Dark) -> Machine[Bright | Dim | Dark]:
    return Machine(phase)


def test_an_event_of_the_phase_gives_the_next_one() -> None:
    machine = lamp(Bright())
    machine.tell(Bright.turned, by=-1)
    assert machine.phase == Dim()
    assert list(machine.story) == ["Bright.turned -> Dim"]


def test_a_shared_event_is_that_of_a_common_class_and_may_be_overridden() -> None:
    bright, dim = lamp(Bright()), lamp(Dim())
    for machine in (bright, dim):
        machine.tell(Lit.dimmed)
    assert (bright.phase, dim.phase) == (Dark(), Dark(was_dim=True))


def test_an_event_of_another_phase_is_refused_although_the_present_one_has_a_method_of_the_same_name() -> None:
    machine = lamp(Dark())
    with pytest.raises(InvalidTransition, match="'turned' cannot happen in the phase Dark"):
        machine.tell(Bright.turned, 1)
    assert machine.phase == Dark()


def test_a_field_of_the_same_name_is_no_event() -> None:
    with pytest.raises(InvalidTransition, match="'flashed' cannot happen in the phase Dim; before: nothing"):
        lamp(Dim()).tell(Dark.flashed)
