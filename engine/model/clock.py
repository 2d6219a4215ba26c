"""Nodes that read the clock. The **time of a step** is recorded with its division, never goes back, and is the same for all views.

A **border** is a time at which a row enters or leaves a view although no input changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from engine.model.node import Column, NodeBase, Types, columns_exist

TIMESTAMP = pa.timestamp("us", "UTC")

CLOCK_TYPES: Types = (TIMESTAMP, pa.bool_())
"""The types of the output of a ClockValue."""

COMPARED_TYPES = (TIMESTAMP, pa.timestamp("us"), pa.date32(), pa.int64(), pa.int32())
"""What can be compared with a function of the clock: microseconds and days since 1970-01-01, and plain numbers."""


@dataclass(frozen=True)
class ClockValue(NodeBase):
    """The time of the step, told as a ScalarValue tells its value (engine/model/rows.py), so that a ScalarMap can read it. The rows of the input
    do not matter; an operator with state cannot be without one. `rounding_us`: it is rounded down to a multiple of so many microseconds, so that
    it is another one only when that is."""

    rounding_us: int = 1

    def check(self, inputs: Sequence[Types]) -> None:
        assert len(inputs) == 1 and self.types == CLOCK_TYPES and self.rounding_us > 0


@dataclass(frozen=True)
class ClockFunction:
    """A function of one integer that never decreases: microseconds, days, months or seconds since 1970-01-01.

    `add`: plus `amount`. `multiply`: times `amount`. `divide`: divided by `amount` and rounded down. `add_months`: the day that is `amount`
    months later, or the last day of that month. `to_months`: the month of a day. `of_months`: the first day of a month."""

    kind: Literal["add", "multiply", "divide", "add_months", "to_months", "of_months"]
    amount: int = 0


@dataclass(frozen=True)
class ClockBound:
    """A comparison of the clock with a column: `path(time of the step) relation column`. `path`: the functions in the order in which they are
    applied to the microseconds of the time. A column that is NULL makes it not true."""

    path: tuple[ClockFunction, ...]
    relation: Literal["<", "<=", "=", ">=", ">"]
    column: Column

    @property
    def ends(self) -> bool:
        """Whether it can be true no more as time passes."""
        return self.relation in ("<", "<=", "=")


@dataclass(frozen=True)
class TemporalFilter(NodeBase):
    """The rows for which all `bounds` are true. Every row has an interval of time in which they are. The inputs are the rows and a ClockValue.
    The output has the first columns of the rows; those behind them are only compared."""

    bounds: tuple[ClockBound, ...]

    @property
    def ends(self) -> bool:
        """Whether a row that is in the output can leave it as time passes."""
        return any(bound.ends for bound in self.bounds)

    def check(self, inputs: Sequence[Types]) -> None:
        rows, clock = inputs
        assert clock == CLOCK_TYPES and self.types == rows[: len(self.types)]
        assert self.bounds and columns_exist((bound.column for bound in self.bounds), rows)
        assert all(rows[bound.column] in COMPARED_TYPES for bound in self.bounds)
        assert all(f.amount > 0 for bound in self.bounds for f in bound.path if f.kind in ("multiply", "divide"))
