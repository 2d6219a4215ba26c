"""The analysed plan of a query. It distinguishes what the user wrote from what Spark's optimiser made of it.

The optimiser rewrites some constructs into others that a user could have written too. dropDuplicates becomes an aggregate of `first`.
Several count(DISTINCT) become an Expand with a column `gid`. A LIMIT in a LATERAL subquery becomes a window function. The names in such a
rewrite prove nothing, because a user may choose the same names. The expression id is the proof: Spark gives every new column an id that was
never used before. So the optimiser made a column if its id does not occur in the analysed plan.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from stepwell.catalyst.tree import TreeNode, tree_of, walk_all

CLASS = re.compile(r'"class":"[\w.$]*?(\w+)\$?"')
_VIEW = "org.apache.spark.sql.catalyst.plans.logical.View"


@dataclass(frozen=True)
class Analysed:
    """What the analysed plan of a query says of what the user wrote. `ids` has the expression ids in the plan. `kinds` has the simple class
    names of its nodes and expressions, and `classes` also those within fields that no tree shows. `views`: the names of the views that Spark has
    found for names in the query, and in turn in theirs; with a database if they are not the session's own."""

    ids: frozenset[int]
    kinds: frozenset[str]
    classes: frozenset[str] = frozenset()
    views: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: str) -> Analysed:
        """Reads `text`, which is Spark's `toJSON` of the analysed plan."""
        ids: set[int] = set()
        views: dict[str, None] = {}

        def note(plain: dict[str, Any]) -> dict[str, Any]:
            """Notes the ids and the names of views of every object in the JSON, also in fields that are not trees, such as the type of an
            existence join."""
            if isinstance(plain.get("exprId"), dict):
                ids.add(plain["exprId"]["id"])
            if plain.get("class") == _VIEW:
                views[_view_name(plain["desc"]["identifier"])] = None
            return plain

        flat = json.loads(text, object_hook=note)
        return cls(
            ids=frozenset(ids),
            kinds=frozenset(node.kind for node in walk_all(tree_of(flat))),
            classes=frozenset(CLASS.findall(text)),
            views=tuple(views),
        )

    def made_by_spark(self, identifier: int) -> bool:
        """Whether the column with this expression id was made by the optimiser."""
        return identifier not in self.ids


def join_type(join: TreeNode) -> str:
    """The type of a join: Inner, LeftOuter, LeftSemi, ExistenceJoin, ..."""
    kind = join["joinType"]
    name: str = kind.get("object") or kind["product-class"]
    return name.rsplit(".", 1)[-1].rstrip("$")


def _view_name(identifier: dict[str, Any]) -> str:
    """Returns the name of a view, with catalog and database if it has them."""
    return ".".join(str(identifier[part]) for part in ("catalog", "database", "table") if part in identifier)
