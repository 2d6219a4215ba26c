"""What the shell of the machines provides: FIFO channels and lanes, the states, and the obedience to instructions. Every record and every state
is told to the oracle. Which channel delivers next is another's choice."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from protocols.icadd import Region
from protocols.icadd_messages import (
    Drop,
    Hold,
    Install,
    Key,
    Lane,
    OperatorInstruction,
    Origin,
    Process,
    Reassignment,
    Record,
    RegionInstruction,
    Release,
    Reply,
    Route,
    Send,
    Tell,
)
from protocols.icadd_operator import Operator
from tests.simulator.protocols_icadd.oracle import Oracle, State

STORY_EVENTS_MAX = 40


@dataclass(frozen=True)
class Peers:
    """From the region on one worker to that on another."""

    sender: int
    worker: int


@dataclass(frozen=True)
class LaneOf:
    worker: int
    lane: Lane


@dataclass(frozen=True)
class AnswersOf:
    """From an operator to the region of its worker."""

    worker: int
    operator: int


Channel = Peers | LaneOf | AnswersOf


@dataclass
class Node:
    """A worker: its region, its operators, and the state of each of them."""

    region: Region
    operators: list[Operator]
    states: list[dict[object, State]]
    next_serials: list[int]


@dataclass
class Shell:
    """`region` and `operator` are the machines under test. `happened` counts what was delivered and held."""

    distributors: int
    operators: int
    region: type[Region] = Region
    operator: type[Operator] = Operator
    nodes: dict[int, Node] = field(default_factory=dict)
    channels: dict[Channel, deque[Any]] = field(default_factory=dict)
    happened: Counter[str] = field(default_factory=Counter)
    story: deque[str] = field(default_factory=lambda: deque(maxlen=STORY_EVENTS_MAX))

    def __post_init__(self) -> None:
        self.lanes = tuple(Lane(d, o) for d in range(self.distributors) for o in range(self.operators))
        self.oracle = Oracle(self.operators)

    def add(self, worker: int, route: Route, version: int = 0) -> None:
        states: list[dict[object, State]] = [{} for _ in range(self.operators)]
        machines = [self.operator(o, self.distributors, states[o].__getitem__) for o in range(self.operators)]
        region = self.region(worker, frozenset(self.lanes), route, version)
        self.nodes[worker] = Node(region, machines, states, [0] * self.distributors)

    def start(self, worker: int, change: Reassignment) -> None:
        self.story.append(f"{worker} starts")
        self._obey_region(worker, self.nodes[worker].region.start(change))

    def collect(self, worker: int, keys_max: int) -> None:
        self._obey_region(worker, self.nodes[worker].region.collect(keys_max))

    def create(self, worker: int, distributor: int, key: Key) -> None:
        """A new record enters the region."""
        node, origin = self.nodes[worker], Origin(worker, distributor)
        record = Record(key, origin, node.next_serials[distributor])
        node.next_serials[distributor] += 1
        self.story.append(f"created {record}")
        self.oracle.create(key, origin, record.serial)
        self._obey_region(worker, node.region.offer(record))

    def deliver(self, channel: Channel) -> None:
        """The first message of a channel that is not empty arrives."""
        queue = self.channels[channel]
        message = queue.popleft()
        if not queue:
            del self.channels[channel]
        self.story.append(f"{channel}: {message}")
        match channel:
            case Peers(sender, worker):
                self.happened[type(message).__name__] += 1
                self._obey_region(worker, self.nodes[worker].region.receive(sender, message))
            case LaneOf(worker, lane):
                operator = self.nodes[worker].operators[lane.operator]
                self._obey_operator(worker, lane.operator, operator.receive(lane.distributor, message))
            case AnswersOf(worker, _):
                self._obey_region(worker, self.nodes[worker].region.answered(message))

    def drain(self, blocked: Collection[Channel] = ()) -> None:
        """Delivers until all channels but the blocked ones are empty."""
        while ready := [channel for channel in self.channels if channel not in blocked]:
            self.deliver(ready[0])

    def finish(self, route: Callable[[object], int]) -> None:
        """Everything is quiet: nothing may be left, and the oracle judges."""
        waiting = {
            worker: node.region.phase.value
            for worker, node in self.nodes.items()
            if node.region.reassignment is not None
        }
        assert not waiting, f"end: nothing can go on, and regions wait: {waiting}"
        assert self.happened["hold"] == self.happened["release"], "end: records are held for ever"
        self.oracle.finish({worker: dict(enumerate(node.states)) for worker, node in self.nodes.items()}, route)

    def _put(self, channel: Channel, message: Any) -> None:
        self.channels.setdefault(channel, deque()).append(message)

    def _obey_region(self, worker: int, instructions: Iterable[RegionInstruction]) -> None:
        for instruction in instructions:
            match instruction:
                case Send():
                    self._put(Peers(worker, instruction.to), instruction.message)
                case Process():
                    for operator in range(self.operators):
                        lane = Lane(instruction.record.origin.distributor, operator)
                        self._put(LaneOf(worker, lane), instruction.record)
                case Tell():
                    for lane in self.lanes:
                        self._put(LaneOf(worker, lane), instruction.word)
                case Hold():
                    self.happened["hold"] += 1
                case Release():
                    self.happened["release"] += 1
        self.nodes[worker].region.check()

    def _obey_operator(self, worker: int, operator: int, instructions: Iterable[OperatorInstruction]) -> None:
        node = self.nodes[worker]
        states = node.states[operator]
        for instruction in instructions:
            match instruction:
                case Process():
                    record = instruction.record
                    before = states.get(record.key, ())
                    self.oracle.process(operator, record.key, record.origin, record.serial, before)
                    states[record.key] = (*before, (record.origin, record.serial))
                case Reply():
                    self._put(AnswersOf(worker, operator), instruction.answer)
                case Install():
                    assert isinstance(instruction.state, tuple)
                    states[instruction.key] = instruction.state
                case Drop():
                    del states[instruction.key]
        node.operators[operator].check()
        assert states.keys() == node.operators[operator].keys.keys(), (
            f"operator: {operator} on {worker} has not the keys that it says"
        )
