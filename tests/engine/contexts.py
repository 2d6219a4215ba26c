"""The facts that operators and stages need, where a test has a circuit and no run; and the placement of a new state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

from engine.analysis.retraction import append_only_inputs
from engine.analysis.stages import StagePlan, plan_stages
from engine.model.circuit import Circuit
from engine.model.layout import FixedShards, Layout
from engine.model.node import NodeBase
from engine.model.placement import Placement
from engine.operators.arrangement import Everyone
from engine.operators.context import StepContext
from engine.operators.error_rows import ErrorRows
from engine.operators.facts import DivisionFacts, RunFacts, StepFacts
from engine.operators.findings import Findings, MalformedByState, TimeReport
from engine.operators.table import operator_of
from engine.run.stage import WorkerStep
from engine.state.store import Store


def clock_us(step: int) -> int:
    """The time of a step: it is as many seconds after 1970."""
    return step * 1_000_000


def context_of(
    node: NodeBase,
    store: Store,
    step: int = 0,
    *,
    append_only: bool = False,
    partitions: Mapping[str, int] | None = None,
    owns_keyless: bool = True,
    grown: frozenset[str] = frozenset(),
    errors: ErrorRows | None = None,
    report: TimeReport | None = None,
    refused: list[MalformedByState] | None = None,
    idle: Collection[int] = (),
) -> StepContext:
    """For an operator that runs alone, as node 0 of a circuit, whose inputs are exchanged as its descriptor says. What it finds is added to
    `report` and `refused`. `idle`: the inputs that a Watermark leaves out."""
    exchanges = operator_of(node).arrange(node, [None] * len(node.inputs)).exchanges
    places = tuple(None if isinstance(exchange, Everyone) else exchange for exchange in exchanges)
    run = RunFacts((0,), {0: (append_only,) * len(node.inputs)}, partitions or {}, {})
    found = Findings(TimeReport() if report is None else report, {}, [] if refused is None else refused)
    division = DivisionFacts(number=step, clock_us=clock_us(step))
    facts = StepFacts(division, (places,), owns_keyless, grown, idle_inputs={0: frozenset(idle)})
    return StepContext(run, facts, store, 0, found, errors)


def contexts_of(
    circuit: Circuit, store: Store, step: int, *, owns_keyless: bool = True, partitions: Mapping[str, int] | None = None
) -> Callable[[int], StepContext]:
    """For the operators of a whole circuit, by node."""
    run = RunFacts(tuple(range(len(circuit.nodes))), append_only_inputs(circuit), partitions or {}, {})
    places = plan_stages(circuit).input_colocation
    return partial(
        StepContext, run, StepFacts(DivisionFacts(number=step, clock_us=clock_us(step)), places, owns_keyless), store
    )


def worker_step(
    planned: StagePlan, step: int, worker: int = 0, *, placement: Placement, partitions: Mapping[str, int] | None = None
) -> WorkerStep:
    """A step that withholds nothing."""
    run = RunFacts(tuple(range(len(planned.circuit.nodes))), append_only_inputs(planned.circuit), partitions or {}, {})
    division = DivisionFacts(number=step, clock_us=clock_us(step))
    return WorkerStep.of(run, division, planned, placement, worker, first=0)


def placement_of(workers: int) -> Placement:
    """Of a new state with so many workers."""
    return Placement.of(Layout.initial(FixedShards(), workers), {})
