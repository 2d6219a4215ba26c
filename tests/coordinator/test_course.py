"""What the steps of a switch run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from coordinator.transition.course import Course
from tests.io_kafka.test_revision_rules import DRAINED, DRAINING, READY, SWITCHED
from tests.io_kafka.test_step_log import folded


def chosen(log: Any, step: int) -> Any:
    course = Course.__new__(Course)
    course._writer = cast(Any, SimpleNamespace(state=log))
    facts = SimpleNamespace(taken_back=(), counted=())
    course.documents = cast(Any, SimpleNamespace(facts=lambda digest: facts))
    return course._program_choice(step)


def test_the_first_step_of_a_drain_is_that_of_its_program() -> None:
    """Also for workers that adopt it later, because a run goes on from a checkpoint in the middle. Constants come in the first step alone."""
    for log in (DRAINING, DRAINED):
        steps = range(2, folded(*log).division_next)
        assert {chosen(folded(*log), step).first for step in steps} == {2}
        assert {chosen(folded(*log), step).revision.step for step in steps} == {2}
    assert chosen(folded(*SWITCHED), 3).first == 3
    assert chosen(folded(*READY), 2).first == 1, "those that fill begin with the transition"
