"""The passes over a circuit after all views have been lowered. One ordered tuple of passes is the whole pipeline.

A pass takes a circuit in which a View or an Output depends on every node. It returns such a circuit with the same results. It is a
function of the circuit alone, so that equal projects have equal circuits. The state belongs to the circuit after the last pass. So a
pass that is added, removed or moved makes views count as changed, which are filled again after `stepwell run --apply`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.analysis.content import derive_contents
from engine.model.circuit import Circuit
from stepwell.lowering.eager_aggregation import aggregate_early
from stepwell.lowering.value_aggregation import sum_values_early


@dataclass(frozen=True, kw_only=True)
class Pass:
    """A pass. `reason` says what it is good for, and why it has its place in the order."""

    name: str
    reason: str
    apply: Callable[[Circuit], Circuit]


PASSES: tuple[Pass, ...] = (
    Pass(
        name="aggregate early",
        reason="Sums are taken before a join, which then keeps one sum per group instead of every row. "
        "It comes first, because it replaces aggregates by those of another kind.",
        apply=aggregate_early,
    ),
    Pass(
        name="sum values early",
        reason="The value of a subquery is summed where the rows lie, so that they need not meet on one worker. "
        "It comes after the pass that may sum before a join, which saves more.",
        apply=sum_values_early,
    ),
    Pass(
        name="derive contents",
        reason="A view over an aggregate stores nothing, because the aggregate's totals hold its content. "
        "It comes last, because it depends on what each view reads in the end.",
        apply=derive_contents,
    ),
)


def optimise(circuit: Circuit) -> Circuit:
    """The circuit after all passes, in their order."""
    for step in PASSES:
        circuit = step.apply(circuit)
        circuit.check()
    return circuit
