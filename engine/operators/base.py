"""The step function of an operator: from the changes of its inputs to the change of its output, with traces as state.

The result depends only on the inputs and the traces. It depends neither on a clock nor on randomness nor on the order in which rows arrive.
Z-sets have no order, so a function that needs one must sort.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import pyarrow as pa

from base.ranges import Range
from base.slots import SLOTS
from engine.expressions.evaluate import evaluate, try_evaluate
from engine.model.node import Expression, NodeBase
from engine.model.numbers import TRACES_MAX, table_of
from engine.operators.arrangement import Key
from engine.operators.error_rows import ErrorRows, leave_out_errors
from engine.operators.facts import PartFacts, RunFacts, StepFacts
from engine.operators.keys import ColocatedKey
from engine.state.runs import Combine, TraceLayout
from engine.state.store import Store
from engine.state.trace import Trace

N = TypeVar("N", bound=NodeBase)


@dataclass
class TimeReport:
    """What the operators of a step say of event time, for people. `late`: the number of late rows that were left out, by node. `watermarks`:
    the watermark after the step in microseconds, by Watermark node, on the worker that keeps it."""

    late: dict[int, int] = field(default_factory=dict)
    watermarks: dict[int, int] = field(default_factory=dict)

    def add_late(self, node: int, rows: int) -> None:
        self.late[node] = self.late.get(node, 0) + rows


class Lacks(NamedTuple):
    """The message does not have the value of the column number `column`, and there is no former row that has it."""

    column: int


class RowElsewhere(NamedTuple):
    """The message changes the key of a row, and the row of the former key is of another partition. `key`: the values of the former key as text,
    in the order of the table's key. `partition`: that of the row."""

    key: tuple[str, ...]
    partition: int


class Refused(NamedTuple):
    """A message of a source that only the state shows to be malformed."""

    handle: str
    partition: int
    offset: int
    why: Lacks | RowElsewhere


class Work(NamedTuple):
    """What a step has cost, for people: the time in milliseconds, and the rows that came out."""

    ms: float = 0.0
    rows: int = 0


K = TypeVar("K")


def add_work(found: dict[K, Work], owner: K, work: Work) -> None:
    """Adds what was measured of `owner` to what was found of it before."""
    before = found.get(owner, Work())
    found[owner] = Work(before.ms + work.ms, before.rows + work.rows)


@dataclass
class Findings:
    """What the operators of a stage find beside their output. `errors`: what the step changes in the error rows of nodes, by node, as far as it
    counts them. `refused`: the messages that the state has shown to be malformed. They were left out, whatever the policy of their source is.
    `work`: of the nodes of each view, source and output together, by its own node. `border_us`: the earliest time after that of the step at
    which a row enters or leaves a view because of the clock, among the rows of the step; among all rows of this worker if the step
    asks for it (`DivisionFacts.asks_border`). None: there is none."""

    times: TimeReport = field(default_factory=TimeReport)
    errors: dict[int, ErrorRows] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)
    work: dict[int, Work] = field(default_factory=dict, compare=False)
    border_us: int | None = None

    def note_border(self, border_us: int) -> None:
        self.border_us = border_us if self.border_us is None else min(border_us, self.border_us)

    def note_work(self, owner: int, ms: float, rows: int = 0) -> None:
        add_work(self.work, owner, Work(ms, rows))

    def add(self, later: Findings) -> None:
        """Adds those of a later stage. Each node is in one stage."""
        self.times.late.update(later.times.late)
        self.times.watermarks.update(later.times.watermarks)
        self.errors.update(later.errors)
        self.refused += later.refused
        for owner, work in later.work.items():
            add_work(self.work, owner, work)
        if later.border_us is not None:
            self.note_border(later.border_us)


@dataclass
class StepContext:
    """Through what an operator reaches its state and what it may know. `node`: the number of its node in the circuit."""

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
        """The key of input `number` by which its rows are stored. All columns of the input's place must be in it."""
        colocation = self.colocation[number]
        assert colocation is not None, f"node {self.node} has state, and input {number} has no place"
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
