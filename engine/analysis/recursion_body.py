"""Whether the engine can run a part of a circuit as the body of a recursion: its kinds of nodes, and the traces that they need."""

from __future__ import annotations

from collections.abc import Sequence

from engine.model.circuit import Node
from engine.model.rows import Source
from engine.operators.table import operator_of


def foreign_nodes(body: Sequence[Node]) -> list[str]:
    """The kinds of nodes that the body of a recursion cannot have."""
    return sorted({node.kind for node in _without_inputs(body) if operator_of(node).state.traces_in_recursion is None})


def count_traces(body: Sequence[Node]) -> int:
    """The number of traces of all nodes, none of which is foreign."""
    return sum(operator_of(node).state.traces_in_recursion or 0 for node in _without_inputs(body))


def _without_inputs(body: Sequence[Node]) -> list[Node]:
    """The nodes besides the inputs of the body."""
    return [node for node in body if not isinstance(node, Source)]
