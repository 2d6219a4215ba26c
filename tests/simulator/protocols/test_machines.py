"""The machines of Damion's protocol one message at a time: the order of a change, and what they refuse."""

from __future__ import annotations

import pytest

from protocols.assignment import Assignment, Naming, Reassignment
from protocols.damion import Distributor, Operator
from protocols.damion_messages import (
    Begin,
    Drop,
    Final,
    Hold,
    Input,
    Install,
    Installed,
    Instruction,
    Named,
    Packing,
    Part,
    Process,
    Record,
    Redistribute,
    Release,
    Send,
    Sets,
    Shutdown,
    State,
)
from protocols.keys import HASH_END, NO_KEYS, Explicit, Interval

OLD = Assignment((0, 100), ("y", "z"))
NEW = Assignment((0,), ("y",))
MOVED = Interval(((100, HASH_END),))


def change(naming: Naming = Naming.EXPLICIT, number: int = 1) -> Reassignment:
    """Takes z away, one key at a time."""
    return Reassignment(number, OLD, NEW, naming, 1)


def keys(*listed: int) -> Explicit:
    return Explicit(frozenset(listed))


def record(key: int, sequence: int, at: int = 0, origin: str = "x") -> Record:
    return Record(key, origin, sequence, at, "body")


def begun(naming: Naming = Naming.EXPLICIT) -> Distributor:
    distributor = Distributor("x", OLD)
    assert distributor.receive(Begin(change(naming))) == [Send("z", Shutdown(change(naming)))]
    return distributor


def route(distributor: Distributor, key: int) -> Instruction:
    [instruction] = distributor.receive(Input(key, "body"))
    distributor.check()
    return instruction


def places(distributor: Distributor, *listed: int) -> list[str]:
    went = [route(distributor, key) for key in listed]
    assert all(isinstance(each, Send | Hold) for each in went)
    return [each.to if isinstance(each, Send) else "held" for each in went]


def test_a_distributor_through_a_change() -> None:
    x = begun()
    assert places(x, 7, 104, 105, 107) == ["y", "held", "held", "held"], "only what moves waits for the sets"
    released = x.receive(Sets(1, "z", whitelist=keys(105), hold=keys(104)))
    assert released == [Send("z", Final(1, keys(104))), Release(105, "z"), Release(107, "y")]
    assert places(x, 104, 105, 107, 7) == ["held", "z", "y", "y"]
    assert x.receive(Redistribute(1, "z", given=keys(104), following=keys(105))) == [Send("z", Final(1, keys(105)))]
    assert places(x, 104, 105) == ["held", "held"], "a state that is on its way is not there yet"
    assert x.receive(Installed(1, "z", keys(104))) == [Release(104, "y")]
    assert x.receive(Redistribute(1, "z", given=keys(105), following=NO_KEYS)) == []
    assert places(x, 104, 105) == ["y", "held"] and x.reassignment is not None
    assert x.receive(Installed(1, "z", keys(105))) == [Release(105, "y")]
    assert x.reassignment is None and x.assignment == NEW and places(x, 104, 105) == ["y", "y"]


def test_an_answer_may_come_before_the_next_keys() -> None:
    x = begun()
    x.receive(Sets(1, "z", whitelist=keys(105), hold=keys(104)))
    assert x.receive(Installed(1, "z", keys(104))) == []
    assert places(x, 104, 105) == ["y", "z"] and x.reassignment is not None, "the whitelist still has a key"


def test_with_ranges_nothing_waits_for_the_sets() -> None:
    x = begun(Naming.INTERVAL)
    assert places(x, 7, 104, 107) == ["y", "z", "z"]
    x.receive(Sets(1, "z", Interval(((105, HASH_END),)), Interval(((100, 105),))))
    assert places(x, 104, 107) == ["held", "z"], "a new key is in one of the sets"


def test_a_change_in_which_nothing_moves_ends_at_once() -> None:
    x = Distributor("x", OLD)
    assert x.receive(Begin(Reassignment(1, OLD, OLD, Naming.EXPLICIT, 1))) == [] and x.reassignment is None


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (Begin(change()), "before change 1 has ended"),
        (Sets(1, "z", NO_KEYS, keys(104)), "come twice"),
        (Sets(2, "z", NO_KEYS, keys(104)), "of change 2 in change 1"),
        (Redistribute(1, "z", keys(104), keys(106)), "in no set"),
        (Installed(1, "z", keys(105)), "not held"),
    ],
)
def test_a_distributor_refuses_what_cannot_come(message: Begin | Sets | Redistribute | Installed, text: str) -> None:
    x = begun()
    x.receive(Sets(1, "z", whitelist=keys(105), hold=keys(104)))
    with pytest.raises(AssertionError, match=text):
        x.receive(message)


@pytest.mark.parametrize(
    ("sets", "text"),
    [
        (Sets(1, "z", keys(104), keys(104)), "share keys"),
        (Sets(1, "z", keys(7), keys(104)), "does not give away"),
    ],
)
def test_a_distributor_checks_its_sets(sets: Sets, text: str) -> None:
    x = begun()
    x.receive(sets)
    with pytest.raises(AssertionError, match=text):
        x.check()


def test_an_old_owner_does_not_end_with_keys_that_have_had_no_turn() -> None:
    with pytest.raises(AssertionError, match="has ended with keys in its whitelist"):
        begun().receive(Sets(1, "z", whitelist=keys(105), hold=NO_KEYS))


def operator(instance: str = "z", position: int = 0, length: int = 1) -> Operator:
    names = [instance, *(f"{instance}/{at}" for at in range(1, length)), None]
    name = names[position]
    assert name is not None
    return Operator(name, instance, position, names[position + 1], frozenset({"x", "w"}))


STATES = {104: "s4", 105: "s5", 7: "s7"}


def test_an_old_owner_through_a_change() -> None:
    z, states = operator(), dict(STATES)
    assert z.receive("x", record(104, 0), states) == [Process(record(104, 0))]
    assert z.receive("x", Shutdown(change()), states) == [], "the other distributor can still send new keys"
    sets = Sets(1, "z", whitelist=keys(105), hold=keys(104))
    assert z.receive("w", Shutdown(change()), states) == [Send("w", sets), Send("x", sets)]
    assert z.receive("w", Final(1, keys(104)), states) == []
    part = Part({104: "s4"}, {104: {"x": 0}})
    more = Redistribute(1, "z", keys(104), keys(105))
    assert z.receive("x", Final(1, keys(104)), states) == [
        Drop(104),
        Send("y", State(1, "z", keys(104), (part,))),
        Send("w", more),
        Send("x", more),
    ]
    with pytest.raises(AssertionError, match=r"\[104\] is here and in a message"):
        z.check(states)
    del states[104]
    z.check(states)
    with pytest.raises(AssertionError, match="after its state has left"):
        z.receive("x", record(104, 1, at=1), states)
    assert z.receive("x", record(104, 2, at=2), states) == [Process(record(104, 2, at=2))], (
        "the next change may bring it back"
    )


def test_the_chain_of_an_old_owner_names_and_packs_together() -> None:
    first, last = operator(length=2), operator(position=1, length=2)
    first.receive("x", Shutdown(change()), {104: "s4"})
    named = Named(change(), keys(104))
    assert first.receive("w", Shutdown(change()), {104: "s4"}) == [Send("z/1", named)]
    sets = Sets(1, "z", whitelist=keys(106), hold=keys(104))
    assert last.receive("z", named, {106: "t6"}) == [Send("w", sets), Send("x", sets)]
    first.receive("x", Final(1, keys(104)), {104: "s4"})
    packing = Packing(1, keys(104), (Part({104: "s4"}, {}),))
    assert first.receive("w", Final(1, keys(104)), {104: "s4"}) == [Drop(104), Send("z/1", packing)]
    state = State(1, "z", keys(104), (Part({104: "s4"}, {}), Part({}, {})))
    assert last.receive("z", packing, {106: "t6"})[0] == Send("y", state)


def test_the_chain_of_a_new_owner_answers_when_all_of_it_has_the_state() -> None:
    first, last = operator("y", length=2), operator("y", position=1, length=2)
    state = State(1, "z", keys(104), (Part({104: "s4"}, {}), Part({104: "t4"}, {})))
    assert first.receive("z/1", state, {}) == [Install(104, "s4"), Send("y/1", state)]
    answer = Installed(1, "z", keys(104))
    assert last.receive("y", state, {}) == [Install(104, "t4"), Send("w", answer), Send("x", answer)]


def test_a_key_without_state_is_answered_too() -> None:
    y = operator("y")
    answer = Installed(1, "z", MOVED)
    assert y.receive("z", State(1, "z", MOVED, (Part({}, {}),)), {}) == [Send("w", answer), Send("x", answer)]


def test_the_order_of_a_key_goes_with_its_state() -> None:
    y = operator("y")
    y.receive("z", State(1, "z", keys(104), (Part({104: "s4"}, {104: {"x": 5}}),)), {})
    y.receive("w", record(104, 2, at=1, origin="w"), {104: "s4"})
    with pytest.raises(AssertionError, match="record 5 of x comes after 5"):
        y.receive("x", record(104, 5, at=1), {104: "s4"})


def test_a_state_is_not_installed_twice() -> None:
    with pytest.raises(AssertionError, match=r"the state of keys \[104\] comes from z, and is there"):
        operator("y").receive("z", State(1, "z", keys(104), (Part({104: "s4"}, {}),)), {104: "newer"})


def test_an_operator_refuses_what_cannot_come() -> None:
    z = operator()
    with pytest.raises(AssertionError, match="FINAL of change 1"):
        z.receive("x", Final(1, keys(104)), STATES)
    z.receive("x", Shutdown(change()), STATES)
    with pytest.raises(AssertionError, match="SHUTDOWN of x comes twice"):
        z.receive("x", Shutdown(change()), STATES)
    z.receive("w", Shutdown(change()), STATES)
    z.receive("x", Final(1, keys(104)), STATES)
    with pytest.raises(AssertionError, match="FINAL of x comes twice"):
        z.receive("x", Final(1, keys(104)), STATES)
    with pytest.raises(AssertionError, match="different keys"):
        z.receive("w", Final(1, keys(105)), STATES)
