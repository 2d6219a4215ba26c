"""The machine of a rescale: every way through it, and what it must not do."""

from __future__ import annotations

import random
import re
import typing
from dataclasses import FrozenInstanceError, replace
from inspect import isfunction
from typing import Any

import pytest

from base.machine import InvalidTransition
from base.slots import NO_SLOTS, SLOTS, SlotSet
from coordinator.rescale import phases
from coordinator.rescale.actions import AddWorkers, Cut, LogRescale, RemoveWorkers
from coordinator.rescale.machine import Rescale
from coordinator.rescale.phases import (
    AddingWorkers,
    AllMoved,
    Idle,
    MovingCold,
    MovingLive,
    MovingPortions,
    MovingRounds,
    MovingSlots,
    NeedsTasks,
    Phase,
    RemovingWorkers,
    UnderWay,
    WantedRescale,
    Weighing,
    phase_after_recovery,
)
from coordinator.rescale.slot_moves import Portion, slot_moves
from io_kafka.step_log.layout_records import CutProtocol, RescaleMode
from tests.coordinator.rescale.driving import Driven, moving, wish
from tests.io_kafka.layouts import owned_by, target, turn

PHASES: tuple[type, ...] = typing.get_args(Phase)
SHARED: tuple[type, ...] = (UnderWay, NeedsTasks, MovingSlots, MovingLive)
"""Classes of several phases, which have the events that may happen in all of these."""
NOT_EVENTS = {"next"}


def events_of(kind: type) -> dict[str, Any]:
    """The public methods that a class defines itself."""
    return {n: f for n, f in vars(kind).items() if callable(f) and not n.startswith("_") and n not in NOT_EVENTS}


def test_the_table_of_events_is_that_of_the_code() -> None:
    """And the phases that an event may lead to are those of its result's type."""
    assert phases.__doc__ is not None
    table = phases.__doc__.split("phase            event              next phase\n")[1].split("\n\n")[0]
    said = {}
    for line in table.splitlines():
        phase, event, next_phases = re.split(r"\s{2,}", line.strip(), maxsplit=2)
        same = {"Self"} if next_phases.startswith("the same") else set()
        said[phase, event] = frozenset(same | set(re.findall(r"\b[A-Z]\w+", next_phases)))
    done = {}
    for kind in (*PHASES, *SHARED):
        for name, method in events_of(kind).items():
            result = typing.get_type_hints(method, vars(phases))["return"]
            kinds = typing.get_args(result) or (result,)
            done[kind.__name__, name] = frozenset(each.__name__ for each in kinds)
    assert said == done


def test_all_phases_are_in_the_other_tables_too() -> None:
    assert phases.__doc__ is not None
    names = [kind.__name__ for kind in PHASES]
    first, waits = phases.__doc__.split("\n\n")[1:3]
    assert re.findall(r"\w+", first) == [*names, "Idle"]
    assert [line.split()[0] for line in waits.splitlines()[1:]] == names


def test_a_phase_cannot_be_written() -> None:
    rescale = moving()
    with pytest.raises(FrozenInstanceError):
        rescale.phase.needs_checkpoint = True  # type: ignore[misc, union-attr]


def one_of_each() -> dict[type, Driven]:
    """A machine in each phase."""
    found: dict[type, Driven] = {}

    def keep(rescale: Driven) -> Driven:
        copy = Driven(*rescale.log.current_layout.placed.births)
        copy.phase, copy.log = rescale.phase, rescale.log
        copy.story.extend(rescale.story)
        found.setdefault(type(rescale.phase), copy)
        return rescale

    wishes = (
        wish("live", target(0, 1, 2)),
        wish("live", target(0)),
        wish("cold", target(0)),
        wish("live", target(0), "damion"),
    )
    for wanted in wishes:
        rescale = keep(Driven(0, 1))
        rescale.tell(Idle.requested, wanted)
        keep(rescale)
        if isinstance(rescale.phase, WantedRescale) and rescale.phase.new:
            rescale.tell(NeedsTasks.recruited)
        rescale.act(rescale.following())
        while not isinstance(keep(rescale).phase, Idle):
            match rescale.phase:
                case Weighing():
                    rescale.weigh()
                case MovingPortions():
                    rescale.copy()
                    rescale.no_step_comes()
                    rescale.act(rescale.following())
                case MovingRounds():
                    rescale.no_step_comes()
                    rescale.act(rescale.following())
                case AllMoved():
                    rescale.checkpoint()
                case _:
                    rescale.act(rescale.following())
    assert found.keys() == set(PHASES)
    return found


EVENTS = {name: method for kind in (*PHASES, *SHARED) for name, method in events_of(kind).items()}


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_that_a_phase_does_not_know_is_refused_with_what_led_there(event: str) -> None:
    for kind, rescale in one_of_each().items():
        if isfunction(getattr(kind, event, None)):
            continue
        before = rescale.phase
        with pytest.raises(InvalidTransition, match=f"'{event}' cannot happen in the phase {kind.__name__}") as caught:
            rescale.tell(EVENTS[event])
        assert rescale.phase is before
        if kind not in (Idle, WantedRescale):
            assert "Idle.requested -> WantedRescale" in str(caught.value) and "WantedRescale.intended -> " in str(
                caught.value
            )


Workers = tuple[int, ...]
LAYOUTS: list[tuple[Workers, Workers]] = [
    ((0, 1), (0, 1, 2)),
    ((0, 1, 2), (0, 1)),
    ((0,), (0, 1, 2, 3)),
    ((0, 5), (1, 3)),
]
MODES: tuple[RescaleMode, ...] = ("cold", "live")
PROTOCOLS: tuple[CutProtocol, ...] = ("damion", "icadd")


@pytest.mark.parametrize(
    ("mode", "protocol", "before", "after", "seed"),
    [
        *((mode, "batches", *layouts, seed) for mode in MODES for layouts in LAYOUTS for seed in range(3)),
        # Their machines have something to do for each slot, and no seed moves them: tests/protocols has more of them.
        *(("live", protocol, (0, 5), (1, 3), 0) for protocol in PROTOCOLS),
    ],
)
def test_a_rescale_ends_with_the_owners_of_its_target(
    mode: RescaleMode, protocol: CutProtocol, before: Workers, after: Workers, seed: int
) -> None:
    dice, rescale = random.Random(seed), Driven(*before, slots_per_round=20_000)
    rescale.request(wish(mode, target(*after), protocol))
    for _ in range(300):
        phase, action = rescale.phase, rescale.following()
        if isinstance(phase, AllMoved):
            break
        if action is not None:
            rescale.act(action, dice)
        elif isinstance(phase, Weighing):
            rescale.weigh()
        else:
            assert isinstance(phase, MovingPortions | MovingRounds)
            if isinstance(phase, MovingPortions) and rescale.left_to_copy() and dice.random() < 0.5:
                rescale.copy(dice.randint(1, SLOTS // 4))
            else:
                rescale.stepped()
        within_round = isinstance(rescale.phase, MovingRounds) and rescale.phase.is_within_round
        assert rescale.blocks_steps == (mode == "cold" or within_round)
    assert rescale.is_moved and dict(rescale.owned) | owned_by(*after) == dict(rescale.owned)
    rescale.checkpoint()
    assert rescale.log.rescale is None and rescale.number == 1
    if left := set(before) - set(after):
        assert rescale.following(checkpointing=True) is None, "they take part in the fold"
        assert rescale.following() == RemoveWorkers(tuple(sorted(left)))
        rescale.act(rescale.following())
    assert rescale.is_idle and dict(rescale.owned) == owned_by(*after)


@pytest.mark.parametrize("steps_between", [1, 3])
def test_between_two_cuts_of_a_live_rescale_come_as_many_steps_as_it_is_told(steps_between: int) -> None:
    rescale = moving()
    for _ in range(2):
        rescale.copy(3)
    assert isinstance(rescale.following(), Cut) and rescale.due()
    rescale.act(rescale.following(), steps_between=steps_between)
    for _ in range(steps_between):
        assert rescale.following() is None and not rescale.due()
        rescale.stepped()
    assert isinstance(rescale.following(), Cut)


def test_the_next_cut_of_a_live_rescale_is_due_at_once_if_no_step_comes() -> None:
    rescale = moving()
    for _ in range(2):
        rescale.copy(3)
    rescale.act(rescale.following(), steps_between=9)
    rescale.no_step_comes()
    assert isinstance(rescale.following(), Cut)


def test_the_cuts_of_a_live_rescale_move_what_was_copied_portion_by_portion() -> None:
    """In the order of the copies, while the steps go on. Nothing moves without a copy."""
    rescale = moving()
    assert rescale.following() is None and not rescale.blocks_steps and not rescale.due()
    first, second = rescale.copy(5), rescale.copy(7)
    assert first.slots.intersection(second.slots) == NO_SLOTS and not rescale.blocks_steps
    for portion in (first, second):
        cut = rescale.following()
        assert cut == Cut(portion.slots, portion.source, portion.destination, is_whole=True)
        rescale.act(cut)
        assert portion.slots.is_within(rescale.owned[portion.destination]) and not rescale.blocks_steps
        assert rescale.following() is None
        rescale.stepped()
    assert (
        isinstance(rescale.phase, MovingPortions)
        and rescale.phase.copied_portions == ()
        and rescale.following() is None
    )


def test_a_turn_forgets_what_was_copied_for_other_slots() -> None:
    rescale = moving()
    rescale.copy(5)
    rescale.turn(turn(workers=(0,)))
    assert isinstance(rescale.phase, Weighing)
    rescale.weigh()
    assert rescale.phase.copied_portions == () and rescale.following() is None  # type: ignore[attr-defined]


def test_a_worker_that_gets_a_copy_does_not_leave_before_the_copy_is_over() -> None:
    """It would never answer, and the source would wait for ever."""
    rescale = moving()
    rescale.tell(UnderWay.copies_changed, True)
    rescale.turn(turn(workers=(0, 1)))
    assert rescale.is_moved
    rescale.checkpoint()
    assert isinstance(rescale.phase, RemovingWorkers) and rescale.phase.leaving == (2,) and rescale.following() is None
    rescale.tell(RemovingWorkers.copies_changed, False)
    assert rescale.following() == RemoveWorkers((2,))


@pytest.mark.parametrize("protocol", ["damion", "icadd"])
def test_a_round_of_a_protocol_ends_before_the_next_step_also_where_it_is_paused(protocol: CutProtocol) -> None:
    """One worker gives slots to two others in a round, which takes two cuts."""
    rescale = Driven(0, slots_per_round=60)
    ranges = (*((first, 1 + first // 20 % 2) for first in range(0, 400, 20)), (400, 0))
    interleaved = target(0, 1, 2).model_copy(update={"ranges": ranges})
    rescale.request(wish("live", interleaved, protocol))
    for _ in range(2):
        rescale.act(rescale.following())
    rescale.weigh()
    assert not rescale.blocks_steps
    first = rescale.following()
    assert isinstance(first, Cut) and first.is_whole and first == rescale.following() and rescale.due()
    rescale.act(first)
    assert rescale.blocks_steps and rescale.due()
    rescale.tell(UnderWay.paused, True)
    second = rescale.following()
    assert isinstance(second, Cut) and rescale.blocks_steps
    assert {first.destination, second.destination} == {1, 2} and len(first.slots) + len(second.slots) == 60
    rescale.act(second)
    assert not rescale.blocks_steps and rescale.following() is None
    rescale.tell(UnderWay.paused, False)
    assert rescale.following() is None, "one round between two steps"
    rescale.stepped()
    assert isinstance(rescale.following(), Cut)


def test_a_cold_rescale_makes_all_its_cuts_at_once() -> None:
    rescale = moving("cold")
    cuts = 0
    while isinstance(cut := rescale.following(), Cut):
        rescale.act(cut)
        cuts += 1
    assert cuts == 2 and rescale.is_moved


@pytest.mark.parametrize("needs_checkpoint", [False, True])
def test_a_rescale_that_is_held_makes_no_cut(needs_checkpoint: bool) -> None:
    rescale = moving()
    rescale.copy()
    assert rescale.following() is not None
    if needs_checkpoint:
        rescale.tell(MovingLive.checkpoint_needed, True)
    else:
        rescale.tell(UnderWay.paused, True)
    assert rescale.following() is None and not rescale.blocks_steps


def test_a_pause_lasts_through_a_turn_and_ends_with_the_rescale() -> None:
    rescale = moving("cold")
    rescale.tell(UnderWay.paused, True)
    rescale.turn(turn(workers=(0, 1)))
    assert rescale.is_paused
    rescale.checkpoint()
    rescale.act(rescale.following())
    rescale.request(wish("cold", target(0)))
    rescale.act(rescale.following())
    assert not rescale.is_paused


def test_no_worker_is_made_while_a_checkpoint_is_folded_or_steps_are_replayed() -> None:
    rescale = Driven(0, 1)
    rescale.request(wish("live", target(0, 1, 2)))
    assert rescale.following(checkpointing=True) is None and rescale.following(replaying=True) is None
    assert isinstance(rescale.following(), LogRescale)
    rescale.act(rescale.following())
    assert rescale.following(checkpointing=True) is None and rescale.following(replaying=True) is None
    assert rescale.following() == AddWorkers((2,), 7)


def test_after_a_turn_the_slots_go_back_and_a_checkpoint_of_before_does_not_settle_that() -> None:
    rescale = moving()
    rescale.copy()
    rescale.act(rescale.following())
    rescale.turn(turn(workers=(0, 1)))
    assert not rescale.is_moved
    rescale.checkpoint(owned_by(0, 1))  # it was frozen before the cut
    assert rescale.log.rescale is not None
    rescale.weigh()
    rescale.stepped()
    while not rescale.is_moved:
        rescale.copy(4000)
        rescale.act(rescale.following())
        rescale.stepped()
    assert rescale.owned[2] == NO_SLOTS
    rescale.checkpoint()
    assert rescale.log.current_layout.outcome == "reversed" and rescale.phase == RemovingWorkers(
        rescale.owned, (2,), False
    )


@pytest.mark.parametrize("moved", [False, True])
def test_a_run_goes_on_in_the_phase_that_is_left_to_do(moved: bool) -> None:
    """With the owners of the version that was opened, which may have none of the new workers, or all."""
    rescale = moving()
    assert rescale.log.rescale is not None
    opened = owned_by(0, 1, 2) if moved else owned_by(0, 1)
    phase = phase_after_recovery(opened, rescale.log.rescale, rescale.log.target)
    assert isinstance(phase, AllMoved if moved else AddingWorkers)
    assert phase_after_recovery(opened, None, None) == Idle(opened)
    again = Rescale(phase_after_recovery(opened, rescale.log.rescale, rescale.log.target))
    again.check(rescale.log)
    assert again.phase == phase


WRONG: dict[str, tuple[RescaleMode, Any]] = {
    "worker 0 owns .*, which neither the layout nor a target of the change gives it": (
        "live",
        {"owned": {0: owned_by(0, 1)[1], 1: owned_by(0, 1)[0], 2: NO_SLOTS}, "moves": "recounted"},
    ),
    "no worker owns slots 32768-65535": (
        "live",
        {"owned": {0: owned_by(0, 1)[0], 1: NO_SLOTS, 2: NO_SLOTS}, "moves": "recounted"},
    ),
    "the rescale leads to .*, and that of the log": ("live", {"aim": "other"}),
    "are to move, and .* have to": ("live", {"moves": {(0, 1): SlotSet(((0, 1),))}}),
    "slots 0 were copied and do not move": ("live", {"copied_portions": (Portion(SlotSet(((0, 1),)), 0, 2),)}),
    "slots were copied twice": ("live", {"copied_portions": "twice"}),
    "slots are copied in a rescale that moves them without that": ("cold", {"phase": MovingPortions}),
    "a live rescale moves its slots as a cold one": ("live", {"phase": MovingCold}),
    "a planner in a rescale without a protocol": ("live", {"phase": MovingRounds}),
    "have to move still": ("live", {"phase": AllMoved}),
    "workers .* are to be made": ("live", {"phase": AddingWorkers}),
}


@pytest.mark.parametrize("said", WRONG)
def test_a_phase_that_cannot_be_is_noticed(said: str) -> None:
    mode, fields = WRONG[said]
    rescale = moving(mode)
    phase: Any = rescale.phase
    if fields.get("moves") == "recounted":
        fields = {**fields, "moves": slot_moves(fields["owned"], target(0, 1, 2).owned)}
    if fields.get("aim") == "other":
        fields = {"aim": replace(phase.aim, target=target(0, 1))}
    if fields.get("copied_portions") == "twice":
        rescale.copy(3)
        fields = {"copied_portions": 2 * rescale.phase.copied_portions}  # type: ignore[union-attr]
    if fields.get("phase") is AllMoved:
        rescale.phase = AllMoved(phase.owned, phase.aim, phase.bookkeeping, None)
    elif fields.get("phase") is AddingWorkers:
        rescale.phase = AddingWorkers(phase.owned, phase.aim, phase.bookkeeping, (2,), is_recruited=False)
    elif fields.get("phase") is MovingCold:
        rescale.phase = MovingCold(phase.owned, phase.aim, phase.bookkeeping, phase.moves)
    elif fields.get("phase") is MovingPortions:
        rescale.phase = MovingPortions(phase.owned, phase.aim, phase.bookkeeping, phase.moves, False, ())
    elif fields.get("phase") is MovingRounds:
        planner: Any = None
        rescale.phase = MovingRounds(
            phase.owned,
            phase.aim,
            phase.bookkeeping,
            phase.moves,
            False,
            planner=planner,
            slots_per_round=1,
            is_within_round=False,
        )
    else:
        rescale.phase = replace(phase, **fields)
    with pytest.raises(AssertionError, match=said) as caught:
        rescale.check(rescale.log)
    assert "Weighing.weighed -> " in str(caught.value), "what led there"


def test_a_phase_that_the_log_contradicts_is_noticed() -> None:
    rescale = moving()
    rescale.phase = Idle(rescale.owned)
    with pytest.raises(AssertionError, match="the phase is Idle, and the log has"):
        rescale.following()
