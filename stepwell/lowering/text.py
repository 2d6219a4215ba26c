"""A circuit as text for people: one line per node, with its inputs as numbers. `dry-run` and tests show it, and no
program reads it."""

from __future__ import annotations

from engine.model.circuit import Circuit, Node
from engine.operators.table import operator_of


def circuit_text(circuit: Circuit) -> str:
    """`3: Aggregate(2) by c0: count(*)`, one line per node."""
    return "\n".join(f"{index}: {node_text(node)}" for index, node in enumerate(circuit.nodes))


def node_text(node: Node) -> str:
    """The kind of the node, its inputs, and what it does."""
    inputs = f"({', '.join(map(str, node.inputs))})" if node.inputs else ""
    return f"{node.kind}{inputs} {operator_of(node).text(node)}".rstrip()
