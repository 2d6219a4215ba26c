"""What must hold in every world. It shares no code with the machines, and it sees what happens, not what they know.

- Every operator processes the records of a key as a merge of what its origins have sent: in the order of each, none lost and none twice.
- An operator processes a record only where the key's state is. If the state is on its way, nobody processes.
- A state is the fold of the records that were processed.
- In the end each state is with the instance that the last assignment says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

MODULUS = (1 << 61) - 1
UNDERWAY = "a message"

Slot = tuple[int, int, int]
"""A region, a position in its chains, and a key."""


def keeps_state(position: int, key: int) -> bool:
    """Operators at different positions have state for different keys: the first for remainders 0 and 1, the second for 1 and 2, and so on. So
    some keys have state in a later operator alone, and some nowhere."""
    return (key - position) % 5 < 2


def deletes_state(serial: int) -> bool:
    return serial % 11 == 10


@dataclass
class Oracle:
    """`accepted`: the serial numbers of the records that a distributor got, by (region, key) and distributor. `processed`: how many of them
    each operator has processed. `expected`: what a state must be; a state that is missing has no entry. `place`: where it is."""

    chains: tuple[int, ...]
    accepted: dict[tuple[int, int], dict[str, list[int]]] = field(default_factory=lambda: defaultdict(dict))
    processed: dict[tuple[Slot, str], int] = field(default_factory=lambda: defaultdict(int))
    expected: dict[Slot, int] = field(default_factory=dict)
    place: dict[Slot, str] = field(default_factory=dict)

    def accepts(self, region: int, origin: str, key: int, serial: int) -> None:
        self.accepted[region, key].setdefault(origin, []).append(serial)

    def processes(self, slot: Slot, instance: str, origin: str, serial: int, state: int | None) -> None:
        """`state`: what the operator has after the record."""
        region, _, key = slot
        sent = self.accepted[region, key].get(origin, [])
        done = self.processed[slot, origin]
        due = sent[done] if done < len(sent) else None
        assert due == serial, f"order: {instance} processes record {serial} of {origin} for {slot}, and {due} is due"
        place = self.place.get(slot, instance)
        assert place == instance, f"place: {instance} processes record {serial} for {slot}, and the state is in {place}"
        self.processed[slot, origin] = done + 1
        self._fold(slot, instance, serial)
        assert state == self.expected.get(slot), f"fold: {instance} has {state} for {slot} after record {serial}"

    def _fold(self, slot: Slot, instance: str, serial: int) -> None:
        _, position, key = slot
        if not keeps_state(position, key):
            return
        if deletes_state(serial):
            self.expected.pop(slot, None)
            self.place.pop(slot, None)
        else:
            self.expected[slot] = (self.expected.get(slot, 0) * 1_000_003 + serial + 1) % MODULUS
            self.place[slot] = instance

    def drops(self, slot: Slot, instance: str) -> None:
        assert self.place.get(slot) == instance, f"place: {instance} drops {slot}, which is in {self.place.get(slot)}"
        self.place[slot] = UNDERWAY

    def installs(self, slot: Slot, instance: str, state: int) -> None:
        assert state == self.expected.get(slot), (
            f"fold: {instance} installs {state} for {slot}, and records are lost by it"
        )
        assert self.place[slot] in (UNDERWAY, instance), (
            f"place: {instance} installs {slot}, which is in {self.place[slot]}"
        )
        self.place[slot] = instance

    def ends(self, owner: Callable[[int, int], str], states: dict[Slot, list[tuple[str, int]]]) -> None:
        """`owner`: of a key of a region by the last assignment. `states`: all that instances have."""
        for (region, key), origins in self.accepted.items():
            for position in range(self.chains[region]):
                for origin, sent in origins.items():
                    done = self.processed[(region, position, key), origin]
                    assert done == len(sent), (
                        f"lost: {done} of {len(sent)} records of {origin} for {(region, position, key)}"
                    )
        assert states.keys() == self.expected.keys(), f"owner: states of {sorted(states.keys() ^ self.expected.keys())}"
        for slot, found in states.items():
            due = [(owner(slot[0], slot[2]), self.expected[slot])]
            assert found == due, f"owner: the state of {slot} is {found}, not {due}"
