"""What depends on a node in error: the outputs that are withheld, and the views that have no answer."""

from __future__ import annotations

from collections.abc import Iterable

from engine.model.aggregates import Aggregate, FinalAggregate
from engine.model.circuit import Circuit, Node, Output, View
from engine.model.joins import Join, OuterJoin
from engine.model.rows import Map, PythonMap, ScalarMap, ScalarValue
from engine.model.withholding import NOTHING_WITHHELD, Withholding


def withholding_of(circuit: Circuit, nodes: Iterable[int], released: Iterable[str]) -> Withholding:
    """`nodes`: those whose error rows are counted. `released`: the outputs that were held until the step before."""
    counted, written = frozenset(nodes), frozenset(released)
    if not counted and not written:
        return NOTHING_WITHHELD
    return Withholding(counted, outputs_behind(circuit, counted), written)


COUNTING = (Map, PythonMap, ScalarValue, ScalarMap, Join, Aggregate, FinalAggregate)
"""The kinds of nodes that can leave out error rows and count them: their output is a sum over rows or groups, so one that fails can be told
from the others. Of the other kinds, an error of the data ends the step."""


def countable(circuit: Circuit) -> frozenset[int]:
    """The nodes whose error rows can be counted: those of COUNTING, joins with a subquery that stands for a value (of whose conditions no error
    is counted), and views with a key."""
    return frozenset(index for index, node in enumerate(circuit.nodes) if _counts(node))


def _counts(node: Node) -> bool:
    match node:
        case OuterJoin():
            return node.single
        case View():
            return node.stored and bool(node.key)
        case _:
            return isinstance(node, COUNTING)


def outputs_behind(circuit: Circuit, nodes: Iterable[int]) -> frozenset[str]:
    """The handles of the outputs that depend on one of the nodes."""
    behind = (circuit.nodes[index] for index in _behind(circuit, nodes))
    return frozenset(node.handle for node in behind if isinstance(node, Output))


def views_behind(circuit: Circuit, nodes: Iterable[int]) -> frozenset[str]:
    """The names of the views that depend on one of the nodes."""
    behind = (circuit.nodes[index] for index in _behind(circuit, nodes))
    return frozenset(node.name for node in behind if isinstance(node, View))


def _behind(circuit: Circuit, nodes: Iterable[int]) -> set[int]:
    """The nodes, and every node that reads one of them, directly or not."""
    found = set(nodes)
    for index, node in enumerate(circuit.nodes):
        if not found.isdisjoint(node.inputs):
            found.add(index)
    return found
