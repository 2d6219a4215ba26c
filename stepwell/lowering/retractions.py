"""Append outputs over views that can retract rows are refused.

`engine/analysis/retraction.py` finds out whether a view can retract, and why.
"""

from __future__ import annotations

from engine.analysis.retraction import retraction_reason
from engine.model.circuit import Circuit, Output


def append_refusals(circuit: Circuit) -> dict[str, str]:
    """The handles of append outputs that can retract, each with the reason."""
    refusals: dict[str, str] = {}
    for index, node in enumerate(circuit.nodes):
        if isinstance(node, Output) and node.mode == "append":
            reason = retraction_reason(circuit, index)
            if reason is not None:
                refusals[node.handle] = reason
    return refusals
