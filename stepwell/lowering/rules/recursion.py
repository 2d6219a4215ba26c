"""UnionLoop and UnionLoopRef: WITH RECURSIVE.

    UnionLoop                                       Recursion
      anchor                                          the rows of level 0
      recursive part, which reads UnionLoopRef        the body, and what else it reads

The recursive part is written again with one more column, the level, which every plan node between the reference and the top passes on. It is
lowered like any other plan, over a Source that stands for the rows of a level. The circuit nodes that depend on this Source become the body. All
others that the body reads are inputs of the Recursion, so they are computed outside and once.

Spark allows the reference where the rows made are a sum over the rows read, and nowhere else: not in aggregates, windows or the optional side
of an outer join.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from base.text.type_names import sql_type
from engine.analysis.recursion_body import count_traces, foreign_nodes
from engine.model.circuit import Node, Recursion
from engine.model.rows import Source
from engine.operators.recursion import BODY_TRACES_MAX
from stepwell.catalyst.analysed import join_type
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import arrow_type
from stepwell.lowering.context import Lowering
from stepwell.lowering.errors import UnsupportedPlan
from stepwell.lowering.relation import PlanOutput, Relation, pass_on
from stepwell.lowering.trees import attribute, expression_id

LEVELS_MAX = 100
"""Spark's default of spark.sql.cteRecursionLevelLimit. Other values of the setting are refused; MAX RECURSION LEVEL says it in the query."""
ROWS_MAX = 1_000_000
"""Spark's default of spark.sql.cteRecursionRowLimit."""
LEVELS_AT_ALL_MAX = 10_000
"""The bound where Spark has none (MAX RECURSION LEVEL -1). Each level is one round of a step, which takes about a millisecond."""

LEVEL = "rows of a level"
_CARRIES = "carriesLevel"
"""The field of a recursive reference that has the level as its last column."""
_NOTE = "WITH RECURSIVE: all rows of the recursion, and all that its recursive part reads, meet on one worker"
_REMEDY = "Write the recursive part with joins, filters and projections over one reference to the recursive name"
_KEEP = frozenset(
    {
        "Filter",
        "SubqueryAlias",
        "View",
        "ResolvedHint",
        "Sort",
        "Repartition",
        "RepartitionByExpression",
        "RebalancePartitions",
    }
)
_LEFT_IS_READ = frozenset({"Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti", "ExistenceJoin"})
_RIGHT_IS_READ = frozenset({"Inner", "Cross", "RightOuter"})


def lower(context: Lowering, node: TreeNode) -> Relation:
    anchor_plan, recursive_plan = node.children
    identifiers = tuple(int(identifier["id"]) for identifier in node["outputAttrIds"])
    anchor = context.materialise(context.lower(anchor_plan))
    if _never(recursive_plan):
        return context.relation_over(anchor.node, identifiers)
    level = context.fresh()
    carried = _Carrier(context, node["id"], level).carry(recursive_plan)
    if carried is None:
        raise UnsupportedPlan(node.kind, "the recursive part does not read the recursive name", _REMEDY)
    made = context.lower(carried)
    last = PlanOutput(level, attribute(level, "", "long"))
    below = context.materialise(
        context.project(made, (*pass_on(output for output in made.outputs if output.id != level), last))
    )
    types = context.builder.types(anchor.node)
    if context.refusals:
        return context.relation_over(anchor.node, identifiers)
    if context.builder.types(below.node) != (*types, pa.int64()):
        theirs = ", ".join(map(sql_type, context.builder.types(below.node)[:-1]))
        raise UnsupportedPlan(
            node.kind,
            f"the recursive part has the types {theirs}, and the first part has {', '.join(map(sql_type, types))}",
            "Cast the columns to the same types",
        )
    context.note(_NOTE)
    source = context.builder.add(_level_rows(types))
    outside, body = _taken_apart(context.builder.nodes, source, below.node)
    _check(node, body)
    levels_max = node.get("maxDepth")
    if levels_max is None:
        levels_max = LEVELS_MAX
    elif levels_max == -1:
        levels_max = LEVELS_AT_ALL_MAX
    if levels_max > LEVELS_AT_ALL_MAX:
        raise UnsupportedPlan(
            node.kind,
            f"a recursion of up to {levels_max} levels is not supported",
            f"Write MAX RECURSION LEVEL {LEVELS_AT_ALL_MAX} at most",
        )
    return context.add(Recursion((anchor.node, *outside), types, body, levels_max, ROWS_MAX), identifiers)


def _never(recursive_plan: TreeNode) -> bool:
    """Whether Spark has found that the recursive part has no row, as under WHERE false."""
    return recursive_plan.kind == "LocalRelation" and not recursive_plan["data"].num_rows


def lower_reference(context: Lowering, node: TreeNode) -> Relation:
    if node.get("accumulated"):
        raise UnsupportedPlan(node.kind, "a recursive reference to the rows of all levels is not supported", _REMEDY)
    if not node.get(_CARRIES):  # of a recursion that was refused, below which more refusals are looked for
        columns, level = node["output"], context.fresh()
    else:
        *columns, last = node["output"]
        level = expression_id(last)
    types = tuple(arrow_type(column["dataType"]) for column in columns)
    return context.add(_level_rows(types), [*map(expression_id, columns), level])


def _level_rows(types: Sequence[pa.DataType]) -> Source:
    return Source((), (*types, pa.int64()), LEVEL, retracts=True)


def _check(node: TreeNode, body: Sequence[Node]) -> None:
    if foreign := foreign_nodes(body):
        raise UnsupportedPlan(
            node.kind, f"{' and '.join(foreign)} over the rows of a recursion, within it, is not supported", _REMEDY
        )
    if count_traces(body) > BODY_TRACES_MAX:
        raise UnsupportedPlan(
            node.kind,
            "the recursive part joins the recursive name with more than three tables",
            "Join those tables with each other in a view before, and read that view in the recursive part",
        )


def _taken_apart(nodes: Sequence[Node], source: int, root: int) -> tuple[tuple[int, ...], tuple[Node, ...]]:
    """(the nodes outside that the body reads, the body)."""
    depends = {source}
    for index in range(source + 1, root + 1):
        if not depends.isdisjoint(nodes[index].inputs):
            depends.add(index)
    inside, outside, waiting = {source}, set[int](), [root]
    while waiting:
        index = waiting.pop()
        if index not in depends:
            outside.add(index)
        elif index not in inside:
            inside.add(index)
            waiting += nodes[index].inputs
    others = sorted(outside)
    parts = sorted(inside - {source})
    place = {index: at for at, index in enumerate((source, *others, *parts))}
    stand_ins = (Source((), nodes[index].types, f"input {at}", retracts=True) for at, index in enumerate(others, 1))
    body = (replace(nodes[index], inputs=tuple(place[i] for i in nodes[index].inputs)) for index in parts)
    return tuple(others), (nodes[source], *stand_ins, *body)


class _Carrier:
    """Writes a plan again so that it passes the level on."""

    def __init__(self, context: Lowering, loop: int, level: int) -> None:
        self._context, self._loop = context, loop
        self._level = attribute(level, "level", "long", nullable=False)

    def carry(self, node: TreeNode) -> TreeNode | None:
        """The plan with the level among its columns; None if it does not read the recursive name."""
        if node.kind == "UnionLoopRef" and node["loopId"] == self._loop:
            return _renew(node, node.children, **{"output": [*node["output"], self._level], _CARRIES: True})
        children = [self.carry(child) for child in node.children]
        if not any(children):
            return None
        special: dict[str, Callable[[TreeNode, Sequence[TreeNode | None]], TreeNode]] = {
            "Project": self._project, "Aggregate": self._aggregate, "Generate": self._generate, "Join": self._join, "Union": self._union,
        }  # fmt: skip
        if node.kind in special:
            return special[node.kind](node, children)
        if node.kind not in _KEEP:
            what = "a function in Python" if node.kind.endswith("EvalPython") else node.kind
            raise UnsupportedPlan(node.kind, f"{what} over the recursive name is not supported", _REMEDY)
        return _renew(node, _either(children, node))

    def _project(self, node: TreeNode, children: Sequence[TreeNode | None]) -> TreeNode:
        return _renew(node, _either(children, node), projectList=[*node["projectList"], self._level])

    def _aggregate(self, node: TreeNode, children: Sequence[TreeNode | None]) -> TreeNode:
        """DISTINCT, which is within a level. Spark refuses any other aggregate."""
        both = {name: [*node[name], self._level] for name in ("groupingExpressions", "aggregateExpressions")}
        return _renew(node, _either(children, node), **both)

    def _generate(self, node: TreeNode, children: Sequence[TreeNode | None]) -> TreeNode:
        """Positions of columns that are left out count the level too, which is among the columns of a join."""
        (child,) = _either(children, node)
        outputs = self._context.lower(child).outputs
        at = next(place for place, output in enumerate(outputs) if output.id == expression_id(self._level))
        left_out = [place + (place >= at) for place in node["unrequiredChildIndex"]]
        return _renew(node, [child], unrequiredChildIndex=left_out)

    def _join(self, node: TreeNode, children: Sequence[TreeNode | None]) -> TreeNode:
        left, right = children
        kind = join_type(node)
        if left is not None and right is not None:
            raise UnsupportedPlan(
                node.kind, "the recursive name on both sides of a JOIN, EXCEPT or INTERSECT is not supported", _REMEDY
            )
        if kind not in (_LEFT_IS_READ if left is not None else _RIGHT_IS_READ):
            raise UnsupportedPlan(
                node.kind,
                f"the recursive name on this side of a {kind} join (of IN or EXISTS, for example) is not supported",
                "Write it as an inner join with the recursive name",
            )
        return _renew(node, _either(children, node))

    def _union(self, node: TreeNode, children: Sequence[TreeNode | None]) -> TreeNode:
        if not all(children):
            raise UnsupportedPlan(
                node.kind,
                "a UNION in the recursive part has a query that does not read the recursive name, so the recursion would never end",
                "Put this query into the first part of the recursion",
            )
        return _renew(node, _either(children, node))


def _either(children: Sequence[TreeNode | None], node: TreeNode) -> list[TreeNode]:
    return [old if new is None else new for new, old in zip(children, node.children, strict=True)]


def _renew(node: TreeNode, children: Sequence[TreeNode], **fields: Any) -> TreeNode:
    renewed = {id(old): new for old, new in zip(node.children, children, strict=True)}

    def field(value: Any) -> Any:
        if isinstance(value, TreeNode):
            return renewed.get(id(value), value)
        return [field(item) for item in value] if isinstance(value, list) else value

    return TreeNode(
        node.kind, {**{name: field(value) for name, value in node.fields.items()}, **fields}, tuple(children)
    )
