"""One stage of one step on one worker: from the exchange messages that it received to those that it sends.

`run_stage` does the work, on any store. `run_stage_once` makes it safe to run a task twice. Within the same transaction it stores the step's
number (the marker) and the messages that the stage sends. So a second run of the same task returns the messages of the first one, and a run
for any other step than the next is refused. Spark retries tasks, and this makes retries harmless.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from engine.analysis.stages import Channel, Plan
from engine.errors import EngineError, StaleTask
from engine.model.circuit import Node, Output
from engine.model.placement import Placement
from engine.operators.base import StepContext
from engine.operators.keys import hash_keys
from engine.operators.table import operator_of
from engine.rows import zset
from engine.run.exchange import DRIVER, ExchangeMessage, error_message, first_error, from_bytes, in_order, to_bytes
from engine.state.store import Store
from storage.keys import shard_prefix

MARKER_TABLE, RESULT_TABLE = 1, 2
"""The engine's own tables. For each stage, the first holds the last step that it has run, and the second the messages that it sent then."""

Outbox = dict[int, ExchangeMessage]
"""The messages of a task by target worker; DRIVER is the driver. A target to which nothing is sent has no entry."""


@dataclass(frozen=True)
class StageTask:
    """What one task has to do. `partitions`: the number of partitions of each output topic, by handle. `append_only[node][slot]`: whether that
    input of the node only inserts. `grown`: see StepContext."""

    plan: Plan
    placement: Placement
    step: int
    stage: int
    worker: int
    partitions: Mapping[str, int]
    append_only: Mapping[int, tuple[bool, ...]]
    grown: frozenset[str] = frozenset()

    @property
    def is_last(self) -> bool:
        return self.stage == self.plan.stages - 1


def run_stage_once(task: StageTask, store: Store, inbox: Sequence[ExchangeMessage]) -> Outbox:
    """Runs `run_stage` at most once for each step and stage, as the module's docstring explains. The caller commits the store's transaction if
    this returns. Raises StaleTask if the state is not at the step before the task's."""
    failed = first_error(inbox)
    if failed is not None:
        return _to_everyone(task, ExchangeMessage(task.worker, error=failed.error))
    marker_key, result_key = shard_prefix(MARKER_TABLE, task.stage), shard_prefix(RESULT_TABLE, task.stage)
    marker = store.get(marker_key)
    last = -1 if marker is None else int.from_bytes(bytes(marker), "big", signed=True)
    if last == task.step:
        result = store.get(result_key)
        assert result is not None, f"stage {task.stage} ran step {last} and stored no result"
        stored: Outbox = pickle.loads(bytes(result))
        return stored
    if last != task.step - 1:
        raise StaleTask(
            f"worker {task.worker}, stage {task.stage}: the state is at step {last}, but the task is for step {task.step}; nothing was changed."
        )
    outbox = run_stage(task, store, inbox, {})
    store.put(marker_key, task.step.to_bytes(8, "big", signed=True))
    store.put(result_key, pickle.dumps(outbox, protocol=pickle.HIGHEST_PROTOCOL))
    return outbox


def run_stage(
    task: StageTask,
    store: Store,
    inbox: Sequence[ExchangeMessage],
    sources: Mapping[int, pa.Table],
    reports: tuple[bytes, ...] = (),
) -> Outbox:
    """Runs the stage's operators in the circuit's order. `sources`: the rows that were read for the Source nodes (stage 0 only)."""
    failed = first_error(inbox)
    if failed is not None:
        return _to_everyone(task, ExchangeMessage(task.worker, error=failed.error))
    arrived = _arrived(inbox)
    made: dict[int, pa.Table] = {}
    output = {node: data for message in in_order(inbox) for node, data in message.output.items()}
    for index in task.plan.nodes_of(task.stage):
        node = task.plan.circuit.nodes[index]
        inputs = [_input(task, index, slot, arrived, made) for slot in range(len(node.inputs))]
        try:
            made[index] = _made(task, store, index, node, inputs, sources)
        except EngineError as error:
            error.located(owner=name_of(task.plan, index), step=task.step)
            raise
        if isinstance(node, Output) and made[index].num_rows:
            output[index] = to_bytes(made[index])
    return _outbox(task, arrived, made, output, reports + tuple(r for p in in_order(inbox) for r in p.reports))


def _made(
    task: StageTask,
    store: Store,
    index: int,
    node: Node,
    inputs: Sequence[pa.Table],
    sources: Mapping[int, pa.Table],
) -> pa.Table:
    """The change of one node's output."""
    step = operator_of(node).step
    if step is None:
        return sources[index]
    context = StepContext(
        store,
        task.step,
        index,
        task.append_only[index],
        task.placement.shards,
        task.placement.keyless_worker == task.worker,
        dict(task.partitions),
        task.grown,
    )
    result = step(node, inputs, context)
    if isinstance(node, Output):
        return result
    schema = zset.schema_of(node.types)
    return result if result.schema.equals(schema) else result.cast(schema)


def name_of(plan: Plan, index: int) -> str:
    """The name for users of the first view, source or output that a node belongs to."""
    nodes = plan.circuit.nodes
    for later in range(index, len(nodes)):
        if later == index or _reads(plan, later, index):
            name = operator_of(nodes[later]).user_name(nodes[later])
            if name is not None:
                return name
    return f"node {index}"


def _reads(plan: Plan, reader: int, target: int) -> bool:
    return any(i == target or (i > target and _reads(plan, i, target)) for i in plan.circuit.nodes[reader].inputs)


def _arrived(inbox: Sequence[ExchangeMessage]) -> dict[Channel, pa.Table]:
    parts: dict[Channel, list[pa.Table]] = {}
    for message in in_order(inbox):
        for channel, data in message.channels.items():
            parts.setdefault(channel, []).append(from_bytes(data))
    return {channel: pa.concat_tables(tables) for channel, tables in parts.items()}


def _input(
    task: StageTask, index: int, slot: int, arrived: Mapping[Channel, pa.Table], made: Mapping[int, pa.Table]
) -> pa.Table:
    channel = task.plan.arrivals[index][slot]
    producer = task.plan.circuit.nodes[index].inputs[slot]
    if channel is None:
        return made[producer]
    table = arrived.get(channel)
    return zset.empty(task.plan.circuit.nodes[producer].types) if table is None else table


def _outbox(
    task: StageTask,
    arrived: Mapping[Channel, pa.Table],
    made: Mapping[int, pa.Table],
    output: dict[int, bytes],
    reports: tuple[bytes, ...],
) -> Outbox:
    """The messages of the stage, by target. Output and reports for the driver travel in the messages that this worker sends to itself, until
    the last stage sends them to the driver."""
    channels: dict[int, dict[Channel, bytes]] = {}
    for channel, last in task.plan.last_read.items():
        if last <= task.stage:
            continue
        if channel in arrived:
            channels.setdefault(task.worker, {})[channel] = to_bytes(arrived[channel])
        elif channel.producer in made:
            for target, rows in _routed(task, channel, made[channel.producer]):
                channels.setdefault(target, {})[channel] = to_bytes(rows)
    home = DRIVER if task.is_last else task.worker
    targets = {*channels, *([home] if output or reports else [])}
    return {
        target: ExchangeMessage(
            task.worker,
            channels.get(target, {}),
            output if target == home else {},
            reports if target == home else (),
        )
        for target in sorted(targets)
    }


def _routed(task: StageTask, channel: Channel, table: pa.Table) -> list[tuple[int, pa.Table]]:
    """The rows of a channel by the worker to which they are sent. Workers without rows are left out."""
    if table.num_rows == 0:
        return []
    if channel.key is None or task.placement.workers == 1:
        return [(task.worker if channel.key is None else 0, table)]
    owners = task.placement.worker_of(hash_keys(table, channel.key))
    order = np.argsort(owners, kind="stable")
    cuts = np.searchsorted(owners[order], np.arange(task.placement.workers + 1))
    routed = zset.take_rows(table, order)
    return [
        (worker, routed.slice(cuts[worker], cuts[worker + 1] - cuts[worker]))
        for worker in range(task.placement.workers)
        if cuts[worker] < cuts[worker + 1]
    ]


def _to_everyone(task: StageTask, message: ExchangeMessage) -> Outbox:
    if task.is_last:
        return {DRIVER: message}
    return dict.fromkeys(range(task.placement.workers), message)


def failed_outbox(task: StageTask, error: Exception) -> Outbox:
    """An outbox that sends the error to all. Every later task of the step sees it and leaves its state unchanged."""
    return _to_everyone(task, error_message(task.worker, error))


def with_report(task: StageTask, outbox: Outbox, report: bytes) -> Outbox:
    """The outbox with one more report for the driver. An outbox with an error is returned as it is."""
    if any(message.error is not None for message in outbox.values()):
        return outbox
    home = DRIVER if task.is_last else task.worker
    message = outbox.get(home, ExchangeMessage(task.worker))
    return {**outbox, home: replace(message, reports=(*message.reports, report))}
