"""Dates, timestamps and intervals, in UTC.

Rules compute with a timestamp as microseconds (`epoch_us`, `make_timestamp`). A day-time interval is a number of microseconds already.
DuckDB's calendar is the proleptic Gregorian one, like Spark's.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from base.text import patterns
from base.text.timestamps import DAY_US, SECOND_US
from engine.expressions.functions import Failure, times
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import DURATION, TIMESTAMP, arrow_type
from stepwell.lowering.expressions.fragment import (
    Fragment,
    Rule,
    call,
    cast,
    derive,
    failure,
    floor_divide,
    literal_value,
    strict,
    text,
    unsupported,
)  # fmt: skip

INT, BIGINT, DATE, STRING = pa.int32(), pa.int64(), pa.date32(), pa.string()
MINUTE_US, HOUR_US = 60 * SECOND_US, 3600 * SECOND_US


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
        raise unsupported(node, f"an interval of type {interval.type}", "use INTERVAL ... DAY TO SECOND or months")
    return derive(f"make_timestamp({micros(moment)} + {interval.sql})", moment.type, *arguments, raises=True)


def _last_day(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    return derive(f"CAST(last_day({arguments[0].sql}) AS DATE)", DATE, *arguments)


def _next_day(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    date, name = arguments
    word = str(literal_value(node, name, "the day of week")).lower()
    days = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    found = [i for i, day in enumerate(days) if word in (day, day[:3], day[:2])]
    if not found:
        raise unsupported(node, f"day of week {word!r}", "name a day: MON, TUE, ...")
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


def _pattern(node: TreeNode, operand: Fragment, reading: bool) -> str | None:
    """A datetime pattern. It is parsed here, so that `dry-run` refuses one that is not supported."""
    pattern = literal_value(node, operand, "the pattern")
    if pattern is None:
        return None
    try:
        (times.parser if reading else times.formatter)(pattern)
    except Failure as error:
        raise unsupported(node, str(error), "write a pattern of the common fields") from error
    return str(pattern)


# Fields that DuckDB's strftime writes as Java does in the years from 1 to 9999.
_STRFTIME = {
    "yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "hh": "%I", "mm": "%M", "ss": "%S", "MMM": "%b", "MMMM": "%B", "EEE": "%a", "E": "%a",
    "EEEE": "%A", "SSSSSS": "%f", "SSS": "%g", "a": "%p",
}  # fmt: skip


def _strftime(pattern: str) -> str | None:
    """The pattern in DuckDB's form; None if one of its fields has none."""
    out = []
    for part in patterns.parts_of(pattern):
        match part:
            case patterns.Text(written):
                out.append(written.replace("%", "%%"))
            case patterns.Field(letter, count) if letter * count in _STRFTIME:
                out.append(_STRFTIME[letter * count])
            case _:
                return None
    return "".join(out)


def _date_format(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    pattern = _pattern(node, arguments[1], reading=False)
    moment = arguments[0]
    if pattern is None or (quick := _strftime(pattern)) is None:
        return call("spark_date_format", STRING, *arguments)
    common = f"{moment.sql} >= TIMESTAMP '0001-01-01' AND {moment.sql} < TIMESTAMP '9999-12-31'"
    exact = f"spark_date_format({moment.sql}, {arguments[1].sql})"
    return derive(
        f"(CASE WHEN {common} THEN strftime({moment.sql}, {text(quick)}) ELSE {exact} END)", STRING, *arguments
    )


def _from_unix_time(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    seconds, pattern = arguments
    _pattern(node, pattern, reading=False)
    # Spark multiplies without a check, so the product wraps at 64 bits.
    shifted = f"(({seconds.sql})::HUGEINT * {SECOND_US}::HUGEINT + {1 << 63}::HUGEINT)"
    range_ = f"{1 << 64}::HUGEINT"
    moment = f"make_timestamp(CAST(({shifted} % {range_} + {range_}) % {range_} - {1 << 63}::HUGEINT AS BIGINT))"
    return call("spark_date_format", STRING, moment, pattern, raises=True) if not seconds.raises else derive(
        f"spark_date_format({moment}, {pattern.sql})", STRING, *arguments, raises=True
    )  # fmt: skip


def _get_timestamp(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    written, pattern = arguments
    _pattern(node, pattern, reading=True)
    return call("spark_parse_timestamp", arrow_type(node["dataType"]), written, pattern, raises=True)


def _unix_timestamp(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """Seconds since 1970, rounded toward 1970."""
    operand, pattern = arguments
    if pa.types.is_string(operand.type):
        if not node.get("failOnError", True):
            raise unsupported(node, "a try_ function", "guard with CASE")
        _pattern(node, pattern, reading=True)
        parsed = f"epoch_us(spark_parse_timestamp({operand.sql}, {pattern.sql}))"
        return derive(f"({parsed} // {SECOND_US})", BIGINT, *arguments, raises=True)
    if pa.types.is_date(operand.type):
        return derive(f"(({operand.sql} - DATE '1970-01-01') * 86400)", BIGINT, operand)
    return derive(f"({micros(operand)} // {SECOND_US})", BIGINT, operand)


def _from_fractions(operand: Fragment, unit_us: int) -> Fragment:
    """timestamp_seconds of decimals, which must be whole microseconds, and of doubles, which are cut."""
    if pa.types.is_decimal(operand.type):
        return derive(f"spark_seconds_of_decimal({operand.sql}::VARCHAR, {unit_us})", TIMESTAMP, operand, raises=True)
    return derive(f"spark_seconds_of_double({operand.sql}::DOUBLE, {unit_us})", TIMESTAMP, operand)


def _from_units(unit_us: int) -> Rule:
    """The rule of timestamp_seconds, timestamp_millis or timestamp_micros. The last two take integers alone."""

    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        operand = arguments[0]
        if not pa.types.is_integer(operand.type):
            return _from_fractions(operand, unit_us)
        units = cast(operand.sql, BIGINT)
        made = f"make_timestamp({units} * {unit_us})"
        if unit_us > 1:  # else each number is a timestamp
            last = ((1 << 63) - 1) // unit_us
            fault = "error('[DATETIME_OVERFLOW] the number is beyond the last timestamp')"
            made = f"CASE WHEN {units} NOT BETWEEN {-last} AND {last} THEN {cast(fault, TIMESTAMP)} ELSE {made} END"
        return derive(made, TIMESTAMP, operand, raises=True)

    return rule


def _to_units(unit_us: int) -> Rule:
    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        value = micros(arguments[0])
        return derive(value if unit_us == 1 else floor_divide(value, unit_us), BIGINT, *arguments)

    return rule


def _unix_date(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    return derive(cast(f"{arguments[0].sql} - DATE '1970-01-01'", INT), INT, *arguments)


def _date_of_days(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    return derive(f"CAST(DATE '1970-01-01' + {arguments[0].sql} AS DATE)", DATE, *arguments, raises=True)


def _make_date(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    year, month, day = arguments
    bad = failure("DATETIME_FIELD_OUT_OF_BOUNDS", "There is no such date.")
    month_ok = f"{month.sql} BETWEEN 1 AND 12 AND {day.sql} BETWEEN 1 AND 31 AND {year.sql} BETWEEN -290000 AND 290000"
    last = f"day(last_day(make_date({year.sql}, {month.sql}, 1)))"
    whole = " AND ".join(f"{a.sql} IS NOT NULL" for a in arguments)
    made = f"make_date({year.sql}, {month.sql}, {day.sql})"
    checked = f"CASE WHEN {month_ok} THEN CASE WHEN {day.sql} <= {last} THEN {made} ELSE {bad} END ELSE {bad} END"
    return derive(cast(f"CASE WHEN {whole} THEN {checked} END", DATE), DATE, *arguments, raises=True)


def _moved(function: str) -> Rule:
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


def _make_interval(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """make_dt_interval(days, hours, mins, secs), where secs is a decimal with six digits after the point."""
    days, hours, minutes, seconds = arguments
    parts = [
        f"{days.sql}::HUGEINT * {DAY_US}",
        f"{hours.sql}::HUGEINT * {HOUR_US}",
        f"{minutes.sql}::HUGEINT * {MINUTE_US}",
    ]
    total = " + ".join(parts) + f" + CAST(CAST({seconds.sql} AS DECIMAL(38,6)) * 1000000 AS HUGEINT)"
    bad = failure("INTERVAL_ARITHMETIC_OVERFLOW", "The interval overflows.")
    fits = f"({total}) BETWEEN {-(1 << 63)}::HUGEINT AND {(1 << 63) - 1}::HUGEINT"
    sql = f"CASE WHEN {fits} OR ({total}) IS NULL THEN {total} ELSE {bad} END"
    return derive(cast(sql, DURATION), DURATION, *arguments, raises=True)


def _multiply_interval(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    interval, factor = arguments
    if not pa.types.is_integer(factor.type):
        raise unsupported(node, f"an interval times {factor.type}", "multiply by an integer")
    return derive(f"({interval.sql} * {cast(factor.sql, BIGINT)})", DURATION, *arguments, raises=True)


def _divide_interval(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """An interval divided by a number, rounded half up, away from zero."""
    interval, divisor = arguments
    if not pa.types.is_integer(divisor.type):
        raise unsupported(node, f"an interval over {divisor.type}", "divide by an integer")
    zero = failure("INTERVAL_DIVIDED_BY_ZERO", "Division by zero.")
    top, bottom = f"abs({interval.sql}::HUGEINT)", f"abs({divisor.sql}::HUGEINT)"
    sign = f"CASE WHEN ({interval.sql} < 0) <> ({divisor.sql} < 0) THEN -1 ELSE 1 END"
    value = f"({sign}) * ((2 * {top} + {bottom}) // (2 * {bottom}))"
    guard = f"CASE WHEN {divisor.sql} = 0 THEN CASE WHEN {interval.sql} IS NOT NULL THEN {zero} END ELSE {value} END"
    return derive(cast(guard, DURATION), DURATION, *arguments, raises=True)


def _interval_part(unit_us: int, modulus: int | None, type_: pa.DataType) -> Rule:
    """The rule of the days, hours or minutes of a day-time interval. The result is an integer with the interval's sign."""

    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        whole = f"({arguments[0].sql} // {unit_us})"
        return derive(cast(whole if modulus is None else f"{whole} % {modulus}", type_), type_, *arguments)

    return rule


def _interval_seconds(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    type_ = pa.decimal128(8, 6)
    return derive(cast(f"CAST({arguments[0].sql} % {MINUTE_US} AS DECIMAL(14,6)) / 1000000", type_), type_, *arguments)


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
        raise unsupported(node, f"unit {unit}")
    sql = f"CAST({moment.sql} + to_months(CAST({count.sql} * {months} AS INTEGER)) AS TIMESTAMP)"
    return derive(sql, moment.type, *arguments, raises=True)


def _timestamp_diff(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    start, end = arguments
    unit = str(node["unit"]).upper()
    if (step := _UNITS_US.get(unit)) is None:
        raise unsupported(node, f"difference in unit {unit}", "use months_between")
    return derive(f"(({micros(end)} - {micros(start)}) // {step})", BIGINT, *arguments, raises=True)


def _months_between(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    return call("spark_months_between", pa.float64(), *arguments)


def _precise(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """The conversions that `window` adds: from a timestamp to microseconds, and back."""
    operand = arguments[0]
    target = arrow_type(node["toType"])
    if pa.types.is_int64(target):
        return derive(micros(operand), BIGINT, operand)
    return derive(f"make_timestamp({operand.sql})", target, operand)


def _name(names: str) -> Rule:
    """The rule of a month's or day's name, cut to three letters."""

    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        return derive(f"strftime({arguments[0].sql}, {text(names)})", STRING, *arguments)

    return rule


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
    "DayName": _name("%a"),
    "MonthName": _name("%b"),
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
    "DateFormatClass": strict(_date_format),
    "FromUnixTime": strict(_from_unix_time),
    "GetTimestamp": strict(_get_timestamp),
    "UnixTimestamp": strict(_unix_timestamp),
    "ToUnixTimestamp": strict(_unix_timestamp),
    "SecondsToTimestamp": _from_units(SECOND_US),
    "MillisToTimestamp": _from_units(1000),
    "MicrosToTimestamp": _from_units(1),
    "UnixSeconds": _to_units(SECOND_US),
    "UnixMillis": _to_units(1000),
    "UnixMicros": _to_units(1),
    "UnixDate": _unix_date,
    "DateFromUnixDate": _date_of_days,
    "MakeDate": _make_date,
    "MakeTimestamp": strict(_make_timestamp),
    "FromUTCTimestamp": _moved("spark_from_utc"),
    "ToUTCTimestamp": _moved("spark_to_utc"),
    "ConvertTimezone": strict(_convert_timezone),
    "MakeDTInterval": strict(_make_interval),
    "MultiplyDTInterval": strict(_multiply_interval),
    "DivideDTInterval": strict(_divide_interval),
    "ExtractANSIIntervalDays": _interval_part(DAY_US, None, INT),
    "ExtractANSIIntervalHours": _interval_part(HOUR_US, 24, pa.int8()),
    "ExtractANSIIntervalMinutes": _interval_part(MINUTE_US, 60, pa.int8()),
    "ExtractANSIIntervalSeconds": _interval_seconds,
    "TimestampAdd": strict(_timestamp_add),
    "TimestampDiff": strict(_timestamp_diff),
    "MonthsBetween": strict(_months_between),
    "PreciseTimestampConversion": _precise,
}
