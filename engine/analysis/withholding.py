"""What depends on a node in error: the outputs that are withheld, and the views that have no answer."""

from __future__ import annotations

from collections.abc import Iterable

from engine.model.circuit import Circuit, Output, View
from engine.model.filling import Placed, WrittenAgain
from engine.model.numbers import NumberedCircuit
from engine.model.withholding import NOTHING_WITHHELD, Withholding
from engine.operators.table import operator_of


def withholding_of(circuit: Circuit, nodes: Iterable[int], released: Iterable[str]) -> Withholding:
    """`nodes`: those whose error rows are counted. `released`: the outputs that were held until the step before."""
    counted, written = frozenset(nodes), frozenset(released)
    if not counted and not written:
        return NOTHING_WITHHELD
    return Withholding(counted, outputs_behind(circuit, counted), written)


def countable(circuit: Circuit) -> frozenset[int]:
    """The nodes whose error rows can be counted, outputs among them. At all other nodes, no row can be in error."""
    return frozenset(index for index, node in enumerate(circuit.nodes) if operator_of(node).output.counts_errors(node))


def outputs_behind(circuit: Circuit, nodes: Iterable[int]) -> frozenset[str]:
    """The handles of the outputs that depend on one of the nodes."""
    behind = (circuit.nodes[index] for index in _behind(circuit, nodes))
    return frozenset(node.handle for node in behind if isinstance(node, Output))


def outputs_by_number(plan: NumberedCircuit, behind: Iterable[int] | None = None) -> dict[int, str]:
    """The handles of the outputs, by number: what an output has kept belongs to its number, and another revision may call it otherwise.
    `behind`: only those that depend on one of the nodes with these numbers."""
    handles = None if behind is None else outputs_behind(plan.circuit, plan.indices(behind))
    outputs = ((plan.numbers[index], node.handle) for index, node in plan.circuit.nodes_of(Output).items())
    return {number: handle for number, handle in outputs if handles is None or handle in handles}


def outputs_written_again(circuit: Circuit) -> frozenset[str]:
    """The handles of the outputs that write all rows of their view once more in this program."""

    def is_written_again(index: int) -> bool:
        node = circuit.nodes[index]
        return isinstance(node, WrittenAgain) or (isinstance(node, Placed) and is_written_again(node.inputs[0]))

    return frozenset(node.handle for node in circuit.nodes_of(Output).values() if is_written_again(node.inputs[0]))


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
