"""How much of a suite's state an edit keeps: a view that is added or removed, and a column at the front of the largest table.

No row is read and no broker is needed: two circuits are compared (engine/analysis/project_match.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from bench.sql.lowering import resolved
from bench.sql.suites import Suite
from coordinator.revisions.leaves import named_project
from coordinator.specification import InputTopic, OutputTopic
from engine.analysis.identity import Named
from engine.analysis.project_match import match_projects, nodes_with_state
from engine.analysis.release import ImplementationVersions, implementation_versions_of
from engine.model.circuit import Circuit
from stepwell.lowering.driver import lower_with_errors
from stepwell.planning.pipeline import source_table
from stepwell.planning.plans import ResolvedProject

LARGEST = {"tpch": "lineitem", "tpcds": "store_sales", "nexmark": "bid"}
LEFT_OUT_MAX = 22
"""Views that are left out one by one. Each needs a circuit of all others, which takes seconds for TPC-DS."""


@dataclass(frozen=True)
class Kept:
    """`nodes`, `with_state`: how many of the previous project's nodes are kept, and how many it has."""

    edit: str
    nodes: tuple[int, int]
    with_state: tuple[int, int]

    def line(self) -> str:
        return f"{self.edit:60} nodes {self.nodes[0]:5} of {self.nodes[1]:5}   with state {self.with_state[0]:5} of {self.with_state[1]:5}"


def kept_of(suite: Suite, spark: SparkSession) -> Iterator[Kept]:
    with resolved(suite, spark) as (project, _):
        every = _named(project)
        for view in project.views[:LEFT_OUT_MAX]:
            fewer = _named(replace(project, views=tuple(each for each in project.views if each != view)))
            yield _compared(f"{suite.name}: {view.name} is added", fewer, every)
        fewer = _named(replace(project, views=project.views[1:]))
        yield _compared(f"{suite.name}: {project.views[0].name} is removed", every, fewer, of=fewer)
    table = LARGEST[suite.name]
    wider = re.sub(rf"(TABLE {table}\s*\()", r"\1 added_column STRING, ", suite.tables, count=1)
    assert wider != suite.tables, f"no table {table}"
    with resolved(replace(suite, tables=wider), spark) as (project, _):
        yield _compared(f"{suite.name}: a column at the front of {table}", every, _named(project))


def _compared(edit: str, previous: Named, now: Named, of: Named | None = None) -> Kept:
    """`of`: the project that has what could be kept, if that is not the previous one."""
    found = match_projects(previous, now)
    kept = set(found.kept.values())
    with_state = set(nodes_with_state(previous.circuit))
    whole = previous if of is None else of
    return Kept(
        edit,
        (len(kept), len(whole.circuit.nodes)),
        (len(kept & with_state), len(nodes_with_state(whole.circuit))),
    )


@dataclass(frozen=True)
class Edited:
    """A project as `named_project` asks for it, of this release."""

    circuit: Circuit
    inputs: tuple[InputTopic, ...]
    outputs: tuple[OutputTopic, ...] = ()

    @property
    def made_with(self) -> ImplementationVersions:
        return implementation_versions_of(self.circuit)


def _named(project: ResolvedProject) -> Named:
    lowered = lower_with_errors(project)
    assert not lowered.errors, lowered.errors[:3]
    inputs = tuple(InputTopic(source_table(source), "earliest", "fail", None) for source in project.sources)
    return named_project(Edited(lowered.circuit, inputs))


def table(found: Sequence[Kept]) -> str:
    return "\n".join(kept.line() for kept in found)
