# ruff: noqa: E501 (tables of cases read better in long lines)
"""Dates, timestamps and day-time intervals."""

from __future__ import annotations

import pytest

from tests.sampling import sampled
from tests.stepwell.expressions.harness import Oracle

UNITS = (
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "hour",
    "minute",
    "second",
    "millisecond",
    "microsecond",
    "nonsense",
    "MM",
    "YY",
    "DD",
)
PATTERNS = (
    "yyyy-MM-dd",
    "yyyy-MM-dd HH:mm:ss",
    "yyyy-MM-dd\\'T\\'HH:mm:ss.SSS",
    "yyyy-MM",
    "yyyy",
    "yy",
    "y",
    "MM/dd/yyyy",
    "d.M.yyyy",
    "MMM d, yyyy",
    "MMMM",
    "E",
    "EEE",
    "EEEE",
    "HH:mm",
    "hh:mm a",
    "h a",
    "k",
    "K",
    "D",
    "DDD",
    "SSSSSS",
    "S",
    "Q",
    "XXX",
    "yyyyMMdd",
    "yyyy-MM-dd\\'Z\\'",
    "Z",
    "z",
    "VV",
    "L",
    "dd MMM yyyy HH:mm:ss xxx",
)
READ = (
    "yyyy-MM-dd",
    "yyyy-MM-dd HH:mm:ss",
    "yyyy",
    "MM/dd/yyyy",
    "yyyyMMdd",
    "yyyy-M-d",
    "yyyy-MM-dd HH:mm:ssXXX",
    "yyyy-MM-dd\\'T\\'HH:mm:ss.SSSSSS",
    "yyyy-MM",
    "yy-MM-dd",
    "yyyy-MM-dd HH:mm:ss.S",
)
NARROW = "cast(iv as interval day)"
MONTHS_BACK = "timestampdiff(MONTH, timestamp_seconds(1710504000), timestamp_seconds(1705320000 + k))"

CASES = [
    *(f"{f}({c})" for c in ("dt", "ts") for f in ("year", "quarter", "month", "day", "dayofweek", "weekday", "dayofyear",
        "weekofyear", "last_day", "dayname", "monthname")),
    *(f"{f}({c})" for c in ("ts", "nt") for f in ("hour", "minute", "second")),
    "extract(second FROM ts)", "extract(yearofweek FROM dt)", "extract(dow FROM dt)", "date_part('month', ts)",
    "date_add(dt, k)", "date_sub(dt, k)", "dt + 1", "dt - 1", "datediff(dt, dt2)", "datediff(ts, dt2)", "dt - dt2", "ts - ts2", "nt - nt", "dt + interval 1 day", "dt + interval 1 month",
    "dt - interval 1 year", "dt + make_ym_interval(0, k)", "ts + interval 1 day", "ts - interval 1 hour", "ts + interval 1 month", "ts - interval 13 month", "ts + interval '1 02:03:04.5' day to second",
    "nt + interval 90 minutes", "ts + iv", "dt + interval 1 hour", "iv * 2", "iv * k", "iv / 3", "iv / k", "- iv", "abs(iv)", "interval '1' day * i", "make_dt_interval(k, i)",
    "make_dt_interval(1, 2, k, m)", "extract(day FROM iv)", "extract(hour FROM iv)", "extract(minute FROM iv)", "add_months(dt, k)", "add_months(dt, 1)", "months_between(ts, ts2)",
    "months_between(dt, ts, false)", "next_day(dt, 'MON')", "next_day(dt, 'sunday')",
    *(f"trunc(dt, '{u}')" for u in UNITS), *(f"date_trunc('{u}', ts)" for u in UNITS), "date_trunc('week', nt)", "date_trunc('month', dt)",
    *(f"date_format(ts, '{p}')" for p in PATTERNS), "date_format(dt, 'yyyy-MM')", "date_format(ts, '')", "date_format(nt, 'HH')",
    *(f"to_timestamp(mom, '{p}')" for p in READ), "to_date(mom, 'yyyy-MM-dd')", "to_date(mom)", "to_timestamp(mom)", "to_date(ts)", "to_timestamp_ntz(mom)",
    *(f"{function}({moment}, {pattern})" for function in ("to_date", "to_timestamp", "to_timestamp_ntz") for moment in ("dt", "ts", "nt")
      for pattern in ("'dd-MM-yyyy'", "CAST(NULL AS STRING)", "s")),
    "to_timestamp(date_format(ts, 'yyyy-MM-dd hh:mm:ss a'), 'yyyy-MM-dd hh:mm:ss a')", "to_timestamp(date_format(ts, 'dd MMM yyyy'), 'dd MMM yyyy')", "to_date(date_format(dt, 'yyyyDDD'), 'yyyyDDD')",
    "unix_timestamp(ts)", "unix_timestamp(dt)", "unix_timestamp(mom)", "unix_timestamp(mom, 'yyyy-MM-dd')", "to_unix_timestamp(ts)", "to_unix_timestamp(nt)", "from_unixtime(n)", "from_unixtime(l)", "from_unixtime(n, 'yyyy')",
    "make_timestamp(2020 + k, k, 28, k, 30, m)", "make_timestamp(2020, 2, 29 + k, 1, 2, 3.5)", "make_timestamp(2020, 2, 2, 23, 59, 60)", "make_timestamp(2020, 2, 2, 23, 59, q + 60)", "make_timestamp_ntz(2021, k, 3, 4, 5, 6.789)", "make_timestamp(2021, k, 3, 4, 5, 6.789, 'CET')", "try_make_timestamp(2020, k, 30, 1, 2, 3.5)", "make_timestamp(292000 + k, 1, 1, 0, 0, 0)",
    *(f"{f}(ts, '{z}')" for f in ("from_utc_timestamp", "to_utc_timestamp")
        for z in ("America/New_York", "Asia/Kolkata", "Europe/Paris", "+05:30", "PST", "UTC")),
    "from_utc_timestamp(ts, concat('Europe/', u))", "to_utc_timestamp(ts, 'Nowhere/City')",
    "convert_timezone('Europe/Brussels', 'America/Los_Angeles', nt)", "convert_timezone('Asia/Tokyo', nt)", "convert_timezone('America/Chicago', 'Australia/Lord_Howe', nt)",
    "to_utc_timestamp(timestamp_micros(-9223372036854775807 + k), 'Asia/Tokyo')", "from_utc_timestamp(timestamp_micros(9223372036854775700 + k), 'Asia/Tokyo')", "extract(second FROM iv)", "extract(second FROM iv2)", "timestamp_seconds(m)", "timestamp_seconds(q)", "timestamp_seconds(w)", "timestamp_seconds(d)", "timestamp_seconds(f)", "timestamp_seconds(n + 0.25)",
    "timestamp_seconds(n)", "timestamp_millis(n)", "timestamp_micros(n)", "timestamp_seconds(i)", "unix_seconds(ts)", "unix_millis(ts)", "unix_micros(ts)", "unix_date(dt)", "date_from_unix_date(k)",
    "unix_micros(timestamp_seconds(9223372036854 + k))", "unix_micros(timestamp_millis(-9223372036854775 + k))",
    "make_date(2020 + k, 2, 29)", "make_date(2021, k, 31)", "timestampadd(HOUR, k, ts)", "timestampadd(MONTH, k, ts)", "timestampadd(DAY, k, nt)", "timestampdiff(HOUR, ts, ts2)", "datediff(DAY, ts, ts2)",
    "timestampdiff(SECOND, ts, nt)", "timestampdiff(MONTH, ts, ts2)", "date_diff(MONTH, dt, dt2)", "timestampdiff(QUARTER, nt, ts2)", "datediff(YEAR, dt, ts)",
    "timestampdiff(MONTH, timestamp'2024-01-31 12:00:00' + make_dt_interval(0, k), timestamp'2024-02-29 12:00:00')", "datediff(MONTH, make_date(2024, 3, 31), make_date(2023, 2, 25 + k))",
    NARROW, "cast(- iv as interval hour to minute)", "cast(iv2 as interval minute to second)",
    "cast(cast(iv as interval hour) as interval day to second)", "dt - dt2 = cast(ts - ts2 as interval day)",
    MONTHS_BACK, "window(ts, '10 minutes')", "window(ts, '10 minutes').start", "window(nt, '1 day').end", "window(ts, '1 week', '1 week', '1 day')",
    "ts > '2020-01-01'", "dt BETWEEN '2000-01-01' AND '2021-01-01'", "ts2 - interval 1 hour < ts",
    *(f"iv {op} {n}" for op in "*/" for n in ("d", "f", "m", "w", "h", "q", "1.5", "1.5D", "0.5D")),
    "d * iv", "iv2 * e", "iv2 / e", "(iv2 + iv) * (m / m2)", "iv / (1D / k)",
    "interval '0 00:00:00.000001' day to second * (k / 2)", "interval '0 00:00:00.000003' day to second * cast(k / 2 AS DECIMAL(38,2))", "interval '9' hour / cast(k * 3 AS DECIMAL(38,30))",
    "iv * 0.33333333333333333333333333333333333333", "interval '2' second * 0.25000024999999999999999999999999999999", "try_multiply(iv, d)", "try_divide(iv, m)", "try_divide(iv2, e)",
    "iv div iv2", "iv div interval '7' hour", "iv div interval '0' day", "iv div interval -'0.000001' second", "(interval -'106751991 04:00:54.775808' day to second) div iv2", "signum(iv)", "sign(- iv2)",
    "width_bucket(iv, interval '-1' day, interval '1' day, 5)", "width_bucket(iv, iv2, interval '100' day, k)",
    "cast(iv as string)", "concat(iv, ' and ', iv2)", "cast(array(iv, NULL) as array<string>)", "cast(cast(iv as interval day) * 2 as string)", "cast(ts - ts2 as string)", "try_cast(iv as string)",
    "cast(cast(dt - dt2 as interval day to second) as string)", "cast(if(dt - dt2 > interval '5' day, iv, iv2) as string)",
]  # fmt: skip


@pytest.mark.parametrize(
    "sql",
    sampled(
        CASES,
        3,
        (
            "from_utc_timestamp(ts, 'Europe/Paris')",
            "date_format(ts, '')",
            MONTHS_BACK,
            NARROW,
            "cast(iv as string)",
            "iv * 0.5D",
            "iv / m",
        ),
    ),
)
def test_time_function_is_sparks(oracle: Oracle, sql: str) -> None:
    oracle.check(sql)
