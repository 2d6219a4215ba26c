"""How large the differences are that a transition holds until its switch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from base.slots import SLOTS
from engine.model.filling import Difference
from engine.operators.context import StepContext
from engine.operators.differences import difference
from engine.operators.facts import DivisionFacts, StepFacts
from engine.run.task_setup import TaskSetup
from engine.state.runs import as_zset
from engine.state.store import Store

PARTS = 64
"""The number of parts of the slots that are measured one after the other."""


def measure(setup: TaskSetup, store: Store, step: int, numbers: Sequence[int]) -> list[tuple[int, int]]:
    """(rows that are new, rows that are gone) of each difference on this worker, before `step`. A row counts as often as it occurs."""
    facts = StepFacts(DivisionFacts(number=step), setup.plan.input_colocation, owns_keyless=False)
    sizes = []
    for number in numbers:
        index = setup.numbered.index(number)
        assert index is not None, f"the program has no node with number {number}"
        node = setup.plan.circuit.nodes[index]
        assert isinstance(node, Difference), f"node {index} holds no difference"
        context = StepContext(setup.facts, facts, store=store, node=index)
        sizes.append(_size(node, context))
    return sizes


def _size(node: Difference, context: StepContext) -> tuple[int, int]:
    """A part of the slots after the other, so that a difference that is too large for memory is measured too."""
    come = gone = 0
    for first in range(0, SLOTS, SLOTS // PARTS):
        part = replace(context, slots=(first, first + SLOTS // PARTS))
        weights = as_zset(difference(node, part).scan()).columns[-1].to_numpy()
        come += int(np.maximum(weights, 0).sum())
        gone += int(np.maximum(-weights, 0).sum())
    return come, gone
