"""The planners, asked as a rescale asks them: every slot moves once, and after each round the workers own what the
machines say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest

from base.slots import NO_SLOTS, SlotSet, drop_empty, why_no_partition
from coordinator.rescale.planner import Move, Planner
from protocols.damion import Distributor
from protocols.damion_planner import DamionPlanner
from protocols.icadd_planner import IcaddPlanner
from protocols.planners import PLANNERS
from tests.io_kafka.layouts import owned_by

Owned = dict[int, SlotSet]
UNEVEN = {0: SlotSet(((0, 1), (7, 40000))), 1: SlotSet(((1, 7), (40000, 65536)))}
ONE_ROUND = 1 << 16
CHANGES: dict[str, tuple[Owned, Owned, int]] = {
    "2 to 3": (owned_by(0, 1), owned_by(0, 1, 2), 2100),
    "3 to 2": (owned_by(0, 1, 2), owned_by(0, 1), ONE_ROUND),
    "1 to 4": (owned_by(0), owned_by(0, 1, 2, 3), ONE_ROUND),
    "others": (owned_by(0, 5), owned_by(1, 3), 2800),
    "even": (UNEVEN, owned_by(0, 1), 700),
    "give and get": (
        {0: SlotSet(((0, 100),)), 1: SlotSet(((100, 65536),))},
        {0: SlotSet(((50, 65536),)), 1: SlotSet(((0, 50),))},
        ONE_ROUND,
    ),
    "nothing": (owned_by(0, 1), owned_by(0, 1), 700),
}
"""The owners before and after, and how many slots a round may move: many rounds for some, and one for the others."""
OF_MANY_RECORDS = ("3 to 2", "1 to 4", "others")
"""In ICADD they take some seconds, because it sends a record for each slot."""


@dataclass
class Engine:
    """What the engine has: the slots of each worker."""

    owned: Owned
    target: Owned
    moved: int = 0

    def carry_out(self, move: Move) -> None:
        assert move.slots != NO_SLOTS and move.source != move.destination
        assert move.slots.is_within(self.owned[move.source]), "slots move that their source does not have"
        assert move.slots.is_within(self.target[move.destination]), "slots move to a worker that is not to own them"
        self.owned[move.source] = self.owned[move.source].minus(move.slots)
        self.owned[move.destination] = self.owned[move.destination].union(move.slots)
        self.moved += len(move.slots)


def engine_for(owned: Mapping[int, SlotSet], target: Mapping[int, SlotSet]) -> Engine:
    everybody = dict.fromkeys({*owned, *target}, NO_SLOTS)
    return Engine({**everybody, **owned}, {**everybody, **target})


def begun(protocol: str, engine: Engine, slots: int) -> DamionPlanner | IcaddPlanner:
    return PLANNERS[protocol](engine.owned, engine.target, slots)


def drive(planner: Planner, engine: Engine, slots_max: int) -> int:
    """The number of rounds."""
    rounds = 0
    while (move := planner.next(slots_max)) is not None:
        assert planner.next(slots_max) == move, "asked twice, it says the same"
        engine.carry_out(move)
        if not planner.note_move(engine.owned):
            rounds += 1
            assert why_no_partition(engine.owned) is None
    return rounds


@pytest.mark.parametrize(
    ("protocol", "change"),
    [
        *(("damion", change) for change in CHANGES),
        *(
            (pytest.param("icadd", change, marks=pytest.mark.soak) if change in OF_MANY_RECORDS else ("icadd", change))
            for change in CHANGES
        ),
    ],
)
def test_every_slot_that_has_another_owner_moves_once(protocol: str, change: str) -> None:
    before, after, slots_max = CHANGES[change]
    engine = engine_for(before, after)
    to_move = sum(len(slots.minus(engine.target[worker])) for worker, slots in engine.owned.items())
    planner = begun(protocol, engine, slots_max)
    planner.check(engine.owned)
    rounds = drive(planner, engine, slots_max)
    assert drop_empty(engine.owned) == drop_empty(engine.target) and engine.moved == to_move
    assert planner.next(slots_max) is None
    assert rounds >= to_move / slots_max / 2 and (rounds > 0) == (to_move > 0)
    assert planner.messages > 0


@pytest.mark.parametrize("protocol", ["damion", "icadd"])
def test_a_change_that_is_turned_halfway_goes_on_from_the_owners_that_it_has(protocol: str) -> None:
    """The machines of the first way are given up between two rounds, and others begin."""
    engine = engine_for(owned_by(0, 1), owned_by(0, 1, 2))
    first = dict(engine.owned)
    planner = begun(protocol, engine, 700)
    for _ in range(5):
        move = planner.next(700)
        assert move is not None
        engine.carry_out(move)
        planner.note_move(engine.owned)
    engine.target = first
    drive(begun(protocol, engine, 700), engine, 700)
    assert engine.owned == first


@pytest.mark.parametrize("protocol", ["damion", "icadd"])
def test_a_round_moves_as_many_slots_as_it_may(protocol: str) -> None:
    engine = engine_for(owned_by(0, 1), owned_by(0, 1, 2))
    planner = begun(protocol, engine, 700)
    move = planner.next(700)
    assert move is not None and len(move.slots) == 700


@pytest.mark.parametrize("protocol", ["damion", "icadd"])
def test_an_engine_that_moves_something_else_is_noticed(protocol: str) -> None:
    engine = engine_for(owned_by(0, 1), owned_by(0, 1, 2))
    planner = begun(protocol, engine, 700)
    move, goes_on = planner.next(700), True
    assert move is not None
    engine.carry_out(replace(move, slots=move.slots.first(len(move.slots) - 1)))
    with pytest.raises(AssertionError):
        while goes_on:
            goes_on = planner.note_move(engine.owned)


def test_a_distributor_that_forgets_a_key_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Distributor._redistribute

    def forgets(distributor: Distributor, message: object) -> object:
        instructions = real(distributor, message)  # type: ignore[arg-type]
        rule = distributor.rules[message.giver]  # type: ignore[attr-defined]
        rule.whitelist = rule.whitelist.minus(rule.whitelist)
        return instructions

    monkeypatch.setattr(Distributor, "_redistribute", forgets)
    engine = engine_for(owned_by(0, 1), owned_by(0, 1, 2))
    with pytest.raises(AssertionError):
        drive(begun("damion", engine, 700), engine, 700)
