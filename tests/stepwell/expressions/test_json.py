# ruff: noqa: E501 (tables of cases read better in long lines)
"""JSON as text in a column."""

from __future__ import annotations

import pytest

from stepwell.lowering.expressions import UnsupportedExpression
from tests.sampling import sampled
from tests.stepwell.expressions.harness import Oracle

_WIDE = "a INT, b STRING, c STRUCT<d: INT, e: INT>, l ARRAY<INT>, ls ARRAY<STRUCT<d: INT, e: STRING>>, ts TIMESTAMP, dt DATE, o BOOLEAN, d DOUBLE, m DECIMAL(5,2), x BINARY"
CASES = [
    *(f"from_json(js, '{ddl}')" for ddl in (
        "a INT", _WIDE, f"{_WIDE}, _corrupt_record STRING", "_corrupt_record STRING, a INT", "b STRING", "c STRUCT<d: STRING, e: ARRAY<INT>>", "l ARRAY<ARRAY<INT>>", "l ARRAY<STRING>",
        "ARRAY<INT>", "ARRAY<STRING>", "ARRAY<STRUCT<a: INT, b: STRING>>", "ARRAY<STRUCT<c: STRUCT<d: INT>>>", "ARRAY<ARRAY<INT>>", "a TINYINT, d FLOAT",
    )),
    "from_json(js, 'a INT, c STRUCT<d: INT>', map('mode', 'FAILFAST'))", "from_json(js, 'ARRAY<INT>', map('MODE', 'failfast'))",
    "from_json(js, 'a INT, bad STRING', map('columnNameOfCorruptRecord', 'bad'))", "from_json(js, 'a INT').a", "from_json(js, 'a INT, c STRUCT<d: INT, e: INT>').c.e", "from_json(s, 'a INT')",
    "from_json(concat('{\"a\":', num, ',\"b\":\"', k, '\"}'), 'a DOUBLE, b INT')", "from_json(concat('{\"a\":\"', mom, '\"}'), 'a TIMESTAMP, b DATE')",
    "to_json(st)", "to_json(arr)", "to_json(array(st, NULL))", "to_json(struct(st, arrs, i, s))", "to_json(struct(d, m, w, ts, nt, dt, x, o, iv))", "to_json(struct(st, i AS z), map('ignoreNullFields', 'false'))",
    "to_json(from_json(js, 'a INT, c STRUCT<d: INT>'))", "to_json(struct(10 div k AS q))", "to_json(struct(cast(dt - dt2 AS INTERVAL DAY TO SECOND) AS q))", "to_json(named_struct('a\"b', s))",
    *(f"get_json_object(js, '{path}')" for path in ("$", "$.a", "$.c.d", "$.l[1]", "$.ls[0].e", "$. a", "$.b", "$[0]", "$[1].a",
        "$.", "a", "", "$..a", " $.a", "$.a ", "$.c .d", "$[ 0 ]", "$[ 0]", "$[0] ", "$.x.y[0][1]")),
    "get_json_object(js, \"$['b']\")", "get_json_object(js, \"$ ['b']\")", "get_json_object(js, \"$[' a ']\")", "get_json_object(js, u)", "get_json_object(js, concat('$.', u))", "get_json_object(js, cast(10 div k AS string))", "get_json_object(s, '$.a')",
]  # fmt: skip


@pytest.mark.parametrize("sql", sampled(CASES, 3))
def test_json_function_is_sparks(oracle: Oracle, sql: str) -> None:
    oracle.check(sql)


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("from_json(s, 'a DATE', map('locale', 'de-DE'))", "the option locale"),
        ("from_json(s, 'a INT, A INT')", "two fields of one name"),
        ("from_json(s, 'a INT, b ARRAY<STRUCT<v: INT, V: INT>>').b", r"two fields of one name \(v, V\)"),
        ("to_json(st, map('pretty', 'true'))", "the option pretty"),
        ("to_json(struct(i, array(dt - dt2)))", "the type INTERVAL DAY"),
        ("to_json(struct(cast(iv AS INTERVAL HOUR TO MINUTE)))", "the type INTERVAL HOUR TO MINUTE"),
        ("from_json(js, 'a INT, c ARRAY<INTERVAL MINUTE>')", "the type INTERVAL MINUTE"),
        ("cast(array(iv) AS ARRAY<INTERVAL DAY>)", "intervals within ARRAY<INTERVAL DAY TO SECOND>"),
        ("get_json_object(s, '$[*]')", "a wildcard in the path"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(oracle: Oracle, sql: str, what: str) -> None:
    with pytest.raises(UnsupportedExpression, match=what):
        oracle.lower(sql)
