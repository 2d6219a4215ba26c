"""The analysed plan of a query. It distinguishes what the user wrote from what Spark's optimiser made of it.

The optimiser rewrites some constructs into others that a user could have written too. dropDuplicates becomes an aggregate of `first`.
Several count(DISTINCT) become an Expand with a column `gid`. A LIMIT in a LATERAL subquery becomes a window function. The names in such a
rewrite prove nothing, because a user may choose the same names. The expression id is the proof: Spark gives every new column an id that was
never used before. So the optimiser made a column if its id does not occur in the analysed plan.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stepwell.catalyst.tree import TreeNode, parse, walk_all


@dataclass(frozen=True)
class Analysed:
    """`ids` has the expression ids in the plan. `kinds` has the simple class names of its nodes and expressions."""

    ids: frozenset[int]
    kinds: frozenset[str]

    @classmethod
    def read(cls, text: str) -> Analysed:
        """Reads `text`, which is Spark's `toJSON` of the analysed plan."""
        return cls(
            ids=frozenset(_ids(json.loads(text))),
            kinds=frozenset(node.kind for node in walk_all(parse(text))),
        )

    def made_by_spark(self, identifier: int) -> bool:
        """Whether the column with this expression id was made by the optimiser."""
        return identifier not in self.ids


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
