"""A step without Spark, Kafka and LMDB: all workers run in this process, and their state is in memory.

Tests of operators and placements use it, and so does the benchmark's lower bound. It runs the same stages as Spark's tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from engine.analysis.retraction import append_only_inputs
from engine.analysis.stages import plan
from engine.model.circuit import Circuit, Source
from engine.model.placement import Placement
from engine.operators.output import OUTPUT_MESSAGES
from engine.rows import zset
from engine.run.exchange import DRIVER, ExchangeMessage, error_of, from_bytes
from engine.run.region import Outbox, StageTask, run_stage, run_stage_once
from engine.state.store import DictStore


class InProcess:
    """Runs a circuit step by step. `step(inputs)` takes one Z-set for each source handle, or messages with a weight for a keyed source."""

    def __init__(self, circuit: Circuit, workers: int = 1, partitions: Mapping[str, int] | None = None) -> None:
        circuit.check()
        self.plan = plan(circuit)
        self.placement = Placement.even(workers)
        self.stores = [DictStore() for _ in range(workers)]
        self.partitions = dict(partitions or {})
        self.append_only = append_only_inputs(circuit)
        self.steps = 0

    def step(self, inputs: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """The messages of every output handle, unordered. Their columns are partition, key and value."""
        return self.step_of([self._sources(worker, inputs) for worker in range(len(self.stores))])

    def step_of(self, read: Sequence[Mapping[int, pa.Table]]) -> dict[str, pa.Table]:
        """As `step`. `read[worker]`: the rows of every Source node that the worker has read (`sources.read_sources`)."""
        inboxes: list[list[ExchangeMessage]] = [[] for _ in self.stores]
        collected: list[ExchangeMessage] = []
        for stage in range(self.plan.stages):
            outboxes = [self._run(stage, worker, inboxes[worker], read[worker]) for worker in range(len(self.stores))]
            inboxes = [[box[w] for box in outboxes if w in box] for w in range(len(self.stores))]
            collected += [box[DRIVER] for box in outboxes if DRIVER in box]
        self.steps += 1
        return self._messages(collected)

    def _run(self, stage: int, worker: int, inbox: list[ExchangeMessage], read: Mapping[int, pa.Table]) -> Outbox:
        task = StageTask(
            self.plan, self.placement, self.steps, stage, worker, self.partitions, self.append_only
        )  # fmt: skip
        if stage > 0:
            return run_stage_once(task, self.stores[worker], inbox)
        return run_stage(task, self.stores[worker], inbox, read)

    def _sources(self, worker: int, inputs: Mapping[str, pa.Table]) -> dict[int, pa.Table]:
        """This worker's share of each source's rows. Rows are distributed over the workers in turn, as partitions are."""
        tables: dict[int, pa.Table] = {}
        for index, node in enumerate(self.plan.circuit.nodes):
            if isinstance(node, Source):
                table = inputs.get(node.handle, zset.empty(node.types))
                mine = np.arange(worker, table.num_rows, len(self.stores))
                tables[index] = zset.take_rows(table, mine)
        return tables

    def _messages(self, messages: list[ExchangeMessage]) -> dict[str, pa.Table]:
        for message in messages:
            if message.error is not None:
                raise error_of(message)
        result: dict[str, pa.Table] = {}
        for handle in self.partitions:
            result[handle] = OUTPUT_MESSAGES.empty_table()
        for message in messages:
            for index, data in message.output.items():
                handle = getattr(self.plan.circuit.nodes[index], "handle")  # noqa: B009
                result[handle] = pa.concat_tables([result.get(handle, OUTPUT_MESSAGES.empty_table()), from_bytes(data)])
        return result
