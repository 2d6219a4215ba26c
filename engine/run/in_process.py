"""A step without Spark, Kafka and LMDB: all workers in this process, state in memory.

For tests of operators and placements, and for the benchmark's floor. It runs the very stages that Spark's tasks run.
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
    """Runs a circuit step by step; `step(inputs)` takes a Z-set (or messages with weight) for each source handle."""

    def __init__(self, circuit: Circuit, workers: int = 1, partitions: Mapping[str, int] | None = None) -> None:
        circuit.check()
        self.plan = plan(circuit)
        self.placement = Placement.even(workers)
        self.stores = [DictStore() for _ in range(workers)]
        self.partitions = dict(partitions or {})
        self.append_only = append_only_inputs(circuit)
        self.steps = 0

    def step(self, inputs: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """The messages of every output handle: partition, key, value; unordered."""
        return self.step_of([self._sources(worker, inputs) for worker in range(len(self.stores))])

    def step_of(self, read: Sequence[Mapping[int, pa.Table]]) -> dict[str, pa.Table]:
        """As `step`, over what each worker has read: the rows of every Source node (`sources.read_sources`)."""
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
        """Each source's rows dealt out among the workers, as partitions would be."""
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
