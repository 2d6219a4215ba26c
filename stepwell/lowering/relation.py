"""What a plan node has become: a circuit node, and the filter and projection still to be applied to it.

Filters and projections wait in the relation until something needs real columns; so a chain of them becomes one Map, and
columns that no one reads are never carried.
"""

from __future__ import annotations

from dataclasses import dataclass

from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.trees import expression_id


@dataclass(frozen=True, eq=False)
class Output:
    """One column that a plan node offers: the id under which the nodes above refer to it, and its value."""

    id: int
    tree: TreeNode  # reads columns of the relation's circuit node only


@dataclass(frozen=True, eq=False)
class Relation:
    """`outputs` of those rows of circuit node `node` for which all of `predicates` are true."""

    node: int
    columns: tuple[int, ...]  # columns[i]: the id of column i of `node`; an id twice means two equal columns
    outputs: tuple[Output, ...]
    predicates: tuple[TreeNode, ...] = ()

    @property
    def pending(self) -> bool:
        """Whether anything is left to apply, so that the circuit node alone is not this relation."""
        if self.predicates or len(self.outputs) != len(self.columns):
            return True
        return any(
            output.tree.kind != "AttributeReference" or expression_id(output.tree) != column
            for output, column in zip(self.outputs, self.columns, strict=True)
        )

    @property
    def identifiers(self) -> tuple[int, ...]:
        """The ids under which the nodes above refer to the outputs."""
        return tuple(output.id for output in self.outputs)

    def position(self, identifier: int) -> int:
        """The column of the circuit node with this id."""
        return self.columns.index(identifier)
