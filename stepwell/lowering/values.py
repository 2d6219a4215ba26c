"""What expressions of a plan read besides columns: the values of subqueries, and the clock.

`take_out` (subqueries.py) has put references in their place. Here a reference becomes a circuit node when it is read first: a ScalarValue over
the rows of the subquery, or the clock. A node that computes with values has them as inputs, and its expressions read the columns of those
inputs behind the columns of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from base.text.timestamps import DAY_US
from engine.model.clock import ClockValue, TemporalFilter
from engine.model.rows import ScalarValue
from stepwell.catalyst.clock import is_clock
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import UnsupportedType
from stepwell.lowering.builder import CircuitBuilder
from stepwell.lowering.clock import add_clock, reads_days_alone
from stepwell.lowering.errors import UnsupportedPlan
from stepwell.lowering.expressions import UnsupportedExpression, fragment_of
from stepwell.lowering.relation import Relation
from stepwell.lowering.subqueries import Value
from stepwell.lowering.trees import attributes, expression_id, references

_VALUE_HERE = "a subquery that stands for a value is not supported in this place"
_VALUE_HERE_REMEDY = (
    "Join it before: FROM t CROSS JOIN (SELECT max(x) AS value FROM ...), and read the column value here"
)
_VALUE_NOTE = (
    "rows that read the value of a subquery are stored, and all of them are computed again when the value changes"
)
_CLOCK_NOTE = (
    "rows that are computed with the clock are stored, and all of them are computed again whenever it has another time: compare the clock in "
    "WHERE with an expression of the row where that is possible, or set stepwell.clock.resolution, to which the time is rounded down"
)
_DATE_NOTE = "rows that are computed with the date are stored, and all of them are computed again each day"
_FILTER_NOTE = "rows are compared with the clock: the state has those that match now or will later, and the others leave it as time passes"
_ENTERING_NOTE = "rows are compared with the clock: the state has those that will match later"
_CLOCK_HERE = "the clock cannot be read in this place"
_CLOCK_HERE_REMEDY = (
    "Compare it with the row in WHERE, or compute with it in SELECT of a view below, and read that column here"
)


class PlanValues:
    """The values that references of one plan stand for. `taken`: by the id of the reference, what it stands for. `rows_of` lowers the plan of
    a subquery into `builder`, and gives the circuit node with its rows. `ids` has all references, and `clocks` those to the clock."""

    def __init__(self, taken: Mapping[int, Value], builder: CircuitBuilder, rows_of: Callable[[TreeNode], int]) -> None:
        self.ids = frozenset(taken)
        self.clocks = frozenset(identifier for identifier, value in taken.items() if is_clock(value.plan))
        self._taken = taken
        self._builder = builder
        self._rows_of = rows_of
        self._nodes: dict[int, int] = {}
        self._clock_rounding_us = 1

    @property
    def plans(self) -> tuple[TreeNode, ...]:
        """The plans of the subqueries."""
        return tuple(value.plan for value in self._taken.values())

    def nodes_of(self, trees: Iterable[TreeNode]) -> tuple[int, ...]:
        """The circuit nodes of the values that `trees` read, in the circuit's order."""
        read = [id_ for tree in trees for id_ in map(expression_id, attributes(tree)) if id_ in self.ids]
        return tuple(sorted({self._node(identifier) for identifier in dict.fromkeys(read)}))

    def _node(self, identifier: int) -> int:
        if identifier in self.clocks:
            return self.clock_node()
        if identifier not in self._nodes:
            with self._clock_rounded(1):
                rows = self._rows_of(self._taken[identifier].plan)
            types = (*self._builder.types(rows), pa.bool_())
            self._nodes[identifier] = self._builder.add(ScalarValue((rows,), types))
        return self._nodes[identifier]

    def clock_node(self) -> int:
        """The circuit node that reads the clock."""
        return add_clock(self._builder, self._clock_rounding_us)

    def column(self, identifier: int, nodes: Sequence[int], before: int) -> tuple[int, pa.DataType]:
        """The column of the value for which a reference stands, and its type. The columns of all `nodes` come after the first `before` ones.
        Raises UnsupportedPlan if none of the nodes has the value."""
        node, column = self._node(identifier), self._taken[identifier].column
        for each in nodes:
            types = self._builder.types(each)[:-1]
            if each == node:
                return before + column, types[column]
            before += len(types)
        if identifier in self.clocks:
            raise UnsupportedPlan("CurrentTimestamp", _CLOCK_HERE, _CLOCK_HERE_REMEDY)
        raise UnsupportedPlan("ScalarSubquery", _VALUE_HERE, _VALUE_HERE_REMEDY)

    @contextmanager
    def clock_as_read_by(self, trees: Iterable[TreeNode]) -> Iterator[None]:
        """In the body, what reads the clock reads it rounded down to days if `trees` read nothing else of it."""
        with self._clock_rounded(DAY_US if reads_days_alone(trees, self.clocks) else 1):
            yield

    @contextmanager
    def _clock_rounded(self, rounding_us: int) -> Iterator[None]:
        before, self._clock_rounding_us = self._clock_rounding_us, rounding_us
        try:
            yield
        finally:
            self._clock_rounding_us = before

    def is_early(self, tree: TreeNode, relation: Relation) -> bool:
        """Whether `tree`, over the columns of the relation's circuit node, reads no value and cannot fail on any row."""
        if not references(tree).isdisjoint(self.ids):
            return False
        columns, types = relation.columns, self._builder.types(relation.node)

        def resolve(identifier: int) -> tuple[int, pa.DataType]:
            position = columns.index(identifier)
            return position, types[position]

        try:
            return not fragment_of(tree, resolve).raises
        except (UnsupportedExpression, UnsupportedType):
            return True  # it is refused where it is emitted

    def note_of(self, nodes: Sequence[int]) -> str:
        """What `dry-run` says of rows that are computed with the values of these nodes."""
        clocks = [node for node in map(self._builder.nodes.__getitem__, nodes) if isinstance(node, ClockValue)]
        if not clocks:
            return _VALUE_NOTE
        return _DATE_NOTE if clocks[0].rounding_us == DAY_US else _CLOCK_NOTE


def filter_note(node: TemporalFilter) -> str:
    """What `dry-run` says of rows that are compared with the clock."""
    return _FILTER_NOTE if node.ends else _ENTERING_NOTE
