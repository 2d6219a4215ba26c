"""A step without Spark, Kafka and LMDB: all workers run in this process, and their state is in memory.

Tests of operators and placements use it, and so does the benchmark's lower bound. It runs the same stages as the workers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from engine.analysis.filling import Program
from engine.analysis.stages import plan_stages
from engine.model.circuit import Circuit, Output
from engine.model.layout import FixedShards, Layout
from engine.model.placement import Placement
from engine.model.rows import Source
from engine.model.withholding import NOTHING_WITHHELD, Withholding
from engine.operators.error_rows import ErrorRows, add_all
from engine.operators.facts import DivisionFacts, RunFacts
from engine.operators.findings import MalformedByState
from engine.operators.output import OUTPUT_MESSAGES
from engine.rows import zset
from engine.run.exchange import ExchangeMessage
from engine.run.stage import WorkerStep, run_stage
from engine.state.store import DictStore


class InProcess:
    """Runs a circuit step by step. `step(inputs)` takes one Z-set for each source handle, or messages with a weight for a keyed source."""

    def __init__(self, circuit: Circuit, workers: int = 1, partitions: Mapping[str, int] | None = None) -> None:
        circuit.check()
        self.program = Program.of(circuit, tuple(range(len(circuit.nodes))))
        self.plan = self.program.plan
        self.first = 0
        self.placement = Placement.of(Layout.initial(FixedShards(), workers), {})
        self.stores = [DictStore() for _ in range(workers)]
        self.facts = RunFacts(self.program.numbers, self.program.append_only, dict(partitions or {}), {})
        self.steps = 0
        self.errors: dict[int, ErrorRows] = {}
        """The error rows of nodes since the beginning, as far as steps have counted them."""
        self.malformed: list[MalformedByState] = []
        """The messages that were left out since the beginning, because the state has shown that they are malformed."""
        self.time_us = 0
        """The time of a step to which nobody gives one."""
        self.idle: frozenset[str] = frozenset()
        """The sources that are idle in a step."""
        self.border_us: int | None = None
        """The next border after the last step (Findings)."""

    def become(self, program: Program) -> None:
        """From the next step on, the steps run this program over the same state."""
        self.program, self.plan, self.first = program, program.plan, self.steps
        self.facts = replace(
            self.facts,
            numbers=program.numbers,
            append_only=program.append_only,
            begins=program.begins,
            uncounted=program.silent,
        )

    def step(
        self,
        inputs: Mapping[str, pa.Table],
        withholding: Withholding = NOTHING_WITHHELD,
        filled: tuple[int, int] = (0, 0),
        time_us: int | None = None,
    ) -> dict[str, pa.Table]:
        """The messages of every output handle, unordered. Their columns are partition, key and value. `filled`: see DivisionFacts. `time_us`: of
        the step, if it is not that of the attribute."""
        read = [self._sources(worker, inputs) for worker in range(len(self.stores))]
        return self.step_of(read, withholding, filled, time_us)

    def step_of(
        self,
        read: Sequence[Mapping[int, pa.Table]],
        withholding: Withholding = NOTHING_WITHHELD,
        filled: tuple[int, int] = (0, 0),
        time_us: int | None = None,
    ) -> dict[str, pa.Table]:
        """As `step`. `read[worker]`: the rows of every Source node that the worker has read (`sources.read_sources`)."""
        of_step = plan_stages(self.plan.circuit, withholding.outputs) if withholding.outputs else self.plan
        workers = range(len(self.stores))
        inboxes: list[list[ExchangeMessage]] = [[] for _ in workers]
        result = {handle: [OUTPUT_MESSAGES.empty_table()] for handle in self.facts.partitions}
        division = DivisionFacts(
            number=self.steps,
            withholding=withholding,
            filled=filled,
            clock_us=self.time_us if time_us is None else time_us,
            idle=self.idle,
            asks_border=True,
        )
        tasks = [
            WorkerStep.of(self.facts, division, of_step, self.placement, worker, first=self.first) for worker in workers
        ]
        borders: list[int] = []
        for stage in range(of_step.stages):
            made = [run_stage(task, stage, self.stores[w], inboxes[w], read[w]) for w, task in enumerate(tasks)]
            inboxes = [[ExchangeMessage(w, m.sent[to]) for w, m in enumerate(made) if to in m.sent] for to in workers]
            for each in made:
                add_all(self.errors, each.findings.errors)
                self.malformed += each.findings.malformed
                borders += [] if each.findings.border_us is None else [each.findings.border_us]
                for index, table in each.output.items():
                    node = self.plan.circuit.nodes[index]
                    assert isinstance(node, Output)
                    result.setdefault(node.handle, []).append(table)
        self.steps += 1
        self.border_us = min(borders, default=None)
        return {handle: pa.concat_tables(tables) for handle, tables in result.items()}

    def _sources(self, worker: int, inputs: Mapping[str, pa.Table]) -> dict[int, pa.Table]:
        """This worker's share of each source's rows. Rows are distributed over the workers in turn, as partitions are."""
        tables: dict[int, pa.Table] = {}
        for index, node in enumerate(self.plan.circuit.nodes):
            if isinstance(node, Source):
                table = inputs.get(node.handle, zset.empty(node.types))
                mine = np.arange(worker, table.num_rows, len(self.stores))
                tables[index] = zset.take_rows(table, mine)
        return tables
