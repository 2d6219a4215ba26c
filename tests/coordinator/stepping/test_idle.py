"""An input is idle after looks over so long a time have found nothing, and a step is due when a watermark would go on without it."""

from __future__ import annotations

from coordinator.stepping.idle import IdleInputs

A, B, C = (frozenset({name}) for name in "abc")
JOIN = {7: (A, B)}
"""The sources of each input of the watermark at node 7."""


def looked(machine: IdleInputs, until: float, *active: str, since: float = 0.0) -> IdleInputs:
    """Looks each second, from `since` to `until`, that have found rows of `active`."""
    for number in range(int(until - since) + 1):
        machine.look(since + number, active)
    return machine


def test_an_input_is_idle_when_it_has_been_silent_for_so_long_and_active_with_the_next_row() -> None:
    machine = looked(IdleInputs(JOIN, 10.0), 9, "a")
    assert machine.idle == () and not machine.is_due(())
    machine.look(10.0, ["a"])
    assert machine.idle == ("b",) and machine.is_due(()) and not machine.is_due(["b"])
    machine.look(11.0, ["b"])
    assert machine.idle == () and not machine.is_due(["b"])
    looked(machine, 20, "a", since=12)
    assert machine.idle == ()
    machine.look(21.0, ["a"])
    assert machine.idle == ("b",)


def test_without_the_setting_nothing_is_idle() -> None:
    machine = looked(IdleInputs(JOIN, None, ["b"]), 10_000, "a")
    assert machine.idle == () and not machine.is_due(())


def test_a_time_in_which_nobody_looks_makes_nothing_idle_alone() -> None:
    """A pause, or a broker that was away."""
    for silent in (1, 9):
        machine = looked(IdleInputs(JOIN, 10.0), silent, "a")
        looked(machine, 504, "a", since=500)
        assert machine.idle == ()
        looked(machine, 509, "a", since=505)
        assert machine.idle == ("b",)
        machine.look(900.0, ["a"])
        assert machine.idle == ("b",), "what is idle stays so until it has a row"


def test_a_restart_keeps_what_is_recorded_and_begins_the_silence_of_others_again() -> None:
    machine = IdleInputs(JOIN, 10.0, ["b", "of a former project"])
    assert machine.idle == ("b",) and not machine.is_due(["b"])
    assert looked(machine, 9).idle == ("b",)
    machine.look(10.0, ["b"])
    assert machine.idle == ("a",)


def test_another_program_of_the_same_run_goes_on() -> None:
    former = looked(IdleInputs(JOIN, 10.0), 6, "a")
    machine = IdleInputs({3: (B, C)}, 10.0)
    machine.take_over(former)
    assert looked(machine, 10, since=7).idle == ("b",)


def test_a_step_is_due_only_if_a_watermark_goes_on_without_an_input() -> None:
    both = looked(IdleInputs(JOIN, 10.0), 10)
    assert both.idle == ("a", "b") and not both.is_due(()), "of inputs that are all silent none is left out"
    assert not both.is_due(["b"]), "the watermark stays where it is"
    beside = looked(IdleInputs({7: (A, B), 9: (B, C)}, 10.0), 10, "c")
    assert beside.idle == ("a", "b") and beside.is_due(()) and not beside.is_due(["b"])
    whole = looked(IdleInputs({7: (A | C, B)}, 10.0), 10, "b", "c")
    assert whole.idle == ("a",) and not whole.is_due(()), "an input is idle if all of its sources are"
