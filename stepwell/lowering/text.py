"""A node of a circuit as text for people. `dry-run` and tests show it, and no program reads it."""

from __future__ import annotations

from engine.model.circuit import Node
from engine.operators.table import operator_of


def node_text(node: Node) -> str:
    """The kind of the node, its inputs, and what it does."""
    inputs = f"({', '.join(map(str, node.inputs))})" if node.inputs else ""
    return f"{node.kind}{inputs} {operator_of(node).wording.text(node)}".rstrip()
