# ruff: noqa: E501 (tables of cases read better in long lines)
"""The description of a project before it runs."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from pyspark.sql import SparkSession

from base.text.patterns import Patterns
from stepwell.inspection.dry_run import describe
from tests.stepwell.lowering.projects import Workbench, output


def _bench(spark: SparkSession) -> Workbench:
    bench = Workbench(spark).source("flights", "carrier string, delay bigint")
    return bench.source("airlines", "carrier string, name string", "upsert", ("carrier",)).source("spare", "a int")


def test_a_view_is_shown_with_its_exchanges_traces_and_why_it_retracts(spark: SparkSession) -> None:
    query = "SELECT name, max(delay) AS top FROM flights JOIN airlines USING (carrier) GROUP BY name"
    bench = _bench(spark).view("worst", query, output=output("worst", "upsert", ("name",)))
    description = describe(bench.project())
    assert not description.errors
    assert description.text().splitlines()[0] == (
        "materialized view worst (transformations/views.sql:1): reads flights, airlines; topic worst, mode upsert by name; can take rows back"
    )
    assert "exchange by" not in description.text(), "what nobody has asked for"
    text = description.text({"worst"})
    for line in (
        "  reads flights, airlines; topic worst, mode upsert by name",
        "  can take rows back: source airlines has a key",
        "    ~ exchange by c0",
        "       trace: both inputs, by key",
        "note: no view reads source spare; it is not consumed",
    ):
        assert line in text, text
    assert description.fingerprint in text
    assert json.loads(json.dumps(description.to_json()))["views"][0]["name"] == "worst"


def test_errors_stand_with_their_view_and_there_is_no_fingerprint(spark: SparkSession) -> None:
    bench = (
        _bench(spark)
        .view("v", "SELECT to_number(carrier, '999') AS carrier FROM flights")
        .view("w", "SELECT carrier FROM v")
    )
    description = describe(bench.project())
    assert [view.errors for view in description.views] == [description.errors, ()]
    assert description.fingerprint == ""
    assert "error: 1 found" in description.text()


def test_columns_that_can_lose_microseconds_are_noted(spark: SparkSession) -> None:
    bench = (
        Workbench(spark)
        .source("t", "k int, at timestamp, nt timestamp_ntz, d date, n bigint")
        .source("u", "k int, sent timestamp")
    )
    bench.sources[1] = replace(bench.sources[1], metadata=(("sent", "timestamp"),))
    bench.view("kept", "SELECT at, date_trunc('HOUR', at) AS hour FROM t")
    every = (
        "SELECT at AS lost_a, nt AS lost_b, at + INTERVAL '1' SECOND AS lost_c, array(at) AS lost_d, map('x', named_struct('at', at)) AS lost_e, "
        "greatest(at, timestamp_millis(n)) AS lost_f, timestamp_micros(n) AS lost_g, date_trunc('MICROSECOND', at) AS lost_h, k, d, "
        "date_trunc('SECOND', at) AS whole_a, CAST(d AS TIMESTAMP) AS whole_b, timestamp_millis(n) AS whole_c, timestamp_seconds(n) AS whole_d, "
        "coalesce(date_trunc('DAY', at), timestamp_millis(n)) AS whole_e, if(k > 1, timestamp_millis(n), CAST(d AS TIMESTAMP)) AS whole_f, "
        "CAST(at AS STRING) AS s FROM t"
    )
    bench.view("a", every, output=output("a", "append"))
    bench.view(
        "b",
        "SELECT hour, max(at) AS lost_a, max(hour) AS h FROM kept GROUP BY hour",
        output=output("b", "upsert", ("hour",)),
    )
    bench.view(
        "c",
        "SELECT sent, hour FROM u JOIN (SELECT k, date_trunc('DAY', at) AS hour FROM t) USING (k)",
        output=output("c", "append"),
    )
    bench.view(
        "w",
        "SELECT window.start AS s, window.end AS e, count(*) AS n, max(at) AS lost_a FROM (SELECT window(at, '90 seconds'), at FROM t) GROUP BY 1, 2",
        output=output("w", "changelog"),
    )
    bench.view(
        "x",
        "SELECT window.start AS s, window.end AS e, count(*) AS n FROM t GROUP BY window(at, '90 seconds', '1 second')",
        output=output("x", "changelog"),
    )
    bench.view(
        "u", "SELECT date_trunc('DAY', at) AS lost_a FROM t UNION ALL SELECT at FROM t", output=output("u", "append")
    )
    written = output("p", "append")
    written = replace(written, written=replace(written.written, patterns=Patterns(None, "yyyy-MM-dd HH:mm:ss")))
    bench.view("p", "SELECT at, nt AS lost_a FROM t", output=written)
    written = output("av", "append")
    bench.view("av", "SELECT at FROM t", output=replace(written, written=replace(written.written, name="avro")))
    description = describe(bench.project())
    assert not description.errors
    noted = {view.name: re.findall(r"lost_\w|whole_\w|\bsent\b|\bhour\b|\bh\b|\bat\b|\bs\b|\be\b", note.split(":")[0]) for view in description.views for note in view.notes if "microseconds" in note}  # fmt: skip
    letters = {"a": "abcdefgh", "b": "a", "w": "a", "u": "a", "p": "a"}
    assert noted == {view: [f"lost_{letter}" for letter in found] for view, found in letters.items()}
    assert "'timestampFormat' = 'yyyy-MM-dd HH:mm:ss.SSSSSSXXX'" in description.text()
