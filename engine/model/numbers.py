"""Node numbers: what names the state of a node, in every revision of a project.

The index of a node in its circuit changes with the project. Its **number** does not, as long as a revision keeps the node.
A node owns `TRACES_MAX` tables of the database, from the one that `table_of` gives on. In the step log, error rows are
counted by number. `numbers[index]` is recorded in the plan document of a revision.

Tables have 16 bits. So nodes with state need numbers below `NUMBERS_WITH_STATE`, and nodes without state have higher ones,
which name no table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count

from engine.model.circuit import Circuit
from storage.keys import TABLE_FIRST, TABLE_MAX

TRACES_MAX = 8
"""The number of traces that a node may have."""

NUMBERS_WITH_STATE = (TABLE_MAX + 1 - TABLE_FIRST) // TRACES_MAX
"""8,189 nodes. The 103 views of TPC-DS have 1,104 nodes with state."""


class TooManyNodes(ValueError):
    """A circuit has more nodes with state than there are numbers."""


def table_of(number: int) -> int:
    """The first table of the node. Only a node with state has one."""
    assert 0 <= number < NUMBERS_WITH_STATE, f"number {number} names no table"
    return TABLE_FIRST + number * TRACES_MAX


def number_of(table: int) -> int | None:
    """The number of the node that owns the table; None for a table of the engine's own."""
    return None if table < TABLE_FIRST else (table - TABLE_FIRST) // TRACES_MAX


def assign_numbers(
    nodes: int, with_state: Collection[int], kept: Mapping[int, int], taken: Collection[int] = ()
) -> tuple[int, ...]:
    """The number of each node of a circuit with that many nodes. `with_state`: the indices of those with state. `kept`: the
    numbers of the nodes that have one already, by index. `taken`: numbers that no other node may get, because a previous
    revision has them or their tables are not cleared yet. A node gets the lowest number that is free for its kind.
    Raises TooManyNodes."""
    used = {*taken, *kept.values()}
    stateful, stateless = _free(0, used), _free(NUMBERS_WITH_STATE, used)
    found = tuple(
        kept[index] if index in kept else next(stateful if index in with_state else stateless) for index in range(nodes)
    )
    if any(found[index] >= NUMBERS_WITH_STATE for index in with_state):
        raise TooManyNodes(f"{len(with_state)} nodes have state, and there are numbers for {NUMBERS_WITH_STATE}")
    return found


@dataclass(frozen=True)
class NumberedCircuit:
    """A circuit, with the number of each of its nodes."""

    circuit: Circuit
    numbers: tuple[int, ...]

    @cached_property
    def _indices(self) -> Mapping[int, int]:
        return {number: index for index, number in enumerate(self.numbers)}

    def index(self, number: int) -> int | None:
        """The index of the node with this number; None if the circuit lacks it."""
        return self._indices.get(number)

    def indices(self, numbers: Iterable[int]) -> frozenset[int]:
        """Returns the indices of the nodes with these numbers, as far as the circuit has them."""
        return frozenset(self._indices[number] for number in numbers if number in self._indices)

    def numbers_of(self, indices: Iterable[int]) -> frozenset[int]:
        return frozenset(self.numbers[index] for index in indices)


def _free(first: int, used: Collection[int]) -> Iterator[int]:
    return (number for number in count(first) if number not in used)
