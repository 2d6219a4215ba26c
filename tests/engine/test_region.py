"""A stage that runs twice, too late, or after an error of another task leaves the state as one run would."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from engine.analysis.retraction import append_only_inputs
from engine.analysis.stages import plan
from engine.errors import DataError, StaleTask
from engine.model.circuit import Aggregate, AggregateCall, Circuit, Distinct, Join, Output, Source, View
from engine.model.placement import Placement
from engine.operators.aggregate import NegativeCount
from engine.run.exchange import DRIVER, ExchangeMessage, error_message, error_of, from_bytes
from engine.run.region import Outbox, StageTask, failed_outbox, run_stage, run_stage_once, with_report
from engine.state.store import DictStore
from tests.engine.zsets import TYPES, to_table

CIRCUIT = Circuit(
    (
        Source((), TYPES, "words"),
        Distinct((0,), TYPES),
        View((1,), TYPES, "seen", ("id", "word"), True),
        Output((2,), (), "seen", "changelog", ("id", "word")),
    )
)
PLAN = plan(CIRCUIT)


def task(step: int, stage: int, worker: int = 0, workers: int = 1) -> StageTask:
    return StageTask(PLAN, Placement.even(workers), step, stage, worker, {"seen": 1}, append_only_inputs(CIRCUIT))


def message_of(rows: list[tuple[Any, ...]], step: int) -> ExchangeMessage:
    return run_stage(task(step, 0), DictStore(), (), {0: to_table(rows, TYPES)})[0]


def message_count(outbox: Outbox) -> int:
    return sum(from_bytes(data).num_rows for data in outbox[DRIVER].output.values()) if DRIVER in outbox else 0


def test_a_second_run_of_a_task_returns_the_first_ones_result_and_changes_nothing() -> None:
    """Without the marker the second run would find every row in the state already and output nothing."""
    store, inbox = DictStore(), [message_of([(1, "a"), (2, "b")], 0)]
    first = run_stage_once(task(0, 1), store, inbox)
    assert message_count(first) == 2
    before = dict(store.records)
    again = run_stage_once(task(0, 1), store, inbox)
    assert again == first
    assert store.records == before


@pytest.mark.parametrize("step", [0, 1, 3, 9])
def test_a_task_of_any_other_step_than_the_next_is_refused(step: int) -> None:
    store = DictStore()
    run_stage_once(task(0, 1), store, [message_of([(1, "a")], 0)])
    run_stage_once(task(1, 1), store, [message_of([(2, "a")], 1)])
    before = dict(store.records)
    if step == 1:
        run_stage_once(task(step, 1), store, [])
    else:
        with pytest.raises(StaleTask, match=f"state is at step 1, but the task is for step {step}"):
            run_stage_once(task(step, 1), store, [])
    assert store.records == before


def test_an_error_of_another_task_is_passed_on_and_changes_no_state() -> None:
    store = DictStore()
    inbox = [error_message(1, DataError("bad", "fix it")), message_of([(1, "a")], 0)]
    outbox = run_stage_once(task(0, 1), store, inbox)
    assert outbox[DRIVER].error is not None
    assert not store.records


def test_the_error_of_a_source_task_is_sent_to_every_worker() -> None:
    outbox = failed_outbox(task(0, 0, worker=2, workers=3), DataError("bad"))
    assert set(outbox) == {0, 1, 2} and all(message.error for message in outbox.values())


def test_arrival_order_of_exchange_messages_does_not_matter() -> None:
    messages = [
        ExchangeMessage(source, message_of(rows, 0).channels)
        for source, rows in enumerate([[(1, "a"), (2, "b")], [(3, "c")], [(1, "a")]])
    ]
    results = [run_stage_once(task(0, 1), DictStore(), order) for order in (messages, messages[::-1])]
    assert results[0] == results[1]


def test_rows_that_a_stage_passes_on_are_the_same_bytes_in_any_order_of_arrival() -> None:
    """No operator reads the rows of a channel that a stage only passes on, so no operator sorts them."""
    count = AggregateCall("count", None, False, pa.int64())
    circuit = Circuit((
        Source((), TYPES, "words"),
        Distinct((0,), TYPES),
        Aggregate((1,), (TYPES[1], pa.int64()), (1,), (count,)),
        Join((2, 0), (TYPES[1], pa.int64(), *TYPES), (0,), (1,), (False,)),
    ))  # fmt: skip
    carrying = plan(circuit)
    assert {channel.producer for channel, last in carrying.last_read.items() if last == 2} == {0, 1}

    def stage(number: int) -> StageTask:
        return StageTask(carrying, Placement.even(1), 0, number, 0, {}, append_only_inputs(circuit))

    messages = [
        replace(run_stage(stage(0), DictStore(), (), {0: to_table([(source, "a")], TYPES)})[0], source=source)
        for source in range(3)
    ]
    results = [run_stage_once(stage(1), DictStore(), order) for order in (messages, messages[::-1])]
    assert results[0] == results[1]


def test_of_several_faults_the_same_one_is_reported_in_any_order_of_arrival() -> None:
    faults = [error_message(source, DataError(f"of source {source}")) for source in (2, 1, 3)]
    for order in (faults, faults[::-1]):
        outbox = run_stage_once(task(0, 1), DictStore(), order)
        assert str(error_of(outbox[DRIVER])) == "of source 1"


def test_a_report_goes_to_the_driver_and_not_with_an_error() -> None:
    last, middle = task(0, 1), task(0, 0)
    assert with_report(last, {}, b"r")[DRIVER].reports == (b"r",)
    assert with_report(middle, {}, b"r")[0].reports == (b"r",)
    failed = failed_outbox(last, DataError("bad"))
    assert with_report(last, failed, b"r") == failed


def test_errors_name_view_and_step() -> None:
    circuit = Circuit((CIRCUIT.nodes[0], View((0,), TYPES, "seen", ("id", "word"), True, (0,))))
    stage = StageTask(plan(circuit), Placement.even(1), 4, 1, 0, {}, append_only_inputs(circuit))
    rows = run_stage(
        StageTask(plan(circuit), Placement.even(1), 4, 0, 0, {}, append_only_inputs(circuit)),
        DictStore(),
        (),
        {0: to_table([(1, "a"), (1, "b")], TYPES)},
    )
    with pytest.raises(DataError, match="view seen, step 4: 2 rows have the key"):
        run_stage(stage, DictStore(), [rows[0]], {})


@pytest.mark.parametrize("word", ["footstep", "view other, step 9: "])
def test_a_value_that_contains_view_or_step_does_not_hide_the_place(word: str) -> None:
    """The message quotes a value of the data. Whether the place is known already must not depend on that value."""
    count = AggregateCall("count", None, False, pa.int64())
    circuit = Circuit((
        Source((), TYPES, "words", retracts=True),
        Aggregate((0,), (TYPES[1], pa.int64()), (1,), (count,)),
        View((1,), (TYPES[1], pa.int64()), "counts", ("word", "n"), True, derived=True),
    ))  # fmt: skip
    planned, append_only = plan(circuit), append_only_inputs(circuit)
    never_there = {0: to_table(Counter({(1, word): -1}), TYPES)}
    arrived = run_stage(StageTask(planned, Placement.even(1), 0, 0, 0, {}, append_only), DictStore(), (), never_there)
    with pytest.raises(NegativeCount) as caught:
        run_stage(StageTask(planned, Placement.even(1), 0, 1, 0, {}, append_only), DictStore(), [arrived[0]], {})
    error = pickle.loads(pickle.dumps(caught.value))
    assert (type(error), error.owner, error.step) == (NegativeCount, "view counts", 0)
    assert str(error).startswith("view counts, step 0: More rows were retracted from group")
    assert word in str(error) and str(error).count(error.what_to_do) == 1


def test_output_messages_have_the_declared_types() -> None:
    outbox = run_stage_once(task(0, 1), DictStore(), [message_of([(1, "a")], 0)])
    (data,) = outbox[DRIVER].output.values()
    assert from_bytes(data).schema.types == [pa.int32(), pa.binary(), pa.binary()]
