"""A circuit as text, one line per node: `3: Aggregate(2) by c0: count(*)`."""

from __future__ import annotations

from engine.model.circuit import Circuit
from stepwell.lowering.text import node_text


def circuit_text(circuit: Circuit) -> str:
    return "\n".join(f"{index}: {node_text(node)}" for index, node in enumerate(circuit.nodes))
