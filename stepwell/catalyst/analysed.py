"""The analysed plan of a query. It distinguishes what the user wrote from what Spark's optimiser made of it.

The optimiser rewrites some constructs into others that a user could have written too. dropDuplicates becomes an aggregate of `first`.
Several count(DISTINCT) become an Expand with a column `gid`. A correlated scalar subquery becomes a left outer join. A LIMIT in a LATERAL
subquery becomes a window function. The names in such a rewrite prove nothing, because a user may choose the same names. The expression id
is the proof: Spark gives every new column an id that was never used before. So the optimiser made a column if its id does not occur in the
analysed plan.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stepwell.catalyst.tree import TreeNode, parse, walk_all

OUTER_JOINS = frozenset({"LeftOuter", "RightOuter", "FullOuter"})


@dataclass(frozen=True)
class Analysed:
    """`ids` has the expression ids in the plan. `kinds` has the simple class names of its nodes and expressions. `correlated` has the
    expression ids inside each scalar subquery that refers to the query around it. `outer_joins` is the number of outer joins that the user
    wrote."""

    ids: frozenset[int]
    kinds: frozenset[str]
    correlated: tuple[frozenset[int], ...]
    outer_joins: int

    @classmethod
    def read(cls, text: str) -> Analysed:
        """Reads `text`, which is Spark's `toJSON` of the analysed plan."""
        nodes = list(walk_all(parse(text)))
        correlated = [node for node in nodes if node.kind == "ScalarSubquery" and node.get("outerAttrs")]
        return cls(
            ids=frozenset(_ids(json.loads(text))),
            kinds=frozenset(node.kind for node in nodes),
            correlated=tuple(frozenset(_ids_below(node["plan"])) for node in correlated),
            outer_joins=sum(node.kind == "Join" and join_type(node) in OUTER_JOINS for node in nodes),
        )

    def made_by_spark(self, identifier: int) -> bool:
        """Whether the column with this expression id was made by the optimiser."""
        return identifier not in self.ids

    def joined_for_a_subquery(self, join: TreeNode) -> bool:
        """Whether an outer join of the optimised plan stands for a correlated scalar subquery. If the user also wrote outer joins, the join
        stands for a subquery if all rows of its right side come from inside that subquery and those of its left side do not."""
        if not self.correlated:
            return False
        if not self.outer_joins:
            return True
        left, right = (_leaf_ids(side) for side in join.children)
        return bool(right) and any(right <= inside and not left <= inside for inside in self.correlated)


def join_type(join: TreeNode) -> str:
    """The type of a join: Inner, LeftOuter, LeftSemi, ExistenceJoin, ..."""
    kind = join["joinType"]
    name: str = kind.get("object") or kind["product-class"]
    return name.rsplit(".", 1)[-1].rstrip("$")


def _ids(plain: Any) -> Iterator[int]:
    """Every `exprId` in the JSON, also in fields that are not trees, such as the type of an existence join."""
    if isinstance(plain, dict):
        if isinstance(plain.get("exprId"), dict):
            yield plain["exprId"]["id"]
        for value in plain.values():
            yield from _ids(value)
    elif isinstance(plain, list):
        for value in plain:
            yield from _ids(value)


def _ids_below(plan: TreeNode) -> Iterator[int]:
    for node in walk_all(plan):
        if node.kind in ("AttributeReference", "Alias"):
            yield node["exprId"]["id"]


def _leaf_ids(plan: TreeNode) -> frozenset[int]:
    """The ids of the columns that come from sources, views and rows written in the definition."""
    leaves = [node for node in plan.walk() if not node.children]
    return frozenset(column["exprId"]["id"] for leaf in leaves for column in leaf.get("output", ()))
