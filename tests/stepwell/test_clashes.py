"""Topics that two definitions use in ways that exclude each other are refused, with both places."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from stepwell.errors import Location, ProjectErrors
from stepwell.planning.resolver import resolve, resolve_with_errors
from stepwell.project.clashes import clashes
from stepwell.project.tables import OutputSpec, SourceSpec
from tests.stepwell.folder import project


def source(handle: str, *topics: str, line: int = 1, **more: Any) -> SourceSpec:
    spec = SourceSpec(handle, topics, "append", (), StructType(), "earliest", "fail", None, Location("a.sql", line))
    return replace(spec, **more)


def letters(handle: str, topic: str, to: str, line: int = 1) -> SourceSpec:
    return source(handle, topic, line=line, on_error="dead-letter", dead_letter_topic=to)


def output(handle: str, topic: str, line: int = 9) -> OutputSpec:
    return OutputSpec(
        handle=handle, topic=topic, mode="append", key=(), partitions=None, location=Location("b.sql", line)
    )


CLASHES: list[tuple[list[SourceSpec], list[OutputSpec], list[str]]] = [
    (
        [],
        [output("v", "x.y", 1), output("w", "x_y", 2), output("z", "x-y", 3)],
        [
            r"b\.sql:2: w: the output w would be written to topic x_y, .* from topic x\.y, which gets the output v \(b\.sql:1\): Kafka refuses"
        ],
    ),
    (
        [source("s", "a_b.c"), letters("m", "t", "d.l", 2), letters("n", "t", "d_l", 3), letters("o", "t", "d.l", 4)],
        [output("v", "a_b_c")],
        [
            r"b\.sql:9: v: the output v would be .* from topic a_b\.c, which s reads \(a\.sql:1\)",
            r"a\.sql:3: n: the malformed messages of n would be .* d_l, .* from topic d\.l, which gets the malformed messages of m",
        ],
    ),
    (
        [source("s", "stepwell_p_plans")],
        [output("v", "stepwell.p_steps"), output("w", "stepwell_p.report"), output("z", "stepwell_other_steps")],
        [
            r"a\.sql:1: s: s reads topic stepwell_p_plans, .* from one that Stepwell has for this pipeline",
            r"b\.sql:9: v: the output v would be written to topic stepwell\.p_steps, .* from one that Stepwell has",
        ],
    ),
    (
        [],
        [output("v", "o", 1), output("w", "o", 2)],
        [r"b\.sql:2: w: topic o gets the output w, and also the output v \(b\.sql:1\)\n.*UNION ALL"],
    ),
    (
        [source("s", "t")],
        [output("v", "t")],
        [r"b\.sql:9: v: topic t gets the output v, and s reads it \(a\.sql:1\)\n.*Read the view itself \(v\)"],
    ),
    (
        [source("kafka(a, t)", "a", "t", format="record")],
        [output("v", "t")],
        [r"v: topic t gets the output v, and kafka\(a, t\) reads it \(a\.sql:1\)"],
    ),
    (
        [source("kafka(pattern t.*)", pattern="t.*", format="record")],
        [output("v", "tt"), output("w", "att")],
        [r"v: topic tt gets the output v, and kafka\(pattern t\.\*\) reads it by the pattern t\.\* \(a\.sql:1\)"],
    ),
    (
        [letters("s", "t", "d", 3), source("other", "d", line=4)],
        [],
        [
            r"a\.sql:3: s: topic d gets the malformed messages of s, and other reads it \(a\.sql:4\)\n.*letters of letters"
        ],
    ),
    ([letters("s", "t", "t")], [], [r"topic t gets the malformed messages of s, and s reads it \(a\.sql:1\)"]),
    (
        [letters("s", "t", "t.dead-letter"), source("p", pattern="t.*", line=2)],
        [],
        [r"topic t\.dead-letter gets the malformed messages of s, and p reads it by the pattern t\.\* \(a\.sql:2\)"],
    ),
    (
        [letters("s", "t", "o", 5)],
        [output("v", "o")],
        [r"a\.sql:5: s: topic o gets the malformed messages of s, and also the output v \(b\.sql:9\)\n.*dead\.letter"],
    ),
    (
        [source("s", "t"), source("r", "t", line=2, starting_offsets="latest")],
        [],
        [r"a\.sql:2: r: topic t is read from latest here, and from earliest at a\.sql:1\n.*the same startingOffsets"],
    ),
    (
        [source("s", "t"), source("r", "t", line=2, starting_offsets='{"t": {"0": 4}}')],
        [],
        [r'a\.sql:2: r: topic t is read from offsets \{"0": 4\} here, and from earliest at a\.sql:1'],
    ),
    ([source("s", "stepwell.p.steps")], [], [r"a\.sql:1: s: topic stepwell\.p\.steps is one of Stepwell's own"]),
    ([source("s", "stepwell.p.table.ab")], [], [r"topic stepwell\.p\.table\.ab is one of Stepwell's own"]),
    ([], [output("v", "stepwell.p.steps")], [r"the output v would be written to topic stepwell\.p\.steps"]),
    ([], [output("v", "stepwell.other.steps")], [r"the output v would be written to topic stepwell\.other\.steps"]),
    ([], [output("v", "stepwell.q.plans")], [r"the output v would be written to topic stepwell\.q\.plans"]),
    ([], [output("v", "stepwell.q.table.a1")], [r"the output v would be written to topic stepwell\.q\.table\.a1"]),
    (
        [letters("s", "t", "stepwell.p.steps")],
        [],
        [r"the malformed messages of s would be written to topic stepwell\.p\.steps"],
    ),
    (
        [source("s", "t")],
        [output("v", "t", 1), output("w", "t", 2)],
        [
            r"also the output v",
            r"v: topic t gets the output v, and s reads",
            r"w: topic t gets the output w, and s reads",
        ],
    ),
]


@pytest.mark.parametrize(("sources", "outputs", "says"), CLASHES)
def test_a_clash_names_both_places(sources: list[SourceSpec], outputs: list[OutputSpec], says: list[str]) -> None:
    found = [str(error) for error in clashes("p", sources, outputs)]
    assert len(found) == len(says) and all(re.search(text, error) for text, error in zip(says, found, strict=True)), (
        found
    )


FINE: list[tuple[list[SourceSpec], list[OutputSpec]]] = [
    ([source("s", "t"), source("r", "t", key=("k",), mode="upsert")], [output("v", "o")]),
    ([letters("s", "t", "d"), letters("r", "u", "d")], [output("v", "o")]),
    ([source("s", "t", starting_offsets="earliest"), source("r", "t", starting_offsets='{"t": {"0": -2}}')], []),
    ([source("s", "stepwell.other.steps")], []),
    ([source("table x", "stepwell.p.table.ab", format="table")], []),
    ([source("p", pattern="t.*")], [output("v", "at"), output("w", "T1")]),
    ([source("s", "t", dead_letter_topic=None)], [output("v", "t.dead-letter")]),
]


@pytest.mark.parametrize(("sources", "outputs"), FINE)
def test_what_does_not_exclude_each_other_passes(sources: list[SourceSpec], outputs: list[OutputSpec]) -> None:
    assert clashes("p", sources, outputs) == []


def test_dry_run_and_run_refuse_them_in_every_kind_of_definition(tmp_path: Path, spark: SparkSession) -> None:
    found = project(tmp_path, {
        "a.sql": """
            CREATE STREAMING TABLE s (k STRING) USING kafka TBLPROPERTIES ('subscribe' = 't', 'on.error' = 'dead-letter');
            CREATE STREAMING TABLE r (k STRING) USING kafka TBLPROPERTIES ('subscribe' = 't', 'startingOffsets' = 'latest');
            CREATE MATERIALIZED VIEW v TBLPROPERTIES ('topic' = 'o') AS SELECT k FROM s;
            """,
        "b.py": """
            from pyspark import pipelines as dp
            dp.create_sink("sunk", "kafka", {"topic": "o"})
            @dp.append_flow(target="sunk")
            def f(): return spark.readStream.format("kafka").option("subscribePattern", "t.*").option("startingOffsets", "earliest").load()
            @dp.materialized_view(table_properties={"topic": "t"})
            def w(): return spark.table("s")
            """,
    })  # fmt: skip
    _, errors = resolve_with_errors(found, spark)
    texts = sorted(str(error) for error in errors)
    expected = [
        r"a\.sql:1: s: topic t\.dead-letter gets the malformed messages of s, and kafka\(pattern t\.\*\) reads it by the pattern .*b\.py:4",
        r"a\.sql:2: r: topic t is read from latest here, and from earliest at .*a\.sql:1",
        r"b\.py:2: sunk: topic o gets the output sunk, and also the output v .*a\.sql:3",
        r"b\.py:5: w: topic t gets the output w, and kafka\(pattern t\.\*\) reads it by the pattern t\.\* .*b\.py:4",
        r"b\.py:5: w: topic t gets the output w, and r reads it .*a\.sql:2",
        r"b\.py:5: w: topic t gets the output w, and s reads it .*a\.sql:1",
    ]
    assert len(texts) == len(expected), texts
    assert all(re.search(says, text) for says, text in zip(expected, texts, strict=True)), texts
    with pytest.raises(ProjectErrors, match="gets the output sunk"):
        resolve(found, spark)
