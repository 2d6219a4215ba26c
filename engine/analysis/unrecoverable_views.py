"""The views whose former content cannot be recovered, because neither state nor messages have it.

A view that nothing stores is computed once more to be compared with what it is to be. Over event time that gives other rows: which of them are
late depends on how the messages were divided into steps. So no difference between two such contents can be made.
"""

from __future__ import annotations

from engine.model.circuit import Circuit, View
from engine.operators.table import operator_of


def unrecoverable_nodes(circuit: Circuit) -> frozenset[int]:
    """The nodes whose content follows a watermark, and is in no state."""
    stored = {view.inputs[0] for view in circuit.nodes_of(View).values() if view.stored}
    found: set[int] = set()
    for index, node in enumerate(circuit.nodes):
        operator = operator_of(node)
        is_recoverable = index in stored or operator.is_fed_from_state(node)
        if not is_recoverable and (operator.growth.is_needed or not found.isdisjoint(node.inputs)):
            found.add(index)
    return frozenset(found)


def unrecoverable_views(circuit: Circuit) -> frozenset[str]:
    """The names of the views among these nodes."""
    unrecoverable = unrecoverable_nodes(circuit)
    return frozenset(view.name for index, view in circuit.nodes_of(View).items() if index in unrecoverable)
