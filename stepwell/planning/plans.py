"""What planning gives: the optimised plan of each flow, and the project of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from stepwell.catalyst.analysed import Analysed
from stepwell.catalyst.clock import CLOCK
from stepwell.catalyst.event_time import POLICY, EventTimes, event_times
from stepwell.catalyst.read import read
from stepwell.catalyst.tree import TreeNode
from stepwell.errors import Location, UnsupportedError
from stepwell.planning.batch_tables import BatchTable, BatchTables, TableLeaves
from stepwell.planning.clock import CLOCK_IN_UNKNOWN_PLACE, has_clock, reads_clock, with_clock_as_subquery
from stepwell.planning.leaves import mark_leaves
from stepwell.planning.python_functions import mark_functions
from stepwell.project import refusals
from stepwell.project.elements import Kind
from stepwell.project.loading import Project
from stepwell.project.tables import (
    OutputSpec,
    SourceSpec,
)


@dataclass(frozen=True, kw_only=True)
class FlowPlan:
    """The resolved query of one flow.

    `tree` is the optimised plan. A LogicalRDD in it has the name of the source or view that it reads in its field
    `rdd`. A LocalRelation has its rows in its field `data`, a pyarrow.Table with columns c0, c1, ... (at least one).
    `leaves` has those names, one per LogicalRDD, in pre-order: a node, then the trees in its fields, then its children. That of the clock
    (clock.py) is not among them.
    `analysed` is what lowering asks of the plan before the optimiser. `is_made`: nobody wrote the query, because the definition says what it
    wants in another way; what lowering notes about queries then means nothing to its author. `event_times`: what the plan says of watermarks.

    Spark's texts of the plans are not in it. To make one takes about as long as to optimise the plan.
    """

    name: str
    tree: TreeNode
    leaves: tuple[str, ...]
    analysed: Analysed
    location: Location
    is_made: bool = False
    event_times: EventTimes = field(default_factory=EventTimes)


@dataclass(frozen=True)
class ResolvedView:
    """A materialized view, a streaming table with flows, or a sink. Its content is the sum (UNION ALL) of its flows,
    which all have the columns of `schema` in that order. `reads` has the sources and views that it reads."""

    name: str
    kind: Kind
    schema: StructType
    flows: tuple[FlowPlan, ...]
    reads: tuple[str, ...]
    output: OutputSpec | None
    key: tuple[str, ...]
    location: Location


@dataclass(frozen=True, kw_only=True)
class ResolvedProject:
    """A project whose queries are planned. `views` are in dependency order: a view comes after all views that it reads. `spark` is the session
    of the plans. `notes` are for `dry-run`, by the name of the output; those under the empty name are about none. `tables`: the batch tables
    among the sources, by handle."""

    project: Project
    sources: tuple[SourceSpec, ...]
    views: tuple[ResolvedView, ...]
    spark: SparkSession
    notes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    tables: Mapping[str, BatchTable] = field(default_factory=dict)


def flow_plan(
    name: str,
    analysed: Any,
    optimise: Callable[[], Any],
    spark: SparkSession,
    *,
    view: str,
    location: Location,
    tables: BatchTables | None = None,
    streaming: bool = True,
) -> FlowPlan:
    """The plan of one query. `analysed` is the JVM's analysed plan. `optimise` returns the optimised one, and is called only if nothing
    in `analysed` is refused. `tables` takes the batch tables that it reads; `streaming`: whether it may read them as streams. Raises
    UnsupportedError or ProjectErrors."""
    analysed_json = analysed.toJSON()
    refusals.check_analysed(analysed, analysed_json, view, location, streaming=streaming)
    read_here = TableLeaves() if tables is None else tables.in_plan(analysed, view, location, streaming=streaming)
    found = Analysed.read(analysed_json)
    plan = analysed
    if reads_clock(found.classes):
        plan = with_clock_as_subquery(analysed, spark)
        if has_clock(plan, spark):  # Spark would put a constant there
            raise UnsupportedError(*CLOCK_IN_UNKNOWN_PLACE, view=view, location=location)
        optimise = partial(spark._jsparkSession.sessionState().optimizer().execute, plan)
    optimised = read_here.optimised_plan(plan, optimise, spark)
    tree = read(optimised)
    refusals.check_sessions(analysed, analysed_json, optimised, tree, view=view, location=location)
    leaves = mark_leaves(tree, optimised, spark, read_here.handles, view=view, location=location)
    mark_functions(tree, view, location)
    times = event_times(optimised, tree, str(spark.conf.get(POLICY)))
    return FlowPlan(
        name=name,
        tree=tree,
        leaves=tuple(leaf for leaf in leaves if leaf != CLOCK),
        analysed=found,
        location=location,
        event_times=times,
    )
