"""The plan of an Aggregate: its calls, and the accumulators that they share.

Calls over the same argument share a *feed*: sum(x) and avg(x) need one sum and one count. A node has up to six traces. Their slots are the same
for all calls:

    slot  rows                                   used for
    0     group -> sums, and lowest and highest  counts, exact integer sums; min and max if the input only inserts
    1     group, feed, bin -> digit              exact sums of doubles
    2, 3  group, argument, value -> weight       min and max if the input can retract; in value order (int64, binary)
    4, 5  group, argument, value -> weight       distinct values (int64, binary)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from engine.accumulators.integers import width_of
from engine.accumulators.order import has_codes, is_ordered
from engine.model.circuit import AggregateCall, Column
from engine.state.trace import Combine

TOTALS_SLOT, DIGITS_SLOT, EXTREMES_SLOT, DISTINCT_SLOT = 0, 1, 2, 4


@dataclass(frozen=True)
class Feed:
    """The values of one argument that are not null. With `distinct`, each value counts once."""

    argument: Column
    distinct: bool
    type: pa.DataType
    count: int
    """The position of the count of values among the sums."""
    limbs: slice
    """The positions of the limbs of the exact integer sum; empty if no call needs one."""
    digits: int | None
    """The number of this feed in the trace of digits; None if no call needs a sum of doubles."""


@dataclass(frozen=True)
class Extreme:
    argument: Column
    highest: bool
    type: pa.DataType

    @property
    def coded(self) -> bool:
        return has_codes(self.type)


@dataclass(frozen=True)
class Plan:
    """`sums`: the number of sums. Sum 0 is the count of rows. `digit_feeds`: the number of feeds in the trace of digits."""

    group: tuple[Column, ...]
    calls: tuple[AggregateCall, ...]
    feeds: tuple[Feed, ...]
    extremes: tuple[Extreme, ...]
    sums: int
    digit_feeds: int
    append_only: bool

    def feed(self, call: AggregateCall) -> Feed:
        distinct = call.distinct and call.function not in ("min", "max")
        return next(feed for feed in self.feeds if (feed.argument, feed.distinct) == (call.argument, distinct))

    def extreme(self, call: AggregateCall) -> int:
        wanted = (call.argument, call.function == "max")
        return next(i for i, extreme in enumerate(self.extremes) if (extreme.argument, extreme.highest) == wanted)

    def combines(self) -> tuple[Combine, ...]:
        """How the accumulators of slot 0 are combined."""
        extremes: list[Combine] = ["max" if extreme.highest else "min" for extreme in self.kept_extremes()]
        sums: list[Combine] = ["sum"] * self.sums
        return (*sums, *extremes)

    def accumulator_types(self) -> tuple[pa.DataType, ...]:
        extremes = (pa.int64() if extreme.coded else pa.binary() for extreme in self.kept_extremes())
        return (pa.int64(),) * self.sums + tuple(extremes)

    def kept_extremes(self) -> tuple[Extreme, ...]:
        return self.extremes if self.append_only else ()


def plan_of(
    group: tuple[Column, ...], calls: tuple[AggregateCall, ...], types: Sequence[pa.DataType], append_only: bool
) -> Plan:
    """`types`: the types of the columns that the calls' arguments name. Raises TypeError for an argument type that a function does not support;
    lowering refuses those before."""
    wanted: dict[tuple[Column, bool], bool] = {}
    extremes: dict[tuple[Column, bool], Extreme] = {}
    for call in calls:
        if call.argument is None:
            assert call.function == "count" and not call.distinct, call
            continue
        type_ = types[call.argument]
        _check(call, type_)
        is_extreme = call.function in ("min", "max")
        key = (call.argument, call.distinct and not is_extreme)
        wanted[key] = wanted.get(key, False) or call.function in ("sum", "avg")
        if is_extreme:
            place = (call.argument, call.function == "max")
            extremes[place] = Extreme(call.argument, call.function == "max", type_)
    feeds, sums, digit_feeds = [], 1, 0
    for (argument, distinct), summed in wanted.items():
        type_ = types[argument]
        digits = digit_feeds if summed and pa.types.is_floating(type_) else None
        width = width_of(type_) if summed and digits is None else 0
        feeds.append(Feed(argument, distinct, type_, sums, slice(sums + 1, sums + 1 + width), digits))
        sums += 1 + width
        digit_feeds += digits is not None
    return Plan(group, calls, tuple(feeds), tuple(extremes.values()), sums, digit_feeds, append_only)


def _check(call: AggregateCall, type_: pa.DataType) -> None:
    if call.function in ("min", "max") and not is_ordered(type_):
        raise TypeError(f"{call.function} of {type_} is not supported: the type is nested or null")
    if call.function in ("sum", "avg"):
        numeric = pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
        if not numeric and not pa.types.is_duration(type_):
            raise TypeError(f"{call.function} of {type_} is not supported: it is not a number or a day-time interval")
        if pa.types.is_decimal(type_) and call.function == "sum":
            assert call.type.scale == type_.scale, call
