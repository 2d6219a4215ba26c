"""Nodes that follow a watermark, so that their state is bounded.

The **watermark** is the time up to which a query with event time is complete: the latest event time that it has read, minus a delay. It
moves at the end of a step. A **late row** has an event time at or behind the watermark before the step; it is left out and counted. To
**close** a group is to put it out once and to remove it from the state, in the step whose watermark passes its event time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from engine.model.aggregates import AggregateCall, check_calls
from engine.model.joins import check_keys
from engine.model.node import Column, Expression, NodeBase, Types, columns_exist


@dataclass(frozen=True)
class LatestTime(NodeBase):
    """The latest of the times in the column `time`, a timestamp, among the rows of this step: one row of microseconds, or none. Like the output
    of a ScalarValue, it is no change of a table."""

    time: Column

    def check(self, inputs: Sequence[Types]) -> None:
        (rows,) = inputs
        assert self.types == (pa.int64(),) and pa.types.is_timestamp(rows[self.time])


@dataclass(frozen=True)
class Watermark(NodeBase):
    """The watermark of a query: a time in microseconds that never goes back. The inputs are LatestTime nodes, one for each withWatermark of the
    query. Each has the watermark "its latest time so far, minus its delay", and the query has the least of them, or the greatest if `greatest`.

    The output is no change of a table. In every step it tells the watermark before the step and the one after it, in one row.

    In a transition a copy of a Watermark that `leaves_out` inputs, which is filled from history, has that one as a last input. As soon as all is
    filled, the copy is not behind it any more."""

    delays_ms: tuple[int, ...]
    greatest: bool = False

    @property
    def leaves_out(self) -> bool:
        """Whether it can leave out idle inputs: where the least of several counts, one holds back the others."""
        return len(self.delays_ms) > 1 and not self.greatest

    def check(self, inputs: Sequence[Types]) -> None:
        latest, original = inputs[: len(self.delays_ms)], inputs[len(self.delays_ms) :]
        assert latest and all(types == (pa.int64(),) for types in latest) and len(latest) == len(self.delays_ms)
        assert list(original) in ([], [WATERMARK_TYPES]) and self.types == WATERMARK_TYPES


WATERMARK_TYPES: Types = (pa.int64(), pa.int64())
"""The types of the output of a Watermark."""


@dataclass(frozen=True)
class ClosingAggregate(NodeBase):
    """An Aggregate whose groups close. The first input has the rows, and only inserts; the second is a Watermark. `time`: which of the group's
    columns is its event time, a timestamp or a window. A group closes when the watermark reaches its time, or the end of its window: its row
    is in the output of that step, once, and its state is removed. A row of a group that is closed already is late, and left out."""

    group: tuple[Column, ...]
    calls: tuple[AggregateCall, ...]
    time: int

    def check(self, inputs: Sequence[Types]) -> None:
        rows, watermark = inputs
        check_calls(self.group, self.calls, self.types, rows, rows)
        assert watermark == WATERMARK_TYPES and is_event_time(rows[self.group[self.time]])


@dataclass(frozen=True)
class ClosingSessions(NodeBase):
    """Sessions that close. The first input has the rows, and only inserts; the second is a Watermark. The rows of a session are in the output
    when the watermark reaches its end, all in that step, and their state is removed. A row is late if its own range has ended already."""

    key: tuple[Column, ...]
    window: Column

    def check(self, inputs: Sequence[Types]) -> None:
        rows, watermark = inputs
        assert rows == self.types and watermark == WATERMARK_TYPES
        assert is_event_time(rows[self.window]) and pa.types.is_struct(rows[self.window])
        assert self.window not in self.key and columns_exist(self.key, rows)


@dataclass(frozen=True)
class TimedDeduplicate(NodeBase):
    """The first row of every key, and no other row of that key until it is forgotten. The first input has the rows, and only inserts; the second
    is a Watermark. A row is late if the watermark has reached its `time`, a column.

    A key is forgotten when the watermark reaches the time of its first row plus `lifetime_us`; never if that is None. `null_time_us`: the time
    of a row without one; None: its key is never forgotten."""

    key: tuple[Column, ...]
    time: Column
    lifetime_us: int | None
    null_time_us: int | None = None

    def check(self, inputs: Sequence[Types]) -> None:
        rows, watermark = inputs
        assert rows == self.types and watermark == WATERMARK_TYPES
        assert self.key and columns_exist(self.key, rows) and is_event_time(rows[self.time])


@dataclass(frozen=True)
class Expiry:
    """A row is forgotten when the watermark reaches its time in `column` plus `offset_us`."""

    column: Column
    offset_us: int


@dataclass(frozen=True)
class TimedJoin(NodeBase):
    """A join whose rows are forgotten. The inputs are the left and the right, which only insert, and a Watermark. The output has the left
    columns, then the right columns: every pair with equal keys that satisfies the `residual`. With `left_outer`, each left row that is forgotten
    without having been in a pair, with NULLs; with `right_outer` each such right row.

    `left_time`, `right_time`: the event time of a side, by which its rows are late; None if it has none. `left_expiry`, `right_expiry`: when its
    rows are forgotten; None: never. A row may not be forgotten before the last row that can match it is late."""

    left_key: tuple[Column, ...]
    right_key: tuple[Column, ...]
    null_safe: tuple[bool, ...]
    residual: Expression | None
    left_outer: bool
    right_outer: bool
    left_time: Column | None
    right_time: Column | None
    left_expiry: Expiry | None
    right_expiry: Expiry | None

    def check(self, inputs: Sequence[Types]) -> None:
        left, right, watermark = inputs
        assert self.types == left + right and watermark == WATERMARK_TYPES
        check_keys(self.left_key, self.right_key, self.null_safe, left, right)
        sides = ((left, self.left_outer, self.left_time, self.left_expiry),)
        for types, outer, time, expiry in (*sides, (right, self.right_outer, self.right_time, self.right_expiry)):
            assert time is None or is_event_time(types[time])
            assert expiry is None or is_event_time(types[expiry.column])
            assert expiry is not None or not outer, "an unmatched row would never be in the output"


def is_event_time(type_: pa.DataType) -> bool:
    """Whether it is a timestamp, or a window: a struct of two timestamps, of which the second is the end."""
    if pa.types.is_struct(type_):
        return type_.num_fields == 2 and all(pa.types.is_timestamp(field.type) for field in type_)
    return bool(pa.types.is_timestamp(type_))
