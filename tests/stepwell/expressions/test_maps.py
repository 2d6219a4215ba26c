# ruff: noqa: E501 (tables of cases read better in long lines)
"""Maps."""

from __future__ import annotations

import pytest

from stepwell.lowering.expressions import UnsupportedExpression
from tests.sampling import sampled
from tests.stepwell.expressions.harness import Oracle

_M = "map(i, s, 77, u)"
_N = "map(coalesce(s, ''), j)"
CASES = [
    "mp", _M, _N, "map(s, i)", "map('a', NULL, 'b', 10 div k)", "map(i, j, k, j)", "map_keys(mp)", "map_values(mp)", "map_entries(mp)", f"map_keys({_N})", "mp['a']", "mp[u]", "mp[s]", "element_at(mp, 'b')", "element_at(mp, u)", "try_element_at(mp, u)",
    "map_contains_key(mp, 'a')", "map_contains_key(mp, u)", "size(mp)", "cardinality(mp)", "map_from_arrays(arrs, arrs)", "map_from_arrays(array(i, j), array(s, u))", "map_from_arrays(array(i, 99), arr)", "map_from_entries(array(struct(i AS k, s AS v), struct(99 AS k, u AS v)))", "map_from_entries(array(st, NULL))", "map_from_entries(array(st))",
    "map_concat(mp, map('zz', i))", "map_concat(mp, map(u, i))", "map_concat(mp, mp)", "map_filter(mp, (k, v) -> v > 1)", "map_filter(mp, (a, v) -> a = u)", "map_filter(mp, (a, v) -> 10 div v > 1)", "transform_values(mp, (a, v) -> v + i)", "transform_values(mp, (a, v) -> concat(a, s))", "transform_values(mp, (a, v) -> 10 div v)",
    "transform_keys(mp, (a, v) -> upper(a))", "transform_keys(mp, (a, v) -> v)", "transform_keys(mp, (a, v) -> length(a))", "to_json(mp)", "to_json(struct(mp, i))", "to_json(map('x', st, s, NULL))", "to_json(array(mp))",
    "from_json(js, 'MAP<STRING, INT>')", "from_json(if(js LIKE '%,_a_:%', NULL, js), 'MAP<STRING, STRING>')", "from_json(js, 'c MAP<STRING, INT>, a INT')", "from_json(js, 'ls ARRAY<MAP<STRING, STRING>>, a INT')", "from_json(js, 'c MAP<STRING, STRUCT<d: INT>>, x MAP<STRING, MAP<STRING, ARRAY<INT>>>, a INT')", "from_json(js, 'MAP<STRING, STRUCT<d: INT>>')",
    "if(o, mp, NULL)", "coalesce(mp, map('q', 1))", "named_struct('m', mp)", "array(mp, NULL)", "map(i, mp)", "map(dt, ts)", "map_values(map(dt, ts))", "transform_values(map(i, ts), (a, v) -> v)[i]", "aggregate(map_values(mp), 0L, (a, v) -> a + coalesce(v, 0))", "transform(map_entries(mp), e -> e.key)",
]  # fmt: skip


@pytest.mark.parametrize("sql", sampled(CASES, 3))
def test_map_function_is_sparks(oracle: Oracle, sql: str) -> None:
    oracle.check(sql)


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("map(d, i)", "a map with keys of type DOUBLE"),
        ("to_json(map(i, s))", "a map whose keys are not strings"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(oracle: Oracle, sql: str, what: str) -> None:
    with pytest.raises(UnsupportedExpression, match=what):
        oracle.lower(sql)
