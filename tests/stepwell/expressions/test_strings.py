# ruff: noqa: E501 (tables of cases read better in long lines)
"""Functions of texts, and patterns."""

from __future__ import annotations

import pytest

from stepwell.lowering.expressions import UnsupportedExpression
from tests.sampling import sampled
from tests.stepwell.expressions.harness import Oracle

CASES = [
    "upper(s)", "lower(s)", "length(s)", "length(x)", "octet_length(s)", "bit_length(s)", "octet_length(x)", "trim(s)", "ltrim(s)", "rtrim(s)",
    "trim(BOTH 'ab' FROM s)", "trim(LEADING u FROM s)", "trim(TRAILING u FROM s)", "btrim(s, 'x ')", "substring(s, 2)", "substring(s, 2, 3)", "substring(s, 0, 2)",
    "substring(s, -2)", "substring(s, -5, 3)", "substring(s, k, 2)", "substring(s, i, j)", "substring(x, 2, 1)", "left(s, 2)", "right(s, 2)", "left(s, k)", "s || u", "concat(s, u, s)",
    "concat(s, i)", "concat(x, x2)", "concat(arr, arr)", "concat_ws(',', s, u)", "concat_ws(u, s, s)", "concat_ws(',', arrs, u)", "concat_ws('-', arrs, s, arrs)",
    "replace(s, 'a', 'b')", "replace(s, u, '_')", "replace(s, u)", "split_part(s, '.', 2)", "split_part(s, 'a', -1)", "split_part(s, u, k)", "split_part(s, '', 1)",
    "lpad(s, 5, 'x')", "lpad(s, 5)", "lpad(s, k, u)", "rpad(s, 5, 'ab')", "rpad(s, k, u)", "startswith(s, u)", "endswith(s, u)", "contains(s, u)",
    "s LIKE 'a%'", "s LIKE '%a'", "s LIKE '%b%'", "s LIKE 'a_b'", "s LIKE 'a\\\\_b'", "s LIKE '_'", "s LIKE 'a/%b' ESCAPE '/'", "s LIKE '%\\n%'", "s LIKE u", "s LIKE 'a%b%c'",
    "s NOT LIKE '%.%'", "s ILIKE 'A%'", "s LIKE ALL ('a%', '%c', 'a_c')", "s LIKE ANY ('a_c', '%.%.%', NULL)", "s LIKE ANY ('a_c', '%.%.%')", "s NOT LIKE ANY ('a_c', '_')", "s NOT LIKE ALL ('a_c', '_')",
    "s RLIKE 'a.*'", "s RLIKE '^[a-z]+$'", "s RLIKE '\\\\d+'", "s RLIKE '(?i)HELLO'", "s RLIKE '^.$'", "s RLIKE '\\\\s'", "s RLIKE '\\\\bworld\\\\b'", "s RLIKE 'a$'",
    "s RLIKE '(a)(?=b)'", "s RLIKE '\\\\p{Upper}'", "s RLIKE '[^a-z]'", "s RLIKE '\\\\.'", "s RLIKE '^$'", "s RLIKE 'line1.line2'", "s RLIKE '(?s)line1.line2'", "s RLIKE '(.)\\\\1'",
    "regexp_extract(s, '(a)(b)', 2)", "regexp_extract(s, '([a-z]+)(\\\\d+)', 1)", "regexp_extract(s, '(x)?a', 1)", "regexp_extract(s, 'a', 0)", "regexp_extract(s, '(a)', k)",
    "regexp_extract_all(s, '([a-z])', 1)", "regexp_extract_all(mom, '[a-z]*', 0)", "regexp_replace(s, 'a', 'b')", "regexp_replace(s, '([a-z])', '<$1>')", "regexp_replace(mom, '0*', '-')",
    "regexp_replace(s, '[^a-z]', '')", "regexp_replace(s, 'a', 'b', 2)", "regexp_replace(s, '$', '!')", "regexp_replace(s, '\\\\s+', ' ')", "regexp_replace(s, 'a', '\\\\$')",
    "regexp_count(s, 'a')", "split(s, ',')", "split(s, ',', 2)", "split(s, '')", "split(s, '[ab]')", "split(s, '\\\\.', -1)", "split(s, '(?=b)')", "split(s, ',')[0]",
    "instr(s, u)", "instr(s, '')", "locate(u, s)", "locate(u, s, 2)", "locate('a', s, k)", "position('b' IN s)", "reverse(s)", "initcap(s)", "repeat(s, 3)", "repeat(s, 0)", "repeat(u, k)",
    "substring_index(s, '.', 2)", "substring_index(s, '.', -2)", "substring_index(s, 'a', k)", "substring_index(s, u, -1)", "translate(s, 'abc', 'xy')", "translate(s, 'aA😀', 'bc')",
    "overlay(s PLACING 'XY' FROM 2)", "overlay(s PLACING u FROM 2 FOR 1)", "ascii(s)", "chr(l)", "chr(k)", "base64(x)", "encode(s, 'utf-8')", "decode(x, 'UTF-8')", "md5(s)", "sha1(s)",
    "sha2(s, 256)", "concat_ws(',', arrs)", "array_join(arrs, '-')", "coalesce(upper(s), lower(u), 'none')",
    *(f"{f}({a}, {b})" for f in ("startswith", "endswith", "contains") for a, b in (("x", "x2"), ("x2", "x"), ("x", "X'00'"), ("x", "X''"))),
    *(f"{f}({a})" for f in ("lpad", "rpad") for a in ("x, 5", "x, k", "x, k, x2", "x, 2, x2", "x, 7, X'0102'", "x, 4, X''")),
]  # fmt: skip


@pytest.mark.parametrize("sql", sampled(CASES, 3))
def test_string_function_is_sparks(oracle: Oracle, sql: str) -> None:
    oracle.check(sql)


@pytest.mark.parametrize(
    "sql",
    ["s RLIKE '[a&&b]'", "s RLIKE u", "s RLIKE '\\\\p{L}'", "s RLIKE '(a'", "regexp_replace(s, 'a', '$x')", "s LIKE 'a\\\\b'",
     "date_format(ts, 'u')", "sentences(s)", "uuid()", "to_char(m, '999')", "date_format(ts, 'GGG')", "to_timestamp(s, 'yyyy ww')"],
)  # fmt: skip
def test_what_is_not_supported_is_refused_by_name(oracle: Oracle, sql: str) -> None:
    with pytest.raises(UnsupportedExpression, match="is not supported"):
        oracle.lower(sql)
