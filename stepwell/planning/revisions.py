"""The plan document of a project's files."""

from __future__ import annotations

from coordinator.revisions.document import PlanDocument
from engine.analysis.numbering import numbers_of
from engine.model.circuit import Circuit
from stepwell.planning.pipeline import plan_project
from stepwell.planning.plans import ResolvedProject


def document_of_project(resolved: ResolvedProject, circuit: Circuit) -> PlanDocument:
    """The numbers are those of a project without a previous one."""
    return PlanDocument.of(plan_project(resolved, circuit), numbers_of(circuit))
