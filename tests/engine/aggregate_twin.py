"""The slow, obvious Aggregate: the whole multiset, recomputed in plain Python."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from engine.model.aggregates import Aggregate, AggregateCall, ValuesCall

Row = tuple[Any, ...]
WIDE = Context(prec=120, rounding=ROUND_HALF_UP)


def canon(value: Any) -> Any:
    """Equal exactly where Spark takes two values for one; NaN has a form that equals itself."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def aggregate(node: Aggregate, types: Sequence[pa.DataType], rows: Iterable[tuple[Row, int]]) -> Counter[Row]:
    """The output for rows with their weights, every value in canonical form. Rows that differ in the sign of a zero are equal to Counter."""
    groups: dict[Row, list[tuple[Row, int]]] = defaultdict(list)
    for row, weight in rows:
        if weight:
            groups[tuple(canon(row[i]) for i in node.group)].append((row, weight))
    if not node.group:
        groups.setdefault((), [])
    return Counter(
        {
            (*key, *(shown(call, _call(call, types, members)) for call in node.calls)): 1
            for key, members in groups.items()
        }
    )


def shown(call: AggregateCall, value: Any) -> Any:
    """The result of a call, in canonical form."""
    return canon_raw(value) if call.signed_zeros else canon(value)


def _call(call: AggregateCall, types: Sequence[pa.DataType], members: list[tuple[Row, int]]) -> Any:
    if call.argument is None:
        return sum(weight for _, weight in members)
    if isinstance(call, ValuesCall):
        return _of_all(call, types[call.argument], members)
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
    if call.function in ("var_pop", "var_samp"):
        return _variance(call, values, count)
    if call.signed_zeros:
        present = [row[call.argument] for row, weight in members if row[call.argument] is not None and weight > 0]
        return (max if call.function == "max" else min)(present, key=raw_order)
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


def _variance(call: AggregateCall, values: Counter[Any], count: int) -> float | None:
    """The numerator is rounded, and so is each quotient, as in the operator."""
    divisor = count - (call.function == "var_samp")
    if divisor == 0:
        return None
    if not all(math.isfinite(float(value)) for value in values):
        return math.nan
    first = sum((Fraction(value) * weight for value, weight in values.items()), Fraction(0))
    second = sum((Fraction(value) ** 2 * weight for value, weight in values.items()), Fraction(0))
    exact = count * second - first * first
    try:
        return exact.numerator / exact.denominator / count / divisor
    except OverflowError:
        return math.inf


def raw_order(value: Any) -> Any:
    """The order of values in which -0.0 is just below 0.0."""
    if isinstance(value, float):
        return (1, 0.0, 0.0) if math.isnan(value) else (0, value, math.copysign(1, value))
    return value.encode() if isinstance(value, str) else value


def _of_all(call: ValuesCall, type_: pa.DataType, members: list[tuple[Row, int]]) -> Any:
    found = [row[call.argument] for row, weight in members for _ in range(weight) if row[call.argument] is not None]
    values = sorted(found, key=raw_order)
    if call.distinct or call.function == "collect_set":
        values = [v for i, v in enumerate(values) if i == 0 or raw_order(v) != raw_order(values[i - 1])]
    if call.function in ("collect_list", "collect_set"):
        return tuple(canon_raw(value) for value in values)
    if not values:
        return None
    if call.function == "first_k":
        return tuple(canon_raw(value) for value in values[: int(call.parameters[0])])
    if call.function == "listagg":
        return str(call.parameters[0]).join(values)
    if call.function == "mode":
        most = max(Counter(map(raw_order, values)).values())
        best = [v for v in values if sum(raw_order(v) == raw_order(w) for w in values) == most]
        return canon(best[-1] if call.parameters[0] else best[0])
    if call.function == "bit_xor":
        total = 0
        for value in values:
            total ^= value
        return total
    assert call.function == "percentile_approx", call
    ordered = values[::-1] if call.parameters[0] else values
    return canon(ordered[max(math.ceil(len(ordered) * float(call.parameters[1])), 1) - 1])


def canon_raw(value: Any) -> Any:
    """A form that equals itself, also for NaN, and in which -0.0 differs from 0.0."""
    return repr(value) if isinstance(value, float) else value
