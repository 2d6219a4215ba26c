# ruff: noqa: E501 (tables of cases read better in long lines)
"""What `--from-now`, `--append` and `--retract` do to a plan, and what is refused of them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from coordinator.revisions.carrying import tables_of
from coordinator.revisions.choices import ChoiceRefused, Chosen, recorded_choices
from coordinator.revisions.chosen_comparison import compare
from coordinator.revisions.document import PlanDocument, document_of
from coordinator.revisions.facts import PlanFacts
from coordinator.revisions.marks import with_marks_of
from coordinator.revisions.planned import plan_change
from coordinator.transition.plan import plan_transition
from engine.analysis.history import Carry
from engine.model.circuit import Circuit
from engine.model.filling import OF_NEXT
from engine.model.from_now import handle_from_now
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.revision_records import Choices
from stepwell.cli import app
from stepwell.commands.choices import body_of
from stepwell.commands.transition_text import options_text
from tests.stepwell.lowering.projects import Workbench
from tests.stepwell.lowering.projects import output as made_output
from tests.stepwell.test_planned import (
    INPUTS,
    PER_PARTITION,
    READ,
    facts_of,
    output,
    shown,
    under_another_name,
    view,
)
from tests.stepwell.test_planned import late as flows
from tests.stepwell.test_transition import BEFORE, BY_CARRIER, MAKERS, PLANES, SEATS, Project, document_of_bench

FROM_NOW = Chosen(from_now=("flights",))
CHANGED = BEFORE.having(by_carrier=BY_CARRIER.replace("count(*)", "count(delay)"))
"""An aggregate over flights is another one, so its messages are read again."""
FLIGHTS_0, FLIGHTS_1 = TopicPartition("flights", 0), TopicPartition("flights", 1)


def gone(facts: PlanFacts) -> PlanFacts:
    return replace(facts, begins={**facts.begins, FLIGHTS_1: 204})


def expired(facts: PlanFacts, topic: str) -> PlanFacts:
    return replace(facts, begins={where: 5 if where.topic == topic else at for where, at in facts.begins.items()})


def in_force(
    before: PlanDocument, now: PlanDocument, facts: PlanFacts, chosen: Chosen, number: int = 1
) -> PlanDocument:
    """The document of the next revision, as it is read back."""
    return document_of(plan_transition(compare(before, now, facts, chosen, number=number)).document.text)


@pytest.mark.parametrize("code", [code for code in INPUTS if code not in ("missing_topic", "remade_topic")])
def test_it_is_the_way_out_of_each_refusal_of_input(spark: SparkSession, code: str) -> None:
    change, reason, _ = INPUTS[code]
    before, now = BEFORE.document(spark), CHANGED.document(spark)
    facts = change(facts_of(before))
    refused = [each for each in plan_change(before, now, facts).refusals if each.subject == "view by_carrier"]
    assert [each.code for each in refused] == [code] and reason in refused[0].reason
    assert "`--from-now flights`" in refused[0].way_out
    found = plan_change(before, now, facts, FROM_NOW, number=4)
    assert not [each for each in found.refusals if each.subject == "view by_carrier"]
    carriers = view(found, "by_carrier")
    assert carriers.kind == "rebuilt" and carriers.history == ("flights: counts from now on",) and carriers.rows == 0
    assert (
        carriers.why == "source flights (from revision 5 on): earlier messages do not count now"
        or "count" in carriers.why
    )


def test_the_offsets_stand_in_the_plan_and_in_its_document(spark: SparkSession) -> None:
    before, now = BEFORE.document(spark), CHANGED.document(spark)
    facts = replace(gone(facts_of(before)), positions={**facts_of(before).positions, FLIGHTS_0: 700})
    found = plan_change(before, now, facts, FROM_NOW, number=4)
    (source,) = [each for each in found.to_json()["sources"] if each["kind"] == "counts_from_now"]
    offsets = {"flights/0": 700, "flights/1": READ}
    assert source["counts_from"] == {"source": "flights", "views": ["by_carrier"], "offsets": offsets, "revision": 5}
    told = "--from-now counts it from the present positions on in by_carrier: flights/0 from offset 700, flights/1 from offset 1,000"
    assert told in shown(found, 300)
    document = in_force(before, now, facts, FROM_NOW, number=4)
    (counts_from,) = document.counts_from
    assert counts_from.to_json() == source["counts_from"]
    assert document.fingerprint_of_files == now.circuit.fingerprint != document.circuit.fingerprint
    assert not plan_change(before, now, facts_of(before)).to_json()["sources"][0]["counts_from"]


def test_a_view_that_needs_no_message_again_counts_the_source_whole(spark: SparkSession) -> None:
    """Another HAVING is filled from state. Kept views keep what they have."""
    before = BEFORE.document(spark)
    now = CHANGED.having(seats=SEATS.replace("> 100", "> 200")).document(spark)
    found = compare(before, now, facts_of(before), FROM_NOW, number=1)
    assert found.now.marks == {"by_carrier": {"flights": handle_from_now("flights", 2)}}
    usual = compare(before, now, facts_of(before), number=1)
    for name in ("seats", "makers", "late", "idle"):
        assert found.found.is_young(found.views[name]) == usual.found.is_young(usual.views[name]), name
    kept = {found.now.circuit.nodes[index].kind for index in found.found.kept}
    assert {"Join", "LastByKey"} <= kept


def test_the_same_files_later_are_the_project_in_force(spark: SparkSession) -> None:
    """Also if a view or a source has another name, and if other views change. A full start from the files knows no mark."""
    before, now = BEFORE.document(spark), CHANGED.document(spark)
    first = in_force(before, now, gone(facts_of(before)), FROM_NOW)
    facts = gone(facts_of(first))
    again = plan_change(first, now, facts, number=2)
    assert again.is_nothing, shown(again)
    assert with_marks_of(first, now).circuit == first.circuit
    source = replace(
        now,
        circuit=Circuit(tuple(under_another_name(node) for node in now.circuit.nodes)),
        inputs=tuple(
            replace(each, table=replace(each.table, handle="rain")) if each.table.handle == "weather" else each
            for each in now.inputs
        ),
    )
    assert plan_change(first, source, facts, number=2).is_nothing
    other = CHANGED.having(seats=SEATS.replace("> 100", "> 200")).document(spark)
    found = compare(first, other, facts, number=2)
    assert found.now.marks == first.marks and found.found.changed == ("seats",)


def test_a_marked_view_that_is_renamed_keeps_its_mark(spark: SparkSession) -> None:
    """It has the same definition over the same mark."""
    query, facts = "SELECT carrier, sum(delay) AS s FROM flights GROUP BY carrier", facts_of(BEFORE.document(spark))
    first = in_force(BEFORE.document(spark), BEFORE.having(delays=query).document(spark), gone(facts), FROM_NOW)
    renamed = replace(BEFORE.having(lateness=query), topics=(("lateness", "delays"),)).document(spark)
    found = plan_change(first, renamed, gone(facts_of(first)), number=2)
    assert view(found, "lateness").renamed_from == "delays" and found.can_be_applied, shown(found)
    assert with_marks_of(first, renamed).marks == {"lateness": first.marks["delays"]}


def test_a_marked_view_that_changes_is_read_again_from_its_mark(spark: SparkSession) -> None:
    """A view that is new then counts the source whole, or from then on."""
    before, now = BEFORE.document(spark), CHANGED.document(spark)
    first = in_force(before, now, gone(facts_of(before)), FROM_NOW)
    positions = {**facts_of(first).positions, FLIGHTS_0: 1_100, FLIGHTS_1: 1_150}
    facts = replace(gone(facts_of(first)), positions=positions)
    changed = BEFORE.having(by_carrier=BY_CARRIER.replace("count(*)", "count(id)"))
    found = plan_change(first, changed.document(spark), facts, number=2)
    assert found.can_be_applied, shown(found)
    assert view(found, "by_carrier").history == ("flights: read again from its mark on",)
    assert view(found, "by_carrier").rows == 250
    more = changed.having(delays="SELECT carrier, sum(delay) AS s FROM flights GROUP BY carrier").document(spark)
    refused = plan_change(first, more, facts, number=2)
    assert {each.subject for each in refused.refusals} == {"view delays"}
    both = compare(first, more, facts, FROM_NOW, number=2)
    assert both.now.marks == {name: {"flights": handle_from_now("flights", 3)} for name in ("by_carrier", "delays")}
    expired = replace(facts, begins={**facts.begins, FLIGHTS_0: 1_050})
    (refusal,) = plan_change(first, changed.document(spark), expired, number=2).refusals
    assert "the mark is at 1,000: 50 offsets are missing" in refusal.reason and "--from-now flights" in refusal.way_out


def test_a_view_over_one_that_holds_nothing_counts_its_source(spark: SparkSession) -> None:
    """The rows of such a view are read again through it, so its part of the circuit is there a second time."""
    before = BEFORE.document(spark)
    late = [i for i, node in enumerate(before.circuit.nodes) if getattr(node, "name", "") == "late"]
    nodes = list(before.circuit.nodes)
    nodes[late[0]] = replace(nodes[late[0]], kept=False)  # type: ignore[call-arg]
    bare = replace(before, circuit=Circuit(tuple(nodes)))
    now = BEFORE.having(many="SELECT carrier, count(*) AS n FROM late GROUP BY carrier").document(spark)
    there = [i for i, node in enumerate(now.circuit.nodes) if getattr(node, "name", "") == "late"]
    more = list(now.circuit.nodes)
    more[there[0]] = replace(more[there[0]], kept=False)  # type: ignore[call-arg]
    now = replace(now, circuit=Circuit(tuple(more)))
    found = compare(bare, now, gone(facts_of(bare)), FROM_NOW, number=1)
    assert found.now.marks == {"many": {"flights": handle_from_now("flights", 2)}}
    assert not found.found.is_young(found.views["late"])
    plan_transition(found)


def test_a_table_gets_columns_without_its_messages(spark: SparkSession) -> None:
    """As long as its messages do not say what it holds, each column needs the choice."""
    before, chosen = BEFORE.document(spark), Chosen(from_now=("planes",))
    one, two = (
        replace(BEFORE, planes=f"{PLANES}, {more}").document(spark)
        for more in ("colour string", "colour string, age int")
    )
    facts = facts_of(before)
    facts = expired(facts, "planes")
    (refused,) = plan_change(before, one, facts).refusals
    assert (refused.code, refused.subject) == ("expired_input", "source planes")
    assert "`--from-now planes`: its rows then have NULL in the columns that are new" in refused.way_out
    found = plan_change(before, one, facts, chosen)
    (planes,) = [each for each in found.sources if each.handle == "planes"]
    assert found.can_be_applied and planes.table == "the table of planes: state, with NULL in colour"
    assert (
        planes.rows == facts.rows[before.numbers[tables_of(before.circuit)["planes"]]]
        if facts.rows
        else planes.rows is None
    )
    after = in_force(before, one, facts, chosen)
    assert [each.nulls for each in after.inputs if each.table.handle == "planes"] == [("colour",)]
    assert plan_change(after, one, facts).is_nothing, "the files know nothing of it"
    again = plan_change(after, two, facts_of(after)).refusals
    assert [each.code for each in again] == ["filled_with_nulls"]
    assert "have NULL in colour since --from-now" in again[0].reason
    last = in_force(after, two, facts, chosen, number=2)
    assert [each.nulls for each in last.inputs if each.table.handle == "planes"] == [("colour", "age")]
    fewer = plan_change(last, BEFORE.document(spark), facts)
    assert [each.table for each in fewer.sources if each.handle == "planes"] == ["the table of planes: state"]
    back = in_force(last, BEFORE.document(spark), facts, Chosen(), number=3)
    assert not any(each.nulls for each in back.inputs), "the columns are gone"


def test_a_table_is_made_of_that_of_the_same_messages(spark: SparkSession) -> None:
    """A source that is gone has left its name to another one, which loses a column, or gets one whose messages are gone."""

    def project(columns: str, source: str, *others: str) -> PlanDocument:
        bench = Workbench(spark)
        for name in (*others, source):
            bench.source(name, columns, "upsert", ("id",))
        for name in (*others, source):
            bench.view("words" if name == source else f"of_{name}", f"SELECT id, word FROM {name}")
        found = document_of_bench(bench, {})
        inputs = (
            replace(each, table=replace(each.table, topics=("planes_2",))) if each.table.handle == source else each
            for each in found.inputs
        )
        return replace(found, inputs=tuple(inputs))

    before = project("id int, word string, more string", "planes_2", "planes")
    tables = tables_of(before.circuit)
    assert tables.keys() == {"planes", "planes_2"}
    fewer = compare(before, project("id int, word string", "planes"), facts_of(before), number=1)
    (carried,) = [take for takes in fewer.histories.of.values() for take in takes if isinstance(take, Carry)]
    assert carried.holder == tables["planes_2"]
    now = project("id int, word string, more string, last string", "planes")
    (refused,) = plan_change(before, now, expired(facts_of(before), "planes_2")).refusals
    assert "`--from-now planes`: its rows then have NULL in the columns that are new" in refused.way_out
    assert plan_change(before, now, expired(facts_of(before), "planes_2"), Chosen(from_now=("planes",))).can_be_applied


REFUSED: dict[str, tuple[Project, Chosen, str]] = {
    "unknown source": (CHANGED, Chosen(from_now=("flihgts",)), "--from-now flihgts: the project has no source over a topic of this name. Those that it can name are: flights, planes."),
    "nothing changed": (BEFORE, FROM_NOW, "--from-now flights: no view that is new or rebuilt would read flights again"),
    "from state": (BEFORE.having(seats=SEATS.replace("> 100", "> 200")), FROM_NOW, "has no effect"),
    "a table": (BEFORE.having(makers=MAKERS.replace("count(*)", "max(seats)")), Chosen(from_now=("planes",)), "--from-now planes: planes has a key"),
    "a table with a column of another type": (replace(BEFORE, planes=PLANES.replace("seats int", "seats bigint, colour string")), Chosen(from_now=("planes",)), "column seats was INT, and is BIGINT now"),
    "unknown output": (BEFORE, Chosen(append_from_now=("nope",)), "--append nope: the project has no output of this name"),
    "another mode": (BEFORE, Chosen(append_from_now=("late",)), "the output has the mode changelog"),
    "nothing dropped": (BEFORE, Chosen(retract=("nope",)), "--retract nope: the project has no output that is dropped of this name. Those that it can name are: none."),
    "still written": (BEFORE, Chosen(retract=("late",)), "--retract late: the project still writes this output"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_choice_that_means_nothing_is_refused(spark: SparkSession, name: str) -> None:
    project, chosen, told = REFUSED[name]
    before = BEFORE.document(spark)
    with pytest.raises(ChoiceRefused) as refused:
        plan_change(before, project.document(spark), facts_of(before), chosen)
    assert told in str(refused.value) and refused.value.what_to_do


def test_a_changelog_without_a_key_is_counted_whole(spark: SparkSession) -> None:
    """Its later messages take rows back that a view would not have."""

    def as_changelog(document: PlanDocument) -> PlanDocument:
        inputs = [
            replace(each, table=replace(each.table, format=replace(each.table.format, mode="changelog")))  # type: ignore[type-var]
            if each.table.handle == "flights"
            else each
            for each in document.inputs
        ]
        return replace(document, inputs=tuple(inputs))

    before, now = as_changelog(BEFORE.document(spark)), as_changelog(CHANGED.document(spark))
    with pytest.raises(ChoiceRefused, match="--from-now flights: flights is a changelog without a key"):
        plan_change(before, now, facts_of(before), FROM_NOW)
    (refusal,) = plan_change(before, now, gone(facts_of(before))).refusals
    assert refusal.code == "expired_input" and "--from-now" not in refusal.way_out
    assert "stepwell run --full-refresh" in refusal.way_out


def test_what_comes_through_a_kept_view_cannot_be_left_out(spark: SparkSession) -> None:
    """In the step of the switch the kept view passes on what differs in the changed one below it, which is of the past."""

    def project(bound: int, longest: int, kept: str = "SELECT id, delay FROM below WHERE delay < 900") -> PlanDocument:
        bench = Workbench(spark).source("flights", "id bigint, carrier string, delay int, ts timestamp")
        bench.view("below", f"SELECT id, delay FROM flights WHERE delay > {bound}").view("kept", kept)
        query = f"SELECT id FROM kept WHERE delay < {longest}"
        return document_of_bench(bench.view("late", query, output=made_output("late", "append")), {})

    chosen, before = Chosen(append_from_now=("late",)), project(60, 800)
    facts = facts_of(before)
    with pytest.raises(ChoiceRefused, match="reads a view that is kept, and in the step of the switch this receives"):
        plan_change(before, project(30, 700), facts, chosen)
    advised = output(plan_change(before, project(30, 700), facts), "late").receives
    assert "another topic is the way out" in advised and "--append" not in advised
    for now in (project(60, 700), project(30, 700, "SELECT id, delay FROM below WHERE delay < 950")):
        assert output(plan_change(before, now, facts, chosen), "late").kind == "from_switch"
        assert "--append late=from-now" in output(plan_change(before, now, facts), "late").receives


def test_an_append_output_that_gets_what_comes_needs_no_history(spark: SparkSession) -> None:
    """Of a view without state nothing is read. A new topic may be had so too."""
    query = "SELECT id, carrier, delay FROM flights WHERE delay > {}"
    before, now = (flows(spark, query.format(bound)) for bound in (60, 90))
    chosen, facts = Chosen(append_from_now=("late",)), gone(facts_of(before))
    (refusal,) = plan_change(before, now, facts).refusals
    assert "`--append late=from-now`" in refusal.way_out
    found = plan_change(before, now, facts, chosen)
    assert found.can_be_applied and found.rows == 0
    assert (output(found, "late").kind, output(found, "late").receives) == (
        "from_switch",
        "only what the view puts out from the switch on",
    )
    moved = replace(before, outputs=tuple(replace(each, topic="later") for each in before.outputs))
    assert not plan_change(before, moved, facts).can_be_applied
    assert output(plan_change(before, moved, facts, chosen), "later").receives.startswith("new topic: only what")
    with pytest.raises(ChoiceRefused, match="view late is not rebuilt"):
        plan_change(before, before, facts, chosen)


def test_the_past_of_a_new_source_is_read_and_not_written(spark: SparkSession) -> None:
    """Otherwise the source would begin in the step of the switch, and all its messages would come out of the view then. So too if an earlier
    revision has read it."""
    before = flows(spark, "SELECT id, carrier, delay FROM flights WHERE delay > 60")
    others = tuple(replace(each, table=replace(each.table, topics=("others",))) for each in before.inputs)
    moved = tuple(replace(each, topic="later") for each in before.outputs)
    now = replace(before, inputs=others, outputs=moved)
    facts, place = facts_of(before), TopicPartition("others", 0)
    facts = replace(facts, begins={**facts.begins, place: 0}, ends={**facts.ends, place: 30})
    known = replace(facts, first={**facts.first, place: 0}, positions={**facts.positions, place: 20})
    for each in (facts, known):
        found = compare(before, now, each, Chosen(append_from_now=("late",)), number=1)
        assert plan_transition(found).again == (OF_NEXT + "flights",)


def test_a_mark_makes_an_append_output_take_rows_back(spark: SparkSession) -> None:
    """Every topic with rows of earlier messages would be held, which is told before anything is filled."""
    query = "SELECT id, carrier, delay FROM flights WHERE delay > {}"
    before, now = (flows(spark, query.format(bound)) for bound in (60, 90))
    facts = facts_of(before)
    assert "earlier messages" not in output(plan_change(before, now, facts), "late").receives
    held = output(plan_change(before, now, facts, FROM_NOW), "late")
    assert (held.kind, held.held_if) == ("append_difference", "rows would have to be taken back")
    assert "held if its topic has rows of earlier messages" in held.receives
    assert held.receives.endswith(": --append late=from-now or another topic is the way out")
    assert plan_change(before, now, facts, Chosen(append_from_now=("late",))).can_be_applied, "the way out"
    marked = in_force(before, now, gone(facts), FROM_NOW)
    later = flows(spark, query.format(120))
    assert "earlier messages" not in output(plan_change(marked, later, facts), "late").receives, "its mark is as it was"


def test_an_append_output_over_event_time_can_go_on(spark: SparkSession) -> None:
    query = "SELECT window.start AS start, count(*) AS n FROM STREAM flights WATERMARK ts DELAY OF INTERVAL {} MINUTES GROUP BY window(ts, '5 minutes')"
    before, now = (flows(spark, query.format(minutes), streaming=True) for minutes in (10, 20))
    chosen = Chosen(append_from_now=("late",))
    found = plan_change(before, now, facts_of(before), chosen)
    assert found.can_be_applied and found.rows == PER_PARTITION * READ, "what is open needs the messages"
    both = replace(chosen, from_now=("flights",))
    facts = gone(facts_of(before))
    assert not plan_change(before, now, facts, chosen).can_be_applied
    assert plan_change(before, now, facts, both).rows == 0


def test_what_an_output_has_written_is_taken_back(spark: SparkSession) -> None:
    before = BEFORE.document(spark)
    views = {name: query for name, query in BEFORE.views.items() if name not in ("often", "makers")}
    now = replace(BEFORE, views=views).document(spark)
    found = plan_change(before, now, facts_of(before), Chosen(retract=("often",)))
    assert output(found, "often").kind == "taken_back" and output(found, "makers").kind == "dropped"
    assert (
        output(found, "often").receives.startswith("all its rows are taken back")
        and "as d, in one step" in output(found, "often").receives
    )
    assert not found.is_nothing and "(--retract makers takes them back)" in shown(found, 300)


def test_an_append_output_cannot_be_taken_back(spark: SparkSession) -> None:
    before = flows(spark, "SELECT id, carrier, delay FROM flights WHERE delay > 60")
    moved = replace(before, outputs=tuple(replace(each, topic="later") for each in before.outputs))
    with pytest.raises(ChoiceRefused, match="such a topic can take no row back"):
        plan_change(before, moved, facts_of(before), Chosen(retract=("late",)))


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "--append", "x"),
        ("plan", "--append", "=from-now"),
        ("apply", "--append", "x=later"),
        ("run", "--from-now", "x"),
        ("run", "--as-recorded", "--retract", "x"),
        ("run", "--gradual"),
    ],
)
def test_an_option_that_cannot_be_understood_is_told(arguments: tuple[str, ...]) -> None:
    ended = CliRunner().invoke(app, list(arguments))
    assert ended.exit_code == 2 and ("OUTPUT=from-now" in ended.output or "give --apply too" in ended.output)


def test_programs_read_the_choices() -> None:
    plain = json.loads(json.dumps(FROM_NOW.to_json()))
    assert plain == {"from_now": ["flights"], "append_from_now": [], "retract": [], "reload": [], "gradual": False}
    assert body_of(Chosen(gradual=True)) == {"gradual": True} and body_of(Chosen()) == {}
    for choices in (Choices(hold=True), Choices(hold=True, gradual=True)):
        assert options_text(recorded_choices(choices).to_json()) == ("--gradual" if choices.gradual else "")


def test_it_is_said_before_it_happens_that_outputs_are_partly_old(spark: SparkSession) -> None:
    before = BEFORE.document(spark)
    views = {name: query for name, query in BEFORE.views.items() if name not in ("often", "makers")}
    now = replace(BEFORE, views=views).document(spark)
    at_once, gradual = (
        plan_change(before, now, facts_of(before), Chosen(retract=("often",), gradual=gradual))
        for gradual in (False, True)
    )
    assert output(gradual, "often").receives.endswith("as d, in several steps") and gradual.to_json()["gradual"]
    told = "--gradual: what differs leaves in steps of about 50,000 rows, from the switch on. Until all has left, outputs and views that read"
    assert told in shown(gradual, 300) and told not in shown(at_once, 300)
