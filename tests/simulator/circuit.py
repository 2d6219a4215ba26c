"""The pipeline of the simulator: a table of (key, number, weight), published as it comes and summed by key.

The project's operators work on Arrow, and a stage of them takes milliseconds; a world has a hundred stages. So the circuit is a real one,
with its plan, its exchange and its one transaction of a step (`tasks.StepTask`), and what its operators compute is said here in plain Python:
`run_stage` and `read_sources` stand where engine.run.tasks has the real ones, and `Moves` where engine.run.cut has engine.state.moves. Rows
travel between workers as plain lists (seams.py). A key lies in the slot that its checksum says.

A message is JSON, `[key, number, weight]`. A key whose count and sum are 0 leaves the view: its record is deleted and a null is published.

As long as the key WRONG is in the view, its row is in error. It is never published, and the output of the sums is withheld: a record of each key
that has changed is kept, by which the step that releases the output finds them.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from base.slots import SlotSet
from engine.analysis.numbering import numbers_of
from engine.analysis.stages import StagePlan
from engine.expressions.evaluate import ExpressionError
from engine.model.aggregates import Aggregate, AggregateCall
from engine.model.circuit import Circuit, Output, View
from engine.model.numbers import table_of
from engine.model.rows import Source
from engine.operators.base import Findings
from engine.operators.error_rows import ErrorRows
from engine.operators.output import OUTPUT_MESSAGES
from engine.run.exchange import ExchangeMessage, sort_messages
from engine.run.sources import Checksum, SourceReport
from engine.run.stage import StageResult, WorkerStep
from engine.run.step_input import StepInput
from engine.state.moves import Piece
from engine.state.store import Store
from io_kafka.clients.raw import RawBatch
from io_kafka.formats.spec import SourceFormat
from storage.keys import TABLE_FIRST, key_slot, key_table, parse_key, record_key, table_prefix

INPUT, ROWS, SUMS = "in", "rows", "sums"
PARTITIONS = {ROWS: 2, SUMS: 2}
STATE_TABLE = TABLE_FIRST
WRONG = "!"
"""The key whose row gives an error."""

_TYPES = (pa.string(), pa.int64(), pa.int64())
FORMAT = SourceFormat(INPUT, pa.schema(list(zip(("key", "number", "weight"), _TYPES, strict=True))))


def _project(view: str) -> Circuit:
    """`view`: the name of the view of the sums."""
    return Circuit(
        (
            Source((), _TYPES, INPUT),
            Output((0,), (), ROWS, "append", ("key", "number", "weight")),
            Aggregate(
                (0,),
                (pa.string(), pa.int64(), pa.int64()),
                (0,),
                (AggregateCall("count", None, False, pa.int64()), AggregateCall("sum", 1, False, pa.int64())),
            ),
            View((2,), _TYPES, view, ("key", "count", "total"), False),
            Output((3,), (), SUMS, "upsert", ("key", "count", "total"), (0,)),
        )
    )


PROJECTS = (_project(SUMS), _project("totals"))
"""They compute the same, so each continues the state of the other."""

CIRCUIT = PROJECTS[0]
_ROWS_NODE, AGGREGATE_NODE, _SUMS_NODE = 1, 2, 4
AGGREGATE_NUMBER = numbers_of(CIRCUIT)[AGGREGATE_NODE]
HELD_TABLE = table_of(_SUMS_NODE)

Row = tuple[str, int, int]
Message = tuple[int, bytes | None, bytes | None]


def message_of(row: Row) -> bytes:
    return json.dumps(row).encode()


def row_of(message: bytes) -> Row:
    key, number, weight = json.loads(message)
    return key, number, weight


def spread(key: str, over: int) -> int:
    """Which of so many workers or partitions a key belongs to."""
    return zlib.crc32(key.encode()) % over


def slot(key: str) -> int:
    return zlib.crc32(key.encode()) >> 16


def state_key(key: str) -> bytes:
    return record_key(STATE_TABLE, slot(key), key.encode())


def state_value(count: int, total: int) -> bytes:
    return struct.pack(">qq", count, total)


def read_sources(
    circuit: Circuit,
    tables: Mapping[str, Any],
    given: StepInput,
    batches: Sequence[RawBatch],
) -> tuple[dict[int, list[Row]], SourceReport]:
    """As engine.run.sources: the rows of the source, and what was read."""
    report, rows = SourceReport(), list[Row]()
    for batch in batches:
        report.inputs.append(Checksum(*batch.range.where, batch.messages.length, batch.checksum))
        rows += [row_of(value) for value in batch.messages.values.to_pylist()]
    return {0: rows}, report


def run_stage(
    task: WorkerStep, stage: int, store: Store, inbox: Sequence[ExchangeMessage], sources: Mapping[int, list[Row]]
) -> StageResult:
    """As engine.run.stage. The rows of a channel are a list instead of a table."""
    return _source_stage(task, sources[0]) if stage == 0 else _sums_stage(task, store, inbox)


def _source_stage(task: WorkerStep, rows: list[Row]) -> StageResult:
    """Publishes the rows, and gives each to the worker of its key."""
    by_target: dict[int, list[Row]] = defaultdict(list)
    owned = task.placement.owned
    for row in rows:
        by_target[next(worker for worker, slots in owned.items() if slot(row[0]) in slots)].append(row)
    (channel,) = task.plan.last_read
    check_plan(task.plan)
    published = [(spread(row[0], PARTITIONS[ROWS]), None, message_of(row)) for row in rows]
    return StageResult(
        {target: {channel: by_target[target]} for target in sorted(by_target)},
        {_ROWS_NODE: _table(published)} if published else {},
        Findings(),
    )


def _sums_stage(task: WorkerStep, store: Store, inbox: Sequence[ExchangeMessage]) -> StageResult:
    changed: dict[str, tuple[int, int]] = {}
    for message in sort_messages(inbox):
        for rows in message.channels.values():
            for key, number, weight in rows:
                count, total = changed[key] if key in changed else _stored(store, key)
                changed[key] = count + weight, total + number * weight
    errors = _error_rows(task, store, changed)
    for key, (count, total) in sorted(changed.items()):
        if count == total == 0:
            store.delete(state_key(key))
        else:
            store.put(state_key(key), state_value(count, total))
    published: list[Message] = []
    for key in sorted(_due(task, store, changed.keys() - {WRONG})):
        found = _stored(store, key)
        value = None if found == (0, 0) else json.dumps(found).encode()
        published.append((spread(key, PARTITIONS[SUMS]), key.encode(), value))
    return StageResult({}, {_SUMS_NODE: _table(published)} if published else {}, Findings(errors=errors))


def _error_rows(task: WorkerStep, store: Store, changed: Mapping[str, tuple[int, int]]) -> dict[int, ErrorRows]:
    """What the step changes in the error rows of the aggregate. Raises if it does not count them."""
    if WRONG not in changed:
        return {}
    before, after = _stored(store, WRONG) != (0, 0), changed[WRONG] != (0, 0)
    if AGGREGATE_NODE not in task.step.withholding.nodes:
        if after:
            error = ExpressionError("DIVIDE_BY_ZERO", "the key that is wrong")
            raise error.locate(owner="view sums", step=task.step.number, node=AGGREGATE_NODE)
        return {}
    change = after - before
    return {AGGREGATE_NODE: ErrorRows(change, change % (1 << 64), "wrong" if after else "")} if change else {}


def _due(task: WorkerStep, store: Store, touched: Set[str]) -> Set[str]:
    """The keys to publish: none while the output is held, and all that were kept when it is released."""
    if SUMS in task.step.withholding.held:
        for key in touched:
            store.put(record_key(HELD_TABLE, slot(key), key.encode()), b"held")
        return set()
    if SUMS not in task.step.withholding.released:
        return touched
    kept = list(store.keys(table_prefix(HELD_TABLE)))
    for record in kept:
        store.delete(record)
    return touched | {parse_key(record).suffix.decode() for record in kept}


def _stored(store: Store, key: str) -> tuple[int, int]:
    stored = store.get(state_key(key))
    if stored is None:
        return 0, 0
    count, total = struct.unpack(">qq", bytes(stored))
    return count, total


def _table(messages: Sequence[Message]) -> pa.Table:
    columns = [[message[i] for message in messages] for i in range(3)]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, OUTPUT_MESSAGES, strict=True)]
    return pa.Table.from_arrays(arrays, schema=OUTPUT_MESSAGES)


class Part(NamedTuple):
    """A record. Its value stands for the number of a run: if it changes, a copy of it is none any more."""

    key: bytes
    value: bytes

    def copy_key(self, table: int) -> bytes:
        return self.key


class Moves:
    """As engine.state.moves, of which engine.run.cut and staging use these functions. A piece is one record: its key as a number, its value."""

    @staticmethod
    def parts_of(store: Store, table: int, slots: SlotSet) -> list[Part]:
        found = []
        for key in list(store.keys(table_prefix(table))):
            if key_slot(key) in slots:
                value = store.get(key)
                assert value is not None
                found.append(Part(key, bytes(value)))
        return found

    @staticmethod
    def piece_of(store: Store, table: int, part: Part) -> Piece | None:
        """None if the record has changed: real runs are pinned meanwhile."""
        value = store.get(part.key)
        return None if value is None or bytes(value) != part.value else Piece(int.from_bytes(b"\1" + part.key), value)

    copy_of = piece_of

    @staticmethod
    def next_number(store: Store, table: int) -> int:
        return 0

    @staticmethod
    def check_rows(encoded: memoryview, slots: SlotSet, first: int = 0) -> None:
        """A record has no form that could be wrong."""

    @staticmethod
    def clear_slots(store: Store, table: int, slots: SlotSet) -> None:
        """No record reaches over the edge of a slot."""

    @staticmethod
    def adopt_all(store: Store, table: int, slots: SlotSet, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            key = piece.first.to_bytes((piece.first.bit_length() + 7) // 8)[1:]
            assert key_slot(key) in slots and key_table(key) == table
            store.put(key, bytes(piece.rows))

    @staticmethod
    def drop(store: Store, table: int, slots: SlotSet) -> None:
        for key in list(store.keys(table_prefix(table))):
            if key_slot(key) in slots:
                store.delete(key)

    @staticmethod
    def runs_of(store: Store, table: int) -> Iterator[tuple[Any, int]]:
        for key in list(store.keys(table_prefix(table))):
            yield np.array([key_slot(key) << 48], dtype=np.uint64), len(key)


def check_plan(plan: StagePlan) -> None:
    """Two stages with one exchange between them is what the functions above are for."""
    assert plan.stages == 2 and len(plan.last_read) == 1
