"""The context of an operator that runs alone, whose rows lie where it asks for them; and the placement of a new state."""

from __future__ import annotations

from typing import Any

from engine.model.layout import Fixed, Layout
from engine.model.node import NodeBase
from engine.model.placement import Placement
from engine.operators.arrangement import Everyone
from engine.operators.base import StepContext
from engine.operators.table import operator_of
from engine.state.store import Store


def context_of(node: NodeBase, store: Store, step: int = 0, *, append_only: bool = False, **rest: Any) -> StepContext:
    """For node 0 of a circuit, whose inputs are exchanged as its descriptor says. `rest`: other fields of the context."""
    exchanges = operator_of(node).arrange(node, [None] * len(node.inputs)).exchanges
    places = tuple(None if isinstance(exchange, Everyone) else exchange for exchange in exchanges)
    return StepContext(store, step, 0, (append_only,) * len(node.inputs), places, **rest)


def placement_of(workers: int) -> Placement:
    """Of a new state with so many workers."""
    return Placement.of(Layout.first(Fixed(), workers), {})
