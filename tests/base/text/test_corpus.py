"""CAST and the JSON reader read every text of the corpus as Spark's two functions do, and differ only where those differ."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession

from base.text import timestamps
from tests.base.text import corpus
from tests.sampling import sampled


@dataclass(frozen=True)
class Difference:
    """A text that CAST and `from_json` read differently, in Spark and so in Stepwell; docs/sql.md has the same list."""

    types: str
    reads: str  # which of the two has a value; "both": another one each
    holds: Callable[[str], bool]


_OF_DECIMALS, _OF_FLOATS = r"DECIMAL.*", r"DOUBLE|FLOAT"
_JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?|[+-]INF|[+-]?Infinity|NaN")
DIFFERENCES = {
    "GMT is left out": Difference("DATE|TIMESTAMP", "json", lambda text: "GMT" in text),
    "days since 1970": Difference("DATE", "json", lambda text: re.fullmatch(r"[+-]?\d+", text) is not None),
    "zone is ignored": Difference("TIMESTAMP_NTZ", "cast", lambda text: timestamps.timestamp_us(text) is not None),
    "blanks around": Difference(_OF_DECIMALS, "cast", lambda text: text != text.strip(corpus.JAVA_BLANK)),
    "commas": Difference(_OF_DECIMALS, "json", lambda text: "," in text),
    "far below zero": Difference(_OF_DECIMALS, "cast", lambda text: re.search(r"e-[0-9]{9,10}$", text) is not None),
    "not a number of JSON": Difference(_OF_FLOATS, "cast", lambda text: not _JSON_NUMBER.fullmatch(text)),
    "an integer has no -0": Difference(_OF_FLOATS, "both", lambda text: text == "-0"),
    "digits of a number": Difference(_OF_FLOATS, "cast", lambda text: len(text) > 1000),
}


def _reading(of_cast: object, of_json: object) -> str:
    return "json" if of_cast is None else "cast" if of_json is None else "both"


def test_cast_and_json_differ_only_where_the_list_says() -> None:
    met = set()
    for ddl, kind in corpus.TYPES.items():
        texts = corpus.texts_of(ddl)
        for text, ours, messages in zip(texts, corpus.cast(texts, kind), corpus.from_message(texts, kind), strict=True):
            if ours == messages:
                continue
            found = {
                name
                for name, difference in DIFFERENCES.items()
                if re.fullmatch(difference.types, ddl)
                and difference.reads == _reading(ours, messages)
                and difference.holds(text)
            }
            assert found, f"{text[:80]!r} as {ddl}: CAST {ours!r}, JSON {messages!r}"
            met |= found
    assert met == DIFFERENCES.keys(), f"no text of the corpus shows {DIFFERENCES.keys() - met}"


def test_the_list_of_differences_is_in_the_documentation() -> None:
    documented = corpus.ROOT.joinpath("docs", "sql.md").read_text()
    for name in DIFFERENCES:
        assert f"| {name} |" in documented, name


def _asked_of_spark(ddl: str) -> list[str]:
    """A time without a date is today's in Spark, and refused by us; the corpus names it where both of ours are compared."""
    return [text for text in corpus.texts_of(ddl) if not timestamps.is_time_of_day(text)]


def _differing(texts: list[str], sparks: list[object], ours: list[object]) -> list[tuple[str, object, object]]:
    return [(text[:80], s, o) for text, s, o in zip(texts, sparks, ours, strict=True) if s != o]


@pytest.mark.long
@pytest.mark.parametrize("ddl", sampled([*corpus.TYPES, *corpus.CAST_ONLY], 3))
def test_cast_reads_as_spark(spark: SparkSession, ddl: str) -> None:
    texts = _asked_of_spark(ddl)
    kind = {**corpus.TYPES, **corpus.CAST_ONLY}[ddl]
    assert not _differing(texts, corpus.sparks_cast(spark, texts, ddl), corpus.cast(texts, kind))


@pytest.mark.long
@pytest.mark.parametrize("ddl", corpus.TYPES)
def test_json_is_read_as_by_spark(spark: SparkSession, ddl: str) -> None:
    texts = _asked_of_spark(ddl)
    ours = corpus.from_message(texts, corpus.TYPES[ddl])
    assert not _differing(texts, corpus.sparks_from_json(spark, texts, ddl), ours)
