"""The rules. There is one module per plan node, or per family of similar ones, and one line per plan node in this table.
docs/extending.md says how to add a rule.
"""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.lowering.context import Rule
from stepwell.lowering.rules import (
    constant,
    deduplicate,
    event_time,
    existence,
    expand,
    filter,
    generate,
    join,
    leaf,
    limit,
    not_yet,
    project,
    python_aggregates,
    python_functions,
    recursion,
    transparent,
    union,
    window,
    window_limit,
)
from stepwell.lowering.subqueries import EXISTENCE
from stepwell.planning.leaves import TABLE_KINDS

RULES: Mapping[str, Rule] = {
    "Project": project.lower,
    "Filter": filter.lower,
    "Union": union.lower,
    "Window": window.lower,
    "ArrowEvalPython": python_functions.lower,
    "BatchEvalPython": python_functions.lower,
    "Aggregate": python_aggregates.lower,
    "Expand": expand.lower,
    EXISTENCE: existence.lower,
    "Generate": generate.lower,
    "Distinct": deduplicate.lower_distinct,
    "Deduplicate": deduplicate.lower,
    "DeduplicateWithinWatermark": deduplicate.lower_within_watermark,
    "Join": join.lower,
    "LogicalRDD": leaf.lower,
    "LocalRelation": leaf.lower,
    **dict.fromkeys(TABLE_KINDS, leaf.lower),
    "OneRowRelation": constant.lower_one_row,
    "Range": constant.lower_range,
    "GlobalLimit": limit.lower,
    "LocalLimit": limit.lower_local,
    "Offset": limit.lower,
    "Sort": transparent.lower_sort,
    "EventTimeWatermark": event_time.lower,
    "SubqueryAlias": transparent.lower,
    "View": transparent.lower,
    "ResolvedHint": transparent.lower,
    "Repartition": transparent.lower,
    "RepartitionByExpression": transparent.lower,
    "RebalancePartitions": transparent.lower,
    "CollectMetrics": transparent.lower_observed,
    "WindowGroupLimit": window_limit.lower,
    "UnionLoop": recursion.lower,
    "UnionLoopRef": recursion.lower_reference,
    **dict.fromkeys(not_yet.CONSTRUCTS, not_yet.lower),
}
