# ruff: noqa: E501 (tables of cases read better in long lines)
"""Datetime patterns: texts that are written and read as `to_json` and `from_json` do with the options of that name."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from base.text.dates import days
from base.text.pattern_columns import _layouts, pattern_texts, pattern_values
from base.text.patterns import BadPattern, Kind, reader, tells_all_apart, writer
from base.text.timestamps import DAY_US

OPTIONS: dict[Kind, str] = {"date": "dateFormat", "timestamp": "timestampFormat", "timestamp_ntz": "timestampNTZFormat"}
TYPES: dict[Kind, str] = {"date": "DATE", "timestamp": "TIMESTAMP", "timestamp_ntz": "TIMESTAMP_NTZ"}

DATES = [
    "yyyy-MM-dd", "yyyyMMdd", "dd.MM.yyyy", "d/M/yyyy", "M/d/yy", "yy-MM-dd", "y-M-d", "yyy-MM-dd", "yyyyy-MM-dd", "yyyyyy/MM/dd",
    "dd MMM yyyy", "d MMMM yyyy", "yyyy-LL-dd", "yyyyDDD", "yyyy-DDD", "yyyy", "MM", "dd", "yyyy-MM", "MM-dd", "''yyyy''-MM-dd'T'", "'o''clock' yyyyMMdd",
    "yyyy-MM-dd[ HH:mm]", "[yyyy-]MM-dd", "yyyy[-MM[-dd]]", "yyyy年MM月dd日", "E yyyy-MM-dd", "EEEE, d. MMMM yyyy", "yyyy 'Q'q", "Q yyyy MM dd",
    "yyyy-MM-dd HH:mm:ss", "yyyy-MM-ddXXX", "MMddyyyy", "yyyyMM", "yyMMdd", "ddMMMyyyy", "MMM d, yyyy",
]  # fmt: skip
TIMES = [
    "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd HH:mm:ss.SSSSSS", "yyyy-MM-dd'T'HH:mm:ss.SSSSSS", "yyyy-MM-dd HH:mm:ss.SSS", "yyyy-MM-dd HH:mm:ss.S",
    "yyyy-MM-dd HH:mm:ss.SSSSSSSSS", "yyyy-MM-dd HH:mm:ss[.SSSSSS]", "yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]", "yyyy-MM-dd'T'HH:mm[:ss[.SSS]]",
    "yyyyMMddHHmmss", "yyyyMMddHHmmssSSS", "yyyyMMdd HHmmssSSS", "yyyyMMdd'T'HHmmss", "dd/MM/yyyy HH:mm", "d.M.yyyy H:m:s", "HH:mm:ss", "mm:ss", "ss.SSS",
    "hh:mm:ss a", "yyyy-MM-dd h:mm a", "hh:mm", "a h", "MM/dd/yyyy hh:mm:ss.SSSSSS a", "yyyy-MM-dd kk:mm", "yyyy-MM-dd KK:mm a", "yyyy DDD HH", "SSSSSS",
    "yyyy-MM-dd HH", "HHmm", "[HH:mm] yyyy", "yyyy-MM-dd[ HH:mm:ss]", "yyyy-MM-dd[ ][HH:mm]",
]  # fmt: skip
ZONED = [
    "yyyy-MM-dd'T'HH:mm:ssXXX", "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "yyyy-MM-dd HH:mm:ssX", "yyyy-MM-dd HH:mm:ssXX", "yyyy-MM-dd HH:mm:ssx",
    "yyyy-MM-dd HH:mm:ssxx", "yyyy-MM-dd HH:mm:ssxxx", "yyyy-MM-dd HH:mm:ssZ", "yyyy-MM-dd HH:mm:ss z", "yyyy-MM-dd HH:mm:ss VV", "XXX yyyy",
    "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX", "yyyy-MM-dd'T'HH:mm:ss[ XXX]", "HHX", "yyyy-MM-dd HH:mm:ss.SSSSSSXX",
]  # fmt: skip
PATTERNS: dict[Kind, list[str]] = {
    "date": DATES,
    "timestamp": [*DATES, *TIMES, *ZONED],
    "timestamp_ntz": [*DATES, *TIMES, *ZONED],
}

MOMENTS = [
    days(y, m, d) * DAY_US + us
    for y, m, d in (
        (1970, 1, 1), (1969, 12, 31), (2024, 2, 29), (2023, 3, 1), (2000, 2, 29), (1900, 2, 28), (1, 1, 1), (0, 12, 31), (0, 2, 29), (-1, 3, 4), (-45, 10, 12),
        (-9999, 1, 1), (-10000, 1, 1), (9999, 12, 31), (10000, 1, 1), (12345, 6, 7), (123456, 7, 8), (290000, 9, 10),
        (-290000, 11, 12), (1582, 10, 10), (2026, 9, 9),
        (2020, 12, 31), (2021, 5, 17),
    )
    for us in (0, 1, 43_200_000_000, 45_296_123_456, 86_399_999_999, 3_723_100_000)
]  # fmt: skip


def supported(kind: Kind, made: Any) -> list[str]:
    found = []
    for pattern in PATTERNS[kind]:
        try:
            made(pattern, kind)
            found.append(pattern)
        except BadPattern:
            pass
    return found


def values_of(kind: Kind) -> list[int]:
    return sorted({us // DAY_US * DAY_US for us in MOMENTS}) if kind == "date" else MOMENTS


def as_kind(kind: Kind) -> Column:
    """Of microseconds since 1970 in the column us."""
    match kind:
        case "date":
            return F.date_from_unix_date((F.col("us") / DAY_US).cast("int"))
        case "timestamp":
            return F.timestamp_micros("us")
        case "timestamp_ntz":
            return F.expr("CAST(timestamp_micros(us) AS TIMESTAMP_NTZ)")


@pytest.mark.long
@pytest.mark.parametrize("kind", OPTIONS)
def test_texts_are_written_as_to_json_does(spark: SparkSession, kind: Kind) -> None:
    chosen = supported(kind, writer)
    assert len(chosen) >= (20 if kind == "date" else 60)
    frame = spark.createDataFrame(pa.table({"us": pa.array(values_of(kind))}))
    value = F.struct(as_kind(kind).alias("v"))
    found = frame.select(*(F.to_json(value, {OPTIONS[kind]: p}).alias(f"c{n}") for n, p in enumerate(chosen))).collect()
    for row, us in zip(found, values_of(kind), strict=True):
        ours = {p: writer(p, kind)(us) for p in chosen}
        theirs = {p: text[len('{"v":"') : -len('"}')] for p, text in zip(chosen, row, strict=True)}
        assert ours == theirs, us


def texts(kind: Kind, chosen: list[str]) -> Iterator[tuple[str, str]]:
    """(pattern, text): what is written, and much that is not."""
    chance = random.Random(7)
    for pattern in chosen:
        some = set()
        for us in chance.sample(values_of(kind), 12 if kind == "date" else 20):
            try:
                some.add(writer(pattern, kind)(us))
            except BadPattern:
                some.add(writer(pattern, "timestamp")(us))
        more = set()
        for text in sorted(some):
            for _ in range(6):
                place = chance.randrange(len(text))
                cut = chance.choice((0, 1, 1, 2))
                more.add(
                    text[:place]
                    + chance.choice(("", "0", "9", "1", "-", "+", " ", "Z", ":", ".", "00", "T", "3"))
                    + text[place + cut :]
                )
            more.update(
                (
                    text.lower(),
                    text.upper(),
                    text + " ",
                    " " + text,
                    text.replace("Z", "+02:00"),
                    text.replace("Z", "-1830"),
                    text.replace("+00", "+18"),
                    text.replace("+00", "-19"),
                    text.replace("Z", "+0530"),
                    text.replace("Z", "+05"),
                    text.replace("+0000", "-0000"),
                )
            )
        more.update(("", "2020-02-30", "2021-02-29", "24:00:00", "2020-1-1", "1600000000", "GMT"))
        for text in sorted(some | more):
            yield pattern, text


def read_by(pattern: str, kind: Kind, text: str) -> int | None:
    us = reader(pattern, kind)(text) if text else None
    return us if us is None or kind != "date" else us // DAY_US


@pytest.mark.parametrize("kind", OPTIONS)
def test_texts_are_read_as_from_json_does(spark: SparkSession, kind: Kind) -> None:
    chosen = supported(kind, reader)
    assert len(chosen) >= (20 if kind == "date" else 45)
    pairs = list(texts(kind, chosen))
    frame = spark.createDataFrame(pa.table({"p": [p for p, _ in pairs], "t": [t for _, t in pairs]}))
    json = F.to_json(F.struct(F.col("t").alias("v")))
    cases = F.lit(None)
    for pattern in chosen:
        value = F.from_json(json, f"v {TYPES[kind]}", {OPTIONS[kind]: pattern})["v"]
        number = {
            "date": lambda v: F.unix_date(v).cast("long"),
            "timestamp": F.unix_micros,
            "timestamp_ntz": lambda v: F.unix_micros(v.cast("timestamp")),
        }[kind](value)
        cases = F.when(F.col("p") == pattern, number).otherwise(cases)
    found = [row[0] for row in frame.select(cases).collect()]
    wrong = [
        (pattern, text, ours, theirs)
        for (pattern, text), theirs in zip(pairs, found, strict=True)
        if (ours := read_by(pattern, kind, text)) != theirs
    ]
    assert not wrong, f"{len(wrong)} of {len(pairs)}: {wrong[:40]}"


@pytest.mark.parametrize(
    ("pattern", "kind", "told"),
    [
        ("yyyy-MM-dd", "date", True), ("dd.MM.yy", "date", False), ("yyyy-MM", "date", False), ("yyyyDDD", "date", True), ("yMd", "date", False),
        ("yyyy-MM-dd HH:mm:ss.SSSSSS", "timestamp", True), ("yyyy-MM-dd HH:mm:ss.SSS", "timestamp", False),
        ("yyyy-MM-dd HH:mm:ss.SSSSSS VV", "timestamp", False),
        ("yyyy-MM-dd HH:mm:ss[.SSSSSS][XXX]", "timestamp_ntz", True), ("hh:mm:ss.SSSSSS a d/M/yyyy", "timestamp", True),
        ("HH:mm:ss.SSSSSS", "timestamp", False),
    ],
)  # fmt: skip
def test_whether_a_pattern_tells_all_values_apart(pattern: str, kind: Kind, told: bool) -> None:
    assert tells_all_apart(pattern, kind) == told


def test_what_is_written_and_tells_all_apart_is_read() -> None:
    for kind, patterns in PATTERNS.items():
        for pattern in patterns:
            if tells_all_apart(pattern, kind):
                for us in values_of(kind):
                    assert reader(pattern, kind)(writer(pattern, kind)(us)) == us, (pattern, us)


def test_the_first_day_is_a_date() -> None:
    assert (
        writer("EEEE d. MMMM yyyy", "date")((date(2024, 2, 29) - date(1970, 1, 1)).days * DAY_US)
        == "Thursday 29. February 2024"
    )


def of_type(kind: Kind) -> pa.DataType:
    return {"date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us")}[kind]


@pytest.mark.parametrize("kind", OPTIONS)
def test_columns_are_written_as_single_values_are(kind: Kind) -> None:
    unit = DAY_US if kind == "date" else 1
    values = [
        *(us // unit for us in values_of(kind)),
        None,
        *((2**31 - 1, -(2**31)) if kind == "date" else (2**63 - 1, -(2**63))),
    ]
    column = pa.array(values, pa.int32() if kind == "date" else pa.int64()).cast(of_type(kind))
    for pattern in supported(kind, writer):
        write = writer(pattern, kind)
        expected = [None if value is None else write(value * unit) for value in values]
        for part, texts_of_part in (
            (column, expected),
            (column.slice(3), expected[3:]),
            (column.filter(column.is_valid()), [e for e in expected if e]),
            (column.slice(0, 0), []),
        ):
            assert pattern_texts(part, pattern).to_pylist() == texts_of_part, pattern


@pytest.mark.parametrize("kind", OPTIONS)
def test_columns_are_read_as_single_texts_are(kind: Kind) -> None:
    unit = DAY_US if kind == "date" else 1
    vectorised = 0
    for pattern in supported(kind, reader):
        of_pattern: list[str | None] = [text for _, text in texts(kind, [pattern])]
        of_pattern[1:1] = [None]
        values, wrong = pattern_values(pa.array(of_pattern), of_type(kind), pattern)
        expected = [None if text is None else (reader(pattern, kind)(text) if text else None) for text in of_pattern]
        found = values.cast(pa.int32()).to_pylist() if kind == "date" else values.cast(pa.int64()).to_pylist()
        assert found == [us if us is None else us // unit for us in expected], pattern
        assert wrong.tolist() == [
            text is not None and us is None for text, us in zip(of_pattern, expected, strict=True)
        ], pattern
        vectorised += bool(_layouts(pattern, kind))
    assert vectorised > (10 if kind == "date" else 20)
