# ruff: noqa: E501 (tables of cases read better in long lines)
"""Variants: parse_json, variant_get and casts have Spark's answers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from base.text.variants import VARIANT, Step
from engine.expressions.evaluate import evaluate
from engine.expressions.functions import variants
from engine.expressions.generic import function_name
from engine.model.node import Expression
from stepwell.catalyst.types import arrow_type
from stepwell.lowering.expressions import UnsupportedExpression
from tests.sampling import sampled
from tests.stepwell.expressions import edges
from tests.stepwell.expressions.harness import Oracle, plain, same
from tests.stepwell.expressions.test_damaged_json import _WHOLE, _damaged, _shown

TEXTS_IN_THE_SUITE = 800
_WIDE = "a VARIANT, b STRING, c STRUCT<d: VARIANT, e: INT>, l ARRAY<VARIANT>, ls VARIANT, m MAP<STRING, VARIANT>, _corrupt_record STRING"
_V = "try_parse_json(js)"
CASES = [
    "to_json(parse_json(js))", "to_json(try_parse_json(js))", "to_json(try_parse_json(s))", "to_json(try_parse_json(num))", "to_json(parse_json(cast(10 div k AS string)))",
    "to_json(struct(try_parse_json(js) AS a, i))", "to_json(struct(try_parse_json(js) AS a, i), map('ignoreNullFields', 'false'))", "to_json(array(try_parse_json(js), NULL))", "to_json(map('x', try_parse_json(js)))",
    f"is_variant_null({_V})", "is_variant_null(parse_json(js))", f"is_valid_variant({_V})", f"{_V} IS NULL", f"to_json(coalesce({_V}, parse_json('[1, 2.50, 1e3]')))", f"to_json(CASE WHEN i > 0 THEN {_V} ELSE try_parse_json(num) END)",
    f"to_json(if(o, {_V}, NULL))", f"named_struct('v', {_V}).v IS NULL", f"to_json(array({_V}, try_parse_json(s))[1])", f"to_json(transform(array({_V}), x -> x:a))", f"size(filter(array({_V}, try_parse_json(num)), x -> x IS NOT NULL))", f"to_json(element_at(map('a', {_V}), 'a'))",
    *(f"variant_get({_V}, '{path}', '{kind}')" for path, kind in (
        ("$", "string"), ("$.a", "int"), ("$.a", "bigint"), ("$.b", "string"), ("$.c.d", "double"), ("$.l", "array<int>"), ("$.l[1]", "string"), ("$.ls[0].e", "decimal(5,2)"), ("$[0]", "boolean"), ("$.c", "map<string,string>"), ("$.c", "struct<d: int, e: string>"))),
    *(f"try_variant_get({_V}, '{path}', '{kind}')" for path, kind in (
        ("$", "string"), ("$.a", "int"), ("$.a", "string"), ("$.b", "bigint"), ("$.c.d", "float"), ("$.l", "array<int>"), ("$.l", "array<string>"), ("$.ls", "array<struct<d: int, e: string>>"), ("$.ls[0].e", "decimal(5,2)"), ("$.c", "map<string,int>"),
        ("$.c", "struct<d: int, e: string>"), ("$", "struct<a: int, c: struct<d: string>>"), ("$.ts", "timestamp"), ("$.dt", "date"), ("$.o", "boolean"), ("$.d", "double"), ("$.m", "decimal(10,2)"), ("$.x", "binary"), ("$.l[1].a", "int"), ("$[1]", "string"))),
    f"to_json(try_variant_get({_V}, '$.a'))", f"to_json({_V}:c.d)", f"{_V}:c.d::string", f"to_json({_V}:l[0])", f"cast({_V}:a AS int)", f"try_cast({_V}:a AS int)", f"try_cast({_V} AS array<int>)", f"try_cast({_V} AS struct<a: int>).a", f"cast({_V} AS string)", "cast(try_parse_json(num) AS double)",
    f"to_json(cast({_V} AS variant))", f"try_variant_get({_V}, u, 'int')", f"try_variant_get({_V}, concat('$.', nullif(u, '')), 'string')", f"variant_get({_V}, cast(NULL AS string), 'int')", f"try_variant_get({_V}, '$.l', 'array<variant>') IS NULL", f"to_json(try_variant_get({_V}, '$.l', 'array<variant>'))", f"to_json(try_variant_get({_V}, '$', 'map<string, variant>'))", f"to_json(try_variant_get({_V}, '$', 'struct<a: variant, c: variant>'))",
    *(f"to_json(cast({column} AS variant))" for column in ("s", "i", "b", "l", "o", "d", "m", "w", "q")), "cast(cast(m AS variant) AS string)", f"to_json(ifnull({_V}, s))", "to_json(cast(NULL AS variant))", "to_json(try_cast(s AS variant))", "cast(cast(10 div k AS variant) AS int)",
    f"transform(cast({_V} AS array<variant>), x -> try_cast(x AS int))", "cast(parse_json(cast(10 div k AS string)) AS int)", "try_cast(parse_json(cast(10 div k AS string)):a AS int)", "parse_json(concat('{\"a\":', 10 div k, '}')):a::string", "try_cast(parse_json(concat('{\"a\":', 10 div k, '}')):a AS array<int>)", "to_json(from_json(js, 'variant'))", "to_json(from_json(js, 'a VARIANT, b STRING'))", "to_json(from_json(js, 'ARRAY<VARIANT>'))", "to_json(from_json(nullif(js, concat('{\"a\":', right(js, length(js) - 5))), 'MAP<STRING, VARIANT>'))", "to_json(from_json(js, 'a VARIANT', map('mode', 'FAILFAST')))",
    f"to_json(from_json(js, '{_WIDE}'))", "parse_json('{\"b\": [1, 1.50, 1e300, null], \"a\": {\"x\": \"y\\'\"}}'):b[1]::string", "to_json(array(parse_json('1'), parse_json('\"x\"')))", "variant_get(parse_json('null'), '$', 'int')", "to_json(parse_json(NULL))", "try_variant_get(parse_json('[{\"a\": 1}]'), '$[0].a', 'int') + i",
    "to_json(to_variant_object(struct(s, i, b, o, d, m, w, q)))", "to_json(to_variant_object(array(d, 1.5D, NULL)))", "to_json(to_variant_object(map(u, i)))", f"to_json(to_variant_object(array(struct({_V} AS v, map('b', 1, 'a', i) AS m))))",
]  # fmt: skip


@pytest.mark.parametrize("sql", sampled(CASES, 3))
def test_function_of_variants_is_sparks(oracle: Oracle, sql: str) -> None:
    oracle.check(sql)


_VALUES = [
    "null", "true", "false", "0", "1", "-1", "127", "128", "-129", "32768", "2147483647", "2147483648", "16777217", "9007199254740993", "9223372036854", "9223372036855", "-9223372036855", "9223372036854775807", "-9223372036854775808", "1577836800",
    "9223372036854775808", "99999999999999999999999999999999999999", "1.5", "-1.5", "2.5", "0.5", "1.0", "10.50", "100.00", "0.000", "-0.0", "127.9", "128.0", "-128.9", "0.005", "0.0000001", "1.2345678", "-1.2345678", "1577836800.1234567", "-1577836800.1234567", "0.1", "16777217.0", "3.4028236000000000", "9223372036854.775807", "9223372036854.775808", "12345678901234567890.123456789",
    "1e0", "-0e0", "1.5e0", "-1.9e0", "127.9e0", "128e0", "1e10", "9.3e18", "1e20", "1e39", "1e400", "-1e400", "4.9e-324", "1e-7", "1.2345678901234567e0", "9.2e12", "9.3e12", "-0.0000005e0", "1.0e7",
    '""', '"a"', '"1"', '" 1 "', '"+1"', '"1.5"', '".5"', '"1e2"', '"1.5f"', '"NaN"', '"Infinity"', '"inf"', '"0x10"', '"300"', '"99999999999999999999"', '"true"', '" T "', '"yes"', '"0"', '"2020-01-01"', '"2020-1-1"', '"2020-01-01T01:02:03.123456Z"', '"2020-01-01 01:02:03.5+02:00"', '"2020-13-01"', '"12345-01-01"', '"é😀\\n"', '"null"', '"1 02:03:04"',
    "[]", "[1]", '[1, "2", null, true, 2.5, [3], {"a": 4}]', "[[1, 2], [], null]", '[{"a": 1, "b": [1]}, {"b": ["x"]}, null]', "{}", '{"a": 1}', '{"b": [1, 2.50, 1e5], "a": null}', '{"a": {"a": "5"}, "c": "x"}', '{"a": "x", "A": 2}', '{"a": [{"b": 1}], "b": [true]}', '{"\\u0000": "\\u001f", "a": "\\""}',
]  # fmt: skip
_TYPES = [
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(5,2)", "decimal(2,2)", "decimal(38,0)", "decimal(38,10)", "decimal(38,38)", "string", "binary", "date", "timestamp", "timestamp_ntz",
    "array<int>", "array<string>", "array<array<bigint>>", "array<struct<a: int, b: array<int>>>", "map<string, int>", "map<string, string>", "map<string, array<double>>", "struct<a: int>", "struct<a: string, b: array<double>>", "struct<a: struct<a: int>, c: string>", "array<map<string, decimal(3,1)>>", "array<timestamp>",
]  # fmt: skip


def _spark_has(spark: SparkSession, texts: list[str], written: str, kind: str) -> list[Any]:
    """What the expression over the column `s` gives for each text."""
    spark.createDataFrame(list(enumerate(texts)), "n int, s string").createOrReplaceTempView("texts_of_variants")
    query = f"SELECT n, {written} AS r FROM texts_of_variants"
    rows = pa.Table.from_batches(spark.sql(query)._collect_as_arrow()).sort_by("n").column("r")
    return plain(rows.combine_chunks().cast(arrow_type(_plain_type(spark, kind))))


def _plain_type(spark: SparkSession, kind: str) -> Any:
    return spark.sql(f"SELECT CAST(NULL AS {kind}) AS c").schema.jsonValue()["fields"][0]["type"]


def _ours(texts: list[str], kind: pa.DataType, path: Sequence[Step] = ()) -> list[Any]:
    parse = function_name("parse_json", [pa.string()], VARIANT, {"fail": False})
    get = function_name("variant_get", [VARIANT], kind, {"fail": False, "path": list(path)})
    return plain(evaluate(None, (Expression(f"{get}({parse}(c0))", kind),), pa.table({"c0": texts})).column(0))


@pytest.mark.parametrize("kind", sampled(_TYPES, 3))
def test_every_value_is_cast_to_every_type_as_in_spark(spark: SparkSession, kind: str) -> None:
    expected = _spark_has(spark, _VALUES, f"try_variant_get(parse_json(s), '$', '{kind}')", kind)
    type_ = arrow_type(_plain_type(spark, kind))
    as_parts = [f'{{"x":{{"z":null,"y":[{value}]}}}}' for value in _VALUES]
    for ours in (_ours(_VALUES, type_), _ours(as_parts, type_, ["x", "y", 0])):
        wrong = [case for case in zip(_VALUES, expected, ours, strict=True) if not same(case[1], case[2], 0)]
        assert not wrong, f"{kind}: (value, Spark, ours): {wrong}"


def test_usual_parts_go_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the comparison with Spark would see one way alone. The other way gives the same, also where there is nothing."""
    texts = [
        '{"a":{"l":[1,2]}}',
        '{"a":{"l":[3]}}',
        '{"a":{"l":[]}}',
        '{"a":{"l":null}}',
        '{"a":null}',
        "{}",
        '{"a":{"l":[4,5,6]}}',
        "null",
    ]
    paths: list[list[Step]] = [["a", "l", 1], ["a", "l", 0], ["a", "l"], ["a"]]
    kinds = [
        pa.int64(),
        pa.int32(),
        pa.list_(pa.field("element", pa.int64())),
        pa.map_(pa.string(), pa.list_(pa.int64())),
    ]
    slow = []
    with monkeypatch.context() as slowly:
        slowly.setattr(variants, "usual_parts", lambda *_: None)
        slow = [_ours(texts, kind, path) for kind, path in zip(kinds, paths, strict=True)]
    assert slow[0] == [2, None, None, None, None, None, 5, None]
    read: list[Any] = []
    monkeypatch.setattr(variants, "_at", lambda text, *_: read.append(text))
    assert [_ours(texts[:-1], kind, path) for kind, path in zip(kinds, paths, strict=True)] == [
        each[:-1] for each in slow
    ]
    assert not read


def _random_json(chance: random.Random, depth: int = 0) -> str:
    kind = chance.random()
    blank = chance.choice(["", "", "", " ", "\n\t"])
    if kind < 0.2 and depth < 4:
        parts = [_random_json(chance, depth + 1) for _ in range(chance.randrange(4))]
        return f"[{blank}{','.join(parts)}{blank}]"
    if kind < 0.5 and depth < 4:
        names = chance.sample(
            ["a", "b", "é", "😀", "\uffff", "\ue000", "", "a\\nb", "\\u00e9x", "Z", "\\ud83d\\ude00y", '\\"'],
            chance.randrange(5),
        )
        return (
            "{" + ",".join(f'{blank}"{name}"{blank}:{_random_json(chance, depth + 1)}' for name in names) + blank + "}"
        )
    if kind < 0.6:
        return chance.choice(["true", "false", "null"])
    if kind < 0.75:
        return (
            '"'
            + "".join(
                chance.choices(
                    [
                        "x",
                        "é",
                        "\\n",
                        "\\u0001",
                        "\\u001F",
                        "\\/",
                        "😀",
                        "\\ud83d\\ude00",
                        "1.5",
                        "e",
                        "\\\\",
                        '\\"',
                        "\ue000",
                        "\ue001",
                        "NaN",
                    ],
                    k=chance.randrange(5),
                )
            )
            + '"'
        )
    digits = (
        "".join(chance.choices("0123456789", k=chance.choice([1, 3, 10, 18, 19, 20, 38, 39, 45]))).lstrip("0") or "0"
    )
    fraction = (
        "." + "".join(chance.choices("0012345", k=chance.choice([1, 2, 5, 37, 38, 39])))
        if chance.random() < 0.5
        else ""
    )
    exponent = (
        chance.choice(["e", "E"]) + chance.choice(["", "+", "-"]) + str(chance.randrange(330))
        if chance.random() < 0.2
        else ""
    )
    return chance.choice(["", "-"]) + digits + fraction + exponent


_STRANGE = [
    "", " ", "null", " null", "null x", "1 x", "1x", '{"a":1}x', "NaN", "-Infinity", "01", "-01", "+1", ".5", "1.", "-", "1e", '"a', "'a'", "{'a':1}", "{a:1}", '"\\\'"', '"a\tb"', '"\\ud83d"', '"\\ude00\\ud83d"', '{"\\ud83d":1}', '{"a":1,"a":2}', '[{"x":{"a":1,"a":2}}]', '{"a":1,}', "[1,]", "[1,,2]", "//c\n1",
    "/*c*/1", "tru", "truex", "true x", "\ufeff1", "1\x00", "[1]]", '"a"x', "1 \x01", "[1 2]", "\xa01", '{"a":NaN}', "[" * 999 + "]" * 999, "[" * 1000 + "]" * 1000, "[" * 1001 + "]" * 1001, "1" * 999, "1" * 1000, "1" * 1001, "0." + "1" * 998, f'{{"{"n" * 50_000}":1}}', f'{{"{"n" * 50_001}":1}}', f'["{"s" * 60_000}"]', '{"a":1,"\\u0061":2}', '{"":1,"":2}', "[1e400,-1e400]", "1e99999", "1" * 38 + "." + "1" * 38,
]  # fmt: skip


def _compare_texts(spark: SparkSession, texts: list[str]) -> None:
    expected = _spark_has(spark, texts, "to_json(try_parse_json(s))", "string")
    parse = function_name("parse_json", [pa.string()], VARIANT, {"fail": False})
    write = function_name("to_json", [VARIANT], pa.string(), {"nulls": False})
    ours = plain(evaluate(None, (Expression(f"{write}({parse}(c0))", pa.string()),), pa.table({"c0": texts})).column(0))
    wrong = [case for case in zip(texts, expected, ours, strict=True) if _shown(case[1]) != _shown(case[2])]
    assert not wrong, (
        f"{len(wrong)} of {len(texts)} differ (text, Spark, ours): {[tuple(str(part)[:300] for part in case) for case in wrong[:5]]}"
    )


def test_strange_texts_are_read_or_refused_as_in_spark(spark: SparkSession) -> None:
    _compare_texts(spark, _STRANGE)


def _compare_random_texts(spark: SparkSession, count: int, seed: int) -> None:
    chance = random.Random(seed)
    whole = [_random_json(chance) for _ in range(count)]
    _compare_texts(spark, [*whole, *(_damaged(chance, text) for text in whole)])


@pytest.mark.long
def test_random_texts_are_read_as_in_spark(spark: SparkSession) -> None:
    _compare_random_texts(spark, TEXTS_IN_THE_SUITE, seed=1)


@pytest.mark.soak
def test_many_random_texts_are_read_as_in_spark(spark: SparkSession) -> None:
    for seed in range(10):
        _compare_random_texts(spark, 5_000, seed=seed)


def _compare_damaged(spark: SparkSession, count: int, seed: int) -> None:
    """What from_json keeps of damaged texts, in columns with variants at every depth."""
    chance = random.Random(seed)
    whole = [text for text in edges._JSON if text] + list(_WHOLE) * 15
    texts = sorted({_damaged(chance, chance.choice(whole)) for _ in range(count)})
    for ddl in _OF_DAMAGED:
        expected = _spark_has(spark, texts, f"to_json(from_json(s, '{ddl}'))", "string")
        kind = arrow_type(_plain_type(spark, ddl if ddl in ("variant", "array<variant>") else f"struct<{ddl}>"))
        corrupt = "_corrupt_record" if "_corrupt_record" in ddl else None
        read = function_name("from_json", [pa.string()], kind, {"fail": False, "corrupt": corrupt})
        write = function_name("to_json", [kind], pa.string(), {"nulls": False})
        rows = evaluate(None, (Expression(f"{write}({read}(c0))", pa.string()),), pa.table({"c0": texts}))
        cases = zip(texts, expected, plain(rows.column(0)), strict=True)
        wrong = [case for case in cases if _shown(case[1]) != _shown(case[2])]
        assert not wrong, f"{ddl}: {len(wrong)} of {len(texts)} differ (text, Spark, ours): {wrong[:5]}"


_OF_DAMAGED = [
    "variant", "array<variant>", "a variant, c variant, l variant, ls variant, _corrupt_record string",
    "a string, l array<variant>, c struct<d: variant, e: int>, ls array<struct<d: variant, e: string>>, d double",
]  # fmt: skip


@pytest.mark.long
def test_what_spark_keeps_of_damaged_variants_is_kept(spark: SparkSession) -> None:
    _compare_damaged(spark, TEXTS_IN_THE_SUITE, seed=1)


@pytest.mark.soak
def test_what_spark_keeps_of_many_damaged_variants_is_kept(spark: SparkSession) -> None:
    for seed in range(10):
        _compare_damaged(spark, 5_000, seed=seed)


_PATHS = [
    "$", "$.a", "$ . a", "$.a.b c[0]", " $.a", "$.a ", "$.a. a", '$.a["b c"][1].x', "$.a['b c'][ 1 ]", '$.a["b c"][-1]', '$.a["b c"][9]', '$.a["b c"][01]', '$.a["b c"][2147483647]', '$.a["b c"][2147483648]', "$.日", "$.a.日", "$.a['it\\'s']", '$.a["it\'s"]', "$.a['q\"q']", '$.a["?"]', "$.a.?", "$.a['a.b']", "$.a['[0]']", "$.a['']", "$.a[]", "$.a[*]", "$.*",
    "$[0]", "$a", "", "a", "$['a']['a']", '$.a[ "a" ]', '$.a["a ]', "$..a", "$.", "$.a.it's", "$.a[' a ']", '$.a["b c"].x', '$.a["b c"][٣]', "$.a.a.", "$.a]", "$.a.x]", "$.a['x]']", "$.a['a'b']", "$['a'].a", "$['a']a", "$.a\n", "$.\n", "$.a['\n']", '$.a["\\"]', "$.a['a", "$.a[0", "$.a.a[0]", "$[\"a\"]['a']",
]  # fmt: skip


def test_paths_are_sparks(spark: SparkSession) -> None:
    """Each alone, because one that is none is an error whether the cast is tried or not."""
    from base.text.variants import path_steps

    jvm = spark.sparkContext._jvm
    parser = getattr(jvm, "org.apache.spark.sql.catalyst.expressions.variant.VariantPathParser")
    for path in _PATHS:
        parsed = parser.parse(path)
        assert (path_steps(path) is not None) == parsed.isDefined(), path
        if parsed.isDefined():
            shown = [str(step.toString()) for step in parsed.get()]
            ours = [
                f"ObjectExtraction({s})" if isinstance(s, str) else f"ArrayExtraction({s})"
                for s in path_steps(path) or ()
            ]
            assert ours == shown, path


def test_a_constant_has_the_kinds_of_its_numbers(oracle: Oracle) -> None:
    """The JVM gives them in its binary form, from which each kind is read."""
    text = '[1, 1.0, 1e0, -0.5, 99999999999999999999, true, null, "é", {"b": [], "a": {}}, 70000, -5000000000, 1.23456789012345678901, "long"]'
    lowered = oracle.lower(f"to_json(if(o, parse_json('{text}'), NULL))")
    literals = [part for part in lowered.tree.walk() if part.kind == "Literal" and part["dataType"] == "variant"]
    expected = '[1,1.0,1.0e0,-0.5,99999999999999999999,true,null,"é",{"a":{},"b":[]},70000,-5000000000,1.23456789012345678901,"long"]'
    assert [part["value"] for part in literals if part["value"] is not None] == [expected]


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("to_json(cast(f AS variant))", "FLOAT to VARIANT"),
        ("to_json(cast(ts AS variant))", "TIMESTAMP to VARIANT"),
        ("to_json(array(cast(dt AS variant)))", "DATE to VARIANT"),
        ("to_json(to_variant_object(struct(ts)))", "TIMESTAMP to VARIANT"),
        ("to_json(to_variant_object(array(map('a', f))))", "FLOAT to VARIANT"),
        ("schema_of_variant(parse_json(js))", "schemaOfVariant"),
        ("to_json(try_variant_get(parse_json(js), '$', 'struct<a: int, A: int>'))", "two fields of one name"),
        ("to_json(variant_insert(parse_json(js), '$.a', 1))", "VariantInsert"),
        ("named_struct('$variant', s)", "`.variant`: STRING"),
        ("to_json(if(o, cast(date'2020-01-01' AS variant), NULL))", "a literal of type variant"),
    ],
)
def test_what_is_not_supported_of_variants_is_refused_by_name(oracle: Oracle, sql: str, what: str) -> None:
    with pytest.raises(UnsupportedExpression, match=what):
        oracle.lower(sql)
