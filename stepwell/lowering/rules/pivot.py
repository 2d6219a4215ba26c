"""PIVOT: Spark aggregates by the pivot column too, and then makes an array of each group's results with `pivotfirst`.

    Project [g, array[0] AS x, array[1] AS y]
    Aggregate [g], [g, pivotfirst(p, value, 'x', 'y') AS array]
    Aggregate [g, p], [g, p, sum(v) AS value]

The lower Aggregate has one row for each g and p. So element i is the maximum of one value: `max(value) FILTER (WHERE p <=> 'x')`. No query can
call `pivotfirst`. Where its type of value does not fit, Spark writes one aggregate over `if(p <=> 'x', v, NULL)` for each column, which needs
no rule.
"""

from __future__ import annotations

import math

from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.trees import call, literal, transform


def rewrite_pivot(tree: TreeNode) -> TreeNode:
    """`tree`, in which an array of maxima is in the place of each call of `pivotfirst`."""
    return transform(tree, _maxima)


def _maxima(tree: TreeNode) -> TreeNode | None:
    if tree.kind != "AggregateExpression" or tree.children[0].kind != "PivotFirst":
        return None
    first = tree.children[0]
    column, value = first.children
    greatest = call("Max", child=value)
    elements = tuple(
        TreeNode(
            "AggregateExpression",
            {"isDistinct": False, "aggregateFunction": greatest},
            (greatest, _is(column, wanted)),
        )
        for wanted in first["pivotColumnValues"]
    )
    return TreeNode("CreateArray", {"children": list(elements)}, elements)


def _is(column: TreeNode, wanted: TreeNode) -> TreeNode:
    """Whether a row has this pivoted value. Spark looks it up in a table in which NaN, as in Scala, does not equal itself."""
    value = wanted.get("value")
    if value is not None and wanted["dataType"] in ("float", "double") and math.isnan(float(value)):
        return literal("false", "boolean")
    return call("EqualNullSafe", left=column, right=wanted)
