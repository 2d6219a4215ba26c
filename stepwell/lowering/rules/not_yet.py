"""Constructs of Spark that have no rule yet: what each is called in a query, and a workaround if there is one.

When a construct gets a rule, its line in `CONSTRUCTS` is deleted and a line is added to `RULES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.errors import UnsupportedPlan

_ELSEWHERE = "Compute this part outside and read the result from a topic"

CONSTRUCTS: Mapping[str, tuple[str, str]] = {
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
    "ScriptTransformation": ("TRANSFORM with a script is not supported yet", _ELSEWHERE),
    "WithCTE": ("a CTE that is not inlined is not supported yet", "Define it as a temporary view"),
    "AttachDistributedSequence": (
        "zipWithIndex() numbers rows as they come, and a replay would number others",
        "Use row_number() OVER (ORDER BY ...)",
    ),
    "AsOfJoin": (
        "AS OF joins are not supported yet",
        "Write LEFT JOIN LATERAL (SELECT ... FROM q WHERE q.k = t.k AND q.ts <= t.ts ORDER BY q.ts DESC LIMIT 1)",
    ),
}


def lower(context: Lowering, node: TreeNode) -> NoReturn:
    text, remedy = CONSTRUCTS[node.kind]
    raise UnsupportedPlan(node.kind, text, remedy)
