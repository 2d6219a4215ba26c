"""The result of lowering a plan node: a circuit node, with a filter and a projection that are still to be applied to it.

Filters and projections stay pending in the relation until a rule needs real columns. So a chain of them becomes one Map,
and columns that nothing reads are never computed.

The order of an ORDER BY stays pending too. Its keys are hidden outputs, which become columns only where a rule reads the order, or hands it on
to one that does (`rules/order.py`). A new relation that a rule makes has no order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.trees import attribute, expression_id


@dataclass(frozen=True, eq=False)
class PlanOutput:
    """One output column of a plan node: its value, and the id by which the nodes above refer to it."""

    id: int
    tree: TreeNode  # reads only columns of the relation's circuit node


def pass_on(outputs: Iterable[PlanOutput]) -> list[PlanOutput]:
    """Projections that only pass on these outputs."""
    return [PlanOutput(output.id, attribute(output.id, "", None)) for output in outputs]


@dataclass(frozen=True)
class Key:
    """A sort key: the id of the output, or of the hidden output, with the value."""

    id: int
    ascending: bool
    nulls_first: bool


@dataclass(frozen=True, eq=False)
class RowOrder:
    """The order of the rows of a relation. `keys`: the most significant first. `hidden`: outputs besides those of the plan node, for keys and
    columns of `within` that it does not have. `within`: the ids of columns; only rows that agree in them have the order. `sorts`: the Sort nodes
    from which it comes; none if it comes from windows alone. `local`: whether it is that of SORT BY, which does not order all rows."""

    keys: tuple[Key, ...]
    hidden: tuple[PlanOutput, ...]
    within: tuple[int, ...]
    sorts: tuple[TreeNode, ...]
    local: bool

    def project(self, wanted: Iterable[PlanOutput]) -> RowOrder:
        """The order above a projection to `wanted`, which reads the outputs. A column that it drops becomes a hidden output, which reads it."""
        trees = [(output.tree, output.id) for output in wanted]
        kept = {expression_id(tree): id_ for tree, id_ in trees if tree.kind == "AttributeReference"}
        known = {output.id for output in self.hidden}
        read = dict.fromkeys((*(key.id for key in self.keys), *self.within))
        dropped = (PlanOutput(id_, attribute(id_, "", None)) for id_ in read if id_ not in kept and id_ not in known)
        keys = tuple(replace(key, id=kept.get(key.id, key.id)) for key in self.keys)
        within = tuple(kept.get(id_, id_) for id_ in self.within)
        return replace(self, keys=keys, within=within, hidden=(*self.hidden, *dropped))


@dataclass(frozen=True, eq=False)
class Relation:
    """The `outputs` of those rows of circuit node `node` for which all `predicates` are true. The order's hidden outputs read columns of the
    node as the outputs do."""

    node: int
    columns: tuple[int, ...]  # columns[i] is the id of column i of `node`; columns with the same id are equal
    outputs: tuple[PlanOutput, ...]
    predicates: tuple[TreeNode, ...] = ()
    order: RowOrder | None = None

    @property
    def pending(self) -> bool:
        """Whether a filter or projection is still to be applied to the circuit node."""
        if self.predicates or len(self.outputs) != len(self.columns):
            return True
        return any(
            output.tree.kind != "AttributeReference" or expression_id(output.tree) != column
            for output, column in zip(self.outputs, self.columns, strict=True)
        )

    @property
    def revealed(self) -> Relation:
        """The relation with the hidden outputs of its order behind the others, and without the order."""
        hidden = () if self.order is None else self.order.hidden
        return Relation(self.node, self.columns, (*self.outputs, *hidden), self.predicates)

    def with_order(self, order: RowOrder | None) -> Relation:
        """The relation with this order. Its outputs that have the ids of hidden ones become hidden."""
        if order is None:
            return replace(self, order=None)
        places = {output.id for output in order.hidden}
        visible = tuple(output for output in self.outputs if output.id not in places)
        hidden = tuple(output for output in self.outputs if output.id in places)
        return replace(self, outputs=visible, order=replace(order, hidden=hidden))

    @property
    def identifiers(self) -> tuple[int, ...]:
        """The ids by which the nodes above refer to the outputs."""
        return tuple(output.id for output in self.outputs)

    def position(self, identifier: int) -> int:
        """The column of the circuit node with this id."""
        return self.columns.index(identifier)
