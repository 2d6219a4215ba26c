"""A circuit as text for people: one line per node, inputs by number. For `dry-run` and for tests; nothing reads it
back."""

from __future__ import annotations

from engine.model.circuit import Circuit, Node
from engine.operators.table import operator_of


def circuit_text(circuit: Circuit) -> str:
    """`3: Aggregate(2) by c0: count(*)`, one line per node."""
    return "\n".join(f"{index}: {node_text(node)}" for index, node in enumerate(circuit.nodes))


def node_text(node: Node) -> str:
    """The kind, the inputs, and what this node does."""
    inputs = f"({', '.join(map(str, node.inputs))})" if node.inputs else ""
    return f"{node.kind}{inputs} {operator_of(node).text(node)}".rstrip()
