"""What an edit of a project keeps: plans by Spark, their circuits, and what leads from the one to the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from coordinator.revisions.continuing import continuing_numbers
from coordinator.revisions.document import PlanDocument
from coordinator.revisions.leaves import named_project
from coordinator.specification import InputTopic, OutputTopic
from engine.analysis.identity import Named
from engine.analysis.numbering import numbers_of
from engine.analysis.project_match import ProjectMatch, match_projects, nodes_with_state
from engine.model.circuit import Output
from engine.run.source_table import SourceTable
from io_kafka.formats.batches import TableFormat
from stepwell.lowering.driver import lower
from stepwell.planning.pipeline import source_table
from stepwell.planning.plans import ResolvedView
from tests.stepwell.lowering.projects import Workbench, output

FLIGHTS = "id bigint, carrier string, plane string, delay int, day date"
PLANES = "plane string, seats int, maker string"

BY_CARRIER = "SELECT carrier, count(*) AS n, sum(delay) AS total FROM flights GROUP BY carrier"
LATE = "SELECT id, carrier, delay FROM flights WHERE delay > 60"
OF_BOEING = "FROM flights f JOIN planes p ON f.plane = p.plane WHERE p.maker = 'BOEING'"
SEATS = f"SELECT f.carrier, sum(p.seats) AS seats {OF_BOEING} GROUP BY f.carrier HAVING sum(p.seats) > 100"
WORST = "SELECT carrier, total FROM by_carrier ORDER BY total DESC LIMIT 3"
ALIKE = "SELECT plane, seats, maker, count(*) AS n FROM planes GROUP BY plane, seats, maker"
OFTEN = "SELECT carrier, n, count(*) AS times FROM by_carrier GROUP BY carrier, n"
LATEST = "SELECT carrier, max(delay) AS most FROM late GROUP BY carrier"
OF_PLANES = "FROM flights f JOIN planes p ON f.plane = p.plane"
MAKERS = f"SELECT p.maker, count(*) AS n {OF_PLANES} GROUP BY p.maker"
IDLE = "SELECT plane, seats FROM planes p WHERE NOT EXISTS (SELECT 1 FROM flights f WHERE f.plane = p.plane)"


@dataclass(frozen=True)
class Project:
    """`views`: the query of each, in an order in which a view comes after those that it reads. `topics`: of outputs that are not called like
    their view."""

    views: dict[str, str]
    flights: str = FLIGHTS
    planes: str = PLANES
    topic_of_flights: str = "flights"
    topics: tuple[tuple[str, str], ...] = ()

    def having(self, **queries: str) -> Project:
        return replace(self, views=self.views | queries)

    def planned(self, spark: SparkSession) -> Named:
        return named_project(self.document(spark))

    def document(self, spark: SparkSession) -> PlanDocument:
        bench = Workbench(spark).source("flights", self.flights).source("planes", self.planes, "upsert", ("plane",))
        for name, query in self.views.items():
            self._add(bench, name, query)
        found = document_of_bench(bench, dict(self.topics))
        inputs = [
            replace(each, table=replace(each.table, topics=(self.topic_of_flights,)))
            if each.table.handle == "flights"
            else each
            for each in found.inputs
        ]
        return replace(found, inputs=tuple(inputs))

    def _add(self, bench: Workbench, name: str, query: str) -> None:
        """Spark plans a query once for the same tables and views before it."""
        before = tuple((view.name, view.schema.simpleString()) for view in bench.views)
        key = (self.flights, self.planes, before, name, query)
        if key in PLANNED:
            bench.again(PLANNED[key])
        else:
            bench.view(name, query, output=output(name, "changelog"))
            PLANNED[key] = bench.views[-1]


def document_of_bench(bench: Workbench, topics: Mapping[str, str]) -> PlanDocument:
    """`topics`: of the outputs that are not called like their view."""
    circuit = lower(bench.project())
    return PlanDocument(
        circuit=circuit,
        numbers=numbers_of(circuit),
        inputs=tuple(InputTopic(source_table(source), "earliest", "fail", None) for source in bench.sources),
        outputs=tuple(
            OutputTopic(view.name, topics.get(view.name, view.name), 1, False) for view in bench.views if view.output
        ),
        places={view.name: str(view.location) for view in bench.views},
    )


PLANNED: dict[object, ResolvedView] = {}


BEFORE = Project(
    {
        "by_carrier": BY_CARRIER,
        "late": LATE,
        "seats": SEATS,
        "worst": WORST,
        "latest": LATEST,
        "idle": IDLE,
        "makers": MAKERS,
        "often": OFTEN,
        "alike": ALIKE,
    }
)


@dataclass(frozen=True)
class Edit:
    """`after`, and what is expected: the kinds of the nodes whose state is lost, the views that are changed, new and gone, by their names now or
    before, and the outputs that have to be written again."""

    after: Project
    lost: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


OF_FLIGHTS = (
    *("Aggregate", "View", "Aggregate", "SemiJoin", "View", "Join", "Aggregate"),
    *("JoinPartials", "FinalAggregate"),
)

EDITS = {
    "layout, comments and the case of keywords": Edit(
        BEFORE.having(seats=SEATS.replace("FROM", "-- all of them\n  from").replace("sum(p.seats)", "SUM( p.seats )"))
    ),
    "other aliases of tables": Edit(BEFORE.having(seats=SEATS.replace("flights f", "flights x").replace("f.", "x."))),
    "a CTE and a subquery for a table": Edit(
        BEFORE.having(
            worst="WITH w AS (SELECT * FROM by_carrier) SELECT carrier, total FROM w ORDER BY total DESC LIMIT 3",
            late="SELECT id, carrier, delay FROM (SELECT * FROM flights) WHERE delay > 60",
        )
    ),
    "a view is added": Edit(
        BEFORE.having(days="SELECT day, count(*) AS n FROM flights GROUP BY day"), new=("days",), outputs=("days",)
    ),
    "a view is added that has the join of another one": Edit(
        BEFORE.having(joined=f"SELECT p.maker {OF_PLANES}"), new=("joined",), outputs=("joined",)
    ),
    "a view is removed": Edit(
        replace(BEFORE, views={name: query for name, query in BEFORE.views.items() if name != "idle"}),
        lost=("SemiJoin", "View"),
        dropped=("idle",),
    ),
    "a view is renamed, and its output keeps its topic": Edit(
        replace(
            BEFORE,
            views={"lazy" if name == "idle" else name: query for name, query in BEFORE.views.items()},
            topics=(("lazy", "idle"),),
        )
    ),
    "a column at the front of a source": Edit(replace(BEFORE, flights=f"gate string, {FLIGHTS}")),
    "a column at the end of a source": Edit(replace(BEFORE, flights=f"{FLIGHTS}, gate string")),
    "a column that nobody reads leaves a source": Edit(replace(BEFORE, flights=FLIGHTS.replace(", day date", ""))),
    "a column of a keyed source: its table is rebuilt, and its readers stay": Edit(
        replace(BEFORE, planes=f"{PLANES}, built int"), lost=("LastByKey",)
    ),
    "another HAVING: the join and the sums stay": Edit(
        BEFORE.having(seats=SEATS.replace("> 100", "> 200")), changed=("seats",)
    ),
    "another aggregate below a view, which stays": Edit(
        BEFORE.having(by_carrier=BY_CARRIER.replace("FROM flights", "FROM flights WHERE delay > 0")),
        lost=("Aggregate",),
        changed=("by_carrier",),
    ),
    "another filter below a maximum, which only grew": Edit(
        BEFORE.having(late=LATE.replace("60", "90")), lost=("View", "Aggregate"), changed=("late", "latest")
    ),
    "a view that only grew takes rows back: a maximum over it has to keep all values": Edit(
        BEFORE.having(late="SELECT max(id) AS id, carrier, max(delay) AS delay FROM flights GROUP BY carrier"),
        lost=("View", "Aggregate"),
        changed=("late", "latest"),
    ),
    "a view whose rows lie elsewhere, and a reader that had no need to exchange them": Edit(
        BEFORE.having(by_carrier=BY_CARRIER.replace("GROUP BY carrier", "GROUP BY plane, carrier")),
        lost=("Aggregate", "Aggregate"),
        changed=("by_carrier", "often"),
    ),
    "another LIMIT": Edit(BEFORE.having(worst=WORST.replace("3", "4")), lost=("TopK", "View"), changed=("worst",)),
    "another topic of a source": Edit(
        replace(BEFORE, topic_of_flights="other"),
        lost=OF_FLIGHTS,
        changed=("by_carrier", "late", "latest", "idle", "seats", "makers"),
    ),
    "a column that is NOT NULL": Edit(
        replace(BEFORE, flights=FLIGHTS.replace("delay int", "delay int NOT NULL")),
        lost=OF_FLIGHTS,
        changed=("by_carrier", "late", "latest", "idle", "seats", "makers"),
    ),
    "a column of another type": Edit(
        replace(BEFORE, flights=FLIGHTS.replace("delay int", "delay bigint")),
        lost=("Aggregate", "View", "Aggregate"),
        changed=("by_carrier", "late", "latest"),
        outputs=("late", "latest"),
    ),
    "another topic of an output": Edit(replace(BEFORE, topics=(("idle", "idle2"),)), outputs=("idle",)),
}


@pytest.fixture(scope="module")
def before(spark: SparkSession) -> PlanDocument:
    return BEFORE.document(spark)


@pytest.mark.parametrize("name", EDITS)
def test_what_an_edit_keeps(spark: SparkSession, before: PlanDocument, name: str) -> None:
    """A project that loses nothing, changes nothing and has nothing new continues the state as it is, and no other does."""
    edit, after = EDITS[name], EDITS[name].after.document(spark)
    numbers = continuing_numbers(before, after)
    assert (numbers is not None) == (edit == Edit(edit.after)), numbers
    found = match_projects(named_project(before), named_project(after))
    if numbers is not None:
        for index, number in enumerate(numbers):
            if index in found.kept:
                assert number == before.numbers[found.kept[index]], "a node that is kept has another number"
            else:
                assert number not in before.numbers, "a new node has the number of another one"
    lost = sorted(lost_state(found))
    assert (lost, set(found.changed), set(found.new), set(found.dropped), new_outputs(found)) == (
        sorted(edit.lost),
        set(edit.changed),
        set(edit.new),
        set(edit.dropped),
        set(edit.outputs),
    )


def test_a_batch_table_of_another_name_is_loaded_anew(before: PlanDocument) -> None:
    """The step log knows by its name what was loaded."""
    schema = pa.schema([("n", pa.int64())])

    def having(name: str) -> PlanDocument:
        table = SourceTable(name, ("t",), TableFormat(name, schema))
        return replace(before, inputs=(*before.inputs, InputTopic(table, "", "fail", None)))

    assert continuing_numbers(having("one"), having("one")) is not None
    assert continuing_numbers(having("one"), having("two")) is None


def test_error_rows_of_a_node_that_is_gone_would_stay(before: PlanDocument) -> None:
    assert continuing_numbers(before, before, before.numbers) is not None
    assert continuing_numbers(before, before, [max(before.numbers) + 1]) is None


def test_tables_of_the_same_messages_are_not_told_apart(before: PlanDocument) -> None:
    planes = next(source for source in before.inputs if source.table.handle == "planes")
    twin = replace(planes, table=replace(planes.table, handle="twin"))
    alike = replace(before, inputs=(*before.inputs, twin))
    assert continuing_numbers(alike, before) is None and continuing_numbers(before, alike) is None


def test_what_another_release_computes_in_another_way_does_not_continue(before: PlanDocument) -> None:
    assert continuing_numbers(replace(before, revisions={"operator TopK": 2}), before) is None


def lost_state(found: ProjectMatch) -> list[str]:
    circuit = found.previous.circuit
    lost = set(nodes_with_state(circuit)) - set(found.kept.values())
    return [circuit.nodes[index].kind for index in lost]


def new_outputs(found: ProjectMatch) -> set[str]:
    nodes = found.now.circuit.nodes
    return {node.handle for i, node in enumerate(nodes) if isinstance(node, Output) and found.is_young(i)}
