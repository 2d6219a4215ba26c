"""What an operator's step is: a function from the changes of its inputs to the change of its output, with traces as state.

It depends on its inputs and its traces alone: not on a clock, on randomness, or on the order in which rows arrive (Z-sets have no order; what
depends on one must sort).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa

from engine.model.circuit import NodeBase
from engine.rows.hashing import SHARDS_DEFAULT
from engine.state.store import Store
from engine.state.trace import Combine, Trace, TraceLayout

N = TypeVar("N", bound=NodeBase)

TABLE_FIRST = 16
"""Tables below belong to the engine itself (marker and results of a region)."""

TRACES_MAX = 8
"""Traces a node may have: node n owns the tables TABLE_FIRST + n * TRACES_MAX and on."""


@dataclass
class StepContext:
    """What an operator may know of the step. `append_only[i]`: no change of input i can ever hold a negative weight."""

    store: Store
    step: int
    node: int
    append_only: tuple[bool, ...]
    shards: int = SHARDS_DEFAULT
    owns_keyless: bool = True
    """Whether this worker owns the shard of the empty key: rows without key live there."""
    partitions: dict[str, int] = field(default_factory=dict)
    """Partitions of every output topic, by handle."""
    grown: frozenset[str] = frozenset()
    """Sources whose topic has more partitions than when the state began, as the step's division recorded it."""

    def trace(
        self,
        slot: int,
        types: Sequence[pa.DataType],
        key: Sequence[int],
        combines: Sequence[Combine] = ("sum",),
        accumulator_types: Sequence[pa.DataType] = (pa.int64(),),
        ordered: bool = False,
    ) -> Trace:
        """The node's trace number `slot`."""
        assert 0 <= slot < TRACES_MAX
        table = TABLE_FIRST + self.node * TRACES_MAX + slot
        layout = TraceLayout(table, tuple(types), tuple(key), tuple(combines), tuple(accumulator_types), ordered)
        return Trace(self.store, layout, self.shards)


StepFunction = Callable[[N, Sequence[pa.Table], StepContext], pa.Table]
"""`step(node, inputs, context)`: `inputs[i]` is the change of node.inputs[i]; the result has node.types and a weight."""
