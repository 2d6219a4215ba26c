"""Nodes for which the order of rows matters: the first rows, window functions, sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import pyarrow as pa

from engine.model.aggregates import AggregateFunction
from engine.model.node import LATER, Column, NodeBase, Types, columns_exist


@dataclass(frozen=True)
class SortKey:
    """A column by which rows are sorted."""

    column: Column
    ascending: bool
    nulls_first: bool


@dataclass(frozen=True)
class TopK(NodeBase):
    """A part of the rows with equal `partition` columns: the `count` rows behind the first `offset`, in the order of `order`. A row of weight 3
    takes three places. Rows that tie are in canonical order. Without a `count` there is no end. Without partition columns there is one group.

    The partition columns are compared as they are, and the sort keys in Spark's order, in which -0.0 equals 0.0."""

    partition: tuple[Column, ...]
    order: tuple[SortKey, ...]
    offset: int
    count: int | None

    @property
    def bounds(self) -> tuple[int, ...]:
        """The numbers of rows from the first one on whose difference is the output: `offset`, unless it is 0, and the end, if there is one."""
        ends = (self.offset, 0 if self.count is None else self.offset + self.count)
        return tuple(end for end in ends if end)

    def check(self, inputs: Sequence[Types]) -> None:
        assert list(inputs) == [self.types]
        assert columns_exist(self.partition, self.types) and len(set(self.partition)) == len(self.partition)
        assert columns_exist((key.column for key in self.order), self.types)
        assert self.offset >= 0 and self.bounds and (self.count is None or self.count > 0), (
            "it keeps no row, or every row"
        )


OwnWindowFunction = Literal[
    "row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lead", "first_value", "last_value",
    "nth_value",
]  # fmt: skip
"""The functions that GROUP BY does not have, or that read another row here."""

OWN_FUNCTIONS: frozenset[str] = frozenset(get_args(OwnWindowFunction))

WindowFunction = Literal[OwnWindowFunction, AggregateFunction]

RANKING: frozenset[WindowFunction] = frozenset(
    {"row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"}
)
"""The functions that read the row's place in its partition and nothing else."""


@dataclass(frozen=True)
class Months:
    """A distance between dates or timestamps: so many months of the calendar. A day beyond the end of a month is its last day."""

    count: int

    def __neg__(self) -> Months:
        return Months(-self.count)

    def __str__(self) -> str:
        return f"{self.count} months"


@dataclass(frozen=True)
class WindowFrame:
    """The rows around a row that a function reads. In `rows`, a bound is a number of rows. In `range`, it is a distance between values of the
    one column of the order, as the engine stores them: a number, unscaled units of a decimal, days of a date, microseconds of a timestamp, or
    months of both; 0 means the row and those that tie with it. A bound before the row is negative. None is the end of the partition."""

    unit: Literal["rows", "range"]
    low: int | float | Months | None
    high: int | float | Months | None

    @property
    def whole(self) -> bool:
        """Whether the frame of every row is its partition."""
        return self.low is None and self.high is None


@dataclass(frozen=True)
class WindowCall:
    """One call of a function over a window. `argument` is a column of the input; None is count(*), or a function of the row's place alone.

    `offset`: of lead, the number of rows ahead (lag is a negative one); of nth_value, n; of ntile, the number of tiles. `default`: the column
    whose value lead gives where there is no such row; None is NULL. `ignore_nulls`: rows whose argument is null are left out of the count.
    `distinct`, `signed_zeros`, `field`, `parameters`: of an aggregate function, as in an AggregateCall and a ValuesCall."""

    function: WindowFunction
    argument: Column | None
    frame: WindowFrame
    type: pa.DataType
    offset: int = 0
    default: Column | None = None
    ignore_nulls: bool = False
    signed_zeros: bool = field(default=False, metadata=LATER)
    distinct: bool = field(default=False, metadata=LATER)
    parameters: tuple[str | float | bytes, ...] = field(default=(), metadata=LATER)
    field: Column | None = field(default=None, metadata=LATER)


@dataclass(frozen=True)
class Window(NodeBase):
    """Functions over the rows around a row (OVER). The output has the input's columns, then one column per call. Rows of equal `partition`
    columns, where null equals null, are a partition. They are ordered by `order`, rows that tie in it by `ties`, and those that tie in both by
    the whole row in canonical order. Ranks, and frames up to the rows that tie, know `order` alone. A row of weight 3 is three rows."""

    partition: tuple[Column, ...]
    order: tuple[SortKey, ...]
    calls: tuple[WindowCall, ...]
    ties: tuple[SortKey, ...] = field(default=(), metadata=LATER)

    def check(self, inputs: Sequence[Types]) -> None:
        (rows,) = inputs
        assert self.calls and self.types == (*rows, *(call.type for call in self.calls))
        assert columns_exist((*self.partition, *(key.column for key in (*self.order, *self.ties))), rows)
        assert columns_exist((column for call in self.calls for column in (call.argument, call.default)), rows)
        assert all(
            (call.argument is None) == (call.function in RANKING) or call.function == "count" for call in self.calls
        )


@dataclass(frozen=True)
class Sessions(NodeBase):
    """The rows of the input, in which the time range in the column `window` (a struct of two timestamps) is replaced by that of the row's
    session. The ranges of rows with equal `key` columns that touch or overlap are one session."""

    key: tuple[Column, ...]
    window: Column

    def check(self, inputs: Sequence[Types]) -> None:
        assert list(inputs) == [self.types] and columns_exist((*self.key, self.window), self.types)
        window = self.types[self.window]
        assert pa.types.is_struct(window) and window.num_fields == 2 and self.window not in self.key
        assert all(pa.types.is_timestamp(field.type) for field in window)
