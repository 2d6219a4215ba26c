"""Rows for which an expression raises are left out and counted, and the outputs behind them are withheld until no such row is left.

The slow twin computes the views of the whole content. What is published has to be the answer of the last step in which no row was in error,
on any number of workers. Spark's answer is in tests/end_to_end/test_views_in_error.py.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.analysis.stages import channels_of, plan_stages
from engine.analysis.withholding import countable, outputs_behind, views_behind, withholding_of
from engine.errors import DataError
from engine.model.aggregates import Aggregate, AggregateCall
from engine.model.circuit import Circuit, Output, View
from engine.model.joins import OuterJoin
from engine.model.node import Expression
from engine.model.rows import Map, ScalarMap, ScalarValue, Source
from engine.model.withholding import Withholding
from engine.operators.error_rows import ALONE_ROWS_MAX, ErrorRows, attempt_all
from engine.operators.outer_join import step_outer_join
from engine.state.store import DictStore
from tests.engine.contexts import context_of
from tests.engine.in_process import InProcess
from tests.engine.zsets import TYPES, Rows, histories, plus, to_table
from tests.examples import examples

LONG, TEXT = TYPES
IN_ERROR = 2
"""The number with which a row is in error."""
TENS = Expression(f"CASE WHEN c0 = {IN_ERROR} THEN error('[DIVIDE_BY_ZERO] two') ELSE c0 * 10 END", LONG)
CIRCUIT = Circuit(
    (
        Source((), TYPES, "words"),
        Map((0,), (TEXT, LONG), None, (Expression("c1", TEXT, 1), TENS)),
        View((1,), (TEXT, LONG), "tens", ("word", "ten"), False),
        Output((2,), (), "tens", "changelog", ("word", "ten")),
        Aggregate((2,), (TEXT, LONG), (0,), (AggregateCall("count", None, False, LONG),)),
        View((4,), (TEXT, LONG), "counts", ("word", "rows"), False),
        Output((5,), (), "counts", "changelog", ("word", "rows")),
        View((0,), TYPES, "all", ("number", "word"), False),
        Output((7,), (), "all", "changelog", ("number", "word")),
    )
)
MAP = 1
HANDLES = {"tens", "counts", "all"}


def answer(content: Rows) -> dict[str, Rows]:
    """What the views are over rows without an error."""
    tens: Rows = Counter()
    counts: Rows = Counter()
    for (number, word), weight in content.items():
        tens[word, None if number is None else number * 10] += weight
        counts[word] += weight  # type: ignore[index]
    rows: Rows = Counter(dict.fromkeys(counts.items(), 1))  # type: ignore[dict-item]
    return {"tens": tens, "counts": rows, "all": content}


def changes(messages: pa.Table) -> Rows:
    """The Z-set that the messages of a changelog are."""
    rows: Rows = Counter()
    for value in messages.column("value").to_pylist():
        message = json.loads(value)
        for image, weight in (("before", -1), ("after", 1)):
            if message[image] is not None:
                rows[tuple(message[image].values())] += weight
    return rows


class Withheld:
    """A circuit, whose steps count error rows as a coordinator lets them."""

    def __init__(self, workers: int) -> None:
        self.run = InProcess(CIRCUIT, workers, dict.fromkeys(HANDLES, 2))
        retracting = {index: (False,) * len(node.inputs) for index, node in enumerate(CIRCUIT.nodes)}
        self.run.facts = replace(self.run.facts, append_only=retracting)
        self.published: dict[str, Rows] = {handle: Counter() for handle in HANDLES}
        self.counted: frozenset[int] = frozenset()

    @property
    def in_error(self) -> frozenset[int]:
        return frozenset(node for node, errors in self.run.errors.items() if not errors.is_nothing)

    def step(self, change: Rows, *, fails: bool = False) -> Withholding:
        """`fails`: a row of the step is in error, which a coordinator knows when it has tried."""
        still = countable(CIRCUIT) if fails and not self.in_error else self.in_error
        released = outputs_behind(CIRCUIT, self.counted) - outputs_behind(CIRCUIT, still)
        self.counted = still
        withholding = withholding_of(CIRCUIT, still, released)
        for handle, messages in self.run.step({"words": to_table(change, TYPES)}, withholding).items():
            self.published[handle] = plus(self.published[handle], changes(messages))
        return withholding


@settings(deadline=None, max_examples=examples(60))
@given(histories(steps_max=8), st.integers(1, 3))
def test_what_is_published_is_the_answer_of_the_last_step_that_had_one(history: list[Rows], workers: int) -> None:
    withheld, content = Withheld(workers), Rows()
    answered: dict[str, Rows] = {handle: Counter() for handle in HANDLES}
    for change in [*history, Rows()]:
        content = plus(content, change)
        wrong = any(number == IN_ERROR for number, _ in content)
        withholding = withheld.step(change, fails=any(number == IN_ERROR for number, _ in change))
        assert withheld.in_error == ({MAP} if wrong else frozenset())
        right = answer(Rows() if wrong else content)
        for handle in HANDLES - withholding.withheld:
            answered[handle] = right[handle] if handle != "all" else content
        assert withheld.published == answered
    assert withheld.counted == withheld.in_error


def test_two_errors_one_after_the_other_write_what_was_kept_once() -> None:
    withheld = Withheld(2)
    one, two, wrong = Rows({(1, "a"): 1}), Rows({(3, "b"): 1}), Rows({(2, "x"): 1, (4, "c"): 1})
    for change in (one, wrong):
        withheld.step(change, fails=change is wrong)
    gone = Rows({(2, "x"): -1})
    withheld.step(gone)
    for change in (two, wrong, gone):
        withheld.step(change, fails=change is wrong)
    withheld.step(Rows())
    assert withheld.published == answer(plus(plus(one, two), Rows({(4, "c"): 2})))


def test_different_rows_that_come_and_go_do_not_look_like_none() -> None:
    withheld = Withheld(1)
    withheld.step(Rows({(2, "x"): 1}), fails=True)
    withheld.step(Rows({(2, "x"): -1, (2, "y"): 1}))
    assert withheld.in_error == {MAP} and withheld.run.errors[MAP].rows == 1
    errors = ErrorRows()
    for row, sign in (((2, "x"), 1), ((2, "y"), -1)):
        errors.add(to_table([row], TYPES), DataError("it raises."), sign)
    assert errors.rows == 0 and not errors.is_nothing, "sums alone would say that there is none"
    assert errors.example == "it raises."


def test_a_step_that_counts_nothing_ends_with_the_error_and_the_node() -> None:
    with pytest.raises(DataError, match="DIVIDE_BY_ZERO") as raised:
        InProcess(CIRCUIT).step({"words": to_table([(2, "x")], TYPES)})
    assert (raised.value.node, raised.value.owner, raised.value.is_of_rows) == (MAP, "view tens", True)


def test_what_depends_on_a_node() -> None:
    assert outputs_behind(CIRCUIT, [MAP]) == {"tens", "counts"} and views_behind(CIRCUIT, [4]) == {"counts"}
    assert outputs_behind(CIRCUIT, []) == frozenset()
    assert countable(CIRCUIT) == {1, 4}


def test_only_withheld_outputs_are_in_other_stages() -> None:
    """Their channels are known before, because a message names its channel by a number."""
    usual, every = plan_stages(CIRCUIT), frozenset(HANDLES)
    for handles in (frozenset({"all"}), frozenset({"tens", "counts"}), every):
        withheld = plan_stages(CIRCUIT, handles)
        assert set(withheld.last_read) <= set(channels_of(usual))
        for index, node in enumerate(CIRCUIT.nodes):
            if isinstance(node, Output) and node.handle in handles:
                assert withheld.stage[index] > 0, "it has state"
                assert withheld.input_colocation[index][0] is not None
            else:
                assert withheld.stage[index] == usual.stage[index]
                assert withheld.arrivals[index] == usual.arrivals[index]


@settings(max_examples=examples(60))
@given(st.lists(st.integers(0, 6), max_size=40))
def test_rows_that_fail_are_found_among_the_others(numbers: Sequence[int]) -> None:
    table, tries = pa.table({"c0": pa.array(numbers, pa.int64())}), 0

    def attempt(part: pa.Table) -> list[Any] | None:
        nonlocal tries
        tries += 1
        found = part.column(0).to_pylist()
        return None if IN_ERROR in found else found

    done, failing = attempt_all(attempt, table)
    assert failing == [place for place, number in enumerate(numbers) if number == IN_ERROR]
    assert list(chain.from_iterable(done)) == [number for number in numbers if number != IN_ERROR]
    assert tries <= 1 + numbers.count(IN_ERROR) * (ALONE_ROWS_MAX + 2 * len(numbers).bit_length())


def test_if_all_rows_fail_there_are_few_attempts_more_than_rows() -> None:
    tries: list[int] = []
    _, failing = attempt_all(lambda part: tries.append(part.num_rows), pa.table({"c0": range(1000)}))
    assert len(failing) == 1000 and len(tries) < 1300


KEYED = Circuit(
    (
        Source((), TYPES, "words"),
        View((0,), TYPES, "words", ("number", "word"), True, (0,)),
        Output((1,), (), "words", "upsert", ("number", "word"), (0,)),
        ScalarValue((0,), (*TYPES, pa.bool_())),
        ScalarMap((0, 3), (LONG, LONG), 2, None, (Expression("c0", LONG, 0), Expression("c2", LONG, 2))),
        View((4,), (LONG, LONG), "beside", ("number", "value"), False),
        Output((5,), (), "beside", "changelog", ("number", "value")),
    )
)
"""A view with a key, and rows beside the one row of a subquery."""


@settings(deadline=None, max_examples=examples(60))
@given(histories(steps_max=8), st.integers(1, 3))
def test_keys_with_several_rows_and_subqueries_with_several_rows_are_counted(history: list[Rows], workers: int) -> None:
    run = InProcess(KEYED, workers, {"words": 1, "beside": 1})
    retracting = {index: (False,) * len(node.inputs) for index, node in enumerate(KEYED.nodes)}
    run.facts = replace(run.facts, append_only=retracting)
    assert countable(KEYED) == {1, 3, 4}
    withholding, content = withholding_of(KEYED, countable(KEYED), ()), Rows()
    for change in [*history, Rows()]:
        content = plus(content, change)
        run.step({"words": to_table(change, TYPES)}, withholding)
        doubled = [key for key, rows in sum_by_number(content).items() if rows > 1]
        found = {node: errors.rows for node, errors in run.errors.items() if not errors.is_nothing}
        assert found == {node: rows for node, rows in ((1, len(doubled)), (3, int(content.total() > 1))) if rows}
    released = run.step({}, Withholding(countable(KEYED), released=frozenset({"beside"})))
    # While the value is in error its readers hold nothing, and after that what they would hold if it had never been.
    assert changes(released["beside"]) == ({(n, n): 1 for n, _ in content} if content.total() <= 1 else {})


def sum_by_number(content: Rows) -> Rows:
    """The number of rows of each key."""
    found: Rows = Counter()
    for (number, _), weight in content.items():
        found[number] += weight  # type: ignore[index]
    return found


SINGLE = OuterJoin((0, 1), (*TYPES, *TYPES), False, (0,), (0,), (False,), None, True)


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.tuples(histories(steps_max=1), histories(steps_max=1)), min_size=1, max_size=6), st.booleans())
def test_rows_with_several_matches_are_counted(steps: list[tuple[list[Rows], list[Rows]]], takes_back: bool) -> None:
    """Of a subquery that stands for a value for each row outside. A row counts once, however often it is there."""
    store, errors, left, right = DictStore(), ErrorRows(), Rows(), Rows()
    parts = [(one[0], two[0]) for one, two in steps]
    if takes_back:
        parts += [(negated(one), negated(two)) for one, two in parts]
    for number, (one, two) in enumerate(parts):
        context = context_of(SINGLE, store, number, errors=ErrorRows())
        step_outer_join(SINGLE, [to_table(one, TYPES), to_table(two, TYPES)], context)
        assert context.errors is not None
        errors = errors.plus(context.errors)
        left, right = plus(left, one), plus(right, two)
        matches = sum_by_number(right)
        expected = sum(key is not None and matches[key] > 1 for key, _ in left)  # type: ignore[index]
        assert errors.rows == expected
    assert not takes_back or errors.is_nothing


def negated(rows: Rows) -> Rows:
    return Counter({row: -weight for row, weight in rows.items()})
