"""Rows for which the format of an output has no message are error rows of that output alone: it is withheld, and all others go on.

The slow twin computes the views of the whole content. What a consumer of a topic has must be the answer of the last step in which the output
was not in error, on any number of workers.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.options import OutputFormatName, OutputKeyFormat
from base.text.patterns import NO_PATTERNS
from engine.analysis.withholding import countable, outputs_behind, withholding_of
from engine.errors import DataError
from engine.model.aggregates import Aggregate, AggregateCall
from engine.model.circuit import Circuit, Output
from engine.model.node import Expression
from engine.model.rows import Map, Source
from engine.model.withholding import Withholding
from engine.operators.error_rows import ErrorRows
from engine.operators.facts import DivisionFacts
from engine.operators.output import RowWithoutMessage, step_output
from engine.state.store import DictStore
from io_kafka.formats.encodings import ProtobufIds
from io_kafka.formats.written import PLAIN, Written
from tests.engine.contexts import context_of
from tests.engine.in_process import InProcess
from tests.engine.zsets import TYPES, Rows, histories, plus, to_table

LONG, TEXT = TYPES
IN_ERROR = 2
"""The number with which a row is in error in the Map, which is a node above two of the outputs."""
CALM = Expression(f"CASE WHEN c0 = {IN_ERROR} THEN error('[DIVIDE_BY_ZERO] two') ELSE c0 END", LONG)
COUNTED = (AggregateCall("count", None, False, LONG),)


def written(name: OutputFormatName, key: OutputKeyFormat | None = None) -> Written:
    return Written(name, key, (), NO_PATTERNS)


CIRCUIT = Circuit(
    (
        Source((), TYPES, "words"),
        Aggregate((0,), (TEXT, LONG), (1,), COUNTED),
        Output((1,), (), "upsert", "upsert", ("word", "rows"), (0,), written("json", "string")),
        Output((1,), (), "changelog", "changelog", ("word", "rows"), (0,), written("json", "string")),
        Output((1,), (), "plain", "upsert", ("word", "rows"), (0,)),
        Map((0,), TYPES, None, (CALM, Expression("c1", TEXT, 1))),
        Aggregate((5,), TYPES, (0,), (AggregateCall("max", 1, False, TEXT),)),
        Output((6,), (), "text", "upsert", ("number", "word"), (0,), written("text")),
        Output((6,), (), "csv", "upsert", ("number", "word"), (0,), written("csv", "long")),
    )
)
OUTPUTS = {"upsert": 2, "changelog": 3, "text": 7, "csv": 8}
HANDLES = {*OUTPUTS, "plain"}


def answers(content: Rows) -> dict[str, dict[Any, Any]]:
    """What a consumer has of each topic: the value by the message's key."""
    words: Rows = Counter()
    numbers: dict[Any, list[Any]] = {}
    for (number, word), weight in content.items():
        words[word] += weight  # type: ignore[index]
        numbers.setdefault(number, []).append(word)
    most = {
        number: max((word for word in found if word is not None), default=None) for number, found in numbers.items()
    }
    rows = {word: {"word": word, "rows": count} for word, count in words.items()}
    return {
        "upsert": rows,
        "changelog": rows,
        "plain": {json.dumps({"word": word}): row for word, row in rows.items()},
        "text": {json.dumps({"number": number}): word for number, word in most.items()},
        "csv": {number: f"{number},{'' if word is None else word or QUOTED}" for number, word in most.items()},
    }


QUOTED = '""'
HAS_NO_MESSAGE: dict[str, Callable[[Any, Any], bool]] = {
    "upsert": lambda key, value: key is None,
    "changelog": lambda key, value: key is None,
    "plain": lambda key, value: False,
    "text": lambda key, value: value is None,
    "csv": lambda key, value: key is None,
}


class Consumers:
    """What consumers have of the topics."""

    def __init__(self) -> None:
        self.topics: dict[str, dict[Any, Any]] = {handle: {} for handle in HANDLES}

    def take(self, handle: str, messages: pa.Table) -> None:
        mine = self.topics[handle]
        for _, raw, value in zip(*(column.to_pylist() for column in messages.columns), strict=True):
            key = self._key(handle, raw)
            after = None if value is None else self._value(handle, value.decode())
            if handle == "changelog" and value is not None:
                assert json.loads(value)["before"] == mine.get(key)
            if after is None:
                del mine[key]
            else:
                mine[key] = after

    def _key(self, handle: str, raw: bytes) -> Any:
        if handle == "csv":
            return int.from_bytes(raw, "big", signed=True)
        return json.dumps(json.loads(raw)) if handle in ("plain", "text") else raw.decode()

    def _value(self, handle: str, value: str) -> Any:
        if handle == "changelog":
            return json.loads(value)["after"]
        return json.loads(value) if handle in ("upsert", "plain") else value


class Withheld:
    """A circuit, whose steps count error rows as a coordinator lets them."""

    def __init__(self, workers: int) -> None:
        self.run = InProcess(CIRCUIT, workers, dict.fromkeys(HANDLES, 2))
        retracting = {index: (False,) * len(node.inputs) for index, node in enumerate(CIRCUIT.nodes)}
        self.run.facts = replace(self.run.facts, append_only=retracting)
        self.consumers = Consumers()
        self.withholding = Withholding()

    @property
    def in_error(self) -> frozenset[int]:
        return frozenset(node for node, errors in self.run.errors.items() if not errors.is_nothing)

    def step(self, change: Rows) -> None:
        kept, errors = [dict(store.records) for store in self.run.stores], dict(self.run.errors)
        withholding = self._counting(self.in_error)
        try:
            made = self.run.step({"words": to_table(change, TYPES)}, withholding)
        except DataError as error:
            assert error.is_of_rows and error.node in countable(CIRCUIT) - withholding.nodes
            for store, records in zip(self.run.stores, kept, strict=True):
                store.records = records
            self.run.errors = errors
            withholding = self._counting(countable(CIRCUIT))
            made = self.run.step({"words": to_table(change, TYPES)}, withholding)
        self.withholding = withholding
        for handle, messages in made.items():
            self.consumers.take(handle, messages)

    def _counting(self, nodes: frozenset[int]) -> Withholding:
        return withholding_of(CIRCUIT, nodes, self.withholding.withheld - outputs_behind(CIRCUIT, nodes))


@settings(deadline=None, max_examples=40)
@given(histories(steps_max=8), st.integers(1, 3))
def test_a_topic_has_the_answer_of_the_last_step_in_which_all_rows_had_messages(
    history: list[Rows], workers: int
) -> None:
    withheld, content = Withheld(workers), Rows()
    has: dict[str, dict[Any, Any]] = {handle: {} for handle in HANDLES}
    for change in [*history, Rows()]:
        content = plus(content, change)
        withheld.step(change)
        fails = any(number == IN_ERROR for number, _ in content)
        calm = Rows({row: weight for row, weight in content.items() if row[0] != IN_ERROR})
        right, of_all = answers(calm), answers(content)
        expected = {5} if fails else set()
        for handle, node in OUTPUTS.items():
            rows = (right if handle in ("text", "csv") else of_all)[handle]
            missing = sum(HAS_NO_MESSAGE[handle](key, value) for key, value in rows.items())
            if missing:
                expected.add(node)
                assert node in withheld.run.errors, f"{handle}: {missing} rows without a message"
                assert withheld.run.errors[node].rows == missing and withheld.run.errors[node].example
        assert withheld.in_error == expected
        for handle in HANDLES - withheld.withholding.withheld:
            has[handle] = of_all[handle]
        assert withheld.consumers.topics == has


def test_an_append_topic_counts_what_it_can_not_write() -> None:
    circuit = Circuit((Source((), (TEXT,), "words"), Output((0,), (), "out", "append", ("word",), (), written("csv"))))
    run = InProcess(circuit, 2, {"out": 1})
    assert countable(circuit) == {1}
    withholding = withholding_of(circuit, countable(circuit), ())
    for rows in ([("a",), (None,), (None,)], [("b",)]):
        assert not run.step({"words": to_table(rows, (TEXT,))}, withholding)["out"].num_rows
    assert run.errors[1].rows == 2 and "column word is NULL in a row" in run.errors[1].example


def test_an_output_that_can_say_every_row_is_not_counted() -> None:
    assert countable(CIRCUIT) >= set(OUTPUTS.values()) and 4 not in countable(CIRCUIT)
    node = Output((0,), (), "out", "changelog", ("word",), (), written("avro"))
    assert countable(Circuit((Source((), (TEXT,), "words"), node))) == frozenset()


DAYS = Output((0,), (), "out", "changelog", ("day",), (), written("protobuf"))


def held(
    node: Output, rows: Rows, errors: ErrorRows | None, store: DictStore | None = None, *, is_released: bool = False
) -> pa.Table:
    out = frozenset({"out"})
    withholding = Withholding(released=out) if is_released else Withholding(withheld=out)
    context = context_of(node, store or DictStore(), errors=errors)
    run = replace(context.run, schema_ids={"out": ProtobufIds(7, None)})
    context = replace(
        context, run=run, step=replace(context.step, division=DivisionFacts(number=0, withholding=withholding))
    )
    return step_output(node, [to_table(rows, (pa.date32(),) if node is DAYS else TYPES)], context)


def test_an_example_shows_the_row_although_python_has_no_such_date() -> None:
    errors, rows = ErrorRows(), Rows({(4_000_000,): 1, (5,): 1})
    assert not held(DAYS, rows, errors).num_rows
    assert errors.rows == 1
    assert "column day has a DATE that is not in the years 1 to 9999" in errors.example
    assert "{'day': [ [ " in errors.example and errors.example.endswith("or write the column as STRING.")


UPSERT = Output((0,), (), "out", "upsert", ("number", "word"), (0,), written("text"))


def test_a_row_without_a_message_ends_a_step_that_withholds_its_output_for_another_reason() -> None:
    """Otherwise nobody would count it, and the step that releases the output would fail."""
    with pytest.raises(
        RowWithoutMessage, match=r"column word is NULL in a row.*: \{'number': 1, 'word': None\}\. Leave such"
    ):
        held(UPSERT, Rows({(1, None): 1}), None)
    assert not held(UPSERT, Rows({(1, "a"): 1, (2, None): -1}), None).num_rows, "what goes needs no message"


def test_what_was_kept_and_never_counted_ends_the_run() -> None:
    """A version of Stepwell that looked at rows only when it wrote them has kept it. To count the rows of a later step would not find it."""
    store = DictStore()
    held(replace(UPSERT, written=PLAIN), Rows({(1, None): 1}), None, store)
    with pytest.raises(DataError, match="column word is NULL in a row") as raised:
        held(UPSERT, Rows({(2, "b"): 1}), None, store, is_released=True)
    assert not raised.value.is_of_rows
    with pytest.raises(RowWithoutMessage):
        held(UPSERT, Rows({(2, None): 1}), None, store, is_released=True)
