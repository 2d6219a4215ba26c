"""Join: inner, outer, semi and anti joins, and the joins that Spark makes of subqueries: the existence join of an IN or EXISTS under OR, and the
left outer join of a subquery that stands for a value.

`join_condition` splits the condition. The equalities between the sides are the key, by which both sides are partitioned
and stored. The rest is the residual, which is evaluated for pairs with equal keys. Without an equality all rows have the
same key and meet on one worker. The result is correct, but a note is made because this does not scale.
"""

from __future__ import annotations

from dataclasses import replace

from engine.model.joins import Join, OuterJoin, SemiJoin
from stepwell.catalyst.analysed import join_type
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import catalyst_type
from stepwell.lowering.context import Lowering
from stepwell.lowering.errors import UnsupportedPlan
from stepwell.lowering.relation import PlanOutput, Relation, pass_on
from stepwell.lowering.rules import event_time, timed_join
from stepwell.lowering.rules.join_condition import Condition, take_apart
from stepwell.lowering.rules.join_sides import materialise_sides
from stepwell.lowering.rules.union import unite
from stepwell.lowering.trees import (
    attribute,
    attributes,
    conjuncts,
    expression_id,
    literal,
    references,
    substitute,
)

_OTHER_REMEDY = "Write it as an INNER, LEFT, RIGHT or FULL JOIN"


def lower(context: Lowering, node: TreeNode) -> Relation:
    kind = join_type(node)
    if event_time.is_join_of_streams(node):
        return timed_join.join_of_streams(context, node, kind)
    left, right = (context.lower(child) for child in _sides_of(node, kind))
    condition = take_apart(node.get("condition"), _ids(left), _ids(right), context.values.ids)
    if kind in ("Inner", "Cross"):
        return _filtered_join(context, left, right, condition)
    if any(_reads_values(context, equality.or_unknown()) for equality in condition.not_in):
        condition = condition if kind == "LeftAnti" and condition.is_only_a_not_in else condition.without_not_in()
    right, condition, added = _with_values(context, right, condition)
    relation = _by_type(context, node, left, right, condition)
    outputs = tuple(output for output in relation.outputs if output.id not in added)
    return Relation(relation.node, relation.columns, outputs, relation.predicates)


def _filtered_join(context: Lowering, left: Relation, right: Relation, condition: Condition) -> Relation:
    """An inner join. What reads the value of a subquery is a filter of the joined rows, so that the join does not depend on it."""
    late = tuple(tree for tree in condition.residual if _reads_values(context, tree))
    rest = tuple(tree for tree in condition.residual if not _reads_values(context, tree))
    joined = inner(context, left, right, replace(condition, residual=rest))
    for tree in late:
        joined = context.filter(joined, tree)
    return joined


def _with_values(
    context: Lowering, right: Relation, condition: Condition
) -> tuple[Relation, Condition, frozenset[int]]:
    """The right side with a column for each value of a subquery in the residual, the condition that reads these columns, and their ids."""
    read = dict.fromkeys(expression_id(leaf) for tree in condition.residual for leaf in attributes(tree))
    added = {value: context.fresh() for value in read if value in context.values.ids}
    if not added:
        return right, condition, frozenset()
    values = (PlanOutput(new, attribute(value, "", None)) for value, new in added.items())
    columns = {value: attribute(new, "", None) for value, new in added.items()}
    residual = tuple(substitute(tree, columns) for tree in condition.residual)
    widened = context.project(right, (*pass_on(right.outputs), *values))
    return widened, replace(condition, residual=residual), frozenset(added.values())


def _reads_values(context: Lowering, tree: TreeNode) -> bool:
    return not references(tree).isdisjoint(context.values.ids)


def _by_type(context: Lowering, node: TreeNode, left: Relation, right: Relation, condition: Condition) -> Relation:
    kind = join_type(node)
    match kind:
        case "LeftSemi":
            return semi(context, left, right, condition, anti=False)
        case "LeftAnti":
            return semi(context, left, right, condition, anti=True)
        case "ExistenceJoin":
            return existence(context, left, right, condition, _exists_id(node))
        case "LeftOuter" | "FullOuter" | "LeftSingle":
            return outer(context, left, right, condition, kind)
        case "RightOuter":
            exchanged = outer(context, right, left, condition.swap_sides(), "LeftOuter")
            return context.project(exchanged, pass_on(left.outputs + right.outputs))
    raise UnsupportedPlan("Join", f"a join of the type {kind} is not supported", _OTHER_REMEDY)


def _sides_of(node: TreeNode, kind: str) -> tuple[TreeNode, TreeNode]:
    """Both children. A semi or anti join without a condition only asks whether the right side has a row. So Spark puts a LocalLimit there
    (LimitPushDown), which is dropped here because it does not change the result. A user's own LIMIT is a GlobalLimit."""
    left, right = node.children
    if kind in ("LeftSemi", "LeftAnti") and node.get("condition") is None and right.kind == "LocalLimit":
        right = right.children[0]
    return left, right


def inner(context: Lowering, left: Relation, right: Relation, condition: Condition) -> Relation:
    sides = materialise_sides(context, left, right, condition.equalities, condition.residual)
    builder = context.builder
    types = builder.types(sides.left.node) + builder.types(sides.right.node)
    node = Join(
        (sides.left.node, sides.right.node),
        types,
        left_key=sides.left_key,
        right_key=sides.right_key,
        null_safe=sides.null_safe,
        residual=sides.residual,
    )
    columns = sides.left.columns + sides.right.columns
    outputs = sides.left.outputs + sides.right.outputs
    return Relation(builder.add(node), columns, outputs)


def outer(context: Lowering, left: Relation, right: Relation, condition: Condition, kind: str) -> Relation:
    """`kind` is LeftOuter, FullOuter or LeftSingle. A right join is a left join with exchanged sides."""
    if kind == "LeftOuter" and _only_without_match(context, condition):
        return without_match(context, left, right, condition)
    residual = (*condition.residual, *(equality.or_unknown() for equality in condition.not_in))
    sides = materialise_sides(context, left, right, condition.equalities, residual)
    types = context.builder.types(sides.left.node) + context.builder.types(sides.right.node)
    node = OuterJoin(
        (sides.left.node, sides.right.node),
        types,
        full=kind == "FullOuter",
        left_key=sides.left_key,
        right_key=sides.right_key,
        null_safe=sides.null_safe,
        residual=sides.residual,
        single=kind == "LeftSingle",
    )
    columns = sides.left.columns + sides.right.columns
    return Relation(context.builder.add(node), columns, sides.left.outputs + sides.right.outputs)


def without_match(context: Lowering, left: Relation, right: Relation, condition: Condition) -> Relation:
    """Returns the left rows of a left join without a match, with NULLs for the right columns. An anti join stores the number of right rows by
    key, and not the rows, and it does not compute the pairs."""
    found = semi(context, left, right, condition, anti=True)
    types = ((output.id, catalyst_type(context.type_of(output.tree, right))) for output in right.outputs)
    nulls = (PlanOutput(identifier, literal(None, type_)) for identifier, type_ in types)
    return context.project(found, (*pass_on(found.outputs), *nulls))


def _only_without_match(context: Lowering, condition: Condition) -> bool:
    """Whether the Filter above a left join keeps only the rows without a match: it asks for a NULL in a column that is not NULL in any match,
    because an equality compares it. With a further condition an anti join counts matches again at each change, so it would gain nothing."""
    if not context.above or context.above[0].kind != "Filter" or condition.residual or condition.not_in:
        return False
    compared = {
        expression_id(e.right) for e in condition.equalities if e.right.kind == "AttributeReference" and not e.null_safe
    }
    asked = (part.children[0] for part in conjuncts(context.above[0]["condition"]) if part.kind == "IsNull")
    return any(tree.kind == "AttributeReference" and expression_id(tree) in compared for tree in asked)


def semi(context: Lowering, left: Relation, right: Relation, condition: Condition, *, anti: bool) -> Relation:
    equalities, residual = condition.equalities, condition.residual
    null_aware = anti and condition.is_only_a_not_in
    if null_aware:
        equalities = condition.not_in
    else:
        residual = (*residual, *(equality.or_unknown() for equality in condition.not_in))
    sides = materialise_sides(context, left, right, equalities, residual)
    types = context.builder.types(sides.left.node)
    node = SemiJoin(
        (sides.left.node, sides.right.node), types, anti=anti, left_key=sides.left_key, right_key=sides.right_key, null_safe=sides.null_safe,
        residual=sides.residual, null_aware=null_aware,
    )  # fmt: skip
    return Relation(context.builder.add(node), sides.left.columns, sides.left.outputs)


def existence(context: Lowering, left: Relation, right: Relation, condition: Condition, exists: int) -> Relation:
    """Every left row, with a column that says whether it has a match. It is the union of the rows with and without a match."""
    marked = []
    for anti, value in ((False, "true"), (True, "false")):
        found = semi(context, left, right, condition, anti=anti)
        marked.append(context.project(found, (*pass_on(found.outputs), PlanOutput(exists, literal(value, "boolean")))))
    return unite(context, marked)


def _ids(relation: Relation) -> frozenset[int]:
    return frozenset(output.id for output in relation.outputs)


def _exists_id(node: TreeNode) -> int:
    """The id of the column that an existence join adds. The join type is not a tree, so the id is read from Spark's own
    form of it."""
    identifier: int = node["joinType"]["exists"][0]["exprId"]["id"]
    return identifier
