"""Constructs of Spark that have no rule yet: what each is called in a query, and a workaround if there is one.

When a construct gets a rule, its line in `CONSTRUCTS` is deleted and a line is added to `RULES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.errors import UnsupportedPlan
from stepwell.lowering.trees import expression_id

_WINDOWS = "window functions (OVER) are not supported yet"
_TOP_OF_GROUP = (
    "For the rows with the greatest or least value of a group use max or min with GROUP BY, and join back. That is "
    "rank() = 1: rows that tie all stay. For row_number() = 1 the value must be unique in its group"
)
_LIMIT_PER_ROW = "LIMIT or ORDER BY in a subquery that refers to the query around it (LATERAL) is not supported yet"
_LIMIT_PER_ROW_REMEDY = "For the row with the least or greatest value use min or max in the subquery, and join back to get the other columns"
_OF_PARTITION = (
    "For an aggregate of the whole partition use GROUP BY in a subquery and join it back, by <=> if the key can be NULL"
)
_ELSEWHERE = "Compute this part outside and read the result from a topic"

CONSTRUCTS: Mapping[str, tuple[str, str]] = {
    "Window": (_WINDOWS, _TOP_OF_GROUP),
    "Tail": ("tail() is not supported yet", "Leave it out and take the last rows where you read the view"),
    "Sample": ("TABLESAMPLE picks rows at random; a replay would pick others", "Filter by a hash of a key instead"),
    "MapPartitions": ("Python or Scala functions over rows are not supported yet", _ELSEWHERE),
    "MapElements": ("Python or Scala functions over rows are not supported yet", _ELSEWHERE),
    "SerializeFromObject": ("Python or Scala functions over rows are not supported yet", _ELSEWHERE),
    "DeserializeToObject": ("Python or Scala functions over rows are not supported yet", _ELSEWHERE),
    "MapInPandas": ("mapInPandas is not supported yet", _ELSEWHERE),
    "MapInArrow": ("mapInArrow is not supported yet", _ELSEWHERE),
    "FlatMapGroupsInPandas": ("applyInPandas is not supported yet", _ELSEWHERE),
    "FlatMapGroupsWithState": ("flatMapGroupsWithState is not supported yet", _ELSEWHERE),
    "FlatMapGroupsInPandasWithState": ("applyInPandasWithState is not supported yet", _ELSEWHERE),
    "TransformWithState": ("transformWithState is not supported yet", _ELSEWHERE),
    "ArrowEvalPython": (
        "Python functions (UDFs) are not supported yet",
        "Use Spark's own functions",
    ),
    "BatchEvalPython": (
        "Python functions (UDFs) are not supported yet",
        "Use Spark's own functions",
    ),
    "ScriptTransformation": ("TRANSFORM with a script is not supported yet", _ELSEWHERE),
    "WithCTE": ("a CTE that is not inlined is not supported yet", "Define it as a temporary view"),
    "UnionLoop": ("recursive queries are not supported yet", _ELSEWHERE),
    "AsOfJoin": ("AS OF joins are not supported yet", _ELSEWHERE),
    "LogicalRelation": (
        "the view reads files or a table that Stepwell does not keep up to date",
        "Declare it as a streaming table over a topic (USING kafka, 'subscribe')",
    ),
}


def refuse_generate(node: TreeNode) -> NoReturn:
    raise UnsupportedPlan(
        node.kind,
        "several rows made of one (explode, LATERAL VIEW) are not supported yet",
        "Write exploded rows to the topic as messages of their own",
    )


def lower(context: Lowering, node: TreeNode) -> NoReturn:
    text, remedy = CONSTRUCTS[node.kind]
    if node.kind == "Window" and _made_by_spark(context, node):
        text, remedy = _LIMIT_PER_ROW, _LIMIT_PER_ROW_REMEDY
    elif node.kind == "Window" and not node["orderSpec"]:
        remedy = _OF_PARTITION
    raise UnsupportedPlan(node.kind, text, remedy)


def _made_by_spark(context: Lowering, window: TreeNode) -> bool:
    """Whether Spark added this window itself. It does so to number the rows of a correlated subquery with LIMIT."""
    return all(context.analysed.made_by_spark(expression_id(item)) for item in window["windowExpressions"])
