"""Whose messages are told as those of a switch."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.status import StatusBoard
from coordinator.transition.outputs_of_switch import outputs_of_switch
from coordinator.transition.report import TransitionReport
from engine.analysis.numbering import numbers_of
from engine.model.circuit import Circuit, Output, View
from engine.model.filling import TAKEN_BACK
from engine.model.numbers import NumberedCircuit
from engine.model.rows import Source
from io_kafka.step_log.revision_state import Clearing
from tests.coordinator.transition.test_switch_obstacles import FACTS, ROW

NAMES = ("k", "n")
CIRCUIT = Circuit(
    (
        Source((), ROW, "in"),
        View((0,), ROW, "below", NAMES, False),
        View((1,), ROW, "above", NAMES, False),
        View((0,), ROW, "other", NAMES, False),
        Output((1,), (), "of below", "upsert", NAMES, (0,)),
        Output((2,), (), "of above", "changelog", NAMES, (0,)),
        Output((3,), (), "of other", "append", NAMES, ()),
    )
)
BEFORE = NumberedCircuit(CIRCUIT, numbers_of(CIRCUIT))
NOTHING = replace(FACTS, differences=(), young=(), rebuilt=(), new=())


def test_a_change_that_costs_nothing_writes_to_no_output() -> None:
    assert outputs_of_switch(BEFORE, BEFORE, NOTHING) == frozenset()


@pytest.mark.parametrize(
    ("changed", "outputs"),
    [("below", {"of below", "of above"}), ("above", {"of above"}), ("other", {"of other"})],
)
@pytest.mark.parametrize("how", ["rebuilt", "new"])
def test_outputs_behind_a_changed_view_are_written(changed: str, outputs: set[str], how: str) -> None:
    assert outputs_of_switch(BEFORE, BEFORE, replace(NOTHING, **{how: (changed,)})) == outputs


@pytest.mark.parametrize("place", [4, 5, 6])
def test_an_output_is_written_that_has_another_topic_or_other_names_now(place: int) -> None:
    numbers = tuple(99 if index == place else number for index, number in enumerate(BEFORE.numbers))
    output = CIRCUIT.nodes[place]
    assert isinstance(output, Output)
    assert outputs_of_switch(BEFORE, NumberedCircuit(CIRCUIT, numbers), NOTHING) == {output.handle}


def test_what_is_taken_back_is_written_under_a_name_of_its_own() -> None:
    facts = replace(NOTHING, taken_back=("of gone",))
    assert outputs_of_switch(BEFORE, BEFORE, facts) == {TAKEN_BACK + "of gone"}


def test_only_messages_of_concerned_outputs_are_told() -> None:
    """The others received in the same step what new input changed."""
    outputs = [SimpleNamespace(handle=handle, messages=count) for handle, count in (("a", 3), ("b", 40), ("a", 2))]
    phase = Clearing.model_construct(is_switched=True, since=8, intent=SimpleNamespace(number=2))
    revision: Any = SimpleNamespace(number=2, step=7)
    log: Any = SimpleNamespace(
        revisions=SimpleNamespace(phase=phase), revision=revision, step_records={7: SimpleNamespace(outputs=outputs)}
    )
    for concerned, messages in (((), 0), (("a",), 5), (("a", "b"), 45)):
        report = TransitionReport(StatusBoard("p"), lambda: 0.0)
        report.stepped(7, log, lambda ended, handles=concerned: handles, replay=False)  # type: ignore[misc]
        assert report.settled(phase, revision).messages == messages
