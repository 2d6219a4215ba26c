"""The functions of the clock in Catalyst's trees."""

from __future__ import annotations

from stepwell.catalyst.tree import TreeNode

CLOCK = "current_timestamp()"
"""The name of the leaf that stands for the clock (planning/clock.py). No table has such a name, and users who see it know it."""

CLOCK_CLASSES = {
    "CurrentTimestamp": "current_timestamp()",
    "Now": "now()",
    "CurrentDate": "current_date()",
    "LocalTimestamp": "localtimestamp()",
}
"""Catalyst's expressions that read the clock, and their names in queries."""


def is_clock(plan: TreeNode) -> bool:
    """Whether a plan has the one row of the clock, and its one column."""
    while plan.kind == "Project" and len(plan["projectList"]) == 1:
        plan = plan.children[0]
    return plan.kind == "LogicalRDD" and plan.get("rdd") == CLOCK
