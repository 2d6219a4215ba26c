"""The plan document of a project's files."""

from __future__ import annotations

import platform

import pyspark

from coordinator.revisions.document import PlanDocument
from engine.analysis.transition import nodes_with_state
from engine.model.circuit import Circuit
from engine.model.numbers import assign_numbers
from stepwell.planning.pipeline import plan_project
from stepwell.planning.plans import ResolvedProject


def document_of_project(resolved: ResolvedProject, circuit: Circuit) -> PlanDocument:
    """The numbers are those of a project without a previous one."""
    plan = plan_project(resolved, circuit)
    return PlanDocument(
        circuit=circuit,
        numbers=assign_numbers(len(circuit.nodes), nodes_with_state(circuit), {}),
        inputs=plan.inputs,
        outputs=plan.outputs,
        places={view.name: str(view.location) for view in resolved.views},
        versions={"spark": pyspark.__version__, "python": platform.python_version()},
    )
