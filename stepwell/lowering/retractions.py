"""Append outputs over views that can retract rows are refused, and so is a watermark over rows that can be retracted.

`engine/analysis/retraction.py` finds out whether a view can retract, and why.
"""

from __future__ import annotations

from engine.analysis.retraction import retraction_origins, retraction_reason
from engine.model.circuit import Circuit, Output, View
from engine.operators.table import operator_of


def append_refusals(circuit: Circuit) -> dict[str, str]:
    """The handles of append outputs that can retract, each with the reason."""
    refusals: dict[str, str] = {}
    for index, node in circuit.nodes_of(Output).items():
        if node.mode == "append":
            reason = retraction_reason(circuit, index)
            if reason is not None:
                refusals[node.handle] = reason
    return refusals


def watermark_refusals(circuit: Circuit) -> dict[str, str]:
    """The names of the views with a watermark over rows that can be retracted, each with the reason. A closed group could not take a row
    back."""
    origins = retraction_origins(circuit)
    refusals: dict[str, str] = {}
    for index, node in enumerate(circuit.nodes):
        if operator_of(node).growth.is_needed:
            below = next((i for i in node.inputs if origins[i] is not None), None)
            if below is not None:
                reason = retraction_reason(circuit, below)
                assert reason is not None
                refusals.setdefault(_view_of(circuit, index), reason)
    return refusals


def _view_of(circuit: Circuit, index: int) -> str:
    """The first view that depends on a node."""
    reached = {index}
    for later in range(index + 1, len(circuit.nodes)):
        node = circuit.nodes[later]
        if reached.isdisjoint(node.inputs):
            continue
        if isinstance(node, View):
            return node.name
        reached.add(later)
    raise AssertionError(f"no view depends on node {index}")
