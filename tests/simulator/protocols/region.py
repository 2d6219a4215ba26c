"""The shells of the machines: a region has distributors, and instances with chains of operators. The channels are the world's."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, assert_never

from protocols.assignment import Assignment
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
    Message,
    Named,
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
from tests.simulator.protocols.oracle import MODULUS, Oracle, deletes_state, keeps_state


class Post(Protocol):
    """Puts a message at the end of the channel from one address to another."""

    def __call__(self, sender: str, to: str, message: Message) -> None: ...


class Shell(Protocol):
    def deliver(self, sender: str, message: Message) -> None: ...


@dataclass(frozen=True)
class Rules:
    """The machines that are tried."""

    distributor: Callable[[str, Assignment], Distributor] = Distributor
    operator: Callable[[str, str, int, str | None, frozenset[str]], Operator] = Operator


@dataclass
class DistributorShell:
    machine: Distributor
    region: int
    post: Post
    oracle: Oracle
    kept: dict[int, deque[Record]] = field(default_factory=dict)

    def deliver(self, sender: str, message: Message) -> None:
        assert isinstance(message, Input | Begin | Sets | Redistribute | Installed), message
        if isinstance(message, Input):
            assert isinstance(message.body, int)
            self.oracle.accepts(self.region, self.machine.name, message.key, message.body)
        for instruction in self.machine.receive(message):
            self._carry_out(instruction)
        self.machine.check()
        assert self.machine.held == self.kept.keys(), f"{self.machine.name} and its machine keep different keys"

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case Send(to, message):
                self.post(self.machine.name, to, message)
            case Hold(record):
                self.kept.setdefault(record.key, deque()).append(record)
            case Release(key, to):
                for record in self.kept.pop(key):
                    self.post(self.machine.name, to, record)
            case Process() | Install() | Drop():
                raise AssertionError(f"{self.machine.name} has no state for {instruction}")
            case _:
                assert_never(instruction)


@dataclass
class OperatorShell:
    """`output`: the distributor of what the last operator of a chain makes of a record; None if there is none."""

    machine: Operator
    region: int
    post: Post
    oracle: Oracle
    output: str | None
    states: dict[int, int] = field(default_factory=dict)

    def deliver(self, sender: str, message: Message) -> None:
        assert isinstance(message, Record | Shutdown | Final | Named | Packing | State), message
        for instruction in self.machine.receive(sender, message, self.states):
            self._carry_out(instruction)
        self.machine.check(self.states)

    def _carry_out(self, instruction: Instruction) -> None:
        machine = self.machine
        match instruction:
            case Send(to, message):
                self.post(machine.name, to, message)
            case Process(record):
                self._process(record)
            case Install(key, state):
                assert isinstance(state, int)
                self.states[key] = state
                self.oracle.installs((self.region, machine.position, key), machine.instance, state)
            case Drop(key):
                del self.states[key]
                self.oracle.drops((self.region, machine.position, key), machine.instance)
            case Hold() | Release():
                raise AssertionError(f"{machine.name} is no distributor, and is told to {instruction}")
            case _:
                assert_never(instruction)

    def _process(self, record: Record) -> None:
        machine, key, serial = self.machine, record.key, record.body
        assert isinstance(serial, int)
        if keeps_state(machine.position, key):
            folded = (self.states.pop(key, 0) * 1_000_003 + serial + 1) % MODULUS
            if not deletes_state(serial):
                self.states[key] = folded
        slot = (self.region, machine.position, key)
        self.oracle.processes(slot, machine.instance, record.origin, serial, self.states.get(key))
        if machine.following is not None:
            self.post(machine.name, machine.following, record)
        elif self.output is not None:
            self.post(machine.name, self.output, Input(downstream_key(key), serial))


DOWNSTREAM_KEYS = 11


def downstream_key(key: int) -> int:
    """The next region groups by fewer keys, so each comes from several instances."""
    return (key % DOWNSTREAM_KEYS) * ((1 << 64) // DOWNSTREAM_KEYS) + key % 5
