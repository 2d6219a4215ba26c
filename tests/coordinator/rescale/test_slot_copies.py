"""Which source copies what, and when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from base.slots import NO_SLOTS, SlotSet
from coordinator.rescale.slot_copies import COPIED_PORTIONS_MAX, SlotCopies
from coordinator.rescale.slot_moves import Portion
from engine.errors import TaskLost
from engine.resident.messages import CopySlots, SlotsCopied


def slots(first: int, end: int) -> SlotSet:
    return SlotSet(((first, end),))


class Sources:
    """Workers that copy when they are told so. `orders`: those that are carried out, by source."""

    def __init__(self) -> None:
        self.orders: dict[int, CopySlots] = {}
        self._answers: dict[int, SlotsCopied] = {}
        self.unstaged = 0
        self.crew: Any = SimpleNamespace(
            slots=SimpleNamespace(begin_copying=self._begin, poll_copies=self._poll, discard_copies=self._unstage)
        )

    def _begin(self, source: int, order: CopySlots) -> None:
        assert source not in self.orders, "it has an order"
        self.orders[source] = order

    def _poll(self) -> dict[int, SlotsCopied]:
        answers, self._answers = self._answers, {}
        return answers

    def _unstage(self) -> None:
        assert not self.orders, "a source copies"
        self.unstaged += 1

    def answer(self, source: int, copied: SlotSet, *, moved_bytes: int = 7, is_done: bool = True) -> None:
        del self.orders[source]
        self._answers[source] = SlotsCopied(slots=copied, moved_bytes=moved_bytes, is_done=is_done)


WAYS = {(0, 2): slots(10, 20), (1, 2): slots(30, 40)}


def test_sources_go_on_independently_of_each_other() -> None:
    sources, copying = Sources(), SlotCopies()
    copying.begin(sources.crew, WAYS, (), 99)
    assert {source: (order.slots, order.to) for source, order in sources.orders.items()} == {
        0: (slots(10, 20), 2),
        1: (slots(30, 40), 2),
    }
    sources.answer(1, slots(30, 34))
    assert copying.take(sources.crew) == (7, [Portion(slots(30, 34), 1, 2)])
    copying.begin(sources.crew, WAYS, [Portion(slots(30, 34), 1, 2)], 99)
    assert sources.orders.keys() == {0, 1}, "it copies on, while source 0 copies its first portion"
    assert sources.orders[1].slots == slots(34, 40)
    assert copying.moved(Portion(slots(30, 34), 1, 2)) == 7


def test_a_source_waits_while_portions_wait_for_their_cuts() -> None:
    sources, copying, waiting = Sources(), SlotCopies(), list[Portion]()
    for first in range(10, 10 + COPIED_PORTIONS_MAX):
        copying.begin(sources.crew, {(0, 2): slots(10, 20)}, waiting, 99)
        sources.answer(0, slots(first, first + 1))
        waiting += copying.take(sources.crew)[1]
    copying.begin(sources.crew, {(0, 2): slots(10, 20)}, waiting, 99)
    assert not sources.orders
    copying.begin(sources.crew, {(0, 2): slots(11, 20)}, waiting[1:], 99)
    assert sources.orders[0].slots == slots(10 + COPIED_PORTIONS_MAX, 20)


def test_a_portion_that_does_not_fit_into_one_order_takes_several() -> None:
    sources, copying = Sources(), SlotCopies()
    for is_done in (False, False, True):
        copying.begin(sources.crew, {(0, 2): slots(10, 20), (0, 3): slots(50, 60)}, (), 99)
        assert (sources.orders[0].to, sources.orders[0].slots) == (2, slots(10, 20))
        sources.answer(0, slots(10, 11), is_done=is_done)
        copied = copying.take(sources.crew)
        assert copied == (7, [Portion(slots(10, 11), 0, 2)] if is_done else [])
    assert copying.moved(Portion(slots(10, 11), 0, 2)) == 21


def test_the_destinations_of_a_source_take_turns() -> None:
    sources, copying, moves = Sources(), SlotCopies(), {(2, 0): slots(0, 4), (2, 1): slots(8, 10)}
    turns = []
    while moves:
        copying.begin(sources.crew, moves, (), 99)
        to = sources.orders[2].to
        turns.append(to)
        sources.answer(2, sources.orders[2].slots.first(1))
        ((moved, _, _),) = copying.take(sources.crew)[1]
        left = moves.pop((2, to)).minus(moved)
        moves |= {(2, to): left} if left != NO_SLOTS else {}
    assert turns == [0, 1, 0, 1, 0, 0]


@pytest.mark.parametrize("copied", [slots(9, 11), slots(30, 31), NO_SLOTS])
def test_a_source_that_has_copied_other_slots_is_lost(copied: SlotSet) -> None:
    sources, copying = Sources(), SlotCopies()
    copying.begin(sources.crew, WAYS, (), 99)
    sources.answer(0, copied)
    with pytest.raises(TaskLost, match="worker 0 was to copy some of slots 10-19, and has copied"):
        copying.take(sources.crew)


def test_copies_of_no_use_are_discarded_when_no_source_copies() -> None:
    sources, copying = Sources(), SlotCopies()
    assert copying.discard_if_over(sources.crew) and not copying.has_begun
    copying.begin(sources.crew, WAYS, (), 99)
    copying.end()
    assert not copying.discard_if_over(sources.crew) and copying.has_begun
    sources.answer(0, slots(10, 11))
    assert not copying.discard_if_over(sources.crew), "source 1 copies"
    sources.answer(1, slots(30, 31), is_done=False)
    assert copying.discard_if_over(sources.crew) and sources.unstaged == 1 and not copying.has_begun
    copying.begin(sources.crew, WAYS, (), 99)
    assert sources.orders.keys() == {0, 1}


@pytest.mark.parametrize("has_moved", [False, True])
def test_nobody_is_asked_to_discard_copies_when_all_have_moved(has_moved: bool) -> None:
    """The workers would have to end their step first, while the coordinator waits."""
    sources, copying = Sources(), SlotCopies()
    copying.begin(sources.crew, {(0, 2): slots(10, 20)}, (), 99)
    sources.answer(0, slots(10, 20))
    _, (portion,) = copying.take(sources.crew)
    if has_moved:
        copying.moved(portion)
    copying.end()
    assert copying.discard_if_over(sources.crew) and not copying.has_begun and sources.unstaged == (not has_moved)
