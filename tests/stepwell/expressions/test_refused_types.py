"""A refusal has Spark's names of types, as users write them, and says what to write instead."""

from __future__ import annotations

import re

import pytest

from stepwell.lowering.expressions import UnsupportedExpression
from tests.stepwell.expressions.harness import Oracle

ARROW = re.compile(
    r"int\d|duration|decimal\d|list<|struct<|map<|element: |timestamp\[|date32|float|double|bool\b|binary|string"
)
"""Names of Arrow's types. It writes all in small letters."""

REFUSED = {
    "cast(b AS INTERVAL SECOND)": ("TINYINT to INTERVAL SECOND", "make_dt_interval"),
    "cast(s AS INTERVAL DAY TO SECOND)": ("STRING to INTERVAL DAY TO SECOND", "make_dt_interval"),
    "cast(m AS INTERVAL MONTH)": ("DECIMAL(10,2) to INTERVAL MONTH", "cast it to INT first"),
    "cast(w AS timestamp)": ("DECIMAL(38,10) to TIMESTAMP", "timestamp_micros"),
    "cast(ts AS decimal(20,6))": ("TIMESTAMP to DECIMAL(20,6)", "unix_micros"),
    "cast(st AS string)": ("STRUCT<a: INT, b: STRING> to STRING", "to_json"),
    "cast(arr AS string)": ("ARRAY<INT> to STRING", "to_json"),
    "cast(cast(iv AS INTERVAL DAY) AS string)": ("INTERVAL DAY to STRING", "AS INTERVAL DAY TO SECOND first"),
    "concat(dt - dt2, 'x')": ("INTERVAL DAY to STRING", "AS INTERVAL DAY TO SECOND first"),
    "transform(array(cast(iv AS INTERVAL HOUR)), x -> cast(x AS string))": ("INTERVAL HOUR to STRING", "AS INTERVAL"),
    "cast(cast(iv AS INTERVAL HOUR) AS int)": ("INTERVAL HOUR to INT", "timestampdiff"),
    "cast(array(iv) AS ARRAY<INTERVAL DAY>)": ("ARRAY<INTERVAL DAY TO SECOND>", "cast the intervals"),
    "map(d, 1)": ("keys of type DOUBLE", "other type|another type"),
    "map_contains_key(map(i, 'a'), 5.0)": ("MAP<INT, STRING> to MAP<", "with the type INT"),
    "array_distinct(array(arr))": ("elements of type ARRAY<INT>", "plain values"),
    "format_string('%d', m)": ("%d of DECIMAL(10,2)", "cast the value"),
    "try_cast(arrs AS array<int>)": ("ARRAY<STRING>", "transform"),
    "try_to_timestamp(i)": ("TIMESTAMP of INT", "timestamp_seconds"),
}


@pytest.mark.parametrize("sql", REFUSED)
def test_a_refusal_names_types_as_spark_does(oracle: Oracle, sql: str) -> None:
    with pytest.raises(UnsupportedExpression) as raised:
        oracle.lower(sql)
    text, advice = REFUSED[sql]
    assert text in raised.value.text
    assert re.search(advice, raised.value.advice)
    assert not ARROW.search(raised.value.text)
