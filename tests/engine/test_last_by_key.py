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
from engine.operators.findings import Lacks, MalformedByState, RowElsewhere
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
    """`key` is None for a truncation, and `values` for a deletion. A value may be the mark of its column. `implied`: a deletion that an update
    of another key implies."""

    key: int | None
    values: tuple[Any, ...] | None
    partition: int
    offset: int
    implied: bool = False

    @property
    def row(self) -> tuple[Any, ...]:
        values = (None, None, None) if self.values is None else self.values
        gone = None if self.key is None else self.values is None
        return (self.key, *values, gone, ~self.partition if self.implied else self.partition, self.offset)


class Loop:
    """The definition: the messages one by one, in the order (step, partition, offset). The messages of a key are in its partition, and an
    implied deletion in another one deletes nothing. It is refused if the key has a row after the step."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.table: dict[int, tuple[Any, ...]] = {}
        self.refused: list[MalformedByState] = []

    def step(self, messages: list[Message]) -> None:
        for message in sorted(messages, key=lambda m: (m.partition, m.offset)):
            if message.key is None:
                self.table.clear()
            elif message.values is not None:
                self._row(message.key, message.values, message)
            elif not message.implied or message.partition == message.key % self.partitions:
                self.table.pop(message.key, None)
        for message in messages:
            if (
                message.implied
                and message.key in self.table
                and message.partition != (home := message.key % self.partitions)
            ):
                why = RowElsewhere((str(message.key),), home)
                self.refused.append(MalformedByState("table", message.partition, message.offset, why))

    def _row(self, key: int, values: tuple[Any, ...], message: Message) -> None:
        lacking = [n for n, (value, mark) in enumerate(zip(values, LACKING, strict=True)) if value == mark]
        if lacking and key not in self.table:
            self.refused.append(MalformedByState("table", message.partition, message.offset, Lacks(lacking[0] + 1)))
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
IMPLIED = st.tuples(st.integers(0, 3), st.integers(0, 2))
"""A key, and what is added to the number of its partition."""
STEPS = st.lists(st.lists(st.one_of(CHANGE, CHANGE, CHANGE, IMPLIED, TRUNCATION), max_size=12), min_size=1, max_size=6)


def history(steps: list[list[tuple[Any, Any]]], partitions: int) -> Iterator[list[Message]]:
    """A key has one partition, and a truncation or an implied deletion any."""
    offset = 0
    for changes in steps:
        messages = []
        for key, values in changes:
            if isinstance(values, int):
                messages.append(Message(key, None, (key + values) % partitions, offset, implied=True))
            else:
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
    loop, store, content = Loop(partitions), DictStore(), Counter[tuple[Any, ...]]()
    refused: list[MalformedByState] = []
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
    assert to_rows(change) == Counter({(1, "a", ("x",), b"1"): -1}) and context.found.malformed == [
        MalformedByState("table", 0, 4, Lacks(1))
    ]


@pytest.mark.parametrize("seed", range(20))
def test_no_division_into_steps_changes_what_a_key_has(seed: int) -> None:
    """However the partitions are read beside each other, an update that changes a key deletes the same rows."""
    chosen, partitions = random.Random(seed), 2 + seed % 2
    rows: list[tuple[Any, ...] | int | None] = [
        ("a", ("x",), b"1"),
        ("b", None, b"1"),
        ("a", (), P.encode()),
        None,
        0,
        1,
        1,
        2,
    ]
    (messages,) = history([[(chosen.randrange(4), chosen.choice(rows)) for _ in range(24)]], partitions)
    contents = []
    for _ in range(2):
        queues = {p: [m for m in messages if m.partition == p] for p in range(partitions)}
        store, content = DictStore(), Counter[tuple[Any, ...]]()
        for step in range(len(messages) + 1):
            taken = {p: chosen.randrange(3) if step < len(messages) else len(queue) for p, queue in queues.items()}
            mine = [message for p, queue in queues.items() for message in queue[: taken[p]]]
            queues = {p: queue[taken[p] :] for p, queue in queues.items()}
            content = plus(content, to_rows(step_last_by_key(NODE, [table_of(mine)], context_of(NODE, store, step))))
        contents.append(content)
    loop = Loop(partitions)
    loop.step(messages)
    assert contents == [Counter((key, *values) for key, values in loop.table.items())] * 2


def test_a_key_that_was_created_anew_is_not_deleted_by_an_update_of_before() -> None:
    """Although its row has the values of the row that was there before. In a topic that has grown, keys change their partitions."""
    row = ("a", ("x",), b"1")
    moved = Message(0, None, 1, 0, implied=True)
    for grown, left in ((frozenset[str](), {(0, *row): 1}), (frozenset({"table"}), {})):
        store, content = DictStore(), Counter[tuple[Any, ...]]()
        for step, messages in enumerate(([Message(0, row, 0, 0)], [Message(0, row, 0, 1)], [moved])):
            context = context_of(NODE, store, step, grown=grown)
            content = plus(content, to_rows(step_last_by_key(NODE, [table_of(messages)], context)))
        assert content == Counter(left)
        assert context.found.malformed == [MalformedByState("table", 1, 0, RowElsewhere(("0",), 0))][: len(left)]


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
    chosen, loop, published = random.Random(7), Loop(3), dict[int, Any]()
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
    assert sorted(engine.malformed) == sorted(loop.refused)
    assert {type(message.why) for message in loop.refused} == {Lacks, RowElsewhere}


def random_step(chosen: random.Random) -> list[tuple[Any, Any]]:
    changes: list[tuple[Any, Any]] = []
    for _ in range(chosen.randrange(12)):
        kind = chosen.random()
        values = tuple(
            chosen.choice([mark, mark, None, value]) for mark, value in zip(LACKING, ("a", ("x",), b"1"), strict=True)
        )
        key = chosen.randrange(30)
        if kind > 0.85:
            changes.append((key, chosen.randrange(3)))
        else:
            changes.append((None, None) if kind < 0.05 else (key, None if kind < 0.2 else values))
    return changes
