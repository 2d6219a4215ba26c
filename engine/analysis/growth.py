"""Which nodes of a circuit only ever grow: no change of theirs can hold a negative weight.

An operator over an input that only grows needs less state (a running maximum instead of all values), and only a view that only grows can be
an append-only topic. The analysis is a function of the circuit; `retracts` names the node at which taking back begins.
"""

from __future__ import annotations

from engine.model.circuit import Aggregate, Circuit, FinalAggregate, LastByKey, Node, SemiJoin, Source


def retracts(circuit: Circuit) -> list[int | None]:
    """For each node: None where it only grows, else the node from which its retractions come (maybe itself)."""
    origins: list[int | None] = []
    for index, node in enumerate(circuit.nodes):
        inherited = next((origins[i] for i in node.inputs if origins[i] is not None), None)
        origins.append(index if inherited is None and _begins(node) else inherited)
    return origins


def append_only_inputs(circuit: Circuit) -> dict[int, tuple[bool, ...]]:
    """For each node, for each of its inputs, whether it only grows."""
    origins = retracts(circuit)
    return {index: tuple(origins[i] is None for i in node.inputs) for index, node in enumerate(circuit.nodes)}


def _begins(node: Node) -> bool:
    """Whether a node takes rows back even where its inputs only grow."""
    if isinstance(node, Source):
        # A keyed source's messages are not rows yet; LastByKey makes the table. A changelog without key takes rows back itself.
        return node.retracts
    if isinstance(node, SemiJoin):
        return node.anti
    return isinstance(node, LastByKey | Aggregate | FinalAggregate)
