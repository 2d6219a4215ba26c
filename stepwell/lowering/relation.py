"""The result of lowering a plan node: a circuit node, with a filter and a projection that are still to be applied to it.

Filters and projections stay pending in the relation until a rule needs real columns. So a chain of them becomes one Map,
and columns that nothing reads are never computed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.trees import attribute, expression_id


@dataclass(frozen=True, eq=False)
class Output:
    """One output column of a plan node: its value, and the id by which the nodes above refer to it."""

    id: int
    tree: TreeNode  # reads only columns of the relation's circuit node


def passed_on(outputs: Iterable[Output]) -> list[Output]:
    """Projections that only pass on these outputs."""
    return [Output(output.id, attribute(output.id, "", None)) for output in outputs]


@dataclass(frozen=True, eq=False)
class Relation:
    """The `outputs` of those rows of circuit node `node` for which all `predicates` are true."""

    node: int
    columns: tuple[int, ...]  # columns[i] is the id of column i of `node`; columns with the same id are equal
    outputs: tuple[Output, ...]
    predicates: tuple[TreeNode, ...] = ()

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
    def identifiers(self) -> tuple[int, ...]:
        """The ids by which the nodes above refer to the outputs."""
        return tuple(output.id for output in self.outputs)

    def position(self, identifier: int) -> int:
        """The column of the circuit node with this id."""
        return self.columns.index(identifier)
