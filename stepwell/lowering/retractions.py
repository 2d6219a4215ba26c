"""Append outputs over views that can take rows back: they are refused.

Whether a view can, and why, says `engine/analysis/retraction.py`.
"""

from __future__ import annotations

from engine.analysis.retraction import retraction_reason
from engine.model.circuit import Circuit, Output


def append_refusals(circuit: Circuit) -> dict[str, str]:
    """Handles of append outputs that can retract, and why."""
    refusals: dict[str, str] = {}
    for index, node in enumerate(circuit.nodes):
        if isinstance(node, Output) and node.mode == "append":
            reason = retraction_reason(circuit, index)
            if reason is not None:
                refusals[node.handle] = reason
    return refusals
