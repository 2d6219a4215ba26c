"""Runs a case in this process: real messages, real decoding, all workers with their exchange, state in memory.

Between two steps the state may be reopened, slots may move, workers may join or leave, and a step may be lost and run again.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from base.slots import SLOTS, SlotSet
from engine.analysis.content import content_of
from engine.model.circuit import Circuit, View
from engine.model.placement import Placement
from engine.operators.context import StepContext
from engine.operators.facts import DivisionFacts, StepFacts
from engine.rows import zset
from engine.run.source_table import SourceTable
from engine.run.sources import read_sources
from engine.run.step_input import StepInput
from engine.state import trace
from engine.state.store import DictStore
from io_kafka.clients.raw import RawBatch, raw_batch
from io_kafka.extras import TYPES, Extras
from io_kafka.formats.batches import messages_of
from io_kafka.formats.encode import encode
from io_kafka.formats.spec import OutputFormat
from io_kafka.messages import Messages
from io_kafka.offsets import OffsetRange
from io_kafka.step_log.digest import canonical
from tests.engine.in_process import InProcess
from tests.engine.test_moves import move_state
from tests.fuzz.cases import Case, Message, Run, Source, Step, time_ms
from tests.fuzz.clock import clock_us
from tests.fuzz.values import arrow_column

RANGE_SLOTS = 512
"""Of the ranges that change their owner."""


@dataclass
class Story:
    """What came of each step: the messages of every output in canonical order, and the content of every kept view as JSON."""

    messages: list[dict[str, pa.Table]] = field(default_factory=list)
    contents: list[dict[str, list[bytes]]] = field(default_factory=list)


class Machine:
    """`tables`: how the messages of each source are decoded, by name."""

    def __init__(self, case: Case, run: Run, circuit: Circuit, tables: Mapping[str, SourceTable]) -> None:
        self.case, self.run, self.circuit, self.tables = case, run, circuit, tables
        self.chance = random.Random(run.seed)
        self.partitions = {view.name: view.partitions for view in case.views if view.mode is not None}
        self.inner = InProcess(circuit, run.workers[0], self.partitions)
        self.offsets: dict[tuple[str, int], int] = {}
        self.hidden: Set[str] = frozenset()
        """Views that are not read."""
        self.before: tuple[list[dict[bytes, bytes]], Placement, dict[tuple[str, int], int]] | None = None

    def story(self) -> Story:
        """Raises what a step raises."""
        told = Story()
        with self._buckets():
            for number in range(len(self.case.steps)):
                self._prepare(number, told)
                told.messages.append(self.step(number))
                told.contents.append(self.contents() if number in self.case.compared else {})
        return told

    @contextmanager
    def _buckets(self) -> Iterator[None]:
        if self.run.bucket_rows is None:
            yield
            return
        with patch.object(trace, "BUCKET_ROWS_MAX", self.run.bucket_rows):
            yield

    def _prepare(self, number: int, told: Story) -> None:
        match self.run.events[number]:
            case "restart":
                self._reopen([dict(store.records) for store in self.inner.stores], self.inner.placement)
            case "crash" if self.before is not None:
                records, placement, self.offsets = self.before
                self._reopen(records, placement)
                self.inner.steps = number - 1
                again = self.step(number - 1)
                assert again == told.messages[number - 1], f"step {number - 1} has other output when it is replayed"
            case "move":
                self._place(self.run.workers[number], shuffle=True)
        if len(self.inner.stores) != self.run.workers[number]:
            self._place(self.run.workers[number], shuffle=False)
        self.before = [dict(s.records) for s in self.inner.stores], self.inner.placement, dict(self.offsets)

    def _reopen(self, records: list[dict[bytes, bytes]], placement: Placement) -> None:
        """What is not in the records is lost."""
        steps = self.inner.steps
        self.inner = InProcess(self.circuit, len(records), self.partitions)
        self.inner.stores = [DictStore() for _ in records]
        for store, mine in zip(self.inner.stores, records, strict=True):
            store.records = dict(mine)
        self.inner.placement, self.inner.steps = placement, steps

    def _place(self, workers: int, shuffle: bool) -> None:
        """Gives slots to other workers, and what lies in them with them."""
        inner = self.inner
        while len(inner.stores) < workers:
            inner.stores.append(DictStore())
        every = range(len(inner.stores))
        owned = {worker: inner.placement.owned.get(worker, SlotSet(())) for worker in every}
        inner.placement = Placement(0, owned, {})
        ranges: dict[int, list[tuple[int, int]]] = {worker: [] for worker in every}
        for first in range(0, SLOTS, RANGE_SLOTS):
            owner = next(worker for worker, slots in owned.items() if first in slots)
            leaves = owner >= workers or (shuffle and (first == 0 or self.chance.random() < 0.5))
            new = not shuffle and self.chance.random() < 1 / workers
            ranges[self.chance.randrange(workers) if leaves or new else owner].append((first, first + RANGE_SLOTS))
        move_state(inner, Placement(0, {worker: SlotSet.of(mine) for worker, mine in ranges.items()}, {}))
        assert not any(store.records for store in inner.stores[workers:]), "a worker that has left keeps state"
        del inner.stores[workers:]
        inner.placement = Placement(0, {w: inner.placement.owned[w] for w in range(workers)}, {})

    def step(self, number: int) -> dict[str, pa.Table]:
        self.inner.time_us = clock_us(number)
        batches = list(self._batches(self.case.steps[number]))
        readers = [self.chance.randrange(len(self.inner.stores)) for _ in batches]
        read = []
        for worker in range(len(self.inner.stores)):
            mine = [batch for batch, reader in zip(batches, readers, strict=True) if reader == worker]
            given = StepInput(facts=DivisionFacts(number=number), ranges=(), on_error={})
            read.append(read_sources(self.circuit, self.tables, given, mine)[0])
        return {handle: canonical(table) for handle, table in self._ran(number, read).items()}

    def _ran(self, number: int, read: Sequence[Mapping[int, pa.Table]]) -> dict[str, pa.Table]:
        return self.inner.step_of(read)

    def _batches(self, step: Step) -> Iterator[RawBatch]:
        for source in self.case.sources:
            for partition in range(source.partitions):
                mine = [m for m in step if (m.source, m.partition) == (source.name, partition)]
                start = self.offsets.get((source.name, partition), 0)
                end = self.offsets[source.name, partition] = start + len(mine)
                keys = [m.key(source) for m in mine]
                values = [m.value(source) for m in mine]
                if source.read == "files":
                    values = list(self._of_files(source, mine))
                    keys = [None] * len(values)
                    end = self.offsets[source.name, partition] = start + len(values)
                offsets = range(start, end)
                times = [{"timestamp": time_ms(offset), "timestamp_type": 0} for offset in offsets]
                yield raw_batch(
                    OffsetRange(source.name, partition, start, end),
                    Messages(
                        pa.array(keys, pa.binary()),
                        pa.array(values, pa.binary()),
                        pa.array(offsets, pa.int64()),
                        pa.array(times, TYPES[Extras.TIMESTAMPS]),
                    ),
                )

    def _of_files(self, source: Source, messages: list[Message]) -> Iterator[bytes]:
        """What a load writes of these rows."""
        form = self.tables[source.name].format
        rows = [m.after for m in messages if m.after is not None]
        columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in source.columns]
        arrays = [arrow_column(values, type_) for values, type_ in zip(columns, source.types, strict=True)]
        for _, message in messages_of(pa.RecordBatch.from_arrays(arrays, schema=form.schema)):
            yield message

    def contents(self) -> dict[str, list[bytes]]:
        """What queries read, summed over the workers."""
        inner, found = self.inner, {}
        for index, node in enumerate(self.circuit.nodes):
            if not isinstance(node, View) or not node.kept or node.name in self.hidden:
                continue
            rows: list[bytes] = []
            for worker, store in enumerate(inner.stores):
                facts = StepFacts(
                    DivisionFacts(number=inner.steps), inner.plan.input_colocation, 0 in inner.placement.owned[worker]
                )
                context_of = partial(StepContext, inner.facts, facts, store)
                rows += json_rows(content_of(self.circuit, index, context_of), node)
            found[node.name] = rows
        return found


def json_rows(content: pa.Table, node: View) -> list[bytes]:
    weights = content.columns[-1].to_numpy()
    assert (weights >= 0).all(), f"view {node.name} holds a row of negative weight"
    rows = zset.take_rows(content, np.repeat(np.arange(content.num_rows), weights))
    if rows.num_rows == 0:
        return []
    schema = pa.schema([pa.field(name, kind) for name, kind in zip(node.names, node.types, strict=True)])
    encoded = encode(OutputFormat(node.name, schema, "append", ()), rows)
    return [value.as_py() for value in encoded.column("value")]
