"""The slow, obvious Aggregate: the whole multiset, recomputed in plain Python."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from engine.model.circuit import Aggregate, AggregateCall

Row = tuple[Any, ...]
WIDE = Context(prec=120, rounding=ROUND_HALF_UP)


def canon(value: Any) -> Any:
    """Equal exactly where Spark takes two values for one; NaN has a form that equals itself."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def aggregate(node: Aggregate, types: Sequence[pa.DataType], rows: Counter[Row]) -> Counter[Row]:
    """The output for a multiset of rows, every value in canonical form."""
    groups: dict[Row, list[tuple[Row, int]]] = defaultdict(list)
    for row, weight in rows.items():
        if weight:
            groups[tuple(canon(row[i]) for i in node.group)].append((row, weight))
    if not node.group:
        groups.setdefault((), [])
    return Counter(
        {(*key, *(canon(_call(call, types, members)) for call in node.calls)): 1 for key, members in groups.items()}
    )


def _call(call: AggregateCall, types: Sequence[pa.DataType], members: list[tuple[Row, int]]) -> Any:
    if call.argument is None:
        return sum(weight for _, weight in members)
    values = Counter[Any]()
    for row, weight in members:
        if row[call.argument] is not None:
            values[canon(row[call.argument])] += weight
    if call.distinct:
        values = Counter(dict.fromkeys(values, 1))
    count = sum(values.values())
    if call.function == "count":
        return count
    if not count:
        return None
    if call.function in ("min", "max"):
        return (max if call.function == "max" else min)(values, key=_order)
    return _sum_or_average(call, types[call.argument], values, count)


def _order(value: Any) -> Any:
    if isinstance(value, str) and value != "NaN":
        return value.encode()
    return (1, 0) if value == "NaN" else (0, value) if isinstance(value, float) else value


def _sum_or_average(call: AggregateCall, type_: pa.DataType, values: Counter[Any], count: int) -> Any:
    if pa.types.is_floating(type_):
        total = _sum_of_doubles(values)
        return total if call.function == "sum" else total / count
    if pa.types.is_decimal(type_):
        exact = sum((Fraction(value) * weight for value, weight in values.items()), Fraction(0))
        scaled = _half_up(exact if call.function == "sum" else exact / count, call.type.scale)
        return WIDE.divide(Decimal(scaled.numerator), Decimal(scaled.denominator)).quantize(
            Decimal(1).scaleb(-call.type.scale), context=WIDE
        )
    whole = sum(value * weight for value, weight in values.items())
    return whole if call.function == "sum" else float(whole) / count


def _half_up(number: Fraction, digits: int) -> Fraction:
    magnitude = Fraction(math.floor(abs(number) * 10**digits + Fraction(1, 2)), 10**digits)
    return -magnitude if number < 0 else magnitude


def _sum_of_doubles(values: Counter[Any]) -> float:
    if "NaN" in values or (math.inf in values and -math.inf in values):
        return math.nan
    for infinity in (math.inf, -math.inf):
        if infinity in values:
            return infinity
    total = sum((Fraction(value) * weight for value, weight in values.items()), Fraction(0))
    return total.numerator / total.denominator
