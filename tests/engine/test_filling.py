"""From one project to the next in process: young nodes are filled in random portions while rows come, and then everything is as in a fresh run
of the next project."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import get_args

import pyarrow as pa
import pytest

from engine.analysis.content import content_of
from engine.analysis.filling import Program
from engine.analysis.marking import marked_circuit, sources_below
from engine.analysis.withholding import countable, withholding_of
from engine.model.aggregates import Aggregate, AggregateCall, PartialAggregate
from engine.model.circuit import Circuit, Node, Output, ProjectNode, View
from engine.model.clock import ClockValue
from engine.model.filling import HASHES, OF_FORMER, OF_NEXT, TAKEN_BACK, ContentFeed, handle_of_project, is_read_again
from engine.model.from_now import handle_from_now, handle_of_files
from engine.model.joins import JoinPartials
from engine.model.node import Expression
from engine.model.numbers import NUMBERS_WITH_STATE, number_of
from engine.model.rows import Map, ScalarValue, Source
from engine.model.withholding import Withholding
from engine.operators.context import StepContext
from engine.operators.facts import DivisionFacts, StepFacts
from engine.operators.table import OPERATORS
from io_kafka.step_log.digest import canonical
from storage.keys import key_table
from tests.end_to_end.oracle_rows import Content, Watched
from tests.end_to_end.oracle_topics import Message
from tests.engine.every_kind import LONG, OF_EVENT_TIME, PARTITIONS, TEXT, call, column, history
from tests.engine.evolving_circuits import READERS, Project, base, dependents_of, pair_of, view_names
from tests.engine.in_process import InProcess
from tests.engine.transitions import Led, Way, led
from tests.engine.zsets import TYPES, Rows, plus, to_rows, to_table

TELLS = (ScalarValue, ClockValue, Output, PartialAggregate, JoinPartials)
"""Nodes whose rows are no table: what they give depends on the steps."""
SUITE_SEEDS = 2
SEEDS = [*range(SUITE_SEEDS), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(SUITE_SEEDS, 400))]
STEPS = 5
WORKERS = (1, 2, 3, 5)
Written = dict[str, pa.Table]


def partitions_of(*circuits: Circuit) -> dict[str, int]:
    """Of the topic of every output."""
    handles = {node.handle for circuit in circuits for node in circuit.nodes if isinstance(node, Output)}
    return {
        handle: PARTITIONS.get(handle.removeprefix(TAKEN_BACK).removesuffix("_moved"), 2) for handle in sorted(handles)
    }


def contents_of(inner: InProcess, of: Program | None = None) -> dict[str, Rows]:
    """What queries read of each view, summed over the workers. `of`: the program of the project that is asked, if the steps run another one."""
    program = inner.program if of is None else of
    facts_ = replace(inner.facts, numbers=program.numbers, append_only=program.append_only)
    circuit, found = program.circuit, {}
    for index, node in enumerate(circuit.nodes):
        if not isinstance(node, View) or not node.kept:
            continue
        rows: Rows = Counter()
        for worker, store in enumerate(inner.stores):
            owns_keyless = inner.placement.keyless_worker == worker
            facts = StepFacts(DivisionFacts(number=inner.steps), program.plan.input_colocation, owns_keyless)
            rows = plus(rows, to_rows(content_of(circuit, index, partial(StepContext, facts_, facts, store))))
        found[node.name] = rows
    return found


def fresh(
    circuit: Circuit, steps: list[dict[str, pa.Table]], partitions: Mapping[str, int]
) -> tuple[InProcess, list[Written]]:
    """A run that has had this project from the beginning, and what it wrote."""
    inner = InProcess(circuit, 1, dict(partitions))
    return inner, [_canonical(inner.step(given_, time_us=tick(inner, given_))) for given_ in steps]


def tick(inner: InProcess, given_: Mapping[str, pa.Table]) -> int:
    """The time of the next step. A second passes with each step that has rows, so that a journey and a fresh run have the same time."""
    inner.time_us += 1_000_000 * any(table.num_rows for table in given_.values())
    return inner.time_us


def _canonical(written: Mapping[str, pa.Table]) -> Written:
    return {handle: canonical(table) for handle, table in written.items()}


class Journey:
    """A pipeline that goes from A to B. `folds`: what the messages of the topics of B make. `former`: how it came to A."""

    def __init__(self, made: Led, workers: int, seed: int, former: Journey | None = None) -> None:
        self.filling, self.chance = made.filling, random.Random(seed)
        before, now = made.filling.present.circuit, made.filling.following.circuit
        self.partitions = partitions_of(before, now, made.filling.switching.circuit)
        self.inner = InProcess(before, workers, self.partitions) if former is None else former.inner
        self.alone = InProcess(before, 1, partitions_of(before, now))
        self.way = Way(self.inner, made.filling)
        outputs = (node for circuit in (before, now) for node in circuit.nodes if isinstance(node, Output))
        self.folds = {node.handle: Content(Watched(node.handle, node.handle, node.mode)) for node in outputs}
        self.folds |= {} if former is None else former.folds
        self.rows: list[Mapping[str, pa.Table]] = []
        """What A has read in the steps so far, of which `read` are read again."""
        self.taken_back: dict[str, int] = {}
        """How many messages the outputs of A have had in the step of the switch."""
        self.read: Counter[str] = Counter()
        self.columns = {node.handle: node.names for node in now.nodes if isinstance(node, Output)}
        self.nothing = {name: table.slice(0, 0) for name, table in history(0)[0].items()}

    def step(self, given_: Mapping[str, pa.Table]) -> Written:
        self.rows.append(given_)
        time_us = tick(self.inner, given_)
        written = _canonical(self.inner.step({**given_, **self._again()}, filled=self.way.filled, time_us=time_us))
        for handle in [handle for handle in written if handle.startswith(TAKEN_BACK)]:
            name, table = handle.removeprefix(TAKEN_BACK), written.pop(handle)
            if table.num_rows:
                self.taken_back[name], written[name] = table.num_rows, table
        for handle, table in written.items():
            faults = list(self.folds[handle].take(self.inner.steps, list(self._messages(handle, table))))
            assert not faults, faults
        return written

    @property
    def _handles(self) -> list[str]:
        """Of the sources that are read again."""
        nodes = self.inner.program.circuit.nodes
        return [node.handle for node in nodes if isinstance(node, Source) and is_read_again(node.handle)]

    def _again(self) -> dict[str, pa.Table]:
        """Some more of what was read, and all if the way is filled."""
        found = {}
        for handle in self._handles:
            every = pa.concat_tables([given_[handle_of_project(handle)] for given_ in self.rows])
            first, end = self.read[handle], every.num_rows
            if not self.way.is_filled:
                end = self.chance.randint(first, end)
            found[handle], self.read[handle] = every.slice(first, end - first), end
        return found

    def _messages(self, handle: str, table: pa.Table) -> list[tuple[int, Message]]:
        """As a consumer reads them that knows the columns of B."""
        rows = zip(*(table.column(c).to_pylist() for c in ("partition", "key", "value")), strict=True)
        columns = self.columns.get(handle)
        return [(p, Message(n, k, _with_columns(v, columns), ())) for n, (p, k, v) in enumerate(rows)]

    def go(
        self, steps: list[dict[str, pa.Table]], begins: int, switches: int, *, is_alone: bool = True
    ) -> list[Written]:
        """What it writes from the step of the switch on. Until then it writes what A writes alone, if A has run from the beginning."""
        after = []
        for number, given_ in enumerate(steps):
            if number == begins:
                self.way.begin()
            if number == switches:
                after.append(self.switch(given_))
            elif number > switches:
                after.append(self.step(given_))
            else:
                self.before(given_, moves=number >= begins, is_alone=is_alone)
        return after

    def before(self, given_: Mapping[str, pa.Table], *, moves: bool, is_alone: bool = True) -> None:
        if moves:
            self.way.advance_randomly(self.chance)
        written = self.step(given_)
        assert not is_alone or written == _canonical(self.alone.step(given_, time_us=self.inner.time_us))

    def switch(self, given_: Mapping[str, pa.Table]) -> Written:
        while not self.way.is_filled:
            self.way.advance_randomly(self.chance)
            assert not any(table.num_rows for table in self.step(self.nothing).values())
        self.way.turn()
        written = self.step(given_)
        self.way.settle()
        return written


def _with_columns(value: bytes | None, columns: tuple[str, ...] | None) -> bytes | None:
    if value is None or columns is None:
        return value

    def row(found: dict[str, object] | None) -> dict[str, object] | None:
        return None if found is None else {name: found.get(name) for name in columns}

    plain = json.loads(value)
    if plain.keys() == {"before", "after", "op"}:
        plain |= {"before": row(plain["before"]), "after": row(plain["after"])}
    else:
        plain = row(plain)
    return json.dumps(plain).encode()


def check(
    before: Circuit,
    now: Circuit,
    seed: int,
    workers: int,
    *,
    left_out: frozenset[str] = frozenset(),
    length: int = STEPS,
) -> Led:
    """`left_out`: views of B that depend on how rows came, if they are filled."""
    made, steps = led(before, now), history(seed, length)
    chance = random.Random(seed)
    begins = chance.randrange(length - 1)
    switches = chance.randrange(begins + 1, length)
    journey = Journey(made, workers, seed)
    written = journey.go(steps, begins, switches)
    other, expected = fresh(now, steps, journey.partitions)
    mine, right = contents_of(journey.inner), contents_of(other)
    young = {node.name for i, node in enumerate(now.nodes) if isinstance(node, View) and made.found.is_young(i)}
    left_out &= young
    left_out = frozenset(dependents_of(now, left_out))
    for name, rows in right.items():
        if name not in left_out:
            assert mine[name] == rows, f"view {name}"
    for node in now.nodes:
        if isinstance(node, Output):
            view = now.nodes[node.inputs[0]]
            assert isinstance(view, View)
            if view.name in left_out:
                continue
            for one, two in zip(written[1:], expected[switches + 1 :], strict=True):
                assert one[node.handle] == two[node.handle], f"the messages of {node.handle}"
            if view.kept:
                assert len(list(journey.folds[node.handle].rows())) == sum(right[view.name].values()), node.handle
    return made


OF_ORDER = frozenset({"firsts", "closed", "ended", "once", "met"})
"""Views whose rows depend on how rows came."""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_changed_project_is_as_a_fresh_run_of_it(seed: int) -> None:
    before, now = (project.circuit() for project in pair_of(seed))
    check(before, now, seed, WORKERS[seed % len(WORKERS)], left_out=OF_ORDER)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_a_changed_project_whose_messages_are_read_again_is_as_a_fresh_run_of_it(seed: int) -> None:
    """No view holds the rows of a stream, so they are read again in portions of their own."""
    before, now = (project.circuit() for project in pair_of(seed, holds_sources=False))
    check(before, now, seed, WORKERS[seed % len(WORKERS)], left_out=OF_ORDER)


def test_streams_are_read_again_as_both_projects_read_them() -> None:
    """By B's definitions, and by those of A for the old content of views that nothing holds."""
    found: set[str] = set()
    for seed in range(SUITE_SEEDS):
        before, now = (project.circuit() for project in pair_of(seed, holds_sources=False))
        nodes = led(before, now).filling.filling.circuit.nodes
        found |= {node.handle for node in nodes if isinstance(node, Source) and is_read_again(node.handle)}
    assert found >= {OF_NEXT + "left", OF_NEXT + "log"}


def test_old_content_is_read_again_with_the_columns_that_it_had() -> None:
    """A stream gets a column in front of the others, and the filter of a view that nothing holds changes."""

    def project(more: int, least: int) -> Circuit:
        types = (LONG,) * more + TYPES
        plain = tuple(column(place + more, kind) for place, kind in enumerate(TYPES))
        source = Source((), types, "left")
        chosen = Map((0,), TYPES, Expression(f"c{more} > {least}", pa.bool_()), plain)
        view = View((1,), TYPES, "v", ("id", "word"), kept=False)
        return Circuit((source, chosen, view, Output((2,), (), "v", "changelog", ("id", "word"))))

    nodes = led(project(0, 1), project(1, 2)).filling.filling.circuit.nodes
    read = {node.handle: len(node.types) for node in nodes if isinstance(node, Source)}
    assert read == {"left": 2, OF_NEXT + "left": 3, OF_FORMER + "left": 2}


def growing(*, grows: bool, has_largest: bool) -> Circuit:
    """A view that takes rows back or only grows, a view of some of its rows, and perhaps the largest of them."""
    source, same = Source((), TYPES, "left"), tuple(column(place, kind) for place, kind in enumerate(TYPES))
    counts = Aggregate((0,), (TEXT, LONG), (1,), (AggregateCall("count", None, False, LONG),))
    counted = Map((1,), TYPES, None, (column(1, LONG), column(0, TEXT)))
    below: tuple[Node, ...] = (source, Map((0,), TYPES, Expression("c0 > 0", pa.bool_()), same))
    below = below if grows else (source, counts, counted)
    last = len(below) - 1
    view = View((last,), TYPES, "v", ("id", "word"), kept=True)
    chosen = Map((last + 1,), TYPES, Expression("c0 <> 2", pa.bool_()), same)
    reader = View((last + 2,), TYPES, "r", ("id", "word"), kept=True)
    output = Output((last + 3,), (), "r", "changelog", ("id", "word"))
    largest = Aggregate((last + 2,), (TEXT, LONG), (1,), (AggregateCall("max", 0, False, LONG),))
    most = View((last + 5,), (TEXT, LONG), "most", ("word", "most"), kept=True)
    return Circuit((*below, view, chosen, reader, output, *((largest, most) if has_largest else ())))


@pytest.mark.parametrize("has_largest", [True, False])
@pytest.mark.parametrize("grows", [True, False])
def test_a_view_that_grows_otherwise_now_has_readers(grows: bool, has_largest: bool) -> None:
    """What a kept node without state puts out grows otherwise too. Of the nodes above it, those that have state are young."""
    before, now = (growing(grows=each, has_largest=has_largest) for each in (not grows, grows))
    for seed in range(4):
        check(before, now, seed, 1 + seed % 3)


KINDS_FED = {operator.node for operator in OPERATORS if operator.state.fed is not None}


@pytest.mark.long
def test_every_kind_whose_state_tells_its_content_is_fed() -> None:
    """A is the whole circuit, and B has a view over each node of it, which is filled from that node's state if that is possible."""
    before = base()
    timed = _of_event_time(before)
    read = [
        i
        for i, node in enumerate(before.nodes)
        if not isinstance(node, TELLS) and i not in timed and not _is_keyed(node)
    ]
    over = [View((i,), before.nodes[i].types, f"over {i}", _names(before.nodes[i].types), kept=True) for i in read]
    made = check(before, Circuit((*before.nodes, *over)), 3, 3, left_out=OF_ORDER, length=3)
    fed = {type(node.holder) for node in made.filling.filling.circuit.nodes if isinstance(node, ContentFeed)}
    assert fed == KINDS_FED


def _is_keyed(node: Node) -> bool:
    """Its messages are no rows."""
    return isinstance(node, Source) and node.keyed


def _names(types: Sequence[pa.DataType]) -> tuple[str, ...]:
    return tuple(f"n{i}" for i in range(len(types)))


def _of_event_time(circuit: Circuit) -> set[int]:
    found: set[int] = set()
    for index, node in enumerate(circuit.nodes):
        if type(node) in OF_EVENT_TIME or not found.isdisjoint(node.inputs):
            found.add(index)
    return found


@pytest.mark.parametrize("workers", [3, *(pytest.param(n, marks=pytest.mark.soak) for n in (1, 2, 5))])
def test_every_kind_is_filled(workers: int) -> None:
    """A has sources and views of their rows, and B every kind of node."""
    nothing, everything = Project(()).circuit(), Project(view_names(of_event_time=False)).circuit()
    made = check(nothing, everything, workers, workers, left_out=OF_ORDER, length=3)
    filled = {type(node) for node in made.filling.filling.circuit.nodes}
    assert filled >= set(get_args(ProjectNode)) - OF_EVENT_TIME - {Output}


# Numbers


def test_numbers_name_one_node() -> None:
    """None of A is given to another node, and what helps has numbers of its own. `check` holds them and the places together."""
    for seed in range(40):
        before, now = (project.circuit() for project in pair_of(seed))
        made = led(before, now)
        filling = made.filling
        kept = {filling.present.numbers[before_] for before_ in made.found.kept.values()}
        assert set(filling.following.numbers) & set(filling.present.numbers) == kept
        helpers = (filling.young & filling.gone) - set(filling.following.numbers)
        assert helpers.isdisjoint(filling.present.numbers)
        assert {each.number for each in filling.differences} <= helpers
        for program in (filling.filling, filling.switching):
            names = dict(zip(program.numbers, program.circuit.nodes, strict=True))
            for number, node in names.items():
                if number not in filling.present.numbers and number not in filling.following.numbers:
                    assert number in helpers or number >= NUMBERS_WITH_STATE, node


@pytest.mark.long
def test_numbers_that_are_gone_are_given_again_when_their_tables_are_cleared() -> None:
    """Three projects, of which the last one has what the second one dropped."""
    steps = history(7, 6)
    chain = [
        Project(("least", "rest"), readers=(("rest", "sums"),)).circuit(),
        Project(("by_word", "lonely"), readers=(("lonely", "leading"),)).circuit(),
        Project(("least", "rest", "lonely"), (("lonely", "filter"),), (("lonely", "leading"),)).circuit(),
    ]
    journey = Journey(led(chain[0], chain[1]), 2, 7)
    journey.go(steps[:3], 0, 2)
    between = led(chain[1], chain[2], journey.filling.following.numbers)
    assert set(between.filling.following.numbers) & journey.filling.gone, "a number is given to another node"
    again = Journey(between, 2, 7, journey)
    again.go(steps[3:], 0, 1, is_alone=False)
    assert contents_of(again.inner) == contents_of(fresh(chain[2], steps, journey.partitions)[0])
    held = {number_of(key_table(key)) for store in again.inner.stores for key in store.records}
    assert held <= set(between.filling.following.numbers)


# Giving up, and going back


def test_a_transition_that_is_given_up_leaves_nothing() -> None:
    steps = history(5, 6)
    before = Project(("rest", "lonely"), readers=(("lonely", "sums"),)).circuit()
    now = Project(("rest", "lonely", "sums"), (("lonely", "limit"),), (("lonely", "sums"),)).circuit()
    journey = Journey(led(before, now), 3, 5)
    journey.way.begin()
    for given_ in steps[:2]:
        journey.before(given_, moves=True)
    journey.way.abort()
    held = {number_of(key_table(key)) for store in journey.inner.stores for key in store.records}
    assert held <= set(journey.filling.present.numbers)
    journey.before(steps[2], moves=False)
    written = journey.go(steps[3:], 1, 2)
    other, expected = fresh(now, steps, journey.partitions)
    assert contents_of(journey.inner) == contents_of(other) and written[1:] == expected[6:]


# Differences


GROWS = "all_left"
"""A view that only grows, and so do its rows in most of what reads it."""


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.soak), 3])
@pytest.mark.parametrize("reader", READERS)
def test_what_reads_a_changed_view_takes_rows_back(reader: str, workers: int) -> None:
    """A view whose rows only come, of which the change takes some away. A minimum, or which row came first, cannot take one back, so what
    relies on that is filled again; all else is kept."""
    before = Project((), readers=((GROWS, reader),))
    now = replace(before, changes=((GROWS, "filter"),))
    made = check(before.circuit(), now.circuit(), 11, workers)
    view = f"{reader}_of_{GROWS}"
    assert made.found.is_young(made.found.view(view)) == (reader in RELY_ON_GROWTH)
    assert GROWS in made.found.changed and made.filling.differences


RELY_ON_GROWTH = ("highest", "firsts", "leading")


def test_a_difference_lies_where_its_view_lies() -> None:
    """A kept reader finds the rows of a view where they were, so the step of the switch exchanges no more than any other."""
    before = Project(("by_word",), readers=(("by_word", "sums"), ("by_word", "beside")))
    now = replace(before, changes=(("by_word", "filter"),))
    for workers in (2, 5):
        made = check(before.circuit(), now.circuit(), 4, workers)
        switching, usual = made.filling.switching, made.filling.following
        assert {node.kind for node in switching.circuit.nodes} >= {"Switched"}
        assert switching.plan.stages == usual.plan.stages


def test_a_young_reader_of_a_changed_view_was_filled_from_its_new_content() -> None:
    """Beside it, a kept reader of the view gets the difference."""
    before = Project((), readers=((GROWS, "sums"), (GROWS, "highest")))
    made = check(before.circuit(), replace(before, changes=((GROWS, "filter"),)).circuit(), 13, 2)
    kept = [made.found.view(f"{reader}_of_{GROWS}") in made.found.kept for reader in ("sums", "highest")]
    assert kept == [True, False]


def copied(of: str, change: str | None) -> Circuit:
    """A view whose content nothing holds but a view that copies it, and what reads the copy. `of`: an aggregate, whose view is derived, or a
    stream. `change`: the condition of the view; None has all rows."""
    condition = None if change is None else Expression(change, pa.bool_(), 0)
    plain = tuple(column(place, kind) for place, kind in enumerate(TYPES))
    nodes: list[Node] = [Source((), TYPES, "left"), View((0,), TYPES, "all_left", ("id", "word"), kept=True)]
    nodes.append(Map((1,), TYPES, condition, plain))
    types: tuple[pa.DataType, ...] = TYPES
    if of == "aggregate":
        types = (pa.string(), LONG)
        nodes.append(Aggregate((2,), types, (1,), (call("count"),)))
        nodes.append(View((3,), types, "read", ("word", "n"), kept=True, derived=True))
        nodes.append(Output((4,), (), "read", "changelog", ("word", "n")))
    else:
        nodes.append(View((2,), types, "read", ("id", "word"), kept=False))
        nodes.append(Output((3,), (), "read", "append", ("id", "word")))
    read = len(nodes) - 2
    nodes.append(View((read,), types, "copy", nodes[read].names, kept=True))  # type: ignore[union-attr]
    nodes.append(Aggregate((len(nodes) - 1,), (LONG,), (), (call("count"),)))
    nodes.append(View((len(nodes) - 1,), (LONG,), "counted", ("n",), kept=True))
    nodes.append(Output((len(nodes) - 1,), (), "counted", "changelog", ("n",)))
    return Circuit(tuple(nodes))


@pytest.mark.parametrize(
    ("of", "before", "now"),
    [
        ("aggregate", None, "hash(c0) % 3 <> 0"),
        ("aggregate", "hash(c0) % 3 <> 0", None),
        ("stream", "hash(c0) % 3 <> 0", None),
    ],
)
def test_a_view_that_copies_a_changed_one_does_not_hold_its_new_content(
    of: str, before: str | None, now: str | None
) -> None:
    """Until the switch the copy has what the view was, so the difference would be nothing."""
    made = check(copied(of, before), copied(of, now), 11, 3)
    assert made.found.view("copy") in made.found.kept and "read" in made.found.changed


@pytest.mark.parametrize("is_gone", [False, True])
def test_old_rows_have_the_columns_of_now_by_name(is_gone: bool) -> None:
    """A column comes in front of the others, or goes."""
    views = Project(("lonely", "rest"), readers=(("rest", "sums"),))
    other = replace(views, changes=(("lonely", "column"), ("rest", "column")))
    before, now = (other, views) if is_gone else (views, other)
    check(before.circuit(), now.circuit(), 6, 2)


def test_an_output_that_goes_on_with_another_view_gets_what_differs() -> None:
    """The topic was that of one view, and is that of another one, which is kept."""

    def project(published: str) -> Circuit:
        nodes = Project(("lonely", "least")).circuit().nodes
        handles = {published: "topic"}
        return Circuit(
            tuple(
                replace(node, handle=handles.get(node.handle, f"{node.handle}_moved"), mode="changelog", key=())
                if isinstance(node, Output)
                else node
                for node in nodes
            )
        )

    before, now = project("lonely"), project("least")
    made, steps = led(before, now), history(2, STEPS)
    journey = Journey(made, 2, 2)
    written = journey.go(steps, 1, 2)
    assert written[1:] == fresh(now, steps, journey.partitions)[1][3:]
    assert len(list(journey.folds["topic"].rows())) == sum(contents_of(journey.inner)["least"].values())


def test_a_project_that_only_looks_different_fills_and_writes_nothing() -> None:
    before = Project(view_names(), readers=(("rest", "sums"), ("lonely", "highest")))
    made = led(before.circuit(), replace(before, reordered=True).circuit())
    assert not made.filling.differences and not made.filling.young and not made.filling.gone
    assert len(made.filling.filling.circuit.nodes) == len(made.filling.present.circuit.nodes)


# What the user has chosen for sources and outputs


class MarkedJourney(Journey):
    """`marked`: the handles of marked sources. `begins`: the step from which on they count."""

    def __init__(self, made: Led, workers: int, seed: int, *, marked: Sequence[str], begins: int) -> None:
        super().__init__(made, workers, seed)
        self.marked, self.begins = marked, begins

    def step(self, given_: Mapping[str, pa.Table]) -> Written:
        return super().step(with_marked(given_, self.marked))

    def _again(self) -> dict[str, pa.Table]:
        nothing = {name: table.slice(0, 0) for name, table in self.rows[0].items()}
        all_rows = self.rows
        self.rows = [
            {**rows, **({} if number >= self.begins else {name: nothing[name] for name in self.marked})}
            for number, rows in enumerate(all_rows)
        ]
        try:
            return super()._again()
        finally:
            self.rows = all_rows


def with_marked(given_: Mapping[str, pa.Table], marked: Sequence[str]) -> dict[str, pa.Table]:
    return {**given_, **{handle: given_[handle_of_files(handle)] for handle in marked}}


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_views_with_a_mark_are_as_a_fresh_run_over_what_came_since(seed: int) -> None:
    """Random views of a changed project count random sources from the beginning of the transition on. But `log` takes back what it said before,
    which is an error of a view that has not seen it."""
    chance = random.Random(seed)
    before, now = (project.circuit() for project in pair_of(seed, holds_sources=False))
    kept = {node.name for node in before.nodes if isinstance(node, View)}
    below = {node.name: sorted(sources_below(now, node.name) - {"log"}) for node in now.nodes if isinstance(node, View)}
    chosen = {name: found for name, found in below.items() if found and (name not in kept or chance.random() < 0.5)}
    marks = {name: {handle: handle_from_now(handle, 2) for handle in found} for name, found in chosen.items()}
    circuit = marked_circuit(now, marks)
    handles = {node.handle for node in circuit.nodes if isinstance(node, Source)}
    marked = sorted(handle for handle in handles if handle_of_files(handle) != handle)
    steps, begins, switches = history(seed, STEPS), 1 + seed % 2, 3
    appends = {node.handle for node in circuit.nodes if isinstance(node, Output) and node.mode == "append"}
    made = led(before, circuit, from_switch=appends)  # the rows before the mark would have to be taken back
    journey = MarkedJourney(made, WORKERS[seed % len(WORKERS)], seed, marked=marked, begins=begins)
    journey.go(steps, begins, switches, is_alone=False)
    empty = {name: table.slice(0, 0) for name, table in steps[0].items()}
    since = [
        {**given_, **{handle: (given_ if number >= begins else empty)[handle_of_files(handle)] for handle in marked}}
        for number, given_ in enumerate(steps)
    ]
    other, _ = fresh(circuit, since, journey.partitions)
    mine, right = contents_of(journey.inner), contents_of(other)
    left_out = dependents_of(circuit, OF_ORDER)
    for name, rows in right.items():
        if name not in left_out:
            assert mine[name] == rows, f"view {name}"


@pytest.mark.parametrize("workers", [1, 3])
def test_what_an_output_has_written_is_taken_back(workers: int) -> None:
    """Whatever holds the rows of its view, and although they change until the switch."""
    names = ("least", "rest", "sums", "lonely", "total", "by_word")
    before, now = Project(names).circuit(), Project(("least",)).circuit()
    gone = [name for name in names if name != "least"]
    made, steps = led(before, now, taken_back=gone), history(8, STEPS)
    journey = Journey(made, workers, 8)
    written = journey.go(steps, 1, 3)
    other, _ = fresh(now, steps, journey.partitions)
    assert contents_of(journey.inner) == contents_of(other)
    for name in gone:
        assert journey.taken_back.get(name) and not list(journey.folds[name].rows()), name
        assert not any(table.num_rows for later in written[1:] for handle, table in later.items() if name in handle)


def test_an_output_gets_only_what_comes_from_the_switch_on() -> None:
    """Also one with a new topic. What reads the same view gets all."""
    before = Project(("lonely", "least"), readers=(("lonely", "sums"),))
    now = replace(before, changes=(("lonely", "filter"),), views=(*before.views, "rest"))
    made, steps = led(before.circuit(), now.circuit(), from_switch=("lonely", "rest")), history(9, STEPS)
    journey = Journey(made, 2, 9)
    written = journey.go(steps, 1, 2)
    other, expected = fresh(now.circuit(), steps, journey.partitions)
    assert contents_of(journey.inner) == contents_of(other)
    for one, two in zip(written, expected[2:], strict=True):
        assert one["lonely"] == two["lonely"] and one["rest"] == two["rest"]


# Nodes that begin later


def test_young_constants_and_aggregates_without_groups_begin_once() -> None:
    """Their rows come in the first step that fills, and in no other one, whatever program it runs."""
    before, now = Project(()).circuit(), Project(("seen", "total", "whole")).circuit()
    nodes = led(before, now).filling.filling.circuit.nodes
    assert {"Constant", "Aggregate", "FinalAggregate"} <= {node.kind for node in nodes}
    for begins, switches in ((0, 0), (0, 2), (2, 3)):
        journey, steps = Journey(led(before, now), 2, 1), history(1, 5)
        journey.go(steps, begins, switches)
        assert contents_of(journey.inner) == contents_of(fresh(now, steps, journey.partitions)[0])
        for handle in ("total", "whole"):
            assert len(list(journey.folds[handle].rows())) == 1


def test_rows_that_were_given_go_on_to_change() -> None:
    """Three portions, while rows come in each of them."""
    before, now = Project(()).circuit(), Project(("total", "whole")).circuit()
    journey, steps = Journey(led(before, now), 2, 1), history(1, 5)
    journey.way.begin()
    for given_ in steps[:3]:
        journey.way.advance(journey.way.position + HASHES // 3)
        journey.step(given_)
    journey.way.advance(journey.way.whole)
    journey.step(journey.nothing)
    journey.switch(steps[3])
    journey.step(steps[4])
    assert contents_of(journey.inner) == contents_of(fresh(now, steps, journey.partitions)[0])


def test_the_positions_of_a_level_follow_those_of_the_level_before() -> None:
    def fed(before: int, after: int) -> list[tuple[int, int]]:
        facts = DivisionFacts(number=0, filled=(before, after))
        return [facts.fed_hashes(level) for level in range(2)]

    end = HASHES
    assert fed(0, 0) == [(0, 0), (0, 0)]
    assert fed(0, 1) == [(0, 1), (0, 0)]
    assert fed(5, end) == [(5, end), (0, 0)]
    assert fed(end - 1, end + 1) == [(end - 1, end), (0, 1)]
    assert fed(end, 2 * end) == [(end, end), (0, end)]
    assert fed(2 * end, 2 * end) == [(end, end), (end, end)]


# Rows in error


def test_error_rows_of_a_copy_are_those_of_the_node_that_is_copied() -> None:
    """A kept Map is computed again for what is young. Its error rows are known, and are counted once. Those of a young Map are new."""
    row = Expression("CASE WHEN c0 = 2 THEN error('[DIVIDE_BY_ZERO] two') ELSE c0 END", LONG)
    nodes: tuple[Node, ...] = (
        Source((), TYPES, "left"),
        View((0,), TYPES, "all", ("id", "word"), kept=True),
        Map((1,), TYPES, None, (row, column(1, TYPES[1]))),
        View((2,), TYPES, "tens", ("id", "word"), kept=False),
        Output((3,), (), "tens", "changelog", ("id", "word")),
    )
    upper = Map((2,), TYPES, None, (column(0, LONG), Expression("upper(c1)", TYPES[1])))
    young = Map((1,), TYPES, Expression("c0 > 0", pa.bool_()), (row, column(1, TYPES[1])))
    over = (
        upper,
        View((5,), TYPES, "upper", ("id", "word"), kept=True),
        young,
        View((7,), TYPES, "more", ("id", "word"), kept=True),
    )
    before = Circuit(nodes)
    filling = led(before, Circuit((*nodes, *over))).filling
    inner = InProcess(before, 2, partitions_of(before))
    inner.step({"left": to_table([(1, "a"), (2, "b"), (2, "c")], TYPES)}, withholding_of(before, {2}, ()))
    way, chance = Way(inner, filling), random.Random(0)
    way.begin()
    counted = countable(filling.filling.circuit) - {4}
    while not way.is_filled:
        way.advance_randomly(chance)
        inner.step({}, Withholding(counted), way.filled)
    numbers = {filling.filling.numbers[node]: found.rows for node, found in inner.errors.items()}
    assert numbers == {2: 2, filling.following.numbers[7]: 2}
