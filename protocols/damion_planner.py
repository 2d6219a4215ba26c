"""Damion's protocol (damion.py) between the steps of a pipeline. A worker has one distributor and one operator of the protocol.

What begins a round is the SETS or the REDISTRIBUTE of an old owner: it waits here until the round of that owner. The old owners take turns. An
operator that gives slots and gets some too has a channel for each of the two roles. Their messages are about different old owners, so it does
not matter which of them come first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import assert_never

from base.slots import SLOT_BITS, SlotSet
from protocols.assignment import Assignment, Naming, Reassignment
from protocols.damion import Distributor, Operator
from protocols.damion_messages import (
    Begin,
    DistributorMessage,
    Drop,
    Final,
    Hold,
    Install,
    Instruction,
    Message,
    Named,
    OperatorMessage,
    Packing,
    Process,
    Record,
    Redistribute,
    Release,
    Send,
    Sets,
    Shutdown,
    State,
)
from protocols.keys import Interval, Keys
from protocols.move import Move

_SHIFT = 64 - SLOT_BITS


class DamionPlanner:
    """From the present owners of the slots to those of the target. `slots_per_round`: how many slots an old owner gives away in one round; the
    protocol fixes that when it begins."""

    def __init__(self, owned: Mapping[int, SlotSet], target: Mapping[int, SlotSet], slots_per_round: int) -> None:
        self.messages = 0
        workers = sorted({*owned, *target})
        old, new = _assignment(owned), _assignment(target)
        self._change = Reassignment(1, old, new, Naming.INTERVAL, slots_per_round)
        self._distributors = {f"distributor {worker}": Distributor(f"distributor {worker}", old) for worker in workers}
        names = frozenset(self._distributors)
        self._operators = {
            _instance(worker): Operator(_instance(worker), _instance(worker), 0, None, names) for worker in workers
        }
        self._slots = {_instance(worker): set(owned.get(worker, ())) for worker in workers}
        self._workers = {_instance(worker): worker for worker in workers}
        self._posted: deque[tuple[str, str, Message]] = deque()
        self._rounds: dict[str, deque[tuple[str, Message]]] = {}  # by old owner: what begins its next round
        self._turns: deque[str] = deque()  # the old owners that have one
        self._states: deque[tuple[str, State]] = (
            deque()
        )  # with the addressee: they arrive when the engine has moved the slots
        for name in self._distributors:
            self._posted.append(("", name, Begin(self._change)))
        self._deliver()

    def next(self, slots_max: int) -> Move | None:
        """Returns the move that is due, the same one until `note_move` is called; None if all machines have ended. `slots_max` is not used."""
        while not self._states and self._turns:
            giver = self._turns.popleft()
            for to, message in self._rounds.pop(giver):
                self._posted.append((giver, to, message))
            self._deliver()
        if not self._states:
            return None
        to, state = self._states[0]
        return Move(_slots_of(state.keys), self._workers[state.giver], self._workers[to])

    def note_move(self, owned: Mapping[int, SlotSet]) -> bool:
        """The move that is due has been carried out, and these are the owners now. Returns whether the round goes on."""
        to, state = self._states.popleft()
        self._posted.append((state.giver, to, state))
        self._deliver()
        if not self._states:
            self.check(owned)
        return bool(self._states)

    def check(self, owned: Mapping[int, SlotSet]) -> None:
        """Asserts, between two rounds, that each worker owns the slots that it has by the protocol, and the machines' own invariants."""
        for distributor in self._distributors.values():
            distributor.check()
            for instance, worker in self._workers.items():
                assert (placed := _slots_sent_to(distributor, self._change, instance)) == owned[worker], (
                    f"{distributor.name} sends {placed} to worker {worker}, which owns {owned[worker]}"
                )
        for name, operator in self._operators.items():
            operator.check(dict.fromkeys(map(_hash_of, self._slots[name])))
            assert self._slots[name] == set(owned[self._workers[name]]), f"{name} has other slots than its worker"

    # The channels

    def _deliver(self) -> None:
        while self._posted:
            sender, to, message = self._posted.popleft()
            self.messages += 1
            if isinstance(message, DistributorMessage):
                instructions = self._distributors[to].receive(message)
            else:
                instructions = self._operators[to].receive(sender, message, self._states_for(to, message))
            for instruction in instructions:
                self._carry_out(to, instruction)

    def _states_for(self, name: str, message: OperatorMessage) -> dict[int, None]:
        """Returns a state for each of the slots that the message is about, by the hash that stands for the slot. The states are None here."""
        match message:
            case Shutdown() | Named():
                about = self._slots[name]
            case Final(keys=keys) | State(keys=keys) | Packing(keys=keys):
                about = self._slots[name].intersection(_slots_of(keys))
            case Record():
                about = set()
            case _:
                assert_never(message)
        return dict.fromkeys(map(_hash_of, about))

    def _carry_out(self, name: str, instruction: Instruction) -> None:
        match instruction:
            case Send(to, message):
                self._post(name, to, message)
            case Install(key=key):
                self._slots[name].add(key >> _SHIFT)
            case Drop(key):
                self._slots[name].remove(key >> _SHIFT)
            case Process() | Hold() | Release():
                raise AssertionError(f"{name} is told to {instruction}, and there are no records")
            case _:
                assert_never(instruction)

    def _post(self, name: str, to: str, message: Message) -> None:
        match message:
            case State():
                self._states.append((to, message))
            case Sets() | Redistribute():
                if name not in self._rounds:
                    self._rounds[name] = deque()
                    self._turns.append(name)
                self._rounds[name].append((to, message))
            case _:
                self._posted.append((name, to, message))


def _slots_sent_to(distributor: Distributor, reassignment: Reassignment, instance: str) -> SlotSet:
    """The slots whose records the distributor sends to this instance, while no key is held."""
    if distributor.reassignment is None:
        return _slots_of(distributor.assignment.hashes_of(instance))
    assert all(rule.hold.is_empty() for rule in distributor.rules.values()), f"{distributor.name} holds keys"
    placed: Keys = reassignment.new.hashes_of(instance)
    for giver, rule in distributor.rules.items():
        left = rule.whitelist if rule.has_sets else reassignment.hashes_given_by(giver)
        placed = placed.union(left) if giver == instance else placed.minus(left)
    return _slots_of(placed)


def _instance(worker: int) -> str:
    return f"worker {worker}"


def _hash_of(slot: int) -> int:
    """The first hash of the slot, which stands for it."""
    return slot << _SHIFT


def _slots_of(keys: Keys) -> SlotSet:
    assert isinstance(keys, Interval), f"{keys} are no ranges of slots"
    return SlotSet(tuple((first >> _SHIFT, end >> _SHIFT) for first, end in keys.ranges))


def _assignment(owned: Mapping[int, SlotSet]) -> Assignment:
    spans = sorted((first, worker) for worker, slots in owned.items() for first, _ in slots.ranges)
    return Assignment(tuple(_hash_of(first) for first, _ in spans), tuple(_instance(worker) for _, worker in spans))
