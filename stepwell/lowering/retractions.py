"""Which views can take rows back, and why.

`engine/analysis/growth.py` says which node begins to retract; here that is said to users, and an output that must only grow
(`append`) over a view that can retract is refused.
"""

from __future__ import annotations

from engine.analysis.growth import retracts
from engine.model.circuit import Aggregate, Circuit, FinalAggregate, LastByKey, Node, Output, SemiJoin, Source


def reason(node: Node) -> str:
    """Why `node` takes rows back, as the end of a sentence that begins with "because"."""
    match node:
        case Source():
            return f"source {node.handle} is a changelog, whose messages update and delete rows"
        case LastByKey():
            return f"source {node.handle} has a key: a new message of a key replaces the row before"
        case Aggregate() | FinalAggregate():
            return "an aggregate replaces a group's row when the group changes (GROUP BY, count, sum, ...)"
        case SemiJoin():
            return "a row without a match goes when a match comes (NOT IN, NOT EXISTS, EXCEPT, LEFT ANTI JOIN)"
    return f"of {node.kind}"


def append_refusals(circuit: Circuit) -> dict[str, str]:
    """Handles of append outputs that can retract, and why."""
    found = retracts(circuit)
    refusals: dict[str, str] = {}
    for index, node in enumerate(circuit.nodes):
        origin = found[index]
        if isinstance(node, Output) and node.mode == "append" and origin is not None:
            refusals[node.handle] = reason(circuit.nodes[origin])
    return refusals
