"""Runs a chain of projects over one stream of messages: each is filled beside the one before and takes over at a switch.

Crashes go back some steps and replay them with the programs and the portions that they had. A transition may be given up, and begin again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from engine.analysis.filling import FillingPrograms, Program
from engine.analysis.withholding import countable
from engine.model.filling import OF_FORMER, OF_NEXT
from engine.model.placement import Placement
from engine.model.withholding import NOTHING_WITHHELD, Withholding
from engine.operators.error_rows import ErrorRows, add_all
from engine.operators.facts import DivisionFacts
from engine.run.source_table import SourceTable
from engine.run.sources import read_sources
from engine.run.step_input import StepInput
from io_kafka.clients.raw import RawBatch
from io_kafka.step_log.digest import canonical
from tests.engine.in_process import InProcess
from tests.engine.transitions import Way
from tests.fuzz.cases import Case, Run
from tests.fuzz.clock import clock_us
from tests.fuzz.machine import Machine

REPLAYED_MAX = 3
Written = dict[str, pa.Table]


@dataclass(frozen=True)
class Leg:
    """A transition of the chain. `begins`: the step of the case before which it begins. `aborts`: before which it is given up and begins again.
    `switches`: the step of the switch."""

    filling: FillingPrograms
    begins: int
    aborts: int | None
    switches: int


@dataclass(frozen=True)
class Road:
    """`case`: whose messages come. Its views are those of the first project."""

    case: Case
    run: Run
    legs: tuple[Leg, ...]


@dataclass(frozen=True)
class _Ran:
    """A step that may be run again."""

    read: Sequence[Mapping[int, pa.Table]]
    program: Program
    first: int
    filled: tuple[int, int]
    withholding: Withholding
    time_us: int
    written: Written


@dataclass(frozen=True)
class _Saved:
    """What a checkpoint has."""

    records: list[dict[bytes, bytes]]
    steps: int


class EvolvingMachine(Machine):
    """`tell(step, messages)` is called after each step; `step` is None for one without a step of the case."""

    def __init__(
        self,
        road: Road,
        tables: Mapping[str, SourceTable],
        partitions: Mapping[str, int],
        tell: Callable[[int | None, Written], None],
    ) -> None:
        run, present = road.run, road.legs[0].filling.present
        both = [replace(table, handle=of + table.handle) for table in tables.values() for of in (OF_NEXT, OF_FORMER)]
        super().__init__(road.case, run, present.circuit, {**tables, **{table.handle: table for table in both}})
        self.partitions, self.legs, self.tell = dict(partitions), list(road.legs), tell
        self.inner = InProcess(present.circuit, run.workers[0], self.partitions)
        self.inner.become(present)
        self.way: Way | None = None
        self.heard: list[RawBatch] = []
        """All messages so far, of which young nodes have got the first `again`."""
        self.again = 0
        self.rolling = random.Random(run.seed)
        self.saved: _Saved | None = None
        self.ran: list[_Ran] = []
        self.errors: dict[int, ErrorRows] = {}
        self.crashes = 0
        self.aborts = 0

    def travel(self) -> None:
        with self._buckets():
            for number in range(len(self.case.steps)):
                self._between(number)
                self.inner.time_us = clock_us(number)
                self._begin_or_end(number)
                written = self.step(number)
                if self.legs and self.way is not None and number == self.legs[0].switches:
                    self._settle()
                self.tell(number, written)

    # Between two steps

    def _between(self, number: int) -> None:
        match self.run.events[number]:
            case "crash" if self.ran:
                self._crash()
            case "restart":
                self._reopen([dict(store.records) for store in self.inner.stores], self.inner.placement)
            case "move":
                self._place(self.run.workers[number], shuffle=True)
                self._save()
        if self.run.workers[number] != len(self.inner.stores):
            self._place(self.run.workers[number], shuffle=False)
            self._save()

    def _save(self) -> None:
        self.saved = _Saved([dict(store.records) for store in self.inner.stores], self.inner.steps)
        self.ran = []

    def _crash(self) -> None:
        """All steps since the last checkpoint are run again, each with the program that it had."""
        assert self.saved is not None
        self.crashes += 1
        program, first = self.inner.program, self.inner.first
        self._reopen(self.saved.records, self.inner.placement)
        self.inner.steps = self.saved.steps
        for ran in self.ran:
            self.inner.become(ran.program)
            self.inner.first, self.inner.time_us = ran.first, ran.time_us
            written = self._run(ran.read, ran.filled, ran.withholding)
            others = [name for name, table in written.items() if table != ran.written[name]]
            assert not others, f"step {self.inner.steps - 1} writes another {', '.join(others)} when it is replayed"
        self.inner.become(program)
        self.inner.first = first
        self.inner.errors.clear()

    def _reopen(self, records: list[dict[bytes, bytes]], placement: Placement) -> None:
        program, first, time_us = self.inner.program, self.inner.first, self.inner.time_us
        super()._reopen(records, placement)
        self.inner.become(program)
        self.inner.first, self.inner.time_us = first, time_us
        if self.way is not None:
            self.way.inner = self.inner

    def contents(self) -> dict[str, list[bytes]]:
        """Of the views of the project in force. A young view may have the name of one of them."""
        filling = self.circuit
        if self.way is not None and self.inner.program is self.way.filling.filling:
            self.circuit = self.way.filling.present.circuit  # its nodes come first
        try:
            return super().contents()
        finally:
            self.circuit = filling

    # The way

    def _begin_or_end(self, number: int) -> None:
        if not self.legs:
            return
        leg = self.legs[0]
        if number == leg.begins:
            self._begin()
        if number == leg.aborts and self.way is not None:
            self.aborts += 1
            self.way.abort()
            self._save()
            self.errors.clear()
            self._begin()
        if self.way is None:
            return
        if number == leg.switches:
            while not (self.way.is_filled and self.again == len(self.heard)):
                self.way.advance_randomly(self.rolling)
                self._empty_step()
            for node, rows in self.errors.items():
                assert rows.is_nothing, f"node {node} has error rows when all is filled"
            self.way.turn()
            self.circuit = leg.filling.switching.circuit
        else:
            for _ in range(self.rolling.randrange(3)):
                self.way.advance_randomly(self.rolling)
                self._empty_step()
            self.way.advance_randomly(self.rolling)

    def _begin(self) -> None:
        self.way, self.again = Way(self.inner, self.legs[0].filling), 0
        self.way.begin()
        self.circuit = self.inner.program.circuit

    def _settle(self) -> None:
        assert self.way is not None
        self.way.settle()
        self.circuit, self.way = self.inner.program.circuit, None
        self.legs.pop(0)
        self.errors.clear()
        self._save()

    # Steps

    def step(self, number: int) -> Written:
        batches = list(self._batches(self.case.steps[number]))
        self.heard += batches
        return {handle: canonical(table) for handle, table in self._ran(number, self._read(number, batches)).items()}

    def _read(self, number: int, batches: Sequence[RawBatch]) -> list[dict[int, pa.Table]]:
        """What each worker reads, of which it reads some again."""
        workers = range(len(self.inner.stores))
        given = StepInput(facts=DivisionFacts(number=number), ranges=(), on_error={})
        mine = [self._shared(each, len(workers)) for each in (batches, self._portion())]
        return [read_sources(self.circuit, self.tables, given, *(part[w] for part in mine))[0] for w in workers]

    def _shared(self, batches: Sequence[RawBatch], workers: int) -> list[list[RawBatch]]:
        readers = [self.rolling.randrange(workers) for _ in batches]
        return [[batch for batch, reader in zip(batches, readers, strict=True) if reader == w] for w in range(workers)]

    def _portion(self) -> Sequence[RawBatch]:
        """Some more of what was heard, and all if the way is filled."""
        if self.way is None or self.inner.program is not self.way.filling.filling:
            return ()
        end = len(self.heard) if self.way.is_filled else self.rolling.randint(self.again, len(self.heard))
        first, self.again = self.again, end
        return self.heard[first:end]

    def _empty_step(self) -> None:
        written = self._ran(self.inner.steps, self._read(self.inner.steps, ()))
        self.tell(None, {handle: canonical(table) for handle, table in written.items()})

    def _ran(self, number: int, read: Sequence[Mapping[int, pa.Table]]) -> Written:
        if self.saved is None or len(self.ran) == REPLAYED_MAX:
            self._save()
        program, first = self.inner.program, self.inner.first
        filled, withholding = (0, 0) if self.way is None else self.way.filled, self._counting()
        written = self._run(read, filled, withholding)
        self.ran.append(_Ran(read, program, first, filled, withholding, self.inner.time_us, written))
        add_all(self.errors, self.inner.errors)
        self.inner.errors.clear()
        if self.way is not None:
            self.way.filled = (self.way.position, self.way.position)
        return written

    def _run(
        self, read: Sequence[Mapping[int, pa.Table]], filled: tuple[int, int], withholding: Withholding
    ) -> Written:
        made = self.inner.step_of(read, withholding, filled)
        return {handle: canonical(table) for handle, table in made.items()}

    def _counting(self) -> Withholding:
        """While young nodes see a part of what they will see, rows may be in error in them that will not be in the end."""
        if self.way is None or self.inner.program is not self.way.filling.filling:
            return NOTHING_WITHHELD
        known = len(self.way.filling.present.circuit.nodes)
        return Withholding(frozenset(node for node in countable(self.circuit) if node >= known))
