"""What the state of a node tells of its content, by ranges of slots, is the sum of all changes that the node has put out.

Two circuits run in steps of random changes on one to three workers. After each node's step, its content is read in random ranges that
cover all slots. `every_kind` has all kinds of nodes. `ODD` has what is unusual in rows: NULL and NaN in keys, -0.0 beside 0.0, nested values,
rows that are there several times, rows in error, and rows that are taken back before they come.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from base.ranges import Range
from base.slots import SLOTS
from engine.analysis.content import content_below
from engine.analysis.withholding import countable, withholding_of
from engine.model.aggregates import Aggregate, AggregateCall, FinalAggregate, PartialAggregate, ValuesCall
from engine.model.circuit import Circuit, Node, View
from engine.model.clock import ClockValue
from engine.model.joins import Join, SemiJoin
from engine.model.node import Expression
from engine.model.ordered import Sessions, SortKey, TopK, Window, WindowCall, WindowFrame
from engine.model.rows import Deduplicate, Distinct, LastByKey, Map, ScalarMap, ScalarValue, Source
from engine.model.withholding import NOTHING_WITHHELD, Withholding
from engine.operators.context import StepContext
from engine.operators.table import OPERATORS, operator_of
from engine.rows import zset
from engine.run import stage
from engine.state.store import DictStore
from tests.engine.contexts import contexts_of
from tests.engine.every_kind import MESSAGE, PARTITIONS, every_kind, history
from tests.engine.in_process import InProcess
from tests.engine.zsets import to_table

LONG, DOUBLE, TEXT = pa.int64(), pa.float64(), pa.string()
MOMENT = pa.timestamp("us", "UTC")
RANGE = pa.struct([pa.field("start", MOMENT), pa.field("end", MOMENT)])
NESTED = pa.list_(pa.field("element", pa.struct([pa.field("d", DOUBLE), pa.field("s", TEXT)])))
ROW = (LONG, DOUBLE, TEXT, NESTED)
NAN = float("nan")
HALF = 1 << 62
"""Two of them are more than a long can hold."""


def fails_where(condition: str, otherwise: str) -> str:
    return f"CASE WHEN {condition} THEN error('[DIVIDE_BY_ZERO] two') ELSE {otherwise} END"


def call(function: Any, argument: int | None = None, kind: pa.DataType = LONG, *, distinct: bool = False) -> Any:
    return AggregateCall(function, argument, distinct, kind)


class _Odd:
    def __init__(self) -> None:
        self.nodes: list[Node] = []
        grows = self._add(Source((), ROW, "grows"))
        log = self._add(Source((), ROW, "log", retracts=True))
        early = self._add(Source((), ROW, "early", retracts=True))
        keyed = self._add(Source((), (*ROW, *MESSAGE[2:]), "keyed", keyed=True))
        table = self._add(LastByKey((keyed,), ROW, "keyed", (1, 2)))
        for place, below in enumerate((grows, log, early)):
            self._rows(below, f"of {place}")
            self._ordered(below)
        self._joins(grows, log)
        self._joins(early, table)
        self._add(Join((table, log), (*ROW, *ROW), (), (), ()))
        for below in (grows, table):  # a count below zero ends a step
            self._aggregates(below)
        self._values(log)

    def _add(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def _rows(self, below: int, name: str) -> None:
        names = ("k", "x", "t", "n")
        self._add(View((below,), ROW, f"all {name}", names, True))
        self._add(View((below,), ROW, f"keyed {name}", names, True, (1, 2)))
        self._add(Distinct((below,), ROW))
        words = self._add(Map((below,), (TEXT, DOUBLE), None, (Expression("c2", TEXT, 2), Expression("c1", DOUBLE, 1))))
        self._add(Distinct((words,), (TEXT, DOUBLE)))
        for key in ((1, 0), (3,)):
            self._add(Deduplicate((below,), ROW, key))

    def _ordered(self, below: int) -> None:
        """Keys of TopK and Window have no -0.0: lowering puts 0.0 in its place, as Spark does."""
        plus_zero = tuple(
            Expression(f"c{i} + 0.0" if i == 1 else f"c{i}", t, i if i != 1 else None) for i, t in enumerate(ROW)
        )
        below = self._add(Map((below,), ROW, None, plus_zero))
        for key, order, offset, count in (
            ((1,), (SortKey(0, False, False),), 0, 2),
            ((3, 2), (SortKey(1, True, True), SortKey(0, True, False)), 1, 2),
            ((), (SortKey(1, False, True),), 2, 3),
        ):
            self._add(TopK((below,), ROW, key, order, offset, count))
        numbers = (
            WindowCall("row_number", None, WindowFrame("rows", None, 0), pa.int32()),
            WindowCall("sum", 0, WindowFrame("rows", None, 0), LONG),
        )
        wide = (*ROW, pa.int32(), LONG)
        by_word = self._add(Window((below,), wide, (2,), (SortKey(1, True, True),), numbers))
        self._add(Window((below,), wide, (), (SortKey(0, True, True),), numbers))
        # Their rows lie by the word, which is a part of each key.
        self._add(Distinct((by_word,), wide))
        self._add(TopK((by_word,), wide, (1, 2), (SortKey(4, False, True),), 0, 2))
        self._add(Deduplicate((by_word,), wide, (0, 2)))
        self._add(Aggregate((by_word,), (DOUBLE, TEXT, LONG), (1, 2), (call("count"),)))
        bounds = '"start" := make_timestamp(c0 * 1000000), "end" := make_timestamp(c0 * 1000000 + 1500000)'
        near = Expression("c0 < 9", pa.bool_())
        own = (
            Expression("c2", TEXT, 2),
            Expression("c1", DOUBLE, 1),
            Expression(f"struct_pack({bounds})", RANGE),
        )
        ranges = self._add(Map((by_word,), (TEXT, DOUBLE, RANGE), near, own))
        self._add(Sessions((ranges,), (TEXT, DOUBLE, RANGE), (0, 1), 2))

    def _joins(self, left: int, right: int) -> None:
        both = (*ROW, *ROW)
        condition = Expression(fails_where("c0 = 2 AND c4 < 2", "c0 <= c4"), pa.bool_())
        for residual in (None, condition):
            self._add(Join((left, right), both, (1, 2), (1, 2), (True, False), residual))
            self._add(SemiJoin((left, right), ROW, False, (1, 3), (1, 3), (False, True), residual))

    def _aggregates(self, below: int) -> None:
        calls = (call("count"), call("sum", 0), call("max", 1, DOUBLE), call("count", 1, distinct=True))
        values = (*calls, ValuesCall("collect_list", 1, False, pa.list_(pa.field("element", DOUBLE))))
        for key, some in (((), values), ((1,), calls), ((2, 3), values)):
            types = (*(ROW[column] for column in key), *(each.type for each in some))
            self._add(Aggregate((below,), types, key, some))
        sums = (call("count"), call("sum", 0))
        for key in ((), (1, 2)):
            group = tuple(ROW[column] for column in key)
            partials = self._add(PartialAggregate((below,), (*group, *[LONG] * 4), key, sums))
            places = tuple(range(len(key)))
            self._add(FinalAggregate((partials,), (*group, LONG, LONG), places, sums, (LONG,), len(key)))

    def _values(self, log: int) -> None:
        """A value that is in error while the log has two of the rows, and one that always is there."""
        low = self._add(Map((log,), (DOUBLE,), Expression("c0 IN (-1, 0)", pa.bool_()), (Expression("c1", DOUBLE, 1),)))
        single = self._add(ScalarValue((low,), (DOUBLE, pa.bool_())))
        most = self._add(Aggregate((log,), (LONG,), (), (call("max", 0),)))
        top = self._add(ScalarValue((most,), (LONG, pa.bool_())))
        kept = (Expression("c3", NESTED, 3), Expression("c2", TEXT, 2))
        for below in (log, 0):
            for told in ((top,), (top, single)):
                wrong = Expression(fails_where("c0 = 2", "c4"), self.nodes[told[0]].types[0])
                types = (*(each.type for each in kept), wrong.type)
                within = Expression("c0 IS NULL OR c0 <= 3", pa.bool_())
                self._add(ScalarMap((below, *told), types, 4, within, (*kept, wrong)))


ODD = Circuit(tuple(_Odd().nodes))
KINDS = every_kind()


def odd_history(seed: int) -> list[dict[str, pa.Table]]:
    """The first step is the largest. So a trace keeps its rows and those of a later step in two runs, and a row that is gone is in both."""
    chance = random.Random(seed)
    said: list[tuple[Any, ...]] = []
    owed: list[tuple[Any, ...]] = []
    steps = []
    for number in range(4):
        grows, log, early = (
            [_row(chance) for _ in range(chance.choice((0, 3, 6)) if number else 14)] for _ in range(3)
        )
        said += log
        gone = [said.pop(chance.randrange(len(said))) for _ in range(len(said) // (4 if number else 2))]
        back = [_row(chance) for _ in range(4)]
        early, owed = early + owed, back
        messages = [(*_row(chance), chance.random() < 0.3, 0, number * 30 + i) for i in range(3 if number else 30)]
        steps.append(
            {
                "grows": to_table(grows, ROW),
                "log": zset.add([to_table(log, ROW), zset.negate(to_table(gone, ROW))]),
                "early": zset.add([to_table(early, ROW), zset.negate(to_table(back, ROW))]),
                "keyed": to_table(messages, (*ROW, *MESSAGE[2:])),
            }
        )
    return steps


def _row(chance: random.Random) -> tuple[Any, ...]:
    """Few different values, so that keys and whole rows are often equal."""
    number = chance.choice((None, -1, 0, 1, 2, 3, HALF))
    double = chance.choice((None, NAN, 0.0, -0.0, 1.5))
    nested = chance.choice((None, [], [{"d": 0.0, "s": "a"}], [{"d": -0.0, "s": "a"}], [{"d": NAN, "s": None}, None]))
    return number, double, chance.choice((None, "", "ä")), nested


def ranges_of_all_slots(chance: random.Random) -> list[Range]:
    """Sometimes the lowest slot alone, in which rows without a key are; sometimes empty ones."""
    cuts = sorted(chance.choice((0, 1, chance.randrange(SLOTS), SLOTS)) for _ in range(chance.randint(0, 3)))
    return list(zip([0, *cuts], [*cuts, SLOTS], strict=True))


class Watched:
    """A circuit whose nodes are read after each of their steps. `changes` and `read` are by node: what it has put out in all steps, and what
    was read of it in the last one. `in_error`: the kinds of nodes that have had error rows."""

    def __init__(self, circuit: Circuit, workers: int, chance: random.Random, withholding: Withholding) -> None:
        self.machine = InProcess(circuit, workers, PARTITIONS)
        self.withholding = withholding
        self._ranges, self._chance = ranges_of_all_slots(chance), chance
        self._nodes = circuit.nodes
        self.changes: dict[int, list[pa.Table]] = {}
        self.read: dict[int, list[pa.Table]] = {}
        self.in_error: set[str] = set()
        self._run_node = stage._run_node

    def step(self, given_: Mapping[str, pa.Table]) -> None:
        self.read, self._ranges = {}, ranges_of_all_slots(self._chance)
        with patch.object(stage, "_run_node", self._step_and_read):
            self.machine.step(given_, self.withholding)
        self.in_error |= {self._nodes[i].kind for i, errors in self.machine.errors.items() if errors.rows}

    def _step_and_read(
        self, task: stage.WorkerStep, index: int, inputs: Sequence[pa.Table], store: Any, found: Any
    ) -> pa.Table:
        made, node = self._run_node(task, index, inputs, store, found), self._nodes[index]
        operator = operator_of(node)
        if operator.is_fed_from_state(node):
            assert operator.state.fed is not None
            self.changes.setdefault(index, []).append(made)
            types = [self._nodes[i].types for i in node.inputs]
            told = [
                t
                for i, t in zip(node.inputs, inputs, strict=True)
                if isinstance(self._nodes[i], ScalarValue | ClockValue)
            ]
            context = StepContext(task.run, task.step, store, index)
            for slots in self._ranges:
                rows = operator.state.fed.rows(node, types, told, replace(context, slots=slots))
                assert rows.schema.equals(zset.schema_of(node.types))
                self.read.setdefault(index, []).append(rows)
        return made

    def check(self) -> None:
        assert self.read.keys() == self.changes.keys()
        for index, parts in self.read.items():
            named = f"node {index}: {self._nodes[index]}"
            read, whole = zset.add(parts), zset.add(self.changes[index])
            wrong = zset.consolidate(zset.add([read, zset.negate(whole)]))
            assert not wrong.num_rows, f"{named}: {wrong.to_pylist()}"
            ones = pa.array(np.ones(read.num_rows, np.int64))
            seen = zset.consolidate(read.set_column(read.num_columns - 1, zset.WEIGHT, ones))
            if not isinstance(self._nodes[index], ScalarMap):  # rows taken back early may give what others give
                assert seen.num_rows == zset.consolidate(whole).num_rows, f"{named}: it tells rows that are gone"
            self.changes[index] = [zset.consolidate(whole)]


SUITE_SEED = 2
"""Three workers. Of unusual rows, it has errors in every kind of node that counts them."""


def seeds(in_soak: int) -> list[Any]:
    return [seed if seed == SUITE_SEED else pytest.param(seed, marks=pytest.mark.soak) for seed in range(in_soak)]


@pytest.mark.parametrize("seed", seeds(12))
def test_what_is_fed_from_state_is_the_sum_of_all_changes(seed: int) -> None:
    watched = Watched(KINDS, 1 + seed % 3, random.Random(seed), NOTHING_WITHHELD)
    for given_ in history(seed):
        watched.step(given_)
        watched.check()


@cache
def after_odd_history(seed: int) -> Watched:
    """Error rows are counted in every step. Two tests share one run."""
    watched = Watched(ODD, 1 + seed % 3, random.Random(seed), withholding_of(ODD, countable(ODD), ()))
    for given_ in odd_history(seed):
        watched.step(given_)
        watched.check()
    return watched


@pytest.mark.parametrize("seed", seeds(60))
def test_what_is_fed_from_state_is_that_sum_for_unusual_rows(seed: int) -> None:
    """None of the error rows is fed."""
    assert after_odd_history(seed).changes


def test_rows_are_in_error_where_they_can_be() -> None:
    """Otherwise the comparison of unusual rows would show less than it says."""
    counting = {"Aggregate", "FinalAggregate", "Join", "ScalarMap", "ScalarValue", "SemiJoin", "View", "Window"}
    assert after_odd_history(SUITE_SEED).in_error == counting


def test_nothing_is_fed_before_there_are_rows_but_the_one_of_an_aggregate_without_keys() -> None:
    for circuit in (KINDS, ODD):
        watched = Watched(circuit, 2, random.Random(0), NOTHING_WITHHELD)
        watched.step({})
        watched.check()
        aggregates = {i: n for i, n in enumerate(circuit.nodes) if isinstance(n, Aggregate | FinalAggregate)}
        fed = {index for index in aggregates if any(part.num_rows for part in watched.read[index])}
        assert fed == {index for index, node in aggregates.items() if not node.group}


def test_every_operator_that_can_be_fed_from_is_compared() -> None:
    compared = {type(n) for circuit in (KINDS, ODD) for n in circuit.nodes if operator_of(n).is_fed_from_state(n)}
    assert compared == {operator.node for operator in OPERATORS if operator.state.fed is not None}


def test_a_query_before_the_first_step_finds_no_row_of_an_aggregate_without_keys() -> None:
    total = next(i for i, node in enumerate(KINDS.nodes) if isinstance(node, Aggregate) and not node.group)
    for step in (0, 1):
        assert content_below(KINDS, total, contexts_of(KINDS, DictStore(), step)).num_rows == step
