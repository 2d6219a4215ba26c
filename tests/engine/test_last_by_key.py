"""LastByKey beside a loop over messages: those that lack values the database has not sent, and truncations of the table."""

from __future__ import annotations

import json
import random
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.options import UNAVAILABLE_VALUE
from engine.model.circuit import Circuit, Output, View
from engine.model.rows import LastByKey, Source
from engine.operators.base import Refused
from engine.operators.last_by_key import step_last_by_key
from engine.state import trace
from engine.state.store import DictStore
from tests.engine.contexts import context_of
from tests.engine.in_process import InProcess
from tests.engine.zsets import plus, to_rows, to_table
from tests.examples import examples

LISTS = pa.list_(pa.string())
TYPES = (pa.int64(), pa.string(), LISTS, pa.binary())
MESSAGES = (*TYPES, pa.bool_(), pa.int32(), pa.int64())
NODE = LastByKey((0,), TYPES, "table", (0,))
P = UNAVAILABLE_VALUE
LACKING = (P, (P,), P.encode())
"""The marks of the columns behind the key."""


class Message(NamedTuple):
    """`key` is None for a truncation, and `values` for a deletion. A value may be the mark of its column."""

    key: int | None
    values: tuple[Any, ...] | None
    partition: int
    offset: int

    @property
    def row(self) -> tuple[Any, ...]:
        values = (None, None, None) if self.values is None else self.values
        gone = None if self.key is None else self.values is None
        return (self.key, *values, gone, self.partition, self.offset)


class Loop:
    """The definition: the messages one by one, in the order (step, partition, offset)."""

    def __init__(self) -> None:
        self.table: dict[int, tuple[Any, ...]] = {}
        self.refused: list[Refused] = []

    def step(self, messages: list[Message]) -> None:
        for message in sorted(messages, key=lambda m: (m.partition, m.offset)):
            if message.key is None:
                self.table.clear()
            elif message.values is None:
                self.table.pop(message.key, None)
            else:
                self._row(message.key, message.values, message)

    def _row(self, key: int, values: tuple[Any, ...], message: Message) -> None:
        lacking = [n for n, (value, mark) in enumerate(zip(values, LACKING, strict=True)) if value == mark]
        if lacking and key not in self.table:
            self.refused.append(Refused("table", message.partition, message.offset, lacking[0] + 1))
            return
        before = self.table.get(key, values)
        self.table[key] = tuple(before[n] if n in lacking else value for n, value in enumerate(values))


VALUES = st.tuples(
    st.sampled_from(["a", "b", None, P, P, f"{P} "]),
    st.sampled_from([("x",), (), None, (P,), (P, P), (None,)]),
    st.sampled_from([b"1", None, P.encode()]),
)
CHANGE = st.tuples(st.integers(0, 3), st.one_of(VALUES, VALUES, VALUES, st.none()))
TRUNCATION = st.tuples(st.none(), st.none())
STEPS = st.lists(st.lists(st.one_of(CHANGE, CHANGE, CHANGE, TRUNCATION), max_size=12), min_size=1, max_size=6)


def history(steps: list[list[tuple[Any, Any]]], partitions: int) -> Iterator[list[Message]]:
    """A key has one partition, and a truncation any."""
    offset = 0
    for changes in steps:
        messages = []
        for key, values in changes:
            partition = (offset if key is None else key) % partitions
            messages.append(Message(key, values, partition, offset))
            offset += 1
        yield messages


def table_of(messages: list[Message]) -> pa.Table:
    return to_table([message.row for message in messages], MESSAGES)


@settings(deadline=None, max_examples=examples(400))
@given(STEPS, st.integers(1, 3), st.randoms(), st.booleans())
def test_former_values_and_truncations(
    steps: list[list[tuple[Any, Any]]], partitions: int, shuffled: random.Random, has_tiny_buckets: bool
) -> None:
    """Messages arrive in any order. Each step gives the same table, and refuses the same messages."""
    loop, store, content = Loop(), DictStore(), Counter[tuple[Any, ...]]()
    refused: list[Refused] = []
    with pytest.MonkeyPatch.context() as patched:
        if has_tiny_buckets:
            patched.setattr(trace, "BUCKET_ROWS_MAX", 1)
        for step, messages in enumerate(history(steps, partitions)):
            loop.step(messages)
            arrived = list(messages)
            shuffled.shuffle(arrived)
            context = context_of(NODE, store, step, refused=refused)
            content = plus(content, to_rows(step_last_by_key(NODE, [table_of(arrived)], context)))
            assert content == Counter((key, *values) for key, values in loop.table.items())
            assert sorted(refused) == sorted(loop.refused)
            stored = context.trace(0, (*TYPES, pa.int32()), (0,)).scan()
            assert stored.num_rows == len(loop.table), "the trace holds more than the table"


def test_a_value_is_that_of_the_row_of_its_own_key() -> None:
    """Neither of another key's message in the same step, nor of a row that was deleted."""
    store = DictStore()
    step_last_by_key(NODE, [table_of([Message(1, ("a", ("x",), b"1"), 0, 0)])], context_of(NODE, store, 0))
    other, lacking = Message(0, ("b", ("y",), b"2"), 0, 1), Message(1, LACKING, 0, 2)
    change = step_last_by_key(NODE, [table_of([other, lacking])], context_of(NODE, store, 1))
    assert to_rows(change) == Counter({(0, "b", ("y",), b"2"): 1})
    context = context_of(NODE, store, 2)
    change = step_last_by_key(NODE, [table_of([Message(1, None, 0, 3), Message(1, LACKING, 0, 4)])], context)
    assert to_rows(change) == Counter({(1, "a", ("x",), b"1"): -1}) and context.found.refused == [
        Refused("table", 0, 4, 1)
    ]


def test_a_row_that_is_the_same_after_a_truncation_is_no_change() -> None:
    """The others are retracted, and the trace has the rows of after."""
    store = DictStore()
    before = [Message(key, ("a", ("x",), b"1"), 0, key) for key in range(5)]
    step_last_by_key(NODE, [table_of(before)], context_of(NODE, store, 0))
    after = [Message(None, None, 0, 10), Message(1, ("a", ("x",), b"1"), 0, 11), Message(2, ("b", None, None), 0, 12)]
    change = step_last_by_key(NODE, [table_of(after)], context_of(NODE, store, 1))
    kept, row = 1, ("a", ("x",), b"1")
    assert to_rows(change) == Counter({(2, "b", None, None): 1, **{(key, *row): -1 for key in range(5) if key != kept}})
    assert change.num_rows == 5, "a row is retracted and inserted"
    last = step_last_by_key(NODE, [table_of([Message(None, None, 0, 20)])], context_of(NODE, store, 2))
    assert to_rows(last) == Counter({(1, *row): -1, (2, "b", None, None): -1})


NAMES = ("id", "a", "b", "c")


def circuit() -> Circuit:
    return Circuit((
        Source((), MESSAGES, "table", keyed=True), LastByKey((0,), TYPES, "table", (0,)),
        View((1,), TYPES, "rows", NAMES, True, (0,)), Output((2,), (), "rows", "upsert", NAMES, (0,)),
    ))  # fmt: skip


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_the_table_and_what_is_refused_do_not_depend_on_workers(workers: int) -> None:
    """A truncation reaches every worker, and each message is refused by one."""
    chosen, loop, published = random.Random(7), Loop(), dict[int, Any]()
    engine = InProcess(circuit(), workers, {"rows": 2})
    for messages in history([random_step(chosen) for _ in range(60)], 3):
        loop.step(messages)
        for message in engine.step({"table": table_of(messages)})["rows"].to_pylist():
            published[json.loads(message["key"])["id"]] = message["value"] and json.loads(message["value"])
        table = {
            key: {"id": key, "a": a, "b": b and [*b], "c": c and b64encode(c).decode()}
            for key, (a, b, c) in loop.table.items()
        }
        assert {key: row for key, row in published.items() if row is not None} == table
    assert sorted(engine.refused) == sorted(loop.refused) and loop.refused


def random_step(chosen: random.Random) -> list[tuple[Any, Any]]:
    changes: list[tuple[Any, Any]] = []
    for _ in range(chosen.randrange(12)):
        kind = chosen.random()
        values = tuple(
            chosen.choice([mark, mark, None, value]) for mark, value in zip(LACKING, ("a", ("x",), b"1"), strict=True)
        )
        changes.append((None, None) if kind < 0.05 else (chosen.randrange(30), None if kind < 0.2 else values))
    return changes
