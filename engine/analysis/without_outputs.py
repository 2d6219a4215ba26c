"""A circuit without its outputs: all views and what they are computed of, and no topic that is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.model.circuit import Circuit, Node, Output
from engine.model.numbers import NumberedCircuit


def without_outputs(circuit: Circuit, numbers: Sequence[int]) -> NumberedCircuit:
    """`numbers`: of the circuit's nodes, which keep theirs. No node reads an output, so nothing else changes."""
    moved: dict[int, int] = {}
    kept: list[Node] = []
    for index, node in enumerate(circuit.nodes):
        if isinstance(node, Output):
            continue
        moved[index] = len(kept)
        kept.append(replace(node, inputs=tuple(moved[i] for i in node.inputs)))
    made = Circuit(tuple(kept))
    made.check()
    return NumberedCircuit(made, tuple(numbers[index] for index in moved))
