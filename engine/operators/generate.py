"""Generate: several rows made of one (explode and its family). It is linear and has no state: the change of the output is the operator applied
to the change of the input, and a row keeps its weight in all rows that are made of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import as_lists, fill
from engine.model.rows import Generate
from engine.operators import node_texts
from engine.operators.arrangement import Arrangement, Key
from engine.operators.context import StepContext
from engine.operators.descriptor import FOLLOWS_INPUTS, PLAIN_OUTPUT, ContentOfInput, Operator, StateUse, Wording
from engine.operators.names import named_by, names_at
from engine.rows import zset


def step_generate(node: Generate, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    return _generate(node, inputs[0])


def _generate(node: Generate, rows: pa.Table) -> pa.Table:
    if rows.num_rows == 0:
        return zset.empty(node.types)
    lists = rows.column(node.collection).combine_chunks()
    lists = as_lists(lists) if pa.types.is_map(lists.type) else lists
    lengths = fill(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    counts = np.maximum(lengths, 1) if node.outer else lengths
    of_row = np.repeat(np.arange(rows.num_rows), counts)
    position = np.arange(len(of_row)) - np.repeat(np.cumsum(counts) - counts, counts)
    made = position < lengths[of_row]  # false for the row that an empty list gives
    # The elements of null lists are not among those of `flatten`.
    place = pa.array((np.cumsum(lengths) - lengths)[of_row] + position, mask=~made)
    elements = pc.list_flatten(lists).take(place)
    columns = [zset.take(rows.column(column), pa.array(of_row)) for column in node.kept]
    if node.position:
        columns.append(pa.array(position.astype(np.int32), mask=~made))
    columns += elements.flatten() if node.fields else [elements]
    return zset.as_schema(zset.build(columns, zset.weights_of(rows)[of_row]), zset.schema_of(node.types))


def _arrange(node: Generate, inputs: Sequence[Key | None]) -> Arrangement:
    (colocation,) = inputs
    if colocation is None or not set(colocation) <= set(node.kept):
        return Arrangement((None,), None)
    return Arrangement((None,), tuple(node.kept.index(column) for column in colocation))


def _text(node: Generate) -> str:
    kept = f"beside {node_texts.columns(node.kept)}" if node.kept else "alone"
    return f"a row for each element of c{node.collection}{', or one row of nulls' if node.outer else ''}, {kept}"


GENERATE = Operator(
    node=Generate,
    implementation_version=1,
    step=step_generate,
    arrange=_arrange,
    output=PLAIN_OUTPUT,
    growth=FOLLOWS_INPUTS,
    state=StateUse(
        keeps=lambda node, append_only: "",
        content=ContentOfInput(lambda node, content: _generate(node, content)),
        fed=None,
        traces_in_recursion=0,
    ),
    wording=Wording(
        columns=named_by(lambda node, inputs, naming: names_at(node.kept, inputs[0])),
        text=_text,
        user_name=lambda node: None,
    ),
)
