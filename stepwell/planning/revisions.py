"""The plan document of a project's files."""

from __future__ import annotations

from coordinator.revisions.document import PlanDocument
from engine.analysis.identity import revisions_of
from engine.analysis.numbering import numbers_of
from engine.model.circuit import Circuit
from stepwell.planning.pipeline import plan_project
from stepwell.planning.plans import ResolvedProject


def document_of_project(resolved: ResolvedProject, circuit: Circuit) -> PlanDocument:
    """The numbers are those of a project without a previous one."""
    plan = plan_project(resolved, circuit)
    return PlanDocument(
        circuit=circuit,
        numbers=numbers_of(circuit),
        inputs=plan.inputs,
        outputs=plan.outputs,
        places=plan.places,
        versions=plan.versions,
        revisions=revisions_of(circuit),
    )
