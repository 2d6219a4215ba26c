"""The table of aggregate functions: one descriptor for each name in `AggregateFunction`.

There are four families, by what a group keeps for them:

    family            keeps                                               a step costs
    TotalFunction     a count and an exact sum                            the change
    MomentFunction    a count, and exact sums of values and products      the change
    ExtremeFunction   nothing but the extreme, or all values in order     the change (engine/state/extremes.py has the bound)
    ValuesFunction    all values in order                                 the groups that change, with all their values

So a function belongs to the first family that can compute it. `test_aggregate_functions.py` proves that every name has a descriptor, that
lowering makes calls of each, and that each is compared with Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from engine.accumulators.order import is_ordered
from engine.model.aggregates import AggregateFunction, ValuesCall
from engine.operators import aggregate_moments as moments
from engine.operators import aggregate_types as types
from engine.operators import aggregate_values as values
from engine.operators.aggregate_moments import MomentResult, Spread
from engine.operators.aggregate_values import GroupValues

Accepts = Callable[[pa.DataType], bool]
TypeOf = Callable[[pa.DataType], pa.DataType | None]
"""`type_of(value)`: Spark's type of the result for such values; None if the function does not take them. (`accepts` is about the argument, of
which the value may be a field.)"""


@dataclass(frozen=True)
class TotalFunction:
    """An aggregate function that is computed from the count and the sum of the values. `gives`: what follows from the count and the sum. How,
    is in aggregate_results.py, because it depends on the type of the argument. `is_tried`: whether a value that the result's type cannot hold
    is NULL, and no error."""

    accepts: Accepts
    type_of: TypeOf
    gives: Literal["count", "sum", "average"]
    is_tried: bool = False

    @property
    def adds_values(self) -> bool:
        """Whether it needs the sum of the values, and not only their number."""
        return self.gives != "count"


@dataclass(frozen=True)
class ExtremeFunction:
    accepts: Accepts
    type_of: TypeOf
    highest: bool


@dataclass(frozen=True)
class MomentFunction:
    """An aggregate function that is computed from sums of products, such as a variance or a correlation. `result`: from the count, the sums
    and the co-moments of every group."""

    accepts: Accepts
    type_of: TypeOf
    result: Callable[[Spread], MomentResult]


@dataclass(frozen=True)
class ValuesFunction:
    """An aggregate function that is computed from all values in order. `result`: from all values of every group, one value per group, of the
    call's type. `follows_rows`: whether over a frame of a window the values stand in the order of its rows, and not in their own."""

    accepts: Accepts
    type_of: TypeOf
    result: Callable[[GroupValues, ValuesCall], pa.Array]
    follows_rows: bool


Function = TotalFunction | ExtremeFunction | MomentFunction | ValuesFunction


def _anything(type_: pa.DataType) -> bool:
    return True


def _number(type_: pa.DataType) -> bool:
    numeric = pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    return bool(numeric or pa.types.is_duration(type_))


def _double(type_: pa.DataType) -> bool:
    return bool(type_ == pa.float64())


def _pair(type_: pa.DataType) -> bool:
    return bool(pa.types.is_struct(type_)) and [field.type for field in type_] == [pa.float64()] * 2


FUNCTIONS: Mapping[AggregateFunction, Function] = {
    "count": TotalFunction(_anything, types.count, gives="count"),
    "sum": TotalFunction(_number, types.total, gives="sum"),
    "avg": TotalFunction(_number, types.average, gives="average"),
    "try_sum": TotalFunction(_number, types.total, gives="sum", is_tried=True),
    "try_avg": TotalFunction(_number, types.average, gives="average", is_tried=True),
    "min": ExtremeFunction(is_ordered, types.type_of_value, highest=False),
    "max": ExtremeFunction(is_ordered, types.type_of_value, highest=True),
    "var_pop": MomentFunction(_double, types.double, moments.var_pop),
    "var_samp": MomentFunction(_double, types.double, moments.var_samp),
    "stddev_pop": MomentFunction(_double, types.double, moments.stddev_pop),
    "stddev_samp": MomentFunction(_double, types.double, moments.stddev_samp),
    "regr_sxx": MomentFunction(_double, types.double, moments.regr_sxx),
    "covar_pop": MomentFunction(_pair, types.double, moments.covar_pop),
    "covar_samp": MomentFunction(_pair, types.double, moments.covar_samp),
    "corr": MomentFunction(_pair, types.double, moments.corr),
    "regr_slope": MomentFunction(_pair, types.double, moments.regr_slope),
    "regr_intercept": MomentFunction(_pair, types.double, moments.regr_intercept),
    "regr_r2": MomentFunction(_pair, types.double, moments.regr_r2),
    "regr_sxy": MomentFunction(_pair, types.double, moments.regr_sxy),
    "collect_list": ValuesFunction(_anything, types.list_of, values.collect_list, follows_rows=True),
    "collect_set": ValuesFunction(_anything, types.list_of, values.collect_set, follows_rows=False),
    "first_k": ValuesFunction(_anything, types.list_of, values.first_k, follows_rows=False),
    "listagg": ValuesFunction(_anything, types.type_of_value, values.listagg, follows_rows=True),
    "mode": ValuesFunction(_anything, types.type_of_value, values.mode, follows_rows=False),
    "bit_and": ValuesFunction(pa.types.is_integer, types.type_of_value, values.bit_and, follows_rows=False),
    "bit_or": ValuesFunction(pa.types.is_integer, types.type_of_value, values.bit_or, follows_rows=False),
    "bit_xor": ValuesFunction(pa.types.is_integer, types.type_of_value, values.bit_xor, follows_rows=False),
    "skewness": ValuesFunction(_double, types.double, values.skewness, follows_rows=False),
    "kurtosis": ValuesFunction(_double, types.double, values.kurtosis, follows_rows=False),
    "percentile_cont": ValuesFunction(_number, types.double, values.percentile_cont, follows_rows=False),
    "percentile_disc": ValuesFunction(_number, types.double, values.percentile_disc, follows_rows=False),
    "percentile_approx": ValuesFunction(is_ordered, types.type_of_value, values.percentile_approx, follows_rows=False),
}

TRIED = frozenset(
    name for name, function in FUNCTIONS.items() if isinstance(function, TotalFunction) and function.is_tried
)
"""Functions that have the class of another one in Catalyst."""
