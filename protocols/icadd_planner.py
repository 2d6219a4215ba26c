"""ICADD (icadd.py) between the steps of a pipeline. A worker has one region with one distributor and one operator, and a key is a slot.

All regions are started at once, and tell their slots. After that, each round lets one region collect some of its slots. The old owners take
turns. No records flow meanwhile, so only the shell bounds how many slots a region collects at once. The state of a slot is an Acquire: it stays
in its channel, and whatever is sent behind it, until the engine has moved the slot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import assert_never

from base.slots import SLOTS, SlotSet
from protocols.icadd import Region
from protocols.icadd_messages import (
    Acquire,
    Drop,
    Hold,
    Install,
    Lane,
    LaneMessage,
    OperatorInstruction,
    PeerMessage,
    Process,
    Reassignment,
    RegionInstruction,
    Release,
    Reply,
    Route,
    Send,
    Tell,
    Worker,
)
from protocols.icadd_operator import Operator
from protocols.move import Move

_LANE = Lane(0, 0)
_STATE = "the state of a slot, which the engine has"


class IcaddPlanner:
    """From the present owners of the slots to those of the target."""

    def __init__(self, owned: Mapping[int, SlotSet], target: Mapping[int, SlotSet]) -> None:
        self.messages = 0
        self._workers = sorted({*owned, *target})
        now, then = _route(owned), _route(target)
        self._regions = {worker: Region(worker, frozenset([_LANE]), now, held_max=SLOTS) for worker in self._workers}
        self._operators = {
            worker: Operator(0, 1, lambda key: _STATE, dict.fromkeys(owned.get(worker, ()))) for worker in self._workers
        }
        self._posted: deque[tuple[Worker, LaneMessage]] = deque()  # words to operators
        self._channels: dict[tuple[Worker, Worker], deque[PeerMessage]] = {}
        self._turns = deque(self._workers)
        reassignment = Reassignment(then, frozenset(w for w in self._workers if owned.get(w)), frozenset(self._workers))
        for worker, region in self._regions.items():
            self._carry_out(worker, region.start(reassignment))
        self._deliver()

    def next(self, slots_max: int) -> Move | None:
        """The move that is due, the same one until `note_move` is called. Without one, a round begins in which a region gives away up to
        `slots_max` slots. None if all machines have ended."""
        for _ in self._workers:
            if self._is_within_round:
                break
            giver = self._turns[0]
            self._turns.rotate(-1)
            self._carry_out(giver, self._regions[giver].collect(slots_max))
            self._deliver()
        return next((Move(_slots(slots), source, to) for (source, to), slots in self._waiting()), None)

    @property
    def _is_within_round(self) -> bool:
        return any(True for _ in self._waiting())

    def note_move(self, owned: Mapping[int, SlotSet]) -> bool:
        """The move that is due has been carried out, and these are the owners now. Returns whether the round goes on."""
        (source, to), slots = next(self._waiting())
        channel = self._channels[source, to]
        for _ in slots:
            self._arrive(source, to, channel.popleft())
        self._deliver()
        if self._is_within_round:
            return True
        self.check(owned)
        return False

    def check(self, owned: Mapping[int, SlotSet]) -> None:
        """Asserts, between two rounds, that each worker owns the slots that it has by the protocol, and the machines' own invariants."""
        for worker, region in self._regions.items():
            region.check()
            operator = self._operators[worker]
            operator.check()
            assert not region.hold, f"worker {worker} holds keys"
            assert set(operator.keys) == set(owned[worker]), f"worker {worker} owns other slots than its operator has"
            assert set(region.whitelist) == set(region_leaves(region, owned[worker])), (
                f"worker {worker} keeps slots that it has to give away and does not list, or the reverse"
            )

    # The channels

    def _waiting(self) -> Iterator[tuple[tuple[Worker, Worker], list[int]]]:
        """The slots whose states stand at the head of a channel, by channel."""
        for ends, channel in self._channels.items():
            if channel and isinstance(channel[0], Acquire):
                slots: list[int] = []
                for message in channel:
                    if not isinstance(message, Acquire):
                        break
                    assert isinstance(message.key, int)
                    slots.append(message.key)
                yield ends, slots

    def _deliver(self) -> None:
        """All that can arrive: nothing does from behind a state that the engine has not moved."""
        while True:
            if self._posted:
                worker, word = self._posted.popleft()
                self._carry_out_below(worker, self._operators[worker].receive(_LANE.distributor, word))
                continue
            open_channels = (
                ends for ends, channel in self._channels.items() if channel and not isinstance(channel[0], Acquire)
            )
            ends = next(open_channels, None)
            if ends is None:
                return
            self._arrive(*ends, self._channels[ends].popleft())

    def _arrive(self, source: Worker, to: Worker, message: PeerMessage) -> None:
        self.messages += 1
        self._carry_out(to, self._regions[to].receive(source, message))

    def _carry_out(self, worker: Worker, instructions: list[RegionInstruction]) -> None:
        for instruction in instructions:
            match instruction:
                case Send(to, message):
                    self._channels.setdefault((worker, to), deque()).append(message)
                case Tell(word):
                    self._posted.append((worker, word))
                case Process() | Hold() | Release():
                    raise AssertionError(f"worker {worker} is told to {instruction}, and there are no records")
                case _:
                    assert_never(instruction)

    def _carry_out_below(self, worker: Worker, instructions: list[OperatorInstruction]) -> None:
        for instruction in instructions:
            match instruction:
                case Reply(answer):
                    self.messages += 1
                    self._carry_out(worker, self._regions[worker].answered(answer))
                case Install() | Drop():
                    pass  # by the engine
                case Process():
                    raise AssertionError(f"worker {worker} is told to {instruction}, and there are no records")
                case _:
                    assert_never(instruction)


def region_leaves(region: Region, owned: SlotSet) -> list[int]:
    """The slots of a worker that have to leave it."""
    reassignment = region.reassignment
    return [] if reassignment is None else [slot for slot in owned if reassignment.route(slot) != region.me]


def _route(owned: Mapping[int, SlotSet]) -> Route:
    owners = {slot: worker for worker, slots in owned.items() for slot in slots}
    return owners.__getitem__  # type: ignore[return-value]


def _slots(slots: list[int]) -> SlotSet:
    return SlotSet.of((slot, slot + 1) for slot in slots)
