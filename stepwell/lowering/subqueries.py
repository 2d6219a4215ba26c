"""Subqueries that Catalyst left in an expression. Catalyst has turned most subqueries into joins. The others return a single value."""

from __future__ import annotations

from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.errors import UnsupportedPlan

_SUBQUERIES = frozenset(
    {"ScalarSubquery", "Exists", "ListQuery", "InSubquery", "LateralSubquery", "DynamicPruningSubquery"}
)

_VALUE = "a subquery that stands for a value, and does not refer to the query around it, is not supported yet"
_VALUE_REMEDY = "Join it: FROM t CROSS JOIN (SELECT max(x) AS value FROM ...); it always has exactly one row"
_MAYBE_VALUE_REMEDY = (
    "Join it: FROM t CROSS JOIN (SELECT ...) AS s. Where it has no row Spark gives NULL, and the CROSS JOIN gives no rows; so if it can be "
    "empty, make it a view v and add UNION ALL SELECT ..., NULL FROM t WHERE 1 NOT IN (SELECT 1 FROM v)"
)
_EXISTS = "EXISTS with a subquery that does not refer to the query around it is not supported yet"
_EXISTS_REMEDY = "Write 1 IN (SELECT 1 FROM ...) for EXISTS, and 1 NOT IN (SELECT 1 FROM ...) for NOT EXISTS"


def refuse_subqueries(tree: TreeNode) -> None:
    """Raises UnsupportedPlan for the first subquery in `tree`."""
    for node in tree.walk():
        if node.kind not in _SUBQUERIES:
            continue
        plan = node.get("plan")
        if node.kind == "Exists" or (plan is not None and _asks_for_existence(plan)):
            raise UnsupportedPlan(node.kind, _EXISTS, _EXISTS_REMEDY)
        always = plan is not None and _always_one_row(plan)
        raise UnsupportedPlan(node.kind, _VALUE, _VALUE_REMEDY if always else _MAYBE_VALUE_REMEDY)


def _asks_for_existence(plan: TreeNode) -> bool:
    """Whether Spark made this plan of an EXISTS: it returns a constant for the first row, if there is one."""
    if plan.kind != "GlobalLimit":
        return False
    below = plan.children[0].children[0]
    return below.kind == "Project" and all(
        item.kind == "Alias" and item.children[0].kind == "Literal" for item in below["projectList"]
    )


def _always_one_row(plan: TreeNode) -> bool:
    """Whether the plan is an aggregate without groups, or projections of one."""
    while plan.kind == "Project":
        plan = plan.children[0]
    return plan.kind == "OneRowRelation" or (plan.kind == "Aggregate" and not plan["groupingExpressions"])
