# ruff: noqa: E501 (tables of cases read better in long lines)
"""Comparison, logic, choice, and the laziness of all three."""

from __future__ import annotations

import pytest

from tests.sampling import sampled
from tests.stepwell.expressions.harness import Oracle

PAIRS = [("b", "b2"), ("i", "j"), ("l", "i"), ("f", "f2"), ("d", "e"), ("d", "f"), ("m", "m2"), ("m", "w"), ("s", "u"), ("x", "x2"), ("o", "p"),
         ("dt", "dt2"), ("ts", "ts2"), ("iv", "iv2"), ("dt", "ts"), ("nt", "ts"), ("i", "d"), ("i", "m")]  # fmt: skip
BRANCHES = "if(o, named_struct('A', i, 'b', j), named_struct('a', 7, 'B', k))"

CASES = [
    *(f"{a} {op} {b}" for a, b in PAIRS for op in ("=", "<=>", "<", "<=", ">", ">=", "<>")),
    # In Spark a null within a struct or an array comes before all values.
    *(f"named_struct('a', i, 'b', s) {op} named_struct('a', j, 'b', u)" for op in ("=", "<=>", "<", "<=", ">", ">=")),
    *(f"array(i, j) {op} array(j, k)" for op in ("=", "<=>", "<", "<=", ">", ">=")),
    *(f"array(named_struct('q', arrs)) {op} array(named_struct('q', array(s, NULL)))" for op in ("<", ">=")),
    *(f"st {op} named_struct('a', 1, 'b', CAST(NULL AS string))" for op in ("<", ">=")), "arr < array(1, NULL)", "arr >= array(NULL, 1)",
    *(f"{which}(named_struct('a', i, 'b', s), named_struct('a', j, 'b', u), st)" for which in ("greatest", "least")),
    "greatest(array(i), array(j), arr)", "least(array(i), array(j), arr)",
    # The fields of structs are compared by their places, whatever their names are.
    *(f"(i, s) {op} (1, 'a')" for op in ("=", "<=>", "<", "<=", ">", ">=")), *(f"(i, s) {op} (j, u)" for op in ("=", "<=>", "<", ">=")),
    "(i, s) IN ((1, 'a'), (2, 'abc'))", "(i, s) NOT IN ((1, 'a'), (j, u))", "(i, (s, j)) IN ((1, ('a', 2)), (j, (u, k)))", "st IN ((1, 'a'), (i, s))",
    "(i, s) IN ((1, 'a'), (2, cast(NULL AS string)), (cast(NULL AS int), 'abc'))", "(i, l div k) IN ((1, 2L), (j, l))", "array((i, s)) IN (array((1, 'a')), array((j, u)))",
    "(i, s) IN ((1,'a'),(2,'b'),(3,'c'),(4,'d'),(5,'e'),(6,'f'),(7,'g'),(8,'h'),(9,'i'),(10,'j'),(11,'k'),(12,'abc'))", "array((i, s)) = array((j, u))",
    *(f"(i, i) {op} (1, j)" for op in ("=", "<=>", "<", ">=")), "(i, i) IN ((1, 2), (k, 1))", "(s, s) NOT IN (('a', 'a'), ('b', cast(NULL AS string)))",
    "named_struct('a', i, 'b', j) = named_struct('b', i, 'a', j)", "CASE (i, j) WHEN (1, 2) THEN 'x' WHEN (2, 2) THEN 'y' END",
    "map_from_arrays(array('x', 'y'), array((i, s), NULL))['x'] = (1, 'a')", "transform(array((i, s)), x -> x = (1, 'a'))",
    # Spark leaves the names of fields of branches that differ in case.
    BRANCHES, "nvl2(i, named_struct('A', i), named_struct('a', j))",
    "CASE WHEN o THEN named_struct('A', i, 'b', j) WHEN p THEN named_struct('a', 7, 'B', k) END", "coalesce(if(o, named_struct('A', i), NULL), named_struct('a', j))",
    "greatest(named_struct('A', i), named_struct('a', j))", "array_append(array(named_struct('A', i)), named_struct('a', j))",
    "array_insert(array(named_struct('A', i)), 1, named_struct('a', j))", "transform(array(named_struct('A', i)), x -> if(o, x, named_struct('a', 0)))",
    "array(named_struct('A', i), named_struct('a', j))", "map('x', named_struct('A', i), 'y', named_struct('a', j))",
    "o AND p", "o OR p", "NOT o", "NOT (o AND p)", "o IS NULL", "d IS NOT NULL", "i IN (1, 2, 100)", "i NOT IN (1, NULL)", "i IN (j, k, 3)",
    "s IN ('a', 'abc', '😀')", "m IN (1.0, 2.5)", "d IN (0.0, double('NaN'))", "i IN (1,2,3,4,5,6,7,8,9,10,11,12)", "i IN (1,NULL,3,4,5,6,7,8,9,10,11,12)",
    "s IN ('a','b','c','d','e','f','g','h','i','j','k','😀')", "m IN (1,2,3,4,5,6,7,8,9,10,11,2.5)", "x IN (X'00', X'616263')",
    "dt IN (date'2020-02-29', date'0001-01-01', date'9999-12-31')", "i BETWEEN j AND k", "if(o, i, j)", "if(i > 1, d, f)", "coalesce(i, j, 0)",
    "coalesce(s, u)", "nullif(i, j)", "nvl2(i, j, l)", "nanvl(d, e)", "isnan(d)", "isnan(f)", "ifnull(d, e)",
    "CASE WHEN i = 1 THEN 'x' WHEN j > 2 THEN s END", "CASE i WHEN 1 THEN 2 ELSE 3 END", "CASE WHEN o THEN 1.5 ELSE m END", "CASE WHEN o THEN NULL ELSE ts END",
    # Lazy in Spark: what raises is reached only where the guard lets it.
    "CASE WHEN j <> 0 THEN k / j END", "CASE WHEN e <> 0 AND d / e > 1 THEN d / e ELSE 0D END", "e <> 0 AND d / e > 1", "e = 0 OR d / e > 1",
    "coalesce(k, l div k)", "if(k = 0, 0, 10 div k)", "(k <> 0 AND 10 div k > 1) OR (j <> 0 AND 10 div j > 1)", "i + (j / k)", "st.a + (l div k)", "(10 div k) div st.a", "st.a > l div k", "i IN (1, l div k)",
    "coalesce(o, 1 / k > 0)", "CASE WHEN k <> 0 THEN CASE WHEN 10 div k > 1 THEN 100 % k END ELSE 5 END",
    "true", "1", "-128Y", "-2147483648", "-9223372036854775808L", "1.5", "1.5D", "double('-0.0')", "float('1e-45')", "double('inf')", "date'0001-01-01'",
    "timestamp'2020-01-01 01:02:03.123456'", "timestamp_ntz'2020-01-01 01:02:03'", "X'00FF'", "'o''clock 😀'", "'a\\0b'", "cast(NULL AS int)", "interval '1' day",
    "coalesce(i, raise_error('none'))", "CASE WHEN i = 1 THEN raise_error(concat('bad ', s)) ELSE j END", "if(o, raise_error(s), dt)", "if(o, raise_error(s) > 1, p)",
    "99999999999999999999999999999999999999BD", "date'+10000-01-01'", "5S",
]  # fmt: skip


@pytest.mark.parametrize("sql", sampled(CASES, 3, keep=[BRANCHES]))
def test_logic_is_sparks(oracle: Oracle, sql: str) -> None:
    oracle.check(sql)
