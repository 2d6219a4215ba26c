"""The step function of an operator, and what it may use.

It leads from the changes of the inputs to the change of the output, with traces as state. The result depends only on the inputs and the traces.
It depends neither on a clock nor on randomness nor on the order in which rows arrive. Z-sets have no order, so a function that needs one must
sort.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa

from base.ranges import Range
from base.slots import SLOTS
from engine.expressions.evaluate import evaluate, failing_rows, try_evaluate
from engine.model.node import Expression, NodeBase
from engine.model.numbers import TRACES_MAX, table_of
from engine.operators.arrangement import Key
from engine.operators.error_rows import ErrorRows, leave_out_errors
from engine.operators.facts import PartFacts, RunFacts, StepFacts
from engine.operators.findings import Findings
from engine.operators.keys import ColocatedKey
from engine.state.runs import Combine, TraceLayout
from engine.state.store import Store
from engine.state.trace import Trace

N = TypeVar("N", bound=NodeBase)


@dataclass
class StepContext:
    """What a step function may use: the state of the operator, and facts of the run and of the step. `node`: the index of its node in the
    circuit."""

    run: RunFacts
    step: StepFacts
    store: Store
    node: int
    found: Findings = field(default_factory=Findings)
    errors: ErrorRows | None = None
    """Where the step counts the node's error rows. None: an error ends the step."""
    part: PartFacts | None = None
    """What holds for an operator within a Recursion; None for any other."""
    slots: Range | None = None
    """If the content is read: of which slots (see Fed in descriptor.py). None: of all."""

    @property
    def is_first(self) -> bool:
        """Whether this is the first step of the node: in it, constants are inserted and aggregates without groups get their row."""
        begins = self.run.begins is None or self.node in self.run.begins or self.step.first == 0
        return begins and self.step.division.number == self.step.first

    @property
    def append_only(self) -> tuple[bool, ...]:
        """For each input, whether no change of it can ever have a negative weight."""
        return self.run.append_only[self.node] if self.part is None else self.part.append_only

    @property
    def colocation(self) -> tuple[Key | None, ...]:
        """For each input, the columns by whose hash its rows lie on this worker. None: they may lie on any worker."""
        return self.step.colocation[self.node] if self.part is None else self.part.colocation

    @property
    def reads_keyless(self) -> bool:
        """Whether slot 0, to which rows without a key belong, is this worker's and among the slots that are read."""
        first, end = (0, SLOTS) if self.slots is None else self.slots
        return self.step.owns_keyless and first == 0 < end

    def evaluate(
        self, predicate: Expression | None, projections: tuple[Expression, ...], rows: pa.Table, sign: int = 1
    ) -> pa.Table:
        """Returns what `evaluate` of the expressions returns, without the error rows if the step counts them. `sign`: see ErrorRows.add."""
        if self.errors is None:
            return evaluate(predicate, projections, rows)
        return leave_out_errors(
            self.errors,
            lambda part: try_evaluate(predicate, projections, part),
            lambda row: evaluate(predicate, projections, row),
            rows,
            sign=sign,
            types=[projection.type for projection in projections],
            failing_rows=lambda part: failing_rows(predicate, projections, part),
        )

    def trace(
        self,
        trace_number: int,
        types: Sequence[pa.DataType],
        key: Sequence[int],
        combines: Sequence[Combine] = ("sum",),
        accumulator_types: Sequence[pa.DataType] = (pa.int64(),),
        *,
        ordered: bool = False,
    ) -> Trace:
        """The node's trace number `trace_number`."""
        number = trace_number if self.part is None else self.part.first_trace + trace_number
        assert 0 <= number < TRACES_MAX
        table = table_of(self.run.numbers[self.node]) + number
        layout = TraceLayout(
            table,
            tuple(types),
            key=tuple(key),
            combines=tuple(combines),
            accumulator_types=tuple(accumulator_types),
            ordered=ordered,
        )
        return Trace(self.store, layout, self.slots)

    def key(self, number: int, columns: Sequence[int]) -> ColocatedKey:
        """The key of input `number` by which its rows are stored. All columns of the input's co-location key must be in it."""
        colocation = self.colocation[number]
        assert colocation is not None, f"node {self.node} has state, and input {number} has no co-location key"
        assert set(colocation) <= set(columns), (
            f"node {self.node}: input {number} lies by {colocation}, and its key is {columns}"
        )
        return ColocatedKey(tuple(columns), tuple(columns.index(column) for column in colocation))

    def join_keys(self, left: Sequence[int], right: Sequence[int]) -> tuple[ColocatedKey, ColocatedKey]:
        """The keys of the two inputs of a join. Equal keys of both sides have equal hashes."""
        keys = self.key(0, left), self.key(1, right)
        one, other = self.colocation[:2]
        assert one is not None and other is not None
        # A column may be in several pairs of the key (x = a AND x = b). Then its positions in the key have equal values, so any of them will do.
        colocated = zip(one, other, strict=True)
        assert set(colocated) <= set(zip(left, right, strict=True)), (
            f"node {self.node}: its inputs lie by different columns of the key"
        )
        return keys


StepFunction = Callable[[N, Sequence[pa.Table], StepContext], pa.Table]
"""`step(node, inputs, context)`: `inputs[i]` is the change of node.inputs[i]. The result has columns of node.types and a weight."""
