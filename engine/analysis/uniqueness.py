"""Unique keys: columns of a node whose values are in at most one row at the end of a step. They follow from the operators' descriptors."""

from __future__ import annotations

from engine.model.circuit import Circuit
from engine.operators.arrangement import Key
from engine.operators.table import operator_of


def unique_keys(circuit: Circuit) -> list[Key | None]:
    """For each node: columns whose values are in at most one row; `()` if there is at most one row; None if no unique key is known."""
    keys: list[Key | None] = []
    for node in circuit.nodes:
        keys.append(operator_of(node).output.unique_key(node, [keys[i] for i in node.inputs]))
    return keys


def key_of(circuit: Circuit, index: int) -> Key | None:
    """The unique key of one node."""
    return unique_keys(circuit)[index]
