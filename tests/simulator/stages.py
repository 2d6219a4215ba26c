"""The operators of a world: what engine.run.stage runs, over lists of rows in the place of Arrow tables.

A row comes with a weight. It lies in the slot that the checksum of its placed columns says. The nodes of a transition do as
engine.operators.feeds says: a feed gives the content of its node after the step for the hashes of the step's range, and changes below them.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from engine.analysis.stages import Channel
from engine.expressions.evaluate import ExpressionError
from engine.model.aggregates import Aggregate
from engine.model.circuit import Output, View
from engine.model.filling import ContentFeed, Difference, Placed, Switched
from engine.model.numbers import table_of
from engine.model.rows import Map, Union
from engine.operators.error_rows import ErrorRows
from engine.operators.findings import Findings
from engine.operators.output import OUTPUT_MESSAGES
from engine.run.exchange import ExchangeMessage, sort_messages
from engine.run.stage import StageResult, WorkerStep
from engine.run.task_setup import TaskSetup
from engine.state.store import Store
from storage.keys import PREFIX_BYTES, key_slot, record_key, table_prefix
from tests.simulator import circuit
from tests.simulator.circuit import AGGREGATE_NUMBER, PARTITIONS, ROWS, WRONG, Message, Row

Changes = list[tuple[tuple[Any, ...], int]]
"""Rows with their weights."""


def run_stage(
    task: WorkerStep, stage: int, store: Store, inbox: Sequence[ExchangeMessage], sources: Mapping[int, list[Row]]
) -> StageResult:
    """As engine.run.stage."""
    arrived: dict[Channel, Changes] = {}
    for message in sort_messages(inbox):
        for channel, rows in message.channels.items():
            arrived.setdefault(channel, []).extend(rows)
    made: dict[int, Changes] = {}
    output: dict[int, pa.Table] = {}
    found = Findings()
    for index in task.plan.nodes_of(stage):
        if index in sources:
            made[index] = [(row, 1) for row in sources[index]]
            continue
        node, inputs = task.plan.circuit.nodes[index], list[Changes]()
        for input_position, producer in enumerate(node.inputs):
            channel = task.plan.arrivals[index][input_position]
            inputs.append(made[producer] if channel is None else arrived.get(channel, []))
        if isinstance(node, Output):
            published = list(_published(task, store, index, node, _net(inputs[0])))
            if published:
                output[index] = _table(published)
        else:
            made[index] = _net(_step(task, store, index, inputs, found))
    return StageResult(_sent(task, stage, arrived, made), output, found)


def _net(changes: Iterable[tuple[tuple[Any, ...], int]]) -> Changes:
    added: Counter[tuple[Any, ...]] = Counter()
    for row, weight in changes:
        added[row] += weight
    return sorted((row, weight) for row, weight in added.items() if weight)


def _step(task: WorkerStep, store: Store, index: int, inputs: Sequence[Changes], found: Findings) -> Changes:
    node, number = task.plan.circuit.nodes[index], task.run.numbers[index]
    match node:
        case Map():
            mapped = ((_mapped(node, row), weight) for row, weight in inputs[0])
            return [(row, weight) for row, weight in mapped if row is not None]
        case Aggregate():
            return _aggregated(task, store, index, inputs[0], found)
        case View() | Placed():
            return inputs[0]
        case Union():
            return [row for rows in inputs for row in rows]
        case ContentFeed():
            return list(_fed(task, store, node, inputs[0]))
        case Difference():
            new, *old = inputs
            _add(store, table_of(number), node.key, [*new, *((row, -weight) for rows in old for row, weight in rows)])
            return []
        case Switched():
            return _passed_on(task, store, node, number, inputs[0])
        case _:
            raise AssertionError(f"no project of a world has {node}")


def _mapped(node: Map, row: tuple[Any, ...]) -> tuple[Any, ...] | None:
    if node.predicate is not None and row[1] % 2 != 1:
        return None
    return tuple(row[p.column] if p.column is not None else _value(p.sql, row) for p in node.projections)


def _value(sql: str, row: tuple[Any, ...]) -> int:
    """A column, an operation, and a constant."""
    column, operation, constant = sql.split()
    value = row[int(column[1:])]
    return int(value * int(constant) if operation == "*" else value % int(constant))


def _aggregated(task: WorkerStep, store: Store, index: int, change: Changes, found: Findings) -> Changes:
    number = task.run.numbers[index]
    table = table_of(number)
    before: dict[Any, tuple[int, int]] = {}
    after: dict[Any, tuple[int, int]] = {}
    for row, times in change:
        key, value = row[:2]
        weight = times * row[2] if len(row) == len(circuit.COLUMNS) else times
        if key not in before:
            before[key] = after[key] = _stored(store, table, key)
        count, total = after[key]
        after[key] = count + weight, total + weight * value
    if number == AGGREGATE_NUMBER and WRONG in after:
        _count_errors(task, index, before.pop(WRONG) != (0, 0), after[WRONG] != (0, 0), found)
    for key, (count, total) in sorted(after.items()):
        place = _key_in(table, (key,), key)
        if count == total == 0:
            store.delete(place)
        else:
            store.put(place, circuit.state_value(count, total))
    gone = [((key, *value), -1) for key, value in before.items() if value != (0, 0)]
    return [*gone, *(((key, *after[key]), 1) for key in before if after[key] != (0, 0))]


def _count_errors(task: WorkerStep, index: int, before: bool, after: bool, found: Findings) -> None:
    """What the step changes in the error rows of the aggregate. Raises if it does not count them."""
    if index not in task.step.division.withholding.nodes:
        if after:
            error = ExpressionError("DIVIDE_BY_ZERO", "the key that is wrong")
            raise error.locate(owner="view sums", step=task.step.division.number, node=index)
        return
    if change := after - before:
        found.errors[index] = ErrorRows(change, change % (1 << 64), "wrong" if after else "")


def _fed(task: WorkerStep, store: Store, node: ContentFeed, change: Changes) -> Iterator[tuple[tuple[Any, ...], int]]:
    before, after = task.step.division.fed_hashes(node.level)
    columns = node.colocation
    yield from ((row, weight) for row, weight in change if _hash(columns, row) < before)
    if before < after:
        for row in _content(store, table_of(task.run.numbers[node.inputs[0]]), is_text=node.types[0] == pa.string()):
            if before <= _hash(columns, row) < after:
                yield row, 1


def _content(store: Store, table: int, *, is_text: bool) -> Iterator[tuple[Any, ...]]:
    """Of an aggregate, whose keys are texts or numbers. The row in error is not among it."""
    for key in list(store.keys(table_prefix(table))):
        text = bytes(key[PREFIX_BYTES:]).decode()
        if text != WRONG or table != circuit.STATE_TABLE:
            group = text if is_text else int(text)
            yield (group, *_stored(store, table, group))


def _hash(columns: Sequence[int] | None, row: tuple[Any, ...]) -> int:
    placed = row if columns is None else tuple(row[column] for column in columns)
    return _slot(placed) << 48 | zlib.crc32(json.dumps(row).encode()) << 16


def _slot(placed: tuple[Any, ...]) -> int:
    return circuit.slot("|".join(map(str, placed)))


def _key_in(table: int, placed: tuple[Any, ...], suffix: Any) -> bytes:
    return record_key(table, _slot(placed), str(suffix).encode())


def _stored(store: Store, table: int, key: Any) -> tuple[int, int]:
    stored = store.get(_key_in(table, (key,), key))
    if stored is None:
        return 0, 0
    count, total = struct.unpack(">qq", bytes(stored))
    return count, total


def _add(store: Store, table: int, columns: Sequence[int], changes: Changes) -> None:
    """To a Z-set that is stored: the weight of each row."""
    for row, weight in _net(changes):
        place = _key_in(table, tuple(row[column] for column in columns), json.dumps(row))
        stored = store.get(place)
        weight += 0 if stored is None else struct.unpack(">q", bytes(stored))[0]
        if weight:
            store.put(place, struct.pack(">q", weight))
        else:
            store.delete(place)


def _passed_on(task: WorkerStep, store: Store, node: Switched, number: int, change: Changes) -> Changes:
    """All of a difference and of the change, or what leaves in a step of a drain."""
    before, after = task.step.division.fed_hashes(0)
    first, end = before >> 48, after >> 48
    passes: Changes = []
    waits: Changes = []
    for row, weight in change:
        at = _slot(tuple(row[column] for column in node.key))
        (passes if at < end else waits).append((row, weight))
    _add(store, table_of(number), node.key, waits)
    return [*passes, *_added(store, table_of(number), (first, end))]


def _added(store: Store, table: int, slots: tuple[int, int] = (0, 1 << 16)) -> Changes:
    found: Changes = []
    for key in [key for key in store.keys(table_prefix(table)) if slots[0] <= key_slot(key) < slots[1]]:
        value = store.get(key)
        assert value is not None
        found.append((tuple(json.loads(bytes(key[PREFIX_BYTES:]))), struct.unpack(">q", bytes(value))[0]))
    return found


def _published(task: WorkerStep, store: Store, index: int, node: Output, change: Changes) -> Iterator[Message]:
    """As engine.operators.output: nothing while the output is held, and all that was kept when it is released."""
    if node.handle == ROWS:
        for row, times in change:
            yield from [(circuit.spread(row[0], PARTITIONS[ROWS]), None, circuit.message_of(row))] * times
        return
    if node.handle in task.step.division.withholding.outputs:
        table = table_of(task.run.numbers[index])
        if node.handle in task.step.division.withholding.withheld:
            _add(store, table, node.key, change)
            return
        kept = _added(store, table)
        _add(store, table, node.key, [(row, -weight) for row, weight in kept])
        change = _net([*kept, *change])
    came: dict[str, bytes | None] = {str(row[0]): None for row, _ in change}
    for row, weight in change:
        assert abs(weight) == 1, f"{row} occurs {weight} times"
        if weight > 0:
            came[str(row[0])] = json.dumps(row[1:]).encode()
    for key, value in sorted(came.items()):
        yield circuit.spread(key, PARTITIONS[node.handle]), key.encode(), value


def _table(messages: Sequence[Message]) -> pa.Table:
    columns = [[message[i] for message in messages] for i in range(3)]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, OUTPUT_MESSAGES, strict=True)]
    return pa.Table.from_arrays(arrays, schema=OUTPUT_MESSAGES)


def _sent(
    task: WorkerStep, stage: int, arrived: Mapping[Channel, Changes], made: Mapping[int, Changes]
) -> dict[int, dict[Channel, Any]]:
    sent: dict[int, dict[Channel, Any]] = {}
    for channel, last in task.plan.last_read.items():
        if last <= stage:
            continue
        if channel in arrived:
            sent.setdefault(task.worker, {})[channel] = arrived[channel]
        elif channel.producer in made:
            for row, weight in made[channel.producer]:
                sent.setdefault(_target(task, channel, row), {}).setdefault(channel, []).append((row, weight))
    return sent


def _target(task: WorkerStep, channel: Channel, row: tuple[Any, ...]) -> int:
    assert not channel.everyone, "no project of a world has a value for all"
    if channel.key is None:
        return task.worker
    at = _slot(tuple(row[column] for column in channel.key))
    return next(worker for worker, slots in task.placement.owned.items() if at in slots)


def measure(setup: TaskSetup, store: Store, step: int, numbers: Sequence[int]) -> list[tuple[int, int]]:
    """As engine.run.differences."""
    weights = [[weight for _, weight in _added(store, table_of(number))] for number in numbers]
    return [(sum(w for w in each if w > 0), -sum(w for w in each if w < 0)) for each in weights]
