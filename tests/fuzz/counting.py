"""Runs a case some of whose rows are in error, as a coordinator does: such rows are counted, and outputs are withheld meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from engine.analysis.withholding import countable, outputs_behind, views_behind, withholding_of
from engine.errors import DataError
from engine.model.circuit import Circuit
from engine.model.withholding import Withholding
from engine.operators.error_rows import ErrorRows, add_all
from engine.run.source_table import SourceTable
from tests.fuzz.cases import Case, Run
from tests.fuzz.machine import Machine


class CountingMachine(Machine):
    """`withheld[step]`: what a step counted and withheld; a replay does the same. `in_error[step]`: the views that had no answer after it."""

    def __init__(self, case: Case, run: Run, circuit: Circuit, tables: Mapping[str, SourceTable]) -> None:
        super().__init__(case, run, circuit, tables)
        self.withheld: list[Withholding] = []
        self.in_error: list[frozenset[str]] = []
        self._errors: dict[int, ErrorRows] = {}

    def _ran(self, number: int, read: Sequence[Mapping[int, pa.Table]]) -> dict[str, pa.Table]:
        if number < len(self.withheld):  # a replay
            made = self.inner.step_of(read, self.withheld[number])
            self.inner.errors.clear()
            return made
        before = self.withheld[-1] if self.withheld else Withholding()
        kept = [dict(store.records) for store in self.inner.stores]
        withholding = self._counting(before, self._nodes_in_error())
        try:
            made = self.inner.step_of(read, withholding)
        except DataError as error:
            if not error.is_of_rows or error.node in withholding.nodes or error.node not in countable(self.circuit):
                raise
            for store, records in zip(self.inner.stores, kept, strict=True):
                store.records = records
            self.inner.errors.clear()
            withholding = self._counting(before, countable(self.circuit))
            made = self.inner.step_of(read, withholding)
        add_all(self._errors, self.inner.errors)
        self.inner.errors.clear()
        self.withheld.append(withholding)
        self.in_error.append(views_behind(self.circuit, self._nodes_in_error()))
        self.hidden = self.in_error[-1]
        return made

    def _nodes_in_error(self) -> frozenset[int]:
        return frozenset(node for node, errors in self._errors.items() if not errors.is_nothing)

    def _counting(self, before: Withholding, nodes: frozenset[int]) -> Withholding:
        return withholding_of(self.circuit, nodes, before.withheld - outputs_behind(self.circuit, nodes))
