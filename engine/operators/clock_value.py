"""ClockValue: the time of the step, on the worker that owns slot 0, told to all that read it.

The time before the step is in a trace, so it is that of the last step that the state has, whatever has happened to the project, the workers or
the step log since. In its first step a node has none, and no reader has rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from base.text.timestamps import DAY_US
from engine.model.clock import TIMESTAMP, ClockValue
from engine.operators.arrangement import on_one_worker
from engine.operators.context import StepContext
from engine.operators.descriptor import FOLLOWS_INPUTS, NoContent, Operator, OutputFacts, StateUse, Wording
from engine.operators.names import named_by
from engine.rows import zset
from engine.state.runs import as_rows, as_zset


class Tick(NamedTuple):
    """The times before and after a step, in microseconds. They are equal in the first step, and where no time has passed."""

    before: int
    after: int


def tick_of(told: pa.Table) -> Tick:
    """What a ClockValue tells in this step."""
    times = told.column(0).combine_chunks().view(pa.int64()).to_pylist()
    by_flag: dict[bool, int] = dict(zip(told.column(1).to_pylist(), times, strict=True))
    return Tick(by_flag.get(False, by_flag[True]), by_flag[True])


def step_clock_value(node: ClockValue, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    if not context.step.owns_keyless:
        return zset.empty(node.types)
    time = context.step.division.clock_us
    assert time is not None, f"node {context.node} reads the clock, and step {context.step.division.number} has no time"
    after = time // node.rounding_us * node.rounding_us
    trace = context.trace(0, (TIMESTAMP,), ())
    stored = as_zset(trace.scan())
    before = stored.column(0).combine_chunks().view(pa.int64()).to_pylist()
    assert len(before) <= 1, "the clock has one time"
    assert all(time <= after for time in before), "the clock goes back"
    if before == [after]:
        return _told_rows([after], [True])
    delta = zset.add([zset.negate(stored), _row([after])])
    trace.append(as_rows(delta), context.key(0, ()).hashes(delta))
    return _told_rows([after, *before], [True, False][: 1 + len(before)])


def _row(times: Sequence[int]) -> pa.Table:
    return zset.build([pa.array(times, pa.int64()).cast(TIMESTAMP)], np.ones(len(times), np.int64))


def _told_rows(times: Sequence[int], flags: Sequence[bool]) -> pa.Table:
    return zset.build([*zset.rows_of(_row(times)), pa.array(flags, pa.bool_())], np.ones(len(times), np.int64))


CLOCK_VALUE = Operator(
    node=ClockValue,
    implementation_version=1,
    step=step_clock_value,
    arrange=lambda node, inputs: on_one_worker(inputs),
    output=OutputFacts(
        unique_key=lambda node, inputs: None,  # a time that has changed is told in two rows
        comes_without_input=lambda node: True,
        counts_errors=lambda node: False,
    ),
    growth=FOLLOWS_INPUTS,
    state=StateUse(
        keeps=lambda node, append_only: "the time of the last step",
        content=NoContent(),
        fed=None,
        traces_in_recursion=None,
    ),
    wording=Wording(
        columns=named_by(lambda node, inputs, naming: ("now()",)),
        text=lambda node: "the time of the step" + (", by days" if node.rounding_us == DAY_US else ""),
        user_name=lambda node: None,
    ),
)
