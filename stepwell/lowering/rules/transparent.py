"""Nodes that do not change the rows: order, partitioning, hints and names. A Z-set has none of these.

An order has one use in a view: it decides which rows a LIMIT keeps. So a Sort below a LIMIT may not be left out. The
rule of a LIMIT (`rules/limit.py`) finds the Sort, uses its order, and lowers the child of the Sort. If a rule lowers the
Sort instead, an error is raised, because otherwise the view would have other rows.
"""

from __future__ import annotations

from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.relation import Relation

LIMITS = frozenset({"GlobalLimit", "Offset", "Tail"})
"""The nodes whose rows depend on the order of the rows below them. (`rules/limit.py` says why a LocalLimit is none of them.)"""

FORGET_ORDER = frozenset(
    {"Sort", "Aggregate", "Join", "Union", "Distinct", "Deduplicate", "DeduplicateWithinWatermark", "Window"}
)
"""The nodes above which an order from below has no meaning in SQL. Any other node may keep it, and is treated as if it did."""


def lower(context: Lowering, node: TreeNode) -> Relation:
    return context.lower(node.children[0])


def lower_sort(context: Lowering, node: TreeNode) -> Relation:
    """Leaves out the order. Raises AssertionError below a LIMIT, whose rule has then lowered the Sort without using its order."""
    reader = next((above.kind for above in context.above if above.kind in LIMITS | FORGET_ORDER), None)
    if reader in LIMITS:
        raise AssertionError(
            f"the rule of {reader} lowers the Sort below it, which leaves the order out: take the order, and lower the Sort's child"
        )
    context.note("ORDER BY without LIMIT has no meaning for a table and is left out; order rows where you read them")
    return context.lower(node.children[0])
