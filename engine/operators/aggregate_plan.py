"""The plan of an Aggregate: its calls, and the accumulators that they share.

Calls over the same argument share its *argument sums*: sum(x) and avg(x) need one sum and one count. A node has up to six traces. Their numbers
are the same for all calls:

    trace rows                                   used for
    0     group -> sums, and lowest and highest  counts, exact integer sums; min and max if the input only inserts
    1     group, sum, bin -> digit               exact sums of doubles, and of their products
    2, 3  group, argument, value -> weight       all values in order (int64, binary), for functions of them; min and max if the input can retract
    4, 5  group, argument, value -> weight       distinct values (int64, binary)

In traces 2 and 3 the argument is -1 - its column if the values keep their -0.0 (see `OrderedArgument`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from engine.accumulators.integers import width_of
from engine.accumulators.order import has_codes
from engine.model.aggregates import AggregateCall
from engine.model.node import Column
from engine.operators.aggregate_functions import (
    FUNCTIONS,
    ExtremeFunction,
    MomentFunction,
    TotalFunction,
    ValuesFunction,
)
from engine.state.runs import Combine

TOTALS_TRACE, DIGITS_TRACE, ORDERED_TRACE, DISTINCT_TRACE = 0, 1, 2, 4


@dataclass(frozen=True, kw_only=True)
class ArgumentSums:
    """The values of one argument that are not null. With `distinct`, each value counts once."""

    argument: Column
    distinct: bool
    type: pa.DataType
    count: int
    """The position of the count of values among the sums."""
    limbs: slice
    """The positions of the limbs of the exact integer sum; empty if no call needs one."""
    digits: int | None
    """The number of the sum of doubles in the trace of digits; None if no call needs it."""
    products: int | None = None
    """The first of the numbers in the trace of digits of the sums that moments need, in the order of `MOMENT_SUMS` (or of
    `CO_MOMENT_SUMS`, if the argument is a struct of two doubles); None if no call needs them."""

    @property
    def is_pair(self) -> bool:
        return bool(pa.types.is_struct(self.type))


MOMENT_SUMS = ("x", "xx", "xx scaled")
CO_MOMENT_SUMS = ("x", "y", "xx", "xx scaled", "xy", "xy scaled", "yy", "yy scaled")
"""The sums of doubles of an argument that moments need. `scaled`: see engine/accumulators/co_moments.py."""


@dataclass(frozen=True)
class OrderedArgument:
    """An argument whose values are stored in order, in trace 2 or 3. `keeps_signed_zeros`: -0.0 stays as it is and is just below 0.0. Otherwise
    it has become 0.0."""

    argument: Column
    type: pa.DataType
    keeps_signed_zeros: bool

    @property
    def number(self) -> int:
        """The name of the argument in the trace."""
        return -1 - self.argument if self.keeps_signed_zeros else self.argument


@dataclass(frozen=True)
class ExtremeOfArgument:
    """A minimum or maximum. `keeps_signed_zeros`: as in `OrderedArgument`."""

    argument: Column
    highest: bool
    type: pa.DataType
    keeps_signed_zeros: bool

    @property
    def values(self) -> OrderedArgument:
        return OrderedArgument(self.argument, self.type, self.keeps_signed_zeros)

    @property
    def coded(self) -> bool:
        return has_codes(self.type)


@dataclass(frozen=True, kw_only=True)
class AggregatePlan:
    """How the calls of one Aggregate are computed: the accumulators that they share, and where these are stored. `sums`: the number of sums.
    Sum 0 is the count of rows. `digit_sums`: the number of sums in the trace of digits."""

    group: tuple[Column, ...]
    calls: tuple[AggregateCall, ...]
    argument_sums: tuple[ArgumentSums, ...]
    extremes: tuple[ExtremeOfArgument, ...]
    sums: int
    digit_sums: int
    append_only: bool
    values: tuple[OrderedArgument, ...] = ()
    """The arguments of which the functions of all values read the values."""

    def ordered_arguments(self) -> tuple[OrderedArgument, ...]:
        """The arguments whose values are stored in order."""
        searched = () if self.append_only else self.extremes
        return tuple(dict.fromkeys([*(extreme.values for extreme in searched), *self.values]))

    def sums_of(self, call: AggregateCall) -> ArgumentSums:
        distinct = call.distinct and isinstance(FUNCTIONS[call.function], TotalFunction | MomentFunction)
        return next(
            shared for shared in self.argument_sums if (shared.argument, shared.distinct) == (call.argument, distinct)
        )

    def extreme(self, call: AggregateCall) -> int:
        type_ = next(shared.type for shared in self.argument_sums if shared.argument == call.argument)
        function = FUNCTIONS[call.function]
        assert isinstance(function, ExtremeFunction), call
        return self.extremes.index(_extreme(call, type_, highest=function.highest))

    def combines(self) -> tuple[Combine, ...]:
        """How the accumulators of trace 0 are combined."""
        extremes: list[Combine] = ["max" if extreme.highest else "min" for extreme in self.kept_extremes()]
        sums: list[Combine] = ["sum"] * self.sums
        return (*sums, *extremes)

    def accumulator_types(self) -> tuple[pa.DataType, ...]:
        extremes = (pa.int64() if extreme.coded else pa.binary() for extreme in self.kept_extremes())
        return (pa.int64(),) * self.sums + tuple(extremes)

    def kept_extremes(self) -> tuple[ExtremeOfArgument, ...]:
        return self.extremes if self.append_only else ()


def aggregate_plan_of(
    group: tuple[Column, ...], calls: tuple[AggregateCall, ...], types: Sequence[pa.DataType], append_only: bool
) -> AggregatePlan:
    """`types`: the types of the columns that the calls' arguments name. Raises TypeError for an argument type that a function does not support;
    lowering refuses those before."""
    wanted: dict[tuple[Column, bool], list[AggregateCall]] = {}
    extremes: dict[ExtremeOfArgument, None] = {}
    values: dict[OrderedArgument, None] = {}
    for call in calls:
        if call.argument is None:
            assert call.function == "count" and not call.distinct, call
            continue
        type_ = types[call.argument]
        _check(call, type_)
        function = FUNCTIONS[call.function]
        distinct = call.distinct and isinstance(function, TotalFunction | MomentFunction)
        wanted.setdefault((call.argument, distinct), []).append(call)
        if isinstance(function, ExtremeFunction):
            extremes[_extreme(call, type_, highest=function.highest)] = None
        elif isinstance(function, ValuesFunction):
            values[OrderedArgument(call.argument, type_, keeps_signed_zeros=True)] = None
    argument_sums, sums, digit_sums = _argument_sums(wanted, types)
    return AggregatePlan(
        group=group,
        calls=calls,
        argument_sums=argument_sums,
        extremes=tuple(extremes),
        sums=sums,
        digit_sums=digit_sums,
        append_only=append_only,
        values=tuple(values),
    )


def _argument_sums(
    wanted: Mapping[tuple[Column, bool], Sequence[AggregateCall]], types: Sequence[pa.DataType]
) -> tuple[tuple[ArgumentSums, ...], int, int]:
    """(the sums of each argument, the number of sums, the number of sums in the trace of digits). `wanted`: the calls that read an argument, by
    the argument and whether each of its values counts once."""
    found: list[ArgumentSums] = []
    sums, digit_sums = 1, 0
    for (argument, distinct), readers in wanted.items():
        type_ = types[argument]
        summed = any(_adds_values(call) for call in readers)
        digits = digit_sums if summed and pa.types.is_floating(type_) else None
        digit_sums += digits is not None
        width = width_of(type_) if summed and digits is None else 0
        products = digit_sums if any(isinstance(FUNCTIONS[call.function], MomentFunction) for call in readers) else None
        shared = ArgumentSums(
            argument=argument,
            distinct=distinct,
            type=type_,
            count=sums,
            limbs=slice(sums + 1, sums + 1 + width),
            digits=digits,
            products=products,
        )
        if products is not None:
            digit_sums += len(CO_MOMENT_SUMS if shared.is_pair else MOMENT_SUMS)
        found.append(shared)
        sums += 1 + width
    return tuple(found), sums, digit_sums


def _extreme(call: AggregateCall, type_: pa.DataType, *, highest: bool) -> ExtremeOfArgument:
    assert call.argument is not None
    return ExtremeOfArgument(call.argument, highest, type_, call.signed_zeros or pa.types.is_nested(type_))


def _adds_values(call: AggregateCall) -> bool:
    function = FUNCTIONS[call.function]
    return isinstance(function, TotalFunction) and function.adds_values


def _check(call: AggregateCall, type_: pa.DataType) -> None:
    if not FUNCTIONS[call.function].accepts(type_):
        raise TypeError(f"{call.function} of {type_} is not supported")
    function = FUNCTIONS[call.function]
    if pa.types.is_decimal(type_) and isinstance(function, TotalFunction) and function.gives == "sum":
        assert call.type.scale == type_.scale, call
