"""What all workers share in the steps of a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from engine.analysis.stages import StagePlan, plan_stages
from engine.model.filling import is_read_again
from engine.model.numbers import NumberedCircuit, number_of
from engine.model.placement import Placement
from engine.model.withholding import Withholding
from engine.operators.facts import RunFacts
from engine.run.source_table import SourceTable, extras_of_all
from engine.run.stage import WorkerStep, name_of
from engine.run.step_input import StepInput
from io_kafka.clients.settings import KafkaSettings
from storage.host_folder import StateLocation
from storage.remote.place import StorePlace


@dataclass(frozen=True, kw_only=True)
class TaskSetup:
    """The plan, the sources and the places that every step of a program runs with."""

    plan: StagePlan
    """The plan of a step that withholds nothing."""
    kafka: KafkaSettings
    tables: Mapping[str, SourceTable]
    """By the handle of the source."""
    state_location: StateLocation
    """Where each host keeps the databases of its workers."""
    facts: RunFacts
    """What operators may know of the run."""
    revision: int
    """The revision that is in force."""
    first: int = 0
    """The first step of the program that the steps run."""
    clears: tuple[int, ...] = ()
    """The numbers of the nodes whose tables are removed in the first step of the program."""
    registry_auth: str | None = field(default=None, repr=False)
    """The password for schema registries, which no document of a program has."""
    store: StorePlace | None = None
    """The checkpoint store, if there is one."""
    _plans: dict[frozenset[str], StagePlan] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def kafka_reread(self) -> KafkaSettings:
        """The settings of the reader of what is read again."""
        read = (table for handle, table in self.tables.items() if is_read_again(handle))
        return replace(self.kafka, extras=extras_of_all(read), is_second=True)

    @cached_property
    def numbered(self) -> NumberedCircuit:
        return NumberedCircuit(self.plan.circuit, self.facts.numbers)

    def plan_with(self, withholding: Withholding) -> StagePlan:
        """The plan of a step with this withholding. The last plan is kept, because the next step seldom has another."""
        outputs = withholding.outputs
        if not outputs:
            return self.plan
        if outputs not in self._plans:
            self._plans.clear()
            self._plans[outputs] = plan_stages(self.plan.circuit, outputs)
        return self._plans[outputs]

    def task(self, placement: Placement, given: StepInput, worker: int) -> WorkerStep:
        """The step `given` on one worker."""
        plan = self.plan_with(given.facts.withholding)
        grown = frozenset(handle for handle, table in self.tables.items() if not given.grown.isdisjoint(table.topics))
        return WorkerStep.of(self.facts, given.facts, plan, placement, worker, first=self.first, grown=grown)

    def owner_of_table(self, table: int) -> str:
        """The name for users of the view, source or output whose state a table holds."""
        number = number_of(table)
        if number is None:
            return "the engine"
        index = self.numbered.index(number)
        return f"node {number} of a former revision" if index is None else name_of(self.plan.circuit, index)
