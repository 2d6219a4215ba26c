"""What the steps of a switch run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from coordinator.transition.program_choice import choose_program
from tests.io_kafka.test_revision_rules import DRAINED, DRAINING, READY, SWITCHED
from tests.io_kafka.test_step_log import folded


def chosen(log: Any, step: int) -> Any:
    facts = SimpleNamespace(taken_back=(), counted=())
    return choose_program(log.revisions, cast(Any, SimpleNamespace(facts=lambda digest: facts)), step)


def test_the_first_step_of_a_drain_is_that_of_its_program() -> None:
    """Also for workers that adopt it later, because a run goes on from a checkpoint in the middle. Constants come in the first step alone."""
    for log in (DRAINING, DRAINED):
        steps = range(2, folded(*log).division_next)
        assert {chosen(folded(*log), step).first for step in steps} == {2}
        assert {chosen(folded(*log), step).revision.step for step in steps} == {2}
    assert chosen(folded(*SWITCHED), 3).first == 3
    assert chosen(folded(*READY), 2).first == 1, "those that fill begin with the transition"
