"""Splits the condition of a join into equalities between the sides, the NOT IN form, and the rest.

`a = b` and `a <=> b` are equalities if one operand reads only the left side and the other only the right side. NOT IN
is `a = b OR isnull(a = b)`, which means true or unknown. Spark itself rewrites equalities of floating-point numbers, so
that -0.0 and NaN compare as keys. It then writes `a <=> b` as two plain equalities:
`coalesce(a, 0.0) = coalesce(b, 0.0) AND isnull(a) = isnull(b)`.
"""

from __future__ import annotations

from dataclasses import dataclass

from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.expressions.comparison import operands
from stepwell.lowering.trees import call, canonical, conjuncts, references


@dataclass(frozen=True, eq=False)
class Equality:
    """An equality of a join's condition. `left` reads only the left side, and `right` only the right side."""

    left: TreeNode
    right: TreeNode
    null_safe: bool

    def swap_sides(self) -> Equality:
        return Equality(self.right, self.left, self.null_safe)

    def or_unknown(self) -> TreeNode:
        equal = call("EqualTo", left=self.left, right=self.right)
        return call("Or", left=equal, right=call("IsNull", child=equal))


@dataclass(frozen=True, eq=False)
class Condition:
    """A join's condition. It is the conjunction of the three fields."""

    equalities: tuple[Equality, ...]
    not_in: tuple[Equality, ...]
    residual: tuple[TreeNode, ...]

    def swap_sides(self) -> Condition:
        """Returns the same condition of a join whose sides are exchanged."""
        equalities, not_in = (tuple(e.swap_sides() for e in part) for part in (self.equalities, self.not_in))
        return Condition(equalities, not_in, self.residual)

    @property
    def is_only_a_not_in(self) -> bool:
        """Whether it is one NOT IN of one column and nothing else."""
        return len(self.not_in) == 1 and not self.equalities and not self.residual

    def without_not_in(self) -> Condition:
        """Returns the same condition, in which every NOT IN is a part of the residual."""
        unknown = tuple(equality.or_unknown() for equality in self.not_in)
        return Condition(self.equalities, (), (*self.residual, *unknown))


def take_apart(
    condition: TreeNode | None, left: frozenset[int], right: frozenset[int], values: frozenset[int] = frozenset()
) -> Condition:
    """Splits `condition`. `left` and `right` are the ids of the columns of each side. `values` are the ids of the values of subqueries, which
    an operand may read on either side."""
    sides = _Sides(left, right, values)
    equalities: list[Equality] = []
    not_in: list[Equality] = []
    residual: list[TreeNode] = []
    for part in conjuncts(condition):
        if equality := _equality(part, sides):
            equalities.append(equality)
        elif equality := _not_in(part, sides):
            not_in.append(equality)
        else:
            residual.append(part)
    return Condition(tuple(equalities), tuple(not_in), tuple(residual))


@dataclass(frozen=True)
class _Sides:
    left: frozenset[int]
    right: frozenset[int]
    values: frozenset[int]

    def is_left(self, tree: TreeNode) -> bool:
        """Whether `tree` reads columns of the left side, and none of the right."""
        return self._reads_only(tree, self.left)

    def is_right(self, tree: TreeNode) -> bool:
        return self._reads_only(tree, self.right)

    def _reads_only(self, tree: TreeNode, side: frozenset[int]) -> bool:
        read = references(tree) - self.values
        return bool(read) and read <= side


def _equality(tree: TreeNode, sides: _Sides) -> Equality | None:
    if tree.kind not in ("EqualTo", "EqualNullSafe"):
        return None
    one, other = operands(tree)
    null_safe = tree.kind == "EqualNullSafe"
    if sides.is_left(one) and sides.is_right(other):
        return Equality(one, other, null_safe)
    if sides.is_right(one) and sides.is_left(other):
        return Equality(other, one, null_safe)
    return None


def _not_in(tree: TreeNode, sides: _Sides) -> Equality | None:
    if tree.kind != "Or" or tree.children[1].kind != "IsNull":
        return None
    equal, unknown = tree.children[0], tree.children[1].children[0]
    if equal.kind != "EqualTo" or canonical(equal) != canonical(unknown):
        return None
    return _equality(equal, sides)
