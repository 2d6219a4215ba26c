"""Damion's protocol: moves the state of keys between running instances, a few keys at a time, while records of all other keys flow on.

The algorithm is "Damions Awesome Rescaling Algorithm" with four rules corrected. A *distributor* routes records by key to *instances*. An
instance is a chain of operators, each with state by key. `Distributor` and `Operator` are machines without I/O. A shell hands each message to
`receive`, in the order of its channel, and carries out the instructions that come back, in their order, before the next message.

    X distributor, Z old owner, Y new owner     message                         when it is sent
    X -> Z                                      SHUTDOWN                        the change begins
    Z -> every X                                SETS(whitelist, hold)           every X has sent SHUTDOWN
    X -> Z                                      FINAL(keys)                     the keys have come into hold
    Z -> Y                                      STATE(keys)                     every X has sent FINAL(keys)
    Z -> every X                                REDISTRIBUTE(keys, following)   the same moment
    Y -> every X                                INSTALLED(keys)                 Y has the states

On REDISTRIBUTE, X moves the following keys from whitelist to hold and sends FINAL for them. On INSTALLED, it releases to Y what waits. When no
key is left in whitelist or hold, Z has no state of a key that moves and gets no record of one. Scaling out and in differ in the assignments
alone.

The corrected rules, and what would go wrong without them:

- **D1.** With explicit sets, X holds the records of keys that move from SHUTDOWN until SETS. Otherwise a new key could be made in Z after
  Z had listed its keys. Sets of hashes contain new keys too, so with them nothing is held before SETS.
- **D2.** Z sends the state once, to Y, and X waits for Y's INSTALLED. If every X passed it on, Y would install it again over newer records.
- **D3.** SETS go through the whole chain of Z. Otherwise a key that has state only in a later operator would be in no set, and X would send
  it to Y.
- **D4.** X has rules for each old owner, and obeys those of the key's own. Otherwise the sets of one would decide over keys of another.

Why a key's records keep their order: X sends a key to one place at a time. It changes the place only behind FINAL, or if the key has no state
anywhere, and it sends on to Y only after Y has the state. A chain keeps the order too, so what follows FINAL in the first operator follows the
last record in each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from protocols.assignment import Assignment, Naming, Reassignment
from protocols.damion_messages import (
    Begin,
    DistributorMessage,
    Drop,
    Final,
    Hold,
    Input,
    Install,
    Installed,
    Instruction,
    Named,
    OperatorMessage,
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
from protocols.keys import NO_KEYS, Explicit, Keys, is_within


@dataclass
class Rule:
    """What a distributor does with the keys that one old owner gives away. `has_sets`: its SETS have come. `is_last`: no more keys will come
    into hold."""

    has_sets: bool = False
    is_last: bool = False
    whitelist: Keys = NO_KEYS
    hold: Keys = NO_KEYS

    @property
    def has_ended(self) -> bool:
        return self.is_last and self.hold.is_empty()


@dataclass
class Distributor:
    """Routes records by key. `name` is its own address. `assignment` holds for keys that do not move. `rules` has the old owners of the change
    under way. `held` are the keys of which records wait: the shell has the records."""

    name: str
    assignment: Assignment
    reassignment: Reassignment | None = None
    reassignments: int = 0
    sequence: int = 0
    rules: dict[str, Rule] = field(default_factory=dict)
    held: set[int] = field(default_factory=set)

    def receive(self, message: DistributorMessage) -> list[Instruction]:
        """What is to be done about a message. Raises AssertionError if the message cannot come now."""
        match message:
            case Input():
                return self._route(message)
            case Begin():
                return self._begin(message.reassignment)
            case Sets():
                return self._sets(message)
            case Redistribute():
                return self._redistribute(message)
            case Installed():
                return self._installed(message)
            case _:
                assert_never(message)

    def _route(self, message: Input) -> list[Instruction]:
        record = Record(message.key, self.name, self.sequence, self.reassignments, message.body)
        self.sequence += 1
        place = self._place(record.key)
        if place is None:
            self.held.add(record.key)
            return [Hold(record)]
        assert record.key not in self.held, f"{self.name}: a record of key {record.key} overtakes others that are held"
        return [Send(place, record)]

    def _place(self, key: int) -> str | None:
        """Where records of this key go now; None if they wait."""
        old = self.assignment.owner(key)
        if self.reassignment is None:
            return old
        new = self.reassignment.new.owner(key)
        if new == old:
            return old
        rule = self.rules[old]
        if not rule.has_sets:
            return self._place_before_sets(key)
        if rule.whitelist.contains(key):
            return old
        return None if rule.hold.contains(key) else new

    def _place_before_sets(self, key: int) -> str | None:
        """Where records go of a key whose old owner has not said which keys it has."""
        assert self.reassignment is not None
        match self.reassignment.naming:
            case Naming.EXPLICIT:
                return None
            case Naming.INTERVAL:
                return self.assignment.owner(key)
            case _:
                assert_never(self.reassignment.naming)

    def _begin(self, reassignment: Reassignment) -> list[Instruction]:
        assert self.reassignment is None, (
            f"{self.name}: change {reassignment.number} begins before change {self.reassignments} has ended"
        )
        assert reassignment.number == self.reassignments + 1, (
            f"{self.name}: change {reassignment.number} follows {self.reassignments}"
        )
        assert reassignment.old == self.assignment, f"{self.name}: change {reassignment.number} begins elsewhere"
        self.reassignment, self.reassignments = reassignment, reassignment.number
        self.rules = {giver: Rule() for giver in reassignment.givers()}
        # The end comes at once if nobody gives anything away.
        return [*(Send(giver, Shutdown(reassignment)) for giver in self.rules), *self._go_on()]

    def _sets(self, message: Sets) -> list[Instruction]:
        rule = self._rule(message)
        assert not rule.has_sets, f"{self.name}: SETS of {message.giver} come twice"
        rule.has_sets = True
        rule.whitelist = message.whitelist
        return [*self._take_into_hold(message.giver, message.hold), *self._go_on()]

    def _redistribute(self, message: Redistribute) -> list[Instruction]:
        rule = self._rule(message)
        assert is_within(message.following, rule.whitelist), f"{self.name}: REDISTRIBUTE names keys that are in no set"
        rule.whitelist = rule.whitelist.minus(message.following)
        return [*self._take_into_hold(message.giver, message.following), *self._go_on()]

    def _take_into_hold(self, giver: str, keys: Keys) -> list[Instruction]:
        """FINAL follows the last record of these keys in the channel to the old owner."""
        rule = self.rules[giver]
        rule.hold = rule.hold.union(keys)
        if keys.is_empty():
            assert rule.whitelist.is_empty(), f"{self.name}: {giver} has ended with keys in its whitelist"
            rule.is_last = True
            return []
        return [Send(giver, Final(self.reassignments, keys))]

    def _installed(self, message: Installed) -> list[Instruction]:
        rule = self._rule(message)
        assert is_within(message.keys, rule.hold), f"{self.name}: INSTALLED names keys that are not held"
        rule.hold = rule.hold.minus(message.keys)
        return self._go_on()

    def _rule(self, message: Sets | Redistribute | Installed) -> Rule:
        assert self.reassignment is not None and message.reassignment == self.reassignments, (
            f"{self.name}: a message of change {message.reassignment} in change {self.reassignments}"
        )
        return self.rules[message.giver]

    def _go_on(self) -> list[Instruction]:
        """Releases what need not wait any longer, and ends the change if all its rules have ended."""
        places = {key: self._place(key) for key in sorted(self.held)}
        self.held = {key for key, place in places.items() if place is None}
        if self.reassignment is not None and all(rule.has_ended for rule in self.rules.values()):
            self.assignment, self.reassignment, self.rules = self.reassignment.new, None, {}
        return [Release(key, place) for key, place in places.items() if place is not None]

    def check(self) -> None:
        """Asserts the invariants. No key is in two sets, each set has only keys that its owner gives away, and only keys wait that must."""
        assert self.reassignment is not None or not self.rules, f"{self.name}: rules without a change"
        for giver, rule in self.rules.items():
            assert self.reassignment is not None
            assert rule.whitelist.intersection(rule.hold).is_empty(), (
                f"{self.name}: whitelist and hold of {giver} share keys"
            )
            named = rule.whitelist.union(rule.hold)
            assert is_within(named, self.reassignment.hashes_given_by(giver)), (
                f"{self.name}: sets of {giver} have keys that it does not give away"
            )
            assert rule.has_sets or named.is_empty(), f"{self.name}: keys of {giver} before its SETS"
        lost = [key for key in self.held if self._place(key) is not None]
        assert not lost, f"{self.name}: records of keys {lost} wait for nothing"


@dataclass
class Operator:
    """One operator of an instance. It can be an old owner in a change, a new one, or both.

    `name` is its own address, `instance` that of the first operator of its chain, and `following` that of the next one, None for the last.
    `position` counts from 0 in the chain; all instances have chains of the same length. `distributors` are all that send to the instance.
    `given` are the keys that it has given away in change `given_in`. `batches` are those that are not in hold yet; the last operator has them.
    `latest` has the sequence number of the last record by key and origin. It moves with a key, and it is kept only to be checked.
    """

    name: str
    instance: str
    position: int
    following: str | None
    distributors: frozenset[str]
    reassignment: Reassignment | None = None
    shutdowns: set[str] = field(default_factory=set)
    finals: dict[str, Keys] = field(default_factory=dict)
    batches: deque[Keys] = field(default_factory=deque)
    given: Keys = NO_KEYS
    given_in: int = 0
    latest: dict[int, dict[str, int]] = field(default_factory=dict)

    def receive(self, sender: str, message: OperatorMessage, states: Mapping[int, object]) -> list[Instruction]:
        """What is to be done about a message. `states` is what the operator has now, by key: the shell changes it by processing records, and by
        Install and Drop. Raises AssertionError if the message cannot come now."""
        match message:
            case Record():
                return self._record(message)
            case Shutdown():
                return self._shutdown(sender, message.reassignment, states)
            case Named():
                return self._name(message.reassignment, message.keys, states)
            case Final():
                return self._final(sender, message, states)
            case Packing():
                return self._pack(message.keys, message.parts, states)
            case State():
                return self._install(message, states)
            case _:
                assert_never(message)

    def _record(self, record: Record) -> list[Instruction]:
        self._enter(record.reassignment)
        assert not self.given.contains(record.key), (
            f"{self.name}: a record of key {record.key} comes after its state has left"
        )
        latest = self.latest.setdefault(record.key, {})
        before = latest.get(record.origin, -1)
        assert before < record.sequence, (
            f"{self.name}: record {record.sequence} of {record.origin} comes after {before}"
        )
        latest[record.origin] = record.sequence
        return [Process(record)]

    def _enter(self, reassignment: int) -> None:
        """In a new change, a key that was given away may come back. The former change has ended everywhere, so nothing of it can follow."""
        if reassignment > self.given_in:
            self.given, self.given_in = NO_KEYS, reassignment

    def _shutdown(self, sender: str, reassignment: Reassignment, states: Mapping[int, object]) -> list[Instruction]:
        """Waits for all distributors. After that, no new key that moves can come with explicit sets, for they all hold such records."""
        assert sender in self.distributors and sender not in self.shutdowns, (
            f"{self.name}: SHUTDOWN of {sender} comes twice"
        )
        self.shutdowns.add(sender)
        if self.shutdowns != self.distributors:
            return []
        self.shutdowns.clear()
        return self._name(reassignment, NO_KEYS, states)

    def _name(self, reassignment: Reassignment, before: Explicit, states: Mapping[int, object]) -> list[Instruction]:
        """Adds the keys of this operator to those of the operators before it. The last operator makes the sets."""
        self._enter(reassignment.number)
        self.reassignment = reassignment
        named = Explicit(before.keys | self._named_here(reassignment, states))
        if self.following is not None:
            return [Send(self.following, Named(reassignment, named))]
        self.batches = deque(reassignment.batches(self.instance, named))
        hold = self._next_batch(states)
        whitelist: Keys = NO_KEYS
        for batch in self.batches:
            whitelist = whitelist.union(batch)
        return self._to_distributors(Sets(reassignment.number, self.instance, whitelist, hold))

    def _named_here(self, reassignment: Reassignment, states: Mapping[int, object]) -> frozenset[int]:
        """The keys that move and have state in this operator."""
        return frozenset(key for key in states if reassignment.moves_from(self.instance, key))

    def _next_batch(self, states: Mapping[int, object]) -> Keys:
        """The keys of the next round; none if all are given."""
        return self.batches.popleft() if self.batches else NO_KEYS

    def _final(self, sender: str, message: Final, states: Mapping[int, object]) -> list[Instruction]:
        """Waits for all distributors. After that, no record of these keys can come."""
        assert self.reassignment is not None and message.reassignment == self.reassignment.number, (
            f"{self.name}: FINAL of change {message.reassignment}"
        )
        assert sender in self.distributors and sender not in self.finals, f"{self.name}: FINAL of {sender} comes twice"
        self.finals[sender] = message.keys
        if self.finals.keys() != self.distributors:
            return []
        assert set(self.finals.values()) == {message.keys}, f"{self.name}: FINAL of different keys"
        self.finals.clear()
        return self._pack(message.keys, (), states)

    def _pack(self, keys: Keys, before: tuple[Part, ...], states: Mapping[int, object]) -> list[Instruction]:
        """Adds the part of this operator to those of the operators before it. The last operator sends them off."""
        assert self.reassignment is not None and len(before) == self.position, (
            f"{self.name}: {len(before)} parts before it"
        )
        own = {key: states[key] for key in sorted(states) if keys.contains(key)}
        moving = [key for key in self.latest if keys.contains(key)]
        parts = (*before, Part(own, {key: self.latest.pop(key) for key in moving}))
        self.given = self.given.union(keys)
        drops: list[Instruction] = [Drop(key) for key in own]
        if self.following is not None:
            return [*drops, Send(self.following, Packing(self.reassignment.number, keys, parts))]
        return [*drops, *self._give(self.reassignment, keys, parts, states)]

    def _give(
        self, reassignment: Reassignment, keys: Keys, parts: tuple[Part, ...], states: Mapping[int, object]
    ) -> list[Instruction]:
        following = self._next_batch(states)
        return [
            *(Send(target, state) for target, state in self._by_target(reassignment, keys, parts).items()),
            *self._to_distributors(Redistribute(reassignment.number, self.instance, keys, following)),
        ]

    def _by_target(self, reassignment: Reassignment, keys: Keys, parts: tuple[Part, ...]) -> dict[str, State]:
        """Every new owner of some of the keys gets a message, even without any state: the distributors wait for its answer."""
        return {
            target: State(reassignment.number, self.instance, its, tuple(_only(part, its) for part in parts))
            for target, its in reassignment.by_target(keys).items()
        }

    def _install(self, message: State, states: Mapping[int, object]) -> list[Instruction]:
        self._enter(message.reassignment)
        part = message.parts[self.position]
        twice = sorted(part.states.keys() & states.keys())
        assert not twice, f"{self.name}: the state of keys {twice} comes from {message.giver}, and is there"
        self.latest.update({key: dict(numbers) for key, numbers in part.latest.items()})
        installs: list[Instruction] = [Install(key, state) for key, state in part.states.items()]
        if self.following is not None:
            return [*installs, Send(self.following, message)]
        return [*installs, *self._to_distributors(Installed(message.reassignment, message.giver, message.keys))]

    def _to_distributors(self, message: Sets | Redistribute | Installed) -> list[Instruction]:
        return [Send(distributor, message) for distributor in sorted(self.distributors)]

    def check(self, states: Mapping[int, object]) -> None:
        """Asserts the invariants. What is given away is not here, and what waits for its round is not given away."""
        kept = sorted(key for key in states if self.given.contains(key))
        assert not kept, f"{self.name}: the state of keys {kept} is here and in a message"
        for batch in self.batches:
            assert batch.intersection(self.given).is_empty(), f"{self.name}: keys are given away twice"
        assert self.shutdowns < self.distributors, f"{self.name}: SHUTDOWN of all distributors and no SETS"
        assert self.finals.keys() < self.distributors, f"{self.name}: FINAL of all distributors and no REDISTRIBUTE"


def _only(part: Part, keys: Keys) -> Part:
    states = {key: state for key, state in part.states.items() if keys.contains(key)}
    return Part(states, {key: numbers for key, numbers in part.latest.items() if keys.contains(key)})
