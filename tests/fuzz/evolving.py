"""Three projects of one seed, and the way from each to the next.

The pipeline runs the first project, fills the second one in random portions while messages come, switches, and goes on to
the third one. Until the first switch, it writes what it writes without a transition. From a switch on, every view is Spark's
batch answer of the project in force over all messages, and what the topics received from the first step on makes the view.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from engine.analysis.filling import FillingPrograms
from engine.errors import DataError
from engine.model.circuit import Circuit
from engine.model.filling import ContentFeed
from engine.model.rows import Source
from io_kafka.step_log.digest import canonical
from stepwell.planning.pipeline import source_table
from stepwell.project.definitions import quiet_spark
from tests.end_to_end.oracle_rows import Content, Watched
from tests.end_to_end.oracle_topics import Message
from tests.engine.in_process import InProcess
from tests.engine.transitions import led
from tests.fuzz.answers import Answers, Raised
from tests.fuzz.cases import Case, Run, View, without_views
from tests.fuzz.edits import Types, edited, with_rows_kept
from tests.fuzz.evolving_machine import EvolvingMachine, Leg, Road, Written
from tests.fuzz.judge import Invalid, Judge, Resolved, Wrong, expect_equal, is_of_milliseconds, messages_in
from tests.fuzz.machine import Machine

PROJECTS = 3
ROWS_MAX = 5_000
"""A view that has more rows is nothing to be compared in a second: edits may multiply them."""


@dataclass(frozen=True)
class Project:
    """One project of the chain, as it is run."""

    case: Case
    resolved: Resolved
    circuit: Circuit
    answers: Answers

    @property
    def types(self) -> Mapping[str, Mapping[str, str]]:
        return self.resolved.types


@dataclass
class Told:
    """What was judged. `read_again`: how many transitions have read messages again. `fed`: the kinds of nodes whose state was given
    to young ones; `young`: the kinds that were beside the previous project."""

    chains: int = 0
    transitions: int = 0
    read_again: int = 0
    answers: int = 0
    crashes: int = 0
    aborts: int = 0
    edits: Counter[str] = field(default_factory=Counter)
    fed: Counter[str] = field(default_factory=Counter)
    young: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        return (
            f"{self.chains} chains, {self.transitions} transitions, {self.read_again} read again, {self.answers} answers compared, "
            f"{self.crashes} crashes, {self.aborts} aborts; edits {dict(self.edits)}; fed {dict(self.fed)}; young {dict(self.young)}"
        )


class EvolvingJudge:
    """`judge`: has the sessions."""

    def __init__(self, judge: Judge) -> None:
        self.judge, self.told = judge, Told()

    def check(self, seed: int, featured: tuple[str, ...] = ()) -> None:
        """Raises Wrong, or Invalid."""
        with quiet_spark():
            try:
                self._check(self.judge.case(seed, featured), random.Random(seed))
            except (PySparkException, Py4JJavaError) as error:
                raise Invalid(str(error)) from error

    def _check(self, case: Case, chance: random.Random) -> None:
        chain = [self._project(with_rows_kept(case, chance))]
        for _ in range(PROJECTS - 1):
            made, edits = edited(chain[0].case, chain[0].types, chance)
            self.told.edits.update(edits)
            chain.append(self._project(made))
        if chance.random() < 0.5:
            chain.reverse()
        self._go(chain, chance)

    def check_pair(self, case: Case, edit: Callable[[Case, Mapping[str, Types]], Case], seed: int) -> None:
        """From the case to the edited one, in whose steps Spark has no error."""
        with quiet_spark():
            first = self._project(case)
            self._go([first, self._project(edit(first.case, first.types))], random.Random(seed))

    def _project(self, case: Case) -> Project:
        """Without the views that are refused, and those for which Spark raises after a compared step."""
        while True:
            case, resolved, circuit = self.judge.supported(case)
            answers = self.judge.batch.answers(case)
            bad = {view for (_, view), rows in answers.items() if isinstance(rows, Raised)}
            if not bad:
                break
            case = without_views(case, bad)
        if any(len(rows) > ROWS_MAX for rows in answers.values() if not isinstance(rows, Raised)):
            raise Invalid("a view that is too large")
        return Project(case, resolved, circuit, answers)

    def _go(self, chain: Sequence[Project], chance: random.Random) -> None:
        uses = {(view.name, view.mode, view.key) for project in chain for view in project.case.views if view.mode}
        if len({name for name, _, _ in uses}) < len(uses):
            raise Invalid("a topic with another mode or key")
        self.told.chains += 1
        run = chain[0].case.runs[-1]
        legs = self._legs(chain, len(run.workers), chance)
        if not legs:
            return
        journey = _Journey(chain[: len(legs) + 1], legs, run)
        try:
            journey.machine.travel()
        except DataError as error:  # a row that is gone when Spark is asked
            raise Invalid(str(error)) from error
        except AssertionError as error:
            raise error if isinstance(error, Wrong) else Wrong("assertion", str(error)) from error
        self.told.answers += journey.answers
        self.told.crashes += journey.machine.crashes
        self.told.aborts += journey.machine.aborts

    def _legs(self, chain: Sequence[Project], steps: int, chance: random.Random) -> list[Leg]:
        """Each begins behind the switch of the one before."""
        legs: list[Leg] = []
        numbers, begins_first = None, 0
        had: Mapping[str, tuple[str, ...]] = {}
        for before, now in pairwise(chain):
            if begins_first >= steps:
                break
            made = led(before.circuit, now.circuit, numbers, had=had)
            if made.refused:
                raise Invalid(f"a plan refuses it: {made.refused[0]}")
            filling, had = made.filling, made.had
            begins = chance.randrange(begins_first, steps)
            switches = chance.randrange(begins, steps)
            aborts = chance.randint(begins + 1, switches) if switches > begins and chance.random() < 0.3 else None
            legs.append(Leg(filling, begins, aborts, switches))
            numbers, begins_first = filling.following.numbers, switches + 1
            self._tell(filling)
        return legs

    def _tell(self, filling: FillingPrograms) -> None:
        self.told.transitions += 1
        nodes = filling.filling.circuit.nodes[len(filling.present.circuit.nodes) :]
        self.told.young.update(node.kind for node in nodes)
        self.told.read_again += any(isinstance(node, Source) for node in nodes)
        self.told.fed.update(node.holder.kind for node in nodes if isinstance(node, ContentFeed))


class _Journey:
    """One run of a chain, and what its topics make. `now`: the number of the project in force."""

    def __init__(self, chain: Sequence[Project], legs: Sequence[Leg], run: Run) -> None:
        self.chain, self.legs = chain, legs
        self.answers = 0
        tables = {s.handle: source_table(s) for project in chain for s in project.resolved.project.sources}
        every = [view for project in chain for view in project.case.views if view.mode is not None]
        partitions = {view.name: view.partitions for view in every}
        first = chain[0]
        self.machine = EvolvingMachine(Road(first.case, run, tuple(legs)), tables, partitions, self._told)
        self.alone = Machine(first.case, replace(run, events=("",) * len(run.events)), first.circuit, tables)
        self.alone.partitions = partitions
        self.alone.inner = InProcess(first.circuit, run.workers[0], partitions)
        self.modes = {view.name: view.mode for view in every}
        self.topics: defaultdict[str, list[list[tuple[int, Message]]]] = defaultdict(list)
        self.folds: dict[str, Content] = {}
        self.now = 0
        self._begin_folds()

    def _told(self, step: int | None, written: Written) -> None:
        """`step`: None if no messages came. The first one of all has the constants nevertheless."""
        if step is not None and self.now < len(self.legs) and step == self.legs[self.now].switches:
            self.now += 1
            self._begin_folds()
        elif self.now == 0:
            self._is_as_alone(step, written)
        for name in self.modes:
            self._take(name, list(messages_in(written, name)), checks=True)
        if self.now > 0 and step in self.chain[0].case.compared:
            assert step is not None
            self._compare(step)

    def _is_as_alone(self, step: int | None, written: Written) -> None:
        alone = self.alone
        nothing: dict[str, Any] = {}
        alone.inner.time_us = self.machine.inner.time_us
        expected = alone.step(step) if step is not None else _canonical(alone.inner.step(nothing))
        for name, table in expected.items():
            if written[name] != table:
                ours, others = written[name].to_pylist()[:4], table.to_pylist()[:4]
                raise Wrong("bytes", f"{name} in step {step}: {ours}, and without a transition {others}")

    # What consumers see

    def _begin_folds(self) -> None:
        """A consumer reads what came with the columns of the views now: others are left out, and missing ones are null."""
        self.folds = {n: Content(Watched(n, n, mode)) for n, mode in self.modes.items() if mode is not None}
        taken, self.topics = self.topics, defaultdict(list)
        if self.now > 0:  # what is published no more, and then again, begins with an empty topic
            published = {view.name for view in self.chain[self.now].case.views if view.mode is not None}
            taken = defaultdict(list, {name: steps for name, steps in taken.items() if name in published})
        for name, steps in taken.items():
            for messages in steps:
                self._take(name, messages, checks=False)

    def _take(self, name: str, messages: list[tuple[int, Message]], *, checks: bool) -> None:
        self.topics[name].append(messages)
        types = self.chain[self.now].types.get(name, {})
        if name in self._with_other_columns():
            messages = [(p, m._replace(value=_with_columns(m.value, types))) for p, m in messages]
        for fault in self.folds[name].take(len(self.topics[name]), messages):
            if checks and not is_of_milliseconds(fault, types):
                raise Wrong("messages", f"{name}: {fault}")

    def _with_other_columns(self) -> set[str]:
        """The views that had other columns in a project before."""
        now = self.chain[self.now].types
        return {
            name
            for project in self.chain[: self.now]
            for name, types in project.types.items()
            if name in now and list(now[name]) != list(types)
        }

    def _compare(self, step: int) -> None:
        project, contents, others = self.chain[self.now], self.machine.contents(), self._with_other_columns()
        for view in project.case.views:
            if view.temporary:
                continue
            self.answers += 1
            sparks = project.answers[step, view.name]
            assert not isinstance(sparks, Raised)
            types = project.types[view.name]
            if view.name in contents:
                expect_equal(view, step, "a query reads", contents[view.name], sparks, types=types)
            if view.mode is not None:
                self._compare_fold(view, step, contents.get(view.name), sparks, is_other=view.name in others)

    def _compare_fold(
        self, view: View, step: int, content: list[bytes] | None, sparks: list[str], *, is_other: bool
    ) -> None:
        """Numbers of messages that were given other columns are no longer written as they were."""
        rows = list(self.folds[view.name].rows())
        if not is_other:
            types = self.chain[self.now].types[view.name]
            expect_equal(view, step, "the messages make", rows, sparks, types=types)
        elif content is not None and _plain(rows) != _plain(content):
            raise Wrong("rows", f"{view.name} after step {step}: messages make {rows[:5]}, a query reads {content[:5]}")


def _canonical(written: Mapping[str, pa.Table]) -> Written:
    return {handle: canonical(table) for handle, table in written.items()}


def _plain(rows: Sequence[bytes]) -> Counter[str]:
    return Counter(str(json.loads(row)) for row in rows)


def _with_columns(value: bytes | None, columns: Mapping[str, str]) -> bytes | None:
    if value is None:
        return None

    def row(found: dict[str, object] | None) -> dict[str, object] | None:
        return None if found is None else {name: found.get(name) for name in columns}

    plain = json.loads(value)
    if plain.keys() == {"before", "after", "op"}:
        return json.dumps(plain | {"before": row(plain["before"]), "after": row(plain["after"])}).encode()
    return json.dumps(row(plain)).encode()
