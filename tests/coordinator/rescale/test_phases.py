"""The machine of a change of the layout: every way through it, and what it must not do."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from coordinator.change import COPIED_SLOTS_MAX, Bury, Change, Cut, LogChange, Staff, Wanted, moves

from base.slots import NO_SLOTS, SlotSet
from base.version import VersionId
from coordinator.rescale.layouts import completion_records
from io_kafka.step_log.layout_records import ChangeMode, CutProtocol, LayoutIntent, Placed
from io_kafka.step_log.records import CheckpointIntent, Claim, Record
from io_kafka.step_log.state import StepLogState
from tests.io_kafka.layouts import layout, owned_by, target, turn


class Log(StepLogState):
    def __init__(self, workers: tuple[int, ...]) -> None:
        super().__init__("log")
        self.append(Claim(epoch=0, pipeline="p", run_id="r", host="h", pid=1))
        self.append(layout(workers=workers))

    def append(self, record: Record) -> None:
        self.apply(record, self.offset_next)

    def intend(self, wanted: Wanted) -> None:
        self.append(
            LayoutIntent(
                epoch=0,
                change=self.number + 1,
                mode=wanted.mode,
                target=wanted.target,
                asked=wanted.asked,
                protocol=wanted.protocol,
            )
        )

    @property
    def number(self) -> int:
        assert self.layout is not None
        return self.layout.number

    def checkpoint(self, owned: dict[int, SlotSet], *, is_moved: bool = True) -> None:
        owning = {worker: slots for worker, slots in owned.items() if slots != NO_SLOTS}
        version = VersionId(len(self.checkpoints) + 1, 0, f"c{self.offset_next}")
        placed = Placed.of(dict.fromkeys(owning, "0"), owning)
        self.append(CheckpointIntent(epoch=0, version=version, placed=placed))
        for record in completion_records(version, self, 0, is_moved=is_moved):
            self.append(record)


def following(change: Change, log: Log, *, folding: bool = False, replaying: bool = False) -> object:
    return change.next(log, 7, is_folding=folding, is_replaying=replaying)


def act(change: Change, log: Log, action: object, dice: random.Random | None = None, *, steps_between: int = 1) -> None:
    """As the shell. A cut moves some of its slots, if it may."""
    match action:
        case LogChange(wanted):
            log.intend(wanted)
            change.intended(log)
        case Staff(new):
            change.staffed({**change.owned, **dict.fromkeys(new, NO_SLOTS)})
            change.weighed(NO_SLOTS)
        case Cut(slots, source, destination, is_whole):
            some = slots if dice is None or is_whole else slots.first(dice.randint(1, len(slots)))
            owned = dict(change.owned)
            owned[source], owned[destination] = owned[source].minus(some), owned[destination].union(some)
            change.cut(owned, steps_between)
        case Bury(leaving):
            change.buried({worker: slots for worker, slots in change.owned.items() if worker not in leaving})


@pytest.mark.parametrize(
    ("mode", "protocol"),
    [("cold", "batches"), ("live", "batches"), ("hot", "batches"), ("live", "damion"), ("live", "icadd")],
)
@pytest.mark.parametrize(
    ("before", "after"), [((0, 1), (0, 1, 2)), ((0, 1, 2), (0, 1)), ((0,), (0, 1, 2, 3)), ((0, 5), (1, 3))]
)
@pytest.mark.parametrize("seed", range(3))
def test_a_change_ends_with_the_owners_of_its_target(
    mode: ChangeMode,
    protocol: CutProtocol,
    before: tuple[int, ...],
    after: tuple[int, ...],
    seed: int,
) -> None:
    dice, log, change = random.Random(seed), Log(before), Change(owned_by(*before), slots_per_round=3000)
    change.request(Wanted(mode, target(*after), None, protocol=protocol), log)
    assert following(change, log) is None or not change.new(log), "no worker is made before there is a task for it"
    change.recruited()
    for _ in range(300):
        action = following(change, log)
        if action is None and not change.is_moved(log):
            assert mode == "live" or isinstance(log.change, LayoutIntent)
            if change.is_weighed:
                change.copied()
            change.weighed(NO_SLOTS)
            change.stepped()
            continue
        if action is None:
            break
        act(change, log, action, dice)
        cuts_without_steps = change.is_within_round or (mode == "hot" and change.is_copied and not change.is_moved(log))
        assert change.holds_steps(log) == (mode == "cold" or cuts_without_steps)
    assert change.is_moved(log) and dict(change.owned) | owned_by(*after) == dict(change.owned)
    log.checkpoint(dict(change.owned))
    change.settled(log)
    assert log.change is None and log.number == 1
    if left := set(before) - set(after):
        assert following(change, log, folding=True) is None, "they take part in the fold"
        assert following(change, log) == Bury(tuple(sorted(left)))
        act(change, log, following(change, log))
    assert change.is_idle(log) and dict(change.owned) == owned_by(*after)


def moving(mode: ChangeMode = "live") -> tuple[Change, Log]:
    """From two workers to three, with all workers there."""
    log, change = Log((0, 1)), Change(owned_by(0, 1))
    change.request(Wanted(mode, target(0, 1, 2), None), log)
    change.recruited()
    for _ in range(2):
        act(change, log, following(change, log))
    return change, log


@pytest.mark.parametrize("steps_between", [1, 3])
def test_between_two_cuts_of_a_live_change_come_as_many_steps_as_it_is_told(steps_between: int) -> None:
    change, log = moving()
    cut = following(change, log)
    assert isinstance(cut, Cut) and change.is_due(log, is_folding=False, is_replaying=False)
    act(change, log, replace(cut, slots=cut.slots.first(3)), steps_between=steps_between)
    for _ in range(steps_between):
        assert following(change, log) is None and not change.is_due(log, is_folding=False, is_replaying=False)
        change.stepped()
    again = following(change, log)
    assert isinstance(again, Cut) and again.source != cut.source, "the pairs take turns"


def test_the_next_cut_of_a_live_change_is_due_at_once_if_no_step_comes() -> None:
    change, log = moving()
    cut = following(change, log)
    assert isinstance(cut, Cut)
    act(change, log, replace(cut, slots=cut.slots.first(3)), steps_between=9)
    change.rested()
    assert isinstance(following(change, log), Cut)


def test_slots_over_the_budget_of_a_live_change_are_copied_and_move_first() -> None:
    change, log = moving()
    assert log.target is not None
    ways = moves(change.owned, log.target.owned)
    pair, theirs = next(iter(ways.items()))
    heavy = SlotSet(((theirs.ranges[-1][1] - 2, theirs.ranges[-1][1]),))
    change.weighed(heavy)
    assert change.to_copy(log) == {pair: heavy}
    assert following(change, log) is None and not change.holds_steps(log), "the steps go on while it is copied"
    change.copied()
    cut = following(change, log)
    assert isinstance(cut, Cut) and (cut.slots, (cut.source, cut.destination)) == (heavy, pair)
    act(change, log, cut)
    assert not change.to_copy(log) and not change.is_copied and following(change, log) is None
    change.stepped()
    cut = following(change, log)
    assert isinstance(cut, Cut) and cut.slots.intersection(heavy) == NO_SLOTS
    change.weighed(heavy)
    change.turned()
    assert change.heavy == NO_SLOTS and not change.is_copied


def test_slots_over_the_budget_are_copied_and_cut_in_portions() -> None:
    """What has come to them since they were copied moves in one cut, so there are few of them."""
    change, log = moving()
    assert log.target is not None
    ((source, destination), theirs), *_ = moves(change.owned, log.target.owned).items()
    heavy = theirs.first(2 * COPIED_SLOTS_MAX + 1)
    change.weighed(heavy)
    sizes = []
    while ways := change.to_copy(log):
        assert following(change, log) is None
        change.copied()
        cut = following(change, log)
        assert isinstance(cut, Cut) and {(cut.source, cut.destination): cut.slots} == ways
        sizes.append(len(cut.slots))
        act(change, log, cut)
        change.stepped()
    assert sizes == [COPIED_SLOTS_MAX, COPIED_SLOTS_MAX, 1]
    assert heavy.is_within(change.owned[destination]) and not heavy.is_within(change.owned[source])


def test_a_worker_that_gets_a_copy_does_not_leave_before_the_copy_is_over() -> None:
    """It would never answer, and the source would wait for ever."""
    change, log = moving("hot")
    change.is_copying = True
    log.append(turn(workers=(0, 1)))
    change.turned()
    assert change.is_moved(log)
    log.checkpoint(dict(change.owned))
    change.settled(log)
    assert change.leaving == (2,) and following(change, log) is None
    change.is_copying = False
    assert following(change, log) == Bury((2,))


@pytest.mark.parametrize("protocol", ["damion", "icadd"])
def test_a_round_of_a_protocol_ends_before_the_next_step_also_where_the_change_is_paused(protocol: CutProtocol) -> None:
    """One worker gives slots to two others in a round, which takes two cuts."""
    log, change = Log((0,)), Change(owned_by(0), slots_per_round=60)
    interleaved = target(0, 1, 2)
    ranges = (*((first, 1 + first // 20 % 2) for first in range(0, 400, 20)), (400, 0))
    change.request(Wanted("live", interleaved.model_copy(update={"ranges": ranges}), None, protocol=protocol), log)
    change.recruited()
    for _ in range(2):
        act(change, log, following(change, log))
    assert not change.holds_steps(log)
    first = following(change, log)
    assert isinstance(first, Cut) and first.is_whole and change.holds_steps(log)
    assert change.is_due(log, is_folding=False, is_replaying=False)
    act(change, log, first)
    change.is_held = True
    second = following(change, log)
    assert isinstance(second, Cut) and change.holds_steps(log)
    assert {first.destination, second.destination} == {1, 2} and len(first.slots) + len(second.slots) == 60
    act(change, log, second)
    assert not change.holds_steps(log) and following(change, log) is None
    change.is_held = False
    assert following(change, log) is None, "one round between two steps"
    change.stepped()
    assert isinstance(following(change, log), Cut)


def test_a_cold_change_makes_all_its_cuts_at_once() -> None:
    change, log = moving("cold")
    cuts = 0
    while isinstance(cut := following(change, log), Cut):
        act(change, log, cut)
        cuts += 1
    assert cuts == 2 and change.is_moved(log)


def test_a_hot_change_cuts_when_all_is_copied_and_holds_the_steps_until_all_has_moved() -> None:
    change, log = moving("hot")
    assert following(change, log) is None and not change.holds_steps(log)
    assert not change.is_due(log, is_folding=False, is_replaying=False), "the steps go on while the sources copy"
    change.copied()
    change.is_held = True
    assert following(change, log) is None and not change.holds_steps(log)
    change.is_held = False
    for _ in range(2):
        cut = following(change, log)
        assert isinstance(cut, Cut) and change.holds_steps(log)
        assert change.is_due(log, is_folding=False, is_replaying=False)
        act(change, log, cut)
    assert change.is_moved(log) and not change.holds_steps(log)


def test_a_hot_change_that_is_turned_copies_again() -> None:
    change, log = moving("hot")
    change.copied()
    change.turned()
    change.weighed(NO_SLOTS)
    assert following(change, log) is None and not change.holds_steps(log)


@pytest.mark.parametrize("what", ["is_held", "is_crowded"])
def test_a_change_that_is_held_makes_no_cut(what: str) -> None:
    change, log = moving()
    setattr(change, what, True)
    assert following(change, log) is None and not change.holds_steps(log)


def test_no_worker_is_made_while_a_checkpoint_is_folded_or_steps_are_replayed() -> None:
    log, change = Log((0, 1)), Change(owned_by(0, 1))
    change.request(Wanted("live", target(0, 1, 2), None), log)
    change.recruited()
    assert following(change, log, folding=True) is None and following(change, log, replaying=True) is None
    act(change, log, following(change, log))
    assert following(change, log, folding=True) is None and following(change, log, replaying=True) is None
    assert following(change, log) == Staff((2,), 7)


def test_after_a_turn_the_slots_go_back_and_a_checkpoint_of_before_does_not_settle_that() -> None:
    change, log = moving()
    act(change, log, following(change, log))
    log.append(turn(workers=(0, 1)))
    change.turned()
    assert not change.is_moved(log)
    log.checkpoint(owned_by(0, 1), is_moved=change.is_moved(log))  # it was frozen before the cut
    assert log.change is not None
    change.weighed(NO_SLOTS)
    change.stepped()
    while isinstance(cut := following(change, log), Cut):
        act(change, log, cut)
        change.stepped()
    assert change.is_moved(log) and change.owned[2] == NO_SLOTS
    log.checkpoint(owned_by(0, 1), is_moved=change.is_moved(log))
    change.settled(log)
    assert log.layout is not None and log.layout.outcome == "reversed" and change.leaving == (2,)


def test_slots_that_no_layout_gives_their_owner_are_noticed() -> None:
    change, log = moving()
    change.owned = {0: owned_by(0, 1)[1], 1: owned_by(0, 1)[0], 2: NO_SLOTS}
    with pytest.raises(
        AssertionError, match=r"worker 0 owns .*, which neither the layout nor a target of the change gives it"
    ):
        change.check(log)
    change.owned = {0: owned_by(0, 1)[0]}
    with pytest.raises(AssertionError, match=r"no worker owns slots 32768-65535"):
        change.check(log)
