"""Whether a start asks for the transition that it finds under way, or for another one."""

from __future__ import annotations

import pytest

from coordinator.revisions.choices import NOTHING_CHOSEN, Chosen
from coordinator.revisions.loads import UnknownTable
from coordinator.starting.project.transition_found import is_as_chosen
from io_kafka.step_log.revision_records import Choices
from tests.coordinator.revisions.test_loads import table

PLANES = table("csv file:/data/planes.csv #44444444")
BEGUN_WITH = Choices(
    hold=True, from_now=("a", "b"), append_from_now=("o",), retract=("r",), reload=(PLANES.table.handle,), gradual=True
)
GIVEN = Chosen(from_now=("b", "a"), append_from_now=("o", "o"), retract=("r",), reload=("planes.csv",))


def test_the_choices_of_a_transition_are_known_again() -> None:
    """In any order, and a table by any of its names. A run that names none has nothing against those of the transition."""
    assert is_as_chosen(GIVEN, BEGUN_WITH, [PLANES])
    assert is_as_chosen(NOTHING_CHOSEN, BEGUN_WITH, [PLANES])
    assert is_as_chosen(Chosen(gradual=True), Choices(hold=False), [])


@pytest.mark.parametrize(
    "given",
    [
        Chosen(from_now=("a",)),
        Chosen(append_from_now=("o",)),
        Chosen(retract=("r",)),
        Chosen(reload=("planes.csv",)),
        Chosen(from_now=("a", "b"), append_from_now=("other",), retract=("r",), reload=("planes.csv",)),
    ],
)
def test_other_choices_are_those_of_another_transition(given: Chosen) -> None:
    assert not is_as_chosen(given, BEGUN_WITH, [PLANES])
    assert not is_as_chosen(given, Choices(hold=False), [PLANES])


def test_a_table_that_the_files_lack_is_named() -> None:
    with pytest.raises(UnknownTable, match="trains"):
        is_as_chosen(Chosen(reload=("trains.csv",)), BEGUN_WITH, [PLANES])
