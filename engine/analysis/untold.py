"""What a view was, if neither state nor messages tell it.

A view that nothing stores is computed once more to be compared with what it is to be. Over event time that gives other rows: which of them are
late depends on how the messages were divided into steps. So no difference between two such contents can be made.
"""

from __future__ import annotations

from engine.model.circuit import Circuit, View
from engine.operators.table import operator_of


def untold_nodes(circuit: Circuit) -> frozenset[int]:
    """The nodes whose content follows a watermark, and is in no state."""
    stored = {node.inputs[0] for node in circuit.nodes if isinstance(node, View) and node.stored}
    found: set[int] = set()
    for index, node in enumerate(circuit.nodes):
        operator = operator_of(node)
        is_told = index in stored or operator.is_fed_from_state(node)
        if not is_told and (operator.needs_append_only or not found.isdisjoint(node.inputs)):
            found.add(index)
    return frozenset(found)


def untold_views(circuit: Circuit) -> frozenset[str]:
    """The names of the views among these nodes."""
    return frozenset(node.name for index in untold_nodes(circuit) if isinstance(node := circuit.nodes[index], View))
