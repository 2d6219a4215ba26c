# ruff: noqa: E501 (tables of cases read better in long lines)
"""Functions that measure, mask, format and take apart texts."""

from __future__ import annotations

import pytest

from stepwell.lowering.expressions import UnsupportedExpression
from tests.sampling import sampled
from tests.stepwell.expressions.harness import Oracle

CASES = [
    "levenshtein(s, u)", "levenshtein(s, 'hello')", "levenshtein(s, u, 2)", "levenshtein(s, u, coalesce(k, 2))", "levenshtein(s, u, k)", "soundex(s)", "soundex(concat(u, s))", "soundex('Ashcraft')", "soundex(translate(s, 'ab', 'hw'))",
    "find_in_set(u, s)", "find_in_set(u, 'a,b,,abc,%')", "mask(s)", "mask(s, 'Q', NULL, '0')", "mask(s, NULL, 'q', NULL, '*')", "mask(num, 'X', 'x', 'n', '-')", "luhn_check(concat('٤٥٥', left(s, 0)))", "luhn_check(concat('𝟜𝟝𝟝', left(s, 0)))", "luhn_check(num)", "luhn_check(regexp_replace(num, '[^0-9]', '5'))",
    "space(k)", "space(3)", "elt(k, s, u)", "elt(2, s, u)", "elt(k, i, j, 7)", "format_number(d, 2)", "format_number(d, 0)", "format_number(e, k)", "format_number(f, 3)", "format_number(m, 1)", "format_number(w, 4)", "format_number(i, 1)", "format_number(l, 0)", "format_number(h, 2)",
    "format_string('%s and %s', s, u)", "format_string('%d items, %5d, %-6d|, %06d', i, j, k, k)", "format_string('%,d %+d % d %(d', l, l, l, l)", "format_string('%x %X %o', i, l, b)", "format_string('%08x', sh)",
    "format_string('%.2f %10.3f %-12.1f| %e', d, d, d, nullif(d, 4.9E-324D))", "format_string('%,.2f %+.1f %(.1f %010.2f', d, e, e, d)", "format_string('%f %.3e', f, f)", "printf('%s %b %B', d, o, s)", "format_string('%2$s %1$s %%', s, u)", "format_string('%10s|%-10s|%.2s', s, s, s)",
    "format_string('%S %n', s)", "format_string('%3S|%.1500f', s, nullif(d, 4.9E-324D))", "format_string('%s and %s', NULL, s)", "format_number(m, 1300)", "regexp_instr(s, 'b', k)", "format_string('%s', i)", "format_string('none', s)",
    "regexp_instr(s, 'b')", "regexp_instr(s, '[0-9]+')", "regexp_count(s, 'a')",
    "str_to_map(concat('a:1,', s))", "str_to_map(s, ',', ':')", "str_to_map(concat(s, '=x;y'), ';', '=')", "str_to_map('k=1&z')['k']", "map_keys(str_to_map(concat('p ', s), ' ', '[.,]'))",
    "parse_url(concat('http://user:pw@spark.apache.org:80/path?query=', regexp_replace(s, '[^a-z0-9]', ''), '&k=v#ref'), 'QUERY')",
    *(f"parse_url('https://user:pw@spark.apache.org:8080/a/b' || coalesce(concat('?k=', left(num, 1)), ''), '{part}')"
        for part in ("HOST", "PATH", "QUERY", "REF", "PROTOCOL", "AUTHORITY", "USERINFO", "FILE", "OTHER")),
    "parse_url('http://h/p?k=' || num || '&b=2', 'QUERY', 'k')", *(f"try_parse_url(concat('{t}', substr(s, 1, 0)), '{p}')" for t in ("http://", "//", ":foo", "http://a[b]c/p", "http://[1:2]/p", "http://[fe80::1%eth0]/p", "http://[::1]:80/p", "http://h:99999999999/p", "mailto:a[b]", "http://0001.2.3.4/", "http:///p", "http://u@h:/p") for p in ("HOST", "PATH", "PROTOCOL", "AUTHORITY")), "try_parse_url(s, 'HOST')", "try_parse_url(concat('http://', s), 'HOST')", "try_parse_url(concat('http://', s, '/x?', u), 'FILE')", "try_parse_url(mom, 'PATH')", "parse_url(concat('mailto:', u), 'PATH')",
    "json_array_length(js)", "json_object_keys(js)", "array_join(arrs, ',', '-')", "array_join(arrs, u, s)", "array_join(arrs, u)", "concat_ws(u, arrs, s)",
]  # fmt: skip


@pytest.mark.parametrize("sql", sampled(CASES, 3, ("format_string('%10s|%-10s|%.2s', s, s, s)",)))
def test_function_is_sparks(oracle: Oracle, sql: str) -> None:
    oracle.check(sql)


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("format_string('%d', s)", "%d of STRING"),
        ("format_string('%s %s', s)", "shows 2 values"),
        ("format_string('%y', s)", "%y"),
        ("format_string('%-d', i)", "flags"),
        ("format_string('%+x', i)", "flags"),
        ("format_string('%.2d', i)", "no precision"),
        ("format_string('%99999d', i)", "at most"),
        ("format_string(s, u)", "the format is not a constant"),
        ("format_number(d, '#.##')", "a pattern"),
        ("regexp_instr(s, u)", "the pattern is not a constant"),
        ("sha2(s, 100)", "100 bits"),
    ],
)
def test_what_is_refused_names_its_reason(oracle: Oracle, sql: str, text: str) -> None:
    with pytest.raises(UnsupportedExpression, match=text):
        oracle.lower(sql)
