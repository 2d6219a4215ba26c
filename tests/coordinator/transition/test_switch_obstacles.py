"""Why the switch of a transition has to wait although its new nodes are filled."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from coordinator.specification import OutputTopic
from coordinator.transition.plan import StoredDifference, TransitionFacts
from coordinator.transition.switch_obstacles import SwitchObstacles, views_put_in_error
from engine.analysis.numbering import numbers_of
from engine.model.aggregates import Aggregate, AggregateCall
from engine.model.circuit import Circuit, Mode, Output, View
from engine.model.filling import Switched
from engine.model.numbers import NumberedCircuit
from engine.model.rows import Distinct, Source
from engine.resident.messages import Size
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.records import TopicIdentity
from io_kafka.step_log.revision_records import Choices
from io_kafka.step_log.revision_state import Detached, Filling, Switching

ROW = (pa.string(), pa.int64())
SWITCHED = (Switched((2,), ROW, key=(0,), placed=None), Switched((2,), ROW, key=(), placed=None))
"""The second difference lies by no column, so that all of it leaves in one step."""
SUM = (AggregateCall("sum", 1, False, pa.int64()),)
AGGREGATE = 1
FACTS = TransitionFacts(
    levels=2,
    differences=(
        StoredDifference(view="a", number=20, appends=("a",)),
        StoredDifference(view="b", number=21, appends=()),
    ),
    young=(30,),
    gone=(),
    counted=(),
    rebuilt=("a", "b"),
    new=(),
    dropped=(),
)


def project(mode: Mode, *, output: int, name: str = "sums") -> NumberedCircuit:
    """A view of sums of this name, whose output has this number."""
    circuit = Circuit(
        (
            Source((), ROW, "in"),
            Aggregate((0,), ROW, (0,), SUM),
            View((1,), ROW, name, ("k", "n"), False),
            Output((2,), (), name, mode, ("k", "n"), (0,)),
        )
    )
    return NumberedCircuit(circuit, (*numbers_of(circuit)[:-1], output))


def document(plan: NumberedCircuit) -> SimpleNamespace:
    """All outputs go to one topic."""
    outputs = (OutputTopic(node.handle, "topic", 1, False) for node in plan.circuit.nodes if isinstance(node, Output))
    return SimpleNamespace(circuit=plan.circuit, numbers=plan.numbers, numbered=plan, outputs=tuple(outputs))


class Documents(SimpleNamespace):
    """A course of which only the documents of two projects matter."""

    def __init__(self, before: NumberedCircuit, now: NumberedCircuit) -> None:
        super().__init__(
            facts=lambda intent: FACTS,
            plan_of=lambda revision: document(before),
            plan_of_next=lambda intent: document(now),
            switching=lambda intent: NumberedCircuit(Circuit(SWITCHED), (20, 21)),
        )


def reasons(
    sizes: Sequence[Size],
    *,
    rows_max: int = 100,
    topics: Sequence[str] = (),
    course: Any = None,
    counted: Sequence[int] = (),
    errors: Sequence[int] = (),
    accepts_errors: bool = False,
    gradual: bool = False,
) -> list[str]:
    same = project("upsert", output=3)
    log = SimpleNamespace(
        counted=tuple(counted),
        errors=tuple(SimpleNamespace(node=number, example="DIVIDE_BY_ZERO") for number in errors),
        nodes_in_error=frozenset(errors),
    )
    phase = SimpleNamespace(intent=SimpleNamespace(choices=Choices(hold=False, gradual=gradual)), before=None)
    obstacles = SwitchObstacles(course or Documents(same, same), log, phase)  # type: ignore[arg-type]
    return obstacles.reasons(topics, sizes, rows_max, accepts_errors=accepts_errors)


NOTHING = (Size(come=0, gone=0), Size(come=0, gone=0))


def test_nothing_holds_a_switch_that_takes_back_what_may_be_taken_back() -> None:
    assert reasons((Size(come=5, gone=0), Size(come=5, gone=5))) == []


def test_what_topics_say_holds_a_switch() -> None:
    assert reasons(NOTHING, topics=["the topic was cut"]) == ["the topic was cut"]


def test_rows_of_an_append_output_are_never_taken_back() -> None:
    held = reasons((Size(come=5, gone=2), Size(come=0, gone=0)))
    assert len(held) == 1
    reason = held[0]
    assert reason.startswith("2 rows would have to be taken back from append output a, which cannot be; ")
    assert "--append a=from-now" in reason


def test_a_step_passes_on_so_many_rows_and_no_more() -> None:
    assert reasons((Size(come=50, gone=0), Size(come=0, gone=50))) == []
    held = reasons((Size(come=50, gone=0), Size(come=1, gone=50)))
    assert [because.split(",")[0] for because in held] == ["101 rows differ"]


def test_rows_that_leave_in_several_steps_may_be_more() -> None:
    assert reasons((Size(come=570, gone=0), Size(come=50, gone=50)), gradual=True) == []
    held = reasons((Size(come=570, gone=0), Size(come=51, gone=50)), gradual=True)
    assert [because.split(" in several")[0] for because in held] == ["101 rows of view b differ, and cannot leave"]


@pytest.mark.parametrize("name", ["sums", "renamed"])
@pytest.mark.parametrize("counted", [(), (AGGREGATE,)])
def test_what_an_output_has_kept_is_not_lost_with_the_output(counted: Sequence[int], name: str) -> None:
    """It is written in another way then, so it gets another number, whatever its view is called. Without rows in error nothing is kept."""
    numbers = project("upsert", output=3).numbers
    course = Documents(project("upsert", output=3), project("changelog", output=40, name=name))
    held = reasons(NOTHING, course=course, counted=[numbers[index] for index in counted])
    assert [because.split(",")[0] for because in held] == [
        "output sums is withheld because of rows in error" for _ in counted
    ]


def test_what_an_output_has_kept_is_where_its_rows_come() -> None:
    """Otherwise a row that was kept, and the same one that goes, would meet on no worker, and both would be written."""
    by_key, by_row = (
        Circuit(
            (
                Source((), ROW, "in"),
                below,
                View((1,), ROW, "v", ("k", "n"), False),
                Output((2,), (), "v", "changelog", ("k", "n")),
            )
        )
        for below in (Aggregate((0,), ROW, (0,), SUM), Distinct((0,), ROW))
    )
    before, now = (NumberedCircuit(circuit, numbers_of(circuit)) for circuit in (by_key, by_row))
    now = NumberedCircuit(by_row, (*now.numbers[:-1], before.numbers[-1]))
    held = reasons(NOTHING, course=Documents(before, now), counted=[before.numbers[AGGREGATE]])
    told = (
        "output v is withheld because of rows in error, and its rows lie elsewhere then, where what it has kept is not"
    )
    assert held == [told]
    assert reasons(NOTHING, course=Documents(before, now)) == [], "it has kept nothing"


def test_an_output_that_is_only_called_otherwise_goes_on_with_what_it_has_kept() -> None:
    """Its view was renamed and its topic was not, so it has its number."""
    before, now = project("upsert", output=3), project("upsert", output=3, name="renamed")
    assert reasons(NOTHING, course=Documents(before, now), counted=[before.numbers[AGGREGATE]]) == []


def test_new_nodes_with_rows_in_error_wait_for_the_user() -> None:
    assert reasons(NOTHING, errors=[AGGREGATE]) == [], "the former project has them too"
    assert reasons(NOTHING, errors=[30]) == ["new nodes have rows in error: DIVIDE_BY_ZERO"]
    assert reasons(NOTHING, errors=[30], accepts_errors=True) == []


@pytest.mark.parametrize(("phase", "views"), [
    (Filling, ("sums",)), (Switching, ("sums",)), (Detached, ()),
])  # fmt: skip
def test_the_views_that_a_switch_puts_in_error_are_told(phase: type, views: tuple[str, ...]) -> None:
    """Only while the switch can come, or has come."""
    before, now = project("upsert", output=3), project("upsert", output=40)
    now = NumberedCircuit(now.circuit, (AGGREGATE, 30, 31, 40))
    at: Any = object.__new__(phase)
    object.__setattr__(at, "intent", None)
    wrong: Any = [SimpleNamespace(node=number) for number in (AGGREGATE, 30)]
    course: Any = Documents(before, now)
    assert views_put_in_error(course, at, wrong) == views
    assert views_put_in_error(course, at, wrong[:1]) == (), "the former project has them too"


class NewTopics(SimpleNamespace):
    """Of the topic `new`: messages 0 to 99. `id`: as the broker has it now."""

    def __init__(self, id: str) -> None:
        super().__init__(
            describe=lambda names: {name: SimpleNamespace(topic_id=id) for name in names},
            begin_offsets=lambda names: {NEW: 0},
            end_offsets_of=lambda partitions: {NEW: 100},
        )


NEW = TopicPartition("new", 0)


@pytest.mark.parametrize(("id", "first"), [("a", None), ("b", "topic new was deleted and created again (id a")])
def test_a_topic_that_was_made_anew_while_it_was_read_again_holds_the_switch(id: str, first: str | None) -> None:
    """The new one has as many messages, so no offset tells."""
    course = SimpleNamespace(
        projects=SimpleNamespace(resolve_next=lambda *arguments: None, look_at_taken_back=lambda *arguments: None),
        handles_read_again=lambda intent: frozenset(),
        plan_of_next=lambda intent: SimpleNamespace(inputs=()),
    )
    log = SimpleNamespace(only_read_again={NEW}, reads_again={NEW: 50}, topics={})
    intent = SimpleNamespace(topics=(TopicIdentity(topic="new", id="a", partitions=1),))
    obstacles = SwitchObstacles(course, log, SimpleNamespace(intent=intent, before=None))  # type: ignore[arg-type]
    reasons = obstacles.look(NewTopics(id)).reasons  # type: ignore[arg-type]
    assert [reason.split(" before")[0] for reason in reasons] == ([] if first is None else [first])
