"""Which outputs a change of the project writes to in the step of its switch.

Guarantees: all others receive in that step what new input changes, and nothing else. So `stepwell revision show` does not count their messages
as those of the switch.
"""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.transition.plan import TransitionFacts
from engine.analysis.withholding import outputs_behind
from engine.model.circuit import Node, Output, View
from engine.model.filling import TAKEN_BACK
from engine.model.numbers import NumberedCircuit


def outputs_of_switch(before: NumberedCircuit, now: NumberedCircuit, facts: TransitionFacts) -> frozenset[str]:
    """By the handles that they have in the step of the switch: those behind a changed view, those that are written from then on, and those whose
    content is taken back."""
    nodes = now.circuit.nodes
    changed = {*facts.rebuilt, *facts.new}
    behind = outputs_behind(now.circuit, _views(nodes, changed))
    former = set(before.numbers)
    new = {
        node.handle
        for node, number in zip(nodes, now.numbers, strict=True)
        if isinstance(node, Output) and number not in former
    }
    return behind | new | {TAKEN_BACK + handle for handle in facts.taken_back}


def _views(nodes: Iterable[Node], names: set[str]) -> list[int]:
    return [index for index, node in enumerate(nodes) if isinstance(node, View) and node.name in names]
