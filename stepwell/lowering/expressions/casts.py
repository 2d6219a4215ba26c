"""Casts as in Spark's ANSI mode. `_RULES` is indexed by the kinds of the two types. A cast that is not in it is refused by Spark's analyser
or by Stepwell.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow as pa

from base.text.months import is_months
from base.text.timestamps import SECOND_US
from base.text.type_names import sql_type
from base.text.variants import VARIANT
from engine.expressions.types import duck_type
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import DURATION, expression_type, last_unit, narrow_interval
from stepwell.lowering.expressions import intervals
from stepwell.lowering.expressions.day_time_intervals import narrow_interval_within, to_string, truncate
from stepwell.lowering.expressions.fragment import (
    NUMBER_OF_INTERVAL,
    Fragment,
    Rule,
    call,
    cast,
    convert_parts,
    derive,
    failure,
    floor_divide,
    unsupported_expression,
)
from stepwell.lowering.expressions.variants import cast_to_variant, cast_variant

EXACT_DIGITS_MAX = 15  # such a decimal is the quotient of two exact doubles, which is rounded once
SECONDS_MAX = ((1 << 63) - 1) // SECOND_US  # beyond this, Spark's conversion of seconds saturates


def kind(type_: pa.DataType) -> str:
    if pa.types.is_integer(type_):
        return "integer"
    if pa.types.is_floating(type_):
        return "float"
    if pa.types.is_timestamp(type_):
        return "timestamp" if type_.tz else "local"
    if is_months(type_):
        return "months"
    for name in ("decimal", "string", "binary", "boolean", "date", "duration", "null"):
        if getattr(pa.types, f"is_{name}")(type_):
            return name
    return str(type_)


def overflow(source: pa.DataType, target: pa.DataType) -> str:
    return failure("CAST_OVERFLOW", f"A value of {duck_type(source)} does not fit {duck_type(target)}.")


def _plain(operand: Fragment, target: pa.DataType) -> Fragment:
    return derive(cast(operand.sql, target), target, operand)


def _integer_integer(operand: Fragment, target: pa.DataType) -> Fragment:
    if target.bit_width >= operand.type.bit_width:
        return _plain(operand, target)
    top = 1 << (target.bit_width - 1)
    sql = f"CASE WHEN {operand.sql} < {-top} OR {operand.sql} >= {top} THEN {overflow(operand.type, target)} ELSE {operand.sql} END"
    return derive(cast(sql, target), target, operand, raises=True)


def _float_integer(operand: Fragment, target: pa.DataType) -> Fragment:
    """Rounds toward zero. The floor and the ceiling of the value must both fit. 2^63 itself passes Spark's test, and saturates."""
    top = 1 << (target.bit_width - 1)
    value = cast(operand.sql, pa.float64())
    least, most = float(-top), float(top if target.bit_width == 64 else top - 1)
    fits = f"floor({value}) <= {most!r}::DOUBLE AND ceil({value}) >= {least!r}::DOUBLE"
    inside = cast(f"trunc({value})", target)
    if target.bit_width == 64:
        inside = f"CASE WHEN {value} >= {most!r}::DOUBLE THEN {top - 1} ELSE {inside} END"
    sql = f"CASE WHEN {value} IS NULL THEN NULL WHEN {fits} THEN {inside} ELSE {overflow(operand.type, target)} END"
    return derive(cast(sql, target), target, operand, raises=True)


def _float_float(operand: Fragment, target: pa.DataType) -> Fragment:
    if pa.types.is_float32(target) and pa.types.is_float64(operand.type):
        return call("spark_single", target, operand)
    return _plain(operand, target)


def _decimal_integer(operand: Fragment, target: pa.DataType) -> Fragment:
    """Rounds toward zero."""
    top = 1 << (target.bit_width - 1)
    whole = f"CAST(CASE WHEN {operand.sql} < 0 THEN ceil({operand.sql}) ELSE floor({operand.sql}) END AS HUGEINT)"
    if operand.type.scale == 0:
        whole = f"CAST({operand.sql} AS HUGEINT)"
    sql = f"CASE WHEN {whole} < {-top}::HUGEINT OR {whole} >= {top}::HUGEINT THEN {overflow(operand.type, target)} ELSE {whole} END"
    if operand.type.precision - operand.type.scale < len(str(top)):
        sql = whole
    return derive(cast(sql, target), target, operand, raises=True)


def _decimal_float(operand: Fragment, target: pa.DataType) -> Fragment:
    if operand.type.precision <= EXACT_DIGITS_MAX and pa.types.is_float64(target):
        return _plain(operand, target)
    return derive(cast(f"{operand.sql}::VARCHAR", target), target, operand)


def _decimal_string(operand: Fragment, target: pa.DataType) -> Fragment:
    """Adds the zero before the point, which DuckDB omits where the type has no digits there."""
    written = f"CAST({operand.sql} AS VARCHAR)"
    if operand.type.precision == operand.type.scale:
        written = f"replace({written}, '.', '0.')"
    return derive(written, target, operand)


def _to_decimal(operand: Fragment, target: pa.DataType) -> Fragment:
    return derive(cast(operand.sql, target), target, operand, raises=True)


def _float_decimal(operand: Fragment, target: pa.DataType) -> Fragment:
    read = f"spark_double_decimal({cast(operand.sql, pa.float64())}, {target.precision}, {target.scale})"
    return derive(cast(read, target), target, operand, raises=True)


def _boolean_of(operand: Fragment, target: pa.DataType) -> Fragment:
    return derive(f"({operand.sql} <> 0)", target, operand)


def _string_integer(operand: Fragment, target: pa.DataType) -> Fragment:
    return derive(cast(f"spark_read_integer({operand.sql}, {target.bit_width})", target), target, operand, raises=True)


def _string_float(operand: Fragment, target: pa.DataType) -> Fragment:
    return call(
        "spark_read_single" if pa.types.is_float32(target) else "spark_read_double", target, operand, raises=True
    )


def _string_decimal(operand: Fragment, target: pa.DataType) -> Fragment:
    read = f"spark_read_decimal({operand.sql}, {target.precision}, {target.scale})"
    return derive(cast(read, target), target, operand, raises=True)


def _by(function: str, raises: bool = False) -> Callable[[Fragment, pa.DataType], Fragment]:
    return lambda operand, target: call(function, target, operand, raises=raises)


def _float_string(operand: Fragment, target: pa.DataType) -> Fragment:
    """Uses DuckDB's text of a double where Java writes no exponent, because the two are equal there."""
    if pa.types.is_float32(operand.type):
        return call("spark_write_single", target, operand)
    plain = f"abs({operand.sql}) >= 1e-3::DOUBLE AND abs({operand.sql}) < 1e7::DOUBLE"
    return _usually(plain, f"CAST({operand.sql} AS VARCHAR)", "spark_write_double", operand)


def _usually(condition: str, quick: str, function: str, operand: Fragment) -> Fragment:
    """DuckDB's own text where it equals Spark's, and otherwise that of Stepwell's function."""
    return derive(f"(CASE WHEN {condition} THEN {quick} ELSE {function}({operand.sql}) END)", pa.string(), operand)


def _moment_string(function: str, type_: str) -> Callable[[Fragment, pa.DataType], Fragment]:
    """The rule of a cast from a date or timestamp to text. DuckDB writes the years from 1 to 9999 as Spark does."""
    first, end = f"{type_} '0001-01-01'", f"{type_} '9999-12-31'"
    return lambda operand, target: _usually(
        f"{operand.sql} >= {first} AND {operand.sql} < {end}", f"CAST({operand.sql} AS VARCHAR)", function, operand
    )


def _date_timestamp(operand: Fragment, target: pa.DataType) -> Fragment:
    return derive(f"CAST({operand.sql} AS TIMESTAMP)", target, operand, raises=True)


def _timestamp_date(operand: Fragment, target: pa.DataType) -> Fragment:
    return derive(f"CAST({operand.sql} AS DATE)", target, operand)


def _same(operand: Fragment, target: pa.DataType) -> Fragment:
    """Keeps the number: in UTC it is the same for a timestamp with a zone and for one without."""
    return derive(operand.sql, target, operand)


def _seconds_timestamp(operand: Fragment, target: pa.DataType) -> Fragment:
    seconds = cast(operand.sql, pa.int64())
    if not pa.types.is_int64(operand.type):
        return derive(f"make_timestamp({cast(f'{seconds} * {SECOND_US}', pa.int64())})", target, operand)
    micros = f"CASE WHEN {seconds} < {-SECONDS_MAX} THEN {-(1 << 63)} WHEN {seconds} <= {SECONDS_MAX} THEN {seconds} * {SECOND_US} END"
    # DuckDB's infinity has the bits of the last microsecond, which make_timestamp refuses.
    last = f"WHEN {seconds} > {SECONDS_MAX} THEN CAST('infinity' AS TIMESTAMP)"
    return derive(f"CASE {last} ELSE make_timestamp({cast(micros, pa.int64())}) END", target, operand)


def _float_timestamp(operand: Fragment, target: pa.DataType) -> Fragment:
    value = cast(operand.sql, pa.float64())
    bad = failure("CAST_INVALID_INPUT", "NaN and infinities are no timestamps.")
    micros = f"{value} * {SECOND_US}::DOUBLE"
    top = float(1 << 63)
    whole = f"CASE WHEN abs({micros}) >= {top!r}::DOUBLE THEN {overflow(operand.type, target)} ELSE CAST(trunc({micros}) AS BIGINT) END"
    sql = f"CASE WHEN isnan({value}) OR isinf({value}) THEN {bad} ELSE {whole} END"
    return derive(f"make_timestamp({cast(sql, pa.int64())})", target, operand, raises=True)


def _timestamp_integer(operand: Fragment, target: pa.DataType) -> Fragment:
    seconds = Fragment(floor_divide(f"epoch_us({operand.sql})", SECOND_US), pa.int64(), operand.raises)
    return seconds if pa.types.is_int64(target) else _integer_integer(seconds, target)


def _timestamp_float(operand: Fragment, target: pa.DataType) -> Fragment:
    sql = f"(CAST(epoch_us({operand.sql}) AS DOUBLE) / {SECOND_US}::DOUBLE)"
    return _float_float(Fragment(sql, pa.float64(), operand.raises), target)


_RULES: dict[tuple[str, str], Callable[[Fragment, pa.DataType], Fragment]] = {
    ("integer", "integer"): _integer_integer,
    ("integer", "float"): _plain,
    ("integer", "decimal"): _to_decimal,
    ("integer", "boolean"): _boolean_of,
    ("integer", "string"): _plain,
    ("integer", "timestamp"): _seconds_timestamp,
    ("float", "integer"): _float_integer,
    ("float", "float"): _float_float,
    ("float", "decimal"): _float_decimal,
    ("float", "boolean"): _boolean_of,
    ("float", "string"): _float_string,
    ("float", "timestamp"): _float_timestamp,
    ("decimal", "integer"): _decimal_integer,
    ("decimal", "float"): _decimal_float,
    ("decimal", "decimal"): _to_decimal,
    ("decimal", "boolean"): _boolean_of,
    ("decimal", "string"): _decimal_string,
    ("boolean", "integer"): _plain,
    ("boolean", "float"): _plain,
    ("boolean", "decimal"): lambda operand, target: _to_decimal(_plain(operand, pa.int32()), target),
    ("boolean", "string"): _plain,
    ("string", "integer"): _string_integer,
    ("string", "float"): _string_float,
    ("string", "decimal"): _string_decimal,
    ("string", "boolean"): _by("spark_read_boolean", raises=True),
    ("string", "date"): _by("spark_read_date", raises=True),
    ("string", "timestamp"): _by("spark_read_timestamp", raises=True),
    ("string", "local"): _by("spark_read_local", raises=True),
    ("string", "binary"): _by("encode"),
    ("binary", "string"): _by("spark_decode"),
    ("date", "string"): _moment_string("spark_write_date", "DATE"),
    ("date", "timestamp"): _date_timestamp,
    ("date", "local"): _date_timestamp,
    ("timestamp", "string"): _moment_string("spark_write_timestamp", "TIMESTAMP"),
    ("local", "string"): _moment_string("spark_write_timestamp", "TIMESTAMP"),
    ("timestamp", "date"): _timestamp_date,
    ("local", "date"): _timestamp_date,
    ("timestamp", "local"): _same,
    ("local", "timestamp"): _same,
    ("timestamp", "integer"): _timestamp_integer,
    ("timestamp", "float"): _timestamp_float,
    ("integer", "months"): lambda operand, target: intervals.of_integer(
        operand, target, overflow(operand.type, target)
    ),
    ("months", "integer"): lambda operand, target: _integer_integer(intervals.to_integer(operand), target),
    ("months", "decimal"): lambda operand, target: _to_decimal(intervals.to_integer(operand), target),
    ("months", "months"): intervals.to_interval,
    ("months", "string"): intervals.to_string,
    ("duration", "string"): to_string,
    ("string", "months"): intervals.of_string,
}


def convert(node: TreeNode, operand: Fragment, target: pa.DataType) -> Fragment:
    if operand.type == target:
        return operand
    if pa.types.is_null(operand.type):
        return _plain(operand, target)
    if operand.type == VARIANT:
        return cast_variant(operand, target, node.get("evalMode") != "TRY")
    if target == VARIANT:
        return cast_to_variant(node, operand)
    by_parts = convert_parts(operand, target, partial(convert, node))
    if by_parts is not None:
        return by_parts
    rule = _RULES.get((kind(operand.type), kind(target)))
    narrow = narrow_interval_within(node.children[0]) if operand.type == DURATION else None
    if rule is not None and narrow is None:
        return rule(operand, target)
    written = narrow.upper() if narrow is not None else sql_type(operand.type)
    advice = "cast it AS INTERVAL DAY TO SECOND first" if rule is not None else _way_out(operand.type, target)
    raise unsupported_expression(node, f"{written} to {_target_text(node, target)}", advice)


def as_text(operand: Fragment) -> Fragment:
    """What Spark's cast to STRING gives of a value without parts, other than an interval or a BINARY."""
    return operand if operand.type == pa.string() else _RULES[kind(operand.type), "string"](operand, pa.string())


def _target_text(node: TreeNode, target: pa.DataType) -> str:
    narrow = narrow_interval(node["dataType"]) if target == DURATION else None
    return sql_type(target) if narrow is None else narrow.upper()


def _way_out(source: pa.DataType, target: pa.DataType) -> str:
    if pa.types.is_nested(source) and target == pa.string():
        return "use to_json, which writes a struct, an array or a map as text"
    if pa.types.is_duration(source) and not is_months(source):
        return NUMBER_OF_INTERVAL
    if pa.types.is_map(source) and pa.types.is_map(target) and source.key_type != target.key_type:
        return (
            "keys of maps are not cast. If it is cast for the sake of what stands beside it, such as a key that is looked for, write that with "
            f"the type {sql_type(source.key_type)}; otherwise use transform_keys"
        )
    if is_months(target):
        return "cast it to INT first"
    if pa.types.is_duration(target):
        return "use make_dt_interval(days, hours, minutes, seconds)"
    if pa.types.is_timestamp(target):
        return "use timestamp_micros(CAST(x * 1000000 AS BIGINT))"
    return "use unix_micros(x)" if pa.types.is_timestamp(source) else "cast in the producer, or by way of another type"


def _cast(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    target = node["dataType"]
    made = convert(node, arguments[0], expression_type(target))
    unit = last_unit(target)
    if unit is not None:
        return truncate(made, unit)
    if narrow_interval(target) is not None and made is arguments[0]:
        raise unsupported_expression(
            node, f"intervals within {sql_type(made.type)}", "cast the intervals before they are put together"
        )
    return made


TABLE: dict[str, Rule] = {"Cast": _cast}
