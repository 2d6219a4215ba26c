"""The calendar: fields of dates and timestamps, and what is added to them, in UTC.

Rules compute with a timestamp as microseconds (`epoch_us`, `make_timestamp`). A day-time interval is a number of microseconds already.
DuckDB's calendar is the proleptic Gregorian one, like Spark's.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from base.text.timestamps import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from base.text.type_names import sql_type
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import DURATION, TIMESTAMP, arrow_type
from stepwell.lowering.expressions.fragment import (
    Fragment,
    Rule,
    call,
    cast,
    derive,
    failure,
    literal_value,
    strict,
    unsupported_expression,
)  # fmt: skip

INT, BIGINT, DATE, STRING = pa.int32(), pa.int64(), pa.date32(), pa.string()


def _part(sql: str) -> Rule:
    """The rule of an integer field of a date."""

    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        return derive(cast(sql.format(arguments[0].sql), INT), INT, *arguments)

    return rule


def micros(operand: Fragment) -> str:
    return f"epoch_us({operand.sql})"


def _clock(unit_us: int, count: int) -> Rule:
    """The rule of the hours, minutes or seconds of a timestamp."""

    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        of_day = f"((({micros(arguments[0])} % {DAY_US}) + {DAY_US}) % {DAY_US})"
        return derive(cast(f"({of_day} // {unit_us}) % {count}", INT), INT, *arguments)

    return rule


def _second_with_fraction(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    type_ = pa.decimal128(8, 6)
    rest = f"((({micros(arguments[0])} % {MINUTE_US}) + {MINUTE_US}) % {MINUTE_US})"
    return derive(cast(f"CAST({rest} AS DECIMAL(14,6)) / 1000000", type_), type_, *arguments)


def _add_days(sign: str) -> Rule:
    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        date, count = arguments
        return derive(f"CAST({date.sql} {sign} {cast(count.sql, INT)} AS DATE)", DATE, date, count, raises=True)

    return strict(rule)


def _date_diff(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    end, start = arguments
    return derive(cast(f"{end.sql} - {start.sql}", INT), INT, end, start)


def _subtract_dates(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    end, start = arguments
    return derive(f"(({end.sql} - {start.sql}) * {DAY_US})", DURATION, end, start)


def _subtract_timestamps(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    end, start = arguments
    return derive(f"({micros(end)} - {micros(start)})", DURATION, end, start, raises=True)


def _add_months(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """add_months: a day beyond the end of the new month becomes its last day."""
    date, months = arguments
    return derive(f"CAST({date.sql} + to_months({cast(months.sql, INT)}) AS DATE)", DATE, date, months, raises=True)


def _timestamp_months(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    moment, months = arguments
    return derive(
        f"CAST({moment.sql} + to_months({cast(months.sql, INT)}) AS TIMESTAMP)", moment.type, *arguments, raises=True
    )


def _add_interval(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    moment, interval = arguments
    if interval.type != DURATION:
        raise unsupported_expression(
            node, f"an interval of type {sql_type(interval.type)}", "use INTERVAL ... DAY TO SECOND or months"
        )
    return derive(f"make_timestamp({micros(moment)} + {interval.sql})", moment.type, *arguments, raises=True)


def _last_day(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    return derive(f"CAST(last_day({arguments[0].sql}) AS DATE)", DATE, *arguments)


def _next_day(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    date, name = arguments
    word = str(literal_value(node, name, "the day of week")).lower()
    days = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    found = [i for i, day in enumerate(days) if word in (day, day[:3], day[:2])]
    if not found:
        raise unsupported_expression(node, f"day of week {word!r}", "name a day: MON, TUE, ...")
    # isodow counts from Monday = 1. The next such day is one to seven days away.
    sql = f"CAST({date.sql} + CAST(7 - (isodow({date.sql}) - 1 - {found[0]} + 7) % 7 AS INTEGER) AS DATE)"
    return derive(sql, DATE, date)


_DATE_UNITS = {
    "year": ("YEAR", "YYYY", "YY"), "quarter": ("QUARTER",), "month": ("MONTH", "MON", "MM"), "week": ("WEEK",),
}  # fmt: skip
_TIME_UNITS = {
    **_DATE_UNITS, "day": ("DAY", "DD"), "hour": ("HOUR",), "minute": ("MINUTE",), "second": ("SECOND",), "millisecond": ("MILLISECOND",),
    "microsecond": ("MICROSECOND",),
}  # fmt: skip


def _truncation(operand: Fragment, unit: Any, units: dict[str, tuple[str, ...]]) -> Fragment:
    """Truncates to the start of the unit. The result is null if there is no such unit."""
    target = operand.type
    name = next((name for name, words in units.items() if str(unit).upper() in words), None)
    if name is None or unit is None:
        return derive(cast("NULL", target), target, operand)
    return derive(cast(f"date_trunc('{name}', {operand.sql})", target), target, operand)


def _trunc_date(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    return _truncation(arguments[0], literal_value(node, arguments[1], "the unit"), _DATE_UNITS)


def _trunc_timestamp(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    return _truncation(arguments[1], literal_value(node, arguments[0], "the unit"), _TIME_UNITS)


def _make_date(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    year, month, day = arguments
    bad = failure("DATETIME_FIELD_OUT_OF_BOUNDS", "There is no such date.")
    month_ok = f"{month.sql} BETWEEN 1 AND 12 AND {day.sql} BETWEEN 1 AND 31 AND {year.sql} BETWEEN -290000 AND 290000"
    last = f"day(last_day(make_date({year.sql}, {month.sql}, 1)))"
    whole = " AND ".join(f"{a.sql} IS NOT NULL" for a in arguments)
    made = f"make_date({year.sql}, {month.sql}, {day.sql})"
    checked = f"CASE WHEN {month_ok} THEN CASE WHEN {day.sql} <= {last} THEN {made} ELSE {bad} END ELSE {bad} END"
    return derive(cast(f"CASE WHEN {whole} THEN {checked} END", DATE), DATE, *arguments, raises=True)


def _zone_rule(function: str) -> Rule:
    """The rule of a timestamp that moves between UTC and the clock of a zone."""

    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        return call(function, arguments[0].type, *arguments, raises=True)

    return strict(rule)


def _convert_timezone(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    source, target, moment = arguments
    utc = call("spark_to_utc", moment.type, moment, source, raises=True)
    return call("spark_from_utc", moment.type, utc, target, raises=True)


def _make_timestamp(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """make_timestamp(year, month, day, hour, minute, second[, zone]), where second is a decimal with six digits after the point."""
    *parts, second = arguments[:6]
    type_ = arrow_type(node["dataType"]) if node.get("dataType") else TIMESTAMP
    second_us = f"CAST(CAST({second.sql} AS DECIMAL(38,6)) * 1000000 AS BIGINT)"
    made = call("spark_make_time", type_, *parts, derive(second_us, BIGINT, second), raises=True)
    if len(arguments) == 7:
        made = call("spark_to_utc", type_, made, arguments[6], raises=True)
    return made


_UNITS_US = {
    "MICROSECOND": 1, "MILLISECOND": 1000, "SECOND": SECOND_US, "MINUTE": MINUTE_US, "HOUR": HOUR_US,
    "DAY": DAY_US, "DAYOFYEAR": DAY_US, "WEEK": 7 * DAY_US,
}  # fmt: skip
_UNITS_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def _timestamp_add(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    count, moment = arguments
    unit = str(node["unit"]).upper()
    if (step := _UNITS_US.get(unit)) is not None:
        sql = f"make_timestamp({micros(moment)} + {cast(count.sql, BIGINT)} * {step})"
        return derive(sql, moment.type, *arguments, raises=True)
    if (months := _UNITS_MONTHS.get(unit)) is None:
        raise unsupported_expression(node, f"unit {unit}")
    sql = f"CAST({moment.sql} + to_months(CAST({count.sql} * {months} AS INTEGER)) AS TIMESTAMP)"
    return derive(sql, moment.type, *arguments, raises=True)


def _timestamp_diff(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    start, end = arguments
    unit = str(node["unit"]).upper()
    if (months := _UNITS_MONTHS.get(unit)) is not None:
        whole = call("spark_whole_months", BIGINT, start, end)
        return whole if months == 1 else derive(f"({whole.sql} // {months})", BIGINT, whole)
    if (step := _UNITS_US.get(unit)) is None:
        raise unsupported_expression(node, f"difference in unit {unit}")
    return derive(f"(({micros(end)} - {micros(start)}) // {step})", BIGINT, *arguments, raises=True)


def _months_between(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    return call("spark_months_between", pa.float64(), *arguments)


TABLE: dict[str, Rule] = {
    "Year": _part("year({})"),
    "Quarter": _part("quarter({})"),
    "Month": _part("month({})"),
    "DayOfMonth": _part("day({})"),
    "DayOfWeek": _part("dayofweek({}) + 1"),
    "WeekDay": _part("isodow({}) - 1"),
    "DayOfYear": _part("dayofyear({})"),
    "WeekOfYear": _part("week({})"),
    "YearOfWeek": _part("isoyear({})"),
    "Hour": _clock(HOUR_US, 24),
    "Minute": _clock(MINUTE_US, 60),
    "Second": _clock(SECOND_US, 60),
    "SecondWithFraction": _second_with_fraction,
    "DateAdd": _add_days("+"),
    "DateSub": _add_days("-"),
    "DateDiff": strict(_date_diff),
    "SubtractDates": strict(_subtract_dates),
    "SubtractTimestamps": strict(_subtract_timestamps),
    "AddMonths": strict(_add_months),
    "DateAddYMInterval": strict(_add_months),
    "TimestampAddYMInterval": strict(_timestamp_months),
    "TimestampAddInterval": strict(_add_interval),
    "LastDay": _last_day,
    "NextDay": strict(_next_day),
    "TruncDate": strict(_trunc_date),
    "TruncTimestamp": strict(_trunc_timestamp),
    "MakeDate": _make_date,
    "MakeTimestamp": strict(_make_timestamp),
    "FromUTCTimestamp": _zone_rule("spark_from_utc"),
    "ToUTCTimestamp": _zone_rule("spark_to_utc"),
    "ConvertTimezone": strict(_convert_timezone),
    "TimestampAdd": strict(_timestamp_add),
    "TimestampDiff": strict(_timestamp_diff),
    "MonthsBetween": strict(_months_between),
}
