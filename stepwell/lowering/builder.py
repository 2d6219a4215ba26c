"""A circuit under construction. Equal nodes become one node, so a plan that occurs twice is computed and stored once."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from engine.model.circuit import Circuit, Node, Output, View
from engine.operators.arrangement import Key
from engine.operators.table import operator_of


class CircuitBuilder:
    """Appends nodes in topological order; two equal nodes (kind, inputs, fields) get the same index."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._index: dict[Node, int] = {}
        self._keys: list[Key | None] = []  # of the first nodes, as far as somebody has asked

    def add(self, node: Node) -> int:
        index = self._index.get(node)
        if index is None:
            assert all(0 <= i < len(self.nodes) for i in node.inputs), f"{node.kind} reads {node.inputs}"
            index = len(self.nodes)
            self.nodes.append(node)
            self._index[node] = index
        return index

    def types(self, index: int) -> tuple[pa.DataType, ...]:
        return self.nodes[index].types

    def unique_key(self, index: int) -> Key | None:
        """Columns whose values are in at most one row of the node, if some are known (engine/analysis/uniqueness.py)."""
        for node in self.nodes[len(self._keys) : index + 1]:
            self._keys.append(operator_of(node).output.unique_key(node, [self._keys[i] for i in node.inputs]))
        return self._keys[index]

    def circuit(self) -> Circuit:
        """The circuit of the nodes that views and outputs read. Nodes of failed attempts and nodes that were fused into
        others are left out."""
        return prune(self.nodes)


def prune(nodes: list[Node]) -> Circuit:
    """The circuit of the nodes on which a View or an Output depends, renumbered in the same order."""
    needed = {index for index, node in enumerate(nodes) if isinstance(node, View | Output)}
    for index in range(len(nodes) - 1, -1, -1):
        if index in needed:
            needed.update(nodes[index].inputs)
    renumbered: dict[int, int] = {}
    kept: list[Node] = []
    for index in sorted(needed):
        renumbered[index] = len(kept)
        kept.append(replace(nodes[index], inputs=tuple(renumbered[i] for i in nodes[index].inputs)))
    circuit = Circuit(tuple(kept))
    circuit.check()
    return circuit
