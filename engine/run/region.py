"""One stage of one step on one worker: from the exchange messages that it received to the rows that it sends.

`run_stage` is a function of its inputs and of the store, on any store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from engine.analysis.stages import Channel, Plan
from engine.errors import EngineError
from engine.model.circuit import Circuit, Node, Output
from engine.model.placement import Placement
from engine.model.withholding import NOTHING_WITHHELD, Withholding
from engine.operators.base import Refused, StepContext, TimeReport
from engine.operators.error_rows import ErrorRows
from engine.operators.keys import hash_keys
from engine.operators.source import for_everyone
from engine.operators.table import operator_of
from engine.rows import zset
from engine.run.exchange import ExchangeMessage, in_order
from engine.state.store import Store
from io_kafka.formats.encodings import SchemaIds


@dataclass(frozen=True)
class StageTask:
    """What one worker has to do in one stage. `partitions`: the number of partitions of each output topic, by handle.
    `append_only[node][slot]`: whether that input of the node only inserts. `grown`, `schema_ids`: see StepContext. `plan` is that of a step with
    this `withholding`."""

    plan: Plan
    placement: Placement
    step: int
    stage: int
    worker: int
    partitions: Mapping[str, int]
    append_only: Mapping[int, tuple[bool, ...]]
    grown: frozenset[str] = frozenset()
    schema_ids: Mapping[str, SchemaIds] = field(default_factory=dict)
    withholding: Withholding = NOTHING_WITHHELD


@dataclass(frozen=True)
class StageResult:
    """`rows`: for each worker to which something is sent, the rows of each channel. `output`: the messages for Kafka, by Output node. `times`:
    what operators say of event time. `errors`: what the stage changes in the error rows of nodes, by node, as far as the step counts them.
    `refused`: the messages that the state has shown to be malformed, and that were left out."""

    rows: Mapping[int, Mapping[Channel, pa.Table]] = field(default_factory=dict)
    output: Mapping[int, pa.Table] = field(default_factory=dict)
    times: TimeReport = field(default_factory=TimeReport)
    errors: Mapping[int, ErrorRows] = field(default_factory=dict)
    refused: Sequence[Refused] = ()


def run_stage(
    task: StageTask, store: Store, inbox: Sequence[ExchangeMessage], sources: Mapping[int, pa.Table]
) -> StageResult:
    """Runs the stage's operators in the circuit's order. `sources`: the rows that were read for the Source nodes (stage 0 only)."""
    arrived = _arrived(inbox)
    made: dict[int, pa.Table] = {}
    output: dict[int, pa.Table] = {}
    times = TimeReport()
    errors: dict[int, ErrorRows] = {}
    refused: list[Refused] = []
    for index in task.plan.nodes_of(task.stage):
        node = task.plan.circuit.nodes[index]
        inputs = [_input(task, index, slot, arrived, made) for slot in range(len(node.inputs))]
        try:
            made[index] = _made(task, store, index, node, inputs, sources, times, errors, refused)
        except EngineError as error:
            error.located(owner=name_of(task.plan.circuit, index), step=task.step, node=index)
            raise
        if isinstance(node, Output) and made[index].num_rows:
            output[index] = made[index]
    return StageResult(_sent(task, arrived, made), output, times, errors, refused)


def _made(
    task: StageTask,
    store: Store,
    index: int,
    node: Node,
    inputs: Sequence[pa.Table],
    sources: Mapping[int, pa.Table],
    times: TimeReport,
    errors: dict[int, ErrorRows],
    refused: list[Refused],
) -> pa.Table:
    """The change of one node's output. What changes in its error rows is added to `errors`, and the messages that it refuses to `refused`."""
    step = operator_of(node).step
    if step is None:
        return sources[index]
    counted = ErrorRows() if index in task.withholding.nodes else None
    context = StepContext(
        store,
        task.step,
        index,
        task.append_only[index],
        task.plan.input_places[index],
        task.placement.keyless_worker == task.worker,
        dict(task.partitions),
        task.grown,
        report=times,
        schema_ids=task.schema_ids,
        withholding=task.withholding,
        errors=counted,
        refused=refused,
    )
    result = step(node, inputs, context)
    if counted is not None and not counted.is_nothing:
        errors[index] = counted
    if isinstance(node, Output):
        return result
    schema = zset.schema_of(node.types)
    return result if result.schema.equals(schema) else result.cast(schema)


def name_of(circuit: Circuit, index: int) -> str:
    """The name for users of the first view, source or output that a node belongs to."""
    nodes = circuit.nodes
    readers = {index}
    for later in range(index, len(nodes)):
        if later == index or not readers.isdisjoint(nodes[later].inputs):
            readers.add(later)
            name = operator_of(nodes[later]).user_name(nodes[later])
            if name is not None:
                return name
    return f"node {index}"


def _arrived(inbox: Sequence[ExchangeMessage]) -> dict[Channel, pa.Table]:
    parts: dict[Channel, list[pa.Table]] = {}
    for message in in_order(inbox):
        for channel, table in message.channels.items():
            parts.setdefault(channel, []).append(table)
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


def _sent(
    task: StageTask, arrived: Mapping[Channel, pa.Table], made: Mapping[int, pa.Table]
) -> dict[int, dict[Channel, pa.Table]]:
    """The rows for later stages, by target. A channel that only passes through stays on its worker."""
    sent: dict[int, dict[Channel, pa.Table]] = {}
    for channel, last in task.plan.last_read.items():
        if last <= task.stage:
            continue
        if channel in arrived:
            sent.setdefault(task.worker, {})[channel] = arrived[channel]
        elif channel.producer in made:
            for target, rows in _routed(task, channel, made[channel.producer]):
                sent.setdefault(target, {})[channel] = rows
    return sent


def _routed(task: StageTask, channel: Channel, table: pa.Table) -> list[tuple[int, pa.Table]]:
    """The rows of a channel by the worker to which they are sent. Workers without rows are left out."""
    if table.num_rows == 0:
        return []
    workers = task.placement.workers
    if channel.everyone:
        return [(worker, table) for worker in workers]
    if channel.key is None or len(workers) == 1:
        return [(task.worker, table)]
    everyone = for_everyone(task.plan.circuit.nodes[channel.producer], table)
    if everyone is not None:
        keyed = zset.take_rows(table, np.flatnonzero(~everyone))
        routed, told = dict(_routed(task, channel, keyed)), zset.take_rows(table, np.flatnonzero(everyone))
        return [(w, zset.add([routed[w], told]) if w in routed else told) for w in workers]
    owners = task.placement.worker_of(hash_keys(table, channel.key))
    order = np.argsort(owners, kind="stable")
    cuts = np.searchsorted(owners[order], [*workers, workers[-1] + 1])
    routed = zset.take_rows(table, order)
    return [
        (worker, routed.slice(start, end - start))
        for worker, start, end in zip(workers, cuts, cuts[1:], strict=False)
        if start < end
    ]
