"""Texts for parts of nodes, for users. The texts of several operators share them, and no program parses them."""

from __future__ import annotations

from collections.abc import Sequence

from base.text.timestamps import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from engine.model.aggregates import AggregateCall
from engine.model.clock import ClockFunction
from engine.model.node import Column, Expression
from engine.model.ordered import SortKey


def columns(numbers: Sequence[Column]) -> str:
    return ", ".join(f"c{number}" for number in numbers)


def expression(value: Expression) -> str:
    return f"c{value.column}" if value.column is not None else value.sql


def join(
    left_key: Sequence[Column], right_key: Sequence[Column], null_safe: Sequence[bool], residual: Expression | None
) -> str:
    pairs = zip(left_key, right_key, null_safe, strict=True)
    keys = ", ".join(f"c{left} {'<=>' if safe else '='} c{right}" for left, right, safe in pairs)
    return f"on {keys}" + (f" if {residual.sql}" if residual else "")


def aggregate(group: Sequence[Column], calls: Sequence[AggregateCall], prefix: str) -> str:
    """The text of an aggregate. `prefix` and a number name an argument: `c0` is a column, `s0` is the first argument of which partials have
    sums."""
    by = f"by {columns(group)}: " if group else ""
    return by + ", ".join(_call(call, prefix) for call in calls)


def top_k(partition: Sequence[Column], order: Sequence[SortKey], offset: int, count: int | None) -> str:
    rows = ("all rows" if count is None else f"first {count} rows") + (f" behind {offset}" if offset else "")
    by = f" of each {columns(partition)}" if partition else ""
    return rows + by + (f" by {', '.join(map(sort_key, order))}" if order else " in canonical order")


def sort_key(key: SortKey) -> str:
    return f"c{key.column} {'asc' if key.ascending else 'desc'} nulls {'first' if key.nulls_first else 'last'}"


def _call(call: AggregateCall, prefix: str) -> str:
    argument = "*" if call.argument is None else f"{prefix}{call.argument}"
    return f"{call.function}({'distinct ' if call.distinct else ''}{argument})"


_UNITS = ((DAY_US, "days"), (HOUR_US, "hours"), (MINUTE_US, "minutes"), (SECOND_US, "s"), (1, "us"))


def of_clock(path: Sequence[ClockFunction]) -> str:
    """A function of the clock. What is added is a duration until a day, a second or a month is made of the time, and then a number of these."""
    text, is_time = "clock", True
    for function in path:
        amount = _duration(function.amount) if is_time else str(abs(function.amount))
        match function.kind:
            case "add":
                text = f"{text} {'-' if function.amount < 0 else '+'} {amount}"
            case "divide" | "multiply":
                text, is_time = f"({text}) {'//' if function.kind == 'divide' else '*'} {amount}", False
            case _:
                text = f"{function.kind}({text}{f', {function.amount}' if function.amount else ''})"
    return text


def _duration(microseconds: int) -> str:
    size, unit = next((size, unit) for size, unit in _UNITS if microseconds % size == 0)
    return f"{abs(microseconds) // size} {unit}"
