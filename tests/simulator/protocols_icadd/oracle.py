"""What must hold of every record and every state. It shares no code with the machines: it is told what was created and what was done.

Each text of an assertion begins with a word for what is wrong: order, twice, state, lost or owner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Entry = tuple[object, int]
"""A record as the oracle sees it: its origin and its serial."""

State = tuple[Entry, ...]
"""The state of a key in an operator is the list of all that was processed. So any lost, doubled or exchanged record makes another state."""


@dataclass
class Oracle:
    """`operators`: how many operators each record must reach."""

    operators: int
    created: dict[object, dict[object, list[int]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    """By key and origin: the serials, in the order of their creation."""
    processed: dict[tuple[int, object], list[Entry]] = field(default_factory=lambda: defaultdict(list))
    """By operator and key: the records, in the order in which they were processed anywhere."""
    counts: dict[tuple[int, object, object], int] = field(default_factory=lambda: defaultdict(int))
    """By operator, key and origin: how many records were processed."""

    def create(self, key: object, origin: object, serial: int) -> None:
        self.created[key][origin].append(serial)

    def process(self, operator: int, key: object, origin: object, serial: int, before: State) -> None:
        """A worker processes a record; `before` is its state of the key at that moment."""
        name = f"key {key}, {origin}, operator {operator}"
        sequence, count = self.created[key][origin], self.counts[operator, key, origin]
        assert serial not in sequence[:count], f"twice: serial {serial} of {name}"
        assert serial == sequence[count], f"order: serial {serial} of {name} before {sequence[count]}"
        assert list(before) == self.processed[operator, key], (
            f"state: at serial {serial} of {name} the state lacks records, or has too many"
        )
        self.counts[operator, key, origin] += 1
        self.processed[operator, key].append((origin, serial))

    def finish(
        self, states: Mapping[int, Mapping[int, Mapping[object, State]]], route: Callable[[object], int]
    ) -> None:
        """Everything is quiet. `states`: by worker, operator and key. `route`: the worker that each key belongs to now."""
        for key, sequences in self.created.items():
            for operator in range(self.operators):
                for origin, sequence in sequences.items():
                    done = self.counts[operator, key, origin]
                    assert done == len(sequence), (
                        f"lost: serial {sequence[done]} of key {key}, {origin}, operator {operator}"
                    )
                owners = [worker for worker, held in states.items() if key in held[operator]]
                assert owners == [route(key)], (
                    f"owner: operator {operator} has key {key} on {owners}, not on {route(key)}"
                )
                final = states[route(key)][operator][key]
                assert list(final) == self.processed[operator, key], (
                    f"state: the last one of key {key}, operator {operator}"
                )
