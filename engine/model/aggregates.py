"""Nodes that compute one row per group, and the calls of their functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from engine.model.node import LATER, Column, NodeBase, Types, columns_exist

AggregateFunction = Literal[
    "count", "sum", "avg", "min", "max", "try_sum", "try_avg",
    "var_pop", "var_samp", "stddev_pop", "stddev_samp", "regr_sxx",
    "covar_pop", "covar_samp", "corr", "regr_slope", "regr_intercept", "regr_r2", "regr_sxy",
    "collect_list", "collect_set", "first_k", "listagg", "mode", "bit_and", "bit_or", "bit_xor", "skewness", "kurtosis",
    "percentile_cont", "percentile_disc", "percentile_approx",
]  # fmt: skip
"""What each computes is in its descriptor, in the table of engine/operators/aggregate_functions.py."""


@dataclass(frozen=True)
class AggregateCall:
    """One call of an aggregate function. `argument` is a column of the input; None is count(*). `type` is Spark's type of the result.
    A Map below computes `count(a, b)` and FILTER clauses as expressions that are null for the rows that do not count.

    `signed_zeros`: of min and max of doubles, whether -0.0 is just below 0.0, and not the same."""

    function: AggregateFunction
    argument: Column | None
    distinct: bool
    type: pa.DataType
    signed_zeros: bool = field(default=False, metadata=LATER, kw_only=True)


@dataclass(frozen=True)
class ValuesCall(AggregateCall):
    """A call of a function that reads all values of a group in order (collect_list, percentile, ...). It has a class of its own, so that the
    JSON form of all other calls stays as it was.

    `field`: if the argument is a struct, this field of it is the value, and the whole struct decides the order. `parameters`: the constants of
    the function, such as the fractions of a percentile; its descriptor says which."""

    field: Column | None = None
    parameters: tuple[str | float | bytes, ...] = ()


@dataclass(frozen=True)
class Aggregate(NodeBase):
    """One row per group. The output has the group's columns, then one column per call. Without group columns there is always exactly one row."""

    group: tuple[Column, ...]
    calls: tuple[AggregateCall, ...]

    def check(self, inputs: Sequence[Types]) -> None:
        (rows,) = inputs
        check_calls(self.group, self.calls, self.types, rows, rows)


@dataclass(frozen=True)
class PartialAggregate(NodeBase):
    """Turns rows into *partials*: one row for each group of the change. It has the group's columns, then counts and exact sums (int64, in the
    order of `engine/operators/aggregate_plan`). Partials are a Z-set: a partial of weight 2 counts twice. The node has no state.

    `calls`: the calls of the FinalAggregate above, over this node's input: count, and sum and avg of integers and decimals."""

    group: tuple[Column, ...]
    calls: tuple[AggregateCall, ...]

    def check(self, inputs: Sequence[Types]) -> None:
        (rows,) = inputs
        assert self.types[: len(self.group)] == tuple(rows[column] for column in self.group)
        assert columns_exist((call.argument for call in self.calls), rows)


@dataclass(frozen=True)
class FinalAggregate(NodeBase):
    """Aggregate over partials. `first_sum`: the first column that is a sum. The argument of a call is a position in `argument_types`."""

    group: tuple[Column, ...]
    calls: tuple[AggregateCall, ...]
    argument_types: tuple[pa.DataType, ...]
    first_sum: Column

    def check(self, inputs: Sequence[Types]) -> None:
        (partials,) = inputs
        assert 0 <= self.first_sum < len(partials)
        check_calls(self.group, self.calls, self.types, partials, self.argument_types)


def check_calls(
    group: tuple[Column, ...], calls: tuple[AggregateCall, ...], types: Types, rows: Types, arguments: Types
) -> None:
    """`arguments`: the types of the columns that the calls' arguments are positions of."""
    assert columns_exist(group, rows) and columns_exist((call.argument for call in calls), arguments)
    assert types == (*(rows[column] for column in group), *(call.type for call in calls))
