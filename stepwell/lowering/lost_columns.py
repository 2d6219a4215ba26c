"""Columns that a plan of Spark's reads although nothing below puts them out.

Some rules of Spark's optimiser leave out a column that a node above still reads, for example below a LATERAL subquery over `dropDuplicates`.
Spark cannot run such a plan either (INTERNAL_ERROR_ATTRIBUTE_NOT_FOUND), so it is a refusal of the view and not an error of the lowering.
"""

from __future__ import annotations

from stepwell.catalyst.tree import TreeNode, trees_in
from stepwell.lowering.errors import UnsupportedPlan
from stepwell.lowering.trees import expression_id

_LISTS = {"Project": "projectList", "Aggregate": "aggregateExpressions"}
"""The fields with all that these plan nodes put out. Nothing else of what is below them is seen above."""

_DEFINE_NOTHING = frozenset({"Filter", "Join", "Sort"})
"""Plan nodes all of whose columns come from below, apart from what an existence join adds. Others, such as Generate, may define a column."""

_REMEDY = (
    "Make the view that it reads a materialized view, whose plan Spark makes apart, or write the query in another way"
)


def refuse_lost_column(plan: TreeNode, identifier: int) -> None:
    """Raises UnsupportedPlan if a node of `plan` reads the column with this id, which none of its children puts out."""
    for node in plan.walk():
        if node.children and (node.kind in _LISTS or node.kind in _DEFINE_NOTHING):
            read = [tree for tree in _occurrences(node, identifier) if tree.kind == "AttributeReference"]
            if read and not any(_may_put_out(child, identifier) for child in node.children):
                text = f"Spark's optimiser leaves out the column {read[0]['name']}, which its plan reads, so Spark itself cannot run this query"
                raise UnsupportedPlan(node.kind, text, _REMEDY)


def _may_put_out(node: TreeNode, identifier: int) -> bool:
    if node.kind in _LISTS:
        return any(_has_id(tree, identifier) for tree in trees_in(node[_LISTS[node.kind]]))
    if any(_may_put_out(child, identifier) for child in node.children):
        return True
    return node.kind not in _DEFINE_NOTHING and bool(_occurrences(node, identifier))


def _occurrences(node: TreeNode, identifier: int) -> list[TreeNode]:
    """The attributes and aliases with this id in the expressions of a plan node itself."""
    below = {id(child) for child in node.children}
    own = (tree for tree in trees_in(node.fields.values()) if id(tree) not in below)
    return [each for tree in own for each in tree.walk() if _has_id(each, identifier)]


def _has_id(tree: TreeNode, identifier: int) -> bool:
    return "exprId" in tree.fields and expression_id(tree) == identifier
