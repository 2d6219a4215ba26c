"""Dates and timestamps as texts and as numbers since 1970, in UTC."""

from __future__ import annotations

import pyarrow as pa

from base.text import patterns
from base.text.timestamps import SECOND_US
from engine.expressions.functions import Failure, times
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import TIMESTAMP, arrow_type
from stepwell.lowering.expressions.dates import BIGINT, DATE, INT, STRING, micros
from stepwell.lowering.expressions.fragment import (
    Fragment,
    Rule,
    call,
    cast,
    derive,
    floor_divide,
    literal_value,
    strict,
    text,
    unsupported_expression,
)


def _pattern(node: TreeNode, operand: Fragment, reading: bool) -> str | None:
    """A datetime pattern. It is parsed here, so that `dry-run` refuses one that is not supported."""
    pattern = literal_value(node, operand, "the pattern")
    if pattern is None:
        return None
    try:
        (times.parser if reading else times.formatter)(pattern)
    except Failure as error:
        raise unsupported_expression(node, str(error), "write a pattern of the common fields") from error
    return str(pattern)


# Fields that DuckDB's strftime writes as Java does in the years from 1 to 9999.
_STRFTIME = {
    "yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "hh": "%I", "mm": "%M", "ss": "%S", "MMM": "%b", "MMMM": "%B", "EEE": "%a", "E": "%a",
    "EEEE": "%A", "SSSSSS": "%f", "SSS": "%g", "a": "%p",
}  # fmt: skip


def _strftime(pattern: str) -> str | None:
    """The pattern in DuckDB's form; None if one of its fields has none, and if there is nothing to write, which DuckDB refuses."""
    out = []
    for part in patterns.parts_of(pattern):
        match part:
            case patterns.LiteralText(written):
                out.append(written.replace("%", "%%"))
            case patterns.PatternField(letter, count) if letter * count in _STRFTIME:
                out.append(_STRFTIME[letter * count])
            case _:
                return None
    return "".join(out) or None


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
    if not pa.types.is_string(written.type):  # a date or a timestamp, for which Spark ignores the pattern, also a NULL
        return derive(cast(written.sql, TIMESTAMP), arrow_type(node["dataType"]), written)
    _pattern(node, pattern, reading=True)
    return call("spark_parse_timestamp", arrow_type(node["dataType"]), written, pattern, raises=True)


def _unix_timestamp(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """Seconds since 1970, rounded toward 1970."""
    operand, pattern = arguments
    if pa.types.is_string(operand.type):
        if not node.get("failOnError", True):
            raise unsupported_expression(node, "a try_ function", "guard with CASE")
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
    "DayName": _name("%a"),
    "MonthName": _name("%b"),
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
    "PreciseTimestampConversion": _precise,
}
