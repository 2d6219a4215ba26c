# ruff: noqa: E501 (tables of cases read better in long lines)
"""What `stepwell plan` says of edits of real projects: what is kept, why a view is rebuilt, where its history comes from, what each output receives,
and what is refused with which place and way out."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession
from rich.console import Console
from typer.testing import CliRunner, Result

from base.fault import ExitCode
from base.options import Mode, OutputFormatName
from bench.sql.lowering import resolved as resolved_suite
from bench.sql.suites import tpch
from coordinator.revisions.choices import Chosen
from coordinator.revisions.document import PlanDocument, document_of
from coordinator.revisions.facts import PlanFacts
from coordinator.revisions.loads import with_loads, with_recorded_loads
from coordinator.revisions.plan_parts import OutputPlan, PlanRefusal, ViewPlan
from coordinator.revisions.planned import Planned, plan_change
from coordinator.revisions.recorded_project import RecordedProject
from engine.model import numbers
from engine.model.circuit import Circuit, Node
from engine.model.rows import Source
from io_kafka.offsets import TopicPartition
from stepwell.cli import app
from stepwell.commands import plan
from stepwell.inspection.revision_text import revision_text
from stepwell.lowering.driver import lower
from stepwell.planning.kept_definitions import KeptDefinitions
from stepwell.planning.plans import ResolvedProject
from stepwell.planning.resolver import resolve
from stepwell.planning.revisions import document_of_project
from stepwell.project.loading import load_project
from stepwell.project.output_formats import FormatOfOutput
from tests.stepwell import folder as project_folder
from tests.stepwell.lowering.projects import Query, Workbench
from tests.stepwell.lowering.projects import output as made_output
from tests.stepwell.test_transition import BEFORE, EDITS, LATE, document_of_bench

FLIGHTS = Path(__file__).parents[2] / "examples" / "flights" / "project"
READ, LATER, PER_PARTITION = 1_000, 1_200, 2

UDF = """
from pyspark.sql.types import LongType

@F.udf(LongType())
def half(n):
    return n // 2

@dp.materialized_view
def halves():
    return spark.table("flights").select("carrier", half("distance").alias("half"))
"""
"""A view of the previous project that calls a function."""

TEN_EDITS: dict[str, tuple[tuple[str, str], ...]] = {
    "views.sql": (
        ("max(dep_delay) AS worst_delay", "min(dep_delay) AS worst_delay"),  # a column of a view that another one reads
        ("WHERE dep_delay > 60", "WHERE dep_delay > 90"),  # a filter below an append output
        (">= 2000", ">= 1000"),  # HAVING
        ("FROM flights JOIN weather USING (origin, time_hour)\nWHERE precip IS NOT NULL", "FROM flights JOIN airports ON origin = faa\nWHERE lat IS NOT NULL"),
        ("precip > 0", "lat > 40"),
        ("min(visib) AS worst_visibility", "max(alt) AS worst_visibility"),
    ),
    "sources.sql": (("(tailnum STRING, year INT", "(colour STRING, tailnum STRING, year INT"),),
    "views.py": (
        ("def unknown_planes", "def unregistered"),  # renamed
        ('"topic": "daily_traffic", "mode": "upsert", "key": "day, origin"', '"topic": "daily_traffic", "mode": "upsert", "key": "origin, day"'),
        ("return n // 2", "return n // 3"),
    ),
}  # fmt: skip
ADDED = """
CREATE MATERIALIZED VIEW by_plane TBLPROPERTIES ('topic' = 'by_plane', 'mode' = 'upsert', 'key' = 'tailnum') AS
SELECT tailnum, count(*) AS flights, max(seats) AS seats FROM flights JOIN planes USING (tailnum) GROUP BY tailnum;
"""


def files(root: Path, edits: dict[str, tuple[tuple[str, str], ...]], **added: str) -> Path:
    """A copy of the example's project with a function, after these replacements; `added`: texts at the end of files."""
    shutil.copytree(FLIGHTS, root)
    folder = root / "transformations"
    (folder / "views.py").write_text((folder / "views.py").read_text() + UDF)
    for name, pairs in edits.items():
        text = (folder / name).read_text()
        for before, after in pairs:
            assert before in text, before
            text = text.replace(before, after)
        (folder / name).write_text(text)
    for name, text in added.items():
        path = folder / name.replace("_", ".")
        path.write_text(path.read_text() + text)
    return root / "spark-pipeline.yml"


def document(found: ResolvedProject) -> PlanDocument:
    """As it is read back from its recorded text."""
    return document_of(document_of_project(found, lower(found)).text)


@dataclass(frozen=True)
class Flights:
    resolved: ResolvedProject
    document: PlanDocument


@pytest.fixture(scope="module")
def flights(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Flights:
    found = resolve(load_project(files(tmp_path_factory.mktemp("a") / "project", {})), spark)
    return Flights(found, document(found))


@pytest.fixture(scope="module")
def edited(flights: Flights, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Planned:
    """All edits in one project. Each concerns other views, and Spark plans the project once."""
    found = resolve(load_project(files(tmp_path_factory.mktemp("b") / "project", TEN_EDITS, views_sql=ADDED)), spark)
    return plan_change(flights.document, document(found), facts_of(flights.document))


def facts_of(before: PlanDocument, **more: object) -> PlanFacts:
    """A pipeline that began at offset 0 of two partitions each and has read `READ` messages of each."""
    where = [
        TopicPartition(topic, partition)
        for source in before.inputs
        for topic in source.table.topics
        for partition in range(PER_PARTITION)
    ]
    facts = PlanFacts(
        first=dict.fromkeys(where, 0),
        positions=dict.fromkeys(where, READ),
        begins=dict.fromkeys(where, 0),
        ends=dict.fromkeys(where, LATER),
        rows=dict.fromkeys(before.numbers, 100),
        bytes=dict.fromkeys(before.numbers, 1_000),
    )
    return replace(facts, **more)  # type: ignore[arg-type]


def view(found: Planned, name: str) -> ViewPlan:
    return next(each for each in found.views if each.name == name)


def output(found: Planned, topic: str) -> OutputPlan:
    return next(each for each in found.outputs if each.topic == topic)


def shown(found: Planned, width: int = 100) -> str:
    console = Console(width=width, no_color=True)
    with console.capture() as capture:
        console.print(revision_text(found, 4))
    return capture.get()


def test_the_same_files_change_nothing(flights: Flights) -> None:
    again = document(flights.resolved)
    found = plan_change(flights.document, again, facts_of(flights.document))
    assert found.is_nothing and found.can_be_applied and found.kept_share == 1
    assert "Nothing would be filled, written or lost." in shown(found)


def test_another_filter_above_an_aggregate_is_filled_from_its_state(edited: Planned) -> None:
    routes = view(edited, "busy_routes")
    assert (routes.kind, routes.place) == ("rebuilt", "transformations/views.sql:25")
    assert routes.happens == "rebuilt from filter up"
    assert "the filter was" in routes.why and ">= 2000" in routes.why and ">= 1000" in routes.why
    assert routes.history == ("aggregate by origin, dest, name: count(*), avg(...): state",)
    assert routes.rows == 100
    assert (routes.nodes.kept, routes.nodes.kept_with_state) == (routes.nodes.nodes - 2, routes.nodes.with_state - 1)
    receives = output(edited, "busy_routes")
    assert (receives.kind, receives.rows_max) == ("difference", 100)
    assert receives.receives == "what differs, at most 100 rows, as c, u and d, in one step"


def test_another_column_of_a_view_leaves_its_readers_as_they_are(edited: Planned) -> None:
    delays, on_time = view(edited, "carrier_delays"), view(edited, "carriers_on_time")
    assert delays.why == "a column was max(dep_delay), and is min(dep_delay) now"
    assert delays.history == ("join on carrier = carrier: state",)
    assert (on_time.kind, on_time.gets_from) == ("kept_gets_changes", ("carrier_delays",))
    assert on_time.nodes.kept == on_time.nodes.nodes
    assert output(edited, "carriers_on_time").kind == "difference"


def test_an_append_output_is_held_if_rows_would_be_taken_back(edited: Planned) -> None:
    late = view(edited, "late_flights")
    assert (late.kind, late.rows) == ("rebuilt", PER_PARTITION * READ)
    assert "flights: read again from offset 0" in late.history
    assert "what it was is computed once more, to be compared" in late.history
    receives = output(edited, "late_flights")
    assert receives.kind == "append_difference" and receives.held_if == "rows would have to be taken back"
    assert "then --append late_flights=from-now or another topic is the way out" in receives.receives


def test_another_join_is_read_from_the_messages_and_from_the_tables(edited: Planned) -> None:
    rain = view(edited, "delays_in_rain")
    assert (rain.kind, rain.happens) == ("rebuilt", "rebuilt")
    assert set(rain.history) == {"flights: read again from offset 0", "the table of airports: state"}
    assert rain.rows == PER_PARTITION * READ + 100


def test_a_view_that_is_added_and_one_that_is_renamed(edited: Planned) -> None:
    added, renamed = view(edited, "by_plane"), view(edited, "unregistered")
    assert added.kind == "new" and added.place.startswith("transformations/views.sql:")
    assert output(edited, "by_plane").kind == "new_topic"
    assert (renamed.kind, renamed.renamed_from) == ("renamed", "unknown_planes")
    assert renamed.nodes.kept == renamed.nodes.nodes
    assert output(edited, "unknown_planes").kind == "nothing"


def test_a_column_of_a_keyed_source_fills_its_table_and_no_view(edited: Planned) -> None:
    planes = next(source for source in edited.sources if source.handle == "planes")
    assert planes.differences == ("column colour was not declared, and is STRING now",)
    assert planes.table == "planes: read again from offset 0"
    assert view(edited, "fleet").kind == "kept"


def test_another_function_names_its_place(edited: Planned) -> None:
    halves = view(edited, "halves")
    assert halves.kind == "rebuilt"
    assert halves.why.startswith("the function half (transformations/views.py:")


def test_a_source_that_nobody_reads_any_more_is_told(edited: Planned) -> None:
    assert [source.handle for source in edited.sources if source.kind == "dropped"] == ["weather"]


def test_the_key_of_a_topic_stays(edited: Planned) -> None:
    (refusal,) = edited.refusals
    assert (refusal.code, refusal.subject) == ("other_key", "output daily_traffic")
    assert refusal.place.startswith("transformations/views.py:")
    assert "was day, origin, and is origin, day now" in refusal.reason and "another topic" in refusal.way_out
    assert not edited.can_be_applied


def test_the_text_of_a_plan_can_be_read_in_a_hundred_columns(edited: Planned) -> None:
    text = shown(edited)
    assert max(map(len, text.splitlines())) <= 100
    for part in (
        "revision 4 -> 5",
        "busy_routes",
        "views.sql:25",
        "kept; gets what changes in",
        "by_plane",
        "REFUSED",
        "of the state is kept",
    ):
        assert part in text, text


def test_programs_get_the_same(edited: Planned) -> None:
    plain = json.loads(json.dumps(edited.to_json()))
    assert [each["view"] for each in plain["views"]] == [each.name for each in edited.views]
    assert plain["refused"][0]["code"] == "other_key" and plain["can_be_applied"] is False


# What is not kept


def test_a_plan_is_nothing_exactly_if_an_edit_keeps_all(spark: SparkSession) -> None:
    before = BEFORE.document(spark)
    for name, edit in EDITS.items():
        now = edit.after.document(spark)
        there = facts_of(now)
        facts = replace(facts_of(before), begins=there.begins, ends=there.ends)
        found = plan_change(before, now, facts)
        does_nothing = not (edit.lost or edit.changed or edit.new or edit.dropped or edit.outputs)
        assert found.is_nothing == does_nothing, name
        kinds = {each.name: each.kind for each in found.views}
        assert {each for each, kind in kinds.items() if kind == "rebuilt"} == set(edit.changed), name
        assert {each for each, kind in kinds.items() if kind == "new"} == set(edit.new), name
        assert all(each.why for each in found.views if each.kind == "rebuilt"), name
        assert "something else" not in shown(found), name


def test_a_view_that_is_dropped_keeps_its_topic(flights: Flights) -> None:
    fewer = replace(flights.resolved, views=tuple(v for v in flights.resolved.views if v.name != "fleet"))
    found = plan_change(flights.document, document(fewer), facts_of(flights.document))
    assert found.dropped == ("fleet",) and output(found, "fleet").kind == "dropped"
    assert all(each.kind == "kept" for each in found.views if each.name != "fleet")
    assert not found.is_nothing and found.rows == 0
    told = "Dropped: view fleet; its topic fleet and the rows in it stay (--retract fleet takes them back)."
    assert told in shown(found, 200)


def test_reformatting_keeps_everything(spark: SparkSession, flights: Flights, tmp_path: Path) -> None:
    edits = {
        "views.sql": (
            ("-- A view over a view.", "/* A view\nover a view. */ --"),
            ("SELECT carrier, upper(name) AS name", "select carrier,\n  UPPER(name) as name"),
            ("FROM flights JOIN airports ON dest = faa", "FROM flights AS f INNER JOIN airports ON f.dest = faa"),
        )
    }
    found = resolve(load_project(files(tmp_path / "project", edits)), spark)
    assert plan_change(flights.document, document(found), facts_of(flights.document)).is_nothing


# What is refused


def expired(facts: PlanFacts) -> PlanFacts:
    return replace(facts, begins={**facts.begins, TopicPartition("flights", 1): 204})


def forgotten(facts: PlanFacts) -> PlanFacts:
    where = TopicPartition("flights", 1)
    return replace(expired(facts), first={each: first for each, first in facts.first.items() if each != where})


def compacted(facts: PlanFacts) -> PlanFacts:
    return replace(facts, compacted=frozenset({"flights"}))


def missing(facts: PlanFacts) -> PlanFacts:
    return replace(facts, begins=without(facts.begins), ends=without(facts.ends))


def remade(facts: PlanFacts) -> PlanFacts:
    return replace(facts, remade=frozenset({"flights"}))


def without(offsets: object) -> dict[TopicPartition, int]:
    assert isinstance(offsets, dict)
    return {where: offset for where, offset in offsets.items() if where.topic != "flights"}


INPUTS: dict[str, tuple[Callable[[PlanFacts], PlanFacts], str, str]] = {
    "expired_input": (expired, "flights/1 begins at offset 204, and the pipeline began at 0: 204 offsets are missing", "stepwell run --full-refresh"),
    "unknown_start": (forgotten, "it is not recorded where the pipeline began with flights/1, because a former release began it", "stepwell run --full-refresh"),
    "compacted_input": (compacted, "topic flights is compacted", "stepwell run --full-refresh"),
    "missing_topic": (missing, "there is no topic flights", "Create it"),
    "remade_topic": (remade, "topic flights was deleted and created again", "a topic of another name"),
}  # fmt: skip


@pytest.mark.parametrize("code", INPUTS)
def test_a_view_whose_messages_cannot_be_read_again_is_refused(spark: SparkSession, code: str) -> None:
    change, reason, way_out = INPUTS[code]
    before, now = BEFORE.document(spark), BEFORE.having(late=LATE.replace("60", "90")).document(spark)
    found = plan_change(before, now, change(facts_of(before)))
    of_late = [each for each in found.refusals if each.subject == "view late"]
    assert [each.code for each in of_late] == [code]
    (refusal,) = of_late
    assert (refusal.place, refusal.reason.startswith(f"flights: {reason}")) == ("transformations/views.sql:2", True), (
        refusal
    )
    assert way_out in refusal.way_out
    assert (view(found, "late").kind, view(found, "late").rows, found.rows) == ("refused", None, None)
    assert "REFUSED: view late (transformations/views.sql:2): flights: " in shown(found, 300)


def test_what_is_not_read_again_may_expire(spark: SparkSession) -> None:
    """State goes first: another HAVING is filled from the sums below it."""
    before = BEFORE.document(spark)
    now = BEFORE.having(seats=BEFORE.views["seats"].replace("> 100", "> 200")).document(spark)
    for change in (expired, forgotten, compacted, missing, remade):
        found = plan_change(before, now, change(facts_of(before)))
        assert found.can_be_applied and view(found, "seats").kind == "rebuilt"


def test_a_start_that_nobody_recorded_is_known_if_the_topic_still_begins_at_zero(spark: SparkSession) -> None:
    before, now = BEFORE.document(spark), BEFORE.having(late=LATE.replace("60", "90")).document(spark)
    found = plan_change(before, now, replace(facts_of(before), first={}))
    assert found.can_be_applied and view(found, "late").rows == PER_PARTITION * READ


def test_an_anti_join_is_read_again_although_it_is_kept(spark: SparkSession) -> None:
    """It stores no row with a NULL key, so a twin of it is filled."""
    idle = f"SELECT seats, {{}} AS n FROM ({BEFORE.views['idle']}) GROUP BY seats"
    before, now = (BEFORE.having(idle=idle.format(call)).document(spark) for call in ("count(*)", "max(seats)"))
    found = plan_change(before, now, facts_of(before))
    assert "NOT EXISTS or NOT IN on plane = plane: computed once more" in view(found, "idle").history
    assert "flights: read again from offset 0" in view(found, "idle").history


def test_a_reader_that_relied_on_growth_is_rebuilt_and_says_so(spark: SparkSession) -> None:
    before, now = BEFORE.document(spark), BEFORE.having(late=LATE.replace("60", "90")).document(spark)
    latest = view(plan_change(before, now, facts_of(before)), "latest")
    assert (
        latest.kind == "rebuilt" and "relies on rows that are never taken back" in latest.why and "late" in latest.why
    )
    assert latest.history == ("late: as it is filled",)


def test_another_topic_of_a_source_is_the_reason(spark: SparkSession) -> None:
    before, now = BEFORE.document(spark), replace(BEFORE, topic_of_flights="planes").document(spark)
    found = plan_change(before, now, facts_of(before))
    assert view(found, "makers").why == "source flights: subscribe was flights, and is planes now"


def test_too_many_nodes_are_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    before, now = BEFORE.document(spark), BEFORE.having(late=LATE.replace("60", "90")).document(spark)
    monkeypatch.setattr(numbers, "NUMBERS_WITH_STATE", 3)
    assert "too_many_nodes" in {refusal.code for refusal in plan_change(before, now, facts_of(before)).refusals}


def of_output(flights: Flights, name: str, **changes: object) -> PlanDocument:
    """The project with another output of one view. Spark plans nothing again."""
    views = [
        replace(each, output=replace(each.output, **changes)) if each.name == name and each.output else each
        for each in flights.resolved.views
    ]
    return document(replace(flights.resolved, views=tuple(views)))


def test_the_mode_and_the_format_of_a_topic_stay(flights: Flights) -> None:
    facts = facts_of(flights.document)
    other = plan_change(flights.document, of_output(flights, "fleet", mode="changelog"), facts)
    (refusal,) = [each for each in other.refusals if each.subject == "output fleet"]
    assert (refusal.code, refusal.reason) == ("other_mode", "the mode of topic fleet was upsert, and is changelog now")


def test_two_views_cannot_change_topics(flights: Flights) -> None:
    topics = {"fleet": "unknown_planes", "unknown_planes": "fleet"}
    views = [
        replace(each, output=replace(each.output, topic=topics[each.name]))
        if each.name in topics and each.output
        else each
        for each in flights.resolved.views
    ]
    found = plan_change(
        flights.document, document(replace(flights.resolved, views=tuple(views))), facts_of(flights.document)
    )
    ways = [refusal.way_out for refusal in found.refusals if refusal.code == "topic_of_another_view"]
    assert len(ways) == 2 and not any("its new name" in way for way in ways)


def test_a_view_that_may_have_been_renamed_and_changed_is_told_to_go_one_by_one(flights: Flights) -> None:
    views = [
        replace(each, output=replace(each.output, topic="unknown_planes"))
        if each.name == "fleet" and each.output
        else each
        for each in flights.resolved.views
        if each.name != "unknown_planes"
    ]
    now = document(replace(flights.resolved, views=tuple(views)))
    refusals = plan_change(flights.document, now, facts_of(flights.document)).refusals
    ways = [refusal.way_out for refusal in refusals if refusal.code == "topic_of_another_view"]
    assert len(ways) == 1 and "apply its new name first" in ways[0]


def test_a_new_topic_has_no_messages(flights: Flights) -> None:
    now = of_output(flights, "fleet", topic="fleet2")
    facts, where = facts_of(flights.document), TopicPartition("fleet2", 0)
    found = plan_change(flights.document, now, facts)
    assert output(found, "fleet2").kind == "new_topic" and output(found, "fleet").kind == "dropped"
    full = replace(facts, begins={**facts.begins, where: 3}, ends={**facts.ends, where: 9})
    (refusal,) = plan_change(flights.document, now, full).refusals
    assert (refusal.code, refusal.reason) == (
        "topic_not_empty",
        "topic fleet2 has messages already, the first in fleet2/0 at offset 3",
    )


def test_a_new_output_does_not_take_the_topic_of_an_earlier_one(flights: Flights) -> None:
    """Also if somebody has deleted it: the step log counts its messages."""
    now = of_output(flights, "fleet", topic="fleet2")
    refusals = plan_change(flights.document, now, facts_of(flights.document, used=frozenset({"fleet2"}))).refusals
    assert [each.code for each in refusals] == ["topic_of_before"]
    assert "Name another topic" in refusals[0].way_out and "delete" not in refusals[0].way_out


def test_a_new_append_topic_gets_what_the_first_run_wrote(flights: Flights) -> None:
    """Nothing keeps the rows of the view, so a view that is kept needs its messages for the new topic."""
    now, facts = of_output(flights, "late_flights", topic="later"), facts_of(flights.document)
    told = output(plan_change(flights.document, now, facts), "later")
    assert told.receives == "new topic: all rows, after the switch (flights: read again from offset 0)"
    assert told.rows_max == PER_PARTITION * READ
    (refusal,) = plan_change(flights.document, now, expired(facts)).refusals
    assert (refusal.code, refusal.subject) == ("expired_input", "output late_flights")
    assert refusal.place.startswith("transformations/views.sql:")


def test_another_format_of_a_topic_is_refused(flights: Flights) -> None:
    specs = {each.name: each.output for each in flights.resolved.views}
    spec = specs["fleet"]
    assert spec is not None
    now = of_output(flights, "fleet", written=replace(spec.written, name="csv"))
    (refusal,) = plan_change(flights.document, now, facts_of(flights.document)).refusals
    assert (refusal.code, refusal.reason) == ("other_format", "the format of topic fleet was json, and is csv now")


@pytest.mark.parametrize(("written", "key", "is_refused"), [
    ("avro", ("carrier",), True), ("protobuf", ("carrier",), True), ("json", ("carrier",), False), ("avro", (), False),
])  # fmt: skip
def test_a_view_whose_keys_have_its_name_is_not_renamed_over_its_topic(
    spark: SparkSession, written: OutputFormatName, key: tuple[str, ...], is_refused: bool
) -> None:
    """The id of the schema is in each key, so all keys would be others."""
    bench = Workbench(spark).source("flights", "carrier string, delay bigint")
    before, now = (
        document_of_bench(
            bench.beside().view(
                name,
                "SELECT carrier, max(delay) AS worst FROM flights GROUP BY carrier",
                output=replace(made_output(name, "changelog", key), written=FormatOfOutput(name=written)),
            ),
            {name: "worst"},
        )
        for name in ("worst", "renamed")
    )
    found = plan_change(before, now, facts_of(before))
    assert [each.code for each in found.refusals] == (["other_key"] if is_refused else [])
    for refusal in found.refusals:
        assert "the name of the view, which was worst" in refusal.reason and "another topic" in refusal.way_out
    assert not plan_change(before, before, facts_of(before)).refusals


@pytest.mark.parametrize("mode", ["changelog", "upsert"])
@pytest.mark.parametrize("key", [("carrier",), ()])
def test_a_changelog_keeps_the_types_of_its_columns(spark: SparkSession, mode: Mode, key: tuple[str, ...]) -> None:
    """It would take back rows that nobody has. An upsert topic gets the row of each key once more, and a new column is none of former rows."""
    bench = Workbench(spark).source("flights", "carrier string, delay int")
    before, now, more = (
        document_of_bench(
            bench.beside().view(
                "worst",
                f"SELECT carrier, {columns} FROM flights GROUP BY carrier",
                output=made_output("worst", mode, key or (("carrier",) if mode == "upsert" else ())),
            ),
            {},
        )
        for columns in ("max(delay) AS worst", "sum(delay) AS worst", "max(delay) AS worst, sum(delay) AS whole")
    )
    refusals = plan_change(before, now, facts_of(before)).refusals
    assert [each.code for each in refusals] == (["other_format"] if mode == "changelog" else [])
    for refusal in refusals:
        assert "column worst was INT, and is BIGINT now" in refusal.reason
        assert "Cast" in refusal.way_out and "another topic" in refusal.way_out
    assert not plan_change(before, more, facts_of(before)).refusals


def late(spark: SparkSession, *queries: Query, mode: Mode = "append", streaming: bool = False) -> PlanDocument:
    bench = Workbench(spark, streaming=streaming).source(
        "flights", "id bigint, carrier string, delay int, ts timestamp"
    )
    return document_of_bench(bench.view("late", *queries, output=made_output("late", mode)), {})


def test_a_view_that_gains_a_flow_writes_the_rows_of_the_flow(spark: SparkSession) -> None:
    one, other = (f"SELECT id, carrier, delay FROM flights WHERE delay > {bound}" for bound in (60, 500))
    before, more = late(spark, one), late(spark, one, other)
    facts = facts_of(before)
    assert output(plan_change(before, more, facts), "late").kind == "new_flows"
    assert output(plan_change(more, before, facts), "late").kind == "append_difference"


def test_an_append_output_over_event_time_is_not_compared(spark: SparkSession) -> None:
    query = "SELECT window.start AS start, count(*) AS n FROM STREAM flights WATERMARK ts DELAY OF INTERVAL {} MINUTES GROUP BY window(ts, '5 minutes')"
    before, now = (late(spark, query.format(minutes), streaming=True) for minutes in (10, 20))
    found = plan_change(before, now, facts_of(before))
    assert [(each.code, each.place) for each in found.refusals] == [
        ("append_over_event_time", "transformations/views.sql:1")
    ]
    assert "`--append late=from-now`" in found.refusals[0].way_out and "another topic" in found.refusals[0].way_out
    assert "which rows were late" in view(found, "late").remark


def test_what_reads_a_table_over_event_time_is_rebuilt_with_it(spark: SparkSession) -> None:
    """What the table was cannot be told. An append output over it is refused like its own."""

    def project(minutes: int) -> PlanDocument:
        bench = Workbench(spark, streaming=True).source("flights", "id bigint, carrier string, delay int, ts timestamp")
        bench.view(
            "late",
            f"SELECT window.start AS start, count(*) AS n FROM STREAM flights WATERMARK ts DELAY OF INTERVAL {minutes} MINUTES "
            "GROUP BY window(ts, '5 minutes')",
            output=made_output("late", "append"),
        )
        bench.view("many", "SELECT * FROM STREAM late WHERE n > 1", output=made_output("many", "append"))
        return document_of_bench(bench, {})

    found = plan_change(project(10), project(20), facts_of(project(10)))
    assert view(found, "many").kind == "rebuilt"
    assert (
        "whose former content over event time depends on how messages were divided into steps"
        in view(found, "many").why
    )
    assert [(each.code, each.subject) for each in found.refusals] == [
        ("append_over_event_time", "output late"),
        ("append_over_event_time", "output many"),
    ]


def test_a_kept_table_over_event_time_gets_no_other_topic_than_its_kept_readers_have_read(spark: SparkSession) -> None:
    """Computed once more it has other rows. Without a reader nobody can tell."""

    def project(topic: str, *readers: str) -> PlanDocument:
        bench = Workbench(spark, streaming=True).source("flights", "id bigint, carrier string, delay int, ts timestamp")
        bench.view(
            "late",
            "SELECT window.start AS start, count(*) AS n FROM STREAM flights WATERMARK ts DELAY OF INTERVAL 5 MINUTES "
            "GROUP BY window(ts, '5 minutes')",
            output=made_output("late", "append"),
        )
        for reader in readers:
            bench.view(reader, f"SELECT count(*) AS {reader} FROM late")
        return document_of_bench(bench, {"late": topic})

    found = plan_change(project("late", "total"), project("other", "total"), facts_of(project("late", "total")))
    assert [(each.code, each.subject) for each in found.refusals] == [("append_over_event_time", "output late")]
    assert "other rows than total has read" in found.refusals[0].reason
    assert "`--append late=from-now`" in found.refusals[0].way_out
    alone = plan_change(project("late"), project("other"), facts_of(project("late")))
    added = plan_change(project("late"), project("other", "total"), facts_of(project("late")))
    assert not alone.refusals and not added.refusals


def test_a_new_reader_of_a_kept_table_over_event_time_has_the_rows_that_all_have(spark: SparkSession) -> None:
    """Filled with what is computed once more, it would have other rows than the topic and the readers of before."""

    def project(*readers: str) -> PlanDocument:
        bench = Workbench(spark, streaming=True).source("flights", "id bigint, carrier string, delay int, ts timestamp")
        bench.view(
            "late",
            "SELECT window.start AS start, count(*) AS n FROM STREAM flights WATERMARK ts DELAY OF INTERVAL 5 MINUTES "
            "GROUP BY window(ts, '5 minutes')",
            output=made_output("late", "append"),
        )
        for reader in readers:
            bench.view(reader, f"SELECT sum(n) AS {reader}, {reader}(start) AS start FROM late")
        return document_of_bench(bench, {"late": "late"})

    before, now = project("max"), project("max", "min")
    refusals = plan_change(before, now, facts_of(before)).refusals
    assert [(each.code, each.subject) for each in refusals] == [("append_over_event_time", "output late")]
    (refused,) = refusals
    assert refused.reason.startswith("min would begin to read what late computes")
    assert all(f"`{option}`" in refused.way_out for option in ("--append late=from-now", "--from-now flights"))
    rebuilt = plan_change(before, now, facts_of(before), Chosen(append_from_now=("late",)))
    assert not rebuilt.refusals and {view.name: view.kind for view in rebuilt.views} == {
        "late": "rebuilt",
        "max": "rebuilt",
        "min": "new",
    }
    assert "min begins to read it" in next(view.why for view in rebuilt.views if view.name == "late")
    from_now = plan_change(before, now, facts_of(before), Chosen(from_now=("flights",)))
    assert not from_now.refusals and [view.kind for view in from_now.views] == ["kept", "kept", "new"]


GROUPED = "SELECT min(ts) AS ts, {columns} FROM STREAM flights WATERMARK ts DELAY OF INTERVAL 5 MINUTES GROUP BY {window}(ts, '5 minutes')"
DISTINCT = GROUPED.replace(
    "STREAM flights WATERMARK ts DELAY OF INTERVAL 5 MINUTES",
    "(SELECT DISTINCT * FROM STREAM flights WATERMARK ts DELAY OF INTERVAL 5 MINUTES)",
)


@pytest.mark.parametrize(
    ("query", "window", "is_refused"),
    [(DISTINCT, "window", False), (GROUPED, "session_window", True)],
    ids=["windows", "sessions"],
)
def test_new_views_share_what_has_the_same_state_however_it_was_read(
    spark: SparkSession, query: str, window: str, is_refused: bool
) -> None:
    """Of a group that is open no row was late. But a late row may have joined two sessions."""

    def project(*columns: str) -> PlanDocument:
        bench = Workbench(spark, streaming=True).source("flights", "id bigint, carrier string, delay int, ts timestamp")
        for number, each in enumerate(columns):
            text = query.format(columns=each, window=window)
            bench.view(f"v{number}", text, output=made_output(f"v{number}", "append"))
        return document_of_bench(bench, {f"v{number}": f"v{number}" for number in range(len(columns))})

    before = project("sum(delay) AS delay")
    found = plan_change(before, project("sum(delay) AS delay", "avg(delay) AS delay"), facts_of(before))
    assert [view.kind for view in found.views] == ["rebuilt" if is_refused else "kept", "new"]
    assert [each.code for each in found.refusals] == ["append_over_event_time"] * is_refused


def test_an_append_output_of_a_kept_view_has_no_choice(spark: SparkSession) -> None:
    """Its rows are computed in the step of the switch, so the plan advises nothing that is refused."""

    def project(bound: int) -> PlanDocument:
        bench = Workbench(spark, streaming=True).source("flights", "id bigint, carrier string, delay int, ts timestamp")
        bench.view("some", f"SELECT carrier, delay FROM STREAM flights WHERE delay > {bound}")
        bench.view("many", "SELECT * FROM STREAM some WHERE delay < 50", output=made_output("many", "append"))
        return document_of_bench(bench, {})

    receives = output(plan_change(project(1), project(2), facts_of(project(1))), "many")
    assert receives.kind == "append_difference" and "--append" not in receives.receives


def test_other_names_of_columns_are_told(spark: SparkSession) -> None:
    query = "SELECT id, carrier AS {}, delay FROM flights WHERE delay > 60"
    for mode, receives in (
        ("changelog", "all rows once more, because carrier is airline now"),
        ("append", "nothing; in new messages carrier is airline now"),
    ):
        before, now = (late(spark, query.format(name), mode=cast(Mode, mode)) for name in ("carrier", "airline"))
        found = plan_change(before, now, facts_of(before))
        assert (view(found, "late").kind, output(found, "late").kind) == ("kept", "other_columns")
        assert output(found, "late").receives == receives and not found.is_nothing


def test_a_source_that_is_renamed_keeps_all(flights: Flights) -> None:
    renamed = replace(
        flights.document,
        circuit=Circuit(tuple(under_another_name(node) for node in flights.document.circuit.nodes)),
        inputs=tuple(
            replace(each, table=replace(each.table, handle="rain")) if each.table.handle == "weather" else each
            for each in flights.document.inputs
        ),
    )
    found = plan_change(flights.document, renamed, facts_of(flights.document))
    assert found.is_nothing
    rain = next(source for source in found.sources if source.handle == "rain")
    assert (rain.kind, rain.renamed_from) == ("renamed", "weather")
    assert {source.kind for source in found.sources} == {"kept", "renamed"}


def under_another_name(node: Node) -> Node:
    return replace(node, handle="rain") if isinstance(node, Source) and node.handle == "weather" else node


def test_every_refusal_says_what_to_do() -> None:
    refusal = PlanRefusal(
        "other_key",
        "output o",
        "views.sql:3",
        "the key of topic o was a, and is b now",
        "Give the output another topic",
    )
    assert (
        str(refusal) == "output o (views.sql:3): the key of topic o was a, and is b now. Give the output another topic."
    )


# TPC-H: what a clause costs

CLAUSES = {
    "q03": ("LIMIT 10", "LIMIT 20"),
    "q05": ("GROUP BY n_name\n", "GROUP BY n_name\nHAVING sum(l_extendedprice) > 0\n"),
    "q13": ("AS c_orders", "AS other"),
    "q18": ("FROM customer, orders, lineitem", "FROM customer, (SELECT * FROM orders) AS orders, lineitem"),
}
"""What changes in each query, from the table in the design of revisions."""


@pytest.mark.long
def test_what_a_clause_of_tpch_costs(spark: SparkSession) -> None:
    suite = tpch()
    queries = {name: suite.queries[name] for name in CLAUSES}
    changed = {name: query.replace(*CLAUSES[name]) for name, query in queries.items()}
    assert all(changed[name] != query for name, query in queries.items())
    both = []
    for each in (queries, changed):
        with resolved_suite(replace(suite, queries=each), spark) as (project, errors):
            assert not errors
            both.append(document(project))
    found = plan_change(*both, facts_of(both[0]))
    with_state = {each.name: (each.nodes.kept_with_state, each.nodes.with_state) for each in found.views}
    assert [view(found, name).kind for name in ("q13", "q18")] == ["kept", "kept"]
    assert "first 10 rows" in view(found, "q03").why and "first 20 rows" in view(found, "q03").why
    assert view(found, "q05").happens.startswith("rebuilt from")
    assert with_state == {"q03": (3, 5), "q05": (5, 6), "q13": (3, 3), "q18": (8, 8)}


# The command


@dataclass(frozen=True)
class Command:
    """`stepwell plan` in this process, with the session of all tests."""

    monkeypatch: pytest.MonkeyPatch
    spark: SparkSession

    def run(self, spec: Path, in_force: PlanDocument, *options: str, under_way: int | None = None) -> Result:
        found = RecordedProject(4, in_force, facts_of(in_force), under_way)
        self.monkeypatch.setattr(plan, "read_recorded", lambda project, now: found)
        self.monkeypatch.setattr(
            plan, "planning_session", lambda project: nullcontext((self.spark, KeptDefinitions.nothing()))
        )
        return CliRunner().invoke(app, ["plan", "--spec", str(spec), *options])


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> Command:
    return Command(monkeypatch, spark)


def test_a_project_that_breaks_is_refused_with_its_line(command: Command, flights: Flights, tmp_path: Path) -> None:
    spec = files(tmp_path / "project", {"views.sql": (("upper(name) AS name", "upper(nam) AS name"),)})
    result = command.run(spec, flights.document)
    assert result.exit_code == ExitCode.PROJECT
    assert "transformations/views.sql:10: carriers_on_time: " in result.stderr


@pytest.mark.long
def test_a_plan_that_can_be_applied_ends_well_and_one_that_is_refused_does_not(
    command: Command, flights: Flights, tmp_path: Path
) -> None:
    spec = files(tmp_path / "project", {"views.sql": ((">= 2000", ">= 1000"),)})
    result = command.run(spec, flights.document, "--json")
    plain = json.loads(result.stdout)
    assert (result.exit_code, plain["revision"], plain["next"], plain["under_way"]) == (0, 4, 5, None)
    result = command.run(spec, flights.document, under_way=5)
    told = "The transition to revision 5 is under way, and no other one can begin before it is settled."
    assert result.exit_code == 0 and told in result.stderr and "`stepwell revision abort`" in result.stderr
    files_of_key = {
        "views.sql": (("'mode' = 'changelog', 'key' = 'origin, dest'", "'mode' = 'changelog', 'key' = 'dest, origin'"),)
    }
    result = command.run(files(tmp_path / "other", files_of_key), flights.document)
    assert result.exit_code == ExitCode.PROJECT and "REFUSED: output busy_routes" in result.stdout


# Batch tables


TABLES = """
CREATE STREAMING TABLE rides (zone STRING) USING kafka TBLPROPERTIES ('subscribe' = 'rides');
CREATE MATERIALIZED VIEW per_zone TBLPROPERTIES ('topic' = 'per_zone', 'mode' = 'upsert', 'key' = 'zone') AS
  SELECT zone, count(*) AS n FROM rides GROUP BY zone;
"""
NAMED = """
CREATE MATERIALIZED VIEW named AS SELECT _c1 AS name, n FROM per_zone JOIN csv.`DATA/zones.csv` ON zone = _c0;
"""


def batch(folder: Path, spark: SparkSession, *texts: str) -> tuple[Path, PlanDocument]:
    """The project's file, and its document."""
    folder.mkdir()
    (folder / "zones.csv").write_text("a,A\nb,B\n")
    spec = project_folder.write(folder, {"a.sql": "".join(texts).replace("DATA", str(folder))})
    return spec, document(resolve(load_project(spec), spark))


def loaded_as_recorded(found: PlanDocument) -> tuple[PlanDocument, PlanFacts]:
    """As it is when its tables are loaded."""
    inputs = with_loads(found.inputs, (), (), "7f")
    facts = facts_of(found)
    loads = {topic: 2 for source in inputs if source.is_table for topic in source.table.topics}
    where = [TopicPartition(topic, n) for topic in loads for n in range(8)]
    more = {name: {**getattr(facts, name), **dict.fromkeys(where, 1)} for name in ("positions", "ends")}
    zero = {name: {**getattr(facts, name), **dict.fromkeys(where, 0)} for name in ("first", "begins")}
    return replace(found, inputs=inputs), replace(facts, loads=loads, **more, **zero)


def test_a_new_batch_table_is_loaded_and_one_that_is_gone_is_deleted(
    command: Command, spark: SparkSession, tmp_path: Path
) -> None:
    spec, now = batch(tmp_path / "now", spark, TABLES, NAMED)
    _, before = batch(tmp_path / "before", spark, TABLES)
    result = command.run(spec, before, "--json")
    plain = json.loads(result.stdout)
    (source,) = (each for each in plain["sources"] if each["is_batch"])
    assert (result.exit_code, source["kind"], source["load"], source["loaded_rows"]) == (0, "new", "first", None)
    assert plain["rows"] is None and plain["refused"] == []
    text = command.run(spec, before).stdout
    handle = source["source"]
    assert f"source {handle}: new, loaded when the change is applied" in text.replace("\n", " ")
    (history,) = (each["history"] for each in plain["views"] if each["view"] == "named")
    assert f"{handle}: loaded" in history
    found = plan_change(*loaded_as_recorded(now)[:1], before, loaded_as_recorded(now)[1])
    assert "not read any more; the rows that were loaded of it are deleted" in " ".join(shown(found, 300).split())
    assert all(refusal.code != "missing_topic" for refusal in found.refusals)


@pytest.mark.long
def test_a_batch_table_is_loaded_again_if_that_is_asked_for(
    command: Command, spark: SparkSession, tmp_path: Path
) -> None:
    spec, now = batch(tmp_path / "now", spark, TABLES, NAMED)
    before, facts = loaded_as_recorded(now)
    same = plan_change(before, replace(now, inputs=with_recorded_loads(now.inputs, before.inputs)), facts)
    assert same.is_nothing and all(not source.load for source in same.sources)
    command.monkeypatch.setattr(sys.modules[__name__], "facts_of", lambda _: facts)
    assert "Nothing would be filled" in command.run(spec, before).stdout
    text = " ".join(command.run(spec, before, "--reload", "zones.csv").stdout.split())
    assert "zones.csv" in text and "loaded again when the change is applied; the load before has 2 rows" in text, text
    assert "named rebuilt" in text and "it is loaded again" in text and ": loaded again" in text
    assert "per_zone" in text and "kept: per_zone" in text
    (tmp_path / "now" / "zones.csv").write_text("a,A\nb,C\nc,D\n")
    note = "zones.csv: its files have changed since they were loaded; with --reload they are loaded again"
    for options in ((), ("--reload", "zones.csv")):
        said = re.sub(r" #\w+:", ":", " ".join(command.run(spec, before, *options).stdout.split()))
        assert (note in said) == (options == ()), said
    told = command.run(spec, before, "--reload", "zone.csv")
    assert told.exit_code == ExitCode.PROJECT and "--reload zone.csv: no batch table" in told.stderr
