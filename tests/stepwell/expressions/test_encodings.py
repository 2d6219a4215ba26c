# ruff: noqa: E501 (tables of cases read better in long lines)
"""Numbers and texts in other writings (hex, base64, character sets, URLs), digests and hashes."""

from __future__ import annotations

import pytest

from tests.sampling import sampled
from tests.stepwell.expressions.harness import Oracle

MANY = ", ".join(["i"] * 43)
"""A hash has the seed 42 in its fields, and here a child with this number."""
CASES = [
    "hex(i)", "hex(l)", "hex(s)", "hex(x)", "unhex(hex(s))", "unhex(s)", "unhex(num)", "bin(i)", "bin(l)", "hex(b)",
    "conv(num, 10, 16)", "conv(num, 16, 10)", "conv(num, 36, 2)", "conv(s, 36, -10)", "conv(num, 10, -16)", "conv(l, 10, -2)", "conv(num, 10, k)", "conv(num, k, 10)", "conv(u, 16, 10)",
    "base64(x)", "unbase64(base64(x))", "base64(unbase64(base64(encode(s, 'utf-8'))))", "encode(s, 'utf-8')", "encode(s, 'UTF-16')", "encode(s, 'utf-16be')", "encode(s, 'UTF-16LE')", "encode(s, 'UTF-32')",
    "encode(s, 'US-ASCII')", "encode(s, 'ISO-8859-1')", "decode(x, 'utf-8')", "decode(x, 'US-ASCII')", "decode(x, 'ISO-8859-1')", "decode(encode(s, 'UTF-16'), 'UTF-16')",
    "decode(encode(s, 'UTF-16LE'), 'UTF-16LE')", "decode(encode(s, 'UTF-32'), 'UTF-32')", "decode(concat(unhex('0000FEFF'), encode(s, 'UTF-32')), 'UTF-32')",
    "url_encode(s)", "url_decode(url_encode(s))", "url_decode(s)", "try_url_decode(s)", "to_binary(hex(s), 'hex')", "to_binary(s, 'hex')", "unbase64(s)", "unbase64(num)", *(f"unbase64(concat('{t}', substr(s, 1, 0)))" for t in ("YQ=", "YQ=a", "=", "====", "YWJj=", "YQ==YQ==", "YWI=YWI=", "YQ==", "YWI", "YQ==.", "Y", "Y!W!I", "YW=I")), "try_to_binary(s, 'hex')",
    "md5(s)", "sha1(s)", "sha2(s, 224)", "sha2(s, 256)", "sha2(s, 384)", "sha2(x, 512)", "sha2(s, 0)", "crc32(s)", "crc32(x)",
    *(f"hash({c})" for c in ("b", "sh", "i", "l", "f", "d", "m", "w", "h", "s", "x", "o", "dt", "ts", "nt", "iv", "arr", "arrs", "st")),
    *(f"xxhash64({c})" for c in ("b", "sh", "i", "l", "f", "d", "m", "w", "h", "s", "x", "o", "dt", "ts", "nt", "iv", "arr", "arrs", "st")),
    "hash(i, s, d)", "xxhash64(i, s, d)", "hash(s, u, arr, st)", "xxhash64(s, u, arr, st)", "hash(array(arr, arr), k)", "xxhash64(array(st, st), k)", "hash(struct(arr, st), m, w)", "hash(make_ym_interval(k, k))",
    "xxhash64(make_ym_interval(k, k), s)", "abs(hash(s)) % 10", "pmod(xxhash64(s, i), 16)", "hash(NULL, i)", f"hash({MANY})", f"xxhash64({MANY})",
]  # fmt: skip


@pytest.mark.parametrize("sql", sampled(CASES, 3, ("hash(i, s, d)", "hash(s)", f"hash({MANY})")))
def test_function_is_sparks(oracle: Oracle, sql: str) -> None:
    oracle.check(sql)
