"""One stage of one step on one worker: from the exchange messages that it received to the rows that it sends.

`run_stage` is a function of its inputs and of the store, on any store.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from engine.analysis.event_time_sources import idle_inputs, sides_by_watermark
from engine.analysis.stages import Channel, StagePlan
from engine.errors import EngineError
from engine.model.circuit import Circuit, Output
from engine.model.placement import Placement
from engine.operators.context import StepContext
from engine.operators.error_rows import ErrorRows
from engine.operators.facts import DivisionFacts, RunFacts, StepFacts
from engine.operators.findings import Findings
from engine.operators.keys import hash_keys
from engine.operators.source import broadcast_rows
from engine.operators.table import operator_of
from engine.rows import zset
from engine.run.exchange import ExchangeMessage, sort_messages
from engine.state.store import Store


@dataclass(frozen=True)
class WorkerStep:
    """One step as one worker has to run it, the same in all of its stages. `plan` is that of a step with this withholding."""

    run: RunFacts
    step: StepFacts
    plan: StagePlan
    placement: Placement
    worker: int

    @classmethod
    def of(
        cls,
        run: RunFacts,
        division: DivisionFacts,
        plan: StagePlan,
        placement: Placement,
        worker: int,
        *,
        first: int,
        grown: frozenset[str] = frozenset(),
    ) -> WorkerStep:
        """`first`, `grown`: see StepFacts."""
        owns_keyless = placement.keyless_worker == worker
        facts = StepFacts(
            division,
            plan.input_colocation,
            owns_keyless,
            grown,
            first=first,
            idle_inputs=_idle_inputs(plan.circuit, division.idle),
            standing=plan.watermarks_over_feeds if division.gives_content else frozenset(),
            written_again=plan.written_again,
        )
        return cls(run, facts, plan, placement, worker)


def _idle_inputs(circuit: Circuit, idle: frozenset[str]) -> dict[int, frozenset[int]]:
    if not idle:
        return {}
    return {node: idle_inputs(sides, idle) for node, sides in sides_by_watermark(circuit).items()}


@dataclass(frozen=True)
class StageResult:
    """The result of one stage on one worker. `sent`: for each worker to which something is sent, the rows of each channel. `output`: the
    messages for Kafka, by Output node."""

    sent: Mapping[int, Mapping[Channel, pa.Table]]
    output: Mapping[int, pa.Table]
    findings: Findings


def run_stage(
    task: WorkerStep, stage: int, store: Store, inbox: Sequence[ExchangeMessage], sources: Mapping[int, pa.Table]
) -> StageResult:
    """Runs the stage's operators in the circuit's order. `sources`: the rows that were read for the Source nodes (stage 0 only)."""
    arrived = _rows_by_channel(inbox)
    made: dict[int, pa.Table] = {}
    output: dict[int, pa.Table] = {}
    found = Findings()
    reporting_nodes, began = task.plan.reporting_nodes, time.perf_counter()
    for index in task.plan.nodes_of(stage):
        node = task.plan.circuit.nodes[index]
        if index in sources:
            made[index] = sources[index]
        else:
            inputs = [_input(task, index, position, arrived, made) for position in range(len(node.inputs))]
            try:
                made[index] = _run_node(task, index, inputs, store, found)
            except EngineError as error:
                error.locate(owner=name_of(task.plan.circuit, index), step=task.step.division.number, node=index)
                raise
            if isinstance(node, Output) and made[index].num_rows:
                output[index] = made[index]
        ended, reporting = time.perf_counter(), reporting_nodes[index]
        found.note_work(reporting, 1e3 * (ended - began), made[index].num_rows if reporting == index else 0)
        began = ended
    return StageResult(_rows_to_send(task, stage, arrived, made), output, found)


def _run_node(task: WorkerStep, index: int, inputs: Sequence[pa.Table], store: Store, found: Findings) -> pa.Table:
    """The change of one node's output. What the operator finds beside it is added to `found`."""
    node = task.plan.circuit.nodes[index]
    step = operator_of(node).step
    assert step is not None, f"node {index} is a source, and nothing was read for it"
    is_uncounted = index in task.run.uncounted
    counted = ErrorRows() if is_uncounted or index in task.step.division.withholding.nodes else None
    result = step(node, inputs, StepContext(task.run, task.step, store=store, node=index, found=found, errors=counted))
    if counted is not None and not counted.is_nothing and not is_uncounted:
        found.errors[index] = counted
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
            name = operator_of(nodes[later]).wording.user_name(nodes[later])
            if name is not None:
                return name
    return f"node {index}"


def _rows_by_channel(inbox: Sequence[ExchangeMessage]) -> dict[Channel, pa.Table]:
    parts: dict[Channel, list[pa.Table]] = {}
    for message in sort_messages(inbox):
        for channel, table in message.channels.items():
            parts.setdefault(channel, []).append(table)
    return {channel: pa.concat_tables(tables) for channel, tables in parts.items()}


def _input(
    task: WorkerStep, index: int, input_position: int, arrived: Mapping[Channel, pa.Table], made: Mapping[int, pa.Table]
) -> pa.Table:
    channel = task.plan.arrivals[index][input_position]
    producer = task.plan.circuit.nodes[index].inputs[input_position]
    if channel is None:
        return made[producer]
    table = arrived.get(channel)
    return zset.empty(task.plan.circuit.nodes[producer].types) if table is None else table


def _rows_to_send(
    task: WorkerStep, stage: int, arrived: Mapping[Channel, pa.Table], made: Mapping[int, pa.Table]
) -> dict[int, dict[Channel, pa.Table]]:
    """The rows for later stages, by target. A channel that only passes through stays on its worker."""
    sent: dict[int, dict[Channel, pa.Table]] = {}
    for channel, last in task.plan.last_read.items():
        if last <= stage:
            continue
        if channel in arrived:
            sent.setdefault(task.worker, {})[channel] = arrived[channel]
        elif channel.producer in made:
            for target, rows in _rows_by_target(task, channel, made[channel.producer]):
                sent.setdefault(target, {})[channel] = rows
    return sent


def _rows_by_target(task: WorkerStep, channel: Channel, table: pa.Table) -> list[tuple[int, pa.Table]]:
    """The rows of a channel by the worker to which they are sent. Workers without rows are left out."""
    if table.num_rows == 0:
        return []
    workers = task.placement.workers
    if channel.everyone:
        return [(worker, table) for worker in workers]
    if channel.key is None or len(workers) == 1:
        return [(task.worker, table)]
    everyone = broadcast_rows(task.plan.circuit.nodes[channel.producer], table)
    if everyone is not None:
        keyed = zset.take_rows(table, np.flatnonzero(~everyone))
        routed, told = dict(_rows_by_target(task, channel, keyed)), zset.take_rows(table, np.flatnonzero(everyone))
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
