"""The description of a project before it runs."""

from __future__ import annotations

import json

from pyspark.sql import SparkSession

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
    text = description.text()
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
