"""The schedules that forced the corrected rules, one by one. Each rule of the source document fails on its schedule, and the corrected one does
not.

Worker A is the new owner of the key K, B is the old one, and C is neither."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from protocols.icadd import KEYS_HELD_MAX, Region
from protocols.icadd_messages import (
    Acquire,
    Collect,
    Drop,
    Dropped,
    Forget,
    Install,
    Interrogate,
    Key,
    Lane,
    Reassignment,
    Reply,
    Take,
)
from protocols.icadd_operator import Operator
from tests.simulator.protocols_icadd import uncorrected
from tests.simulator.protocols_icadd.shell import AnswersOf, Channel, LaneOf, Peers, Shell

A, B, C = 0, 1, 2
K = 0
TO_A, TO_B = Peers(B, A), Peers(A, B)
ROUNDS_MAX = 10
"""One round collects every key that is listed, so a schedule with one key needs two."""


def _route_old(key: Key) -> int:
    return B


def _route_new(key: Key) -> int:
    return A


def _shell(region: type[Region], distributors: int = 1) -> Shell:
    shell = Shell(distributors, 1, region)
    for worker in (A, B, C):
        shell.add(worker, _route_old)
    return shell


def _start(shell: Shell, *workers: int) -> None:
    """C has distributors and no state, as a worker without keys has."""
    for worker in workers:
        shell.start(worker, Reassignment(_route_new, frozenset({B}), frozenset({A, B, C})))


def _drain_lanes(shell: Shell) -> None:
    shell.drain(blocked=_peers())


def _peers() -> list[Channel]:
    return [Peers(one, two) for one in (A, B, C) for two in (A, B, C) if one != two]


def _finish(shell: Shell) -> None:
    for _ in range(ROUNDS_MAX):
        shell.drain()
        for worker in (A, B, C):
            shell.collect(worker, 1)
    shell.finish(_route_new)


def _detour_behind_done(shell: Shell) -> None:
    """I1. B says Done, then gets r1 of A and returns it. A has Done and gets r2."""
    _start(shell, A, B, C)
    _drain_lanes(shell)
    shell.create(A, 0, K)
    for channel in (TO_B, Peers(C, B), Peers(C, A)):
        shell.deliver(channel)
    shell.drain(blocked=[TO_B])
    shell.create(A, 0, K)
    _finish(shell)


def _new_key_behind_the_question(shell: Shell) -> None:
    """I2. B is still asking for keys. It gets a record of a new K from A, which is in COLLECT, and puts it behind the question on the lane."""
    _start(shell, A, B, C)
    shell.drain(blocked=[LaneOf(B, Lane(1, 0)), *_peers()])
    shell.create(A, 1, K)
    shell.drain(blocked=[LaneOf(B, Lane(1, 0))])
    _finish(shell)


def _old_routing_behind_a_detour(shell: Shell) -> None:
    """I3. C sends r1 to B, enters COLLECT, and sends r2 to A, which sends it on its detour. B gets r2 before r1."""
    shell.create(C, 0, K)
    _start(shell, A, B, C)
    _drain_lanes(shell)
    shell.create(C, 0, K)
    shell.drain(blocked=[Peers(C, B)])
    _finish(shell)


def _old_routing_behind_a_detour_of_a_known_key(shell: Shell) -> None:
    """As for I3, and B has the state of K, because it has processed a record of its own."""
    shell.create(B, 0, K)
    _old_routing_behind_a_detour(shell)


def _old_routing_behind_done(shell: Shell) -> None:
    """C sends r1 to B. A gets everything else, and C's r2 last."""
    shell.create(C, 0, K)
    _start(shell, A, B, C)
    shell.drain(blocked=[Peers(C, B)])
    shell.create(C, 0, K)
    shell.drain(blocked=[Peers(C, B)])
    _finish(shell)


def _third_party(shell: Shell) -> None:
    """The state of K is at B. C is in COLLECT and sends a record to A, which has not started."""
    shell.create(B, 0, K)
    _start(shell, C)
    _drain_lanes(shell)
    shell.create(C, 0, K)
    shell.drain()
    _start(shell, A, B)
    _finish(shell)


def _third_party_behind_an_old_routing(shell: Shell) -> None:
    """C sends r1 to B, enters COLLECT, and sends r2 to A. A has not started, so it forwards r2 to B, which has not started either."""
    shell.create(C, 0, K)
    _start(shell, C)
    _drain_lanes(shell)
    shell.create(C, 0, K)
    shell.drain(blocked=[Peers(C, B)])
    _start(shell, A, B)
    _finish(shell)


SCHEDULES: dict[str, tuple[Callable[[Shell], None], type[Region], str]] = {
    "I1": (_detour_behind_done, uncorrected.WithoutEcho, "^order: "),
    "I2": (_new_key_behind_the_question, uncorrected.WithoutListing, "^owner: .* on \\[1\\], not on 0"),
    "I3": (_old_routing_behind_a_detour, uncorrected.WithoutMarker, "^order: "),
    "a known key": (_old_routing_behind_a_detour_of_a_known_key, uncorrected.OnlyReturnsWait, "^order: "),
    "done": (_old_routing_behind_done, uncorrected.DoneBeforeMarkers, "^order: "),
    "a third party": (_third_party, uncorrected.TakesFromAnybody, "^state: "),
    "versions": (_third_party_behind_an_old_routing, uncorrected.ForwardsWithItsOwnVersion, "^order: "),
}
"""By name: the schedule, the uncorrected rule, and the assertion that it fails with."""


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_uncorrected_rule_fails(name: str) -> None:
    schedule, region, assertion = SCHEDULES[name]
    with pytest.raises(AssertionError, match=assertion):
        schedule(_shell(region, distributors=2))


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_corrected_rules_stand(name: str) -> None:
    schedule, _, _ = SCHEDULES[name]
    schedule(_shell(Region, distributors=2))


def test_a_late_word_to_forget_would_drop_a_state_that_has_come_back() -> None:
    """This is why Done waits for the last lane (see the next test)."""
    operator = Operator(0, 2, lambda key: "old", {K: None})
    assert operator.receive(0, Forget(K)) == [Drop(K), Reply(Dropped(Lane(0, 0), K))]
    assert operator.receive(0, Take(Acquire(2, K, ((0, "new"),)))) == [Install(K, "new")]
    assert operator.receive(1, Forget(K)) == [Drop(K), Reply(Dropped(Lane(1, 0), K))]


def test_done_waits_until_every_lane_has_dropped() -> None:
    shell = _shell(Region, distributors=2)
    shell.create(B, 0, K)
    _start(shell, A, B, C)
    shell.drain()
    shell.collect(B, 1)
    late = LaneOf(B, Lane(1, 0))
    shell.deliver(late)
    shell.drain(blocked=[late])
    assert list(shell.channels[late]) == [Forget(K)] and not shell.happened["Done"]
    _finish(shell)
    assert shell.happened["Echo"] == 2


def test_a_word_is_answered_once_on_each_lane() -> None:
    shell = _shell(Region, distributors=2)
    _start(shell, B)
    lanes = [channel for channel in shell.channels if isinstance(channel, LaneOf)]
    assert [list(shell.channels[lane]) for lane in lanes] == [[Interrogate()], [Interrogate()]]
    shell.deliver(lanes[0])
    answer = shell.channels[AnswersOf(B, 0)][0]
    shell.drain(blocked=lanes)
    with pytest.raises(KeyError):
        shell.nodes[B].region.answered(answer)


def test_no_more_keys_are_collected_at_once_than_asked_for_and_allowed() -> None:
    shell = _shell(Region)
    for key in range(KEYS_HELD_MAX + 1):
        shell.create(B, 0, key)
    _start(shell, B)
    _drain_lanes(shell)
    shell.collect(B, 3)
    assert list(shell.channels[LaneOf(B, Lane(0, 0))]) == [Collect(0), Collect(1), Collect(2)]
    shell.collect(B, KEYS_HELD_MAX)
    assert len(shell.nodes[B].region.hold) == KEYS_HELD_MAX


def test_a_change_is_not_started_before_the_last_one_is_settled() -> None:
    shell = _shell(Region)
    _start(shell, B)
    with pytest.raises(AssertionError, match="before the last one is settled"):
        _start(shell, B)
