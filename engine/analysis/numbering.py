"""The numbers of a circuit's nodes: which of them need a number that names tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from engine.analysis.project_match import ProjectMatch, nodes_with_state
from engine.model.circuit import Circuit, Output
from engine.model.numbers import assign_numbers

_NONE: Mapping[int, int] = MappingProxyType({})


def numbers_after(found: ProjectMatch, numbers: Sequence[int]) -> tuple[int, ...]:
    """The numbers of the nodes that a transition leads to. `numbers`: of the previous nodes. What is kept keeps its number, and no other node
    gets one of them. Raises TooManyNodes."""
    kept = {index: numbers[previous] for index, previous in found.kept.items()}
    return numbers_of(found.now.circuit, kept, taken=numbers)


def numbers_of(circuit: Circuit, kept: Mapping[int, int] = _NONE, taken: Collection[int] = ()) -> tuple[int, ...]:
    """The number of each node. `kept`: of the nodes that have one already, by index. `taken`: numbers that no other node may get. Raises
    TooManyNodes."""
    outputs = circuit.nodes_of(Output)  # they keep changes that are withheld
    return assign_numbers(len(circuit.nodes), {*nodes_with_state(circuit), *outputs}, kept, taken)
