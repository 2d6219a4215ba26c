"""Monotonicity: which nodes of a circuit can retract rows, and which can only insert.

A change of a monotonic node never has a negative weight. An operator over a monotonic input needs less state (a running maximum instead of all
values), and only a monotonic view can be written to an append-only topic. The analysis is a function of the circuit.

Every operator's descriptor says whether it can retract rows even if its inputs only insert. If an input can retract, the output counts as
retracting, whatever the operator does.
"""

from __future__ import annotations

from engine.model.circuit import Circuit
from engine.operators.table import operator_of


def retraction_origins(circuit: Circuit) -> list[int | None]:
    """For each node: None if it only inserts, otherwise the node at which its retractions begin, which may be itself."""
    origins: list[int | None] = []
    for index, node in enumerate(circuit.nodes):
        inherited = next((origins[i] for i in node.inputs if origins[i] is not None), None)
        begins = operator_of(node).growth.retraction(node) is not None
        origins.append(index if inherited is None and begins else inherited)
    return origins


def append_only_inputs(circuit: Circuit) -> dict[int, tuple[bool, ...]]:
    """For each node, for each of its inputs, whether that input only inserts."""
    origins = retraction_origins(circuit)
    return {index: tuple(origins[i] is None for i in node.inputs) for index, node in enumerate(circuit.nodes)}


def retraction_reason(circuit: Circuit, index: int) -> str | None:
    """Why the node can retract rows, as the end of a sentence that begins with "because"; None if it only inserts."""
    origin = retraction_origins(circuit)[index]
    if origin is None:
        return None
    node = circuit.nodes[origin]
    reason = operator_of(node).growth.retraction(node)
    assert reason is not None
    return reason
