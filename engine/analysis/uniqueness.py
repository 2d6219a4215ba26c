"""Of which columns a node has at most one row at the end of a step, as far as its operator's descriptor says."""

from __future__ import annotations

from engine.model.circuit import Circuit
from engine.operators.arrangement import Key
from engine.operators.table import operator_of


def unique_keys(circuit: Circuit) -> list[Key | None]:
    """For each node: columns whose values are in one row at most, `()` if there is one row at most; None if it is not known."""
    keys: list[Key | None] = []
    for node in circuit.nodes:
        keys.append(operator_of(node).unique_key(node, [keys[i] for i in node.inputs]))
    return keys


def key_of(circuit: Circuit, index: int) -> Key | None:
    """The unique key of one node."""
    return unique_keys(circuit)[index]
