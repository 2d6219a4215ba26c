"""Of which columns a node has at most one row at the end of a step, as far as its kind says."""

from __future__ import annotations

from engine.model.circuit import Aggregate, Circuit, Column, Distinct, FinalAggregate, LastByKey, Map, View


def key_of(circuit: Circuit, index: int) -> tuple[Column, ...] | None:
    """Columns whose values stand in one row at most, `()` for one row at all; None where it is not known."""
    node = circuit.nodes[index]
    match node:
        case LastByKey():
            return node.key
        case Aggregate() | FinalAggregate():
            return tuple(range(len(node.group)))
        case Distinct():
            return tuple(range(len(node.types)))
        case View():
            return key_of(circuit, node.inputs[0])
        case Map():
            key = key_of(circuit, node.inputs[0])
            return None if key is None else node.places_of(key)
    return None
