"""What differs at a switch leaves in several steps: each topic is what the position says after every one of them, and in the end everything is
as in a fresh run of the next project."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest

from base.slots import SLOTS
from engine.analysis.draining import key_within
from engine.model.aggregates import Aggregate
from engine.model.circuit import Circuit, Node, Output, View
from engine.model.filling import HASHES, TAKEN_BACK, ContentFeed, Placed, Switched
from engine.model.joins import Join
from engine.model.node import Expression
from engine.model.rows import Distinct, Map, Source
from engine.operators.context import StepContext
from engine.operators.differences import step_switched
from engine.operators.facts import DivisionFacts, RunFacts, StepFacts
from engine.operators.keys import ColocatedKey
from engine.operators.output import step_output
from engine.rows.hashing import slot_of
from engine.state.store import DictStore
from io_kafka.step_log.digest import canonical
from tests.end_to_end.oracle_rows import Content, Watched
from tests.engine.every_kind import LONG, call, column, history
from tests.engine.evolving_circuits import READERS, Project, dependents_of, pair_of
from tests.engine.in_process import InProcess
from tests.engine.test_filling import GROWS, OF_ORDER, Journey, contents_of, fresh
from tests.engine.transitions import Led, led
from tests.engine.zsets import TYPES, Rows, to_rows, to_table

SUITE_SEEDS = 3
SEEDS = [*range(SUITE_SEEDS), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(SUITE_SEEDS, 400))]
WORKERS = (1, 2, 3)
STEPS = 6
PARTS = 4
"""Roughly how many steps drain everything."""


@dataclass
class Drained:
    """A journey whose switch takes several steps. `old`: what each view of A had before it."""

    made: Led
    journey: Journey
    chance: random.Random
    old: dict[str, Rows] = field(default_factory=dict)
    steps: list[Mapping[str, pa.Table]] = field(default_factory=list)
    counted: frozenset[int] = frozenset()

    @property
    def inner(self) -> InProcess:
        return self.journey.inner

    def switch(self, given_: Sequence[Mapping[str, pa.Table]]) -> None:
        """While these rows come, and then none."""
        journey, way = self.journey, self.journey.way
        while not way.is_filled:
            way.advance_randomly(self.chance)
            self._step(journey.nothing)
        self.old = contents_of(self.inner, self.made.filling.present)
        way.begin_to_drain()
        left = [*given_]
        while not way.is_drained:
            way.drain(self._next())
            self._step(left.pop(0) if left else journey.nothing)
            self._check_topics()
        way.settle()
        for each in left:
            self._step(each)

    def _next(self) -> int:
        """Also nothing, all that is left, and positions within a slot."""
        way = self.journey.way
        draw = self.chance.random()
        if draw < 0.1:
            return way.drained
        to = way.drained + self.chance.randrange(2 * HASHES // PARTS)
        return HASHES if draw > 0.9 else min(to, HASHES)

    def _step(self, given_: Mapping[str, pa.Table]) -> None:
        self.steps.append(given_)
        self.journey.step(given_)

    def _check_topics(self) -> None:
        """An output that gets a difference itself has the new rows below the position, and the old ones above it. Others have what their view
        has."""
        circuit = self.inner.program.circuit
        now = contents_of(self.inner, self.made.filling.following)
        for node in circuit.nodes:
            if not isinstance(node, Output) or node.handle.startswith(TAKEN_BACK):
                continue
            where, mine = (
                f"{node.handle} at {self.journey.way.drained}",
                Counter(self.journey.folds[node.handle].rows()),
            )
            if (whole := self._whole(node, now)) is not None:
                assert mine <= Counter(self._fold(node, whole).rows()), where
            if (expected := self._expected(node, now)) is not None:
                assert mine == Counter(self._fold(node, expected).rows()), where

    def _whole(self, node: Output, now: Mapping[str, Rows]) -> Rows | None:
        """What a new topic has in the end. Until then it has some of these rows."""
        next_ = self.made.filling.following.circuit
        output = next(
            i for i, each in enumerate(next_.nodes) if isinstance(each, Output) and each.handle == node.handle
        )
        view = next_.nodes[next_.nodes[output].inputs[0]]
        assert isinstance(view, View)
        topics = self.made.found.previous.topics.values()
        return now.get(view.name) if node.handle not in topics else None

    def _expected(self, node: Output, now: Mapping[str, Rows]) -> Rows | None:
        program = self.inner.program
        circuit = program.circuit
        at = node.inputs[0]
        while not isinstance(circuit.nodes[at], View | Switched):
            if not circuit.nodes[at].inputs or isinstance(circuit.nodes[at], ContentFeed):
                return None  # the rows of a new topic lie as the state has them
            at = circuit.nodes[at].inputs[0]
        below = circuit.nodes[at]
        if isinstance(below, View):
            return now.get(below.name) if program.numbers[at] in self.made.filling.following.numbers else None
        assert isinstance(below, Switched)
        view = circuit.nodes[below.inputs[0]]
        assert isinstance(view, View)
        compared = next(each for each in self.made.filling.differences if self._number(each.number) is below)
        if not view.kept:
            return None
        old: Rows = Counter()
        if compared.previous is not None:
            former = self.made.filling.present.circuit.nodes[compared.previous]
            assert isinstance(former, View)
            if not former.kept or former.names != view.names:
                return None
            old = self.old[former.name]
        return self._side(now[view.name], below, is_below=True) + self._side(old, below, is_below=False)

    def _number(self, number: int) -> Node:
        program = self.inner.program
        return program.circuit.nodes[program.numbers.index(number)]

    def _side(self, rows: Rows, node: Switched, *, is_below: bool) -> Rows:
        """By the hash of the key of the difference."""
        end = slot_of(self.journey.way.drained)
        hashes = ColocatedKey(tuple(range(len(node.types))), node.key).hashes(_table(rows, node.types))
        sides = [(slot_of(int(hashed)) < end) == is_below for hashed in hashes]
        return Counter({row: weight for (row, weight), side in zip(rows.items(), sides, strict=True) if side})

    def _fold(self, node: Output, rows: Rows) -> Content:
        """Of the messages that would say all of these rows at once."""
        types = self.inner.program.circuit.nodes[node.inputs[0]].types
        facts = StepFacts(DivisionFacts(number=0), (), owns_keyless=True)
        context = StepContext(self.inner.facts, facts, store=self.inner.stores[0], node=0)
        fold = Content(Watched(node.handle, node.handle, node.mode))
        if rows:
            messages = canonical(step_output(node, [_table(rows, types)], context))
            assert not list(fold.take(0, list(self.journey._messages(node.handle, messages))))
        return fold


def _table(rows: Rows, types: Sequence[pa.DataType]) -> pa.Table:
    return to_table(Counter({tuple(map(_thawed, row, types)): weight for row, weight in rows.items()}), types)


def _thawed(value: Any, kind: pa.DataType) -> Any:
    """What `frozen` has made of a value, as Arrow takes it, with tuples in place of lists, so that it has a hash."""
    if value is None or not isinstance(value, tuple):
        return value
    if pa.types.is_struct(kind):
        values = dict(value)
        return _Struct((each.name, _thawed(values[each.name], each.type)) for each in kind)
    if pa.types.is_list(kind):
        return tuple(_thawed(each, kind.value_type) for each in value)
    return value


class _Struct(dict[str, Any]):
    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))


def drained(
    before: Circuit, now: Circuit, seed: int, workers: int, *, left_out: frozenset[str] = frozenset()
) -> Drained:
    made, steps = led(before, now, gradual=True), history(seed, STEPS)
    chance = random.Random(seed)
    begins = chance.randrange(2)
    switches = chance.randrange(begins + 1, STEPS - 1)
    went = Drained(made, Journey(made, workers, seed), chance)
    for number, given_ in enumerate(steps[:switches]):
        if number == begins:
            went.journey.way.begin()
        went.journey.before(given_, moves=number >= begins)
    went.switch(steps[switches:])
    _, mine = went, contents_of(went.inner)
    other, _ = fresh(now, steps, went.journey.partitions)
    right = contents_of(other)
    young = {node.name for i, node in enumerate(now.nodes) if isinstance(node, View) and made.found.is_young(i)}
    left_out = frozenset(dependents_of(now, left_out & young))
    for name, rows in right.items():
        if name not in left_out:
            assert mine[name] == rows, f"view {name}"
    for node in now.nodes:
        if isinstance(node, Output):
            view = now.nodes[node.inputs[0]]
            assert isinstance(view, View)
            if view.kept and view.name not in left_out:
                fold = sorted(went._fold(node, right[view.name]).rows())
                assert sorted(went.journey.folds[node.handle].rows()) == fold, node.handle
    return went


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_a_project_whose_differences_leave_gradually_is_as_a_fresh_run_of_it(seed: int) -> None:
    before, now = (project.circuit() for project in pair_of(seed))
    drained(before, now, seed, WORKERS[seed % len(WORKERS)], left_out=OF_ORDER)


def joined(factor: int) -> Circuit:
    """Rows with the names of their words. They lie by the word, and the key of the topic is the number."""
    both = (*TYPES, *TYPES)
    columns = (column(0, LONG), column(1, TYPES[1]), Expression(f"c0 * {factor}", LONG))
    types, names = (LONG, TYPES[1], LONG), ("id", "word", "n")
    return Circuit(
        (
            Source((), TYPES, "left"),
            Source((), TYPES, "right"),
            Join((0, 1), both, (1,), (1,), (False,)),
            Map((2,), types, None, columns),
            View((3,), types, "v", names, kept=False),
            Output((4,), (), "v", "upsert", names, (0,)),
        )
    )


@pytest.mark.parametrize("workers", [1, 3])
def test_no_key_of_a_topic_is_gone_while_its_rows_move(workers: int) -> None:
    """In each step some rows get another word, with which they lie elsewhere. The change of such a row has a part below the position and a part
    above it, and the difference too."""
    chance, ids = random.Random(workers), range(40)
    words = dict.fromkeys(ids, 0)
    made = led(joined(1), joined(2), gradual=True)
    (difference,) = (node for node in made.filling.switching.circuit.nodes if isinstance(node, Switched))
    assert difference.key == (0,) and made.filling.present.plan.colocation[4] == (1,)
    journey = Journey(made, workers, workers)
    way = journey.way

    def moves() -> dict[str, pa.Table]:
        rows: list[tuple[tuple[Any, ...], int]] = []
        for number in chance.sample(ids, 15):
            old, words[number] = words[number], chance.randrange(7)
            rows += [((number, f"w{old}"), -1), ((number, f"w{words[number]}"), 1)]
        change: Rows = Counter()
        for row, weight in rows:
            change[row] += weight
        return {"left": to_table(change, TYPES), "right": to_table([], TYPES)}

    journey.step(
        {"left": to_table([(i, "w0") for i in ids], TYPES), "right": to_table([(i, f"w{i}") for i in range(7)], TYPES)}
    )
    way.begin()
    way.advance(way.whole)
    journey.step(moves())
    old = dict(words)
    way.begin_to_drain()
    for part in range(1, 9):
        way.drain(HASHES * part // 8)
        journey.step(moves())
        hashes = ColocatedKey((0,), (0,)).hashes(to_table([(i,) for i in ids], (LONG,)))
        is_new = {i: slot_of(int(hashed)) < slot_of(way.drained) for i, hashed in zip(ids, hashes, strict=True)}
        expected = {(i, f"w{words[i]}", 2 * i) if is_new[i] else (i, f"w{old[i]}", i) for i in ids}
        found = [json.loads(row) for row in journey.folds["v"].rows()]
        assert {(row["id"], row["word"], row["n"]) for row in found} == expected


def test_rows_that_readers_need_together_leave_together() -> None:
    """By columns that all of them have; by none if there are none, so that all rows lie in one slot."""
    assert key_within((1, 2), []) == (1, 2)
    assert key_within((1,), [(0, 1), (1, 2)]) == (1,)
    assert key_within((1, 2), [(1, 3)]) == (1, 3)
    assert key_within((3,), [(0, 1), (1, 2)]) == (1,)
    assert key_within((3,), [(0,), (1,)]) == ()
    assert key_within((0,), [()]) == ()


def test_a_reader_that_relies_on_a_unique_key_gets_its_rows_together() -> None:
    """The old and the new content have one row per word each. An output with a key is told by that alone."""

    def project(bound: int, key: tuple[int, ...], *, has_reader: bool) -> Circuit:
        """Sums by word, which lie by it. A view that reads them relies on that, and a topic is keyed by the sum alone."""
        types, names = (TYPES[1], LONG), ("word", "n")
        columns = (column(0, TYPES[1]), column(1, LONG))
        nodes: list[Node] = [
            Source((), TYPES, "left"),
            Aggregate((0,), types, (1,), (call("count"),)),
            Map((1,), types, Expression(f"c1 > {bound}", pa.bool_()), columns),
            View((2,), types, "v", names, kept=False),
            Output((3,), (), "v", "upsert", names, key),
        ]
        if has_reader:
            nodes += [Distinct((3,), types), View((5,), types, "w", names, kept=True)]
        return Circuit(tuple(nodes))

    def key_of(key: tuple[int, ...], *, has_reader: bool) -> tuple[int, ...]:
        made = led(*(project(bound, key, has_reader=has_reader) for bound in (1, 2)), gradual=True)
        (found,) = {node.key for node in made.filling.switching.circuit.nodes if isinstance(node, Switched)}
        return found

    assert key_of((0,), has_reader=True) == (0,)
    assert key_of((0, 1), has_reader=True) == (0,)
    assert key_of((1,), has_reader=False) == (1,)
    assert key_of((1,), has_reader=True) == (), "they cannot leave in parts"


@pytest.mark.parametrize("reader", READERS)
def test_what_reads_a_changed_view_gets_its_difference_gradually(reader: str) -> None:
    before = Project((), readers=((GROWS, reader),))
    drained(before.circuit(), replace(before, changes=((GROWS, "filter"),)).circuit(), 11, 2)


def test_an_output_takes_its_content_back_gradually() -> None:
    """Its topic has what is above the position, and nothing in the end."""
    before = Project(("by_word", "rest")).circuit()
    now = Project(("rest",)).circuit()
    made, steps = led(before, now, taken_back=("by_word",), gradual=True), history(3, STEPS)
    went = Drained(made, Journey(made, 2, 3), random.Random(3))
    for given_ in steps[:2]:
        went.journey.step(given_)
    went.journey.way.begin()
    whole = Counter(went.journey.folds["by_word"].rows())
    assert whole
    sizes = []
    step = went._check_topics

    def watched() -> None:
        step()
        left = Counter(went.journey.folds["by_word"].rows())
        assert left <= whole
        sizes.append(left.total())

    went._check_topics = watched  # type: ignore[method-assign]
    went.switch(steps[2:])
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] == 0
    assert contents_of(went.inner) == contents_of(fresh(now, steps, went.journey.partitions)[0])


def test_a_part_of_a_slot_waits_for_the_rest_of_it() -> None:
    """A position within a slot counts as the slot's beginning, before and after the step."""
    types = (LONG,)
    node = Switched((0,), types, key=(0,), placed=(0,))
    facts = RunFacts((0,), {0: (False,)}, {}, {})
    store, rows = DictStore(), [(i,) for i in range(500)]

    def step(change: list[tuple[int]], before: int, after: int) -> Rows:
        context = StepContext(
            facts, StepFacts(DivisionFacts(number=0, filled=(before, after)), (((0,),),), True), store=store, node=0
        )
        return to_rows(step_switched(node, [to_table(change, types)], context))

    slot = HASHES // SLOTS
    assert step(rows, 0, 3) == Counter(), "all of it waits"
    middle = slot_of(int(ColocatedKey((0,), (0,)).hashes(to_table([(7,)], types))[0])) * slot
    below = step([], 3, middle + 5)
    assert (7,) not in below
    assert (7,) in step([], middle + 5, middle + slot)
    assert step([], middle + slot, middle + slot) == Counter()


def test_what_lies_elsewhere_comes_back_to_its_place() -> None:
    """A kept reader finds its state where it was, although the difference leaves by other columns than those by which the view lies."""

    def project(factor: int) -> Circuit:
        nodes = joined(factor).nodes
        types, names = nodes[4].types, ("id", "word", "n")
        return Circuit((*nodes, Distinct((4,), types), View((6,), types, "w", names, kept=True)))

    made = led(project(1), project(2), gradual=True)  # it checks the places
    switching = made.filling.switching.circuit.nodes
    assert [type(node) for node in switching if isinstance(node, Switched | Placed)] == [Switched, Placed]
    journey, chance = Journey(made, 3, 1), random.Random(1)
    rows = [(i, f"w{i % 7}") for i in range(40)]
    right = to_table([(i, f"w{i}") for i in range(7)], TYPES)
    nothing = to_table([], TYPES)
    journey.step({"left": to_table(rows, TYPES), "right": right})
    journey.way.begin()
    journey.way.advance(journey.way.whole)
    journey.step({"left": nothing, "right": nothing})
    journey.way.begin_to_drain()
    for part in range(1, 6):
        journey.way.drain(HASHES * part // 5)
        gone = rows.pop(chance.randrange(len(rows)))
        journey.step({"left": to_table(Counter({gone: -1}), TYPES), "right": nothing})
    journey.way.settle()
    assert contents_of(journey.inner)["w"] == Counter({(i, word, 2 * i): 1 for i, word in rows})
