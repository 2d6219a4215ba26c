"""Subqueries that Catalyst left in an expression. Catalyst has turned most subqueries into joins. The others stand for a single value.

Such a value is the same for all rows of a step. Before anything is lowered, `take_out` puts a reference in its place, as to a column. So no
rule has to look into an expression for plans. A Filter or Project may read values wherever it reads columns: `Lowering.materialise` then makes a
ScalarMap instead of a Map. A ScalarValue makes the value of the subquery's rows.

Spark merges subqueries over the same rows into one that has a struct, and gives each place a copy of it. Equal copies become one node, and the
fields of the struct become columns of its row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import pyarrow as pa

from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.errors import UnsupportedPlan
from stepwell.lowering.trees import attribute, rebuild, transform, unalias

_SUBQUERIES = frozenset(
    {"ScalarSubquery", "Exists", "ListQuery", "InSubquery", "LateralSubquery", "DynamicPruningSubquery"}
)
EXISTENCE = "Existence"
"""The kind of a plan node that is not Spark's: its one row has a constant if there is a row below it, otherwise null."""
_FIRST_REFERENCE = -(1 << 40)
"""The ids of values go down from here. Neither Spark's ids nor those of `Lowering.fresh` come near them."""
_REFUSED = "a subquery in this place is not supported"
_REMEDY = (
    "Aggregate in a subquery with GROUP BY and JOIN it; rows without a match have no partner there, so add them by UNION ALL with a "
    "LEFT ANTI JOIN"
)


@dataclass(frozen=True, eq=False)
class Value:
    """The value in one column of the only row of `plan`."""

    plan: TreeNode
    column: int


@dataclass(frozen=True)
class TakenOut:
    """A plan in which every subquery that stands for a value is a reference to a column, and these values by the column's id."""

    plan: TreeNode
    values: Mapping[int, Value]


def take_out(plan: TreeNode) -> TakenOut:
    """Subqueries that refer to the query around them stay. A value's plan may read other values.

    Copies of a subquery with equal plans get the same reference, so that expressions that read them are equal too. A field of a subquery's
    struct is a value of its own, in a column of its own: Spark merges subqueries into structs, of which two fields may have one name."""
    taking = _Taking()
    return TakenOut(taking.strip_values(plan), taking.values)


class _Taking:
    def __init__(self) -> None:
        self.values: dict[int, Value] = {}
        self._known: dict[tuple[str, int], int] = {}
        self._plans: dict[str, TreeNode] = {}
        self._ids = count(_FIRST_REFERENCE, -1)

    def strip_values(self, node: TreeNode) -> TreeNode:
        """The plan without values below this node."""
        return rebuild(node, self.strip_values, lambda _, tree: transform(tree, self._reference))

    def _reference(self, tree: TreeNode) -> TreeNode | None:
        if tree.kind == "GetStructField" and _stands_for_a_value(tree.children[0]):
            plan = tree.children[0]["plan"]
            if fields := _fields(plan):
                return self._refer(plan, fields, tree["ordinal"])
        return self._refer(tree["plan"], (), 0) if _stands_for_a_value(tree) else None

    def _refer(self, plan: TreeNode, fields: Sequence[TreeNode], column: int) -> TreeNode:
        """A reference to the value in this column. `fields`: the columns, instead of the one struct that the plan has."""
        text = ("fields " if fields else "") + _text(plan)
        if text not in self._plans:
            items = [
                TreeNode("Alias", {"child": tree, "name": "", "exprId": {"id": next(self._ids)}}, (tree,))
                for tree in fields
            ]
            split = TreeNode(plan.kind, {**plan.fields, "projectList": items}, plan.children) if items else plan
            self._plans[text] = self.strip_values(_asked_for_existence(split) or split)
        key = text, column
        if key not in self._known:
            self._known[key] = next(self._ids)
            self.values[self._known[key]] = Value(self._plans[text], column)
        return attribute(self._known[key], "", None)


def _stands_for_a_value(tree: TreeNode) -> bool:
    return tree.kind == "ScalarSubquery" and not tree.get("outerAttrs")


def _fields(plan: TreeNode) -> tuple[TreeNode, ...]:
    """The fields of the struct that is all that the plan has; none if it has something else."""
    if plan.kind != "Project" or len(plan["projectList"]) != 1:
        return ()
    struct = unalias(plan["projectList"][0])
    return struct.children[1::2] if struct.kind == "CreateNamedStruct" else ()


def _text(tree: TreeNode) -> str:
    """A plan as text: the same for copies of it, which have equal ids."""
    children = {id(child) for child in tree.children}

    def field(value: Any) -> str:
        if isinstance(value, TreeNode):
            return "child" if id(value) in children else _text(value)
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(map(field, value))}]"
        return repr(value.to_pydict() if isinstance(value, pa.Table) else value)

    fields = ", ".join(f"{name}={field(value)}" for name, value in sorted(tree.fields.items()))
    return f"{tree.kind}({fields}; {', '.join(map(_text, tree.children))})"


def refuse_subqueries(tree: TreeNode) -> None:
    """Raises UnsupportedPlan for the first subquery in `tree`."""
    for node in tree.walk():
        if node.kind in _SUBQUERIES:
            raise UnsupportedPlan(node.kind, _REFUSED, _REMEDY)


def _asked_for_existence(plan: TreeNode) -> TreeNode | None:
    """If Spark made the plan of an EXISTS that does not refer to the query around it, which is a constant for the first row: an Existence of
    the rows and this constant, under its id."""
    if plan.kind != "GlobalLimit" or plan.children[0].kind != "LocalLimit" or _limit(plan) != 1:
        return None
    below = plan.children[0].children[0]
    if below.kind != "Project" or len(below["projectList"]) != 1:
        return None
    (item,) = below["projectList"]
    if item.kind != "Alias" or item.children[0].kind != "Literal":
        return None
    return TreeNode(EXISTENCE, {"item": item}, below.children)


def _limit(node: TreeNode) -> int | None:
    limit = node["limitExpr"]
    return int(limit["value"]) if limit.kind == "Literal" else None
