"""The operators without memory: what they do to a change is what they do to the whole."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from engine.expressions.evaluate import evaluate
from engine.model.circuit import Constant, Map, Union
from engine.operators.base import StepContext
from engine.rows import zset


def step_map(node: Map, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    """Filter and project, row by row; weights stay."""
    if inputs[0].num_rows == 0:
        return zset.empty(node.types)
    return evaluate(node.predicate, node.projections, inputs[0])


def step_union(node: Union, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    return zset.add(inputs)


def step_constant(node: Constant, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    """All rows at step 0, on the worker that owns rows without key; nothing afterwards."""
    if context.step > 0 or not context.owns_keyless:
        return zset.empty(node.types)
    table = pa.ipc.open_stream(node.ipc).read_all()
    return zset.build(table.columns, np.ones(table.num_rows, np.int64)).cast(zset.schema_of(node.types))
