# ruff: noqa: E501 (tables of cases read better in long lines)
"""Year-month intervals: made, cast, written, read and computed with as in Spark."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from base.text.months import MONTH, YEAR, YEAR_TO_MONTH, months_value
from tests.sampling import sampled
from tests.stepwell.expressions.harness import Oracle

MONTHS, YEARS, BOTH = "cast(i as interval month)", "cast(sh as interval year)", "make_ym_interval(sh, b)"
CASES = [
    "make_ym_interval(i, j)", "make_ym_interval(k)", BOTH, MONTHS, YEARS, "cast(i as interval year)", "cast(l as interval month)", "cast(b as interval year to month)",
    *(f"cast({x} as {t})" for x in (MONTHS, YEARS, BOTH)
        for t in ("interval year", "interval month", "interval year to month", "string", "int", "tinyint", "bigint")),
    f"cast({MONTHS} as decimal(12,2))", f"cast({YEARS} as decimal(3,1))", "cast(num as interval month)", "cast(num as interval year)", "cast(num as interval year to month)", "cast(mom as interval year to month)",
    f"cast(cast({BOTH} as string) as interval year to month)", "cast(concat(i, '-', abs(b)) as interval year to month)",
    f"{MONTHS} + {BOTH}", f"{MONTHS} - {MONTHS}", f"{MONTHS} + interval '1' month", f"{MONTHS} - interval '2147483647' month", f"{YEARS} - {YEARS}", f"-{MONTHS}", f"-{YEARS}", f"abs({MONTHS})", f"abs({BOTH})",
    *(f"{x} * {n}" for x in (MONTHS, BOTH) for n in ("k", "i", "l", "b", "1.5", "m", "w", "d", "f")),
    *(f"{x} / {n}" for x in (MONTHS, BOTH) for n in ("k", "i", "l", "b", "1.5", "m", "w", "d", "f", "0")),
    f"{MONTHS} < {BOTH}", f"{MONTHS} = cast(j as interval month)", f"{YEARS} <=> {MONTHS}", f"greatest({MONTHS}, {BOTH})", f"least({YEARS}, {MONTHS})",
    f"{MONTHS} IN (interval '1' month, interval '100' month)", f"coalesce({MONTHS}, interval '7' month)", f"if(o, {MONTHS}, {YEARS})", f"extract(month FROM {MONTHS})", f"extract(year FROM {BOTH})",
    f"dt + {YEARS}", "dt - cast(b as interval month)", "ts + cast(b as interval month)", f"nt - {BOTH}", f"try_add({MONTHS}, interval '1' month)", f"to_json(named_struct('x', {MONTHS}, 'y', {YEARS}, 'z', array({BOTH}), 'n', {MONTHS} + null))",
    f"array({MONTHS}, interval '1' month)", f"named_struct('x', {BOTH})", f"sort_array(array({MONTHS}, cast(j as interval month)))", f"array_max(array({MONTHS}, cast(j as interval month)))", f"map('a', {BOTH})", f"extract(year FROM {YEARS})",
    "from_json(concat('{\"x\":\"', num, '\"}'), 'x interval month')", "from_json('{\"x\":\"1-2\"}', 'x interval year to month')",
    f"{MONTHS} div cast(j as interval month)", f"{BOTH} div {YEARS}", f"{MONTHS} div interval '-1' month", f"{MONTHS} div interval '0' month", f"signum({MONTHS})", f"sign({BOTH})",
    f"width_bucket({MONTHS}, interval '-2' year, interval '3' year, 7)", f"width_bucket({BOTH}, {YEARS}, {MONTHS}, 5)",
]  # fmt: skip


@pytest.mark.parametrize("sql", sampled(CASES, 3))
def test_interval_of_months_is_sparks(oracle: Oracle, sql: str) -> None:
    oracle.check(sql)


def _texts() -> list[str]:
    inner = ["1-2", "-1-2", "+1-2", "|1-2", "1-11", "1-12", "0-0", "178956970-7", "178956970-8", "-178956970-8", "-178956970-9", "1", "-1", "+7", "|7",
             "2147483647", "2147483648", "-2147483648", "-2147483649", "178956970", "-178956970", "178956971", "0001-001", "1 - 2", "", "-", "1-", "１-２",
             "99999999999999999999", "1-99999999999999999999", "000000000000000000000001"]  # fmt: skip
    quoted = [
        form.format(text)
        for text in inner
        for form in ("INTERVAL '{}' YEAR TO MONTH", "interval -'{}' year", "INTERVAL  '{}'  MONTH", "INTERVAL '{}'")
    ]
    blanks = [
        " 1-2\t",
        "\x00 3 ",
        "INTERVAL '1-2' YEAR  TO\tMONTH ",
        "INTERVAL'1-2' YEAR TO MONTH",
        "INTERVAL '1-2'YEAR TO MONTH",
        "xINTERVAL '1' YEAR",
    ]
    return inner + quoted + blanks


@pytest.mark.parametrize(
    ("name", "type_"), [("interval year to month", YEAR_TO_MONTH), ("interval year", YEAR), ("interval month", MONTH)]
)
def test_a_text_is_read_as_spark_reads_it(spark: SparkSession, name: str, type_: object) -> None:
    frame = spark.createDataFrame([(text,) for text in _texts()], "s string")
    rows = frame.selectExpr("s", f"cast(cast(try_cast(s as {name}) as interval month) as int) AS n").collect()
    wrong = [(row.s, row.n, months_value(row.s, type_)) for row in rows if row.n != months_value(row.s, type_)]
    assert not wrong
