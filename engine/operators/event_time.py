"""LatestTime and Watermark: how far event time has come, and which rows are late.

The watermark of a query after step s is a function of all rows of the steps 0 to s:

    min over the inputs (floor to milliseconds of the latest time that the input has had  -  its delay), and at least 1970-01-01

It is Spark's (WatermarkTracker). So it depends on the divisions alone, and not on the number of workers or the order of rows. A replay has the
same one. An input that had no row yet counts as 1970-01-01.

The division may name idle inputs (coordinator/stepping/idle.py). They are left out of the minimum, unless all of them are, or they have a row
in this very step. When one of them has rows again, the minimum goes back, and the watermark does not: it stays where it has been, which is then
state too, until the minimum has reached it. So rows of such an input are late by the watermark that went on without it, as in Flink.

Such a watermark does not follow from the rows alone. So a copy of it, which a transition fills from history, asks the original how far it is
when all is filled. Otherwise the copy would not have closed what the original has, and nobody else would.

A feed gives the content of a view in the order of hashes. Its first rows already have times from the whole history, so a watermark that
followed them would make nearly all others late. So a Watermark over a feed stands still at 1970-01-01 until all is filled, and then goes in one
step to where the rows lead. No row of the content is late for who is filled with it.

Every worker reduces its rows to their latest time (LatestTime). The worker that owns slot 0 keeps the latest time of each input in a trace,
which is versioned like all state, and tells all workers two watermarks in every step: the one before it and the one after it. So nobody else
keeps a copy, as with the value of a subquery (scalar.py). Operators leave out rows that are late by the watermark before the step, then add the
step's rows, and then close what the watermark after the step has reached. This is what Spark does in a batch and in the batch without data that
follows it if the watermark has moved.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, Int64s, fill
from engine.model.event_time import LatestTime, Watermark
from engine.operators.arrangement import Arrangement, on_one_worker
from engine.operators.context import StepContext
from engine.operators.descriptor import (
    FOLLOWS_INPUTS,
    NO_STATE,
    PLAIN_OUTPUT,
    Growth,
    NoContent,
    Operator,
    OutputFacts,
    StateUse,
    Wording,
)
from engine.operators.names import NONE
from engine.rows import zset
from engine.state.runs import as_rows, as_zset

MS_US = 1000
EPOCH_US = 0
"""The watermark before there is any row. It never goes below."""

REACHED = -1
"""In the place of an input's number, the state has the watermark itself under it, as long as it is ahead of what follows from all inputs."""


class Mark(NamedTuple):
    """The watermarks before and after a step, in microseconds."""

    before: int
    after: int


def mark_of(told: pa.Table) -> Mark:
    """What a Watermark tells in this step."""
    assert told.num_rows == 1, f"a watermark was told {told.num_rows} times in one step"
    return Mark(told.column(0)[0].as_py(), told.column(1)[0].as_py())


def times_of(column: pa.ChunkedArray | pa.Array) -> tuple[Int64s, Bools]:
    """(microseconds, whether there is a time) of a column of event times: timestamps, or windows, of which the end counts."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_struct(array.type):
        array = pc.struct_field(array, [1])
    numbers = array.view(pa.int64())
    if not array.null_count:
        return numbers.to_numpy(), np.ones(len(array), np.bool_)
    return fill(numbers, 0).to_numpy(), array.is_valid().to_numpy(zero_copy_only=False)


def drop_late(rows: pa.Table, time: int, mark: Mark, context: StepContext) -> pa.Table:
    """The rows that are not late. Those that are late are counted. A row without a time is never late."""
    if not rows.num_rows:
        return rows
    times, valid = times_of(rows.column(time))
    late = valid & (times <= mark.before)
    if not late.any():
        return rows
    context.found.times.add_late(context.node, int(zset.weights_of(rows)[late].sum()))
    return rows.filter(pa.array(~late))


def find_passed(column: pa.ChunkedArray | pa.Array, mark: Mark, offset_us: int = 0) -> Bools:
    """For each event time, whether the watermark reaches it, plus the offset, in this step. Those that it had reached before are left out."""
    times, valid = times_of(column)
    within = times > mark.before - offset_us
    within &= times <= mark.after - offset_us
    within &= valid
    return within


def empty_rows(rows: Sequence[pa.Table], types: Sequence[pa.DataType]) -> pa.Table:
    """The output of a stage to which no watermark came, which then has no rows either."""
    assert not any(table.num_rows for table in rows), "there are rows and no watermark: it is told in every step"
    return zset.empty(types)


def step_latest_time(node: LatestTime, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    times, valid = times_of(inputs[0].column(node.time))
    if not valid.any():
        return zset.empty(node.types)
    return zset.build([pa.array([int(times[valid].max())], pa.int64())], np.ones(1, np.int64))


def step_watermark(node: Watermark, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    """The watermarks before and after the step, on the worker that owns slot 0."""
    if not context.step.owns_keyless:
        return zset.empty(node.types)
    trace = context.trace(0, (pa.int16(), pa.int64()), ())
    stored = as_zset(trace.scan())
    old = dict(zip(stored.column(0).to_pylist(), stored.column(1).to_pylist(), strict=True))
    assert len(old) == stored.num_rows, "an input of a watermark has one latest time"
    new = {number: latest for number, latest in old.items() if number != REACHED}
    silent = set(context.step.idle_inputs.get(context.node, ()))
    of_inputs, original = inputs[: len(node.delays_ms)], inputs[len(node.delays_ms) :]
    for number, told in enumerate(of_inputs):
        if told.num_rows:
            new[number] = max(pc.max(told.column(0)).as_py(), old.get(number, -(1 << 63)))
            silent.discard(number)
    stands, ends = context.node in context.step.standing, context.step.division.ends_filling
    of_all = _watermark(node, new)
    assert _watermark(node, old) <= of_all, "a watermark goes back"
    before = EPOCH_US if stands else max(_watermark(node, old), old.get(REACHED, EPOCH_US))
    after = before if stands and not ends else max(before, _watermark(node, new, silent))
    if ends:
        after = max([after, *(mark_of(told).after for told in original)])
    if after > of_all:
        new[REACHED] = after
    moved = [number for number in sorted({*old, *new}) if old.get(number) != new.get(number)]
    change = [(number, old[number], -1) for number in moved if number in old]
    change += [(number, new[number], 1) for number in moved if number in new]
    if change:
        numbers, latest, weights = (list(column) for column in zip(*change, strict=True))
        columns = [pa.array(numbers, pa.int16()), pa.array(latest, pa.int64())]
        delta = zset.build(columns, np.array(weights, np.int64))
        trace.append(as_rows(delta), context.key(0, ()).hashes(delta))
    if not stands or ends:
        context.found.times.watermarks[context.node] = after
    return zset.build([pa.array([before], pa.int64()), pa.array([after], pa.int64())], np.ones(1, np.int64))


def _watermark(node: Watermark, latest: Mapping[int, int], silent: Collection[int] = ()) -> int:
    """The watermark for the latest time of each input, by its number; an input that is not in it had no row. `silent`: the inputs that are
    left out."""
    each = [
        (latest[number] // MS_US - delay) * MS_US if number in latest else EPOCH_US
        for number, delay in enumerate(node.delays_ms)
        if number not in silent
    ]
    return max(EPOCH_US, max(each) if node.greatest else min(each))


def _text_of_watermark(node: Watermark) -> str:
    delays = ", ".join(f"{delay} ms" for delay in node.delays_ms)
    return f"behind the latest time by {delays}" + (
        ", the greatest" if node.greatest and len(node.delays_ms) > 1 else ""
    )


LATEST_TIME = Operator(
    node=LatestTime,
    implementation_version=1,
    step=step_latest_time,
    arrange=lambda node, inputs: Arrangement((None,), None),
    output=PLAIN_OUTPUT,
    growth=Growth(retraction=lambda node: None, is_needed=True, is_relied_on=lambda node: True),
    state=NO_STATE,
    wording=Wording(columns=NONE, text=lambda node: f"of c{node.time}", user_name=lambda node: None),
)

WATERMARK = Operator(
    node=Watermark,
    implementation_version=1,
    step=step_watermark,
    arrange=lambda node, inputs: on_one_worker(inputs),
    output=OutputFacts(
        unique_key=lambda node, inputs: None,  # it is told again in every step
        comes_without_input=lambda node: True,
        counts_errors=lambda node: False,
    ),
    growth=FOLLOWS_INPUTS,
    state=StateUse(
        keeps=lambda node, append_only: "the latest time of each input",
        content=NoContent(),
        fed=None,
        traces_in_recursion=None,
    ),
    wording=Wording(columns=NONE, text=_text_of_watermark, user_name=lambda node: None),
)
