"""The passes over a circuit: what one does is done, whichever comes after it."""

from __future__ import annotations

import pytest

from engine.model.circuit import View
from stepwell.lowering.builder import prune
from stepwell.lowering.passes import PASSES, Pass, optimise
from tests.engine.every_kind import every_kind


@pytest.mark.parametrize("step", PASSES, ids=lambda step: step.name)
def test_a_pass_leaves_an_optimised_circuit_as_it_is(step: Pass) -> None:
    circuit = optimise(prune(list(every_kind().nodes)))
    assert step.apply(circuit).fingerprint == circuit.fingerprint


def test_passes_have_names_of_their_own_and_a_reason() -> None:
    assert len({step.name for step in PASSES}) == len(PASSES)
    assert all(step.reason.endswith(".") for step in PASSES)


def test_every_pass_is_applied() -> None:
    """`total` counts over a source, and nothing in the circuit as it was written says that its view is derived."""
    circuit = optimise(prune(list(every_kind().nodes)))
    derived = {node.name for node in circuit.nodes if isinstance(node, View) and node.derived}
    assert "total" in derived and "rest" not in derived
