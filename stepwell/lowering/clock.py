"""Comparisons of the clock with a row: from Catalyst's tree of a condition to a ClockBound.

A condition is one if one side is a function of the clock that never decreases, and the other one reads only the row. A constant that is added to
the row is taken from the clock instead, and the differences of the two that queries like to write are turned around:

    g < y + n                                           g - n  <  y
    datediff(g, y) < n,  g - y < INTERVAL ...           g - n  <  y

So nothing overflows. At the ends of the calendar, where Spark's functions would, the condition has the answer that they cannot give.

What is not exactly such a function is none, and the condition is computed with the clock as with the value of a subquery. `now() - INTERVAL 1
MONTH` is none: at the end of a month it can decrease, because the day is cut off and the time of the day stays. With dates it is one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from base.text.timestamps import DAY_US, SECOND_US
from engine.model.clock import CLOCK_TYPES, ClockFunction, ClockValue
from engine.model.rows import Constant
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.builder import CircuitBuilder
from stepwell.lowering.trees import expression_id, references

WEEK_DAYS = 7
MONDAY = -3
"""The first day of a week, in days since 1970-01-01, which was a Thursday."""

SHIFT_US_MAX = 1000 * 366 * DAY_US
"""A constant that is added may be a thousand years. Spark's functions would overflow near the ends of the calendar, where ours do not."""

Relation = Literal["<", "<=", "=", ">=", ">"]
_RELATIONS: dict[str, Relation] = {
    "LessThan": "<", "LessThanOrEqual": "<=", "EqualTo": "=", "GreaterThanOrEqual": ">=", "GreaterThan": ">",
}  # fmt: skip
_TURNED: dict[Relation, Relation] = {"<": ">", "<=": ">=", "=": "=", ">=": "<=", ">": "<"}

Unit = Literal["us", "day", "number"]
_UNITS: dict[str, Unit] = {"timestamp": "us", "timestamp_ntz": "us", "date": "day", "long": "number"}
_FIXED_UNITS_US = {
    "MICROSECOND": 1, "MILLISECOND": 1000, "SECOND": SECOND_US, "MINUTE": 60 * SECOND_US, "HOUR": 3600 * SECOND_US, "DAY": DAY_US,
    "WEEK": WEEK_DAYS * DAY_US,
}  # fmt: skip
_MONTHS = {
    **dict.fromkeys(("MONTH", "MON", "MM"), 1),
    "QUARTER": 3,
    **dict.fromkeys(("YEAR", "YYYY", "YY"), 12),
}


def reads_days_alone(trees: Iterable[TreeNode], clocks: Collection[int]) -> bool:
    """Whether all that these expressions read of the clock is its date."""
    return all(_reads_days(tree, clocks) for tree in trees)


def _reads_days(tree: TreeNode, clocks: Collection[int]) -> bool:
    if tree.kind == "Cast" and str(tree["dataType"]) == "date" and _is_clock(tree.children[0], clocks):
        return True
    return not _is_clock(tree, clocks) and all(_reads_days(child, clocks) for child in tree.children)


def _is_clock(tree: TreeNode, clocks: Collection[int]) -> bool:
    return tree.kind == "AttributeReference" and expression_id(tree) in clocks


def add_clock(builder: CircuitBuilder, rounding_us: int) -> int:
    """The node that reads the clock, of which a circuit has one for each rounding."""
    row = pa.table({"c0": pa.array([0], pa.int8())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, row.schema) as writer:
        writer.write_table(row)
    below = builder.add(Constant((), tuple(row.schema.types), sink.getvalue().to_pybytes()))
    return builder.add(ClockValue((below,), CLOCK_TYPES, rounding_us))


@dataclass(frozen=True)
class ClockComparison:
    """A comparison of a row with the clock, `path(time) relation other`, where `other` reads the row alone."""

    path: tuple[ClockFunction, ...]
    relation: Relation
    other: TreeNode


def comparison_in(condition: TreeNode, clocks: Collection[int]) -> ClockComparison | None:
    """The comparison that a condition is, if it is one. `clocks`: the ids of the references that stand for the clock."""
    if condition.kind not in _RELATIONS:
        return None
    left, right = condition.children
    relation = _RELATIONS[condition.kind]
    if references(left).isdisjoint(clocks):
        left, right, relation = right, left, _TURNED[relation]
    if references(left).isdisjoint(clocks) or not references(right).isdisjoint(clocks):
        return None
    path = _path(left, clocks)
    return _of_difference(left, relation, right, clocks) if path is None else _turn_around(path, relation, right)


def _turn_around(path: _Path, relation: Relation, other: TreeNode) -> ClockComparison:
    """What is compared, without the constants that are added to it."""
    while True:
        added = _added_to_row(other, path.unit)
        turned = None if added is None else path.then(ClockFunction("add", -added[1]))
        if added is None or turned is None:
            return ClockComparison(path.functions, relation, other)
        path, other = turned, added[0]


def _added_to_row(tree: TreeNode, unit: Unit) -> tuple[TreeNode, int] | None:
    """(what a constant is added to, the constant)."""
    match tree.kind, unit:
        case ("TimestampAddInterval", "us") | ("DateAdd", "day") | ("DateSub", "day"):
            below, constant = tree.children
        case "TimestampAdd", "us":
            constant, below = tree.children
        case (("Add" | "Subtract"), "number") if str(tree.children[1].get("dataType")) == "long":
            below, constant = tree.children
        case _:
            return None
    amount = _constant(constant)
    if amount is None:
        return None
    if tree.kind == "TimestampAdd":
        size = _FIXED_UNITS_US.get(str(tree["unit"]).upper())
        return None if size is None else (below, amount * size)
    return below, -amount if tree.kind in ("DateSub", "Subtract") else amount


def _of_difference(
    left: TreeNode, relation: Relation, right: TreeNode, clocks: Collection[int]
) -> ClockComparison | None:
    """Returns what is compared by `left relation right`, if `left` is the clock minus something of the row, or the opposite, and `right` a
    constant. None otherwise."""
    limit = _constant(right)
    if left.kind not in ("DateDiff", "SubtractDates", "SubtractTimestamps") or limit is None:
        return None
    if left.kind == "SubtractDates":
        if limit % DAY_US:
            return None
        limit //= DAY_US
    end, start = left.children
    if not references(end).isdisjoint(clocks):
        other, sign = start, -1
    else:
        end, other, sign, relation = start, end, 1, _TURNED[relation]
    path = _path(end, clocks)
    if path is None or not references(other).isdisjoint(clocks):
        return None
    shifted = path.then(ClockFunction("add", sign * limit))
    return None if shifted is None else _turn_around(shifted, relation, other)


@dataclass(frozen=True)
class _Path:
    """A function of the clock. `unit`: of the result."""

    functions: tuple[ClockFunction, ...]
    unit: Unit

    def then(self, *functions: ClockFunction, unit: Unit | None = None) -> _Path | None:
        """The path with more functions behind it. None if a constant is too large."""
        size = {"us": 1, "day": DAY_US, "number": SECOND_US}[self.unit]
        if any(abs(each.amount) * size > SHIFT_US_MAX for each in functions if each.kind == "add"):
            return None
        return _Path((*self.functions, *(f for f in functions if f != ClockFunction("add"))), unit or self.unit)


def _path(tree: TreeNode, clocks: Collection[int]) -> _Path | None:
    """The way from the clock to the value of `tree`; None if it is none."""
    if tree.kind == "AttributeReference":
        return _Path((), "us") if expression_id(tree) in clocks else None
    reading = [child for child in tree.children if not references(child).isdisjoint(clocks)]
    if len(reading) != 1:
        return None
    path = _path(reading[0], clocks)
    if path is None:
        return None
    constants = [_constant(child) for child in tree.children if child is not reading[0]]
    amount = constants[0] if constants else 0
    match tree.kind:
        case "Cast":
            return _cast(path, str(tree["dataType"]))
        case "UnixTimestamp" | "ToUnixTimestamp" | "UnixSeconds":
            return _seconds(path)
        case "UnixMillis":
            return path.then(ClockFunction("divide", 1000), unit="number") if path.unit == "us" else None
        case "UnixMicros" | "UnixDate":
            return path.then(unit="number")
        case "TruncTimestamp" | "TruncDate":
            (unit,) = [child for child in tree.children if child is not reading[0]]
            return _truncate(path, str(unit.get("value", "")).upper())
        case "TimestampAdd":
            return _add(path, str(tree["unit"]).upper(), amount)
    if amount is None:
        return None
    match tree.kind:
        case "TimestampAddInterval" | "DateAdd" | "Add":
            return path.then(ClockFunction("add", amount))
        case "DateSub":
            return path.then(ClockFunction("add", -amount))
        case "Subtract" if reading[0] is tree.children[0]:
            return path.then(ClockFunction("add", -amount))
        case "AddMonths" | "DateAddYMInterval" if path.unit == "day" and abs(amount) <= 12 * 1000:
            return path.then(ClockFunction("add_months", amount))
    return None


def _cast(path: _Path, to: str) -> _Path | None:
    unit = _UNITS.get(to)
    if unit == path.unit:
        return path
    match path.unit, unit:
        case "us", "day":
            return path.then(ClockFunction("divide", DAY_US), unit="day")
        case "day", "us":
            return path.then(ClockFunction("multiply", DAY_US), unit="us")
        case "us", "number":
            return _seconds(path)
    return None


def _seconds(path: _Path) -> _Path | None:
    return path.then(ClockFunction("divide", SECOND_US), unit="number") if path.unit == "us" else None


def _add(path: _Path, unit: str, amount: int | None) -> _Path | None:
    if path.unit != "us" or amount is None or unit not in _FIXED_UNITS_US:
        return None
    return path.then(ClockFunction("add", amount * _FIXED_UNITS_US[unit]))


def _truncate(path: _Path, unit: str) -> _Path | None:
    """Returns the path through date_trunc or trunc. Months are months of days, so a time is made a day before and a time again after it."""
    if path.unit == "number":
        return None
    size = 1 if path.unit == "us" else DAY_US
    if unit == "WEEK":
        monday, week = MONDAY * DAY_US // size, WEEK_DAYS * DAY_US // size
        shifted = ClockFunction("add", -monday), ClockFunction("add", monday)
        return path.then(shifted[0], ClockFunction("divide", week), ClockFunction("multiply", week), shifted[1])
    if unit in _MONTHS:
        months = ClockFunction("to_months"), ClockFunction("of_months")
        if _MONTHS[unit] > 1:
            count = ClockFunction("divide", _MONTHS[unit]), ClockFunction("multiply", _MONTHS[unit])
            months = months[0], *count, months[1]  # type: ignore[assignment]
        if path.unit == "us":
            return path.then(ClockFunction("divide", DAY_US), *months, ClockFunction("multiply", DAY_US))
        return path.then(*months)
    fixed = {"DD": "DAY"}.get(unit, unit)
    if path.unit != "us" or fixed not in _FIXED_UNITS_US:
        return None
    return path.then(ClockFunction("divide", _FIXED_UNITS_US[fixed]), ClockFunction("multiply", _FIXED_UNITS_US[fixed]))


def _constant(tree: TreeNode) -> int | None:
    """The integer that a literal is: a number, or the microseconds or months of an interval."""
    if tree.kind != "Literal" or tree["value"] is None:
        return None
    kind = str(tree["dataType"])
    if kind not in ("integer", "long", "short", "byte") and not kind.startswith("interval "):
        return None
    return int(tree["value"])
