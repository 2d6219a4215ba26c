# ruff: noqa: E501 (tables of cases read better in long lines)
"""Functions over arrays, and functions that take a function."""

from __future__ import annotations

import pytest

from stepwell.lowering.expressions import UnsupportedExpression
from tests.sampling import sampled
from tests.stepwell.expressions.harness import Oracle

CASES = [
    *(f"array_{f}({a})" for f in ("distinct", "sort")
        for a in ("arr", "arrs", "array(d, e, d, -d, e)", "array(f, f2, f)", "array(m, m2, m)", "array(dt, dt2, dt)",
        "array(ts, ts2)", "array(o, p, o)", "array(x, x2, x)")),
    *(f"{f}({a}, {b})" for f in ("array_union", "array_intersect", "array_except", "arrays_overlap")
        for a, b in (("arr", "array(i, 1, 5, i)"), ("array(k, 3)", "arr"), ("arrs", "array(u, 'a', NULL)"), ("array(d, d)", "array(e, -d)"))),
    "array_remove(arr, i)", "array_remove(arr, 5)", "array_remove(arrs, 'a')", "array_remove(array(d, e), e)", "array_position(arr, i)", "array_position(arr, 1)", "array_position(arrs, 'b')", "array_position(array(d, e, -d), e)",
    "array_union(arr, array(10 div k))", "cast(arr AS array<bigint>)", "cast(arr AS array<string>)", "cast(arrs AS array<int>)", "cast(array(arr) AS array<array<double>>)",
    "array_union(array(l), array(10 div k))", "array_remove(array(l, l2), 10 div k)",
    "slice(arr, 2, 1)", "slice(arr, k, 2)", "slice(arr, -2, 5)", "slice(arr, 1, k)", "slice(arr, k, j)", "slice(arrs, 1, 10 div k)",
    "flatten(array(arr, arr))", "flatten(array(array(i), arr))", "sequence(dt, dt + 40)", "sequence(dt, date_sub(dt, 40))", "sequence(dt, dt2, interval '400' year)", "sequence(add_months(dt, -8), dt, interval 1 month)", "sequence(dt, add_months(dt, -8), interval -1 month)", "sequence(dt, dt + 40, interval 7 days)", "sequence(dt, dt, interval 1 day)",
    "sequence(dt, dt + k, interval 1 day)", "sequence(dt, dt + 3, interval 12 hours)", "sequence(dt, dt + 5, interval '36' hour)", "sequence(dt, dt, interval '0' month)", "sequence(dt, dt, interval 0 day)", "sequence(ts, ts + interval 3 days)", "sequence(ts, ts + interval '5' hour, interval 90 minutes)", "sequence(ts, ts - interval '5' hour, interval -1 hour)", "sequence(nt, nt + interval 100 days, interval 1 month)", "sequence(ts, ts2, interval '300' year)", "sequence(k, 5)", "sequence(1, k)", "sequence(k, 10, 3)", "sequence(1, 9, k)", "sequence(5, 1, k)", "sequence(b, b)", "sequence(l, l, l2)", "sequence(n, n + k)", "sequence(i, j, k - k)",
    "array_repeat(i, k)", "array_repeat(s, 2)", "array_repeat(10 div k, 2)", "array_repeat(arr, 2)", "sort_array(arr)", "sort_array(arr, false)", "sort_array(arrs)", "sort_array(array(d, e, NULL, -d), false)", "sort_array(array(d, e, -d))",
    "arrays_zip(arr, arrs)", "arrays_zip(arr, array(i, j))", "arrays_zip(arr)", "array_append(arr, i)", "array_prepend(arr, i)", "array_append(arrs, u)", "array_compact(arr)", "array_compact(arrs)",
    "array_insert(arr, k, 9)", "array_insert(arr, -2, i)", "array_insert(arr, 5, i)", "array_insert(arr, -5, i)", "array_insert(arrs, 1, 10 div k || '')", "reverse(arr)", "concat(arr, arr, array(i))", "arr || array(i)", "array_size(arr)", "cardinality(arrs)", "get(arr, k)", "try_element_at(arr, k)", "split(s, ',')[0]", "transform(split(s, ','), p -> length(p))",
    "transform(arr, x -> x + 1)", "transform(arr, x -> x + i)", "transform(arr, (x, n) -> x * n)", "transform(arr, x -> 10 div x)", "transform(arr, x -> array(x, i))", "transform(arr, x -> transform(arr, y -> coalesce(x, 0L) + coalesce(y, 0L) + k))", "transform(arr, x -> named_struct('a', x, 'b', s))", "transform(arrs, x -> upper(x))",
    "transform(array(st), x -> x.a)", "transform(arr, x -> s)", "transform(arr, (x, n) -> (10 div k) + n)", "if(k > 0, transform(arr, x -> 10 div k), NULL)",
    "filter(arr, x -> x > 1)", "filter(arr, x -> x IS NOT NULL)", "filter(arr, (x, n) -> n > 0 AND x <> i)", "filter(arr, x -> o)", "filter(arr, x -> 10 div x > 1)", "filter(arrs, x -> x LIKE 'a%')",
    "exists(arr, x -> x > 2)", "exists(arr, x -> x IS NULL)", "exists(arr, x -> o)", "exists(arr, x -> 10 div x > 3)", "exists(arr, x -> x > k AND 10 div x > 3)", "forall(arr, x -> x > 0)", "forall(arr, x -> x IS NOT NULL)", "forall(arr, x -> o)", "forall(arr, x -> 10 div x > 3)",
    "exists(arr, x -> exists(array(i, k), y -> 10 div y > x))",
    "aggregate(arr, 0L, (a, x) -> a + x)", "aggregate(arr, 0L, (a, x) -> a + coalesce(x, 0), a -> a * 2)", "aggregate(arr, 0, (a, x) -> a + x)", "aggregate(arr, '', (a, x) -> concat(a, '-', coalesce(x, 'null')))", "aggregate(arr, 10L, (a, x) -> a div x)", "aggregate(arr, k, (a, x) -> coalesce(x, a))",
    "aggregate(arr, named_struct('n', 0, 's', 0L), (a, x) -> named_struct('n', a.n + 1, 's', a.s + coalesce(x, 0)), a -> a.s / a.n)", "aggregate(arr, (0 AS sum, 0 AS n), (a, x) -> (a.sum + coalesce(x, 0), a.n + 1), a -> a.sum / a.n)", "aggregate(arr, array((0, 'a')), (a, x) -> array((x, s)), a -> a[0].col1)", "aggregate(arr, cast(array() AS array<int>), (a, x) -> array_append(a, x))", "aggregate(arr, 0L, (a, x) -> a + aggregate(arr, 0L, (b, y) -> b + coalesce(y, 0) * coalesce(x, 1)))", "reduce(arr, 10 div k, (a, x) -> a)", "transform(arr, x -> aggregate(arr, 0L, (a, y) -> a + coalesce(y, 0) + coalesce(x, 0), a -> a + coalesce(x, 0)))",
    "zip_with(arr, arrs, (x, y) -> concat(x, y))", "zip_with(arr, array(i, j, k, l), (x, y) -> coalesce(x, 0) + y)", "zip_with(arr, arr, (x, y) -> 10 div x)", "array_join(transform(arr, x -> cast(x AS string)), ',')",
    "array_min(array(d, 0.0D))", "array_min(array(0.0D, d))", "array_max(array(d, NULL, -0.0D))", "array_max(array(-0.0D, 0.0D, d))", "array_min(array(cast(d AS float), cast(1 AS float)))", "array_max(transform(arr, x -> cast(NULL AS double)))", "array_max(filter(array(d), x -> false))", "array_min(transform(arr, x -> d / x))",
    "array_min(array(st, named_struct('a', k, 'b', s)))", "array_max(array(NULL, st, named_struct('a', k, 'b', s)))", "array_min(array(arr, array(i, k), array()))", "array_max(array(named_struct('x', d, 'y', k), named_struct('x', 0.0D, 'y', 0)))", "array_max(array(named_struct('x', d), named_struct('x', 0.0D)))",
    "array_sort(array(st))", "array_sort(array(st, NULL, named_struct('a', k, 'b', s)))", "sort_array(array(st, named_struct('a', k, 'b', s), NULL), false)", "sort_array(array(NULL, st, named_struct('a', k, 'b', s)))", "array_sort(array(arr, array(i, k), NULL, array(), array(NULL)))", "sort_array(array(arr, array(i, k)), false)",
    "array_sort(array(named_struct('x', 0.0D), named_struct('x', d), named_struct('x', -0.0D)))", "sort_array(array(named_struct('x', 0.0D), named_struct('x', d), named_struct('x', -0.0D)), false)", "transform(array_sort(transform(arr, x -> named_struct('k', -x, 'v', x))), e -> e.v)", "transform(arrs, z -> array_sort(array(named_struct('a', z, 'b', d), named_struct('a', s, 'b', 0.0D))))", "array_sort(array(named_struct('x', array(named_struct('y', d, 'z', s))), named_struct('x', array(named_struct('y', 0.0D, 'z', 'a')))))",
    "array(st, NULL, named_struct('a', k, 'b', s)).a", "array(st).b", "transform(arrs, z -> array(named_struct('a', z, 'b', d)).a)", "if(k > 0, array(st), NULL).a", "array(named_struct('x', array(named_struct('y', 10 div k)))).x", "array(named_struct('x', named_struct('y', d))).x.y",
    "slice(array(st, NULL, named_struct('a', k, 'b', s)), 1, k).a", "reverse(array(st, NULL)).b", "filter(array(st), x -> k > 0).a", "reverse(array(named_struct('x', 10 div k))).x", "if(k > 0, reverse(array(st)), NULL).a", "reverse(array(named_struct('x', reverse(array(named_struct('y', d)))))).x", "transform(arrs, z -> reverse(array(named_struct('a', z, 'b', d))).a)",
    "array_sort(array(d, 0.0D, -0.0D))", "sort_array(array(-0.0D, d, 0.0D), false)",
    "transform(arr, x -> aggregate(arr, 0L, (a, y) -> coalesce(y, a), a -> x))", "transform(arrs, x -> aggregate(arr, 0L, (a, y) -> coalesce(y, a), a -> x))", "transform(arr, x -> aggregate(arr, 0L, (a, y) -> coalesce(y, a), a -> a))",
    "array_sort(arr, (p, q) -> if(p IS NULL AND q IS NULL, 0, if(p IS NULL, 1, if(q IS NULL, -1, if(p < q, -1, if(p > q, 1, 0))))))", "array_sort(filter(arr, x -> x > 0))", "array_sort(array(k, 2, length(coalesce(s, 'x'))))",
]  # fmt: skip
KEPT = (
    "sequence(add_months(dt, -8), dt, interval 1 month)",
    "transform(arr, x -> aggregate(arr, 0L, (a, y) -> coalesce(y, a), a -> x))",
)
"""Breakages are noticed by these."""


@pytest.mark.parametrize("sql", sampled(CASES, 3, KEPT))
def test_array_function_is_sparks(oracle: Oracle, sql: str) -> None:
    oracle.check(sql)


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("array_sort(arr, (x, y) -> y - x)", "a comparator"),
        ("array_sort(arr, (left, right) -> if(left < right, 1, if(left > right, -1, 0)))", "a comparator"),
        ("array_sort(arr, (left, right) -> if(left < right, -1, if(left > right, 1, 0)))", "a comparator"),
        ("array_distinct(array(st))", "elements of type STRUCT<a: INT, b: STRING>"),
        ("try_cast(arrs AS array<int>)", "a cast of ARRAY<STRING>"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(oracle: Oracle, sql: str, what: str) -> None:
    with pytest.raises(UnsupportedExpression, match=what):
        oracle.lower(sql)
