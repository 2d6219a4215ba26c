"""A TemporalFilter has the rows of which a plain reading of its bounds says so, whatever the times and the steps were.

The model evaluates each comparison forward with Python's calendar, while the operator computes borders backward."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Literal

import numpy as np
import pyarrow as pa
import pytest

from engine.model.circuit import Circuit, View
from engine.model.clock import CLOCK_TYPES, ClockBound, ClockFunction, ClockValue, TemporalFilter
from engine.model.rows import Source
from engine.operators.clock_bounds import first_times
from engine.operators.context import StepContext
from engine.operators.facts import DivisionFacts, StepFacts
from engine.operators.temporal_filter import INSIDE, WAITING
from engine.rows import zset
from engine.state import timed_rows
from engine.state.runs import as_zset
from engine.state.store import DictStore
from engine.state.trace import Trace
from stepwell.lowering.rules.constant import constant
from tests.engine.in_process import InProcess
from tests.engine.zsets import Rows, plus, to_rows, to_table

SECOND, DAY = 1_000_000, 86_400_000_000
START = int(datetime(2024, 1, 29, 22, tzinfo=UTC).timestamp()) * SECOND  # before the last day of a February of 29 days
LONG, TIMESTAMP = pa.int64(), pa.timestamp("us", "UTC")

EPOCH = date(1970, 1, 1)


def add_months(day: int, months: int) -> int:
    at = EPOCH + timedelta(day)
    month = at.year * 12 + at.month - 1 + months
    first, after = date(month // 12, month % 12 + 1, 1), date((month + 1) // 12, (month + 1) % 12 + 1, 1)
    return (min(first + timedelta(at.day - 1), after - timedelta(1)) - EPOCH).days


def to_months(day: int) -> int:
    at = EPOCH + timedelta(day)
    return (at.year - 1970) * 12 + at.month - 1


FORWARD: dict[str, Callable[[int, int], int]] = {
    "add": lambda x, n: x + n,
    "multiply": lambda x, n: x * n,
    "divide": lambda x, n: x // n,
    "add_months": add_months,
    "to_months": lambda x, n: to_months(x),
    "of_months": lambda x, n: (date(1970 + x // 12, x % 12 + 1, 1) - EPOCH).days,
}


def value(path: tuple[ClockFunction, ...], time: int) -> int:
    for function in path:
        time = FORWARD[function.kind](time, function.amount)
    return time


OF_DAY = ClockFunction("divide", DAY)
PATHS = {
    "now": (),
    "a week ago": (ClockFunction("add", -7 * DAY),),
    "the day": (OF_DAY,),
    "the hour": (ClockFunction("divide", 3600 * SECOND), ClockFunction("multiply", 3600 * SECOND)),
    "a month ago": (OF_DAY, ClockFunction("add_months", -1)),
    "in a month": (OF_DAY, ClockFunction("add_months", 1)),
    "the month": (OF_DAY, ClockFunction("to_months"), ClockFunction("of_months"), ClockFunction("multiply", DAY)),
    "the quarter": (
        OF_DAY, ClockFunction("to_months"), ClockFunction("divide", 3), ClockFunction("multiply", 3), ClockFunction("of_months"),
    ),
    "seconds": (ClockFunction("divide", SECOND), ClockFunction("add", -3600)),
}  # fmt: skip


@pytest.mark.parametrize("name", PATHS)
def test_the_first_time_at_which_a_function_of_the_clock_reaches_a_value(name: str) -> None:
    path, chance = PATHS[name], random.Random(name)
    for _ in range(400):
        near = START + chance.randrange(-800 * DAY, 800 * DAY)
        wanted = value(path, near) + chance.randint(-3, 3)
        found = int(first_times(path, np.array([wanted]))[0])
        assert value(path, found) >= wanted > value(path, found - 1), (near, wanted)


def test_values_beyond_every_time_are_never_reached_or_were_always() -> None:
    ends = np.array([-(1 << 63), (1 << 63) - 1])
    for path in PATHS.values():
        low, high = first_times(path, ends, more=1).tolist()
        assert low < -(1 << 50) and high > 1 << 50


RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "=": lambda a, b: a == b,
    ">=": lambda a, b: a >= b,
    ">": lambda a, b: a > b,
}

Bounds = tuple[ClockBound, ...]


def circuit(bounds: Bounds) -> Circuit:
    """Rows of a key and two numbers that are compared; the filter gives the key and the first number."""
    return Circuit(
        (
            Source((), (LONG, LONG, LONG), "rows", retracts=True),
            constant(pa.table({"c0": pa.array([0], LONG)})),
            ClockValue((1,), CLOCK_TYPES),
            TemporalFilter((0, 2), (LONG, LONG), bounds),
            View((3,), (LONG, LONG), name="v", names=("a", "b"), kept=True),
        )
    )


def matching(bounds: Bounds, rows: Rows, time: int) -> Rows:
    def is_there(row: tuple[int | None, ...]) -> bool:
        return all((y := row[b.column]) is not None and RELATIONS[b.relation](value(b.path, time), y) for b in bounds)

    found: Rows = Counter()
    for row, weight in rows.items():
        if is_there(row):
            found[row[:2]] += weight
    return Counter({row: weight for row, weight in found.items() if weight})


def context(run: InProcess, store: DictStore, node: int) -> StepContext:
    return StepContext(
        run.facts, StepFacts(DivisionFacts(number=run.steps), run.plan.input_colocation, owns_keyless=True), store, node
    )


def content(run: InProcess) -> Rows:
    """That of the view."""
    found: Rows = Counter()
    for store in run.stores:
        stored = context(run, store, 4).trace(0, (LONG, LONG), (0, 1)).scan()
        found = plus(found, to_rows(as_zset(stored)))
    return found


def traces(run: InProcess) -> tuple[Trace, Trace]:
    """Those of the filter on the first worker: of the rows that wait, and of those that are inside."""
    of_filter = context(run, run.stores[0], 3)
    return of_filter.trace(WAITING, (LONG,) * 4, ()), of_filter.trace(INSIDE, (LONG,) * 3, ())


def histories(seed: int) -> Iterator[tuple[Bounds, list[tuple[int, Rows]]]]:
    """Bounds, and for each step its time and the change of the rows. Each second time the bounds are an interval of two days, in which a row
    enters and leaves. The clock stands still, ticks, and jumps."""
    chance = random.Random(seed)
    for number in range(8):
        names = [chance.choice(list(PATHS)) for _ in range(chance.randint(1, 2))]
        drawn = [ClockBound(PATHS[name], relation_of(chance), 1 + at) for at, name in enumerate(names)]
        if number % 2:
            names = ["now"]
            drawn = [ClockBound((), ">=", 1), ClockBound((ClockFunction("add", -2 * DAY),), "<", 1)]
        steps, time, there = [], START, Counter[tuple[int | None, ...]]()
        for _ in range(8):
            time += chance.choice((0, SECOND, 3600 * SECOND, DAY, chance.randrange(60 * DAY)))
            change: Rows = Counter()
            for row in chance.sample(sorted(there, key=repr), len(there) // 3):
                change[row] -= 1
            for key in range(chance.randint(0, 6)):
                near = [value(PATHS[name], time + chance.randrange(-3 * DAY, 9 * DAY)) for name in names]
                pair = [None if chance.random() < 0.1 else y for y in near]
                change[(key, pair[0], pair[-1])] += 1
            change = Counter({row: weight for row, weight in change.items() if weight})
            there = plus(there, change)
            steps.append((time, change))
        yield tuple(drawn), steps


def relation_of(chance: random.Random) -> Literal["<", "<=", "=", ">=", ">"]:
    return chance.choice(("<", "<=", "=", ">=", ">"))


@pytest.mark.parametrize("workers", (1, 3))
@pytest.mark.parametrize("searches", (False, True))
def test_a_view_has_the_rows_whose_bounds_are_true(
    workers: int, searches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if searches:
        monkeypatch.setattr(timed_rows, "SEARCH_ROWS", 0)
    for bounds, steps in histories(workers):
        run, there = InProcess(circuit(bounds), workers), Counter()
        for time, change in steps:
            there = plus(there, change)
            run.step({"rows": to_table(change, (LONG, LONG, LONG))}, time_us=time)
            assert content(run) == matching(bounds, there, time), (bounds, time)
            _check_border(bounds, there, time, run.border_us)


def _check_border(bounds: Bounds, rows: Rows, time: int, border: int | None) -> None:
    """Nothing changes before the border. (A row that was taken back may leave a border behind, so something need not change there.)"""
    now = matching(bounds, rows, time)
    last = time + 400 * DAY if border is None else border - 1
    assert last >= time and matching(bounds, rows, last) == now


INTERVAL = (ClockBound((), ">=", 1), ClockBound((ClockFunction("add", -DAY),), "<", 1))


@pytest.mark.parametrize("bounds", [*((ClockBound((), r, 1),) for r in ("<", "<=", "=", ">=", ">")), INTERVAL])
@pytest.mark.parametrize("comes", range(4))
def test_a_row_enters_and_leaves_at_its_borders(bounds: Bounds, comes: int) -> None:
    """`comes`: in which step. It is taken back in the last one."""
    run, row = InProcess(circuit(bounds)), (1, START, 0)
    for number, time in enumerate((START - 1, START, START + 1, START + DAY - 1, START + DAY)):
        change: Rows = Counter({row: 1} if number == comes else {})
        run.step({"rows": to_table(change, (LONG, LONG, LONG))}, time_us=time)
        assert content(run) == matching(bounds, Counter({row: 1} if number >= comes else {}), time), time - START
    run.step({"rows": to_table(Counter({row: -1}), (LONG, LONG, LONG))}, time_us=START + DAY)
    assert not content(run) and [trace.scan().num_rows for trace in traces(run)] == [0, 0]


def test_the_state_has_no_row_that_can_match_no_more() -> None:
    bounds = (ClockBound(PATHS["a week ago"], "<", 1),)
    run = InProcess(circuit(bounds))
    rows: Rows = Counter({(key, START + key * SECOND, 0): 1 for key in range(100)})
    run.step({"rows": to_table(rows, (LONG, LONG, LONG))}, time_us=START)
    assert run.border_us == START + 7 * DAY
    run.step({}, time_us=START + 8 * DAY)
    assert not content(run) and run.border_us is None
    late: Rows = Counter({(1, START, 0): 1, (2, START, 0): -1})
    run.step({"rows": to_table(late, (LONG, LONG, LONG))}, time_us=START + 8 * DAY)
    assert [trace.scan().num_rows for trace in traces(run)] == [0, 0]


def test_a_look_between_two_times_opens_the_rows_of_these_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 200,000 rows in one slot it takes those between the times, and their neighbours of two seconds."""
    bounds = (ClockBound((), "<", 1),)
    run = InProcess(circuit(bounds))
    count = 200_000
    times = START + np.arange(count, dtype=np.int64) * SECOND
    table = zset.build(
        [pa.array(np.zeros(count, np.int64)), pa.array(times), pa.array(times)], np.ones(count, np.int64)
    )
    run.step({"rows": table}, time_us=START - 1)
    _, inside = traces(run)
    seen: list[int] = []
    real = timed_rows._candidates

    def counted(*given: object) -> object:
        found = real(*given)  # type: ignore[arg-type]
        seen.append(-1 if found is None else len(found))
        return found

    monkeypatch.setattr(timed_rows, "SEARCH_ROWS", 0)
    monkeypatch.setattr(timed_rows, "_candidates", counted)
    for first, end in ((10, 20), (10, 11), (0, 3), (199_990, 300_000), (-9, 0)):
        seen.clear()
        found = timed_rows.rows_between(inside, 2, START + first * SECOND, START + end * SECOND)
        wanted = range(max(0, first + 1), min(count, end + 1))
        assert sorted(found.column(1).to_pylist()) == [START + at * SECOND for at in wanted]
        assert min(seen) >= 0 and sum(seen) <= len(wanted) + 5
