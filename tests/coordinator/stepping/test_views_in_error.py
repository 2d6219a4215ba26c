"""What is decided about views in error, from the step log alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from base.text.patterns import NO_PATTERNS
from coordinator.stepping.views_in_error import (
    ViewsInError,
    can_count,
    check_answers,
    count_all,
    error_texts,
    errors_after,
    errors_before,
    is_release_due,
    next_counting,
    views_before,
    withholding_of_step,
    without_absent_nodes,
)
from engine.errors import DataError
from engine.expressions.evaluate import ExpressionError
from engine.model.circuit import Circuit, Output
from engine.model.numbers import NumberedCircuit
from engine.operators.error_rows import ErrorRows
from io_kafka.formats.written import Written
from io_kafka.step_log.records import DivisionRecord, NodeErrors
from io_kafka.step_log.state import StepLogState
from tests.engine.test_error_rows import CIRCUIT, MAP
from tests.io_kafka.test_step_log import STORY, division, folded, step

COUNTS = 4
"""The aggregate over the view of MAP."""


def numbered(circuit: Circuit) -> NumberedCircuit:
    """The number of a node is not its index."""
    return NumberedCircuit(circuit, tuple(index + 10 for index in range(len(circuit.nodes))))


PLAN = numbered(CIRCUIT)
OF_MAP, OF_COUNTS = PLAN.numbers[MAP], PLAN.numbers[COUNTS]


def errors(node: int, rows: int = 1, since: int = 1) -> NodeErrors:
    return NodeErrors(node=node, since=since, rows=rows, checksum="a", example="It raises.")


def log_of(counted: tuple[int, ...], *in_error: NodeErrors, written: bool = True) -> StepLogState:
    again = division(1, 10, 12).with_counted(0, counted, frozenset())
    records = [*STORY, again, step(1, 6).model_copy(update={"errors": in_error})]
    return folded(*records[: len(records) if written else -1])


def fault(node: int | None = MAP, place: str | None = None) -> DataError:
    error = ExpressionError("DIVIDE_BY_ZERO", "Division by zero.")
    error.node, error.place = node, place
    return error


def test_which_errors_a_step_can_count() -> None:
    log, record = folded(*STORY), division(1, 10, 12)
    assert can_count(PLAN, log, record, fault())
    assert not can_count(PLAN, log, record, fault(place="topic t, partition 0, offset 3")), "a malformed message"
    assert not can_count(PLAN, log, record, fault(node=None))
    assert not can_count(PLAN, log, record, fault(node=3)), "an output in JSON has a message for every row"
    assert not can_count(PLAN, log, record.with_counted(0, (OF_MAP,), frozenset()), fault()), "it was to be counted"
    assert not can_count(PLAN, log, division(0, 0, 10), fault()), "a step that is written is as it was"
    other = DataError("two rows have one key.")
    other.node = MAP
    assert not can_count(PLAN, log, record, other)


def test_a_step_that_is_divided_again_counts_every_node_that_can_be_counted() -> None:
    record = division(1, 10, 12).model_copy(update={"released": ("tens", "all")})
    again = count_all(PLAN, 3, record)
    assert (again.epoch, again.counted, again.released, again.ranges) == (
        3,
        (OF_MAP, OF_COUNTS),
        ("all",),
        record.ranges,
    )
    assert again.counts_more_than(record)
    assert withholding_of_step(PLAN, again).withheld == {"tens", "counts"}
    assert withholding_of_step(PLAN, again).outputs == {"tens", "counts", "all"}


def test_nodes_without_error_rows_are_not_counted_any_more_and_their_outputs_are_released() -> None:
    log = log_of((OF_MAP, OF_COUNTS), errors(OF_COUNTS))
    assert next_counting(PLAN, log, is_drained=True) == ((OF_COUNTS,), ("tens",)), (
        "counts is still behind the other node"
    )
    assert next_counting(PLAN, log_of((OF_MAP, OF_COUNTS)), is_drained=True) == ((), ("counts", "tens"))
    assert next_counting(PLAN, log_of((OF_MAP,), errors(OF_MAP)), is_drained=True) == ((OF_MAP,), ())
    assert is_release_due(log.counted, log.errors) and not is_release_due((OF_COUNTS,), log.errors)


def test_an_output_that_another_revision_calls_otherwise_is_released_all_the_same() -> None:
    """Its view was renamed and its topic was not. What it has kept is under its number, which stays."""
    nodes = tuple(
        replace(n, handle="renamed") if isinstance(n, Output) and n.handle == "tens" else n for n in CIRCUIT.nodes
    )
    now = NumberedCircuit(Circuit(nodes), PLAN.numbers)
    log = log_of((OF_MAP, OF_COUNTS), errors(OF_COUNTS))
    assert next_counting(now, log, is_drained=True, before=PLAN) == ((OF_COUNTS,), ("renamed",))
    other = NumberedCircuit(Circuit(nodes), (*PLAN.numbers[:3], 99, *PLAN.numbers[4:]))
    assert next_counting(other, log, is_drained=True, before=PLAN) == ((OF_COUNTS,), ()), "it has kept nothing"


def test_a_division_ahead_counts_the_nodes_of_the_division_before_it() -> None:
    """A step before it is not written, and may find error rows of nodes that had none."""
    log = log_of((OF_MAP, OF_COUNTS), errors(OF_COUNTS), written=False)
    assert next_counting(PLAN, log, is_drained=False) == ((OF_MAP, OF_COUNTS), ())


def test_the_error_rows_of_the_steps_are_added() -> None:
    one = errors_after(PLAN, 3, (), {MAP: ErrorRows(2, 0xF, "first"), COUNTS: ErrorRows(0, 0, "")})
    assert one == (NodeErrors(node=OF_MAP, since=3, rows=2, checksum=f"{0xF:016x}", example="first"),)
    two = errors_after(PLAN, 4, one, {MAP: ErrorRows(-1, (1 << 64) - 1, ""), COUNTS: ErrorRows(1, 5, "second")})
    assert [(e.node, e.since, e.rows, e.checksum[-1], e.example) for e in two] == [
        (OF_MAP, 3, 1, "e", "first"),
        (OF_COUNTS, 4, 1, "5", "second"),
    ]
    assert (
        errors_after(PLAN, 5, two, {MAP: ErrorRows(-1, (1 << 64) - 14, ""), COUNTS: ErrorRows(-1, (1 << 64) - 5, "")})
        == ()
    )


def test_rows_of_before_a_revision_are_over_when_none_is_left() -> None:
    """They go with other columns than they came with, so that their checksums differ."""
    before = (errors(OF_MAP, since=1),)
    gone = {MAP: ErrorRows(-1, 5, "")}
    (left,) = errors_after(PLAN, 6, before, gone, revision_since=1)
    assert (left.node, left.rows) == (OF_MAP, 0), "rows that came and go in one revision have one checksum"
    assert errors_after(PLAN, 6, before, gone, revision_since=2) == ()
    assert errors_after(PLAN, 7, (left,), {}, revision_since=7) == (), "a former release has recorded it"
    record = step(6, 6).model_copy(update={"errors": (left,)})
    assert without_absent_nodes(PLAN, record, 1) == record and without_absent_nodes(PLAN, record, 2).errors == ()
    assert errors_after(PLAN, 6, (errors(OF_MAP, rows=2),), gone, revision_since=2)[0].rows == 1


def test_the_errors_in_a_state_are_those_after_the_step_before_it() -> None:
    log = log_of((OF_MAP,), errors(OF_MAP))
    assert errors_before(log, 2) == (errors(OF_MAP),) and errors_before(log, 1) == errors_before(log, 0) == ()
    assert views_before(PLAN, log, 2) == {"counts", "tens"} and views_before(PLAN, log, 1) == frozenset()
    log = log.forget_below(1)
    assert errors_before(log, 1) is None and views_before(PLAN, log, 1) is None, "the databases know it"
    assert errors_before(log, 2) == (errors(OF_MAP),)


def test_people_see_each_view_and_where_the_error_is() -> None:
    assert error_texts(PLAN, (), {}) == {}
    both = (errors(OF_MAP, rows=3), errors(OF_COUNTS, since=2))
    texts = error_texts(PLAN, both, {})
    assert texts == dict.fromkeys(("counts", "tens"), "view tens, step 1: It raises. (3 rows have an error.)")
    check_answers(PLAN, folded(*STORY), {})
    with pytest.raises(ViewsInError) as raised:
        check_answers(PLAN, log_of((OF_MAP, OF_COUNTS), *both), {})
    text = str(raised.value)
    assert text.startswith("view tens, step 1: It raises. (3 rows have an error.) Also view counts, step 2: It raises.")
    assert "Without an answer, in Spark too: counts, tens." in text and "what changes in counts, tens is kept" in text


def test_people_see_a_view_without_an_output() -> None:
    with pytest.raises(ViewsInError) as raised:
        check_answers(numbered(Circuit(CIRCUIT.nodes[:3])), log_of((OF_MAP,), errors(OF_MAP)), {})
    assert "in Spark too: tens." in str(raised.value) and str(raised.value).endswith("(CASE, nullif, try_cast).")


def test_people_see_an_output_that_has_no_message_for_a_row_and_its_view_has_an_answer() -> None:
    node = Output((2,), (), "tens", "upsert", ("word", "ten"), (0,), Written("text", None, (), NO_PATTERNS))
    plan = numbered(Circuit((*CIRCUIT.nodes[:3], node)))
    log = log_of((13,), errors(13))
    assert error_texts(plan, log.errors, {}) == {"output tens": "output tens, step 1: It raises."}
    assert views_before(plan, log, 2) == frozenset(), "it can be queried"
    assert can_count(plan, folded(*STORY), division(1, 10, 12), fault(node=3))
    assert next_counting(plan, log_of((OF_MAP, 13)), is_drained=True) == ((), ("tens",))
    with pytest.raises(ViewsInError) as raised:
        check_answers(plan, log, {})
    assert str(raised.value).startswith(
        "output tens, step 1: It raises. All other views are up to date. Correct or delete"
    )
    assert "Until then what changes in tens is kept" in str(raised.value)


def test_a_view_of_which_two_rows_have_one_key_has_an_answer_in_spark() -> None:
    with pytest.raises(
        ViewsInError, match=r"It raises\. Without an answer here: tens, counts\.|here: counts, tens\."
    ) as raised:
        check_answers(PLAN, log_of((12,), errors(12)), {})
    assert "in Spark too" not in str(raised.value)


def test_a_record_of_a_division_says_what_is_counted() -> None:
    record = DivisionRecord.model_validate_json(
        division(1, 10, 12).with_counted(0, (OF_MAP,), frozenset()).model_dump_json()
    )
    assert withholding_of_step(PLAN, record).nodes == {MAP}


def test_error_rows_of_a_node_that_the_circuit_lacks_withhold_nothing() -> None:
    """They are those of a former revision."""
    log = log_of((OF_MAP, 999), errors(999))
    assert next_counting(PLAN, log, is_drained=True) == ((), ("counts", "tens"))
    assert views_before(PLAN, log, 2) == frozenset() and error_texts(PLAN, log.errors, {}) == {}
