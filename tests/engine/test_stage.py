"""A stage is a function of what arrived and of the state, and its errors name their place."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from engine.analysis.stages import plan_stages
from engine.errors import DataError
from engine.model.aggregates import Aggregate, AggregateCall
from engine.model.circuit import Circuit, Output, View
from engine.model.joins import Join
from engine.model.rows import Distinct, Source
from engine.operators.aggregate_errors import NegativeCount
from engine.operators.output import OUTPUT_MESSAGES
from engine.resident.faults import from_wire, to_wire
from engine.run import stage
from engine.run.exchange import ExchangeMessage
from engine.run.stage import WorkerStep, run_stage
from engine.state.store import DictStore
from tests.engine.contexts import placement_of, worker_step
from tests.engine.zsets import TYPES, to_table

CIRCUIT = Circuit(
    (
        Source((), TYPES, "words"),
        Distinct((0,), TYPES),
        View((1,), TYPES, "seen", ("id", "word"), True),
        Output((2,), (), "seen", "changelog", ("id", "word")),
    )
)
PLAN = plan_stages(CIRCUIT)
OUTPUT_NODE = 3


TASK = worker_step(PLAN, 0, placement=placement_of(1), partitions={"seen": 1})


def message_of(task: WorkerStep, rows: list[tuple[Any, ...]], source: int = 0) -> ExchangeMessage:
    """What stage 0 sends to worker 0."""
    sent = run_stage(task, 0, DictStore(), (), {0: to_table(rows, TYPES)})
    return ExchangeMessage(source, sent.sent[0])


def test_arrival_order_of_exchange_messages_does_not_matter() -> None:
    messages = [
        message_of(TASK, rows, source) for source, rows in enumerate([[(1, "a"), (2, "b")], [(3, "c")], [(1, "a")]])
    ]
    results = [run_stage(TASK, 1, DictStore(), order, {}) for order in (messages, messages[::-1])]
    assert results[0] == results[1]
    assert results[0].output[OUTPUT_NODE].num_rows == 3


def test_rows_that_a_stage_passes_on_are_the_same_bytes_in_any_order_of_arrival() -> None:
    """No operator reads the rows of a channel that a stage only passes on, so no operator sorts them."""
    count = AggregateCall("count", None, False, pa.int64())
    circuit = Circuit((
        Source((), TYPES, "words"),
        Distinct((0,), TYPES),
        Aggregate((1,), (TYPES[1], pa.int64()), (1,), (count,)),
        Join((2, 0), (TYPES[1], pa.int64(), *TYPES), (0,), (1,), (False,)),
    ))  # fmt: skip
    carrying = plan_stages(circuit)
    assert {channel.producer for channel, last in carrying.last_read.items() if last == 2} == {0, 1}

    task = worker_step(carrying, 0, placement=placement_of(1))
    messages = [message_of(task, [(source, "a")], source) for source in range(3)]
    results = [run_stage(task, 1, DictStore(), order, {}) for order in (messages, messages[::-1])]
    assert results[0] == results[1]
    assert {channel.producer for channel in results[0].sent[0]} == {0, 1}


def test_errors_name_view_and_step() -> None:
    circuit = Circuit((CIRCUIT.nodes[0], View((0,), TYPES, "seen", ("id", "word"), True, (0,))))
    task = worker_step(plan_stages(circuit), 4, placement=placement_of(1))
    arrived = message_of(task, [(1, "a"), (1, "b")])
    with pytest.raises(DataError, match="view seen, step 4: 2 rows have the key"):
        run_stage(task, 1, DictStore(), [arrived], {})


@pytest.mark.parametrize("word", ["footstep", "view other, step 9: "])
def test_a_value_that_contains_view_or_step_does_not_hide_the_place(word: str) -> None:
    """The message quotes a value of the data. Whether the place is known already must not depend on that value."""
    count = AggregateCall("count", None, False, pa.int64())
    circuit = Circuit((
        Source((), TYPES, "words", retracts=True),
        Aggregate((0,), (TYPES[1], pa.int64()), (1,), (count,)),
        View((1,), (TYPES[1], pa.int64()), "counts", ("word", "n"), True, derived=True),
    ))  # fmt: skip
    task = worker_step(plan_stages(circuit), 0, placement=placement_of(1))
    never_there = {0: to_table(Counter({(1, word): -1}), TYPES)}
    sent = run_stage(task, 0, DictStore(), (), never_there)
    arrived = ExchangeMessage(0, sent.sent[0])
    with pytest.raises(NegativeCount) as caught:
        run_stage(task, 1, DictStore(), [arrived], {})
    error = from_wire(to_wire(caught.value), 0)
    assert isinstance(error, NegativeCount) and (error.owner, error.step) == ("view counts", 0)
    assert str(error).startswith("view counts, step 0: More rows were retracted from group")
    assert word in str(error) and str(error).count(error.what_to_do) == 1


def test_output_messages_have_the_declared_types() -> None:
    result = run_stage(TASK, 1, DictStore(), [message_of(TASK, [(1, "a")])], {})
    assert result.output[OUTPUT_NODE].schema.types == OUTPUT_MESSAGES.types


def test_a_stage_says_what_each_view_has_cost_and_how_many_rows_have_changed() -> None:
    arrived = [message_of(TASK, [(1, "a"), (2, "b")])]
    work = run_stage(TASK, 1, DictStore(), arrived, {}).findings.work
    assert {node: rows for node, (_, rows) in work.items()} == {2: 2, OUTPUT_NODE: 2}, (
        "the view has its operators' time"
    )
    assert all(ms > 0 for ms, _ in work.values())


def test_to_measure_a_stage_costs_nothing_for_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    monkeypatch.setattr(stage, "time", SimpleNamespace(perf_counter=lambda: looks.append(1) or float(len(looks))))
    counts = []
    for rows in (1, 1000):
        arrived = [message_of(TASK, [(number, "a") for number in range(rows)])]
        looks.clear()
        run_stage(TASK, 1, DictStore(), arrived, {})
        counts.append(len(looks))
    assert counts[0] == counts[1] <= 1 + len(CIRCUIT.nodes)
